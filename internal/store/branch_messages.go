package store

import (
	"context"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
	"github.com/rocketgpt/orchestrator/internal/store/internal/rowconv"
)

// AddBranchMessage stores a message about a released branch and counts the repair that it triggers.
// The count covers all runs that successively released a branch with this name in this repository.
// Repair is 0 if the maximum is reached. A repeat with the same message of a run returns the same
// result and counts nothing; AcceptedBefore is set if another workflow run accepted the message
// before the run was replayed.
func (s *Store) AddBranchMessage(ctx context.Context, workflowRunID string, in contract.TakeCheckInput) (contract.TakeCheckResult, error) {
	doc, err := rowconv.Encode(in.Message)
	if err != nil {
		return contract.TakeCheckResult{}, err
	}
	q, batch := newBatch(s.pool)
	batch.queue(q.LockBranch(ctx, rowconv.Text(in.Repo+" "+in.Branch)))
	row, err := q.AddBranchMessage(ctx, db.AddBranchMessageParams{
		RunID: in.RunID, MessageID: rowconv.Text(in.Message.ID), Repo: rowconv.Text(in.Repo), Branch: rowconv.Text(in.Branch),
		WorkflowRunID: workflowRunID, Most: int32(in.MaxRepairs), Message: doc,
	})
	if err != nil {
		return contract.TakeCheckResult{}, dberr.OfRun(err, in.RunID, "store a message about run %d's branch", in.RunID)
	}
	return contract.TakeCheckResult{ID: row.ID, Repair: int(row.Repair), AcceptedBefore: row.WorkflowRunID != workflowRunID}, nil
}

// BranchMessage returns a message about a released branch by its row id.
func (s *Store) BranchMessage(ctx context.Context, id int64) (contract.CheckMessage, error) {
	doc, err := s.q.BranchMessage(ctx, id)
	if err != nil {
		return contract.CheckMessage{}, dberr.Explain(err, "read message %d about a branch", id)
	}
	return rowconv.Decode[contract.CheckMessage](doc)
}
