package verify

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
)

// goEvent is one line of go test -json.
type goEvent struct {
	Action      string
	Package     string
	ImportPath  string
	Test        string
	Elapsed     float64
	Output      string
	FailedBuild string
}

// goTestState is what the events say of one test or, without a name, of a
// package.
type goTestState struct {
	pkg, test string
	begun     bool
	status    contract.TestStatus
	elapsed   float64
	output    strings.Builder
	parent    bool
}

// goKey finds a test.
type goKey struct{ pkg, test string }

// goTestParser folds events. Its rules favour red: a test that failed once
// stays failed, one that never began does not count, one that never ended
// failed.
type goTestParser struct {
	tests  map[goKey]*goTestState
	order  []goKey
	builds map[string]*strings.Builder
	broken map[string]bool // packages that did not build
	noise  []string        // lines that are no events
}

const (
	maxTestOutput = 32 << 10 // bytes kept of a test's output
	maxGoName     = 1000     // bytes of the name of a test or package
)

// parseGoTest reads the output of go test -json. cut says that the middle of
// it is missing: then a test without an end has not failed.
func parseGoTest(data []byte, s site, cut bool) parsed {
	p := goTestParser{tests: map[goKey]*goTestState{}, builds: map[string]*strings.Builder{}, broken: map[string]bool{}}
	for line := range bytes.Lines(data) {
		line = bytes.TrimSpace(line)
		var e goEvent
		if len(line) == 0 {
			continue
		}
		if line[0] != '{' || json.Unmarshal(line, &e) != nil || e.Action == "" {
			p.noise = append(p.noise, string(bytes.ToValidUTF8(line, []byte("�"))))
			continue
		}
		p.event(e)
	}
	return p.result(s, cut)
}

func (p *goTestParser) event(e goEvent) {
	if e.ImportPath != "" && e.Package == "" {
		p.build(e)
		return
	}
	if e.Package == "" || len(p.order) > 4*maxCases {
		return
	}
	t := p.state(goKey{bound(e.Package, maxGoName), bound(e.Test, maxGoName)})
	switch e.Action {
	case "run", "start":
		t.begun = true
	case "output":
		if t.output.Len() < maxTestOutput {
			t.output.WriteString(e.Output)
		}
	case "pass":
		t.end(contract.TestPassed, e.Elapsed)
	case "skip":
		t.end(contract.TestSkipped, e.Elapsed)
	case "fail":
		t.end(contract.TestFailed, e.Elapsed)
		t.status = contract.TestFailed
		if e.FailedBuild != "" {
			p.broken[e.Package] = true
		}
	}
}

func (p *goTestParser) build(e goEvent) {
	switch e.Action {
	case "build-output":
		if p.builds[e.ImportPath] == nil {
			p.builds[e.ImportPath] = &strings.Builder{}
		}
		if b := p.builds[e.ImportPath]; b.Len() < 4*maxTestOutput {
			b.WriteString(e.Output)
		}
	case "build-fail":
		p.broken[e.ImportPath] = true
	}
}

// around is the test around a subtest, "" for one at the top.
func around(test string) string { return test[:max(0, strings.LastIndexByte(test, '/'))] }

func (p *goTestParser) state(k goKey) *goTestState {
	t := p.tests[k]
	if t == nil {
		t = &goTestState{pkg: k.pkg, test: k.test}
		p.tests[k] = t
		p.order = append(p.order, k)
	}
	for outer := around(k.test); outer != ""; outer = around(outer) {
		if o := p.tests[goKey{k.pkg, outer}]; o != nil {
			o.parent = true
		}
	}
	return t
}

// end records how a test ended. What failed stays failed.
func (t *goTestState) end(status contract.TestStatus, elapsed float64) {
	if t.status == contract.TestFailed {
		return
	}
	if t.status == "" || status == contract.TestFailed {
		t.elapsed = elapsed
	}
	if t.status != contract.TestSkipped || status == contract.TestFailed {
		t.status = status
	}
}

func (p *goTestParser) result(s site, cut bool) parsed {
	var out parsed
	failedIn := map[string]int{} // package → failed cases
	failedBelow := p.settle(cut)
	for _, k := range p.order {
		t := p.tests[k]
		if k.test == "" || !t.begun || t.status == "" {
			continue
		}
		if t.status == contract.TestFailed {
			failedIn[k.pkg]++
		}
		if t.parent && (t.status != contract.TestFailed || failedBelow[k]) {
			continue // its subtests are the cases
		}
		out.cases = append(out.cases, t.testCase(s))
	}
	for _, k := range p.order {
		t := p.tests[k]
		if k.test == "" && t.status == contract.TestFailed && failedIn[k.pkg] == 0 {
			out.unexplained = true
			if !p.broken[k.pkg] {
				out.problems = append(out.problems, t.packageProblem(s))
			}
		}
	}
	p.buildProblems(&out, s)
	return out
}

// settle fails the tests that never ended, and says which tests have a failed
// subtest.
func (p *goTestParser) settle(cut bool) map[goKey]bool {
	failedBelow := map[goKey]bool{}
	for _, k := range p.order {
		t := p.tests[k]
		if t.status == "" && t.begun && !cut {
			t.status = contract.TestFailed
		}
		if t.status != contract.TestFailed || k.test == "" {
			continue
		}
		for outer := around(k.test); outer != ""; outer = around(outer) {
			failedBelow[goKey{k.pkg, outer}] = true
		}
	}
	return failedBelow
}

var (
	goPlace   = regexp.MustCompile(`^\s*([^\s:]+\.go):(\d+): ?(.*)`)
	goFrame   = regexp.MustCompile(`^\t(/\S+\.go):(\d+)`)
	goFraming = regexp.MustCompile(`^\s*(=== (RUN|PAUSE|CONT|NAME)|--- (FAIL|PASS|SKIP)|FAIL\b|PASS\b|ok\s)`)
)

func (t *goTestState) testCase(s site) testCase {
	c := testCase{test: t.test, group: t.pkg}
	c.Name = name(t.pkg + "." + t.test)
	c.Status = t.status
	c.DurationMS = milliseconds(t.elapsed)
	file, line, text := t.telling(s)
	if t.status != contract.TestPassed {
		c.Message = message(text)
	}
	if t.status == contract.TestFailed {
		c.Location = location(file, line)
	}
	c.file = file
	return c
}

// telling finds where a test complains and what about: its first message, or
// its panic with the innermost frame in the checkout.
func (t *goTestState) telling(s site) (file string, line int, text string) {
	var said []string
	panicked := ""
	for l := range strings.Lines(t.output.String()) {
		l = strings.TrimRight(clean(l), "\n")
		if strings.HasPrefix(l, "panic: ") && panicked == "" {
			panicked = l
			file, line = "", 0
		}
		if m := goFrame.FindStringSubmatch(l); m != nil && panicked != "" && file == "" {
			if f := s.rel(m[1]); f != "" {
				file, line = f, number(m[2])
			}
		}
		if m := goPlace.FindStringSubmatch(l); m != nil && file == "" && panicked == "" {
			file, line = s.goFile(t.pkg, m[1]), number(m[2])
			l = m[3]
		}
		if !goFraming.MatchString(l) && panicked == "" {
			said = append(said, strings.TrimSpace(l))
		}
	}
	if panicked != "" {
		said = append([]string{panicked}, said...)
	}
	text = strings.TrimSpace(strings.Join(said, "\n"))
	if text == "" && t.status == contract.TestFailed {
		text = "the test did not end"
		if strings.Contains(t.output.String(), "--- FAIL") {
			text = "the test failed without saying why"
		}
	}
	return file, line, text
}

// goFile is the path of a file that a test names by its base name.
func (s site) goFile(pkg, file string) string {
	if path.IsAbs(file) || strings.Contains(file, "/") {
		return s.rel(file)
	}
	dir := s.goDir(pkg)
	if dir == "" && len(s.goDirs) > 0 {
		return ""
	}
	return name(path.Join(dir, file))
}

// packageProblem: a package that failed without a failed test, as by
// TestMain, a time-out of its own or a fatal error.
func (t *goTestState) packageProblem(s site) problem {
	file, line, text := t.telling(s)
	if text == "" || text == "the test did not end" {
		text = "the package failed although none of its tests did"
	}
	return problem{level: levelError, path: file, line: line, rule: name(t.pkg), message: message(t.pkg + ": " + text)}
}

// buildProblems are the messages of the compiler and of vet.
func (p *goTestParser) buildProblems(out *parsed, s site) {
	var text strings.Builder
	for _, pkg := range slices.Sorted(maps.Keys(p.builds)) {
		text.WriteString(p.builds[pkg].String())
	}
	for _, l := range p.noise {
		text.WriteString(l + "\n")
	}
	failed := false
	for _, k := range p.order {
		failed = failed || p.tests[k].status == contract.TestFailed
	}
	if failed || len(p.broken) > 0 || len(p.order) == 0 {
		out.problems = append(out.problems, parseText([]byte(text.String()), s)...)
	}
	out.unexplained = out.unexplained || len(p.broken) > 0
}

// dropUndeclared removes cases whose test no source file declares: a test
// binary can print what it likes, also the framing of results. What remains
// is for the exit code to judge.
func dropUndeclared(root *os.Root, s site, p *parsed) {
	declared := map[string]map[string]bool{}
	kept := p.cases[:0]
	for _, c := range p.cases {
		dir := s.goDir(c.group)
		if dir == "" || c.Status == contract.TestFailed {
			kept = append(kept, c)
			continue
		}
		if declared[dir] == nil {
			declared[dir] = goTestFuncs(root, dir)
		}
		if top, _, _ := strings.Cut(c.test, "/"); declared[dir][top] {
			kept = append(kept, c)
			continue
		}
		p.problems = append(p.problems, problem{
			level: levelWarning, path: dir, rule: name(c.test),
			message: message(c.Name + " is reported as run, but no test file declares it; it is not counted"),
		})
	}
	p.cases = kept
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
		data, _ := readRegular(root, path.Join(dir, n), 4*maxSource)
		for _, m := range goTestFunc.FindAllSubmatch(data, -1) {
			names[string(m[1])] = true
		}
	}
	return names
}
