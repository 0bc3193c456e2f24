package views

import (
	"context"
	"time"

	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
	"github.com/rocketgpt/orchestrator/internal/store/internal/rowconv"
)

// PlanVersion is a plan of a run without its steps.
type PlanVersion struct {
	ID          int64
	Author      string
	Steps       int
	ExecutionID int64 // of the planner; 0: a person gave or edited it
	CreatedAt   time.Time
}

// Plans returns the versions of a run's plan, the newest first, at most as many
// as given.
func (v *Views) Plans(ctx context.Context, runID int64, most int) ([]PlanVersion, error) {
	rows, err := v.q.PlansOfRun(ctx, db.PlansOfRunParams{RunID: runID, Most: int32(most)})
	return rowconv.Convert(rows, func(r db.PlansOfRunRow) PlanVersion {
		return PlanVersion{ID: r.ID, Author: r.Author, Steps: int(r.StepCount), ExecutionID: r.ExecutionID, CreatedAt: r.CreatedAt}
	}), dberr.Explain(err, "read the plans of run %d", runID)
}
