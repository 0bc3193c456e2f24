package dependencies

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	loose "github.com/hashicorp/go-version"
	"golang.org/x/mod/modfile"

	"github.com/rocketgpt/orchestrator/internal/gate/change"
)

// MaxAdded is the number of versions that Added returns of one change. One more stands for the others.
const MaxAdded = 10_000

// The limits of the repository's own manifests, which are read to recognise its own packages.
const (
	maxOwnFiles = 500
	maxOwnBytes = 256 << 10
)

// Added returns the versions of packages that a change adds to manifests and lock files, or changes to:
// manifests first, each version once, with another registry than the usual one if the manifest, a lock file
// or .npmrc names it. What is not fetched from a registry, such as a path, is left out. The repository's
// own packages have StatusLocal, what exceeds MaxAdded has StatusUnknown, others have no status.
func Added(ctx context.Context, c change.Change) ([]change.Dependency, error) {
	a := &adding{}
	for _, f := range c.Files {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		read := changedManifest(f)
		if read == nil || f.After.Unread {
			continue
		}
		after, err := read(f.After.Content)
		if err != nil {
			continue // the guard reports it
		}
		a.file(f.Path, readBefore(f, read), after)
	}
	all := a.merged()
	if len(all) == 0 || c.Tree == nil {
		return all, nil
	}
	added := map[Ecosystem]bool{}
	for _, d := range all {
		added[Ecosystem(d.Ecosystem)] = true
	}
	own, err := ownPackages(ctx, c, added)
	if err != nil {
		return nil, err
	}
	npm := npmRegistries{c.Tree, map[string]map[string]string{}}
	for i := range all {
		d := &all[i]
		if d.Ecosystem == string(NPM) && d.Source == "" {
			if d.Source, err = npm.of(ctx, d.Path, d.Name); err != nil {
				return nil, err
			}
		}
		if p, ok := own[[2]string{d.Ecosystem, normal(Ecosystem(d.Ecosystem), d.Name)}]; ok && d.Source == "" && d.Status == "" {
			d.Status, d.Reason, d.Claimed = change.StatusLocal, p.file, p.added
		}
	}
	return all, nil
}

// adding collects added versions: those of manifests and those of lock files.
type adding struct{ declared, locked []change.Dependency }

// place is a package as the lock file of a directory names it.
type place struct{ dir, ecosystem, name string }

// sources are the sources of a package in one lock file: by version, and one for all versions; "": the usual
// registry, or several.
type sources struct {
	byVersion map[string]string
	all       string
}

// merged returns the versions of manifests, and then the others of lock files. Most manifests do not say
// from where packages come, so what the lock file of their directory, or of the nearest one above, says about
// their names and versions applies to them.
func (a *adding) merged() []change.Dependency {
	locks := map[place]*sources{}
	exact := map[[3]string]bool{}
	for _, d := range a.locked {
		exact[[3]string{d.Ecosystem, d.Name, d.Version}] = true
		source := d.Source
		if standardRegistry(source) {
			source = ""
		}
		at := place{path.Dir(d.Path), d.Ecosystem, d.Name}
		if s := locks[at]; s == nil {
			locks[at] = &sources{map[string]string{d.Version: source}, source}
		} else {
			s.byVersion[d.Version] = source
			if s.all != source {
				s.all = ""
			}
		}
	}
	out := &versions{index: map[[4]string]bool{}, names: map[[3]string]bool{}}
	for _, d := range a.declared {
		if d.Source == "" {
			d.Source = lockedSource(locks, d)
		}
		d.Exact = d.Exact || exact[[3]string{d.Ecosystem, d.Name, d.Version}]
		out.add(d)
	}
	for _, d := range a.locked {
		if standardRegistry(d.Source) && out.names[[3]string{d.Ecosystem, d.Name, d.Version}] {
			continue
		}
		out.add(d)
	}
	return out.all()
}

// lockedSource returns what the nearest lock file that names a package of a manifest says about its source.
func lockedSource(locks map[place]*sources, d change.Dependency) string {
	for dir := path.Dir(d.Path); ; dir = path.Dir(dir) {
		if s := locks[place{dir, d.Ecosystem, d.Name}]; s != nil {
			if source, ok := s.byVersion[d.Version]; ok || d.Exact {
				return source
			}
			return s.all
		}
		if dir == "." || dir == "/" {
			return ""
		}
	}
}

// versions are different versions of packages by their sources, at most MaxAdded.
type versions struct {
	list  []change.Dependency
	index map[[4]string]bool
	names map[[3]string]bool // of those from the usual registry
	first change.Dependency  // of those that are too many
	more  int
}

func (v *versions) add(d change.Dependency) {
	source := d.Source
	if standardRegistry(source) {
		source = ""
	}
	id := [4]string{d.Ecosystem, d.Name, d.Version, source}
	switch {
	case v.index[id]:
		return
	case len(v.list) < MaxAdded:
		v.index[id] = true
		v.list = append(v.list, d)
		if source == "" {
			v.names[[3]string{d.Ecosystem, d.Name, d.Version}] = true
		}
		return
	case v.more == 0:
		v.first = d
	}
	v.more++
}

// all returns the versions, and one for those that are too many.
func (v *versions) all() []change.Dependency {
	if v.more == 0 {
		return v.list
	}
	v.first.Status = change.StatusUnknown
	v.first.Reason = fmt.Sprintf("the change adds more than %d versions, so this one and %d others are not looked up", MaxAdded, v.more-1)
	return append(v.list, v.first)
}

// file adds what a file adds.
func (a *adding) file(file string, before, after *manifest) {
	had := map[[4]string]bool{}
	for _, d := range withSources(before) {
		had[d.id(after.lock)] = true
	}
	replaced := map[string][]replacement{}
	for _, r := range after.replaced {
		replaced[r.from] = append(replaced[r.from], r)
	}
	for _, d := range withSources(after) {
		away := d.ecosystem == Go && slices.ContainsFunc(replaced[d.name], func(r replacement) bool { return r.old == "" || r.old == d.version })
		if !away && !had[d.id(after.lock)] && fromRegistry(d, after.lock) { // what replaces it is added below
			a.add(file, d, after.lock)
		}
	}
	for _, r := range after.replaced {
		if !r.local && r.version != "" && !hadReplacement(before, r) {
			a.add(file, dependency{ecosystem: Go, name: r.to, version: r.version}, false)
		}
	}
}

// withSources returns the dependencies of a manifest with the places where uv finds them, without the
// entries that only name those.
func withSources(m *manifest) []dependency {
	uv := map[string]dependency{}
	for _, d := range m.dependencies {
		if d.group == uvSource {
			uv[normal(d.ecosystem, d.name)] = d
		}
	}
	if len(uv) == 0 {
		return m.dependencies
	}
	var out []dependency
	for _, d := range m.dependencies {
		if strings.HasPrefix(d.group, uvSource) {
			continue
		}
		if place, ok := uv[normal(d.ecosystem, d.name)]; ok && d.source == "" {
			d.source, d.indexed = place.source, place.indexed
		}
		out = append(out, d)
	}
	return out
}

func hadReplacement(m *manifest, r replacement) bool {
	for _, o := range m.replaced {
		if o.to == r.to && o.version == r.version && o.old == r.old && o.from == r.from {
			return true
		}
	}
	return false
}

// id identifies a version of a package in a file: by its source, too, except in a lock file, where it often
// changes with the mirror.
func (d dependency) id(lock bool) [4]string {
	source := d.source
	if lock {
		source = ""
	}
	return [4]string{string(d.ecosystem), normal(d.ecosystem, d.name), d.version, source}
}

// fromRegistry reports whether a dependency is fetched from a registry.
func fromRegistry(d dependency, lock bool) bool {
	switch {
	case d.name == "":
		return false
	case lock && strings.Contains(d.group, ":") && !strings.HasPrefix(d.group, "@npm:"):
		return false // workspace:, patch: of Yarn
	case lock:
		return d.source == "" || strings.HasPrefix(d.source, "https://") || strings.HasPrefix(d.source, "http://")
	case d.source != "":
		return d.indexed
	case d.ecosystem == NPM:
		return !strings.Contains(d.version, ":") // workspace:, catalog:, patch:
	case d.ecosystem == Maven:
		return d.group != "plugin" || strings.Contains(d.name, ":") // plugins of Gradle have a portal of their own
	}
	return true
}

func (a *adding) add(file string, d dependency, lock bool) {
	v := change.Dependency{Path: file, Ecosystem: string(d.ecosystem), Name: d.name, Version: firstVersion(d.version), Source: d.source}
	if v.Exact = lock || d.ecosystem == Go || exact(d.ecosystem, d.version); lock || d.ecosystem == Go {
		v.Version = d.version
	}
	if lock {
		a.locked = append(a.locked, v)
	} else {
		a.declared = append(a.declared, v)
	}
}

var plainVersion = regexp.MustCompile(`^v?\d+(?:\.\d+)*(?:[-.+]?[A-Za-z0-9.+-]*[A-Za-z0-9])?$`)

// exact reports whether a constraint allows one version only.
func exact(e Ecosystem, constraint string) bool {
	text := strings.TrimSpace(constraint)
	version := strings.TrimSpace(strings.TrimLeft(text, "="))
	if !plainVersion.MatchString(version) || strings.HasSuffix(strings.ToLower(version), ".x") {
		return false
	}
	_, err := semver.StrictNewVersion(strings.TrimPrefix(version, "v"))
	equals := version != text
	switch e {
	case NPM:
		return err == nil
	case Crates:
		return err == nil && equals
	case PyPI:
		return equals
	case Composer:
		return err == nil
	case RubyGems, Maven:
		return true
	case Go, NuGet: // Go is always exact; a version of NuGet is the lowest that is allowed
	}
	return false
}

// Version is a version of a package, read once so that it can be compared with many others.
type Version struct {
	text   string         // without a leading v
	parsed *loose.Version // nil: texts are compared
}

// ReadVersion reads a version of an ecosystem. One that it cannot read only equals the same text.
func ReadVersion(e Ecosystem, text string) Version {
	v := Version{text: strings.TrimPrefix(text, "v")}
	if e == NPM || e == Crates || e == Go || len(text) > maxVersion {
		return v // versions of the three have one form
	}
	v.parsed, _ = loose.NewVersion(text) // nil if it is not valid
	return v
}

// maxVersion is the length of the longest version that is read.
const maxVersion = 200

// Same reports whether two versions are the same by the rules of their ecosystem, such as 1.0 and 1.0.0 of
// PyPI.
func (v Version) Same(other Version) bool {
	return v.text == other.text || v.parsed != nil && other.parsed != nil && v.parsed.Equal(other.parsed)
}

// StandardRegistry reports whether a URL is in one of the registries that package managers use by default.
func StandardRegistry(source string) bool { return standardRegistry(source) }

// ownPackage is the file that declares a package of the repository.
type ownPackage struct {
	file  string
	added bool // no file declared it before the change
}

// ownPackages returns the packages of ecosystems that are parts of a repository after a change.
func ownPackages(ctx context.Context, c change.Change, of map[Ecosystem]bool) (map[[2]string]ownPackage, error) {
	paths, err := c.Tree.Paths(ctx)
	if err != nil {
		return nil, err
	}
	changed, before := map[string]bool{}, map[[2]string]bool{}
	for _, f := range c.Files {
		changed[f.Path] = true
		if id, ok := ownID(f.OldPath(), f.Before.Content, of); ok && f.Before.Regular() {
			before[id] = true
		}
	}
	own, count := map[[2]string]ownPackage{}, 0
	for _, p := range paths {
		if _, ok := ownReader(p, of); !ok {
			continue
		}
		if count++; count > maxOwnFiles {
			break
		}
		content, ok, err := c.Tree.Read(ctx, p, maxOwnBytes)
		if err != nil {
			return nil, err
		}
		if id, named := ownID(p, content, of); ok && named {
			added := !before[id] && (changed[p] || c.Unread > 0) // unread changes are not in Files
			if was, twice := own[id]; !twice || was.added && !added {
				own[id] = ownPackage{p, added}
			}
		}
	}
	return own, nil
}

// ownReader returns what reads the name of the package that a file of the repository declares.
func ownReader(p string, of map[Ecosystem]bool) (nameReader, bool) {
	read, known := ownName[path.Base(p)]
	return read, known && of[read.of] && !strings.Contains("/"+p, "/node_modules/") && !strings.Contains("/"+p, "/vendor/")
}

// ownID identifies the package that a file declares.
func ownID(p string, content []byte, of map[Ecosystem]bool) (id [2]string, ok bool) {
	read, ok := ownReader(p, of)
	if !ok || len(content) > maxOwnBytes {
		return id, false
	}
	name := read.name(content)
	return [2]string{string(read.of), normal(read.of, name)}, name != ""
}

type nameReader struct {
	of   Ecosystem
	name func(content []byte) string
}

// tomlName reads the first name that tables of a document in TOML have.
func tomlName(places ...[]string) func(content []byte) string {
	return func(content []byte) string {
		doc, err := parseTOML(content)
		if err != nil {
			return "" // a package of a file that is not valid is used by nothing
		}
		for _, p := range places {
			if name, _ := at(doc, p...)["name"].(string); name != "" {
				return name
			}
		}
		return ""
	}
}

// ownName reads the name of the package that a manifest declares.
var ownName = map[string]nameReader{
	"go.mod":         {Go, modfile.ModulePath},
	"Cargo.toml":     {Crates, tomlName([]string{"package"})},
	"pyproject.toml": {PyPI, tomlName([]string{"project"}, []string{"tool", "poetry"})},
	"package.json": {NPM, func(content []byte) string {
		var doc struct {
			Name string `json:"name"`
		}
		_ = json.Unmarshal(content, &doc) // a package without a name is only used by itself
		return doc.Name
	}},
	"pom.xml": {Maven, func(content []byte) string {
		var doc struct {
			Group    string `xml:"groupId"`
			Artifact string `xml:"artifactId"`
			Parent   struct {
				Group string `xml:"groupId"`
			} `xml:"parent"`
		}
		if xml.Unmarshal(content, &doc) != nil || doc.Artifact == "" {
			return ""
		}
		if doc.Group == "" {
			doc.Group = doc.Parent.Group
		}
		return doc.Group + ":" + doc.Artifact
	}},
}
