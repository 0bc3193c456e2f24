package diff

import (
	"fmt"
	"slices"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// Point is one regression or improvement on the right.
type Point struct {
	Kind     Kind              `json:"kind"`
	Message  string            `json:"message"`
	Check    string            `json:"check,omitempty"`
	Test     string            `json:"test_case,omitempty"`
	Severity contract.Severity `json:"severity,omitempty"`
	Location string            `json:"location,omitempty"`
	Phase    contract.Phase    `json:"phase,omitempty"`
}

// Kind is the subject of a point. Each kind of regression has a corresponding kind of improvement.
type Kind string

// The kinds of regressions, most serious first.
const (
	KindStatus     Kind = "status"        // ended worse
	KindUntested   Kind = "not_tested"    // the right ended without tests
	KindCheckRed   Kind = "check_red"     // a check passed and now fails, not because of a test
	KindCheckGone  Kind = "check_not_run" // a check ran on the left only
	KindFailure    Kind = "new_failure"   // a test fails
	KindSkipped    Kind = "newly_skipped" // a test is skipped
	KindGone       Kind = "test_gone"     // a test is missing, although its check ran
	KindNewFinding Kind = "new_finding"   // a major or medium finding
	KindSlower     Kind = "slower"        // a phase, by more than NoisePart and SlowerLeast
	KindDearer     Kind = "dearer"        // by more than NoisePart and DearerMicroUSD
)

// The kinds of improvements, in the same order.
const (
	KindStatusBetter Kind = "status_better"
	KindTested       Kind = "tested"
	KindCheckOK      Kind = "check_ok"
	KindCheckRan     Kind = "check_ran"
	KindFixed        Kind = "fixed"
	KindUnskipped    Kind = "no_longer_skipped"
	KindNewTest      Kind = "new_test" // new test that passes, of a check that ran before
	KindFixedFinding Kind = "fixed_finding"
	KindFaster       Kind = "faster"
	KindCheaper      Kind = "cheaper"
)

// verdict collects points.
type verdict struct {
	a, b   Side
	d      Diff
	points []Point
}

func (v *verdict) add(p Point, format string, args ...any) {
	p.Message = fmt.Sprintf(format, args...)
	v.points = append(v.points, p)
}

// judge collects the regressions and improvements on the right.
func judge(a, b Side, d Diff) (regressions, improvements []Point) {
	worse := verdict{a: a, b: b, d: d, points: []Point{}}
	worse.worseEnd()
	worse.worseChecks()
	worse.worseTests()
	worse.worseCosts()
	better := verdict{a: a, b: b, d: d, points: []Point{}}
	better.betterEnd()
	better.betterTests()
	better.betterCosts()
	return worse.points, better.points
}

func (v *verdict) worseEnd() {
	if l, r := rank(v.a.Status), rank(v.b.Status); l >= 0 && r > l {
		v.add(Point{Kind: KindStatus}, "the status is %s%s; it was %s before", v.b.Status, because(v.b.Failure), v.a.Status)
	}
	if v.a.Tester != nil && v.b.Tester == nil && v.b.over() {
		v.add(Point{Kind: KindUntested}, "not tested")
	}
}

func because(f *contract.Failure) string {
	if f == nil {
		return ""
	}
	return fmt.Sprintf(" (%s, %s)", f.Class, f.Code)
}

// worseChecks judges checks as a whole. Failed tests are judged individually.
func (v *verdict) worseChecks() {
	failing := map[string]bool{}
	for _, t := range append(v.d.Tests.NewFailures, v.d.Tests.StillFailing...) {
		failing[t.Check] = true
	}
	lost := map[string]int{}
	for _, t := range v.d.Tests.Gone {
		lost[t.Check]++
	}
	for _, c := range v.d.Tests.Checks {
		switch {
		case c.Left == CheckOK && c.Right == CheckRed && !failing[c.Check]:
			v.add(Point{Kind: KindCheckRed, Check: c.Check}, "%s fails; it passed before", c.Check)
		case c.Right == "" && v.b.ended() && lost[c.Check] > 0:
			v.add(Point{Kind: KindCheckGone, Check: c.Check}, "%s did not run; it previously ran %s", c.Check, plural(lost[c.Check], "test"))
		case c.Right == "" && v.b.ended():
			v.add(Point{Kind: KindCheckGone, Check: c.Check}, "%s did not run", c.Check)
		}
	}
}

func (v *verdict) worseTests() {
	for _, t := range v.d.Tests.NewFailures {
		v.add(Point{Kind: KindFailure, Check: t.Check, Test: t.Name}, "%s in %s fails%s", t.Name, t.Check, statusWord(t.Left))
	}
	for _, t := range v.d.Tests.NewlySkipped {
		v.add(Point{Kind: KindSkipped, Check: t.Check, Test: t.Name}, "%s in %s is skipped%s", t.Name, t.Check, statusWord(t.Left))
	}
	ran := checksOf(v.b)
	for _, t := range v.d.Tests.Gone {
		if ran[t.Check] != "" && v.b.ended() {
			v.add(Point{Kind: KindGone, Check: t.Check, Test: t.Name}, "%s in %s no longer exists%s", t.Name, t.Check, statusWord(t.Left))
		}
	}
	for _, f := range v.d.Findings.New {
		if f.Severity != contract.SeverityMinor && !f.ofTest(v.d.Tests.NewFailures) {
			v.add(findingPoint(KindNewFinding, f), "new %s finding from %s: %s", f.Severity, f.Check, fault.FirstLine(f.Message))
		}
	}
}

// ofTest reports whether the finding only repeats the failure of one of the tests.
func (f Finding) ofTest(tests []Test) bool {
	return f.Category == contract.CategoryTest && slices.ContainsFunc(tests, func(t Test) bool { return t.Check == f.Check && t.Name == f.Rule })
}

func findingPoint(k Kind, f Finding) Point {
	return Point{Kind: k, Check: f.Check, Test: testOf(f), Severity: f.Severity, Location: f.Location}
}

func testOf(f Finding) string {
	if f.Category == contract.CategoryTest {
		return f.Rule
	}
	return ""
}

func statusWord(s contract.TestStatus) string {
	switch s {
	case "":
		return "; it did not exist before"
	case contract.TestFlaky:
		return "; it was flaky"
	case contract.TestQuarantined:
		return "; it was quarantined"
	default:
		return "; it " + map[contract.TestStatus]string{
			contract.TestPassed: "passed", contract.TestFailed: "failed", contract.TestSkipped: "was skipped",
		}[s]
	}
}

func (v *verdict) worseCosts() {
	for _, t := range v.d.Timing {
		if t.LeftEnded && t.RightEnded && exceeds(t.LeftMS, t.RightMS, SlowerLeast.Milliseconds()) {
			v.add(Point{Kind: KindSlower, Phase: t.Phase}, "the %s took %s, up from %s", t.Phase, ms(t.RightMS), ms(t.LeftMS))
		}
	}
	if c := v.d.Cost; exceeds(c.LeftMicroUSD, c.RightMicroUSD, DearerMicroUSD) {
		v.add(Point{Kind: KindDearer}, "model calls cost %s, up from %s", dollars(c.RightMicroUSD, c.RightEstimated), dollars(c.LeftMicroUSD, c.LeftEstimated))
	}
}

func (v *verdict) betterEnd() {
	if l, r := rank(v.a.Status), rank(v.b.Status); r >= 0 && l > r {
		v.add(Point{Kind: KindStatusBetter}, "the status is %s; it was %s before", v.b.Status, v.a.Status)
	}
	if v.b.Tester != nil && v.a.Tester == nil && v.a.over() {
		v.add(Point{Kind: KindTested}, "tested")
	}
	for _, c := range v.d.Tests.Checks {
		switch {
		case c.Left == CheckRed && c.Right == CheckOK:
			v.add(Point{Kind: KindCheckOK, Check: c.Check}, "%s passes; it failed before", c.Check)
		case c.Left == "" && c.Right == CheckOK && v.a.ended():
			v.add(Point{Kind: KindCheckRan, Check: c.Check}, "%s ran and passed", c.Check)
		}
	}
}

func (v *verdict) betterTests() {
	for _, t := range v.d.Tests.Fixed {
		v.add(Point{Kind: KindFixed, Check: t.Check, Test: t.Name}, "%s in %s passes%s", t.Name, t.Check, statusWord(t.Left))
	}
	ran := checksOf(v.a)
	for _, t := range v.d.Tests.NoLongerSkipped {
		v.add(Point{Kind: KindUnskipped, Check: t.Check, Test: t.Name}, "%s in %s is no longer skipped", t.Name, t.Check)
	}
	for _, t := range v.d.Tests.NewTests {
		if t.Right == contract.TestPassed && ran[t.Check] != "" && v.a.ended() {
			v.add(Point{Kind: KindNewTest, Check: t.Check, Test: t.Name}, "%s in %s is new and passes", t.Name, t.Check)
		}
	}
	for _, f := range v.d.Findings.Fixed {
		if f.Severity != contract.SeverityMinor && !f.ofTest(v.d.Tests.Fixed) && !f.ofTest(v.d.Tests.Gone) {
			v.add(findingPoint(KindFixedFinding, f), "%s finding from %s is fixed: %s", f.Severity, f.Check, fault.FirstLine(f.Message))
		}
	}
}

func (v *verdict) betterCosts() {
	for _, t := range v.d.Timing {
		if t.LeftEnded && t.RightEnded && exceeds(t.RightMS, t.LeftMS, SlowerLeast.Milliseconds()) {
			v.add(Point{Kind: KindFaster, Phase: t.Phase}, "the %s took %s, down from %s", t.Phase, ms(t.RightMS), ms(t.LeftMS))
		}
	}
	if c := v.d.Cost; exceeds(c.RightMicroUSD, c.LeftMicroUSD, DearerMicroUSD) {
		v.add(Point{Kind: KindCheaper}, "model calls cost %s, down from %s", dollars(c.RightMicroUSD, c.RightEstimated), dollars(c.LeftMicroUSD, c.LeftEstimated))
	}
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

func dollars(micros int64, estimated bool) string {
	return contract.MarkEstimated(fmt.Sprintf("$%.4f", float64(micros)/1e6), estimated)
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
