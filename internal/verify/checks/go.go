package checks

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/verify/output"
)

// GoModule is a module of the checkout, or a workspace of several modules.
type GoModule struct {
	Dir      string
	members  []string // directories of a workspace's modules; nil: dir itself
	Patterns []string // the pattern for "all packages" here
	Env      map[string]string
	dirs     map[string]string // of all modules: path → directory
	tests    int               // packages with tests, once they have been counted
}

// planGo finds Go modules. Without go.work each module is a separate command in the same check,
// because "./..." stops at the next module.
func planGo(t *checkout, p planning) []Job {
	modules := goModules(t)
	if len(modules) == 0 {
		return nil
	}
	var build, lint []Invocation
	for _, m := range modules {
		build = append(build, m.run(append([]string{"go", "build", "-o", os.DevNull}, m.Patterns...), output.FormatExitCode))
		lint = append(lint, m.run(append([]string{"go", "vet"}, m.Patterns...), output.FormatExitCode))
	}
	// gofmt also reads files that do not compile, such as test data, and reports them
	// in its exit code.
	lint = append(lint, Invocation{Args: []string{"gofmt", "-l", "."}, Format: output.FormatFileList, Advisory: true})
	jobs := []Job{
		simpleJob(contract.CategoryBuild, "go", "go build", build...),
		simpleJob(contract.CategoryLint, "go", "go vet, gofmt", lint...),
	}
	return append(jobs, planGoTests(t, modules, p.shards)...)
}

// run is a command of the go tool in this module.
func (m GoModule) run(args []string, f output.Format) Invocation {
	return Invocation{Args: args, Dir: m.Dir, Env: m.Env, Format: f, GoDirs: m.dirs}
}

var (
	goModuleLine = regexp.MustCompile(`(?m)^\s*module\s+"?([^\s"]+)`)
	goUse        = regexp.MustCompile(`(?m)^\s*use\s*(?:\(([^)]*)\)|"?([^\s"(]+)"?)`)
)

// GoModulesIn lists the modules of a checkout.
func GoModulesIn(root string) ([]GoModule, error) {
	t, err := openTree(root)
	if err != nil {
		return nil, err
	}
	defer t.close()
	modules := goModules(t)
	countTests(modules, goTestPackages(t, modules))
	return modules, nil
}

// goModules lists the modules whose packages are to be verified.
func goModules(t *checkout) []GoModule {
	dirs := t.match(func(p string) bool {
		return path.Base(p) == "go.mod" && !inFixture(path.Dir(p)) && !strings.Contains("/"+p, "/vendor/")
	})
	var modules []GoModule
	used := map[string]bool{}
	if t.has("go.work") {
		if w := goWorkspace(t); len(w.members) > 0 {
			modules = append(modules, w)
			for _, dir := range w.members {
				used[dir] = true
			}
		}
	}
	for _, f := range dirs {
		if dir := path.Dir(f); !used[dir] {
			modules = append(modules, goModuleIn(dir, t.has("go.work")))
		}
	}
	const maxModules = 50
	modules = modules[:min(len(modules), maxModules)]
	paths := map[string]string{}
	for _, f := range dirs {
		if p := goModulePath(t, path.Dir(f)); p != "" {
			paths[p] = path.Dir(f)
		}
	}
	for n := range modules {
		modules[n].dirs = paths
	}
	return modules
}

func goModulePath(t *checkout, dir string) string {
	if found := goModuleLine.FindStringSubmatch(t.read(path.Join(dir, "go.mod"))); found != nil {
		return found[1]
	}
	return ""
}

func goModuleIn(dir string, outsideWorkspace bool) GoModule {
	m := GoModule{Dir: dir, Patterns: []string{"./..."}, Env: map[string]string{}}
	if outsideWorkspace {
		m.Env["GOWORK"] = "off"
	}
	return m
}

// goWorkspace reads go.work.
func goWorkspace(t *checkout) GoModule {
	w := GoModule{Dir: ".", Env: map[string]string{}}
	for _, use := range goUse.FindAllStringSubmatch(t.read("go.work"), -1) {
		for line := range strings.Lines(use[1] + "\n" + use[2]) {
			line, _, _ = strings.Cut(line, "//")
			dir := path.Clean(strings.Trim(strings.TrimSpace(line), `"`))
			if dir != "" && filepath.IsLocal(dir) && t.has(path.Join(dir, "go.mod")) {
				w.members = append(w.members, dir)
			}
		}
	}
	slices.Sort(w.members)
	w.members = slices.Compact(w.members)
	for _, dir := range w.members {
		w.Patterns = append(w.Patterns, "./"+path.Join(dir, "..."))
	}
	return w
}

// goModuleOf returns the index of the innermost module that contains dir, or -1.
func goModuleOf(modules []GoModule, dir string) int {
	best, size := -1, -1
	for n, m := range modules {
		roots := m.members
		if roots == nil {
			roots = []string{m.Dir}
		}
		for _, root := range roots {
			if output.Below(dir, root) && len(root) > size {
				best, size = n, len(root)
			}
		}
	}
	return best
}

// Dependencies identifies what a checkout is built from besides its own packages: two checkouts of
// one repository with the same result can share one [Compile]. It returns "" if Compile has nothing
// to do.
func Dependencies(root string) string {
	t, err := openTree(root)
	if err != nil {
		return ""
	}
	defer t.close()
	if len(goModules(t)) == 0 {
		return ""
	}
	sum := sha256.New()
	for _, f := range t.match(func(p string) bool {
		return slices.Contains([]string{"go.mod", "go.sum", "go.work", "go.work.sum", "modules.txt"}, path.Base(p))
	}) {
		fmt.Fprintf(sum, "%q %q\n", f, t.read(f))
	}
	return hex.EncodeToString(sum.Sum(nil))
}
