package control

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math"
	"path"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/runs/followup"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/followups"
	"github.com/rocketgpt/orchestrator/internal/store/verdicts"
	"github.com/rocketgpt/orchestrator/internal/workspace"
)

// FollowUp describes a new run that continues the branch of a finished one. What is empty or false is
// as for the finished run.
type FollowUp struct {
	RunID          int64             // the finished run
	Goal           string            // what to do now; the first line is the title
	Description    string            // more about the goal
	Model          string            // model of all agents, as provider/model; empty: that which the finished run's request named, else as configured
	Effort         contract.Effort   `json:",omitempty"`
	PlanBy         string            `json:",omitempty"`
	ApprovePlan    bool              // a person approves the plan before it is built
	ApproveRelease bool              // a person approves the release
	Settings       map[string]string // configuration settings for this run only, by dotted key; those of the finished run are not repeated
	Key            string            // idempotency key: requests with the same key create only one run
	By             string            `json:"-"`          // who creates it: a person, or a client such as contract.ByAPI
	NeedsName      bool              `json:"-"`          // refuse a By that names nobody if the authors of the change cannot approve its release
	Pictures       []PictureFile     `json:",omitempty"` // that belong to the goal
}

// Check returns the errors that can be found without access to other systems.
func (f FollowUp) Check() error { return f.creation(store.Run{Repo: "x"}).Check() }

// creation returns the creation of a run that continues an earlier one, without its base.
func (f FollowUp) creation(old store.Run) Creation {
	s := old.Settings
	c := Creation{
		Repo: old.Repo, Project: old.Project, Goal: f.Goal, Description: f.Description, Model: f.Model, Effort: f.Effort, PlanBy: f.PlanBy, By: f.By, NeedsName: f.NeedsName,
		ApprovePlan: f.ApprovePlan || s.ApprovePlan, ApproveRelease: f.ApproveRelease || s.ApproveRelease,
		issue: s.Issue, Push: s.Release.Push, PullRequest: s.Release.PullRequest != nil, Settings: f.Settings, Key: f.Key,
	}
	if s.Release.Push {
		c.Remote = s.Release.Remote
	}
	return c
}

// maxLater is the number of commits that others added to a branch whose subjects its next run knows.
const maxLater = 20

// FollowUp creates a run that continues the branch of a finished run, and starts it. If it returns an
// error, no run was created.
func (r *Runs) FollowUp(ctx context.Context, f FollowUp) (Created, error) {
	var out Created
	if err := f.Check(); err != nil {
		return out, err
	}
	digest, err := digestOf(f)
	if err != nil {
		return out, err
	}
	if known, err := r.known(ctx, f.Key, digest); known != nil || err != nil {
		return deref(known), err
	}
	old, err := r.released(ctx, f.RunID, &out)
	if err != nil {
		return out, err
	}
	c := f.creation(old)
	if r, err = r.current(); err != nil {
		return out, err
	}
	operator := r.Config
	if r, err = r.with(c); err != nil {
		return out, err
	}
	title, description, err := r.goal(c)
	if err != nil {
		return out, err
	}
	chain, work, err := r.branchOf(ctx, old, &c)
	if err != nil {
		return out, err
	}
	prepared, err := r.prepare(ctx, c, operator, &out)
	if err != nil {
		return out, err
	}
	if err := r.noteGate(ctx, operator, prepared.Settings.Gate); err != nil {
		return out, err
	}
	prepared.GoalTitle, prepared.GoalDescription, prepared.RequestDigest = title, description, digest
	prepared.Settings.FollowUp, prepared.EarlierWork = chain, work
	if prepared.Settings.Authors, err = verdicts.Authors(ctx, r.Store, old); err != nil {
		return out, err
	}
	prepared.Settings.Repo.Branch = chain.Branch
	if prepared.Settings.Pictures, err = r.storePictures(ctx, f.Pictures); err != nil {
		return out, err
	}
	prepared.Settings.Cache = nil // the responses of the earlier run do not know its work
	if out.Run, out.Fresh, err = r.Store.CreateRun(ctx, prepared); err != nil {
		return out, err
	}
	r.start(ctx, &out)
	return out, nil
}

// released returns the run whose commits are the newest ones that were released to a run's branch, or
// an error that says what to do if it cannot be continued.
func (r *Runs) released(ctx context.Context, id int64, out *Created) (store.Run, error) {
	run, err := r.Store.Run(ctx, id)
	if err != nil {
		return run, err
	}
	if run.ReleaseBranch != "" {
		last, err := followups.LastOn(ctx, r.Store, run.Repo, run.ReleaseBranch)
		if err != nil {
			return run, err
		}
		if last > run.ID {
			out.Notes = append(out.Notes, fmt.Sprintf("run %d has already continued %s; the new run continues from there", last, run.ReleaseBranch))
			if run, err = r.Store.Run(ctx, last); err != nil {
				return run, err
			}
		}
	}
	return run, followable(run)
}

// followable returns why a run cannot be continued on its branch, nil if it can.
func followable(run store.Run) error {
	switch {
	case run.Settings.PrepareOnly, run.Settings.PlanOnly:
		return refused("run %d released nothing, because it only made a plan or an environment; start a new run for the goal (rgpt run create) or carry out the plan (rgpt run fork %[1]d)", run.ID)
	case !run.Status.Terminal():
		return refused("run %d is %s; follow up when it is done, or write to its agents now: rgpt run tell %[1]d", run.ID, run.Status)
	case run.StayingUntil != nil:
		return refused("run %d is watching its branch and may still add commits to it; stop that first: rgpt run stop %[1]d", run.ID)
	case run.Status != contract.StatusDone:
		return refused("run %d is %s, so its work is not complete; resume it (rgpt run resume %[1]d), replay it (rgpt run replay %[1]d) or start a new run from one of its steps (rgpt run fork %[1]d)", run.ID, run.Status)
	case run.ReleaseCommit == "":
		return refused("run %d released nothing, so it has no branch to continue; start a new run (rgpt run create)", run.ID)
	}
	return nil
}

// branchOf finds the commit from which the branch of a run is continued, makes it the base of the
// creation, and describes the work that led to it.
func (r *Runs) branchOf(ctx context.Context, old store.Run, c *Creation) (*contract.FollowUp, []followup.Work, error) {
	workspaces, err := setup.Workspaces(r.Config, r.DataDir, r.Artifacts)
	if err != nil {
		return nil, nil, err
	}
	chain := &contract.FollowUp{RunID: old.ID, Branch: old.ReleaseBranch, Into: old.BaseBranch, Root: old.BaseCommit}
	if before := old.Settings.FollowUp; before != nil {
		chain.Root, chain.Into = before.Root, before.Into
	}
	if c.Base, err = workspaces.Head(ctx, old.Repo, workspace.Continued{Branch: chain.Branch, Released: old.ReleaseCommit, Into: chain.Into, Remote: c.Remote}); err != nil {
		return nil, nil, err
	}
	c.configFrom = chain.Root
	var later []string
	if c.Base != old.ReleaseCommit {
		err := workspaces.Log(ctx, contract.Repo{URL: old.Repo, Base: c.Base}, old.ReleaseCommit, maxLater, func(l workspace.LogCommit) error {
			subject, _, _ := strings.Cut(l.Message, "\n")
			later = append(later, subject)
			return nil
		})
		if err != nil {
			return nil, nil, err
		}
	}
	if err := r.asBefore(old, c); err != nil {
		return nil, nil, err
	}
	work, err := followup.Gather(ctx, r.Store, r.Artifacts, old, later)
	return chain, work, err
}

// asBefore takes over the choices of the earlier run's request that the new one leaves open.
func (r *Runs) asBefore(old store.Run, c *Creation) error {
	spec, err := setup.ReadRunSpec(old)
	if err != nil {
		return err
	}
	if old.Settings.Environment == nil {
		c.Environment = EnvironmentNone
	} else if spec.EnvironmentGiven {
		c.environment = &spec.Environment
	}
	if c.Model == "" && spec.ModelSources[contract.AgentBuilder] == requestedModel {
		m := old.Settings.Models[contract.AgentBuilder]
		c.Model, c.Effort = m.Provider+"/"+m.Model, cmp.Or(c.Effort, m.Effort)
	}
	return nil
}

// sameImage returns an error if commands would run in an image that is built from a Dockerfile of the
// repository, and the branch changes this file: agents may have written it, and no person has merged
// it.
func sameImage(ctx context.Context, workspaces *workspace.Manager, cfg *config.Config, from, start contract.Workspace) error {
	name := cfg.Environment.Dockerfile
	if name == "" || from.Base == start.Base {
		return nil
	}
	before, _, err := workspaces.File(ctx, from, path.Clean(name), math.MaxInt64)
	if err != nil {
		return err
	}
	now, _, err := workspaces.File(ctx, start, path.Clean(name), math.MaxInt64)
	if err != nil || bytes.Equal(before, now) {
		return err
	}
	return refused("the branch changes %s, from which the image for commands is built; merge the branch first, then start a new run (rgpt run create)", name)
}
