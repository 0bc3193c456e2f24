package dependencies

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"path"
	"regexp"
	"strings"

	"github.com/Masterminds/semver/v3"
	"golang.org/x/mod/modfile"

	"github.com/rocketgpt/orchestrator/internal/gate/change"
)

// The limits of the repository's own manifests, which are read to recognise its own packages.
const (
	maxOwnFiles = 500
	maxOwnBytes = 256 << 10
)

// Added returns the versions of packages that a change adds to manifests and lock files, or changes to:
// manifests first, each version once, with the source that a lock file or .npmrc names. What is not fetched from a registry, such as a path, is left out.
// The repository's own packages have StatusLocal, others no status.
func Added(ctx context.Context, c change.Change) ([]change.Dependency, error) {
	a := &adding{versions{index: map[[3]string]int{}}, versions{index: map[[3]string]int{}}}
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
	own, err := ownPackages(ctx, c.Tree, added)
	if err != nil {
		return nil, err
	}
	npm := npmRegistries{c.Tree, map[string]map[string]string{}}
	for i, d := range all {
		if d.Ecosystem == string(NPM) && d.Source == "" {
			if all[i].Source, err = npm.of(ctx, d.Path, d.Name); err != nil {
				return nil, err
			}
		}
		if file, ok := own[[2]string{d.Ecosystem, normal(Ecosystem(d.Ecosystem), d.Name)}]; ok && d.Source == "" {
			all[i].Status, all[i].Reason = change.StatusLocal, file
		}
	}
	return all, nil
}

// adding collects added versions: those of manifests and those of lock files.
type adding struct{ declared, locked versions }

// versions are different versions of packages.
type versions struct {
	all   []change.Dependency
	index map[[3]string]int
}

// find returns a version that is there already; nil if it is not.
func (v *versions) find(d change.Dependency) *change.Dependency {
	if i, ok := v.index[[3]string{d.Ecosystem, d.Name, d.Version}]; ok {
		return &v.all[i]
	}
	return nil
}

func (v *versions) add(d change.Dependency) {
	if v.find(d) == nil {
		v.index[[3]string{d.Ecosystem, d.Name, d.Version}] = len(v.all)
		v.all = append(v.all, d)
	}
}

// merged returns the versions of manifests, and then the others of lock files. Manifests do not say from
// where packages come, so what lock files say about their names and versions applies to them.
func (a *adding) merged() []change.Dependency {
	places := map[[2]string]string{}
	for _, d := range a.locked.all {
		if d.Source != "" && !standardRegistry(d.Source) {
			places[[2]string{d.Ecosystem, d.Name}] = d.Source
		}
	}
	for i, d := range a.declared.all {
		a.declared.all[i].Source = places[[2]string{d.Ecosystem, d.Name}]
	}
	var others []change.Dependency
	for _, d := range a.locked.all {
		if same := a.declared.find(d); same != nil {
			same.Exact = true
		} else {
			others = append(others, d)
		}
	}
	return append(a.declared.all, others...)
}

// file adds what a file adds.
func (a *adding) file(file string, before, after *manifest) {
	had := map[[3]string]bool{}
	for _, d := range before.dependencies {
		had[d.id()] = true
	}
	replaced := map[string]replacement{}
	for _, r := range after.replaced {
		replaced[r.from] = r
	}
	elsewhere := map[string]bool{} // names that uv fetches from another place
	for _, d := range after.dependencies {
		if d.group == "uv source" {
			elsewhere[normal(d.ecosystem, d.name)] = true
		}
	}
	for _, d := range after.dependencies {
		if r, ok := replaced[d.name]; ok && d.ecosystem == Go {
			continue // what replaces it is added below
		} else if r.from == "" && !had[d.id()] && fromRegistry(d, after.lock) && !elsewhere[normal(d.ecosystem, d.name)] {
			a.add(file, d, after.lock)
		}
	}
	for _, r := range after.replaced {
		if !r.local && r.version != "" && !hadReplacement(before, r) {
			a.add(file, dependency{ecosystem: Go, name: r.to, version: r.version}, false)
		}
	}
}

func hadReplacement(m *manifest, r replacement) bool {
	for _, o := range m.replaced {
		if o.to == r.to && o.version == r.version {
			return true
		}
	}
	return false
}

// id identifies a version of a package.
func (d dependency) id() [3]string {
	return [3]string{string(d.ecosystem), normal(d.ecosystem, d.name), d.version}
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
		return false
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
		a.locked.add(v)
	} else {
		a.declared.add(v)
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

// SameVersion reports whether two versions are the same by the rules of an ecosystem, such as 1.0 and
// 1.0.0 of PyPI.
func SameVersion(e Ecosystem, a, b string) bool {
	if a == b || strings.TrimPrefix(a, "v") == strings.TrimPrefix(b, "v") {
		return true
	}
	if e == NPM || e == Crates || e == Go {
		return false // their versions have one form
	}
	c, ok := compareVersions(e, a, b)
	return ok && c == 0
}

// StandardRegistry reports whether a URL is in one of the registries that package managers use by default.
func StandardRegistry(source string) bool { return standardRegistry(source) }

// ownPackages returns the packages of ecosystems that are parts of a repository, with the files that
// declare them.
func ownPackages(ctx context.Context, tree change.Tree, of map[Ecosystem]bool) (map[[2]string]string, error) {
	paths, err := tree.Paths(ctx)
	if err != nil {
		return nil, err
	}
	own, count := map[[2]string]string{}, 0
	for _, p := range paths {
		read, known := ownName[path.Base(p)]
		if !known || !of[read.of] || strings.Contains("/"+p, "/node_modules/") || strings.Contains("/"+p, "/vendor/") {
			continue
		}
		if count++; count > maxOwnFiles {
			break
		}
		content, ok, err := tree.Read(ctx, p, maxOwnBytes)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		if name := read.name(content); name != "" {
			own[[2]string{string(read.of), normal(read.of, name)}] = p
		}
	}
	return own, nil
}

// ownName reads the name of the package that a manifest declares.
var ownName = map[string]struct {
	of   Ecosystem
	name func(content []byte) string
}{
	"go.mod": {Go, modfile.ModulePath},
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
