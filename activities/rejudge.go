package activities

import (
	"encoding/json"
	"fmt"
)

// JudgePlan checks a recorded answer of a planner's model as a new one would be
// checked, and says why it is no plan that can be carried out.
func JudgePlan(recorded json.RawMessage) error {
	var answer stored
	if err := json.Unmarshal(recorded, &answer); err != nil {
		return fmt.Errorf("read a recorded answer of the planner: %w", err)
	}
	if err := answer.err(); err != nil {
		return err
	}
	_, err := readPlan(planSchema, answer.Text)
	return err
}
