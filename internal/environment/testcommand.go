package environment

import (
	"path"
	"regexp"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/sandbox"
)

// plainTest matches a test command that runs unchanged after the setup: no matrix, no environments.
var plainTest = regexp.MustCompile(`^(?:(?:(?:uv|poetry|pdm|pipenv) run |python3? -m )?pytest|python3? -m unittest|npm (?:run )?test|npm t|(?:pnpm|yarn|bun)(?: run)? test|go test|cargo test|make (?:test|check))(?: |$)`)

// testCommand returns the first plain test command that the workflows run in the root, otherwise
// the test command of the root's manifest.
func (f *finder) testCommand() string {
	for _, c := range f.ci {
		if c.dir == "." && runsTests.MatchString(c.command) && plainTest.MatchString(c.command) {
			if list, ok := split(c.command); ok {
				return sandbox.Quote(list...)
			}
		}
	}
	for _, p := range f.r.Projects {
		if p.Dir != "." {
			continue
		}
		switch p.Ecosystem {
		case "go":
			return "go test ./..."
		case "rust":
			return "cargo test"
		case "node":
			if f.t.readPackage(p.Manifest).Scripts["test"] != "" {
				return strings.TrimSuffix(p.Manager, "-berry") + " test"
			}
		case "python":
			if f.usesPytest(p.Dir) {
				return "pytest"
			}
		case "java":
			if p.Manager == "maven" {
				return "mvn test"
			}
			return f.gradle(p.Dir) + " test"
		}
	}
	if target := makeTarget.FindStringSubmatch(f.t.text(f.t.first(".", makefiles...))); target != nil {
		return "make " + target[1]
	}
	return ""
}

var (
	makefiles  = []string{"GNUmakefile", "makefile", "Makefile"}
	makeTarget = regexp.MustCompile(`(?m)^(test|check)\s*::?(?:[^=]|$)`)
)

// findMake records a project that is built only with make or CMake: nothing is fetched for it, but
// its tools must be available.
func findMake(f *finder) {
	if len(f.r.Projects) > 0 {
		return
	}
	if manifest := f.t.first(".", makefiles...); manifest != "" {
		f.project(Project{Dir: ".", Ecosystem: "make", Manager: "make", Manifest: manifest})
		f.want("make", "", manifest, nil)
	}
	if manifest := f.t.first(".", "CMakeLists.txt"); manifest != "" && len(f.r.Projects) == 0 {
		f.project(Project{Dir: ".", Ecosystem: "make", Manager: "cmake", Manifest: manifest})
		f.want("cmake", "", manifest, nil)
	}
	if manifest := f.t.first(".", "configure.ac", "configure.in"); manifest != "" {
		f.project(Project{Dir: ".", Ecosystem: "make", Manager: "autotools", Manifest: manifest})
		f.want("make", "", manifest, nil)
	}
	if len(f.r.Projects) > 0 && len(f.t.cSources()) > 0 {
		f.want("gcc", "", f.r.Projects[0].Manifest, nil)
	}
}

func (t *tree) cSources() []string {
	var out []string
	for _, p := range t.files {
		if ext := path.Ext(p); ext == ".c" || ext == ".cc" || ext == ".cpp" {
			out = append(out, p)
		}
	}
	return out
}
