package checks

import (
	"go/build"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/pin"
	"github.com/rocketgpt/orchestrator/internal/verify/output"
)

// goPackage is a package with tests.
type goPackage struct {
	module int // index
	dir    string
	name   string // without the _test of external tests; "" if unknown
}

// planGoTests shards by package. A single shard runs "./...", which also finds packages that a file
// scan misses.
func planGoTests(t *checkout, modules []GoModule, shards int) []Job {
	packages := goTestPackages(t, modules)
	if len(packages) == 0 {
		return nil
	}
	countTests(modules, packages)
	if shards == 1 {
		var runs []Invocation
		for n, m := range modules {
			if slices.ContainsFunc(packages, func(p goPackage) bool { return p.module == n }) {
				runs = append(runs, goTest(modules, n, m.Patterns, packages))
			}
		}
		return shardJobs("go", "go test", [][]Invocation{runs})
	}
	var all [][]Invocation
	for _, shard := range roundRobin(packages, shards) {
		all = append(all, goShard(modules, shard))
	}
	return shardJobs("go", "go test", all)
}

// countTests records how many packages of each module have tests.
func countTests(modules []GoModule, packages []goPackage) {
	for _, p := range packages {
		modules[p.module].tests++
	}
}

func goShard(modules []GoModule, packages []goPackage) []Invocation {
	patterns := map[int][]string{}
	for _, p := range packages {
		patterns[p.module] = append(patterns[p.module], goPattern(modules[p.module], p.dir))
	}
	var runs []Invocation
	for _, n := range slices.Sorted(maps.Keys(patterns)) {
		runs = append(runs, goTest(modules, n, patterns[n], packages))
	}
	return runs
}

// goPattern returns the package pattern of a directory within its module.
func goPattern(m GoModule, dir string) string {
	if dir == m.Dir {
		return "."
	}
	return "./" + relTo(m.Dir, dir)
}

// goTest runs packages of one of the modules. Without -count=1 a cached result could
// come from another checkout.
func goTest(modules []GoModule, n int, patterns []string, packages []goPackage) Invocation {
	m := modules[n]
	packages = slices.DeleteFunc(slices.Clone(packages), func(p goPackage) bool { return p.module != n })
	run := m.run(append([]string{"go", "test", "-json", "-count=1"}, patterns...), output.FormatGoTest)
	run.Audit, run.canary, run.Coverage = dropUndeclared, goCanary(m, packages), goCoverage(m)
	run.RerunFailed = func(failed []output.Case, _ int) Invocation { return goTestFailed(m, packages, failed) }
	run.Only = func(tests []pin.Added) (Invocation, []pin.Added) { return goTestOnly(modules, n, tests) }
	return run
}

// goTestFailed runs the failed tests in their packages. A subtest cannot run without its parent
// test.
func goTestFailed(m GoModule, packages []goPackage, failed []output.Case) Invocation {
	var paths, tests []string
	for _, c := range failed {
		top, _, _ := strings.Cut(c.Test, "/")
		paths = append(paths, c.Group)
		tests = append(tests, regexp.QuoteMeta(top))
	}
	slices.Sort(paths)
	slices.Sort(tests)
	pattern := "^(" + strings.Join(slices.Compact(tests), "|") + ")$"
	run := m.run(append([]string{"go", "test", "-json", "-count=1", "-run", pattern}, slices.Compact(paths)...), output.FormatGoTest)
	run.Audit, run.canary = dropUndeclared, goCanary(m, packages)
	return run
}

// goTestFunc finds the functions that go test runs.
var goTestFunc = regexp.MustCompile(`(?m)^func\s+((?:Test|Fuzz|Example)\w*)\s*\(`)

// goTestPackages lists the directories with tests that build on this platform.
func goTestPackages(t *checkout, modules []GoModule) []goPackage {
	var found []goPackage
	seen := map[string]bool{}
	for _, f := range t.files {
		dir := path.Dir(f)
		if !strings.HasSuffix(f, "_test.go") || seen[dir] || output.GoIgnores(dir) {
			continue
		}
		if n := goModuleOf(modules, dir); n >= 0 && goBuilds(t, f) && goTestFunc.MatchString(t.read(f)) {
			seen[dir] = true
			found = append(found, goPackage{module: n, dir: dir, name: goPackageName(t.read(f))})
		}
	}
	return found
}

// goPackageName returns the name of the package that a test file tests.
func goPackageName(source string) string {
	f, err := parser.ParseFile(token.NewFileSet(), "", source, parser.PackageClauseOnly)
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(f.Name.Name, "_test")
}

// goBuilds evaluates a file's build constraints and name, as go test does.
func goBuilds(t *checkout, f string) bool {
	ctx := build.Default
	ctx.OpenFile = func(string) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(t.read(f))), nil }
	ok, err := ctx.MatchFile(path.Dir(f), path.Base(f))
	return err != nil || ok
}

// dropUndeclared removes cases of tests that no source file declares: a test binary can print
// anything, including the markers that frame results. The exit code decides the rest.
func dropUndeclared(root *os.Root, s output.Paths, p *output.Results) {
	declared := map[string]map[string]bool{}
	kept := p.Cases[:0]
	for _, c := range p.Cases {
		dir := s.GoDir(c.Group)
		if dir == "" || c.Status == contract.TestFailed {
			kept = append(kept, c)
			continue
		}
		if declared[dir] == nil {
			declared[dir] = goTestFuncs(root, dir)
		}
		if top, _, _ := strings.Cut(c.Test, "/"); declared[dir][top] {
			kept = append(kept, c)
			continue
		}
		p.Problems = append(p.Problems, output.Problem{
			Level: output.Warning, Path: dir, Rule: output.Name(c.Test),
			Message: output.Message(c.Name + " is reported as having run, but no test file declares it; it is not counted"),
		})
	}
	p.Cases = kept
}

// goTestFuncs are the names of the tests in the files of a directory.
func goTestFuncs(root *os.Root, dir string) map[string]bool {
	names := map[string]bool{}
	f, err := root.Open(dir)
	if err != nil {
		return names
	}
	defer f.Close()
	entries, _ := f.Readdirnames(10_000)
	for _, n := range entries {
		if !strings.HasSuffix(n, "_test.go") {
			continue
		}
		data, _ := output.ReadRegular(root, path.Join(dir, n), 4*maxSource)
		for _, m := range goTestFunc.FindAllSubmatch(data, -1) {
			names[string(m[1])] = true
		}
	}
	return names
}

// goTestOnly narrows go test to tests of this module.
func goTestOnly(modules []GoModule, at int, tests []pin.Added) (Invocation, []pin.Added) {
	m := modules[at]
	var covered []pin.Added
	var packages, names []string
	all, size := false, 0
	for _, t := range tests {
		if !strings.HasSuffix(t.Path, ".go") || goModuleOf(modules, path.Dir(t.Path)) != at {
			continue
		}
		covered = append(covered, t)
		packages = append(packages, goPattern(m, path.Dir(t.Path)))
		top, _, _ := strings.Cut(WithoutNumber(t.Name), "/")
		names = append(names, regexp.QuoteMeta(top))
		size += len(names[len(names)-1]) + len("|")
		all = all || t.Suite || size > maxNamed
	}
	args := []string{"go", "test", "-json", "-count=1"}
	if !all {
		slices.Sort(names)
		args = append(args, "-run", "^("+strings.Join(slices.Compact(names), "|")+")$")
	}
	slices.Sort(packages)
	run := m.run(append(args, slices.Compact(packages)...), output.FormatGoTest)
	run.Audit = dropUndeclared
	return run, covered
}

// maxNamed limits the bytes of names passed to go test -run, which must fit into one argument.
// Beyond this limit, whole packages run.
const maxNamed = 64 << 10
