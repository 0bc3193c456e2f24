package verdict

import (
	"encoding/json"
	"fmt"
	"sync"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/model"
)

// Answer is a model response as stored in the database. An unusable response is stored with the
// reason, because it was paid for, and a repeated call would be paid for again.
type Answer struct {
	model.Response
	Failure *contract.Failure `json:"failure,omitempty"`
}

// Err returns why the response is unusable, nil if it is usable.
func (a Answer) Err() error {
	if a.Failure == nil {
		return nil
	}
	return fault.Restore(*a.Failure)
}

// PlanSchema returns the schema of the planner's response.
var PlanSchema = sync.OnceValue(model.SchemaOf[contract.Plan])

// ReadPlan reads a model response as an executable plan.
func ReadPlan(schema model.Schema, text string) (contract.Plan, error) {
	var plan contract.Plan
	doc, err := model.CheckJSON(schema, text)
	if err != nil {
		return plan, err
	}
	if err := json.Unmarshal(doc, &plan); err != nil {
		return plan, fault.Wrap(err, contract.ClassLLM, contract.CodeInvalidOutput, "the planner's response is not a plan")
	}
	return plan, Plan(plan)
}

// RecordedPlan checks a recorded response of the planner's model like a new one, and returns an
// error if it is not an executable plan.
func RecordedPlan(recorded json.RawMessage) error {
	var answer Answer
	if err := json.Unmarshal(recorded, &answer); err != nil {
		return fmt.Errorf("read a recorded planner response: %w", err)
	}
	if err := answer.Err(); err != nil {
		return err
	}
	_, err := ReadPlan(PlanSchema(), answer.Text)
	return err
}
