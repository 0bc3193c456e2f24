package rerun

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/planning"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/followups"
	"github.com/rocketgpt/orchestrator/internal/store/retain"
	"github.com/rocketgpt/orchestrator/internal/store/verdicts"
)

// ForkRequest defines the point from which a new run continues, and its differences.
type ForkRequest struct {
	RunID        int64
	Step         string                // step of the plan; empty: the first
	Turn         int                   // last turn of its conversation that is kept; -1: the step starts from scratch
	Model        *contract.ModelChoice // of the builder and the Repair agent
	Instructions string                // extra instructions for the step's model
	Plan         *contract.Plan        // another plan, which must contain the step
	Reason       string
	By           string `json:"-"` // who creates it: a person, or a client such as contract.ByAPI
	Key          string // idempotency key: requests with the same key create only one run
}

// Fork returns a new run that continues from a step of an old run, with the plan, the changes of
// the steps that it depends on, and the step's conversation and workspace up to the given turn.
// None of this is paid for again. The old run does not change; the caller stores and starts the new
// one.
func Fork(ctx context.Context, st *store.Store, o ForkRequest) (store.NewRun, error) {
	old, err := st.Run(ctx, o.RunID)
	if err != nil {
		return store.NewRun{}, err
	}
	if err := retain.Repeatable(old); err != nil {
		return store.NewRun{}, err
	}
	plan, err := forkedPlan(ctx, st, o)
	if err != nil {
		return store.NewRun{}, err
	}
	if o.Step == "" {
		o.Step = plan.Order()[0]
	}
	if _, ok := plan.Step(o.Step); !ok {
		return store.NewRun{}, forbidden("the plan does not contain step %s", o.Step)
	}
	done, err := changes(ctx, st, old)
	if err != nil {
		return store.NewRun{}, err
	}
	fork := &contract.Fork{RunID: o.RunID, Step: o.Step, Reason: o.Reason}
	for _, id := range plan.Requires(o.Step) {
		c, ok := done[id]
		if !ok {
			return store.NewRun{}, forbidden("step %s of run %d needs step %s, which was never completed; fork from step %[3]s", o.Step, o.RunID, id)
		}
		fork.Kept = append(fork.Kept, c)
	}
	if o.Turn >= 0 {
		if fork.Conversation, err = conversationFork(ctx, st, o); err != nil {
			return store.NewRun{}, err
		}
	}
	description := old.GoalDescription
	if o.Instructions != "" && fork.Conversation == nil {
		description += "\n\n" + o.Instructions
	}
	s := old.Settings
	if s.Authors, err = verdicts.Authors(ctx, st, old); err != nil {
		return store.NewRun{}, err
	}
	s.CreatedBy = o.By
	s.Fork, s.PlanGiven, s.PlanOnly = fork, true, false
	s.Attempt, s.RunBudget.Attempts = nil, 0 // a fork is released by itself
	s.ChangeSet, s.RunBudget.ChangeSet = nil, nil
	var work any
	if s.FollowUp != nil { // the fork has the same knowledge, but a branch of its own
		own := *s.FollowUp
		own.Branch, s.FollowUp = "", &own
		if work, err = followups.Work(ctx, st, o.RunID); err != nil {
			return store.NewRun{}, err
		}
	}
	s.Cache = nil // a fork must not get the responses again with which the old run did not succeed
	if o.Model != nil {
		models := map[contract.Agent]contract.ModelChoice{}
		maps.Copy(models, s.Models)
		models[contract.AgentBuilder], models[contract.AgentRepair] = *o.Model, *o.Model
		s.Models = models
	}
	return store.NewRun{
		Tenant: old.Tenant, Project: old.Project, GoalTitle: old.GoalTitle, GoalDescription: description,
		Settings: s, MaxRetries: s.MaxRetries, Spec: old.Spec, GivenPlan: &plan, EarlierWork: work, Labels: old.Labels,
	}, nil
}

// carryOver adds the changes that a run which is itself a fork kept from its original run.
func carryOver(done map[string]contract.StepOutput, run store.Run) {
	if run.Settings.Fork == nil {
		return
	}
	for _, s := range run.Settings.Fork.Kept {
		done[s.Step] = s
	}
}

// forkedPlan returns the plan of a fork: the given one, or that of the run. A fork is to do something
// else, so it does not begin with the edits of the run's plan, unless a person gave others.
func forkedPlan(ctx context.Context, st *store.Store, o ForkRequest) (contract.Plan, error) {
	plan, err := st.Plan(ctx, o.RunID)
	switch {
	case o.Plan != nil && (err == nil || errors.Is(err, store.ErrNotFound)):
		given := *o.Plan
		given.Edits = planning.KeptEdits(plan, given)
		return given, nil
	case err == nil && len(plan.Steps) == 0:
		err = forbidden("run %d has no plan yet", o.RunID)
	}
	plan.Edits = nil
	return plan, err
}

// conversationFork finds the last execution of the step that has a conversation, and its number of
// turns. An execution that was stopped at its start has none.
func conversationFork(ctx context.Context, st *store.Store, o ForkRequest) (*contract.ConversationFork, error) {
	executions, err := st.Executions(ctx, o.RunID)
	if err != nil {
		return nil, err
	}
	var last int64
	var entries []store.TranscriptEntry
	for _, e := range slices.Backward(executions) {
		if e.Phase != contract.PhaseBuilder || e.Step != o.Step {
			continue
		}
		if entries, err = st.Transcript(ctx, e.ID); err != nil {
			return nil, err
		}
		if len(entries) > 0 {
			last = e.ID
			break
		}
	}
	if last == 0 {
		if o.Turn > 0 {
			return nil, forbidden("step %s of run %d has no conversation, so it has no turn %d; omit the turn to start the step over", o.Step, o.RunID, o.Turn)
		}
		return nil, nil
	}
	most := 0
	for _, e := range entries {
		most = max(most, e.Turn)
	}
	if o.Turn > most {
		return nil, forbidden("the conversation of step %s of run %d has only %d turns, not %d", o.Step, o.RunID, most, o.Turn)
	}
	return &contract.ConversationFork{RunID: o.RunID, ExecutionID: last, Turn: o.Turn, Instructions: o.Instructions}, nil
}

// Describe returns a description of the point from which a fork continues.
func Describe(f contract.Fork) string {
	words := fmt.Sprintf("continues from %s of run %d", f.Step, f.RunID)
	if f.Conversation != nil {
		words += fmt.Sprintf(", after turn %d of its conversation", f.Conversation.Turn)
	}
	return words
}
