package output

import (
	"bytes"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
)

// GoEvent is one line of go test -json.
type GoEvent struct {
	Action      string
	Package     string
	ImportPath  string
	Test        string
	Elapsed     float64
	Output      string
	FailedBuild string
}

// goTestState is the state of one test or, without a test name, of a package.
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

// goTestParser combines events into results. Its rules favour failure: a test that failed once
// stays failed, a test that never began does not count, and a test that never ended has failed.
type goTestParser struct {
	tests      map[goKey]*goTestState
	order      []goKey
	builds     map[string]*strings.Builder
	broken     map[string]bool // packages that failed to build
	otherLines []string        // lines that are not events
}

const (
	maxTestOutput = 32 << 10 // bytes kept of a test's output
	maxGoName     = 1000     // bytes of the name of a test or package
)

// parseGoTest reads the output of go test -json. cut reports that the middle of the output is
// missing: then a test without an end has not failed.
func parseGoTest(data []byte, s Paths, cut bool) Results {
	p := goTestParser{tests: map[goKey]*goTestState{}, builds: map[string]*strings.Builder{}, broken: map[string]bool{}}
	for line := range bytes.Lines(data) {
		line = bytes.TrimSpace(line)
		var e GoEvent
		if len(line) == 0 {
			continue
		}
		if line[0] != '{' || json.Unmarshal(line, &e) != nil || e.Action == "" {
			p.otherLines = append(p.otherLines, string(bytes.ToValidUTF8(line, []byte("�"))))
			continue
		}
		p.event(e)
	}
	return p.result(s, cut)
}

func (p *goTestParser) event(e GoEvent) {
	if e.ImportPath != "" && e.Package == "" {
		p.build(e)
		return
	}
	if e.Package == "" || len(p.order) > 4*MaxCases {
		return
	}
	t := p.state(goKey{Bound(e.Package, maxGoName), Bound(e.Test, maxGoName)})
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

func (p *goTestParser) build(e GoEvent) {
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

// parentTest returns the parent of a subtest, or "" for a top-level test.
func parentTest(test string) string { return test[:max(0, strings.LastIndexByte(test, '/'))] }

func (p *goTestParser) state(k goKey) *goTestState {
	t := p.tests[k]
	if t == nil {
		t = &goTestState{pkg: k.pkg, test: k.test}
		p.tests[k] = t
		p.order = append(p.order, k)
	}
	for outer := parentTest(k.test); outer != ""; outer = parentTest(outer) {
		if o := p.tests[goKey{k.pkg, outer}]; o != nil {
			o.parent = true
		}
	}
	return t
}

// end records how a test ended. A failed test stays failed.
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

func (p *goTestParser) result(s Paths, cut bool) Results {
	var out Results
	failedIn := map[string]int{} // package → failed cases
	failedBelow := p.failUnfinished(cut)
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
		out.Cases = append(out.Cases, t.testCase(s))
	}
	for _, k := range p.order {
		t := p.tests[k]
		if k.test == "" && t.status == contract.TestFailed && failedIn[k.pkg] == 0 {
			out.Unexplained = true
			if !p.broken[k.pkg] {
				out.Problems = append(out.Problems, t.packageProblem(s))
			}
		}
	}
	p.buildProblems(&out, s)
	return out
}

// failUnfinished fails the tests that never ended, and returns which tests have a failed subtest.
func (p *goTestParser) failUnfinished(cut bool) map[goKey]bool {
	failedBelow := map[goKey]bool{}
	for _, k := range p.order {
		t := p.tests[k]
		if t.status == "" && t.begun && !cut {
			t.status = contract.TestFailed
		}
		if t.status != contract.TestFailed || k.test == "" {
			continue
		}
		for outer := parentTest(k.test); outer != ""; outer = parentTest(outer) {
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

func (t *goTestState) testCase(s Paths) Case {
	c := Case{Test: t.test, Group: t.pkg}
	c.Name = Name(t.pkg + "." + t.test)
	c.Status = t.status
	c.DurationMS = milliseconds(t.elapsed)
	file, line, text := t.failureText(s)
	if t.status != contract.TestPassed {
		c.Message = Message(text)
	}
	if t.status == contract.TestFailed {
		c.Location = Location(file, line)
	}
	c.File = file
	return c
}

// failureText returns the location and the reason of a failure: the first message, or the panic
// with its innermost frame in the checkout.
func (t *goTestState) failureText(s Paths) (file string, line int, text string) {
	var said []string
	panicked := ""
	for l := range strings.Lines(t.output.String()) {
		l = strings.TrimRight(Clean(l), "\n")
		if strings.HasPrefix(l, "panic: ") && panicked == "" {
			panicked = l
			file, line = "", 0
		}
		if m := goFrame.FindStringSubmatch(l); m != nil && panicked != "" && file == "" {
			if f := s.Rel(m[1]); f != "" {
				file, line = f, Number(m[2])
			}
		}
		if m := goPlace.FindStringSubmatch(l); m != nil && file == "" && panicked == "" {
			file, line = s.goFile(t.pkg, m[1]), Number(m[2])
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
		text = "the test did not finish"
		if strings.Contains(t.output.String(), "--- FAIL") {
			text = "the test failed without a message"
		}
	}
	return file, line, text
}

// packageProblem describes a package that failed without a failed test, for example because of
// TestMain, a timeout or a fatal error.
func (t *goTestState) packageProblem(s Paths) Problem {
	file, line, text := t.failureText(s)
	if text == "" || text == "the test did not finish" {
		text = "the package failed although none of its tests did"
	}
	return Problem{Level: Error, Path: file, Line: line, Rule: Name(t.pkg), Message: Message(t.pkg + ": " + text)}
}

// buildProblems adds the messages of the compiler and of vet.
func (p *goTestParser) buildProblems(out *Results, s Paths) {
	var text strings.Builder
	for _, pkg := range slices.Sorted(maps.Keys(p.builds)) {
		text.WriteString(p.builds[pkg].String())
	}
	for _, l := range p.otherLines {
		text.WriteString(l + "\n")
	}
	failed := false
	for _, k := range p.order {
		failed = failed || p.tests[k].status == contract.TestFailed
	}
	if failed || len(p.broken) > 0 || len(p.order) == 0 {
		out.Problems = append(out.Problems, ParseText([]byte(text.String()), s)...)
	}
	out.Unexplained = out.Unexplained || len(p.broken) > 0
}
