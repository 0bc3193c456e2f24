package dependencies

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"sort"
	"strings"

	"github.com/BurntSushi/toml"
	"golang.org/x/mod/modfile"
)

// Ecosystem is where dependencies come from, by its name in OSV.
type Ecosystem string

// The ecosystems.
const (
	Go       Ecosystem = "Go"
	NPM      Ecosystem = "npm"
	PyPI     Ecosystem = "PyPI"
	Crates   Ecosystem = "crates.io"
	RubyGems Ecosystem = "RubyGems"
	Composer Ecosystem = "Packagist"
	Maven    Ecosystem = "Maven"
	NuGet    Ecosystem = "NuGet"
)

func (e Ecosystem) title() string { return string(e) }

// dependency is one entry of a manifest or a lock file.
type dependency struct {
	ecosystem     Ecosystem
	name, version string
	source        string // a URL or a path, if it does not come from the registry; in a lock file, always
	indexed       bool   // source is another registry than the usual one: its URL, or registry: and its name
	integrity     string // a checksum in a lock file
	script        bool   // it runs code when it is installed
	loose         bool   // other packages choose its version
	group         string // of the manifest
}

// key identifies a dependency of a file.
func (d dependency) key() string { return d.group + "\x00" + normal(d.ecosystem, d.name) }

type replacement struct {
	from, to string
	old      string // the version that is replaced; "": all
	version  string // of to
	local    bool
}

// other reports whether another module or a directory replaces it, not another version of the same module.
func (r replacement) other() bool { return r.from != r.to }

type script struct{ name, command string }

// manifest is what a file says about dependencies.
type manifest struct {
	lock         bool
	dependencies []dependency
	registries   []string
	replaced     []replacement
	scripts      []script
}

// uses reports whether an entry comes from a host.
func (m *manifest) uses(h string) bool {
	return slices.ContainsFunc(m.dependencies, func(d dependency) bool { return d.source != "" && host(d.source) == h })
}

type reader func(content []byte) (*manifest, error)

// readerOf returns what reads a file; nil if it is not about dependencies.
func readerOf(file string) reader {
	base := strings.ToLower(path.Base(file))
	switch base {
	case "go.mod":
		return readGo
	case "package.json":
		return readPackage
	case "package-lock.json", "npm-shrinkwrap.json":
		return readPackageLock
	case "yarn.lock":
		return readYarn
	case "pnpm-lock.yaml":
		return readPNPM
	case "pyproject.toml":
		return readPyproject
	case "pipfile":
		return readPipfile
	case "cargo.toml":
		return readCargo
	case "gemfile", "gems.rb":
		return readGemfile
	case "composer.json":
		return readComposer
	case "pom.xml":
		return readPOM
	case "build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts":
		return readGradle
	case ".npmrc", "pip.conf", "pip.ini", ".yarnrc", ".yarnrc.yml", "nuget.config":
		return readSettings
	}
	switch {
	case strings.HasSuffix(base, ".txt") && (strings.HasPrefix(base, "requirements") || strings.HasSuffix(base, "requirements.txt") || path.Base(path.Dir(file)) == "requirements"):
		return readRequirements
	case slices.Contains([]string{".csproj", ".fsproj", ".vbproj"}, path.Ext(base)) || base == "directory.packages.props":
		return readProject
	}
	return nil
}

// manifestsOf returns the manifests that a lock file belongs to.
func manifestsOf(lock string) []string {
	return []string{path.Join(path.Dir(lock), "package.json"), path.Join(path.Dir(lock), "pnpm-workspace.yaml")}
}

func readGo(content []byte) (*manifest, error) {
	f, err := modfile.Parse("go.mod", content, nil)
	if err != nil {
		return nil, err
	}
	m := &manifest{}
	for _, r := range f.Require {
		if !r.Indirect {
			m.dependencies = append(m.dependencies, dependency{ecosystem: Go, name: r.Mod.Path, version: r.Mod.Version})
		}
	}
	for _, r := range f.Replace {
		local := modfile.IsDirectoryPath(r.New.Path) && inside("go.mod", r.New.Path)
		m.replaced = append(m.replaced, replacement{r.Old.Path, r.New.Path, r.Old.Version, r.New.Version, local})
	}
	return m, nil
}

func readPackage(content []byte) (*manifest, error) {
	var doc struct {
		Dependencies         map[string]string          `json:"dependencies"`
		DevDependencies      map[string]string          `json:"devDependencies"`
		OptionalDependencies map[string]string          `json:"optionalDependencies"`
		PeerDependencies     map[string]string          `json:"peerDependencies"`
		Resolutions          map[string]string          `json:"resolutions"`
		Scripts              map[string]json.RawMessage `json:"scripts"`
	}
	m := &manifest{}
	if len(content) == 0 {
		return m, nil
	}
	if err := json.Unmarshal(content, &doc); err != nil {
		return nil, err
	}
	for group, all := range map[string]map[string]string{"": doc.Dependencies, "dev": doc.DevDependencies, "optional": doc.OptionalDependencies, "peer": doc.PeerDependencies, "resolutions": doc.Resolutions} {
		for name, version := range all {
			d := dependency{ecosystem: NPM, name: name, version: version, group: group, loose: group == "peer" || group == "optional"}
			if alias, ok := strings.CutPrefix(version, "npm:"); ok {
				d.name, d.version = alias, ""
				if i := strings.LastIndexByte(alias, '@'); i > 0 {
					d.name, d.version = alias[:i], alias[i+1:]
				}
			} else if fetchedByURL(version) {
				d.source, d.version = version, ""
				if shorthand.MatchString(version) {
					d.source = "github:" + version
				}
			}
			if group == "resolutions" {
				d.loose = true
			}
			m.dependencies = append(m.dependencies, d)
		}
	}
	for _, hook := range []string{"preinstall", "install", "postinstall", "prepare", "preprepare", "postprepare", "prepublish"} {
		var command string
		if json.Unmarshal(doc.Scripts[hook], &command) == nil && command != "" {
			m.scripts = append(m.scripts, script{hook, command})
		}
	}
	sortDependencies(m)
	return m, nil
}

func sortDependencies(m *manifest) {
	sort.Slice(m.dependencies, func(i, j int) bool { return m.dependencies[i].key() < m.dependencies[j].key() })
}

var shorthand = regexp.MustCompile(`^[A-Za-z0-9-]+/[A-Za-z0-9._-]+(?:#.*)?$`)

// fetchedByURL reports whether a version of npm is a place.
func fetchedByURL(version string) bool {
	if shorthand.MatchString(version) {
		return true
	}
	for _, p := range []string{"git", "http:", "https:", "file:", "link:", "portal:", "ssh:", "./", "../", "/", "github:", "gitlab:", "bitbucket:", "gist:"} {
		if strings.HasPrefix(version, p) {
			return true
		}
	}
	return false
}

var requirement = regexp.MustCompile(`^([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[[^\]]*\])?\s*(@\s*\S+|[^;#]*)`)

// python reads a requirement of PEP 508.
func python(text string) (dependency, bool) {
	m := requirement.FindStringSubmatch(strings.TrimSpace(text))
	if m == nil {
		return dependency{}, false
	}
	d := dependency{ecosystem: PyPI, name: m[1], version: strings.TrimSpace(m[2])}
	if at, ok := strings.CutPrefix(d.version, "@"); ok {
		d.source, d.version = strings.TrimSpace(at), ""
	}
	return d, true
}

func readRequirements(content []byte) (*manifest, error) {
	m, index := &manifest{}, ""
	for line := range strings.Lines(string(content)) {
		line = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(line), "\\"))
		if i := strings.Index(line, " #"); i >= 0 {
			line = strings.TrimSpace(line[:i])
		}
		option, value, _ := strings.Cut(strings.Replace(line, "=", " ", 1), " ")
		switch value = strings.TrimSpace(value); {
		case line == "" || line[0] == '#':
		case slices.Contains([]string{"-i", "--index-url", "--extra-index-url", "-f", "--find-links"}, option):
			m.registries = append(m.registries, value)
			if option == "-i" || option == "--index-url" {
				index = value
			}
		case option == "-e" || option == "--editable" || strings.HasPrefix(line, "git+") || strings.Contains(line, "://") && !strings.Contains(line, "@ "):
			source := strings.TrimSpace(strings.TrimPrefix(strings.TrimPrefix(line, "--editable"), "-e"))
			m.dependencies = append(m.dependencies, dependency{ecosystem: PyPI, name: named(source), source: source})
		case line[0] == '-' || line[0] == '.':
		default:
			if d, ok := python(line); ok {
				m.dependencies = append(m.dependencies, d)
			}
		}
	}
	m.usual(index)
	return m, nil
}

// named returns the name of a dependency that is only a URL.
func named(source string) string {
	if _, egg, ok := strings.Cut(source, "#egg="); ok {
		return egg
	}
	base := path.Base(strings.TrimSuffix(source, "/"))
	base, _, _ = strings.Cut(base, "@")
	return strings.TrimSuffix(base, ".git")
}

// table is a table of a document in TOML.
type table = map[string]any

func at(doc table, keys ...string) table {
	for _, k := range keys {
		doc, _ = doc[k].(table)
	}
	return doc
}

// tableDependencies reads a table of Poetry, Pipenv, uv or Cargo. registries are the URLs of the registries
// that the file names, by their names in lower case.
func (m *manifest) tableDependencies(e Ecosystem, group string, t table, registries map[string]string) {
	for name, v := range t {
		if name == "python" && e == PyPI {
			continue
		}
		d := dependency{ecosystem: e, name: name, group: group}
		if version, ok := v.(string); ok {
			d.version = version
		}
		all := tables(v)
		if len(all) == 0 {
			m.dependencies = append(m.dependencies, d)
		}
		for i, t := range all { // Poetry has lists, too, for example one entry for each platform
			d := d
			if i > 0 {
				d.group = fmt.Sprintf("%s %d", group, i)
			}
			d.described(t, registries)
			m.dependencies = append(m.dependencies, d)
		}
	}
}

// described reads the table of one dependency.
func (d *dependency) described(t table, registries map[string]string) {
	text := func(key string) string {
		s, _ := t[key].(string)
		return s
	}
	d.version = text("version")
	if renamed := text("package"); renamed != "" {
		d.name = renamed
	}
	for _, k := range []string{"git", "url", "path", "file"} {
		if s := text(k); s != "" {
			d.source = s
		}
	}
	if own, _ := t["workspace"].(bool); own && d.source == "" {
		d.source = "workspace:"
	}
	if d.source != "" {
		return
	}
	named := []string{"source", "index"}
	if d.ecosystem == Crates {
		named = []string{"registry"}
	}
	place := text("registry-index")
	for _, k := range named {
		if name := text(k); name != "" && place == "" {
			place = registryNamed(name, registries)
		}
	}
	if place != "" && !standardRegistry(place) {
		d.source, d.indexed = place, true
	}
}

// registryNamed returns the URL of a registry by its name, or registry: and its name; "": it is the usual
// one.
func registryNamed(name string, registries map[string]string) string {
	lower := strings.ToLower(name)
	if place, ok := registries[lower]; ok {
		return place
	}
	if lower == "pypi" || lower == "crates-io" {
		return ""
	}
	return "registry:" + name
}

// registriesOf returns the URLs of lists of tables by their names in lower case.
func registriesOf(lists ...any) map[string]string {
	out := map[string]string{}
	for _, list := range lists {
		for _, t := range tables(list) {
			name, named := t["name"].(string)
			place, ok := t["url"].(string)
			if named && ok {
				out[strings.ToLower(name)] = place
			}
		}
	}
	return out
}

// list reads a list of requirements of PEP 508.
func (m *manifest) list(group string, v any) {
	items, _ := v.([]any)
	for _, item := range items {
		if s, ok := item.(string); ok {
			if d, ok := python(s); ok {
				d.group = group
				m.dependencies = append(m.dependencies, d)
			}
		}
	}
}

func parseTOML(content []byte) (table, error) {
	var doc table
	_, err := toml.Decode(string(content), &doc)
	return doc, err
}

func readPyproject(content []byte) (*manifest, error) {
	doc, err := parseTOML(content)
	if err != nil {
		return nil, err
	}
	m := &manifest{}
	project := at(doc, "project")
	m.list("", project["dependencies"])
	m.list("build", at(doc, "build-system")["requires"])
	for group, v := range at(project, "optional-dependencies") {
		m.list("extra "+group, v)
	}
	for group, v := range at(doc, "dependency-groups") {
		m.list("group "+group, v)
	}
	poetry, uv := at(doc, "tool", "poetry"), at(doc, "tool", "uv")
	registries := registriesOf(poetry["source"], uv["index"])
	m.tableDependencies(PyPI, "poetry", at(poetry, "dependencies"), registries)
	m.tableDependencies(PyPI, "poetry dev", at(poetry, "dev-dependencies"), registries)
	for group := range at(poetry, "group") {
		m.tableDependencies(PyPI, "poetry "+group, at(poetry, "group", group, "dependencies"), registries)
	}
	m.urls(poetry["source"])
	m.urls(uv["index"])
	m.tableDependencies(PyPI, uvSource, at(uv, "sources"), registries)
	sortDependencies(m)
	return m, nil
}

// uvSource is the group of entries that say where uv finds a package.
const uvSource = "uv source"

// tables returns the tables of a table or of a list.
func tables(v any) (items []table) {
	switch v := v.(type) {
	case table:
		items = []table{v}
	case []table:
		items = v
	case []any:
		for _, i := range v {
			if t, ok := i.(table); ok {
				items = append(items, t)
			}
		}
	}
	return items
}

// urls reads a list of tables with URLs of registries.
func (m *manifest) urls(v any) {
	for _, t := range tables(v) {
		if s, ok := t["url"].(string); ok {
			m.registries = append(m.registries, s)
		}
	}
}

// usual gives the dependencies without a source the registry that a file names in place of the usual one.
func (m *manifest) usual(place string) {
	if place == "" || standardRegistry(place) {
		return
	}
	for i, d := range m.dependencies {
		if d.source == "" {
			m.dependencies[i].source, m.dependencies[i].indexed = place, true
		}
	}
}

func readPipfile(content []byte) (*manifest, error) {
	doc, err := parseTOML(content)
	if err != nil {
		return nil, err
	}
	m := &manifest{}
	m.urls(doc["source"])
	registries := registriesOf(doc["source"])
	for _, group := range []string{"packages", "dev-packages"} {
		m.tableDependencies(PyPI, group, at(doc, group), registries)
	}
	if len(m.registries) > 0 {
		m.usual(m.registries[0])
	}
	for i := range m.dependencies {
		m.dependencies[i].loose = true // Pipfile.lock pins what Pipfile leaves open
	}
	sortDependencies(m)
	return m, nil
}

func readCargo(content []byte) (*manifest, error) {
	doc, err := parseTOML(content)
	if err != nil {
		return nil, err
	}
	m := &manifest{}
	groups := []string{"dependencies", "dev-dependencies", "build-dependencies"}
	for _, g := range groups {
		m.tableDependencies(Crates, g, at(doc, g), nil)
		m.tableDependencies(Crates, "workspace "+g, at(doc, "workspace", g), nil)
		for target := range at(doc, "target") {
			m.tableDependencies(Crates, target+" "+g, at(doc, "target", target, g), nil)
		}
	}
	for registry := range at(doc, "patch") {
		m.tableDependencies(Crates, "patch "+registry, at(doc, "patch", registry), nil)
	}
	for i, d := range m.dependencies {
		m.dependencies[i].loose = d.source != "" && !d.indexed // a version beside a path counts only when it is published
	}
	sortDependencies(m)
	return m, nil
}

var (
	gem       = regexp.MustCompile(`^\s*gem[\s(]+["']([^"']+)["'](.*)`)
	gemSource = regexp.MustCompile(`^\s*source[\s(]+["']([^"']+)["']`)
	gemPlace  = regexp.MustCompile(`\b(?:git|github|path|gist|bitbucket):\s*["']([^"']+)["']|:(?:git|github|path)\s*=>\s*["']([^"']+)["']`)
	gemFrom   = regexp.MustCompile(`\bsource:\s*["']([^"']+)["']|:source\s*=>\s*["']([^"']+)["']`)
	quoted    = regexp.MustCompile(`["']([^"']+)["']`)
	// rubyOpens and rubyCloses match lines that begin and end a block.
	rubyOpens  = regexp.MustCompile(`^\s*(?:if|unless|case|begin|def|while|until|for|class|module)\b|(?:\bdo|\{)\s*(?:\|[^|]*\|)?\s*(?:#.*)?$`)
	rubyCloses = regexp.MustCompile(`^\s*(?:end\b|\})`)
)

func readGemfile(content []byte) (*manifest, error) {
	m := &manifest{}
	usual, other := false, "" // sources of the whole file: the usual one, and another
	blocks := []string{""}    // sources of the blocks that the line is in
	for line := range strings.Lines(string(content)) {
		line = strings.TrimRight(line, "\r\n")
		source := gemSource.FindStringSubmatch(line)
		within := blocks[len(blocks)-1]
		switch opens := rubyOpens.MatchString(line); {
		case source != nil && opens:
			blocks = append(blocks, source[1])
		case opens:
			blocks = append(blocks, within)
		case rubyCloses.MatchString(line) && len(blocks) > 1:
			blocks = blocks[:len(blocks)-1]
		case source != nil && standardRegistry(source[1]):
			usual = true
		case source != nil:
			other = source[1]
		}
		if source != nil {
			m.registries = append(m.registries, source[1])
		} else if g := gem.FindStringSubmatch(line); g != nil {
			m.dependencies = append(m.dependencies, gemOf(g[1], g[2], within))
		}
	}
	if !usual {
		m.usual(other)
	}
	return m, nil
}

// gemOf reads the options of a gem in a block with a source.
func gemOf(name, options, within string) dependency {
	d := dependency{ecosystem: RubyGems, name: name}
	if p := gemPlace.FindStringSubmatch(options); p != nil {
		if d.source = p[1] + p[2]; !strings.Contains(p[0], "path") && !strings.Contains(d.source, ":") {
			d.source = "github:" + d.source
		}
		return d
	}
	if v := quoted.FindStringSubmatch(options); v != nil && strings.HasPrefix(strings.TrimLeft(options, " ,"), v[0][:1]) {
		d.version = v[1]
	}
	if p := gemFrom.FindStringSubmatch(options); p != nil {
		within = p[1] + p[2]
	}
	if within != "" && !standardRegistry(within) {
		d.source, d.indexed = within, true
	}
	return d
}

func readComposer(content []byte) (*manifest, error) {
	var doc struct {
		Require      map[string]string          `json:"require"`
		RequireDev   map[string]string          `json:"require-dev"`
		Repositories json.RawMessage            `json:"repositories"`
		Scripts      map[string]json.RawMessage `json:"scripts"`
	}
	m := &manifest{}
	if len(content) == 0 {
		return m, nil
	}
	if err := json.Unmarshal(content, &doc); err != nil {
		return nil, err
	}
	for group, all := range map[string]map[string]string{"": doc.Require, "dev": doc.RequireDev} {
		for name, version := range all {
			if strings.Contains(name, "/") { // others are parts of PHP
				m.dependencies = append(m.dependencies, dependency{ecosystem: Composer, name: name, version: version, group: group, loose: group == "dev"})
			}
		}
	}
	for _, u := range regexp.MustCompile(`"url"\s*:\s*"([^"]+)"`).FindAllStringSubmatch(string(doc.Repositories), -1) {
		if place := strings.ReplaceAll(u[1], `\/`, "/"); strings.Contains(place, "://") || strings.Contains(place, "@") {
			m.registries = append(m.registries, place)
		}
	}
	for _, hook := range []string{"pre-install-cmd", "post-install-cmd", "pre-update-cmd", "post-update-cmd", "post-autoload-dump", "post-root-package-install"} {
		for _, c := range commands(doc.Scripts[hook]) {
			m.scripts = append(m.scripts, script{hook, c})
		}
	}
	sortDependencies(m)
	return m, nil
}

// commands reads one command or a list.
func commands(raw json.RawMessage) []string {
	var one string
	var list []string
	if json.Unmarshal(raw, &one) == nil && one != "" {
		return []string{one}
	}
	if json.Unmarshal(raw, &list) != nil {
		return nil
	}
	return list
}

func readPOM(content []byte) (*manifest, error) {
	return readXML(content, func(m *manifest, element string, fields map[string]string) {
		switch element {
		case "dependency", "plugin", "extension":
			if fields["artifactId"] != "" && fields["groupId"] != "" {
				m.dependencies = append(m.dependencies, dependency{ecosystem: Maven, name: fields["groupId"] + ":" + fields["artifactId"], version: fields["version"], group: element})
			}
		case "repository", "pluginRepository":
			if fields["url"] != "" {
				m.registries = append(m.registries, fields["url"])
			}
		}
	})
}

func readProject(content []byte) (*manifest, error) {
	return readXML(content, func(m *manifest, element string, fields map[string]string) {
		switch element {
		case "PackageReference", "PackageVersion":
			if fields["Include"] != "" {
				m.dependencies = append(m.dependencies, dependency{ecosystem: NuGet, name: fields["Include"], version: fields["Version"]})
			}
		case "RestoreSources", "RestoreAdditionalProjectSources":
			for s := range strings.SplitSeq(fields[""], ";") {
				if strings.Contains(s, "://") {
					m.registries = append(m.registries, strings.TrimSpace(s))
				}
			}
		}
	})
}

// maxDepth limits the nesting of XML.
const maxDepth = 64

// readXML calls found for each element with its attributes and the texts of its children.
func readXML(content []byte, found func(m *manifest, element string, fields map[string]string)) (*manifest, error) {
	m := &manifest{}
	decoder := xml.NewDecoder(strings.NewReader(string(content)))
	decoder.CharsetReader = func(_ string, in io.Reader) (io.Reader, error) { return in, nil }
	type frame struct {
		name   string
		fields map[string]string
	}
	var stack []frame
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return m, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read XML: %w", err)
		}
		switch t := token.(type) {
		case xml.StartElement:
			if len(stack) == maxDepth {
				return nil, fmt.Errorf("elements are nested more than %d deep", maxDepth)
			}
			f := frame{t.Name.Local, map[string]string{}}
			for _, a := range t.Attr {
				f.fields[a.Name.Local] = a.Value
			}
			stack = append(stack, f)
		case xml.CharData:
			if len(stack) > 0 {
				stack[len(stack)-1].fields[""] += string(t)
			}
		case xml.EndElement:
			last := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			if len(stack) > 0 {
				if _, set := stack[len(stack)-1].fields[last.name]; !set {
					stack[len(stack)-1].fields[last.name] = strings.TrimSpace(last.fields[""])
				}
			}
			found(m, last.name, last.fields)
		}
	}
}

var (
	gradleCoordinate = regexp.MustCompile(`\b(?:implementation|api|compileOnly|compileOnlyApi|runtimeOnly|testImplementation|testRuntimeOnly|testCompileOnly|annotationProcessor|kapt|ksp|classpath|compile|testCompile|platform)\b[\s(]*["']([\w.-]+):([\w.-]+)(?::([^"'@]*))?`)
	gradlePlugin     = regexp.MustCompile(`\bid[\s(]+["']([\w.-]+)["']\)?\s+version[\s(]+["']([^"']+)["']`)
	gradleURL        = regexp.MustCompile(`\burl\b\s*(?:=|\()?\s*(?:uri\()?\s*["']([a-z]+://[^"']+)["']|\bmaven\(\s*["']([a-z]+://[^"']+)["']`)
)

func readGradle(content []byte) (*manifest, error) {
	m := &manifest{}
	for _, c := range gradleCoordinate.FindAllStringSubmatch(string(content), -1) {
		m.dependencies = append(m.dependencies, dependency{ecosystem: Maven, name: c[1] + ":" + c[2], version: c[3]})
	}
	for _, c := range gradlePlugin.FindAllStringSubmatch(string(content), -1) {
		m.dependencies = append(m.dependencies, dependency{ecosystem: Maven, name: c[1], version: c[2], group: "plugin"})
	}
	for _, u := range gradleURL.FindAllStringSubmatch(string(content), -1) {
		m.registries = append(m.registries, u[1]+u[2])
	}
	return m, nil
}

var setting = regexp.MustCompile(`(?im)^\s*(?:(?:@[\w-]+:)?registry|npmRegistryServer|index-url|extra-index-url|find-links|trusted-host)\s*[=: ]\s*["']?([^\s"'#]+)|<add\s+key="[^"]*"\s+value="([a-z]+://[^"]+)"`)

// readSettings reads the registries of settings of package managers.
func readSettings(content []byte) (*manifest, error) {
	m := &manifest{}
	for _, s := range setting.FindAllStringSubmatch(string(content), -1) {
		m.registries = append(m.registries, s[1]+s[2])
	}
	return m, nil
}
