package outcomes

import (
	"context"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
	"github.com/rocketgpt/orchestrator/internal/store/internal/rowconv"
)

// Work is what some steps of earlier runs took: their number and medians.
type Work struct {
	Complexity       contract.Level // empty: of any complexity
	Same             bool           // carried out by the model that was asked for; otherwise by any
	Steps            int
	MicroUSD         float64
	PromptTokens     float64
	CompletionTokens float64
	Seconds          float64
}

// Tests is how long verifications of earlier runs took: their number and median.
type Tests struct {
	Runs    int
	Seconds float64
}

// MaxMeasured is the number of earlier runs whose steps count, and of earlier verifications, the newest
// ones. They are read for each plan.
const MaxMeasured = 50

// Took returns what steps of the newest released runs of a run's project took, by complexity and by
// whether a model carried them out, and how long the verifications of its repository took. Attempts
// that failed, and repairs, do not count.
func Took(ctx context.Context, st *store.Store, runID int64, builder contract.ModelChoice) ([]Work, Tests, error) {
	rows, err := st.Queries().EarlierSteps(ctx, db.EarlierStepsParams{RunID: runID, Provider: builder.Provider, Model: builder.Model, Most: MaxMeasured})
	if err != nil {
		return nil, Tests{}, dberr.OfRun(err, runID, "read what steps before run %d took", runID)
	}
	tests, err := st.Queries().EarlierTests(ctx, db.EarlierTestsParams{RunID: runID, Most: MaxMeasured})
	return rowconv.Convert(rows, func(r db.EarlierStepsRow) Work {
		return Work{
			Complexity: contract.Level(r.Complexity), Same: r.Same, Steps: int(r.Steps), MicroUSD: r.MicroUsd,
			PromptTokens: r.PromptTokens, CompletionTokens: r.CompletionTokens, Seconds: r.Seconds,
		}
	}), Tests{int(tests.Tests), tests.Seconds}, dberr.OfRun(err, runID, "read what tests before run %d took", runID)
}
