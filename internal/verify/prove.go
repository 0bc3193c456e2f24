package verify

import (
	"context"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/pin"
)

// Proof says which new tests do without the change that they came with.
type Proof struct {
	// Unproven are those that passed, or did not run, where the change was not.
	Unproven []Unproven
	// Log is what the commands printed: head and tail of it when it was long.
	Log []byte
	// Duration is wall time.
	Duration time.Duration
}

// Unproven is a new test that did not fail without the change. Why completes
// "TestLogin …".
type Unproven struct {
	Test pin.Added
	Why  string
}

// Why a test is not proven.
const (
	passesAnyway  = "passes also without the change"
	skippedAnyway = "is skipped where the change is not"
	notRunAnyway  = "is not seen to run where the change is not, and nothing failed there"
)

// Prove runs new tests on a checkout that has the test files of a change, and all
// else as it was before: what does not fail there says nothing about the change.
// Only these tests run where their runner can tell them, at least only their
// files or packages; a command that the settings or a script give runs as it is.
//
// A test that does not compile or load there has failed, for the change is what
// it needs. So has one that no runner finds any more. Where a command failed and
// does not name the test among its results, that counts as the test's failure:
// nothing is held against a test of which nothing is known. Failed tests do not
// run again.
//
// Like [Run], it writes into the checkout. An error means that it could not be
// carried out.
func Prove(ctx context.Context, root string, tests []pin.Added, env Env) (Proof, error) {
	if env.Runner == nil {
		return Proof{}, badSetting("no sandbox is set up to run checks in")
	}
	root, err := filepath.Abs(root)
	if err == nil {
		root, err = filepath.EvalSymlinks(root)
	}
	if err != nil {
		return Proof{}, fault.Wrap(err, contract.ClassInfra, contract.CodeRepository, "the checkout cannot be opened")
	}
	env.Settings.Shards, env.Settings.RerunFailed = 1, 0
	p, err := Plan(root, env.Settings)
	if err != nil {
		return Proof{}, err
	}
	dir, err := os.OpenRoot(root)
	if err != nil {
		return Proof{}, fault.Wrap(err, contract.ClassInfra, contract.CodeRepository, "the checkout cannot be opened")
	}
	defer dir.Close()
	if err := linkPackages(dir, env.NodeModules != ""); err != nil {
		return Proof{}, fault.Wrap(err, contract.ClassInfra, "", "the checkout cannot be written")
	}
	r := &run{
		job: job{check: contract.Check{ID: contract.CheckNewTests, Category: contract.CategoryTest}, runs: p.testRuns()},
		env: env, root: root, dir: dir, log: headTail{limit: maxLog}, started: time.Now(),
	}
	seen, err := r.prove(ctx, tests)
	out := Proof{Log: []byte(clean(string(r.log.Bytes()))), Duration: time.Since(r.started)}
	for _, t := range tests {
		if why := seen[t]; why != "" {
			out.Unproven = append(out.Unproven, Unproven{t, why})
		}
	}
	return out, err
}

// testRuns are the commands of all test checks.
func (p Pipeline) testRuns() []invocation {
	var runs []invocation
	for _, stage := range p.Stages {
		for _, c := range stage {
			if j := p.jobs[c.ID]; c.Category == contract.CategoryTest {
				runs = append(runs, j.runs...)
			}
		}
	}
	return runs
}

// prove runs what runs the tests, and says of each why it proves nothing; those
// that prove something are left out. Of several commands one is enough.
func (r *run) prove(ctx context.Context, tests []pin.Added) (map[pin.Added]string, error) {
	seen, proven := map[pin.Added]string{}, map[pin.Added]bool{}
	for _, inv := range r.job.runs {
		inv, covered, err := r.narrow(ctx, inv, tests)
		if err != nil {
			return nil, err
		}
		if len(covered) == 0 {
			continue
		}
		e, err := r.execute(ctx, inv)
		if err != nil {
			return nil, err
		}
		for _, t := range covered {
			seen[t] = e.unproven(t)
			proven[t] = proven[t] || seen[t] == ""
		}
	}
	maps.DeleteFunc(seen, func(t pin.Added, _ string) bool { return proven[t] })
	return seen, nil
}

// narrow is what of a command runs tests, and which of them: none where it runs
// none, or its tool is not installed.
func (r *run) narrow(ctx context.Context, inv invocation, tests []pin.Added) (invocation, []pin.Added, error) {
	inv, ok, err := r.choose(ctx, inv)
	if err != nil || !ok {
		return inv, nil, err
	}
	if inv.only == nil {
		return inv, tests, nil
	}
	inv, covered := inv.only(tests)
	return inv, covered, nil
}

// unproven says why the outcome of a command does not prove a test, "" if it does.
func (e *execution) unproven(t pin.Added) string {
	var passed, skipped bool
	for _, c := range e.casesOf(t) {
		switch {
		case c.Status == contract.TestFailed && e.red():
			return ""
		case c.Status == contract.TestSkipped:
			skipped = true
		default: // a failure that the exit code knows nothing of is none
			passed = true
		}
	}
	switch {
	case e.broken() != "":
		return ""
	case passed:
		return passesAnyway
	case skipped:
		return skippedAnyway
	case e.red():
		return ""
	case e.counted:
		return notRunAnyway
	}
	return passesAnyway // a command that names no tests, and all is well with it
}

// casesOf are the cases of a test: those of its very name where there are any,
// else those whose names end with it ("it adds" is another test than "adds").
func (e *execution) casesOf(t pin.Added) []testCase {
	var all, exact []testCase
	for _, c := range e.parsed.cases {
		if !e.isOf(c, t) {
			continue
		}
		all = append(all, c)
		if strings.HasPrefix(dividers.Replace(c.Name), dividers.Replace(name(withoutNumber(t.Name)))) {
			exact = append(exact, c)
		}
	}
	if len(exact) > 0 && !strings.HasSuffix(t.Path, ".go") {
		return exact
	}
	return all
}

// dividers are what names of tests are put together with.
var dividers = strings.NewReplacer(" › ", " > ", "::", ".")

// isOf reports whether a case is of a test, as far as names can tell: the test
// itself, one in it, or one of its parameters.
func (e *execution) isOf(c testCase, t pin.Added) bool {
	if strings.HasSuffix(t.Path, ".go") {
		dir := site{goDirs: e.run.goDirs}.goDir(c.group)
		return (dir == "" || dir == path.Dir(t.Path)) && isOfGo(c, t)
	}
	if c.file != "" && c.file != t.Path {
		return false
	}
	wanted, got := dividers.Replace(name(withoutNumber(t.Name))), dividers.Replace(c.Name)
	for from := 0; wanted != ""; {
		at := strings.Index(got[from:], wanted)
		if at < 0 {
			return false
		}
		at += from
		before, after := got[:at], got[at+len(wanted):]
		if (before == "" || endsPart.MatchString(before)) && (after == "" || startsPart.MatchString(after)) {
			return true
		}
		from = at + 1
	}
	return false
}

var (
	endsPart   = regexp.MustCompile(`(> |\.| |/)$`)
	startsPart = regexp.MustCompile(`^( > |\[| \()`)
	numbered   = regexp.MustCompile(` #\d+$`)
)

// withoutNumber is the name of a test without what tells it from others of the
// same name.
func withoutNumber(test string) string { return numbered.ReplaceAllString(test, "") }

// isOfGo reports whether a case is of a test of Go. Suites run under the name of
// a test that nobody but the suite knows.
func isOfGo(c testCase, t pin.Added) bool {
	test := withoutNumber(t.Name)
	got := c.test
	if t.Suite {
		_, test, _ = strings.Cut(test, "/")
		_, got, _ = strings.Cut(got, "/")
	}
	return got == test || strings.HasPrefix(got, test+"/")
}

// maxNamed bounds the names that go test -run is given: more do not fit into one
// argument of a command, and their packages run whole.
const maxNamed = 64 << 10

// goTestOnly narrows go test to tests of this module.
func goTestOnly(modules []goModule, at int, tests []pin.Added) (invocation, []pin.Added) {
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
		top, _, _ := strings.Cut(withoutNumber(t.Name), "/")
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
	run := m.run(append(args, slices.Compact(packages)...), FormatGoTest)
	run.audit = dropUndeclared
	return run, covered
}

// inFiles are the tests of some files, and those of the files that have any.
func inFiles(tests []pin.Added, files []string) (covered []pin.Added, has []string) {
	for _, t := range tests {
		if slices.Contains(files, t.Path) {
			covered = append(covered, t)
			has = append(has, t.Path)
		}
	}
	slices.Sort(has)
	return covered, slices.Compact(has)
}

// inScripts are the tests of JavaScript and TypeScript below a directory.
func inScripts(tests []pin.Added, dir string) []pin.Added {
	var covered []pin.Added
	for _, t := range tests {
		if scriptSource.MatchString(t.Path) && below(t.Path, dir) {
			covered = append(covered, t)
		}
	}
	return covered
}

var scriptSource = regexp.MustCompile(`\.[cm]?[jt]sx?$`)
