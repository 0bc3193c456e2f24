package control

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/runs/changeset"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/changesets"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

// RepositoryGoal is one of several repositories that are changed for one goal.
type RepositoryGoal struct {
	Repo string `json:"repo" minLength:"1" maxLength:"2000" doc:"a directory on the server's host, or a URL"`
	Base string `json:"base,omitempty" maxLength:"255" doc:"branch, tag or commit to start from; default: the checked-out commit, or the default branch"`
	Goal string `json:"goal,omitempty" maxLength:"65536" doc:"what to do in this repository, besides the goal of all"`
}

// ownGoal returns the beginning of the description of the goal in a repository; empty: it is that of all.
func (r RepositoryGoal) ownGoal() string {
	if r.Goal == "" {
		return ""
	}
	return "In this repository: " + r.Goal + "\n\n"
}

// longestOwnGoal returns the number of bytes that must be left in the description of the goal of all.
func (c Creation) longestOwnGoal() (most int) {
	for _, r := range c.Repositories {
		most = max(most, len(r.ownGoal()))
	}
	return most
}

// several reports whether a request is for a change set.
func (c Creation) several() bool { return len(c.Repositories) > 1 }

// checkRepositories returns the errors in a request for several repositories that can be found without
// access to other systems.
func (c Creation) checkRepositories() error {
	if len(c.Repositories) == 0 {
		return nil
	}
	switch {
	case c.Repo != "" || c.Base != "":
		return wrong("one repository and several cannot be combined; name all of them in repositories")
	case !c.several():
		return wrong("only one repository was named; use repo and base for it")
	case c.PlanOnly || c.PrepareOnly:
		return wrong("several repositories are only possible for runs that are released; omit --plan-only and prepare_only, as needed")
	case c.Plan != nil:
		return wrong("a plan is for one repository; omit --plan")
	case c.Attempts > 1 || len(c.AttemptModels) > 0:
		return wrong("several attempts and several repositories cannot be combined; omit --attempts and --attempt-model")
	}
	for i, r := range c.Repositories {
		if r.Repo == "" {
			return wrong("repository %d has no directory or URL", i+1)
		}
		if slices.ContainsFunc(c.Repositories[:i], func(o RepositoryGoal) bool { return o.Repo == r.Repo }) {
			return wrong("the repository %s was named twice", telemetry.Redact(r.Repo))
		}
	}
	return nil
}

// acceptRepositories checks the number of repositories, and completes their directories.
func (r *Runs) acceptRepositories(c *Creation) error {
	if most := r.Config.Git.ChangeSet.Max; len(c.Repositories) > most {
		return wrong("%d repositories were named, but only %d are allowed (git.change_set.max)", len(c.Repositories), most)
	}
	c.Repositories = slices.Clone(c.Repositories) // the caller's stay as they are
	for i := range c.Repositories {
		var err error
		if c.Repositories[i].Repo, err = withPath(c.Repositories[i].Repo); err != nil {
			return err
		}
	}
	return c.checkRepositories()
}

// createChangeSet creates and starts one run for each of several repositories.
func (r *Runs) createChangeSet(ctx context.Context, c Creation, goal store.NewRun, operator *config.Config, out *Created) error {
	n := changesets.New{Tenant: store.DefaultTenant, Title: goal.GoalTitle, CreatedBy: c.By}
	pictures, err := r.storePictures(ctx, c.Pictures)
	if err != nil {
		return err
	}
	var all []changeset.Change
	for i, repository := range c.Repositories {
		one := c
		one.Repo, one.Base = repository.Repo, repository.Base
		run, err := r.prepare(ctx, one, operator, out)
		if err != nil {
			return fmt.Errorf("repository %d of the change set: %w", i+1, err)
		}
		if err := r.noteGate(ctx, operator, run.Settings.Gate); err != nil {
			return err
		}
		if i > 0 {
			run.IdempotencyKey = ""
		}
		run.Settings.Pictures, run.GoalTitle, run.RequestDigest = pictures, goal.GoalTitle, goal.RequestDigest
		n.Runs = append(n.Runs, run)
		all = append(all, changeset.Change{Repository: setup.ProjectOf(run.Settings.Repo.URL), Goal: repository.Goal})
	}
	for i := range n.Runs {
		description := c.Repositories[i].ownGoal() + goal.GoalDescription
		if n.Runs[i].GoalDescription, err = r.describedGoal(goal.GoalTitle, description, changeset.Describe(all, i)); err != nil {
			return err
		}
	}
	s, limits := r.Config.Git.ChangeSet, r.Config.Execution.Run
	n.Settings = contract.ChangeSetSettings{Incomplete: s.Incomplete, Wait: s.Wait, Follow: s.Follow, Tokens: limits.Tokens, MicroUSD: limits.CostUSD.Int64()}
	set, fresh, err := changesets.Create(ctx, r.Store, n)
	if err != nil {
		return err
	}
	out.Fresh = fresh
	return r.startChangeSet(ctx, set.ID, out)
}

// startChangeSet starts the runs of a change set that have not started, or queues them.
func (r *Runs) startChangeSet(ctx context.Context, id int64, out *Created) error {
	set, err := changesets.Read(ctx, r.Store, id)
	if err != nil {
		return err
	}
	for _, m := range set.Runs {
		one := Created{}
		if one.Run, err = r.Store.Run(ctx, m.RunID); err != nil {
			return err
		}
		if one.Run.WorkflowID == "" {
			r.start(ctx, &one)
		}
		out.Waiting = cmp.Or(out.Waiting, one.Waiting)
		for _, note := range one.Notes {
			if !slices.Contains(out.Notes, note) {
				out.Notes = append(out.Notes, note)
			}
		}
		if m.Number == 1 {
			out.Run = one.Run
		}
	}
	out.ChangeSet = &set
	return nil
}

// ChangeSet returns a change set.
func (r *Runs) ChangeSet(ctx context.Context, id int64) (changesets.Set, error) {
	return changesets.Read(ctx, r.Store, id)
}

// ChangeSets returns the newest change sets, only those before an id of an earlier page unless before is 0.
func (r *Runs) ChangeSets(ctx context.Context, before int64, most int) (changesets.Page, error) {
	return changesets.List(ctx, r.Store, store.DefaultTenant, before, most)
}

// StopChangeSet stops all runs of a change set that have not ended. None of those that wait for the
// others is released any more.
func (r *Runs) StopChangeSet(ctx context.Context, id int64, c contract.Command) (changesets.Set, error) {
	set, err := r.ChangeSet(ctx, id)
	if err != nil {
		return set, err
	}
	ended := !slices.ContainsFunc(set.Runs, func(m changesets.Member) bool { return !m.Ended() || m.Staying })
	if ended && set.StoppedAt == nil {
		return set, refused("all runs of change set %d have ended", id)
	}
	// Before the first of them ends: otherwise, the others could be released without it.
	if _, err := changesets.Stop(ctx, r.Store, id, telemetry.Redact(c.By), telemetry.Redact(c.Reason)); err != nil {
		return set, err
	}
	r.tellChangeSet(ctx, id)
	if c.ID == "" {
		c.ID = uuid.NewString()
	}
	failed := error(nil)
	for _, m := range set.Runs {
		if m.Ended() && !m.Staying {
			continue
		}
		one := c
		one.ID = fmt.Sprintf("%s/%d", c.ID, m.Number)
		if _, err := r.Steer(ctx, m.RunID, contract.UpdateStop, one); err != nil && !r.endedMeanwhile(ctx, id, m.Number) {
			failed = cmp.Or(failed, err)
		}
	}
	if failed != nil {
		return set, failed
	}
	return r.ChangeSet(ctx, id)
}

// endedMeanwhile reports whether a run of a set has ended by itself, as one that waits for the others does
// when it learns that the set was stopped.
func (r *Runs) endedMeanwhile(ctx context.Context, set int64, number int) bool {
	now, err := r.ChangeSet(ctx, set)
	return err == nil && slices.ContainsFunc(now.Runs, func(m changesets.Member) bool {
		return m.Number == number && m.Ended() && !m.Staying
	})
}

// ReleaseChangeSet releases the runs of a change set that are ready, without waiting for the others.
func (r *Runs) ReleaseChangeSet(ctx context.Context, id int64, c contract.Command) (changesets.Set, error) {
	set, err := r.ChangeSet(ctx, id)
	switch {
	case err != nil:
		return set, err
	case set.StoppedAt != nil:
		return set, refused("change set %d was stopped by %s", id, set.StoppedBy)
	case set.DecidedAt != nil && set.ReleasedAt == nil:
		return set, refused("change set %d was decided already: %s", id, set.Reason)
	case set.ReleasedAt == nil && !slices.ContainsFunc(set.Runs, changesets.Member.Ready):
		return set, refused("no run of change set %d is ready for its release", id)
	}
	if _, err := changesets.Release(ctx, r.Store, id, telemetry.Redact(c.By), telemetry.Redact(c.Reason)); err != nil {
		return set, err
	}
	// Its workflow may have been terminated; otherwise, it finds the decision made.
	if _, err := changesets.Decide(ctx, r.Store, id); err != nil {
		return set, err
	}
	if !r.tellChangeSet(ctx, id) {
		r.tellRuns(ctx, set)
	}
	return r.ChangeSet(ctx, id)
}

// tellChangeSet tells the workflow of a change set that a person has commanded something, and reports whether
// that worked. If it did not, the workflow has ended, or finds out by itself.
func (r *Runs) tellChangeSet(ctx context.Context, id int64) bool {
	err := r.Temporal.SignalWorkflow(ctx, contract.ChangeSetWorkflowID(id), "", contract.SignalChangeSet, 0)
	if err != nil && r.Log != nil {
		r.Log.DebugContext(ctx, "The workflow of a change set did not learn of a command; it has ended, or looks by itself", "change_set", id, "error", err)
	}
	return err == nil
}

// tellRuns tells the runs of a change set that wait for the others that it was decided about. If that fails,
// they find out by themselves.
func (r *Runs) tellRuns(ctx context.Context, set changesets.Set) {
	for _, m := range set.Runs {
		if !m.Ready() {
			continue
		}
		if err := r.Temporal.SignalWorkflow(ctx, contract.RunWorkflowID(m.RunID), "", contract.SignalChangeSetDecided, nil); err != nil && r.Log != nil {
			r.Log.DebugContext(ctx, "A run did not learn of the decision about its change set; it looks by itself", "run", m.RunID, "error", err)
		}
	}
}
