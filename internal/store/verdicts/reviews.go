package verdicts

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
	"github.com/rocketgpt/orchestrator/internal/store/internal/rowconv"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

// reviewEvent is the payload of the event gate.reviewed. review_id is added when it is written.
type reviewEvent struct {
	Round     int                      `json:"round"`
	Model     string                   `json:"model"`
	SameModel bool                     `json:"same_model"`
	Prompt    string                   `json:"prompt,omitempty"`
	Tree      string                   `json:"tree"`
	Failed    string                   `json:"failed,omitempty"`
	Major     int                      `json:"major"`
	Minor     int                      `json:"minor"`
	Findings  []contract.ReviewFinding `json:"findings,omitempty"` // the first ones that still count
}

// SaveReview stores a review with its event gate.reviewed, and returns the stored one. If its execution
// has already stored one, it returns that and stores nothing.
func SaveReview(ctx context.Context, st *store.Store, r contract.ReviewRecord) (contract.ReviewRecord, error) {
	params, err := reviewParams(r)
	if err != nil {
		return contract.ReviewRecord{}, err
	}
	err = st.InTx(ctx, func(tx pgx.Tx) error {
		q := db.New(tx)
		if err := q.LockRun(ctx, r.RunID); err != nil {
			return err
		}
		_, err := q.SaveGateReview(ctx, params)
		return err
	})
	if err != nil {
		return contract.ReviewRecord{}, dberr.OfRun(err, r.RunID, "store the review of the change of run %d", r.RunID)
	}
	stored, ok, err := ReviewBy(ctx, st, r.RunID, r.ExecutionID)
	if err == nil && !ok {
		err = fault.New(contract.ClassRuntime, contract.CodeUnknown, "the review of the change of run %d was not stored", r.RunID)
	}
	return stored, err
}

func reviewParams(r contract.ReviewRecord) (p db.SaveGateReviewParams, err error) {
	clean := func(s string) string { return rowconv.Text(telemetry.Redact(s)) }
	p = db.SaveGateReviewParams{
		RunID: r.RunID, ExecutionID: r.ExecutionID, Round: int32(r.Round), FromTree: r.From, Tree: r.Tree, Model: rowconv.Text(r.Model), SameModel: r.SameModel,
		Prompt: r.Prompt, Failed: clean(r.Failed), Summary: clean(r.Summary), Omitted: int32(r.Omitted), EventType: string(contract.EventGateReviewed),
	}
	findings, unshown := []contract.ReviewFinding{}, []string{}
	for _, f := range r.Findings {
		f.Path, f.What, f.Action, f.Answer = clean(f.Path), clean(f.What), clean(f.Action), clean(f.Answer)
		findings = append(findings, f)
	}
	for _, path := range r.Unshown {
		unshown = append(unshown, clean(path))
	}
	r.Findings = findings
	if p.Findings, err = rowconv.Encode(findings); err != nil {
		return p, err
	}
	if p.Unshown, err = rowconv.Encode(unshown); err != nil {
		return p, err
	}
	open := r.Open()
	p.Payload, err = rowconv.Encode(reviewEvent{
		Round: r.Round, Model: p.Model, SameModel: r.SameModel, Prompt: r.Prompt, Tree: r.Tree, Failed: p.Failed,
		Major: r.Count(contract.SeverityMajor), Minor: r.Count(contract.SeverityMinor), Findings: open[:min(len(open), contract.MaxGateReasons)],
	})
	return p, err
}

// Reviews returns the reviews of a run, oldest first.
func Reviews(ctx context.Context, st *store.Store, runID int64) ([]contract.ReviewRecord, error) {
	rows, err := st.Queries().GateReviews(ctx, runID)
	if err != nil {
		return nil, dberr.OfRun(err, runID, "read the reviews of the change of run %d", runID)
	}
	out := make([]contract.ReviewRecord, len(rows))
	for i, row := range rows {
		out[i] = contract.ReviewRecord{
			ID: row.ID, RunID: row.RunID, ExecutionID: row.ExecutionID, Round: int(row.Round), From: row.FromTree, Tree: row.Tree, Model: row.Model,
			SameModel: row.SameModel, Prompt: row.Prompt, Failed: row.Failed, Summary: row.Summary, Omitted: int(row.Omitted), CreatedAt: row.CreatedAt,
		}
		if out[i].Findings, err = rowconv.Decode[[]contract.ReviewFinding](row.Findings); err != nil {
			return nil, err
		}
		if out[i].Unshown, err = rowconv.Decode[[]string](row.Unshown); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// ReviewBy returns the review of an execution; false if it has stored none.
func ReviewBy(ctx context.Context, st *store.Store, runID, execution int64) (contract.ReviewRecord, bool, error) {
	all, err := Reviews(ctx, st, runID)
	i := slices.IndexFunc(all, func(r contract.ReviewRecord) bool { return r.ExecutionID == execution })
	if err != nil || i < 0 {
		return contract.ReviewRecord{}, false, err
	}
	return all[i], true, nil
}

// ReviewOf returns the last review of a change of a run; false if there is none.
func ReviewOf(ctx context.Context, st *store.Store, runID int64, from, tree string) (contract.ReviewRecord, bool, error) {
	all, err := Reviews(ctx, st, runID)
	if err != nil {
		return contract.ReviewRecord{}, false, err
	}
	for _, r := range slices.Backward(all) {
		if r.From == from && r.Tree == tree {
			return r, true, nil
		}
	}
	return contract.ReviewRecord{}, false, nil
}
