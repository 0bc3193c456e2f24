package activities

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/tool"
)

// plannedTurn is the number of the turn that a plan with edits contains.
const plannedTurn = 1

// plannedText is what the agent of a step says, as far as it knows, when it makes the plan's edits.
const plannedText = "The plan contains the complete change, so I make it as planned."

// openPlanned stores the first turn of a step whose plan contains its edits: the calls that make them,
// and the one that finishes. No model is asked for it.
func (a *Activities) openPlanned(ctx context.Context, e contract.ExecutionRef, plan contract.Plan) error {
	step, _ := plan.Step(e.Step)
	calls, err := tool.PlannedCalls(plan.Edits, cmp.Or(plan.Summary, step.Name, step.Description))
	if err != nil {
		return err
	}
	m := model.Message{Role: model.RoleAssistant, Text: plannedText}
	for i, c := range calls {
		m.ToolCalls = append(m.ToolCalls, model.ToolCall{ID: fmt.Sprintf("plan%05d", i), Name: c.Name, Arguments: string(c.Arguments)})
	}
	messages, err := encode([]model.Message{m})
	if err != nil {
		return err
	}
	return a.Store.SaveTurn(ctx, e.ID, plannedTurn, messages)
}

// planned returns the turn that the plan of an execution contains; store.ErrNotFound: it contains none.
func (a *Activities) planned(ctx context.Context, executionID int64) (model.Response, error) {
	rows, err := a.Store.Transcript(ctx, executionID)
	if err != nil {
		return model.Response{}, err
	}
	for _, row := range rows {
		if row.Turn != plannedTurn || row.Role != string(model.RoleAssistant) {
			continue
		}
		var m model.Message
		if err := json.Unmarshal(row.Content, &m); err != nil {
			return model.Response{}, fmt.Errorf("read the planned turn of execution %d: %w", executionID, err)
		}
		return model.Response{Text: m.Text, ToolCalls: m.ToolCalls}, nil
	}
	return model.Response{}, fmt.Errorf("execution %d has no planned turn: %w", executionID, store.ErrNotFound)
}

// responseOf returns the stored response of a turn, whether a model or the plan has made it.
func (a *Activities) responseOf(ctx context.Context, executionID int64, turn int) (model.Response, error) {
	raw, err := a.Store.Answer(ctx, executionID, turn)
	if turn == plannedTurn && errors.Is(err, store.ErrNotFound) {
		return a.planned(ctx, executionID)
	}
	if err != nil {
		return model.Response{}, err
	}
	var answer stored
	if err := json.Unmarshal(raw, &answer); err != nil {
		return model.Response{}, fmt.Errorf("read the stored response of execution %d, turn %d: %w", executionID, turn, err)
	}
	return answer.Response, nil
}
