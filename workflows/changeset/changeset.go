// Package changeset is the workflow that releases the runs of a change set together. They are ordinary
// runs of several repositories; each of them waits before its release until the set was decided about.
package changeset

import (
	"time"

	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/workflows/internal/options"
)

const (
	// LookEvery is how often the workflow looks at its runs without being told of a change: a run whose
	// workflow was terminated tells nothing.
	LookEvery = 5 * time.Minute
	// FollowEvery is how often it looks at the pull requests without being told of a change: people merge
	// and close them.
	FollowEvery = 10 * time.Minute
)

// Workflow waits until a change set can be decided about, tells its runs, and keeps their pull requests
// up to date until nothing about them changes any more. What it decides upon is read from rows.
func Workflow(ctx workflow.Context, in contract.ChangeSetInput) (contract.ChangeSetResult, error) {
	s := &set{in: in, log: log.With(workflow.GetLogger(ctx), "change_set", in.Set), changed: workflow.GetSignalChannel(ctx, contract.SignalChangeSet)}
	decision, err := s.awaitDecision(ctx)
	if err != nil {
		return contract.ChangeSetResult{}, err
	}
	if !in.Following {
		if err := workflow.ExecuteActivity(options.Persistent(ctx), contract.ActivityChangeSetNotify, in.Set).Get(ctx, nil); err != nil {
			return contract.ChangeSetResult{}, err
		}
	}
	if err := s.follow(ctx); err != nil {
		return contract.ChangeSetResult{}, err
	}
	return contract.ChangeSetResult{Set: in.Set, Outcome: decision.Outcome}, nil
}

type set struct {
	in      contract.ChangeSetInput
	log     log.Logger
	changed workflow.ReceiveChannel
}

// news forgets the signals that came so far: what follows sees what they are about.
func (s *set) news() {
	for s.changed.ReceiveAsync(nil) { // each of them
	}
}

// wait waits for a signal, at most for a time.
func (s *set) wait(ctx workflow.Context, most time.Duration) error {
	_, err := workflow.AwaitWithTimeout(ctx, most, func() bool { return s.changed.Len() > 0 })
	return err
}

// continueAsNew returns a workflow.ContinueAsNewError if the history has become too long.
func (s *set) continueAsNew(ctx workflow.Context, following bool) error {
	if !workflow.GetInfo(ctx).GetContinueAsNewSuggested() || s.changed.Len() > 0 {
		return nil
	}
	in := s.in
	in.Following = following
	return workflow.NewContinueAsNewError(ctx, contract.WorkflowChangeSet, in)
}

// awaitDecision waits until the set was decided about.
func (s *set) awaitDecision(ctx workflow.Context) (contract.ChangeSetDecision, error) {
	for {
		s.news()
		var d contract.ChangeSetDecision
		if err := workflow.ExecuteLocalActivity(options.Local(ctx), contract.ActivityChangeSetDecide, s.in.Set).Get(ctx, &d); err != nil || d.Outcome != "" {
			return d, err
		}
		if err := s.continueAsNew(ctx, false); err != nil {
			return d, err
		}
		most := LookEvery
		if d.Wait > 0 {
			most = min(most, d.Wait)
		}
		if err := s.wait(ctx, most); err != nil {
			return d, err
		}
	}
}

// follow keeps the pull requests up to date. A failure is tried again with the next look.
func (s *set) follow(ctx workflow.Context) error {
	for {
		s.news()
		var linked contract.ChangeSetLinked
		err := workflow.ExecuteActivity(options.Link(ctx), contract.ActivityChangeSetLink, s.in.Set).Get(ctx, &linked)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			s.log.Warn("The pull requests of the change set could not be brought up to date; trying again with the next look", "error", err)
		case linked.Over && s.changed.Len() == 0:
			return nil
		}
		if err := s.continueAsNew(ctx, true); err != nil {
			return err
		}
		if err := s.wait(ctx, FollowEvery); err != nil {
			return err
		}
	}
}
