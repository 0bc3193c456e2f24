package diff

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// TestsDiff compares test results. A test is identified by its check and name, regardless of the
// shard of the check in which it ran. A test may be in several lists.
type TestsDiff struct {
	LeftRecorded    bool         `json:"left_recorded"` // false: nothing was tested
	RightRecorded   bool         `json:"right_recorded"`
	Left            Counts       `json:"left"`
	Right           Counts       `json:"right"`
	NewFailures     []Test       `json:"new_failures"` // fail on the right, and did not fail or did not exist on the left
	Fixed           []Test       `json:"fixed"`        // failed on the left and pass on the right
	StillFailing    []Test       `json:"still_failing"`
	NewTests        []Test       `json:"new_tests"` // not on the left
	Gone            []Test       `json:"gone"`      // not on the right
	NewlySkipped    []Test       `json:"newly_skipped"`
	NoLongerSkipped []Test       `json:"no_longer_skipped"` // skipped on the left and pass on the right
	Flaky           []Test       `json:"flaky"`             // or quarantined, on either side; only their findings count as regressions
	Checks          []CheckPoint `json:"checks"`            // checks with different outcomes
	Duration        Duration     `json:"duration"`
}

// Counts counts test cases.
type Counts struct {
	Passed  int `json:"passed"`
	Failed  int `json:"failed"`
	Skipped int `json:"skipped"`
	Flaky   int `json:"flaky"`
	// Quarantined are failures of quarantined tests.
	Quarantined int `json:"quarantined,omitempty"`
}

// Test is one test with its outcome on each side, empty if it did not run.
type Test struct {
	Check   string              `json:"check"`
	Name    string              `json:"test_case"`
	Left    contract.TestStatus `json:"left"`
	Right   contract.TestStatus `json:"right"`
	Message string              `json:"message,omitempty"` // failure message, from the right if both failed
}

// CheckPoint is one check with its outcome on each side: ok, red, skipped if it could not judge the
// change, or empty if it did not run. The shards of a check count as one.
type CheckPoint struct {
	Check string `json:"check"`
	Left  string `json:"left"`
	Right string `json:"right"`
}

// Outcomes of a check.
const (
	CheckOK      = "ok"
	CheckRed     = "red"
	CheckSkipped = "skipped"
)

// Duration compares the total duration of checks.
type Duration struct {
	LeftMS  int64 `json:"left_ms"`
	RightMS int64 `json:"right_ms"`
	DeltaMS int64 `json:"delta_ms"`
}

func compareTests(a, b Side) TestsDiff {
	d := TestsDiff{
		LeftRecorded: a.Tester != nil, RightRecorded: b.Tester != nil,
		NewFailures: []Test{}, Fixed: []Test{}, StillFailing: []Test{}, NewTests: []Test{}, Gone: []Test{}, NewlySkipped: []Test{}, NoLongerSkipped: []Test{}, Flaky: []Test{},
		Checks: []CheckPoint{}, Duration: Duration{LeftMS: durationMS(a.Checks), RightMS: durationMS(b.Checks)},
	}
	d.Duration.DeltaMS = d.Duration.RightMS - d.Duration.LeftMS
	left, right := casesOf(a, &d.Left), casesOf(b, &d.Right)
	for _, k := range keysOf(left, right, testKey.compare) {
		l, r := left[k], right[k]
		d.sort(Test{Check: k.check, Name: k.name, Left: l.Status, Right: r.Status, Message: fault.FirstLine(cmp.Or(r.Message, l.Message))})
	}
	checksLeft, checksRight := checksOf(a), checksOf(b)
	for _, k := range keysOf(checksLeft, checksRight, cmp.Compare[string]) {
		if checksLeft[k] != checksRight[k] {
			d.Checks = append(d.Checks, CheckPoint{Check: k, Left: checksLeft[k], Right: checksRight[k]})
		}
	}
	return d
}

// sort adds a test to the lists that it belongs to.
func (d *TestsDiff) sort(t Test) {
	add := func(list *[]Test, when bool) {
		if when {
			*list = append(*list, t)
		}
	}
	passes := t.Right == contract.TestPassed || t.Right == contract.TestFlaky
	failed, fails := t.Left == contract.TestFailed, t.Right == contract.TestFailed
	add(&d.NewFailures, fails && !failed)
	add(&d.Fixed, failed && passes)
	add(&d.StillFailing, failed && fails)
	add(&d.NewTests, t.Left == "")
	add(&d.Gone, t.Right == "")
	add(&d.NewlySkipped, t.Right == contract.TestSkipped && t.Left != contract.TestSkipped && t.Left != "")
	add(&d.NoLongerSkipped, t.Left == contract.TestSkipped && passes)
	add(&d.Flaky, unstable(t.Left) || unstable(t.Right))
}

func unstable(s contract.TestStatus) bool {
	return s == contract.TestFlaky || s == contract.TestQuarantined
}

// testKey identifies a test. Tests of a check with the same name are numbered.
type testKey struct {
	check, name string
	nth         int
}

func (k testKey) compare(o testKey) int {
	return cmp.Or(cmp.Compare(k.check, o.check), cmp.Compare(k.name, o.name), cmp.Compare(k.nth, o.nth))
}

// casesOf returns a side's test cases. Those with the same name are sorted by outcome, because
// shards deliver them in the order in which they finish.
func casesOf(s Side, count *Counts) map[testKey]contract.TestCase {
	grave := map[contract.TestStatus]int{contract.TestFailed: 0, contract.TestQuarantined: 1, contract.TestFlaky: 2, contract.TestSkipped: 3, contract.TestPassed: 4}
	named := map[testKey][]contract.TestCase{}
	for _, c := range s.Checks {
		for _, t := range c.Cases {
			k := testKey{check: checkOf(c.Result.Check.ID, c.Result.Check.Category), name: t.Name}
			named[k] = append(named[k], t)
			count.add(t.Status)
		}
	}
	out := make(map[testKey]contract.TestCase, len(named))
	for k, cases := range named {
		slices.SortFunc(cases, func(x, y contract.TestCase) int {
			return cmp.Or(cmp.Compare(grave[x.Status], grave[y.Status]), cmp.Compare(x.Message, y.Message))
		})
		for k.nth = range cases {
			out[k] = cases[k.nth]
		}
	}
	return out
}

func (c *Counts) add(s contract.TestStatus) {
	switch s {
	case contract.TestPassed:
		c.Passed++
	case contract.TestFailed:
		c.Failed++
	case contract.TestSkipped:
		c.Skipped++
	case contract.TestFlaky:
		c.Flaky++
	case contract.TestQuarantined:
		c.Quarantined++
	}
}

// shardNumber matches the shard number at the end of a check's ID.
var shardNumber = regexp.MustCompile(`-[0-9]+$`)

// checkOf returns a check's name without its shard number, because the number and content of shards
// depend on the number of tests.
func checkOf(id string, c contract.Category) string {
	if c == contract.CategoryTest {
		return shardNumber.ReplaceAllString(id, "")
	}
	return id
}

// checksOf returns the outcome of each check that ran.
func checksOf(s Side) map[string]string {
	out := map[string]string{}
	for _, c := range s.Checks {
		if c.Result.Check.ID == contract.CheckNewTests {
			continue // it exists only if there are new tests; its findings are compared separately
		}
		k := checkOf(c.Result.Check.ID, c.Result.Check.Category)
		switch {
		case !c.Result.OK:
			out[k] = CheckRed
		case c.Result.Skipped:
			out[k] = CheckSkipped
		case out[k] == "":
			out[k] = CheckOK
		}
	}
	return out
}

// keysOf returns the keys of both maps in order.
func keysOf[K comparable, V any](a, b map[K]V, compare func(K, K) int) []K {
	keys := slices.Collect(maps.Keys(a))
	for k := range b {
		if _, both := a[k]; !both {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, compare)
	return keys
}

// testNotes adds notes about sides whose tests are missing or incomplete.
func testNotes(a, b Side) (notes []string) {
	for _, s := range []Side{a, b} {
		switch {
		case s.Tester == nil:
			notes = append(notes, fmt.Sprintf("%s: not tested", s.Ref))
		case !s.ended():
			notes = append(notes, fmt.Sprintf("%s: tests are still running; missing tests are not counted", s.Ref))
		}
	}
	return notes
}

// fileOf returns the file of a location, which may be file, file:line or file:line:column.
func fileOf(location string) string { return lineNumber.ReplaceAllString(location, "") }

var lineNumber = regexp.MustCompile(`(:[0-9]+){1,2}$`)
