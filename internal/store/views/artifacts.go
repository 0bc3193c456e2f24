package views

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
	"github.com/rocketgpt/orchestrator/internal/store/internal/rowconv"
)

// MadeArtifact is an artifact with the execution that created it.
type MadeArtifact struct {
	contract.Artifact
	Phase   contract.Phase
	Step    string
	Attempt int
	Agent   contract.Agent
}

// ArtifactFilter selects artifacts of a run. Zero fields select all.
type ArtifactFilter struct {
	Type  contract.ArtifactType
	Phase contract.Phase
	Text  string // in the name, ignoring case
	After int64  // the last one that the caller has
	Limit int    // default and maximum 1000
}

// ArtifactsOf returns artifacts of a run with the executions that created them, in the order in
// which they were added.
func (v *Views) ArtifactsOf(ctx context.Context, runID int64, f ArtifactFilter) ([]MadeArtifact, error) {
	rows, err := v.lists.ArtifactsOf(ctx, db.ArtifactsOfParams{
		RunID: runID, AfterID: f.After, Type: string(f.Type), Phase: string(f.Phase), Text: f.Text, Most: rowconv.Limit(f.Limit, 1000),
	})
	return rowconv.Convert(rows, func(r db.ArtifactsOfRow) MadeArtifact { return madeOf(runID, r) }), dberr.Explain(err, "read artifacts of run %d", runID)
}

func madeOf(runID int64, r db.ArtifactsOfRow) MadeArtifact {
	return MadeArtifact{
		Artifact: contract.Artifact{
			ID: r.ID, RunID: runID, ExecutionID: r.ExecutionID, Name: r.Name, Type: contract.ArtifactType(r.Type), Size: r.Size, Digest: r.Hash, CreatedAt: r.CreatedAt,
			LeftOut: r.LeftOut, DeletedAt: r.DeletedAt,
		},
		Phase: contract.Phase(r.Phase), Step: r.Step, Attempt: int(r.Attempt), Agent: contract.Agent(r.Agent),
	}
}

// Artifact returns an artifact of a run, and the numbers of the artifacts before and after it, 0
// for none. It returns ErrNotFound if the run has no artifact with that number.
func (v *Views) Artifact(ctx context.Context, runID, id int64) (a MadeArtifact, before, after int64, err error) {
	r, err := v.q.ArtifactOf(ctx, db.ArtifactOfParams{RunID: runID, ID: id})
	if errors.Is(err, pgx.ErrNoRows) {
		return a, 0, 0, dberr.NotFound("run %d has no artifact %d", runID, id)
	}
	a = madeOf(runID, db.ArtifactsOfRow{
		ID: r.ID, ExecutionID: r.ExecutionID, Name: r.Name, Type: r.Type, Size: r.Size, Hash: r.Hash, CreatedAt: r.CreatedAt, LeftOut: r.LeftOut, DeletedAt: r.DeletedAt,
		Phase: r.Phase, Step: r.Step, Attempt: r.Attempt, Agent: r.Agent,
	})
	return a, r.Before, r.After, dberr.Explain(err, "read artifact %d of run %d", id, runID)
}

// ArtifactNamed returns the artifact with the given name in a run, or in the row that accounts for
// pipelines, or ErrNotFound.
func (v *Views) ArtifactNamed(ctx context.Context, runID int64, name string) (contract.Artifact, error) {
	row, err := v.q.ArtifactNamed(ctx, db.ArtifactNamedParams{RunID: runID, Name: rowconv.Text(name)})
	return rowconv.Artifact(db.ArtifactsRow(row)), dberr.Or(err, dberr.NotFound("run %d has no artifact %q", runID, name), "read artifact %q of run %d", name, runID)
}

// ArtifactsOfExecution returns the artifacts of one execution of a run, at most the given number.
func (v *Views) ArtifactsOfExecution(ctx context.Context, runID, executionID int64, most int) ([]contract.Artifact, error) {
	rows, err := v.q.ArtifactsOfExecution(ctx, db.ArtifactsOfExecutionParams{RunID: runID, ExecutionID: &executionID, Most: int32(most)})
	return rowconv.Convert(rows, func(r db.ArtifactsOfExecutionRow) contract.Artifact { return rowconv.Artifact(db.ArtifactsRow(r)) }),
		dberr.Explain(err, "read the artifacts of execution %d", executionID)
}

// Patches returns the patches among a run's artifacts.
func (v *Views) Patches(ctx context.Context, runID int64) ([]contract.Artifact, error) {
	rows, err := v.q.Patches(ctx, runID)
	return rowconv.Convert(rows, func(r db.PatchesRow) contract.Artifact { return rowconv.Artifact(db.ArtifactsRow(r)) }),
		dberr.Explain(err, "read the patches of run %d", runID)
}
