package pages

import (
	"context"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/a-h/templ"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/server/param"
	"github.com/rocketgpt/orchestrator/server/ui"
)

// Limits of the page of a run's tests.
const (
	shownCases     = 100
	shownTestFiles = 500 // test files that are examined
	comparedCases  = 500 // failed tests per attempt that are compared with another attempt
)

// testsTab shows the result of a run's verification.
func (s *Server) testsTab(ctx context.Context, r *http.Request, h *ui.RunHead) (templ.Component, error) {
	q, err := param.Query(r)
	if err != nil {
		return nil, err
	}
	t := ui.TestsPage{Head: *h, Status: contract.TestStatus(q.Get("status")), Text: q.Get("text")}
	if err := param.OneOf("status", t.Status, ui.TestStatuses()); err != nil {
		return nil, err
	}
	if t.From, err = offset(q, "from"); err != nil {
		return nil, err
	}
	if err := s.chooseAttempt(ctx, &t, q.Get("attempt")); err != nil || t.Shown.ExecutionID == 0 {
		return ui.TestsTab(t), err
	}
	execution := t.Shown.ExecutionID
	checks, err := s.Views.CheckRows(ctx, execution)
	if err != nil {
		return nil, err
	}
	files, err := s.Views.ArtifactsOfExecution(ctx, h.Run.ID, execution, shownTestFiles)
	if err != nil {
		return nil, err
	}
	results := make([]contract.CheckResult, len(checks))
	for i, c := range checks {
		results[i] = c.Result
	}
	t.Coverage = contract.MergeCoverage(results)
	for _, c := range checks {
		t.Checks = append(t.Checks, ui.CheckRow{Check: c, Log: logOf(files, c)})
		if c.Result.Counts() {
			t.Sum = t.Sum.Add(c.Result.Summary)
		}
	}
	cases, matching, err := s.Views.Cases(ctx, views.CaseFilter{ExecutionID: execution, Status: t.Status, Text: t.Text, From: t.From, Most: shownCases})
	if err != nil {
		return nil, err
	}
	t.Matching = matching
	t.Cases, t.Files = besideTests(cases, files)
	if before := attemptBefore(t.Attempts, t.Shown); before != nil && t.Shown.FinishedAt != nil {
		t.Before = before
		t.NewFailures, t.Fixed, err = s.changedTests(ctx, before.ExecutionID, execution, t.Sum.Failed)
	}
	return ui.TestsTab(t), err
}

// chooseAttempt finds the tester's attempts and selects the requested one, by default the last.
func (s *Server) chooseAttempt(ctx context.Context, t *ui.TestsPage, asked string) error {
	phases, err := s.Views.Phases(ctx, t.Head.Run.ID)
	if err != nil {
		return err
	}
	for _, p := range phases {
		if p.Phase == contract.PhaseTester {
			t.Attempts = append(t.Attempts, p)
		}
	}
	if asked == "" {
		if n := len(t.Attempts); n > 0 {
			t.Shown = t.Attempts[n-1]
		}
		return nil
	}
	n, err := strconv.Atoi(asked)
	i := slices.IndexFunc(t.Attempts, func(p views.PhaseAttempt) bool { return p.Attempt == n })
	if err != nil || i < 0 {
		return store.ErrNotFound
	}
	t.Shown, t.Chosen = t.Attempts[i], true
	return nil
}

func attemptBefore(all []views.PhaseAttempt, shown views.PhaseAttempt) *views.PhaseAttempt {
	i := slices.IndexFunc(all, func(p views.PhaseAttempt) bool { return p.Attempt == shown.Attempt })
	if i < 1 {
		return nil
	}
	return &all[i-1]
}

// changedTests returns the tests that fail in one attempt but did not fail in another, and the
// tests that no longer fail. A test is identified by its name and its check, regardless of the
// shard.
func (s *Server) changedTests(ctx context.Context, before, now int64, failing int) (broken, fixed []views.Case, err error) {
	earlier, err := s.Views.CheckRows(ctx, before)
	if err != nil {
		return nil, nil, err
	}
	var sum contract.TestSummary
	for _, c := range earlier {
		sum = sum.Add(c.Result.Summary)
	}
	failedBefore, err := s.failedTests(ctx, before, sum.Failed)
	if err != nil {
		return nil, nil, err
	}
	failedNow, err := s.failedTests(ctx, now, failing)
	if err != nil {
		return nil, nil, err
	}
	broken = without(failedNow, failedBefore)
	gone := without(failedBefore, failedNow)
	if len(gone) == 0 {
		return broken, nil, nil
	}
	names := make([]string, len(gone))
	for i, c := range gone {
		names[i] = c.Name
	}
	passing, err := s.Views.CasesNamed(ctx, now, names)
	passing = slices.DeleteFunc(passing, func(c views.Case) bool { return c.Status != contract.TestPassed && c.Status != contract.TestFlaky })
	for _, c := range gone {
		if slices.ContainsFunc(passing, func(p views.Case) bool { return sameTest(p, c) }) {
			fixed = append(fixed, c)
		}
	}
	return broken, fixed, err
}

// failedTests returns the failed tests of an execution; it does not query the store if there are
// none.
func (s *Server) failedTests(ctx context.Context, execution int64, many int) ([]views.Case, error) {
	if many == 0 {
		return nil, nil
	}
	cases, _, err := s.Views.Cases(ctx, views.CaseFilter{ExecutionID: execution, Status: contract.TestFailed, Most: comparedCases})
	return cases, err
}

// shardNumber is the suffix of a check's name if it has shards.
var shardNumber = regexp.MustCompile(`-[0-9]+$`)

func sameTest(a, b views.Case) bool {
	return a.Name == b.Name && shardNumber.ReplaceAllString(a.CheckID, "") == shardNumber.ReplaceAllString(b.CheckID, "")
}

func without(cases, others []views.Case) (out []views.Case) {
	for _, c := range cases {
		if !slices.ContainsFunc(others, func(o views.Case) bool { return sameTest(o, c) }) {
			out = append(out, c)
		}
	}
	return out
}

// logOf returns the output of a check among the files of its execution.
func logOf(files []contract.Artifact, c store.Check) *contract.Artifact {
	return first(files, func(f contract.Artifact) bool {
		return f.Type == contract.ArtifactLog && f.Digest == c.LogDigest && strings.HasSuffix(f.Name, "/"+c.Result.Check.ID+"/output.log")
	})
}

// besideTests attaches screenshots, videos and traces to the tests that their names refer to, and
// returns the other files.
func besideTests(cases []views.Case, files []contract.Artifact) (rows []ui.CaseRow, rest []contract.Artifact) {
	rows = make([]ui.CaseRow, len(cases))
	for i, c := range cases {
		rows[i].Case = c
	}
	for _, f := range files {
		if f.Type != contract.ArtifactScreenshot && f.Type != contract.ArtifactVideo && f.Type != contract.ArtifactTrace {
			continue
		}
		if i := testOfFile(cases, f.Name); i >= 0 {
			rows[i].Files = append(rows[i].Files, f)
		} else {
			rest = append(rest, f)
		}
	}
	return rows, rest
}

// testOfFile returns the index of the test that a file belongs to, or -1. The name of the file's
// directory is derived from the test's name. Of the tests that contain all its words, the first
// that did not pass is chosen.
func testOfFile(cases []views.Case, name string) int {
	parts := strings.Split(path.Dir(name), "/") // tester/ATTEMPT/CHECK/FOLDER
	const folderAt = 3
	if len(parts) <= folderAt {
		return -1
	}
	check, folder := parts[folderAt-1], wordsOf(parts[len(parts)-1])
	found := -1
	for i, c := range cases {
		if c.CheckID != check || len(folder) == 0 || !hasWords(wordsOf(c.Name), folder) {
			continue
		}
		if c.Status != contract.TestPassed {
			return i
		}
		if found < 0 {
			found = i
		}
	}
	return found
}

// noise matches the words in the name of a test's directory that are not part of the test's name: a
// browser, a retry, or a digest after a shortened name.
var noise = regexp.MustCompile(`^(chromium|chrome|firefox|webkit|mobile|desktop|retry[0-9]*|[0-9a-f]{5})$`)

func wordsOf(name string) (out []string) {
	for _, w := range strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		if !noise.MatchString(w) {
			out = append(out, w)
		}
	}
	return out
}

// hasWords reports whether each of the words begins or ends a word in all: of a long name, the
// beginning and the end remain.
func hasWords(all, words []string) bool {
	for _, w := range words {
		if !slices.ContainsFunc(all, func(one string) bool { return strings.HasPrefix(one, w) || strings.HasSuffix(one, w) }) {
			return false
		}
	}
	return true
}
