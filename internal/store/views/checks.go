package views

import (
	"context"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
	"github.com/rocketgpt/orchestrator/internal/store/internal/rowconv"
)

// CheckRows returns the checks of an execution in the order in which they began,
// without their cases.
func (v *Views) CheckRows(ctx context.Context, executionID int64) ([]store.Check, error) {
	rows, err := v.q.CheckRows(ctx, executionID)
	if err != nil {
		return nil, dberr.Explain(err, "read the checks of execution %d", executionID)
	}
	return checksOf(rows)
}

func checksOf(rows []db.CheckRowsRow) ([]store.Check, error) {
	return rowconv.ConvertAll(rows, func(r db.CheckRowsRow) (store.Check, error) {
		result, err := rowconv.Decode[contract.CheckResult](r.Result)
		return store.Check{ExecutionID: r.ExecutionID, Result: result, LogDigest: r.LogDigest, StartedAt: r.StartedAt, FinishedAt: r.FinishedAt}, err
	})
}

// Case is a test case with the check that ran it.
type Case struct {
	contract.TestCase
	CheckID string `json:"check_id"`
}

// CaseFilter selects test cases of one execution.
type CaseFilter struct {
	ExecutionID int64
	Status      contract.TestStatus // empty: any
	Text        string              // in the name, ignoring case; empty: any
	From, Most  int                 // number of rows to skip, and maximum number of rows to return
}

// Cases returns test cases, starting with those not passed, and the total number of matches.
func (v *Views) Cases(ctx context.Context, f CaseFilter) (cases []Case, matching int, err error) {
	rows, err := v.q.Cases(ctx, db.CasesParams{
		ExecutionID: f.ExecutionID, Status: string(f.Status), Text: rowconv.Text(f.Text), FromRow: int32(f.From), Most: int32(f.Most),
	})
	if err != nil {
		return nil, 0, dberr.Explain(err, "read the test cases of execution %d", f.ExecutionID)
	}
	for _, r := range rows {
		c, err := rowconv.Decode[contract.TestCase](r.Doc)
		if err != nil {
			return nil, 0, err
		}
		cases, matching = append(cases, Case{TestCase: c, CheckID: r.CheckID}), int(r.Matching)
	}
	return cases, matching, nil
}

// CasesNamed returns the outcomes of the test cases with one of these names in an
// execution; only check, name and status are set.
func (v *Views) CasesNamed(ctx context.Context, executionID int64, names []string) ([]Case, error) {
	rows, err := v.q.CasesNamed(ctx, db.CasesNamedParams{ExecutionID: executionID, Names: names})
	return rowconv.Convert(rows, func(r db.CasesNamedRow) Case {
		return Case{TestCase: contract.TestCase{Name: r.Name, Status: contract.TestStatus(r.Status)}, CheckID: r.CheckID}
	}), dberr.Explain(err, "read test cases of execution %d", executionID)
}

// FindingCount is the number of findings of a kind in a run.
type FindingCount struct {
	Severity contract.Severity `json:"severity"`
	Category contract.Category `json:"category"`
	CheckID  string            `json:"check_id"`
	Resolved bool              `json:"resolved"`
	Known    bool              `json:"known"` // the base commit has them, too
	N        int               `json:"n"`
}

// FindingCounts counts a run's findings by kind.
func (v *Views) FindingCounts(ctx context.Context, runID int64) ([]FindingCount, error) {
	rows, err := v.q.FindingCounts(ctx, runID)
	return rowconv.Convert(rows, func(r db.FindingCountsRow) FindingCount {
		return FindingCount{contract.Severity(r.Severity), contract.Category(r.Category), r.CheckID, r.Resolved, r.Known, int(r.N)}
	}), dberr.Explain(err, "count the findings of run %d", runID)
}

// FindingFilter selects findings of one run. Empty fields select all.
type FindingFilter struct {
	RunID      int64
	Severity   contract.Severity
	Category   contract.Category
	CheckID    string
	Resolved   *bool
	From, Most int // number of rows to skip, and maximum number of rows to return
}

// FindingsPage returns findings, open ones first, most severe first.
func (v *Views) FindingsPage(ctx context.Context, f FindingFilter) ([]store.Finding, error) {
	rows, err := v.q.FindingsPage(ctx, db.FindingsPageParams{
		RunID: f.RunID, Severity: string(f.Severity), Category: string(f.Category), CheckID: rowconv.Text(f.CheckID), Resolved: f.Resolved,
		FromRow: int32(f.From), Most: int32(f.Most),
	})
	return rowconv.Convert(rows, func(r db.Finding) store.Finding {
		return store.Finding{Finding: rowconv.Finding(r), ExecutionID: r.ExecutionID, CheckID: r.CheckID, CreatedAt: r.CreatedAt}
	}), dberr.Explain(err, "read findings of run %d", f.RunID)
}
