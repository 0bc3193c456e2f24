package environment

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/internal/sandbox"
)

// pythonManifests are the files that identify a Python project.
var pythonManifests = []string{"pyproject.toml", "setup.py", "setup.cfg", "Pipfile", "requirements.txt"}

// pythonProject is a directory with a manifest, and its content.
type pythonProject struct {
	Project
	toml   table  // pyproject.toml
	cfg    ini    // setup.cfg
	setup  string // setup.py
	venv   string // where its packages are installed
	pkg    bool   // it can be installed itself
	nested bool   // not the first project
}

var pythonDrops = []string{".cache/pip", ".cache/uv", ".cache/pypoetry", ".cache/pdm", ".cache/pipenv", ".local/share/uv"}

// findPython installs the packages that the tests of Python projects import, into one virtual
// environment. A nested project with a lock file has its own, because its versions would conflict
// with the others.
func findPython(f *finder) {
	var root *pythonProject
	for _, dir := range f.pythonFolders() {
		p := f.readPython(dir)
		if root != nil && p.Lock == "" && (root.pkg || root.Lock != "") {
			f.input(p.Manifest) // part of the root's project, or irrelevant to its tests
			continue
		}
		p.venv = home + "/.venv"
		if p.nested = root != nil; p.nested && p.Lock != "" {
			p.venv += "-" + slug(dir)
		}
		if !f.project(p.Project) {
			break
		}
		if root == nil {
			root = &p
			f.set("VIRTUAL_ENV", p.venv)
			f.set("PIP_DISABLE_PIP_VERSION_CHECK", "1")
			f.set("PIP_NO_INPUT", "1")
			f.drop(pythonDrops...)
		}
		f.path(p.venv + "/bin")
		f.pythonInstall(p)
	}
	if root != nil {
		f.path(localBin)
	}
}

// pythonFolders lists the directories of Python projects. A repository without a manifest counts as
// one if no other project was detected and it has tests for pytest.
func (f *finder) pythonFolders() []string {
	dirs := f.t.folders(append(slices.Clone(pythonManifests), "uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock")...)
	dirs = slices.DeleteFunc(dirs, func(dir string) bool {
		p := f.readPython(dir)
		return !p.pkg && p.Lock == "" && p.Manager == "pip" && len(f.conventionalFiles(dir)) == 0 && len(p.toml.table("dependency-groups")) == 0
	})
	if len(dirs) == 0 && (f.t.first(".", "pyproject.toml", "setup.cfg", "pytest.ini", "tox.ini", "conftest.py") != "" || len(f.r.Projects) == 0) && f.usesPytest(".") {
		return []string{"."}
	}
	return dirs
}

func (f *finder) readPython(dir string) pythonProject {
	p := pythonProject{Project: Project{Dir: dir, Ecosystem: "python", Manager: "pip"}}
	p.Manifest = f.t.first(dir, append(slices.Clone(pythonManifests), "tox.ini", "pytest.ini", "conftest.py")...)
	p.toml = f.t.table(path.Join(dir, "pyproject.toml"))
	p.cfg = f.t.ini(path.Join(dir, "setup.cfg"))
	p.setup = f.t.text(path.Join(dir, "setup.py"))
	p.pkg = p.setup != "" || p.cfg.value("metadata", "name") != "" ||
		p.toml.has("project") || p.toml.has("build-system") || p.toml.has("tool", "poetry", "name")
	poetry := p.toml.table("tool", "poetry")
	for _, m := range []struct {
		manager, lock string
		without       bool // lock file
	}{
		{"uv", "uv.lock", false},
		{"poetry", "poetry.lock", poetry["dependencies"] != nil},
		{"pdm", "pdm.lock", false},
		{"pipenv", "Pipfile.lock", f.t.has(path.Join(dir, "Pipfile"))},
	} {
		if p.Lock = f.t.first(dir, m.lock); p.Lock != "" || m.without && !p.toml.has("project", "dependencies") {
			p.Manager = m.manager
			break
		}
	}
	if p.Manager == "uv" {
		p.ManagerVersion = p.toml.str("tool", "uv", "required-version")
	}
	if p.Manager == "poetry" {
		p.ManagerVersion = p.toml.str("tool", "poetry", "requires-poetry")
	}
	if p.Manager == "pipenv" {
		p.Manifest = f.t.first(dir, "Pipfile", "Pipfile.lock")
	}
	return p
}

// pythonInstall creates and fills the virtual environment.
func (f *finder) pythonInstall(p pythonProject) {
	f.pythonInputs(p)
	f.pythonVersion(p)
	f.pretendVersion(p)
	n := f.pythonNeeds(p)
	f.input(n.files...)
	f.command(Command{Dir: ".", Shell: sandbox.Quote("python3", "-m", "venv", p.venv), Optional: p.nested})
	switch p.Manager {
	case "uv":
		f.uv(p, n)
	case "poetry":
		f.poetry(p, n)
	case "pdm":
		f.pdm(p, n)
	case "pipenv":
		f.pipenv(p)
	default:
		f.pip(p, n)
		return
	}
	if extra := f.missingTestPackages(p, n, f.t.bounded(p.Lock, maxLock)); len(extra) > 0 {
		f.tryRun(p.Dir, sandbox.Quote(append([]string{p.venv + "/bin/python", "-m", "pip", "install"}, extra...)...))
	}
}

func (f *finder) pythonInputs(p pythonProject) {
	for _, name := range []string{"pyproject.toml", "setup.py", "setup.cfg", ".python-version", "tox.ini", "noxfile.py", "pytest.ini", "uv.toml", "poetry.toml", "MANIFEST.in"} {
		f.input(path.Join(p.Dir, name))
	}
}

var pythonRequires = regexp.MustCompile(`python_requires\s*=\s*["']([^"'\n]{1,100})["']`)

// pythonVersion records a Python version that is required but missing.
func (f *finder) pythonVersion(p pythonProject) {
	wanted, from := p.toml.str("project", "requires-python"), path.Join(p.Dir, "pyproject.toml")
	if wanted == "" {
		wanted = p.toml.str("tool", "poetry", "dependencies", "python")
	}
	if wanted == "" {
		wanted, from = p.cfg.value("options", "python_requires"), path.Join(p.Dir, "setup.cfg")
	}
	if found := pythonRequires.FindStringSubmatch(p.setup); wanted == "" && found != nil {
		wanted, from = found[1], path.Join(p.Dir, "setup.py")
	}
	if wanted != "" {
		f.want("python", wanted, from, satisfiesPython)
		return
	}
	file := path.Join(p.Dir, ".python-version")
	if v := version(f.t.text(file)); v != "" {
		f.want("python", v, file, startsWith)
		return
	}
	f.want("python", "", p.Manifest, nil)
}

var gitVersion = regexp.MustCompile(`(\d+(?:\.\d+)*)(?:-(\d+)-g([0-9a-f]+))?$`)

// packageVersion converts git's description into a Python version, as setuptools_scm would.
func packageVersion(described string) string {
	found := gitVersion.FindStringSubmatch(clip(described, 200))
	if found == nil {
		return "0.0.0"
	}
	if found[2] == "" {
		return found[1]
	}
	parts := strings.Split(found[1], ".")
	parts[len(parts)-1] = increment(parts[len(parts)-1])
	return strings.Join(parts, ".") + ".dev" + found[2] + "+g" + found[3]
}

// pretendVersion provides the version from git to build backends that would query git, because
// there is no git directory.
func (f *finder) pretendVersion(p pythonProject) {
	requires := strings.ReplaceAll(strings.ToLower(strings.Join(p.toml.list("build-system", "requires"), " ")), "_", "-")
	v := packageVersion(f.facts.Version)
	name := p.toml.str("project", "name")
	if name == "" {
		name = p.cfg.value("metadata", "name")
	}
	scm := strings.Contains(requires, "setuptools-scm") || strings.Contains(requires, "setuptools-git-versioning") ||
		strings.Contains(p.setup, "use_scm_version") || p.cfg.value("options", "use_scm_version") != ""
	if name != "" && scm {
		// Only for this package: others that are built along the way have their own versions.
		f.set("SETUPTOOLS_SCM_PRETEND_VERSION_FOR_"+strings.ToUpper(notVariable.ReplaceAllString(clip(name, 100), "_")), v)
	} else if scm || strings.Contains(requires, "hatch-vcs") || strings.Contains(requires, "flit-scm") {
		f.set("SETUPTOOLS_SCM_PRETEND_VERSION", v)
	}
	switch {
	case p.toml.str("tool", "pdm", "version", "source") == "scm":
		f.set("PDM_BUILD_SCM_VERSION", v)
	case strings.Contains(requires, "poetry-dynamic-versioning"):
		f.set("POETRY_DYNAMIC_VERSIONING_BYPASS", v)
	case strings.Contains(requires, "uv-dynamic-versioning"):
		f.set("UV_DYNAMIC_VERSIONING_BYPASS", v)
	case strings.Contains(requires, "versioningit"), strings.Contains(requires, "dunamai"):
		f.set("VERSIONINGIT_DEFAULT_VERSION", v)
	}
	if strings.Contains(requires, "pbr") || strings.Contains(p.setup, "pbr=True") {
		f.set("PBR_VERSION", v)
	}
}

var notVariable = regexp.MustCompile(`[^A-Za-z0-9]+`)

// tool installs a program into its own virtual environment; otherwise its packages would mix with
// the project's.
func (f *finder) tool(name, spec string) {
	dir := home + "/.local/lib/" + name
	if spec == "" || !requirement.MatchString(name+spec) {
		spec = ""
	}
	f.run(".", strings.Join([]string{
		sandbox.Quote("python3", "-m", "venv", dir),
		sandbox.Quote(dir+"/bin/pip", "install", name+spec),
		sandbox.Quote("mkdir", "-p", localBin),
		sandbox.Quote("ln", "-sf", dir+"/bin/"+name, localBin+"/"+name),
	}, " && "))
}

// in sets a variable for the command of a nested project, which has its own virtual environment;
// the first project's is set globally.
func (p pythonProject) in(variable, command string) string {
	if p.nested {
		return variable + "=" + sandbox.Quote(p.venv) + " " + command
	}
	return command
}

func (f *finder) uv(p pythonProject, n needs) {
	f.tool("uv", p.ManagerVersion)
	f.set("UV_PYTHON_DOWNLOADS", "never")
	f.set("UV_FROZEN", "1")
	f.set("UV_NO_SYNC", "1") // commands of agents must not wait for the network
	if !p.nested {
		f.set("UV_PROJECT_ENVIRONMENT", p.venv)
	}
	if have := version(f.tools["python"]); have != "" {
		parts := strings.Split(have, ".")
		f.set("UV_PYTHON", strings.Join(parts[:min(2, len(parts))], ".")) // overrides .python-version
	}
	sync := []string{"uv", "sync", "--inexact"}
	if p.toml.has("tool", "uv", "workspace") {
		sync = append(sync, "--all-packages")
	}
	for _, group := range n.groups {
		sync = append(sync, "--group", group)
	}
	full := slices.Clone(sync)
	for _, extra := range n.extras {
		full = append(full, "--extra", extra)
	}
	if len(n.extras) == 0 && !n.named {
		full = append(full, "--all-extras")
	}
	env := func(list []string, more ...string) string {
		return p.in("UV_PROJECT_ENVIRONMENT", sandbox.Quote(append(slices.Clone(list), more...)...))
	}
	commands := []string{env(full, "--frozen")}
	if len(full) != len(sync) {
		commands = append(commands, env(sync, "--frozen"))
	}
	commands = append(commands, restoring("uv.lock", "UV_FROZEN=0 "+env(full)), f.pipFallback(p, n))
	f.command(Command{Dir: p.Dir, Optional: p.nested, Shell: firstSuccess(commands...)})
}

func (f *finder) poetry(p pythonProject, n needs) {
	f.tool("poetry", p.ManagerVersion)
	f.set("POETRY_NO_INTERACTION", "1")
	install := []string{"poetry", "install"}
	if with := p.optionalGroups(n); len(with) > 0 {
		install = append(install, "--with", strings.Join(with, ","))
	}
	full := slices.Clone(install)
	for _, extra := range n.extras {
		full = append(full, "--extras", extra)
	}
	if len(n.extras) == 0 && !n.named {
		full = append(full, "--all-extras")
	}
	commands := []string{p.in("VIRTUAL_ENV", sandbox.Quote(full...))}
	if len(full) != len(install) {
		commands = append(commands, p.in("VIRTUAL_ENV", sandbox.Quote(install...)))
	}
	again := p.in("VIRTUAL_ENV", "poetry lock") + " && " + commands[0]
	if p.Lock != "" {
		again = restoring("poetry.lock", again)
	} else {
		again = "{ " + again + "; }"
	}
	f.command(Command{Dir: p.Dir, Shell: firstSuccess(append(commands, again, f.pipFallback(p, n))...), Optional: p.nested})
}

// optionalGroups returns the Poetry groups that are installed only on request and that tests need,
// judging by their names.
func (p pythonProject) optionalGroups(n needs) []string {
	var with []string
	for name := range p.toml.table("tool", "poetry", "group") {
		optional := p.toml.table("tool", "poetry", "group", name)["optional"] == true
		if optional && groupName.MatchString(name) && (testNames[name] || devNames[name] || slices.Contains(n.groups, name)) {
			with = append(with, name)
		}
	}
	for _, name := range n.groups {
		if p.toml.has("dependency-groups", name) {
			with = append(with, name)
		}
	}
	return unique(with)
}

func (f *finder) pdm(p pythonProject, n needs) {
	f.tool("pdm", "")
	f.set("PDM_IGNORE_SAVED_PYTHON", "1")
	f.set("PDM_CHECK_UPDATE", "0")
	install := p.in("VIRTUAL_ENV", "pdm install --frozen-lockfile")
	f.command(Command{Dir: p.Dir, Optional: p.nested,
		Shell: firstSuccess(install+" --group :all", install, restoring("pdm.lock", p.in("VIRTUAL_ENV", "pdm install")), f.pipFallback(p, n))})
}

func (f *finder) pipenv(p pythonProject) {
	f.tool("pipenv", "")
	f.set("PIPENV_VERBOSITY", "-1")
	install := p.in("VIRTUAL_ENV", "pipenv install --dev --skip-lock")
	if p.Lock != "" {
		install = firstSuccess(p.in("VIRTUAL_ENV", "pipenv sync --dev"), restoring("Pipfile.lock", install))
	}
	f.command(Command{Dir: p.Dir, Shell: install, Optional: p.nested})
}

// pipFallback installs with pip if the project's own manager fails: versions differ from those in
// the lock file, but tests can run.
func (f *finder) pipFallback(p pythonProject, n needs) string {
	install := []string{p.venv + "/bin/python", "-m", "pip", "install"}
	args := slices.Clone(install)
	upgrade := "pip>=25.1"
	if before := f.uploadedBefore(); len(before) > 0 {
		upgrade = "pip>=26"
		args = append(args, before...)
	}
	if p.pkg {
		args = append(args, "-e", p.self(n))
	}
	for _, group := range n.groups {
		if p.toml.has("dependency-groups", group) {
			args = append(args, "--group", group)
		}
	}
	args = append(args, p.developers()...)
	args = append(args, f.missingTestPackages(p, n, strings.Join(p.developers(), "\n"))...)
	return "{ " + sandbox.Quote(append(install, upgrade)...) + " && " + sandbox.Quote(args...) + "; }"
}

// uploadedBefore returns the options with which pip installs packages as of the time of the commit.
func (f *finder) uploadedBefore() []string {
	if f.facts.Time.IsZero() {
		return nil
	}
	return []string{"--uploaded-prior-to", f.facts.Time.UTC().Format(time.RFC3339)}
}

// self returns the project with its extras, in pip's syntax.
func (p pythonProject) self(n needs) string {
	if len(n.extras) == 0 {
		return "."
	}
	return ".[" + strings.Join(n.extras, ",") + "]"
}

// developers returns the test and development requirements in the tables of Poetry and PDM.
func (p pythonProject) developers() []string {
	var out []string
	for _, keys := range [][]string{{"tool", "poetry", "dev-dependencies"}, {"tool", "poetry", "group"}} {
		groups := map[string]table{"dev": p.toml.table(keys...)}
		if keys[2] == "group" {
			groups = map[string]table{}
			for _, name := range p.toml.names(keys...) {
				groups[name] = p.toml.table(append(keys, name, "dependencies")...)
			}
		}
		for group, requirements := range groups {
			if !testNames[normal(group)] && !devNames[normal(group)] {
				continue
			}
			for name := range requirements {
				wanted := strings.Join(requirements.list(name), "")
				if wanted == "" {
					wanted = requirements.table(name).str("version")
				}
				out = append(out, name+pipVersion(wanted))
			}
		}
	}
	for _, group := range p.toml.names("tool", "pdm", "dev-dependencies") {
		if testNames[normal(group)] || devNames[normal(group)] {
			out = append(out, p.toml.list("tool", "pdm", "dev-dependencies", group)...)
		}
	}
	out = slices.DeleteFunc(out, func(req string) bool { return !requirement.MatchString(req) })
	return unique(out)
}

var caret = regexp.MustCompile(`^\^?(\d+)((?:\.\d+)*)$`)

// pipVersion translates a version from Poetry's syntax to pip's: "^7.2" becomes ">=7.2,<8". A
// version that cannot be translated becomes any version.
func pipVersion(wanted string) string {
	if found := caret.FindStringSubmatch(wanted); found != nil && strings.HasPrefix(wanted, "^") {
		if found[1] == "0" {
			return ">=" + wanted[1:]
		}
		return ">=" + wanted[1:] + ",<" + increment(found[1])
	}
	if wanted == "" || strings.IndexByte("<>=!", wanted[0]) < 0 {
		return ""
	}
	return wanted
}

// pip installs the project and its test requirements in one command, so that the versions are
// compatible; if that fails, one after the other.
func (f *finder) pip(p pythonProject, n needs) {
	python := p.venv + "/bin/python"
	upgrade := sandbox.Quote(python, "-m", "pip", "install", "pip>=25.1") // supports dependency groups
	before := f.uploadedBefore()
	if len(before) > 0 {
		f.run(p.Dir, firstSuccess(sandbox.Quote(python, "-m", "pip", "install", "pip>=26"), upgrade)) // also supports dates
	} else if len(n.groups) > 0 {
		f.run(p.Dir, upgrade)
	}
	var parts [][]string
	if p.pkg {
		parts = append(parts, []string{"-e", p.self(n)})
	}
	for _, group := range n.groups {
		parts = append(parts, []string{"--group", group})
	}
	for _, file := range n.files {
		parts = append(parts, []string{"-r", relativeTo(p.Dir, file)})
	}
	if more := slices.Concat(n.packages, f.missingTestPackages(p, n, "")); len(more) > 0 {
		parts = append(parts, unique(more))
	}
	if len(parts) == 0 {
		return
	}
	var singly []string
	for _, part := range parts {
		singly = append(singly, sandbox.Quote(append([]string{python, "-m", "pip", "install"}, part...)...))
	}
	install := sandbox.Quote(append([]string{python, "-m", "pip", "install"}, slices.Concat(parts...)...)...)
	if len(parts) > 1 {
		install = firstSuccess(install, "{ "+strings.Join(singly, " && ")+"; }")
	}
	if len(before) > 0 {
		then := append([]string{python, "-m", "pip", "install"}, before...)
		install = firstSuccess(sandbox.Quote(append(then, slices.Concat(parts...)...)...), install)
	}
	f.command(Command{Dir: p.Dir, Shell: install, Optional: p.nested})
}
