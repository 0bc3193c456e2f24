package verify

import (
	"go/build"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/pin"
)

// goModule is a module of the checkout, or the workspace that joins several.
type goModule struct {
	dir      string
	members  []string // directories of a workspace's modules; nil: dir itself
	patterns []string // what "all packages" is called here
	env      map[string]string
	dirs     map[string]string // of all modules: path → directory
}

// planGo finds Go modules. Without go.work each module is a command of its own
// in the same check, since "./..." ends where the next module begins.
func planGo(t *tree, p planning) []job {
	modules := goModules(t)
	if len(modules) == 0 {
		return nil
	}
	var build, lint []invocation
	for _, m := range modules {
		build = append(build, m.run(append([]string{"go", "build", "-o", os.DevNull}, m.patterns...), FormatExitCode))
		lint = append(lint, m.run(append([]string{"go", "vet"}, m.patterns...), FormatExitCode))
	}
	// gofmt reads files that do not compile, such as test data, and complains
	// about them in its exit code.
	lint = append(lint, invocation{args: []string{"gofmt", "-l", "."}, format: formatFileList, advisory: true})
	jobs := []job{
		simpleJob(contract.CategoryBuild, "go", "go build", build...),
		simpleJob(contract.CategoryLint, "go", "go vet, gofmt", lint...),
	}
	return append(jobs, planGoTests(t, modules, p.shards)...)
}

// run is a command of the go tool in this module.
func (m goModule) run(args []string, f Format) invocation {
	return invocation{args: args, dir: m.dir, env: m.env, format: f, goDirs: m.dirs}
}

var (
	goModuleLine = regexp.MustCompile(`(?m)^\s*module\s+"?([^\s"]+)`)
	goUse        = regexp.MustCompile(`(?m)^\s*use\s*(?:\(([^)]*)\)|"?([^\s"(]+)"?)`)
)

// goModules lists the modules whose packages are to be verified.
func goModules(t *tree) []goModule {
	dirs := t.match(func(p string) bool {
		return path.Base(p) == "go.mod" && !inFixture(path.Dir(p)) && !strings.Contains("/"+p, "/vendor/")
	})
	var modules []goModule
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

func goModulePath(t *tree, dir string) string {
	if found := goModuleLine.FindStringSubmatch(t.read(path.Join(dir, "go.mod"))); found != nil {
		return found[1]
	}
	return ""
}

func goModuleIn(dir string, outsideWorkspace bool) goModule {
	m := goModule{dir: dir, patterns: []string{"./..."}, env: map[string]string{}}
	if outsideWorkspace {
		m.env["GOWORK"] = "off"
	}
	return m
}

// goWorkspace reads go.work.
func goWorkspace(t *tree) goModule {
	w := goModule{dir: ".", env: map[string]string{}}
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
		w.patterns = append(w.patterns, "./"+path.Join(dir, "..."))
	}
	return w
}

// goPackage is a package with tests.
type goPackage struct {
	module int // index
	dir    string
	name   string // without the _test of external tests; "" where it is not known
}

// planGoTests shards by package. A single shard runs "./...", which also finds
// what a scan of files cannot know about.
func planGoTests(t *tree, modules []goModule, shards int) []job {
	packages := goTestPackages(t, modules)
	if len(packages) == 0 {
		return nil
	}
	if shards == 1 {
		var runs []invocation
		for n, m := range modules {
			if slices.ContainsFunc(packages, func(p goPackage) bool { return p.module == n }) {
				runs = append(runs, goTest(modules, n, m.patterns, packages))
			}
		}
		return shardJobs("go", "go test", [][]invocation{runs})
	}
	var all [][]invocation
	for _, shard := range roundRobin(packages, shards) {
		all = append(all, goShard(modules, shard))
	}
	return shardJobs("go", "go test", all)
}

func goShard(modules []goModule, packages []goPackage) []invocation {
	patterns := map[int][]string{}
	for _, p := range packages {
		patterns[p.module] = append(patterns[p.module], goPattern(modules[p.module], p.dir))
	}
	var runs []invocation
	for _, n := range slices.Sorted(maps.Keys(patterns)) {
		runs = append(runs, goTest(modules, n, patterns[n], packages))
	}
	return runs
}

// goPattern is what the package in a directory is called in its module.
func goPattern(m goModule, dir string) string {
	if dir == m.dir {
		return "."
	}
	return "./" + relTo(m.dir, dir)
}

// goTest runs packages of one of the modules. Without -count=1 a cached result
// would be a result of another checkout.
func goTest(modules []goModule, n int, patterns []string, packages []goPackage) invocation {
	m := modules[n]
	packages = slices.DeleteFunc(slices.Clone(packages), func(p goPackage) bool { return p.module != n })
	run := m.run(append([]string{"go", "test", "-json", "-count=1"}, patterns...), FormatGoTest)
	run.audit, run.canary = dropUndeclared, goCanary(m, packages)
	run.again = func(failed []testCase) invocation { return goTestAgain(m, packages, failed) }
	run.only = func(tests []pin.Added) (invocation, []pin.Added) { return goTestOnly(modules, n, tests) }
	return run
}

// goTestAgain runs the failed tests of the packages they are in. A subtest
// cannot run without the test around it.
func goTestAgain(m goModule, packages []goPackage, failed []testCase) invocation {
	var paths, tests []string
	for _, c := range failed {
		top, _, _ := strings.Cut(c.test, "/")
		paths = append(paths, c.group)
		tests = append(tests, regexp.QuoteMeta(top))
	}
	slices.Sort(paths)
	slices.Sort(tests)
	pattern := "^(" + strings.Join(slices.Compact(tests), "|") + ")$"
	run := m.run(append([]string{"go", "test", "-json", "-count=1", "-run", pattern}, slices.Compact(paths)...), FormatGoTest)
	run.audit, run.canary = dropUndeclared, goCanary(m, packages)
	return run
}

// goTestFunc finds the functions that go test runs.
var goTestFunc = regexp.MustCompile(`(?m)^func\s+((?:Test|Fuzz|Example)\w*)\s*\(`)

// goTestPackages lists the directories with tests that this platform builds.
func goTestPackages(t *tree, modules []goModule) []goPackage {
	var found []goPackage
	seen := map[string]bool{}
	for _, f := range t.files {
		dir := path.Dir(f)
		if !strings.HasSuffix(f, "_test.go") || seen[dir] || goIgnores(dir) {
			continue
		}
		if n := goModuleOf(modules, dir); n >= 0 && goBuilds(t, f) && goTestFunc.MatchString(t.read(f)) {
			seen[dir] = true
			found = append(found, goPackage{module: n, dir: dir, name: goPackageName(t.read(f))})
		}
	}
	return found
}

// goPackageName is the name of the package that a file of tests is about.
func goPackageName(source string) string {
	f, err := parser.ParseFile(token.NewFileSet(), "", source, parser.PackageClauseOnly)
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(f.Name.Name, "_test")
}

// goIgnores: "./..." leaves these out.
func goIgnores(dir string) bool {
	for part := range strings.SplitSeq(dir, "/") {
		if part == "testdata" || part == "vendor" || strings.HasPrefix(part, "_") {
			return true
		}
	}
	return false
}

// goModuleOf is the innermost module around dir, -1 for none.
func goModuleOf(modules []goModule, dir string) int {
	best, size := -1, -1
	for n, m := range modules {
		roots := m.members
		if roots == nil {
			roots = []string{m.dir}
		}
		for _, root := range roots {
			if below(dir, root) && len(root) > size {
				best, size = n, len(root)
			}
		}
	}
	return best
}

// goBuilds evaluates a file's build constraints and name, as go test does.
func goBuilds(t *tree, f string) bool {
	ctx := build.Default
	ctx.OpenFile = func(string) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(t.read(f))), nil }
	ok, err := ctx.MatchFile(path.Dir(f), path.Base(f))
	return err != nil || ok
}
