package views

import (
	"context"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
)

// Card is the data that a list shows about a run in addition to its row.
type Card struct {
	Steps     int                  `json:"steps"`      // of the current plan
	StepsDone int                  `json:"steps_done"` // whose latest execution succeeded
	Tests     contract.TestSummary `json:"tests"`      // of the latest verification
	Heals     int                  `json:"heals"`
	Tokens    int64                `json:"tokens"`    // spent
	MicroUSD  int64                `json:"micro_usd"` // spent, in millionths of a US dollar
	Estimated bool                 `json:"estimated_price,omitempty" doc:"some of the cost is of models without a known price"`
}

// Cards returns the cards of runs. A run that does not exist has none.
func (v *Views) Cards(ctx context.Context, ids []int64) (map[int64]Card, error) {
	rows, err := v.q.RunCards(ctx, ids)
	if err != nil {
		return nil, dberr.Explain(err, "read the results of %d runs", len(ids))
	}
	cards := make(map[int64]Card, len(rows))
	for _, r := range rows {
		cards[r.ID] = Card{
			Steps: int(r.Steps), StepsDone: int(r.StepsDone), Heals: int(r.Heals), Tokens: r.Tokens, MicroUSD: r.Micros, Estimated: r.PriceEstimated,
			Tests: contract.TestSummary{Passed: int(r.Passed), Failed: int(r.Failed), Skipped: int(r.Skipped), Flaky: int(r.Flaky), Quarantined: int(r.Quarantined)},
		}
	}
	return cards, nil
}

// Projects returns the projects that have runs, at most the given number.
func (v *Views) Projects(ctx context.Context, most int) ([]string, error) {
	names, err := v.q.Projects(ctx, int32(most))
	return names, dberr.Explain(err, "read the projects")
}

// Counts has the numbers of a run's findings and artifacts.
type Counts struct {
	Findings  int // that are not resolved
	Artifacts int
}

// Counts returns the numbers of a run's findings and artifacts.
func (v *Views) Counts(ctx context.Context, runID int64) (Counts, error) {
	row, err := v.q.RunCounts(ctx, runID)
	return Counts{Findings: int(row.Findings), Artifacts: int(row.Artifacts)}, dberr.Explain(err, "count the findings and artifacts of run %d", runID)
}

// Neighbour returns the previous run of the same project; for the first run, the next one; 0 if
// there is no other run.
func (v *Views) Neighbour(ctx context.Context, runID int64) (int64, error) {
	id, err := v.q.NeighbourRun(ctx, runID)
	return id, dberr.OfRun(err, runID, "find the run before or after run %d", runID)
}
