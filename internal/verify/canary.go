package verify

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// Code under test runs in the process that reports on it. It can end that process
// with exit code 0 before the tests have run, and it can print what a runner prints.
// So exit code 0 and a list of results are not enough: where a runner allows it, a
// command must also show that its tests came to their end, in a way that nobody
// could know beforehand:
//
//   - a report has a random name (hideReports), and some runners must leave one;
//   - a test with a random name, the canary, runs after all others (Go, unittest).
//
// Code that searches its own process or the checkout for those names can still
// pretend. See "Results that nobody saw" in docs/ARCHITECTURE.md.

// ruleCutShort marks the finding that tests ended with exit code 0 and were not seen
// to run to their end.
const ruleCutShort = "tests-cut-short"

// canaryName begins the names of tests that are added to a run.
const canaryName = "rgpt_canary_"

// secret is a name that code written before it was made cannot know.
func secret() string { return strings.ToLower(rand.Text()) }

// makeScratch makes the directory for what commands write and read of ours.
func makeScratch(root *os.Root) error {
	if info, err := root.Lstat(scratchDir); err == nil && !info.IsDir() {
		if err := root.Remove(scratchDir); err != nil {
			return err
		}
	}
	return root.MkdirAll(scratchDir, 0o755)
}

// hideReports gives the reports that a detected command writes another name each
// time, so that nothing can be put there beforehand.
func hideReports(inv invocation, secret string) invocation {
	if len(inv.typed) == 0 && inv.shell == "" {
		inv.typed = inv.args
	}
	inv.args, inv.reports = slices.Clone(inv.args), slices.Clone(inv.reports)
	for n, report := range inv.reports {
		if path.Dir(report) != scratchDir {
			continue
		}
		ext := path.Ext(report)
		hidden := strings.TrimSuffix(report, ext) + "-" + secret + ext
		inv.reports[n] = hidden
		for i, arg := range inv.args {
			inv.args[i] = strings.ReplaceAll(arg, path.Base(report), path.Base(hidden))
		}
		env := withEnv(inv.env, nil)
		for key, value := range env {
			env[key] = strings.ReplaceAll(value, path.Base(report), path.Base(hidden))
		}
		inv.env = env
	}
	return inv
}

// cutShort records that the tests of a command, or of a package in dir, were not seen
// to end. What passed there by its own account is not counted.
func (e *execution) cutShort(l level, dir, text string, of func(testCase) bool) {
	e.parsed.cases = slices.DeleteFunc(e.parsed.cases, func(c testCase) bool { return c.Status == contract.TestPassed && of(c) })
	e.parsed.sum = nil
	e.parsed.problems = append(e.parsed.problems, problem{level: l, path: dir, rule: ruleCutShort, message: text})
}

func everyCase(testCase) bool { return true }

// cutShortMessage says of a command that ended well what was not seen. It has no
// counts: the same of the base commit is known by its message.
func cutShortMessage(e *execution, missing, causes string) string {
	return fmt.Sprintf("`%s` ended with exit code 0, but its tests were not seen to end: %s. What it reports as passed does not count. "+
		"Code under test has ended the process early, or printed results of its own; look for %s in what is imported and tested",
		fault.Clip(clean(e.run.String()), 200), missing, causes)
}

// mustReport makes a run red that ends well and leaves no report, although its runner
// always writes one.
func mustReport(causes string) func(*execution, site) {
	return func(e *execution, _ site) {
		if e.result.OK() && !e.reported {
			e.cutShort(levelError, "", cutShortMessage(e, "the report that the runner writes at its end is missing", causes), everyCase)
		}
	}
}

const pythonExits = "os._exit, sys.exit, os.exec and atexit"

// unittestCanary adds a module with one test to the end of those that unittest runs
// in their order.
func unittestCanary(root *os.Root, inv invocation, secret string) (invocation, error) {
	module, test := canaryName+secret[:8], "test_"+secret[8:]
	if err := makeScratch(root); err != nil {
		return inv, err
	}
	source := "import unittest\n\n\nclass Last(unittest.TestCase):\n    def " + test + "(self):\n        pass\n"
	if err := root.WriteFile(path.Join(scratchDir, module+".py"), []byte(source), 0o644); err != nil {
		return inv, err
	}
	inv.typed, inv.args = inv.args, append(slices.Clone(inv.args), module)
	inv.env = withEnv(inv.env, map[string]string{"PYTHONPATH": strings.TrimSuffix(scratchDir+":"+inv.env["PYTHONPATH"], ":")})
	inv.ended = func(e *execution, _ site) {
		seen := false
		e.parsed.cases = slices.DeleteFunc(e.parsed.cases, func(c testCase) bool {
			canary := strings.HasSuffix(c.test, "."+test)
			seen = seen || canary && c.Status == contract.TestPassed
			return canary
		})
		if e.result.OK() && !seen && !e.result.StderrTruncated {
			e.cutShort(levelError, "", cutShortMessage(e, "a test that was added to run last did not run", pythonExits), everyCase)
		}
	}
	return inv, nil
}

// goCanary adds a fuzz target with a random name to each package with tests. Those run
// once all tests have ended, also the parallel ones, and those of an external test
// package run last. It is added by an overlay, so that the checkout has the files
// that it had, and in an external test package, so that nothing else has to be
// compiled again.
func goCanary(m goModule, packages []goPackage) func(*os.Root, invocation, string) (invocation, error) {
	return func(root *os.Root, inv invocation, secret string) (invocation, error) {
		target := "Fuzz_" + canaryName + secret
		replace, expected := map[string]string{}, map[string]bool{}
		if err := makeScratch(root); err != nil {
			return inv, err
		}
		for _, p := range packages {
			if p.name == "" {
				continue
			}
			file := path.Join(scratchDir, "go-"+secret+"-"+p.name)
			source := "package " + p.name + "_test\n\nimport \"testing\"\n\nfunc " + target + "(f *testing.F) { f.Fuzz(func(*testing.T, []byte) {}) }\n"
			if err := root.WriteFile(file, []byte(source), 0o644); err != nil {
				return inv, err
			}
			replace[path.Join(relTo(m.dir, p.dir), "zzz_"+canaryName+secret+"_test.go")] = up(m.dir, file)
			expected[p.dir] = true
		}
		overlay := path.Join(scratchDir, "go-"+secret+".json")
		data, err := json.Marshal(map[string]any{"Replace": replace})
		if err == nil {
			err = root.WriteFile(overlay, data, 0o644)
		}
		if err != nil {
			return inv, err
		}
		inv.typed, inv.args = inv.args, slices.Insert(slices.Clone(inv.args), 2, "-overlay="+up(m.dir, overlay))
		if n := slices.Index(inv.args, "-run") + 1; n > 0 {
			inv.args[n] += "|^" + target + "$"
		}
		inv.hidden = target
		inv.ended = func(e *execution, s site) { goEnded(root, e, s, target, expected) }
		return inv, nil
	}
}

// goEnded holds the packages that passed against those whose canary did.
func goEnded(root *os.Root, e *execution, s site, target string, expected map[string]bool) {
	e.parsed.cases = slices.DeleteFunc(e.parsed.cases, func(c testCase) bool { return c.test == target })
	if e.result.StdoutTruncated {
		return
	}
	seen := map[string]bool{}
	var passed []string
	for line := range bytes.Lines(e.result.Stdout) {
		var event goEvent
		if !bytes.Contains(line, []byte(`"Action":"pass"`)) || json.Unmarshal(line, &event) != nil {
			continue
		}
		switch event.Test {
		case target:
			seen[event.Package] = true
		case "":
			passed = append(passed, event.Package)
		}
	}
	for _, pkg := range passed {
		dir := s.goDir(pkg)
		if seen[pkg] || !expected[dir] {
			continue
		}
		ofPackage := func(c testCase) bool { return c.group == pkg }
		l, text := levelError, fmt.Sprintf("go test says that %s passed, but its tests were not seen to end: a test that was added to run last did not run. What it reports as passed does not count. "+
			"Code under test has ended the test program with exit code 0, or printed results of its own; look for os.Exit, syscall.Exit and syscall.Exec in init functions and in what tests call", name(pkg))
		if !slices.ContainsFunc(e.parsed.cases, ofPackage) && goTestFuncs(root, dir)["TestMain"] {
			// As tests do that want a database which is not there.
			l, text = levelWarning, fmt.Sprintf("go test says that %s passed, but none of its tests ran: its TestMain, or something before it, ended the test program with exit code 0", name(pkg))
		}
		e.cutShort(l, dir, text, ofPackage)
	}
}

var (
	cargoBegun = regexp.MustCompile(`(?m)^running (\d+) tests?\r?$`)
	cargoEnded = regexp.MustCompile(`(?m)^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored; (\d+) measured;`)
)

// cargoFinished holds the tests that cargo's test programs announce against those in
// their sums: a program that a test ends has none.
func cargoFinished(e *execution, _ site) {
	if !e.result.OK() || e.result.StdoutTruncated {
		return
	}
	begun, ended := 0, 0
	for _, m := range cargoBegun.FindAllSubmatch(e.result.Stdout, -1) {
		begun += number(string(m[1]))
	}
	for _, m := range cargoEnded.FindAllSubmatch(e.result.Stdout, -1) {
		for _, n := range m[1:] {
			ended += number(string(n))
		}
	}
	if begun > ended {
		e.cutShort(levelError, "", cutShortMessage(e, "a test program has announced more tests than its sum names", "std::process::exit"), everyCase)
	}
}
