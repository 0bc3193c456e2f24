package run

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/workflows/internal/commands"
	"github.com/rocketgpt/orchestrator/workflows/internal/options"
	"github.com/rocketgpt/orchestrator/workflows/internal/records"
	"github.com/rocketgpt/orchestrator/workflows/run/state"
)

const (
	// MaxPendingChecks is the number of messages about the branch that can wait, and of those about
	// commits that the run does not know. Further ones are sent again later: a failed check stays
	// failed.
	MaxPendingChecks = 32
	// MaxCheckEvents is the number of events that a run writes for individual messages without
	// effect. Further messages are only counted.
	MaxCheckEvents = 100
	// unreportedPause is how long messages are counted before their number is written.
	unreportedPause = time.Minute
	// maxHistoryEvents and MaxHistoryBytes limit a history's growth by messages. Temporal
	// terminates a workflow at 51,200 events or 50 MiB; the difference is enough for one more
	// repair.
	maxHistoryEvents = 40_000
	// MaxHistoryBytes is the same bound in bytes.
	MaxHistoryBytes = 40 << 20
)

// watchesBranch reports whether the run currently watches its released branch. It does not when people
// have merged or closed its pull request.
func (r *run) watchesBranch() bool {
	return r.in.Settings.Release.Stay > 0 && r.Status == contract.StatusDone && r.Commit != "" && r.Watch.Closed == ""
}

// watchBranch waits for messages about the released branch until its time is up, and
// fixes what they report. The run is done meanwhile, and running again during a fix. It
// returns the failure that the run ends with, if any.
func (r *run) watchBranch(ctx workflow.Context) *contract.Failure {
	if r.stopClock != nil {
		r.stopClock() // the run's time limit ends with its release; repairs have their own limits
	}
	if !r.Watch.On {
		if err := r.startWatch(ctx); err != nil {
			return r.failureOf(err)
		}
	}
	for {
		if r.Watch.Closed != "" {
			return nil
		}
		if !slices.Contains(r.Watch.Released, r.Commit) {
			r.Watch.Released = append(r.Watch.Released, r.Commit)
		}
		r.Watch.Published = len(r.Changes)
		r.cleanUp(ctx)
		m, err := r.nextMessage(ctx)
		if m == nil || err != nil {
			return r.failureOf(err)
		}
		handle := r.fixCheck
		if m.Kind == contract.CheckBase {
			handle = r.updateBranch
		}
		if failure := handle(ctx, *m); failure != nil || r.continued != nil {
			return failure
		}
	}
}

// startWatch records that the run watches its branch from now on. It is written with
// the release's completion, before which the run is not over.
func (r *run) startWatch(ctx workflow.Context) error {
	release := r.in.Settings.Release
	until := workflow.Now(ctx).Add(release.Stay)
	r.Watch.Until, r.Watch.MaxRepairs = &until, release.MaxRepairs
	_, err := r.transition(ctx, records.EventRecord(contract.EventStayStarted, map[string]any{
		"branch": r.Branch, "commit": r.Commit, "deadline": until, "max_repairs": release.MaxRepairs,
	}))
	r.Watch.On = err == nil
	return err
}

// nextMessage waits for the next message that needs a fix, nil when the time is over.
func (r *run) nextMessage(ctx workflow.Context) (*contract.CheckMessage, error) {
	for {
		at := r.firstPending(ctx)
		if at < 0 {
			if over, err := r.awaitMessage(ctx); over || err != nil || r.continued != nil {
				return nil, err
			}
			continue
		}
		m := r.Watch.Pending[at]
		r.Watch.Pending = slices.Delete(slices.Clone(r.Watch.Pending), at, at+1)
		if done, err := r.lookAtBranch(ctx, m); err != nil {
			return nil, err
		} else if done {
			continue
		}
		if why := r.outdated(m); why != "" {
			r.dismiss(ctx, m, why)
			continue
		}
		return &m, nil
	}
}

// awaitMessage waits until a message can be handled, or the workflow must continue as new, which it then does.
// It reports whether the time is over.
func (r *run) awaitMessage(ctx workflow.Context) (over bool, err error) {
	left := r.Watch.Until.Sub(workflow.Now(ctx))
	if left <= 0 || historyFull(ctx) {
		return true, nil
	}
	if r.mustContinue(ctx) && ctx.Err() == nil {
		return false, r.continueAsNew(ctx, "")
	}
	for _, m := range r.Watch.Pending { // each has a time, as none can be handled now
		due := r.updateDue()
		if !isBase(m) {
			due = *r.Watch.LookAt
		}
		left = min(left, due.Sub(workflow.Now(ctx)))
	}
	_, err = workflow.AwaitWithTimeout(ctx, left, func() bool {
		return r.firstPending(ctx) >= 0 || historyFull(ctx) || r.mustContinue(ctx)
	})
	return false, err
}

// historyFull reports whether a run has had as many messages as its history can hold.
func historyFull(ctx workflow.Context) bool {
	info := workflow.GetInfo(ctx)
	return info.GetCurrentHistoryLength() > maxHistoryEvents || info.GetCurrentHistorySize() > MaxHistoryBytes
}

// outdated returns why a message does not apply to the released commit, "" if it does. A check
// reports its findings again for a new commit; a person does not repeat a comment.
func (r *run) outdated(m contract.CheckMessage) string {
	head := r.Head()
	if m.Commit == "" || m.About(head) {
		return ""
	}
	if m.Kind == contract.CheckComment {
		if slices.ContainsFunc(r.Watch.Released, m.About) {
			return ""
		}
	}
	if head != r.Commit {
		return fmt.Sprintf("the message is for commit %.12s, but people have pushed %.12s", m.Commit, head)
	}
	return fmt.Sprintf("the message is for commit %.12s, but the released commit is %.12s", m.Commit, r.Commit)
}

// fixCheck heals what a message reports as a failure of the tester, verifies the fix
// and releases it to the branch.
func (r *run) fixCheck(ctx workflow.Context, m contract.CheckMessage) *contract.Failure {
	r.Watch.CheckName = m.Name
	var taken contract.TakeCheckResult
	err := workflow.ExecuteLocalActivity(options.Local(ctx), contract.ActivityTakeCheck, contract.TakeCheckInput{
		RunID: r.in.RunID, Repo: r.in.Settings.Repo.URL, Branch: r.Branch, MaxRepairs: r.Watch.MaxRepairs, Message: m,
	}).Get(ctx, &taken)
	switch {
	case err != nil:
		return r.failureOf(err)
	case taken.AcceptedBefore:
		r.Watch.CheckName = ""
		r.ignore(ctx, m, contract.EventCheckIgnored, "the message was received before the run was replayed or resumed")
		return nil
	case taken.ID == 0:
		r.Watch.CheckName = ""
		r.ignore(ctx, m, contract.EventCheckIgnored, "no code change can fix it; run the check again: "+taken.Failure.Message)
		return nil
	}
	if m.Kind == contract.CheckComment && r.judgesLabelsAtOnce(ctx) || m.Answer != nil {
		r.AddAuthor(m.By) // agents carry it out
	}
	if m.Answer != nil {
		r.Watch.Answering = &state.Answering{Message: m.ID, To: *m.Answer, Before: r.Head()}
	}
	failure := &taken.Failure
	r.Heals.Count[contract.PhaseTester], r.Heals.Tried = 0, map[string][]contract.HealAction{}
	if taken.Repair == 0 {
		failure.Message += fmt.Sprintf("; the branch has used all of its %d repairs (git.max_repairs)", r.Watch.MaxRepairs)
		r.Heals.Count[contract.PhaseTester] = r.MaxRetries // a person is asked at once
	} else {
		r.Watch.Repairs++
	}
	r.Watch.Fixing, r.Watch.Moves = &state.Fixing{Check: taken.ID, Comment: m.Kind == contract.CheckComment, Failure: *failure}, 0
	r.Failed = state.FailedWork{}
	r.Phase, r.Status, r.Failure = contract.PhaseTester, contract.PhaseTester.Error(), failure
	if _, err := r.transition(ctx, records.EventRecord(contract.EventCheckReceived, map[string]any{
		"id": m.ID, "name": m.Name, "check_kind": m.Kind, "commit": r.Head(), "url": m.URL, "by": m.By, "repair": taken.Repair,
		"status": r.Status, "error_type": failure.Class, "error_message": failure.Message,
	})); err != nil {
		return r.failureOf(err)
	}
	back, failure := r.healCheck(ctx, *r.Watch.Fixing)
	if failure == nil {
		failure = r.runFrom(ctx, back)
	}
	if failure != nil || r.continued != nil {
		return failure
	}
	return r.checkFixed(ctx)
}

// checkFixed ends the work on a message about the branch: its fix is released, or people pushed first.
func (r *run) checkFixed(ctx workflow.Context) *contract.Failure {
	if r.pushesFirst {
		if end := r.awaitUnpaused(ctx); end != nil { // a person may have paused the run when its work was dropped
			return end
		}
	}
	name := r.Watch.CheckName
	r.Watch.CheckName, r.Watch.Fixing = "", nil
	if err := r.endDropped(ctx, name); err != nil {
		return r.failureOf(err)
	}
	if err := r.flush(ctx); err != nil || r.Watch.Answering == nil {
		return r.failureOf(err)
	}
	r.Watch.Answering.Done = true
	r.answerComment(ctx, *r.Watch.Answering, "", options.AnswerPatience)
	if ctx.Err() == nil {
		r.Watch.Answering = nil // else the end of the run answers
	}
	return nil
}

// answerComment answers a comment on a pull request; notDone says why it was not carried out. A failure is
// only logged: the work itself is released.
func (r *run) answerComment(ctx workflow.Context, a state.Answering, notDone string, patience time.Duration) {
	activity := workflow.WithScheduleToCloseTimeout(options.Remote(ctx, contract.QueueReleaser, options.AnswerTime), patience)
	err := workflow.ExecuteActivity(activity, contract.ActivityAnswer, contract.AnswerInput{
		RunID: r.in.RunID, Message: a.Message, To: a.To, Branch: r.Branch, Before: a.Before, Commit: r.Commit, NotDone: notDone,
	}).Get(ctx, nil)
	if err != nil {
		r.log.Warn("A comment on the pull request could not be answered", "repository", a.To.Repo, "number", a.To.Number, "comment", a.To.Comment, "error", err)
	}
}

// answerRest answers the comments that the run leaves behind when it ends.
func (r *run) answerRest(ctx workflow.Context, failure *contract.Failure) {
	why := "the run has ended"
	switch {
	case r.controls.stopping():
		why = r.controls.stop.Message
	case failure != nil:
		why = failure.Message
	case r.Watch.Closed != "":
		why = r.Watch.Closed
	}
	rest := workflow.NewWaitGroup(ctx)
	answer := func(a state.Answering, notDone string) {
		rest.Add(1)
		workflow.Go(ctx, func(ctx workflow.Context) {
			defer rest.Done()
			r.answerComment(ctx, a, notDone, options.CleanUpTimeout)
		})
	}
	if a := r.Watch.Answering; a != nil {
		notDone := cmp.Or(a.NotDone, why)
		if a.Done {
			notDone = ""
		}
		answer(*a, notDone)
	}
	for _, m := range r.Watch.Pending {
		if m.Answer != nil {
			answer(state.Answering{Message: m.ID, To: *m.Answer, Before: r.Commit}, why)
		}
	}
	rest.Wait(ctx)
}

// actionAfter returns the action to take after a person asked for another attempt, "" for the phase
// as it is. The run's own tests pass although a check of the branch failed: running them again
// would fix nothing.
func (r *run) actionAfter(a *approval, failure *contract.Failure) contract.HealAction {
	if a.action == "" && r.Watch.Check != 0 && failure.Class == contract.ClassAssertion {
		return contract.HealRepair
	}
	return a.action
}

// endWatch decides how a run ends that watched its branch. Its release stays in any case. A stop
// leaves the run done; a problem that could not be fixed makes it failed, because the branch does
// not meet the goal.
func (r *run) endWatch(ctx workflow.Context, failure *contract.Failure) (*contract.Failure, []contract.EventDraft) {
	reason := "the time limit for watching the branch was reached"
	if historyFull(ctx) {
		reason = "the run received more messages than its history can hold; replay the run or start another to keep watching the branch"
	}
	if r.Watch.Closed != "" {
		reason = r.Watch.Closed
	}
	var events []contract.EventDraft
	switch {
	case r.controls.stopping():
		reason, failure = r.controls.stop.Message, nil
		if r.Watch.CheckName != "" {
			reason += "; " + r.Watch.CheckName + " was not fixed"
		}
		r.Phase, r.Status = contract.PhaseReleaser, contract.StatusDone
	case failure != nil:
		mine := *failure
		mine.Message = fmt.Sprintf("%s was not fixed: %s; the branch %s stays at the released commit %.12s", r.Watch.CheckName, mine.Message, r.Branch, r.Commit)
		failure, reason, r.Status = &mine, "the failure was not fixed", contract.StatusFailed
	}
	r.PausedFrom, r.WaitingFor, r.Watch.Until = "", "", nil
	events = append(events, contract.EventDraft{Type: contract.EventStayEnded, Payload: map[string]any{
		"branch": r.Branch, "commit": r.Commit, "reason": reason, "repairs": r.Watch.Repairs, "ignored": r.Watch.Ignored + len(r.Watch.Pending),
	}})
	if failure != nil {
		events = append(events, contract.EventDraft{Type: contract.EventRunFailed, Payload: failure})
	}
	return failure, events
}

// handleChecks registers the update and the signal for messages about the branch. The IDs belong to
// messages received before the workflow continued as new.
func (r *run) handleChecks(ctx workflow.Context, ids []string) error {
	r.checks = commands.Commands[contract.CheckMessage, contract.Ack]{
		ID: func(m contract.CheckMessage) string { return m.ID },
		Accepts: func(_ string, m contract.CheckMessage) error {
			if why := r.unwanted(m); why != "" {
				return commands.Rejected("%s", why)
			}
			return nil
		},
		Repeated: func(_ string, m contract.CheckMessage) contract.Ack {
			r.Watch.Ignored++
			return contract.Ack{Status: r.Status, Message: m.Truncate().Name + " was already received"}
		},
		Refused: func(ctx workflow.Context, _ string, m contract.CheckMessage, why error) {
			r.ignore(ctx, m.Truncate(), contract.EventCheckIgnored, fault.Of(why).Message)
		},
	}
	return r.checks.Register(ctx, ids, commands.Command[contract.CheckMessage, contract.Ack]{
		Name: contract.UpdateCheck,
		Apply: func(ctx workflow.Context, m contract.CheckMessage) (contract.Ack, error) {
			return r.receive(ctx, m.Truncate()), nil
		},
	})
}

// unwanted returns why a message cannot be accepted now, "" if it can. It must not change anything.
func (r *run) unwanted(m contract.CheckMessage) string {
	if wrong := m.Problem(); wrong != "" {
		return "the message " + wrong
	}
	switch {
	case r.in.Settings.Release.Stay <= 0:
		return fmt.Sprintf("run %d does not watch its branch; to have a run watch its branch, create it with --stay (git.stay)", r.in.RunID)
	case r.controls.stopping(), r.Watch.On && r.Watch.Until == nil, r.Status.Terminal() && r.Status != contract.StatusDone:
		return fmt.Sprintf("run %d has ended (%s)", r.in.RunID, r.Status)
	case r.Commit == "" && r.Phase != contract.PhaseReleaser:
		return fmt.Sprintf("run %d has not released anything yet; its status is %s", r.in.RunID, r.Status)
	case m.Kind == contract.CheckBase && !r.updates:
		return fmt.Sprintf("run %d does not update its branch from the base (git.pull_request.update)", r.in.RunID)
	case (m.Failed() || m.Kind == contract.CheckPush || isBase(m)) && r.full(m):
		return fmt.Sprintf("%d messages are already waiting; send this one again later", MaxPendingChecks)
	}
	return ""
}

// receive accepts a message. If it arrives while the release is running or another message is being
// fixed, it waits.
func (r *run) receive(ctx workflow.Context, m contract.CheckMessage) contract.Ack {
	if m.Kind == contract.CheckBase {
		r.Watch.Pending = slices.DeleteFunc(r.Watch.Pending, isBase) // the newest one counts
	} else if !m.Failed() && m.Kind != contract.CheckPush {
		r.ignore(ctx, m, contract.EventCheckPassed, "")
		return contract.Ack{Applied: true, Status: r.Status, Message: m.Name + " passed; no fix is needed"}
	}
	if m.Kind == contract.CheckPush && r.pushesFirst {
		// The server sends it again while the run waits for a person, also one of the run itself whose pull request
		// is not up to date yet.
		if m.About(r.Head()) {
			return contract.Ack{Status: r.Status, Message: "the run knows the commit"}
		}
		r.Watch.Pending = slices.DeleteFunc(slices.Clone(r.Watch.Pending), func(p contract.CheckMessage) bool {
			return p.Kind == m.Kind && p.Commit == m.Commit
		})
	}
	if m.Commit == "" && m.Kind == contract.CheckRun {
		m.Commit = r.Head()
	}
	if r.unknownCommit(m) {
		r.Watch.Pending = append(r.Watch.Pending, m)
		return contract.Ack{Applied: true, Status: r.Status, Message: m.Name + " is about a commit that the run does not know; it looks at the branch"}
	}
	if why := r.outdated(m); why != "" && r.Status == contract.StatusDone && r.Watch.On && r.Watch.CheckName == "" {
		r.ignore(ctx, m, contract.EventCheckIgnored, why)
		return contract.Ack{Status: r.Status, Message: m.Name + " is ignored: " + why}
	}
	r.Watch.Pending = append(r.Watch.Pending, m)
	return contract.Ack{Applied: true, Status: r.Status, Message: m.Name + " is being handled"}
}

// ignore records a message without effect: the first ones individually, those of a flood only as a
// number.
func (r *run) ignore(ctx workflow.Context, m contract.CheckMessage, kind contract.EventType, why string) {
	r.Watch.Ignored++
	if r.Watch.EventsWritten < MaxCheckEvents {
		r.Watch.EventsWritten++
		r.recordCheckEvent(ctx, kind, map[string]any{"id": m.ID, "name": m.Name, "check_kind": m.Kind, "commit": m.Commit, "by": m.By, "reason": why})
		return
	}
	if r.Watch.Unreported++; r.Watch.Unreported > 1 {
		return // the previous call is waiting to write the number
	}
	workflow.Go(ctx, func(ctx workflow.Context) {
		if workflow.Sleep(ctx, unreportedPause) != nil {
			return // the end of the run writes the number
		}
		n := r.Watch.Unreported
		r.Watch.Unreported = 0
		r.recordCheckEvent(ctx, contract.EventCheckIgnored, map[string]any{"messages": n, "reason": "there are too many to list individually"})
	})
}

// recordCheckEvent writes an event about messages, as long as the run's workflow is running.
func (r *run) recordCheckEvent(ctx workflow.Context, kind contract.EventType, payload map[string]any) {
	if _, err := r.transition(ctx, records.EventRecord(kind, payload)); err != nil {
		r.log.Error("Could not record the outcome of a message about the branch", "event", kind, "error", err)
	}
}
