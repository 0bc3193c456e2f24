package environment

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// maxInputs limits how many files beside manifests and lock files are examined.
const maxInputs = 2000

// readBySetups matches files that installers read anywhere in the tree: manifests of members and of
// local dependencies, patches, generators' schemas, build logic.
var readBySetups = regexp.MustCompile(`(^|/)(package\.json|\.npmrc|\.yarnrc(\.yml)?|setup\.(py|cfg)|pyproject\.toml|pom\.xml|Cargo\.toml|go\.mod|gradle\.properties|` +
	`(requirements|constraints)[^/]*\.(txt|in)|[^/]+\.(gradle|gradle\.kts|versions\.toml|prisma))$|` +
	`(^|/)(requirements/[^/]+\.(txt|in)|patches/[^/]+\.patch|\.yarn/(releases|patches|plugins)/.+|buildSrc/.+)$`)

// addInputs adds files that commands read besides the manifests and lock files of projects: two
// commits with different ones must not share an environment.
func (f *finder) addInputs() {
	if len(f.r.Setup) == 0 {
		return
	}
	before := len(f.r.Inputs)
	for _, p := range f.t.files {
		if readBySetups.MatchString(p) && len(f.r.Inputs)-before < maxInputs {
			f.r.Inputs = append(f.r.Inputs, p)
		}
	}
	f.r.RunsCode = f.r.Source != SourceDetected || f.buildsIn(f.r.Inputs[before:])
	for _, c := range f.r.Setup {
		f.named(c.Dir, c.Shell)
	}
	for _, p := range f.r.Projects {
		switch p.Ecosystem {
		case "node":
			f.lifecycle(p)
		case "go", "rust": // they only download
		case "python": // building a project runs the code that its build specifies
			f.r.RunsCode = f.r.RunsCode || f.t.has(path.Join(p.Dir, "setup.py")) || strings.Contains(f.t.text(path.Join(p.Dir, "pyproject.toml")), "[build-system]")
		default:
			f.r.RunsCode = true
		}
	}
}

// buildsIn reports whether files read by installers cause them to run code of the repository:
// scripts of members, packages in the repository, hooks of a package manager.
func (f *finder) buildsIn(files []string) bool {
	return slices.ContainsFunc(files, func(p string) bool {
		switch path.Base(p) {
		case "package.json":
			text := f.t.text(p)
			return strings.Contains(text, `"file:`) || strings.Contains(text, `"link:`) || strings.Contains(text, `"portal:`) || f.installs(p)
		case ".yarnrc.yml":
			return strings.Contains(f.t.text(p), "yarnPath") || strings.Contains(f.t.text(p), "plugins")
		case ".yarnrc":
			return strings.Contains(f.t.text(p), "yarn-path")
		}
		return strings.Contains(p, ".yarn/")
	}) || f.t.has(".pnpmfile.cjs")
}

// installs reports whether an installation runs scripts of a manifest that may be code
// of the repository.
func (f *finder) installs(manifest string) bool {
	var m struct {
		Scripts map[string]string `json:"scripts"`
	}
	f.t.json(manifest, &m)
	return slices.ContainsFunc(installScripts, func(name string) bool { return !harmless.MatchString(m.Scripts[name]) })
}

// installScripts are the scripts of a manifest that an installation runs.
var installScripts = []string{"preinstall", "install", "postinstall", "prepublish", "preprepare", "prepare", "postprepare"}

// harmless matches install scripts that do not run code of the repository.
var harmless = regexp.MustCompile(`^\s*((npx )?only-allow \w+|husky( install)?|is-ci \|\| husky( install)?|husky( install)? \|\| true|simple-git-hooks|lefthook install|exit 0|true|)\s*$`)

// lifecycle adds the files named by the scripts that an installation runs.
func (f *finder) lifecycle(p Project) {
	var m struct {
		Scripts map[string]string `json:"scripts"`
	}
	f.t.json(p.Manifest, &m)
	for _, name := range installScripts {
		f.named(p.Dir, m.Scripts[name])
	}
}

// named adds the files of the checkout whose paths appear in a command, and the makefiles if it
// calls make. Files that these use in turn are not found.
func (f *finder) named(dir, command string) {
	for _, word := range strings.FieldsFunc(command, func(r rune) bool { return strings.ContainsRune(" \t\n;&|<>(){}'\"`=$,", r) }) {
		f.input(path.Join(dir, word))
		if word == "make" {
			for _, name := range []string{"Makefile", "makefile", "GNUmakefile"} {
				f.input(path.Join(dir, name))
			}
		}
	}
}
