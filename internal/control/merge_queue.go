package control

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/forge"
	"github.com/rocketgpt/orchestrator/internal/forge/connect"
	"github.com/rocketgpt/orchestrator/internal/gate/guard/base"
	"github.com/rocketgpt/orchestrator/internal/mergequeue"
	"github.com/rocketgpt/orchestrator/internal/runs/report"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/changesets"
	"github.com/rocketgpt/orchestrator/internal/store/mergequeues"
	"github.com/rocketgpt/orchestrator/internal/store/pullrequests"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
	"github.com/rocketgpt/orchestrator/internal/temporal"
)

// QueueRequest is a command of a person or a program to a merge queue.
type QueueRequest struct {
	Action      contract.QueueAction
	PullRequest string // address, for add, remove and skip
	// Queue is the queue that is paused or resumed. It may lack the forge, if only one is configured, and
	// the base, which then is the default branch.
	Queue      contract.QueueRef
	By, Reason string
	Key        string // makes the request idempotent; empty: each one counts
}

// MergeQueues returns merge queues as last stored, those that changed last first.
func (r *Runs) MergeQueues(ctx context.Context, f mergequeues.Filter) ([]mergequeues.MergeQueue, error) {
	return mergequeues.List(ctx, r.Store, f)
}

// CommandQueue carries out a command to a merge queue.
func (r *Runs) CommandQueue(ctx context.Context, q QueueRequest) (contract.QueueAck, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	forges, err := connect.New(r.Config.Forges, os.Getenv)
	if err != nil {
		return contract.QueueAck{}, err
	}
	defer forges.Close()
	cmd := contract.QueueCommand{ID: cmp.Or(q.Key, uuid.NewString()), Action: q.Action, By: telemetry.Redact(q.By), Reason: telemetry.Redact(q.Reason)}
	var ref contract.QueueRef
	switch q.Action {
	case contract.QueuePause, contract.QueueResume:
		ref, err = r.queueOf(ctx, forges, q)
	case contract.QueueAdd:
		ref, err = r.added(ctx, forges, q.PullRequest, &cmd)
	case contract.QueueRemove, contract.QueueSkip:
		ref, err = r.queued(ctx, forges, q.PullRequest, &cmd)
	default:
		err = wrong("%q is not a command of a merge queue; expected add, remove, skip, pause or resume", q.Action)
	}
	if err != nil {
		return contract.QueueAck{}, err
	}
	return r.sendToQueue(ctx, ref, cmd)
}

// sendToQueue sends a command to the workflow of a merge queue.
func (r *Runs) sendToQueue(ctx context.Context, ref contract.QueueRef, cmd contract.QueueCommand) (contract.QueueAck, error) {
	ack, err := temporal.CommandQueue(ctx, r.Temporal, ref, cmd)
	if err == nil {
		return ack, nil
	}
	if f := fault.Of(err); f.Class == contract.ClassHuman {
		return ack, fault.Restore(*f)
	}
	return ack, fault.Wrap(err, contract.ClassInfra, contract.CodeUnavailable, "the command %s could not be sent to the merge queue of %s; try again", cmd.Action, ref)
}

// queueOf completes the name of a queue that is paused or resumed.
func (r *Runs) queueOf(ctx context.Context, forges *connect.Set, q QueueRequest) (contract.QueueRef, error) {
	ref := q.Queue
	if ref.Repo == "" {
		return ref, wrong("name the repository of the merge queue (--repository), such as team/app")
	}
	if names := forges.Names(); ref.Forge == "" && len(names) == 1 {
		ref.Forge = names[0]
	}
	if ref.Forge == "" {
		return ref, wrong("name the forge of the merge queue (--forge): several are configured, or none")
	}
	service, err := forges.Named(ref.Forge)
	if err != nil {
		return ref, err
	}
	access, err := service.Access(ctx, ref.Repo)
	if err != nil {
		return ref, err
	}
	ref.Base = cmp.Or(ref.Base, access.DefaultBranch)
	if _, err := service.Branch(ctx, ref.Repo, ref.Base); err != nil {
		return ref, err
	}
	return r.knownQueue(ctx, ref)
}

// knownQueue returns the name of a queue as it is stored: exactly as given if several are that differ only in
// case, so that each can be named. It fails if nothing was ever added to the queue, because a command would then
// have no effect on any.
func (r *Runs) knownQueue(ctx context.Context, ref contract.QueueRef) (contract.QueueRef, error) {
	queues, err := mergequeues.List(ctx, r.Store, mergequeues.Filter{QueueRef: ref})
	if err != nil {
		return ref, err
	}
	if slices.ContainsFunc(queues, func(q mergequeues.MergeQueue) bool { return q.QueueRef == ref }) {
		return ref, nil
	}
	known, found, err := mergequeues.Named(ctx, r.Store, ref)
	if err == nil && !found {
		err = refused("the merge queue of %s does not exist: no pull request was added to it yet", ref)
	}
	return known, err
}

// added completes the command that adds a pull request.
func (r *Runs) added(ctx context.Context, forges *connect.Set, address string, cmd *contract.QueueCommand) (contract.QueueRef, error) {
	service, name, repo, number, err := forges.PullRequest(address)
	if err != nil {
		return contract.QueueRef{}, err
	}
	pr, err := service.PullRequest(ctx, repo, number)
	if err != nil {
		return contract.QueueRef{}, err
	}
	if pr.State != forge.Open {
		return contract.QueueRef{}, refused("pull request %d of %s is %s, so it cannot be merged", number, repo, pr.State)
	}
	policy := setup.MergePolicy(r.Config)
	cmd.Number, cmd.Head, cmd.Title, cmd.URL, cmd.Policy = number, pr.HeadCommit, telemetry.Redact(pr.Title), telemetry.Redact(pr.URL), &policy
	if cmd.RunID, err = pullrequests.RunOf(ctx, r.Store, name, repo, number); err != nil {
		return contract.QueueRef{}, err
	}
	return r.queueFor(ctx, forges, name, repo, pr)
}

// queueFor returns the queue of a pull request. All spellings of its repository lead to the same one.
func (r *Runs) queueFor(ctx context.Context, forges *connect.Set, name, repo string, pr forge.PullRequest) (contract.QueueRef, error) {
	ref, _, err := mergequeues.Named(ctx, r.Store, contract.QueueRef{Forge: name, Repo: forges.Spelling(name, repo, pr.URL), Base: pr.Base})
	return ref, err
}

// queued completes a command about a pull request in a queue.
func (r *Runs) queued(ctx context.Context, forges *connect.Set, address string, cmd *contract.QueueCommand) (contract.QueueRef, error) {
	_, name, repo, number, err := forges.PullRequest(address)
	if err != nil {
		return contract.QueueRef{}, err
	}
	e, ref, found, err := mergequeues.Last(ctx, r.Store, name, repo, number)
	if err != nil {
		return contract.QueueRef{}, err
	}
	if !found || e.State.Ended() {
		return contract.QueueRef{}, refused("pull request %d of %s is not in a merge queue", number, repo)
	}
	cmd.Number = number
	return ref, nil
}

// QueueReady adds the pull request of a run to its merge queue if the settings say so and it is ready: its
// head is what the run released last, the policy gate allows to merge that, and labels, approvals and checks
// are as they must be. The queue merges only this head. The same head is added once, so that one which was
// returned or removed stays out until the run releases another one. With the last ready one of a change set,
// its other open ones are added, too: nothing may look at them again. named returns a forge by its name.
func (r *Runs) QueueReady(ctx context.Context, named func(string) (forge.Service, error), name, repo string, pr forge.PullRequest, run int64) error {
	if r.Config.Git.PullRequest.Merge.When != config.MergeApproved {
		return nil
	}
	service, err := named(name)
	if err != nil {
		return err
	}
	forges, err := connect.New(r.Config.Forges, os.Getenv) // only for their addresses
	if err != nil {
		return err
	}
	defer forges.Close()
	policy := setup.MergePolicy(r.Config)
	own := sibling{name, repo, pr, run}
	if _, _, known, err := r.autoAdd(ctx, forges, own, policy); err != nil || known {
		return err
	}
	ready, err := r.readyToMerge(ctx, service, repo, pr, run, policy)
	if err != nil || !ready {
		return err
	}
	open, ready, err := r.siblingsReady(ctx, named, run, policy)
	if err != nil || !ready {
		return err
	}
	for _, one := range append(open, own) { // the own one last: while it is not stored, a repeat adds the rest
		ref, cmd, known, err := r.autoAdd(ctx, forges, one, policy)
		if err == nil && !known {
			_, err = r.sendToQueue(ctx, ref, cmd)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// autoAdd returns the command that adds a pull request by itself, and whether its queue knows it already.
func (r *Runs) autoAdd(ctx context.Context, forges *connect.Set, p sibling, policy contract.MergePolicy) (contract.QueueRef, contract.QueueCommand, bool, error) {
	cmd := contract.QueueCommand{
		ID: fmt.Sprintf("auto/%d/%.40s", p.pr.Number, p.pr.HeadCommit), Action: contract.QueueAdd, Number: p.pr.Number, Head: p.pr.HeadCommit, By: contract.BySystem, RunID: p.run,
		Reason: "it is approved", Title: telemetry.Redact(p.pr.Title), URL: telemetry.Redact(p.pr.URL), Policy: &policy,
	}
	ref, err := r.queueFor(ctx, forges, p.name, p.repo, p.pr)
	if err != nil {
		return ref, cmd, false, err
	}
	known, err := mergequeues.Has(ctx, r.Store, ref, cmd.ID)
	return ref, cmd, known, err
}

// readyToMerge reports whether the pull request of a run is ready to be merged, without regard to others.
func (r *Runs) readyToMerge(ctx context.Context, service forge.Service, repo string, pr forge.PullRequest, run int64, policy contract.MergePolicy) (bool, error) {
	if pr.Mergeable != nil && !*pr.Mergeable {
		return false, nil
	}
	details, err := r.Views.RunDetails(ctx, run)
	if err != nil {
		return false, err
	}
	if details.Status != contract.StatusDone || pr.HeadCommit == "" || pr.HeadCommit != details.ReleaseCommit {
		return false, nil // the run makes a fix, or people have pushed what nothing has judged
	}
	v, judged := report.ReleaseVerdict(details)
	if !judged || !mayMerge(v, policy) {
		return false, nil
	}
	if policy.Approvals == 0 {
		if all, err := r.judgedAll(ctx, v, details.Run); err != nil || !all {
			return false, err
		}
	}
	now := time.Now()
	ready, err := mergequeue.Repository{Service: service, Path: repo}.Ready(ctx, pr, policy, now.Add(policy.CheckTime), now)
	return ready.Verdict == contract.QueueIncluded, err
}

// sibling is the open pull request of another run of a change set.
type sibling struct {
	name, repo string
	pr         forge.PullRequest
	run        int64 // that changed it last
}

// siblingsReady reports whether the other changes of a run's change set are merged or ready to be merged,
// too, and returns those that are open; true if it belongs to none. A set of which something is missing is
// never ready. A run that continues the branch of another one belongs to its set here, because it changes the
// same pull request.
func (r *Runs) siblingsReady(ctx context.Context, named func(string) (forge.Service, error), id int64, policy contract.MergePolicy) ([]sibling, bool, error) {
	first, of, err := changesets.Of(ctx, r.Store, id)
	if err != nil || of == nil {
		return nil, err == nil, err
	}
	set, err := r.ChangeSet(ctx, of.Set)
	if err != nil {
		return nil, false, err
	}
	var open []sibling
	for _, m := range set.Runs {
		p := m.PullRequest
		switch {
		case m.RunID == first, p == nil && m.Status == contract.StatusDone && m.Branch == "":
			continue
		case p == nil:
			return nil, false, nil
		}
		service, err := named(p.Forge)
		if err != nil {
			return nil, false, err
		}
		pr, err := service.PullRequest(ctx, p.Repo, p.Number)
		if err != nil {
			return nil, false, err
		}
		if pr.State == forge.Merged {
			continue
		}
		last, err := pullrequests.RunOf(ctx, r.Store, p.Forge, p.Repo, p.Number)
		if err != nil {
			return nil, false, err
		}
		if ready, err := r.readyToMerge(ctx, service, p.Repo, pr, last, policy); err != nil || !ready || pr.State != forge.Open {
			return nil, false, err
		}
		open = append(open, sibling{p.Forge, p.Repo, pr, last})
	}
	return open, true, nil
}

// mayMerge reports whether the gate allows to merge what it judged. A person must have approved the release
// or must approve the pull request, unless the gate says that none is needed.
func mayMerge(v contract.GateRecord, policy contract.MergePolicy) bool {
	if v.Decision != contract.GateAllow && v.ApprovedBy == "" {
		return false
	}
	return v.Automerge || v.ApprovedBy != "" || policy.Approvals > 0
}

// judgedAll reports whether the gate judged everything on the branch of a run. It judges what the run adds:
// neither what people pushed before that, nor what was on the branch of an earlier run that it continues, nor
// what the branch from which it began has and the one into which it is merged does not. A release that only
// brings the base into the branch is not judged, and has everything that was there.
func (r *Runs) judgedAll(ctx context.Context, v contract.GateRecord, run store.Run) (bool, error) {
	begin := run.Settings.Repo.Tree
	carries := slices.ContainsFunc(v.Findings, func(f contract.GateFinding) bool { return f.Guard == base.Name })
	if begin == "" || v.From != begin || run.Settings.FollowUp != nil || carries {
		return false, nil
	}
	pushed, err := pullrequests.PushedTo(ctx, r.Store, run.ID)
	return !pushed, err
}
