package run

import (
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/workflows/internal/options"
	"github.com/rocketgpt/orchestrator/workflows/internal/records"
	"github.com/rocketgpt/orchestrator/workflows/run/state"
)

// askVersions asks for the versions of the workflow that decide how messages are received. It is done
// before anything else: their handlers cannot ask, because they run at any time.
func (r *run) askVersions(ctx workflow.Context) {
	p := r.in.Settings.Release.PullRequest
	r.updates = r.in.Settings.Release.Stay > 0 && p != nil && p.Update != nil && workflow.GetVersion(ctx, "update-branch", workflow.DefaultVersion, 1) >= 1
	r.takesPushes = r.in.Settings.Release.Stay > 0 && workflow.GetVersion(ctx, "take-pushes", workflow.DefaultVersion, 1) >= 1
	if r.takesPushes {
		looks := workflow.GetVersion(ctx, "look-again", workflow.DefaultVersion, 2)
		r.looksAgain, r.pushesFirst = looks >= 1, looks >= 2
	}
}

// from returns where the run's own changes begin.
func (r *run) from() contract.Workspace { return r.From(r.in.Settings.Repo.Workspace()) }

// pushedBefore returns what people pushed to the branch last, slim; empty: nothing.
func (r *run) pushedBefore() contract.Workspace {
	if r.Onto == nil {
		return contract.Workspace{}
	}
	return r.Onto.Workspace
}

// unknownCommit reports whether a message is about a commit that the run does not know: people may have
// pushed it.
func (r *run) unknownCommit(m contract.CheckMessage) bool {
	return r.takesPushes && m.Commit != "" && !m.About(r.Head()) && !slices.ContainsFunc(r.Watch.Released, m.About)
}

// lookAtBranch finds out whether people have pushed to the branch if a message says so, or is about a
// commit that the run does not know, and continues from there. It reports whether the message is done.
func (r *run) lookAtBranch(ctx workflow.Context, m contract.CheckMessage) (done bool, err error) {
	if m.Kind != contract.CheckPush && !r.unknownCommit(m) {
		return false, nil
	}
	if m.Kind == contract.CheckPush && m.About(r.Head()) {
		return true, nil // it was found when the run released, or because of another message
	}
	found, err := r.takeBranch(ctx)
	if ctx.Err() != nil {
		if r.looksAgain {
			r.Watch.Pending = append(r.Watch.Pending, m) // the end of the run answers it
		}
		return true, err
	}
	if err != nil {
		r.notTaken(ctx, m, notContinued(err))
		return true, nil
	}
	if m.Kind == contract.CheckPush && !found.moved {
		r.notMoved(ctx, m)
	}
	return m.Kind == contract.CheckPush, nil
}

// notMoved ends a message that people pushed to the branch, although they did not.
func (r *run) notMoved(ctx workflow.Context, m contract.CheckMessage) {
	r.ignore(ctx, m, contract.EventCheckIgnored, fmt.Sprintf("the branch is at commit %.12s, as the run left it", r.Head()))
}

// notContinued says why the run did not continue from what people pushed.
func notContinued(err error) string {
	return "the run could not continue from what was pushed: " + fault.Of(err).Message
}

const (
	// maxLooks is how often a run looks at its branch, in vain, before it gives up a message about a commit that
	// it does not know.
	maxLooks = 8
	// lookPause is the pause after the first of these looks. It doubles up to maxLookPause.
	lookPause    = time.Minute
	maxLookPause = 30 * time.Minute
)

// notTaken keeps a message about a commit that the run does not know, because it could not look at the branch,
// until another look succeeds. After too many, all such messages have no effect, and comments are answered.
func (r *run) notTaken(ctx workflow.Context, m contract.CheckMessage, why string) {
	if m.Kind == contract.CheckPush || !r.looksAgain {
		r.ignore(ctx, m, contract.EventCheckIgnored, why) // the server sends a push again while the run does not know its commit
		return
	}
	if r.Watch.Looks++; r.Watch.Looks < maxLooks {
		at := workflow.Now(ctx).Add(min(lookPause<<(r.Watch.Looks-1), maxLookPause))
		r.Watch.LookAt = &at
		r.Watch.Pending = append(r.Watch.Pending, m)
		r.log.Warn("A message is about a commit that the run does not know, and the branch cannot be looked at; trying again", "message", m.ID, "commit", m.Commit, "at", at, "reason", why)
		return
	}
	r.Watch.Looks, r.Watch.LookAt = 0, nil
	r.Watch.Pending = append(r.Watch.Pending, m)
	r.dismissWaiting(ctx, why)
}

// dismissWaiting ends all messages that wait for a look at the branch. Their comments are answered at the same
// time, because each answer may take long; those that are not when the run ends are answered then.
func (r *run) dismissWaiting(ctx workflow.Context, why string) {
	var ended []string
	answers := workflow.NewWaitGroup(ctx)
	for _, m := range slices.Clone(r.Watch.Pending) {
		if !r.waitsForLook(m) {
			continue
		}
		ended = append(ended, m.ID)
		r.ignore(ctx, m, contract.EventCheckIgnored, why)
		if m.Answer == nil {
			continue
		}
		answers.Add(1)
		workflow.Go(ctx, func(ctx workflow.Context) {
			defer answers.Done()
			r.answerComment(ctx, state.Answering{Message: m.ID, To: *m.Answer, Before: r.Head()}, why, options.AnswerPatience)
		})
	}
	answers.Wait(ctx)
	if ctx.Err() == nil {
		r.Watch.Pending = slices.DeleteFunc(r.Watch.Pending, func(m contract.CheckMessage) bool { return slices.Contains(ended, m.ID) })
	}
}

// waitsForLook reports whether a message waits for a look at the branch.
func (r *run) waitsForLook(m contract.CheckMessage) bool {
	return m.Kind != contract.CheckPush && !isBase(m) && r.unknownCommit(m)
}

// dismiss ends a message without effect. A comment is answered with the reason.
func (r *run) dismiss(ctx workflow.Context, m contract.CheckMessage, why string) {
	r.ignore(ctx, m, contract.EventCheckIgnored, why)
	if r.looksAgain && m.Answer != nil {
		r.Watch.Answering = &state.Answering{Message: m.ID, To: *m.Answer, Before: r.Head(), NotDone: why}
		r.answerComment(ctx, *r.Watch.Answering, why, options.AnswerPatience)
		if ctx.Err() == nil {
			r.Watch.Answering = nil // else the end of the run answers
		}
	}
}

// full reports whether as many messages as can wait do so already. Those that wait for a look at the branch, and
// the others, leave each other room.
func (r *run) full(m contract.CheckMessage) bool {
	waits := func(m contract.CheckMessage) bool { return r.looksAgain && r.waitsForLook(m) }
	n := 0
	for _, p := range r.Watch.Pending {
		if waits(p) == waits(m) {
			n++
		}
	}
	return n >= MaxPendingChecks
}

// firstPending returns the index of the first message that can be handled now, -1 if there is none: those about
// commits that the run does not know wait for the next look at the branch, and those about the base for some
// time after the last update.
func (r *run) firstPending(ctx workflow.Context) int {
	now := workflow.Now(ctx)
	looks := r.Watch.LookAt == nil || !now.Before(*r.Watch.LookAt)
	early := now.Before(r.updateDue())
	return slices.IndexFunc(r.Watch.Pending, func(m contract.CheckMessage) bool {
		if isBase(m) {
			return !early
		}
		return looks || !r.waitsForLook(m)
	})
}

// moves is what a look at the branch found.
type moves struct {
	moved bool // people pushed, and the run continues from there
	kept  bool // the changes of the run that are not on the branch yet could be kept

	dropped bool // the work on the branch ends, because what was pushed may make it needless
}

// takeBranch finds out whether people have pushed to the branch. If so, the run continues from there:
// their commits stay as they are, and they are authors of the change.
func (r *run) takeBranch(ctx workflow.Context) (moves, error) {
	if err := r.flush(ctx); err != nil {
		return moves{}, err
	}
	var found contract.TakeBranchResult
	activity := options.Remote(ctx, contract.QueueReleaser, options.LongWork)
	activity = workflow.WithScheduleToCloseTimeout(activity, options.LongWork)
	before, changes := r.Head(), r.Unreleased()
	if r.Updating() {
		changes = nil // they are changes of the base and the branch together
	}
	err := workflow.ExecuteActivity(activity, contract.ActivityTakeBranch, contract.TakeBranchInput{
		RunID: r.in.RunID, Repo: r.in.Settings.Repo, Release: r.in.Settings.Release, Branch: r.Branch, Commit: before, Changes: changes,
	}).Get(ctx, &found)
	if err != nil {
		return moves{kept: true}, err
	}
	r.Watch.Looks, r.Watch.LookAt = 0, nil
	if found.Point.Commit == before {
		return moves{kept: true}, nil
	}
	for _, name := range found.People {
		r.AddAuthor(name)
	}
	kept := found.Conflict == nil
	r.Continue(found.Point, found.Stages)
	payload := map[string]any{
		"branch": r.Branch, "commit": found.Point.Commit, "before": before, "commits": found.Commits, "people": found.People,
		"rewritten": found.Rewritten, "changes": len(changes), "kept": kept,
	}
	if c := found.Conflict; c != nil {
		payload["paths"] = c.Paths[:min(len(c.Paths), maxConflictPaths)]
	}
	_, err = r.transition(ctx, records.EventRecord(contract.EventStayPushed, payload))
	return moves{moved: true, kept: kept}, err
}

// maxConflictPaths is the number of conflicting files that an event names.
const maxConflictPaths = 20
