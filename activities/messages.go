package activities

import (
	"context"
	"slices"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/prompt"
	"github.com/rocketgpt/orchestrator/internal/store/messages"
)

// instructed lists the agents that people can write to while they work.
var instructed = []contract.Agent{contract.AgentPlanner, contract.AgentBuilder, contract.AgentRepair, contract.AgentEnvironment}

// maxSender is the number of bytes of a sender's name that an agent sees.
const maxSender = 100

// withMessages adds to a question the messages of people that its agent has not got yet.
func (a *Activities) withMessages(ctx context.Context, q question) (question, error) {
	if q.member || q.noMessages || !slices.Contains(instructed, q.execution.Agent) {
		return q, nil
	}
	pending, err := messages.Pending(ctx, a.Store, q.execution)
	if err != nil || len(pending) == 0 {
		return q, err
	}
	shown := make([]prompt.Message, len(pending))
	for i, m := range pending {
		shown[i] = prompt.Message{By: clipped(prompt.ShownPath(m.By), maxSender), Text: m.Text}
		q.delivers = append(q.delivers, m.Seq)
	}
	text, err := prompt.Messages(shown)
	q.told = append(slices.Clone(q.told), model.Message{Role: model.RoleUser, Text: text})
	return q, err
}

// hasMessages reports whether people wrote messages that an agent has not got yet.
func (a *Activities) hasMessages(ctx context.Context, e contract.ExecutionRef) (bool, error) {
	pending, err := messages.Pending(ctx, a.Store, e)
	return len(pending) > 0, err
}
