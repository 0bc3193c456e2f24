package environment

import (
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/rocketgpt/orchestrator/internal/glob"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
)

// packageJSON is the relevant part of a package.json. Fields that can have several shapes are kept
// raw, because an unexpected shape would make the others unreadable.
type packageJSON struct {
	Scripts              map[string]string `json:"scripts"`
	Dependencies         map[string]any    `json:"dependencies"`
	DevDependencies      map[string]any    `json:"devDependencies"`
	OptionalDependencies map[string]any    `json:"optionalDependencies"`
	PackageManager       string            `json:"packageManager"`
	Engines              json.RawMessage   `json:"engines"`
	DevEngines           json.RawMessage   `json:"devEngines"`
	Workspaces           json.RawMessage   `json:"workspaces"`
}

// engine is an entry of devEngines.
type engine struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// readPackage reads the fields of a package.json that have the usual shape.
func (t *tree) readPackage(p string) packageJSON {
	var fields map[string]json.RawMessage
	var m packageJSON
	if !t.json(p, &fields) {
		return m
	}
	for name, into := range map[string]any{
		"scripts": &m.Scripts, "dependencies": &m.Dependencies, "devDependencies": &m.DevDependencies,
		"optionalDependencies": &m.OptionalDependencies, "packageManager": &m.PackageManager,
		"engines": &m.Engines, "devEngines": &m.DevEngines, "workspaces": &m.Workspaces,
	} {
		_ = json.Unmarshal(fields[name], into) // a field of another shape is ignored
	}
	return m
}

// nodeVariables prevent managers from prompting and from running programs of unavailable services,
// and installations from fetching browsers.
var nodeVariables = map[string]string{
	"HUSKY":                                      "0", // hooks need a git directory
	"ADBLOCK":                                    "1",
	"COREPACK_ENABLE_DOWNLOAD_PROMPT":            "0",
	"COREPACK_ENABLE_STRICT":                     "0",
	"PUPPETEER_SKIP_DOWNLOAD":                    "1",
	"PUPPETEER_SKIP_CHROMIUM_DOWNLOAD":           "1",
	"PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD":           "1",
	"CYPRESS_INSTALL_BINARY":                     "0",
	"ELECTRON_SKIP_BINARY_DOWNLOAD":              "1",
	"CHROMEDRIVER_SKIP_DOWNLOAD":                 "1",
	"GECKODRIVER_SKIP_DOWNLOAD":                  "1",
	"npm_config_engine_strict":                   "false", // missing versions are reported instead
	"npm_config_audit":                           "false",
	"npm_config_fund":                            "false",
	"npm_config_update_notifier":                 "false",
	"npm_config_manage_package_manager_versions": "false", // pnpm would fetch another pnpm
	"YARN_ENABLE_TELEMETRY":                      "0",
	"NEXT_TELEMETRY_DISABLED":                    "1",
}

// nodeLocks are the lock files and the managers that wrote them, in order of precedence.
var nodeLocks = []struct{ file, manager string }{
	{"package-lock.json", "npm"}, {"npm-shrinkwrap.json", "npm"}, {"pnpm-lock.yaml", "pnpm"},
	{"yarn.lock", "yarn"}, {"bun.lock", "bun"}, {"bun.lockb", "bun"},
}

// nodeProject is a directory with a package.json that is installed separately.
type nodeProject struct {
	Project
	manifest packageJSON
	members  []string // directories of its workspace
}

// findNode installs packages. Members of a workspace are installed with its root; a directory below
// the root is installed separately only if it has a lock file or the root has no package.json.
func findNode(f *finder) {
	var projects []nodeProject
	var members []string
	for _, dir := range f.t.folders("package.json") {
		manifest := path.Join(dir, "package.json")
		if slices.Contains(members, dir) {
			f.input(manifest)
			continue
		}
		p := f.readNode(dir)
		if len(projects) > 0 && projects[0].Dir == "." && p.Lock == "" {
			continue
		}
		if !f.project(p.Project) {
			break
		}
		p.members = f.workspace(p)
		projects = append(projects, p)
		members = append(members, p.members...)
	}
	if len(projects) == 0 {
		return
	}
	for name, value := range nodeVariables {
		f.set(name, value)
	}
	f.path(localBin)
	f.drop(".npm/_cacache", ".npm/_logs", ".cache/node-gyp", ".cache/yarn", ".cache/node", ".cache/pnpm", ".bun/install/cache")
	for _, p := range projects {
		f.nodeTools(p)
		f.nodeInstall(p)
	}
}

func (f *finder) readNode(dir string) nodeProject {
	p := nodeProject{manifest: f.t.readPackage(path.Join(dir, "package.json"))}
	p.Project = Project{Dir: dir, Ecosystem: "node", Manager: "npm", Manifest: path.Join(dir, "package.json")}
	name, wanted := p.manifest.manager()
	for _, lock := range nodeLocks {
		if p.Lock = f.t.first(dir, lock.file); p.Lock != "" && (name == "" || name == lock.manager) {
			p.Manager = lock.manager
			break
		}
	}
	if name != "" {
		p.Manager, p.ManagerVersion = name, wanted
	}
	if p.Manager == "yarn" && f.isBerry(p) {
		p.Manager = "yarn-berry"
	}
	if p.ManagerVersion == "" {
		p.ManagerVersion = f.versionByLock(p)
	}
	return p
}

var packageManager = regexp.MustCompile(`^(npm|pnpm|yarn|bun)@(\d+(?:\.\d+){0,2}(?:-[\w.]+)?)(?:\+[\w.=/+-]+)?$`)

// manager returns the package manager that a manifest specifies.
func (m packageJSON) manager() (name, version string) {
	if found := packageManager.FindStringSubmatch(m.PackageManager); found != nil {
		return found[1], found[2]
	}
	for _, e := range m.devEngine("packageManager") {
		if slices.Contains([]string{"npm", "pnpm", "yarn", "bun"}, e.Name) {
			if found := packageManager.FindStringSubmatch(e.Name + "@" + e.Version); found != nil {
				return e.Name, found[2]
			}
			return e.Name, ""
		}
	}
	return "", ""
}

// devEngine reads one field of devEngines, which contains one or several engines.
func (m packageJSON) devEngine(field string) []engine {
	var fields map[string]json.RawMessage
	_ = json.Unmarshal(m.DevEngines, &fields)
	var list []engine
	var one engine
	if json.Unmarshal(fields[field], &list) != nil && json.Unmarshal(fields[field], &one) == nil {
		list = []engine{one}
	}
	return list
}

// isBerry distinguishes yarn 2 and later from yarn 1: by the requested version, the settings file,
// or the lock file, which has metadata only in yarn 2 and later.
func (f *finder) isBerry(p nodeProject) bool {
	if p.ManagerVersion != "" {
		return !strings.HasPrefix(p.ManagerVersion, "1.") && !strings.HasPrefix(p.ManagerVersion, "0.")
	}
	return f.t.has(path.Join(p.Dir, ".yarnrc.yml")) || strings.Contains(f.t.bounded(p.Lock, maxLock), "\n__metadata:\n")
}

var (
	pnpmLock  = regexp.MustCompile(`(?m)^lockfileVersion:\s*'?"?(\d+)(?:\.\d+)?`)
	yarnPaths = regexp.MustCompile(`(?m)^yarnPath:\s*["']?\S*yarn-(\d+\.\d+\.\d+)\.c?js`)
)

// versionByLock returns a version of the manager that writes lock files in this format.
func (f *finder) versionByLock(p nodeProject) string {
	switch p.Manager {
	case "pnpm":
		found := pnpmLock.FindStringSubmatch(f.t.bounded(p.Lock, maxLock))
		if found == nil {
			return ""
		}
		return map[string]string{"5": "7", "6": "8", "9": "10"}[found[1]]
	case "yarn-berry":
		if found := yarnPaths.FindStringSubmatch(f.t.text(path.Join(p.Dir, ".yarnrc.yml"))); found != nil {
			return found[1]
		}
	}
	return ""
}

// workspace lists the directories that are installed together with p, and records the files that
// affect them.
func (f *finder) workspace(p nodeProject) []string {
	for _, name := range []string{".npmrc", ".yarnrc", ".yarnrc.yml", "bunfig.toml", "pnpm-workspace.yaml", ".pnpmfile.cjs", "lerna.json", ".nvmrc", ".node-version"} {
		f.input(path.Join(p.Dir, name))
	}
	patterns := p.manifest.workspaces()
	patterns = append(patterns, pnpmPackages(f.t.text(path.Join(p.Dir, "pnpm-workspace.yaml")))...)
	patterns = slices.DeleteFunc(patterns, func(s string) bool {
		return len(s) > 200 || strings.ContainsAny(s, "{[") || strings.Count(s, "*") > 6 // such patterns take very long to match
	})
	patterns = patterns[:min(len(patterns), maxWords)]
	var members []string
	for _, dir := range f.t.packageDirs(p.Dir) {
		if slices.ContainsFunc(patterns, func(s string) bool { return matches(p.Dir, s, dir) }) {
			members = append(members, dir)
			f.input(path.Join(dir, "package.json"))
		}
	}
	return members
}

// pnpmPackages reads the patterns of a pnpm-workspace.yaml. It is read as a tree, because a small
// file with many keys, decoded into values, can take up gigabytes.
func pnpmPackages(text string) []string {
	var doc yaml.Node
	if yaml.Unmarshal([]byte(text), &doc) != nil || len(doc.Content) == 0 {
		return nil
	}
	packages := field(doc.Content[0], "packages")
	if packages == nil || packages.Kind != yaml.SequenceNode {
		return nil
	}
	var patterns []string
	for _, n := range packages.Content[:min(len(packages.Content), maxWords)] {
		if n.Kind == yaml.ScalarNode {
			patterns = append(patterns, n.Value)
		}
	}
	return patterns
}

// packageDirs lists the directories below dir with a package.json, including side directories: a
// workspace may contain its website.
func (t *tree) packageDirs(dir string) []string {
	var dirs []string
	for _, file := range t.below(dir) {
		if path.Base(file) == "package.json" && path.Dir(file) != dir && len(dirs) < 500 {
			dirs = append(dirs, path.Dir(file))
		}
	}
	return dirs
}

func matches(root, pattern, dir string) bool {
	pattern = path.Join(root, strings.TrimSuffix(strings.TrimPrefix(pattern, "./"), "/"))
	return glob.Match(pattern, dir)
}

// workspaces reads a field with one of two shapes: a list, or an object with the list packages.
func (m packageJSON) workspaces() []string {
	var list []string
	var object struct {
		Packages []string `json:"packages"`
	}
	if json.Unmarshal(m.Workspaces, &list) == nil {
		return list
	}
	_ = json.Unmarshal(m.Workspaces, &object)
	return object.Packages
}

// nodeTools records tools that a manifest requires and the worker lacks.
func (f *finder) nodeTools(p nodeProject) {
	var engines map[string]string
	_ = json.Unmarshal(p.manifest.Engines, &engines)
	wanted := engines["node"]
	for _, e := range p.manifest.devEngine("runtime") {
		if e.Name == "node" && wanted == "" {
			wanted = e.Version
		}
	}
	if wanted != "" {
		f.want("node", wanted, p.Manifest, satisfies)
		return
	}
	for _, name := range []string{".nvmrc", ".node-version"} {
		file := path.Join(p.Dir, name)
		if v := version(f.t.text(file)); v != "" {
			major, _, _ := strings.Cut(v, ".")
			f.want("node", major, file, startsWith)
			return
		}
	}
	f.want("node", "", p.Manifest, nil)
}

// nodeRuns lists the lowest version of Node for each version of a manager.
var nodeRuns = map[string][]struct{ manager, node string }{
	"pnpm":       {{"11", "22.13"}, {"10", "18.12"}, {"9", "18.12"}, {"8", "16.14"}, {"7", "14.6"}, {"6", "12.17"}},
	"yarn-berry": {{"4", "18.12"}, {"3", "12"}, {"2", "12"}},
	"yarn":       {{"1", "4"}},
	"bun":        {{"1", "0"}},
}

// npmPackages are the managers' package names in the registry.
var npmPackages = map[string]string{"pnpm": "pnpm", "yarn": "yarn", "yarn-berry": "@yarnpkg/cli-dist", "bun": "bun"}

// usable returns the version of a manager to install: the requested one if the worker's Node can
// run it, otherwise the newest that it can run.
func (f *finder) usable(p nodeProject) string {
	have := version(f.tools["node"])
	lines := nodeRuns[p.Manager]
	wanted := p.ManagerVersion
	if wanted == "" {
		wanted = lines[min(len(lines)-1, 0)].manager
		for _, line := range lines {
			if atLeast(have, line.node) {
				return line.manager
			}
		}
		return wanted
	}
	major, _, _ := strings.Cut(wanted, ".")
	for n, line := range lines {
		if line.manager != major || have == "" || atLeast(have, line.node) {
			continue
		}
		f.want("node", ">="+line.node, p.Manifest, satisfies) // for the requested manager
		for _, older := range lines[n+1:] {
			if atLeast(have, older.node) {
				return older.manager
			}
		}
	}
	return wanted
}

// nodeInstall installs the manager and then the packages.
func (f *finder) nodeInstall(p nodeProject) {
	if p.Manager != "npm" {
		spec := npmPackages[p.Manager] + "@" + f.usable(p)
		f.run(".", sandbox.Quote("npm", "install", "--global", "--prefix", home+"/.local", spec))
	}
	install := f.nodeCommand(p)
	if len(p.manifest.Dependencies)+len(p.manifest.DevDependencies)+len(p.manifest.OptionalDependencies) == 0 && len(p.manifest.Workspaces) == 0 && p.Lock == "" {
		return
	}
	f.command(Command{Dir: p.Dir, Shell: install, Optional: p.Dir != "." && len(f.r.Projects) > 1})
	for _, dir := range append([]string{p.Dir}, p.members...) {
		if f.t.readPackage(path.Join(dir, "package.json")).usesPlaywright() {
			f.tryRun(dir, browserCommand(p.Manager))
			return
		}
	}
}

// usesPlaywright reports whether a package runs Playwright's tests.
func (m packageJSON) usesPlaywright() bool {
	for _, name := range []string{"@playwright/test", "playwright"} {
		if m.Dependencies[name] != nil || m.DevDependencies[name] != nil {
			return true
		}
	}
	return false
}

// browserCommand installs the Chromium that the installed version of Playwright was made for, and
// its ffmpeg for videos. Old versions have no separate browser without a window. If this fails, tests
// use the worker's Chromium, if there is one.
func browserCommand(manager string) string {
	run := "npx --no-install playwright"
	switch manager {
	case "pnpm":
		run = "pnpm exec playwright"
	case "yarn-berry":
		run = "yarn playwright"
	}
	run = "env -u PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD " + run + " install "
	return firstSuccess(run+"--only-shell chromium", run+"chromium")
}

// nodeCommand first installs strictly from the lock file; then, if that does not match the
// manifest, less strictly; and finally without the packages' own scripts, because missing scripts
// usually matter less than missing packages.
func (f *finder) nodeCommand(p nodeProject) string {
	scripts := ""
	if f.ciHas("--ignore-scripts", "npm", "pnpm", "yarn") {
		scripts = " --ignore-scripts" // as the project itself does
	}
	keep := func(command string) string {
		if p.Lock == "" {
			return command
		}
		return restoring(path.Base(p.Lock), command)
	}
	var commands []string
	switch p.Manager {
	case "pnpm":
		f.drop(".local/share/pnpm/store", ".local/share/pnpm/.tools")
		commands = []string{"pnpm install --frozen-lockfile" + scripts, keep("pnpm install --no-frozen-lockfile" + scripts)}
		if p.Lock == "" {
			commands = []string{"pnpm install --no-lockfile" + scripts}
		}
	case "yarn":
		f.drop(".cache/yarn")
		commands = []string{"yarn install --frozen-lockfile --non-interactive" + scripts, "yarn install --pure-lockfile --ignore-engines --non-interactive" + scripts}
	case "yarn-berry":
		return f.berryCommand(p, keep)
	case "bun":
		commands = []string{"bun install --frozen-lockfile" + scripts, keep("bun install --no-save" + scripts)}
		if p.Lock == "" {
			commands = commands[1:]
		}
	default:
		commands = []string{"npm ci" + scripts, keep("npm install --no-save" + scripts)}
		if p.Lock == "" {
			commands = []string{"npm install --no-package-lock" + scripts}
			if !f.facts.Time.IsZero() {
				then := commands[0] + " --before=" + f.facts.Time.UTC().Format(time.RFC3339)
				return firstSuccess(then, commands[0], commands[0]+" --ignore-scripts")
			}
		}
	}
	if scripts == "" {
		last := commands[0]
		if p.Manager == "yarn" {
			last = commands[1]
		}
		commands = append(commands, last+" --ignore-scripts")
	}
	return firstSuccess(commands...)
}

var (
	nodeLinker  = regexp.MustCompile(`(?m)^nodeLinker:\s*["']?([\w-]+)`)
	berryOnline = `env ${HTTPS_PROXY:+YARN_HTTPS_PROXY="$HTTPS_PROXY" YARN_HTTP_PROXY="$HTTPS_PROXY"} `
)

// berryCommand is for yarn 2 and later, which ignore the usual proxy variables. With Plug'n'Play,
// programs import from yarn's cache.
func (f *finder) berryCommand(p nodeProject, keep func(string) string) string {
	linker := nodeLinker.FindStringSubmatch(f.t.text(path.Join(p.Dir, ".yarnrc.yml")))
	if !f.t.isDir(path.Join(p.Dir, ".yarn/cache")) {
		f.set("YARN_ENABLE_GLOBAL_CACHE", "true")
		if linker != nil && linker[1] != "pnp" {
			f.drop(".yarn/berry/cache", ".yarn/berry/metadata")
		}
	}
	install := berryOnline + "yarn install"
	return firstSuccess(install+" --immutable",
		keep("YARN_ENABLE_IMMUTABLE_INSTALLS=false "+install),
		keep("YARN_ENABLE_SCRIPTS=false YARN_ENABLE_IMMUTABLE_INSTALLS=false "+install))
}
