// Package outcomes reads what the choice of a model depends on: the settings of a run, and how models did
// in earlier runs.
package outcomes

import (
	"context"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/route"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
	"github.com/rocketgpt/orchestrator/internal/store/internal/rowconv"
)

// MaxRuns is the number of earlier runs that count for the choice of a model, the newest ones.
const MaxRuns = 500

// charged are the phases whose failures an agent is charged with: its own, and the tests of its code.
var charged = map[contract.Agent][]string{
	contract.AgentPlanner: {string(contract.PhasePlanner), string(contract.PhaseBuilder)},
	contract.AgentBuilder: {string(contract.PhaseBuilder), string(contract.PhaseTester)},
	contract.AgentRepair:  {string(contract.PhaseBuilder), string(contract.PhaseTester)},
}

// faults are the classes of failures that a better model might have avoided.
var faults = []string{string(contract.ClassLLM), string(contract.ClassLogic), string(contract.ClassAssertion)}

// Settings returns the frozen settings of a run, or of a row that only carries a pipeline.
func Settings(ctx context.Context, st *store.Store, runID int64) (contract.Settings, error) {
	raw, err := st.Queries().RunSettings(ctx, runID)
	if err != nil {
		return contract.Settings{}, dberr.OfRun(err, runID, "read the settings of run %d", runID)
	}
	return rowconv.Decode[contract.Settings](raw)
}

// Of returns how the models that an agent used did in earlier runs of a run's project, language and
// complexity. A run counts as good if it ended as done and no failure of the agent's work was healed,
// and as bad if one was, or if none of the heals helped.
func Of(ctx context.Context, st *store.Store, runID int64, agent contract.Agent) (map[contract.ModelChoice]route.Outcomes, error) {
	phases := charged[agent]
	if phases == nil {
		phases = []string{string(contract.PhasePlanner)} // the members of deliberations
	}
	rows, err := st.Queries().ModelOutcomes(ctx, db.ModelOutcomesParams{RunID: runID, Agent: string(agent), Phases: phases, Errors: faults, Most: MaxRuns})
	if err != nil {
		return nil, dberr.OfRun(err, runID, "count how models did before run %d", runID)
	}
	out := map[contract.ModelChoice]route.Outcomes{}
	for _, r := range rows {
		out[contract.ModelChoice{Provider: r.Provider, Model: r.Model}] = route.Outcomes{Good: r.Good, Bad: r.Bad}
	}
	return out, nil
}
