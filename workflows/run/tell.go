package run

import (
	"strings"

	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/workflows/internal/commands"
	"github.com/rocketgpt/orchestrator/workflows/internal/records"
)

// checkTell checks a message to the run's agents.
func (r *run) checkTell(c contract.Command) error {
	switch {
	case strings.TrimSpace(c.Text) == "":
		return commands.Rejected("tell needs a text")
	case len(c.Text) > commands.MaxReason:
		return commands.Rejected("the message is %d bytes long, more than the %d allowed; put longer texts into a file of the repository", len(c.Text), commands.MaxReason)
	case strings.ToValidUTF8(c.Text, "") != c.Text:
		return commands.Rejected("the message is not valid UTF-8")
	case len(c.By) > commands.MaxReason:
		return commands.Rejected("the sender's name is %d bytes long, more than the %d allowed", len(c.By), commands.MaxReason)
	}
	if c.Step == "" || len(r.Plan.Steps) == 0 && len(c.Step) <= contract.MaxStepID { // of a plan that does not exist yet
		return nil
	}
	var known []string
	for _, s := range r.Plan.Steps {
		if s.ID == c.Step {
			return nil
		}
		known = append(known, s.ID)
	}
	return commands.Rejected("run %d has no step %.*q; its steps: %s", r.in.RunID, contract.MaxStepID, c.Step, commands.ListFew(known))
}

// applyTell records a message. Agents read it from the database before their next turn.
func (r *run) applyTell(_ workflow.Context, c contract.Command) (contract.Record, string) {
	r.AddAuthor(c.By)
	to := "the agents get it"
	if c.Step != "" {
		to = "the agents of " + c.Step + " get it"
	}
	return records.EventRecord(contract.EventMessageAdded, map[string]any{"id": c.ID, "text": c.Text, "by": c.By, "step": c.Step}), to + " with their next turn"
}
