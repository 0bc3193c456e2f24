// Package flaky stores the history of tests over runs, and the quarantine of flaky tests.
//
// A test is identified by its repository, its check without the shard, and its name. A test is flaky if
// the same state of the code, environment and tools has both outcomes: in one verification, in which a
// re-run passed, or in several.
package flaky

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
	"github.com/rocketgpt/orchestrator/internal/store/internal/rowconv"
)

// Limits of the history.
const (
	// MaxTests is the number of tests of a repository that the history keeps. Tests that have not run
	// for the longest time are removed first.
	MaxTests = 50_000
	// MaxFailures is the number of failed tests of one check up to which their states are recorded.
	// If more tests fail together, they have a common cause, and none of them is suspected.
	MaxFailures = 200
	// MaxName is the maximum length of a test's name in bytes, which exceeds what runners' parsers
	// return.
	MaxName = 1000
	// GoneAfter is the number of runs of its check without a test after which the test counts as
	// missing. One run may have left it out, for example because its build failed.
	GoneAfter = 3
)

// Store is the history and the quarantine. It is safe for concurrent use.
type Store struct {
	store *store.Store
	q     *db.Queries // each statement its own transaction
	lists *db.Queries // like q, but planned for the actual parameters: unused filters are dropped
}

// New returns the history and the quarantine in a database.
func New(st *store.Store) *Store { return &Store{store: st, q: st.Queries(), lists: st.ListQueries()} }

// Recording is the outcome of the tests of one check.
type Recording struct {
	Source string // execution and check; a second recording of the same source has no effect
	Repo   string
	Check  contract.Check
	RunID  int64
	State  string // digest of the tree, the environment and the tools
	OfBase bool   // it ran on the base commit
	Window time.Duration
	Cases  []contract.TestCase
}

// outcome is the outcome of all test cases with one name.
type outcome struct {
	Key        string `json:"key"`
	Name       string `json:"name"`
	Passes     int    `json:"passes"`
	Failures   int    `json:"failures"`
	Reruns     int    `json:"reruns"`
	DurationMS int64  `json:"duration_ms"`
}

// Record adds the outcomes of the tests of a check to the history, in one statement.
func (s *Store) Record(ctx context.Context, r Recording) error {
	outcomes := outcomesOf(r)
	if len(outcomes) == 0 {
		return nil
	}
	red := 0
	for _, o := range outcomes {
		red += o.Failures + o.Reruns
	}
	tests, err := rowconv.Encode(outcomes)
	if err != nil {
		return err
	}
	return dberr.Explain(s.q.RecordTests(ctx, db.RecordTestsParams{
		Source: r.Source, Repo: rowconv.Text(r.Repo), CheckID: rowconv.Text(r.Check.Kind()), RunID: r.RunID, Tests: tests, OfBase: r.OfBase,
		State: r.State, WindowSeconds: r.Window.Seconds(), WithStates: red <= MaxFailures,
	}), "record the tests of check %s", r.Check.ID)
}

// outcomesOf returns one outcome per name. If several tests share a name, it is that of the worst, so
// that they do not look like one test with several outcomes.
func outcomesOf(r Recording) []outcome {
	at := map[string]int{}
	var worst []contract.TestCase
	for _, c := range r.Cases {
		c.Name = rowconv.Text(c.Name)
		if len(c.Name) > MaxName || c.Name == "" {
			continue
		}
		i, known := at[c.Name]
		if !known {
			at[c.Name] = len(worst)
			worst = append(worst, c)
		} else if rank(c.Status) < rank(worst[i].Status) {
			worst[i] = c
		}
	}
	out := make([]outcome, 0, len(worst))
	for _, c := range worst {
		o := outcome{Key: keyOf(r.Repo, r.Check.Kind(), c.Name), Name: c.Name, DurationMS: c.DurationMS}
		switch c.Status {
		case contract.TestPassed:
			o.Passes = 1
		case contract.TestFailed, contract.TestQuarantined:
			o.Failures = 1
		case contract.TestFlaky:
			o.Reruns = 1
		case contract.TestSkipped: // seen, without an outcome
		}
		out = append(out, o)
	}
	return out
}

func rank(s contract.TestStatus) int {
	return slices.Index([]contract.TestStatus{contract.TestFailed, contract.TestQuarantined, contract.TestFlaky, contract.TestPassed, contract.TestSkipped}, s)
}

// keyOf returns the key of a test.
func keyOf(repo, check, name string) string {
	h := sha256.New()
	for _, part := range []string{repo, check, name} {
		n := sha256.Sum256([]byte(part))
		h.Write(n[:])
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Test is the history of a flaky test.
type Test struct {
	Repo         string     `json:"repo"`
	Check        string     `json:"check"`
	Name         string     `json:"test"`
	Flips        int        `json:"flips" doc:"states of the code, environment and tools with both outcomes within verification.flaky.window"`
	Passes       int64      `json:"passes"`
	Failures     int64      `json:"failures" doc:"failed in each re-run"`
	Reruns       int64      `json:"reruns" doc:"failed, then passed in a re-run"`
	BaseFailures int64      `json:"base_failures" doc:"failures and reruns on base commits"`
	Streak       int64      `json:"streak" doc:"passes since the last failure"`
	DurationMS   int64      `json:"duration_ms" doc:"the last time"`
	FlippedAt    time.Time  `json:"flipped_at" doc:"when it was flaky the last time"`
	SeenAt       time.Time  `json:"seen_at" doc:"when it ran the last time"`
	RunID        int64      `json:"run_id,omitempty" doc:"the last run in which it was flaky"`
	QuarantineID int64      `json:"quarantine_id,omitempty"`
	ExpiresAt    *time.Time `json:"expires_at,omitempty" doc:"end of its quarantine"`
	// Suggested is set by readers that know the policy.
	Suggested bool `json:"suggested,omitempty" doc:"not quarantined, and flaky at least verification.flaky.quarantine_after times"`
}

// Flaky returns the flaky tests of a repository, or of all if repo is empty, those with the most flips
// first.
func (s *Store) Flaky(ctx context.Context, repo string, window time.Duration, limit int) ([]Test, error) {
	rows, err := s.lists.FlakyTests(ctx, db.FlakyTestsParams{Repo: rowconv.Optional(repo), WindowSeconds: window.Seconds(), Most: rowconv.Limit(limit, 50)})
	return rowconv.Convert(rows, func(r db.FlakyTestsRow) Test {
		return Test{
			Repo: r.Repo, Check: r.CheckID, Name: r.Name, Flips: int(r.Flips), Passes: r.Passes, Failures: r.Failures, Reruns: r.Reruns,
			BaseFailures: r.BaseFailures, Streak: r.Streak, DurationMS: r.DurationMs, FlippedAt: r.FlippedAt, SeenAt: r.SeenAt, RunID: r.RunID,
			QuarantineID: r.QuarantineID, ExpiresAt: known(r.ExpiresAt),
		}
	}), dberr.Explain(err, "list flaky tests")
}

// Clean removes what is older than age, and tests beyond MaxTests of a repository. Quarantine entries
// remain, because they document decisions.
func (s *Store) Clean(ctx context.Context, age time.Duration) error {
	const most = 10_000 // rows of one statement
	_, err := s.q.DropOldTests(ctx, db.DropOldTestsParams{AgeSeconds: age.Seconds(), Most: most})
	_, states := s.q.DropOldTestStates(ctx, age.Seconds())
	_, recordings := s.q.DropOldTestRecordings(ctx, age.Seconds())
	repos, over := s.q.RepositoriesWithTests(ctx, MaxTests)
	for _, repo := range repos {
		_, failed := s.q.DropExcessTests(ctx, db.DropExcessTestsParams{Repo: repo, Keep: MaxTests, Most: most})
		over = errors.Join(over, failed)
	}
	return dberr.Explain(errors.Join(err, states, recordings, over), "remove the old history of tests")
}

// known returns a time, nil for the epoch, which stands for none.
func known(t time.Time) *time.Time {
	if t.Unix() == 0 {
		return nil
	}
	return &t
}

// found reports whether a query for one row returned one.
func found(err error) (bool, error) {
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

func invalid(format string, args ...any) error {
	return fault.New(contract.ClassHuman, contract.CodeInvalidConfig, format, args...)
}
