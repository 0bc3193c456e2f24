package store

import (
	"context"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
	"github.com/rocketgpt/orchestrator/internal/store/internal/rowconv"
)

// Check is the outcome of one check of the verification.
type Check struct {
	ExecutionID int64                `json:"execution_id"`
	Result      contract.CheckResult `json:"result"`
	Cases       []contract.TestCase  `json:"cases"`
	LogDigest   string               `json:"log_digest,omitempty"` // artifact digest of the whole output
	StartedAt   time.Time            `json:"started_at"`
	FinishedAt  time.Time            `json:"finished_at"`
}

// Finding is a finding with the check that found it.
type Finding struct {
	contract.Finding
	ExecutionID int64     `json:"execution_id"`
	CheckID     string    `json:"check_id"`
	CreatedAt   time.Time `json:"created_at"`
}

// SaveCheck stores the outcome of a check with its cases, findings and files, all or nothing. A repeat for
// the same execution and check replaces them, except for files that it does not have; the events finding.added are written only the first
// time. Findings of the same check from earlier executions of the run become resolved, so the open
// findings are those of each check's latest execution. The start time is computed from the result's
// duration; the end time is now.
func (s *Store) SaveCheck(ctx context.Context, execution contract.ExecutionRef, checkID string, result contract.CheckResult,
	cases []contract.TestCase, findings []contract.Finding, logDigest string, artifacts ...contract.Artifact,
) error {
	finished := time.Now()
	p := db.SaveCheckParams{
		RunID: execution.RunID, ExecutionID: execution.ID, CheckID: rowconv.Text(checkID), Category: string(result.Check.Category), Ok: result.OK,
		LogDigest: logDigest, DurationMs: result.DurationMS, EventType: string(contract.EventFindingAdded),
		StartedAt: finished.Add(-time.Duration(result.DurationMS) * time.Millisecond), FinishedAt: finished,
	}
	var err error
	if p.Result, err = rowconv.Encode(result); err != nil {
		return err
	}
	if p.Summary, err = rowconv.Encode(result.Summary); err != nil {
		return err
	}
	if p.Cases, err = rowconv.Encode(NotNil(cases)); err != nil {
		return err
	}
	if p.Findings, err = rowconv.Encode(NotNil(findings)); err != nil {
		return err
	}
	statements := []func(*db.Queries) error{func(q *db.Queries) error { return q.LockRun(ctx, execution.RunID) }}
	if len(artifacts) > 0 {
		added := db.AddArtifactsParams{RunID: execution.RunID, EventType: string(contract.EventArtifactAdded), Replace: true}
		if added.Artifacts, err = artifactRows(artifacts); err != nil {
			return err
		}
		statements = append(statements, func(q *db.Queries) error { _, err := q.AddArtifacts(ctx, added); return err })
	}
	statements = append(statements,
		func(q *db.Queries) error {
			return q.DropFindings(ctx, db.DropFindingsParams{ExecutionID: execution.ID, CheckID: p.CheckID})
		},
		func(q *db.Queries) error {
			return q.ResolveEarlierFindings(ctx, db.ResolveEarlierFindingsParams{RunID: execution.RunID, CheckID: p.CheckID, ExecutionID: execution.ID})
		},
		func(q *db.Queries) error { _, err := q.SaveCheck(ctx, p); return err },
	)
	err = together(ctx, s.pool, db.New, statements) // a transaction, because it is sent to the pool
	return dberr.OfRun(err, execution.RunID, "store check %s of execution %d", checkID, execution.ID)
}

// Checks returns the checks of an execution in the order in which they began.
func (s *Store) Checks(ctx context.Context, executionID int64) ([]Check, error) {
	rows, err := s.q.Checks(ctx, executionID)
	if err != nil {
		return nil, dberr.Explain(err, "read the checks of execution %d", executionID)
	}
	return rowconv.ConvertAll(rows, checkOf)
}

// Limits of TestDurations.
const (
	measuredRuns  = 20     // newest runs that are read
	measuredTests = 20_000 // tests that are returned
)

// TestDurations returns how many milliseconds each test took in its newest result of a check whose
// ID begins with a prefix, in the newest runs of a repository and on their base commits.
func (s *Store) TestDurations(ctx context.Context, project, repo, prefix string) (map[string]int64, error) {
	rows, err := s.q.TestDurations(ctx, db.TestDurationsParams{Project: project, Repo: repo, Prefix: prefix, Runs: measuredRuns, Most: measuredTests})
	if err != nil {
		return nil, dberr.Explain(err, "read the durations of tests")
	}
	out := make(map[string]int64, len(rows))
	for _, r := range rows {
		out[r.Name] = r.Ms
	}
	return out, nil
}

// Check returns a check of a run, or ErrNotFound.
func (s *Store) Check(ctx context.Context, runID, executionID int64, checkID string) (Check, error) {
	row, err := s.q.CheckOfRun(ctx, db.CheckOfRunParams{RunID: runID, ExecutionID: executionID, CheckID: checkID})
	if err != nil {
		return Check{}, dberr.Explain(err, "read check %s of execution %d", checkID, executionID)
	}
	return checkOf(row)
}

func checkOf(r db.Check) (c Check, err error) {
	c = Check{ExecutionID: r.ExecutionID, LogDigest: r.LogDigest, StartedAt: r.StartedAt, FinishedAt: r.FinishedAt}
	if c.Result, err = rowconv.Decode[contract.CheckResult](r.Result); err != nil {
		return c, err
	}
	c.Cases, err = rowconv.Decode[[]contract.TestCase](r.Cases)
	return c, err
}

// Findings returns all findings of a run, including resolved ones, in the order in
// which they were found.
func (s *Store) Findings(ctx context.Context, runID int64) ([]Finding, error) {
	rows, err := s.q.Findings(ctx, runID)
	if err != nil {
		return nil, dberr.Explain(err, "read the findings of run %d", runID)
	}
	return rowconv.Convert(rows, findingOf), nil
}

func findingOf(r db.Finding) Finding {
	return Finding{Finding: rowconv.Finding(r), ExecutionID: r.ExecutionID, CheckID: r.CheckID, CreatedAt: r.CreatedAt}
}
