package flaky

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/jackc/pgx/v5"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
	"github.com/rocketgpt/orchestrator/internal/store/internal/rowconv"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

// maxReason is the maximum length of a reason in bytes.
const maxReason = 2000

// Entry is a quarantined test.
type Entry struct {
	ID        int64      `json:"id"`
	Repo      string     `json:"repo"`
	Check     string     `json:"check,omitempty" doc:"check of the test without its shard, such as test-go; empty: any"`
	Test      string     `json:"test" doc:"exact name of the test case, with its parameters"`
	Source    string     `json:"source" doc:"person, or policy: verification.flaky.quarantine"`
	Reason    string     `json:"reason"`
	CreatedBy string     `json:"created_by"`
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt time.Time  `json:"expires_at"`
	RemovedAt *time.Time `json:"removed_at,omitempty"`
	RemovedBy string     `json:"removed_by,omitempty"`
	Active    bool       `json:"active" doc:"neither expired nor removed"`

	// The history of the test, if the entry is from a list.
	Passes   int64      `json:"passes"`
	Failures int64      `json:"failures"`
	Reruns   int64      `json:"reruns"`
	Streak   int64      `json:"streak" doc:"passes since the last failure"`
	FailedAt *time.Time `json:"failed_at,omitempty"`
	SeenAt   *time.Time `json:"seen_at,omitempty" doc:"when the test ran the last time; absent: never in a run"`
	Missing  bool       `json:"missing,omitempty" doc:"the last runs of its check did not include the test"`
	// Ready is set by readers that know the policy.
	Ready bool `json:"ready,omitempty" doc:"it passed verification.flaky.ready_after times in a row, so the entry can be removed"`
}

// Quarantined returns the entry as verifications use it.
func (e Entry) Quarantined() contract.QuarantinedTest {
	return contract.QuarantinedTest{ID: e.ID, Check: e.Check, Test: e.Test, Reason: e.Reason, ExpiresAt: e.ExpiresAt}
}

// Add quarantines a test of a repository. It replaces a current entry for the same test and check. most
// is the maximum number of current entries of the repository.
func (s *Store) Add(ctx context.Context, e Entry, most int) (Entry, error) {
	if err := checkEntry(e); err != nil {
		return Entry{}, err
	}
	var row db.Quarantine
	err := s.adding(ctx, e.Repo, func(q *db.Queries) (err error) {
		row, err = q.AddQuarantine(ctx, db.AddQuarantineParams{
			Repo: rowconv.Text(e.Repo), Name: e.Test, CheckID: e.Check, Reason: telemetry.Redact(e.Reason), CreatedBy: rowconv.Text(telemetry.Redact(e.CreatedBy)), ExpiresAt: e.ExpiresAt, Most: int32(most),
		})
		return err
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return Entry{}, invalid("%s already has %d quarantined tests, the maximum (verification.flaky.max_quarantined); fix or remove some of them first: rgpt quarantine list", e.Repo, most)
	}
	return entryOf(row), dberr.Explain(err, "quarantine %s", e.Test)
}

// checkEntry rejects texts that could not be the name of a test, and entries without a reason or an
// expiry.
func checkEntry(e Entry) error {
	switch {
	case e.Test == "" || e.Reason == "":
		return invalid("a quarantined test needs its name and a reason (--reason)")
	case len(e.Test) > MaxName:
		return invalid("the name of the test has %d bytes; the maximum is %d", len(e.Test), MaxName)
	case len(e.Reason) > maxReason:
		return invalid("the reason has %d bytes; the maximum is %d", len(e.Reason), maxReason)
	case strings.ContainsFunc(e.Test+e.Check, unicode.IsControl) || strings.ContainsRune(e.Reason, 0):
		return invalid("the name of the test contains control characters; copy it from rgpt flaky or from the report of a run")
	case len(e.Check) > MaxName:
		return invalid("the name of the check has %d bytes; the maximum is %d", len(e.Check), MaxName)
	case !e.ExpiresAt.After(time.Now()):
		return invalid("the quarantine would already have expired at %s", e.ExpiresAt.UTC().Format(time.RFC3339))
	}
	return nil
}

// Policy defines which tests are quarantined automatically.
type Policy struct {
	Window time.Duration // flips before that do not count
	After  int           // number of flips, each in a run of its own
	Expiry time.Duration // duration of a quarantine
	Most   int           // maximum number of current entries of a repository
}

// adding calls fn in a transaction, one at a time for each repository, so that each sees what earlier ones
// have added.
func (s *Store) adding(ctx context.Context, repo string, fn func(*db.Queries) error) error {
	return s.store.InTx(ctx, func(tx pgx.Tx) error {
		q := db.New(tx)
		if err := q.LockQuarantine(ctx, rowconv.Text(repo)); err != nil {
			return err
		}
		return fn(q)
	})
}

// Apply quarantines the tests of a repository to which a policy applies, and returns the new entries.
func (s *Store) Apply(ctx context.Context, repo string, p Policy) ([]Entry, error) {
	var rows []db.Quarantine
	err := s.adding(ctx, repo, func(q *db.Queries) error {
		current, err := q.CountQuarantine(ctx, rowconv.Text(repo))
		if err != nil {
			return err
		}
		rows, err = q.QuarantineFlaky(ctx, db.QuarantineFlakyParams{
			Repo: rowconv.Text(repo), WindowSeconds: p.Window.Seconds(), LeastFlips: int32(p.After), ExpirySeconds: p.Expiry.Seconds(), Most: max(0, int32(p.Most)-current),
			Within: fmt.Sprintf(" states of the code in %.0f days", p.Window.Hours()/24),
		})
		return err
	})
	return rowconv.Convert(rows, entryOf), dberr.Explain(err, "quarantine the flaky tests of %s", repo)
}

// Remove ends a quarantine. It returns ErrNotFound if the entry does not exist, and removed is false if
// it was removed before.
func (s *Store) Remove(ctx context.Context, id int64, by string) (e Entry, removed bool, err error) {
	row, err := s.q.RemoveQuarantine(ctx, db.RemoveQuarantineParams{ID: id, RemovedBy: rowconv.Text(by)})
	if removed, err = found(err); err != nil || removed {
		return entryOf(row), removed, dberr.Explain(err, "remove quarantine entry %d", id)
	}
	row, err = s.q.QuarantineByID(ctx, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return Entry{}, false, dberr.NotFound("quarantine entry %d not found; see rgpt quarantine list --all", id)
	}
	return entryOf(row), false, dberr.Explain(err, "read quarantine entry %d", id)
}

// List returns the entries of a repository, or of all if repo is empty: the current ones, and with all
// also those that have ended.
func (s *Store) List(ctx context.Context, repo string, all bool, limit int) ([]Entry, error) {
	rows, err := s.lists.ListQuarantine(ctx, db.ListQuarantineParams{Repo: rowconv.Optional(repo), WithEnded: all, Most: rowconv.Limit(limit, 50)})
	return rowconv.Convert(rows, func(r db.ListQuarantineRow) Entry {
		return Entry{
			ID: r.ID, Repo: r.Repo, Check: r.CheckID, Test: r.Name, Source: r.Source, Reason: r.Reason, CreatedBy: r.CreatedBy, CreatedAt: r.CreatedAt,
			ExpiresAt: r.ExpiresAt, RemovedAt: r.RemovedAt, RemovedBy: r.RemovedBy, Active: r.Active,
			Passes: r.Passes, Failures: r.Failures, Reruns: r.Reruns, Streak: r.Streak, FailedAt: r.FailedAt, SeenAt: known(r.SeenAt), Missing: r.RunsWithout >= GoneAfter,
		}
	}), dberr.Explain(err, "list the quarantine")
}

// Current returns at most limit current entries of a run's repository, as its verifications use them. It
// leaves out tests that the policy quarantined since the run was created and that failed in the run,
// because the run's change may be what makes them fail.
func (s *Store) Current(ctx context.Context, run store.Run, limit int) ([]contract.QuarantinedTest, error) {
	rows, err := s.q.QuarantinedTests(ctx, db.QuarantinedTestsParams{Repo: rowconv.Text(run.Repo), RunID: run.ID, RunCreatedAt: run.CreatedAt, Most: int32(limit)})
	return rowconv.Convert(rows, func(r db.Quarantine) contract.QuarantinedTest { return entryOf(r).Quarantined() }), dberr.Explain(err, "read the quarantine of %s", run.Repo)
}

// Use stores the quarantine that applies to an execution, and returns it. The first list that is stored
// for an execution counts.
func (s *Store) Use(ctx context.Context, executionID int64, tests []contract.QuarantinedTest) ([]contract.QuarantinedTest, error) {
	doc, err := rowconv.Encode(store.NotNil(tests))
	if err != nil {
		return nil, err
	}
	stored, err := s.q.UseQuarantine(ctx, db.UseQuarantineParams{ExecutionID: executionID, Tests: doc})
	if err != nil {
		return nil, dberr.Explain(err, "store the quarantine of execution %d", executionID)
	}
	return rowconv.Decode[[]contract.QuarantinedTest](stored)
}

// Used returns the quarantine that applies to an execution; none if none was stored.
func (s *Store) Used(ctx context.Context, executionID int64) ([]contract.QuarantinedTest, error) {
	doc, err := s.q.UsedQuarantine(ctx, executionID)
	if ok, err := found(err); !ok {
		return nil, dberr.Explain(err, "read the quarantine of execution %d", executionID)
	}
	return rowconv.Decode[[]contract.QuarantinedTest](doc)
}

func entryOf(r db.Quarantine) Entry {
	return Entry{
		ID: r.ID, Repo: r.Repo, Check: r.CheckID, Test: r.Name, Source: r.Source, Reason: r.Reason, CreatedBy: r.CreatedBy, CreatedAt: r.CreatedAt,
		ExpiresAt: r.ExpiresAt, RemovedAt: r.RemovedAt, RemovedBy: r.RemovedBy, Active: r.RemovedAt == nil && r.ExpiresAt.After(time.Now()),
	}
}
