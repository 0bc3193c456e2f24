package verdict

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// Plan returns a LOGIC_ERROR if a plan cannot be executed.
func Plan(plan contract.Plan) error {
	problems := plan.Problems()
	if len(problems) == 0 {
		return checkSize(plan)
	}
	var says []string
	for _, p := range problems[:min(len(problems), 10)] {
		says = append(says, p.Problem)
	}
	return fault.New(contract.ClassLogic, contract.CodeInvalidPlan, "the plan cannot be executed: %s", strings.Join(says, "; "))
}

// skeletonBytes limits the size of a plan in a run's history.
const skeletonBytes = 32 << 10

func checkSize(plan contract.Plan) error {
	raw, err := json.Marshal(plan.Skeleton())
	if err != nil {
		return fmt.Errorf("encode the plan: %w", err)
	}
	if len(raw) > skeletonBytes {
		return fault.New(contract.ClassLogic, contract.CodeInvalidPlan,
			"the plan's names and dependencies take up %d bytes, more than the %d allowed; use fewer steps or shorter IDs", len(raw), skeletonBytes)
	}
	return nil
}
