package workflows

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
)

const (
	// mostPending is how many messages about the branch wait their turn. More
	// than these come again: a check that is red stays red.
	mostPending = 32
	// mostTold is how many events a run writes about single messages that change
	// nothing. Those after them are told by their number.
	mostTold = 100
	// untoldPause gathers what is told by its number.
	untoldPause = time.Minute
	// fullEvents and fullBytes are how long a history may grow by messages.
	// Temporal terminates a workflow at 51,200 events or 50 MiB; what is left
	// is enough for one repair more.
	fullEvents = 40_000
	fullBytes  = 40 << 20
)

// stays reports whether the run, as it is now, stays with what it released.
func (r *run) stays() bool {
	return r.in.Settings.Release.Stay > 0 && r.status == contract.StatusDone && r.commit != ""
}

// stayWithBranch waits for messages about the released branch until its time is
// over, and mends what they say. The run is done meanwhile; it is at work again
// while it mends. It returns the failure that the run ends with, if any.
func (r *run) stayWithBranch(ctx workflow.Context) *contract.Failure {
	if r.stopClock != nil {
		r.stopClock() // the run's time ends with its release; repairs have bounds of their own
	}
	release := r.in.Settings.Release
	until := workflow.Now(ctx).Add(release.Stay)
	r.stay.until, r.stay.most = &until, release.MaxRepairs
	// Written as the release's completion, before which the run is not over yet.
	if _, err := r.transition(ctx, happened(contract.EventStayStarted, map[string]any{
		"branch": r.branch, "commit": r.commit, "deadline": until, "max_repairs": release.MaxRepairs,
	})); err != nil {
		return r.why(err)
	}
	r.stay.on = true
	for {
		r.stay.ours = append(r.stay.ours, r.commit)
		r.cleanUp(ctx)
		m, err := r.nextMessage(ctx)
		if m == nil || err != nil {
			return r.why(err)
		}
		if failure := r.mend(ctx, *m); failure != nil {
			return failure
		}
	}
}

// nextMessage waits for the next message that is to be mended, nil when the time
// is over.
func (r *run) nextMessage(ctx workflow.Context) (*contract.CheckMessage, error) {
	for {
		left := r.stay.until.Sub(workflow.Now(ctx))
		if len(r.stay.pending) == 0 {
			if left <= 0 || full(ctx) {
				return nil, nil
			}
			if _, err := workflow.AwaitWithTimeout(ctx, left, func() bool { return len(r.stay.pending) > 0 || full(ctx) }); err != nil {
				return nil, err
			}
			continue
		}
		m := r.stay.pending[0]
		r.stay.pending = r.stay.pending[1:]
		if why := r.outdated(m); why != "" {
			r.ignore(ctx, m, contract.EventCheckIgnored, why)
			continue
		}
		return &m, nil
	}
}

// full reports whether a run has had more messages than its history can hold.
func full(ctx workflow.Context) bool {
	info := workflow.GetInfo(ctx)
	return info.GetCurrentHistoryLength() > fullEvents || info.GetCurrentHistorySize() > fullBytes
}

// outdated says why a message is about something else than what is released, if
// it is. A check says anew what it finds in a new commit; a person does not
// repeat a comment.
func (r *run) outdated(m contract.CheckMessage) string {
	if m.Commit == "" || m.About(r.commit) {
		return ""
	}
	if m.Kind == contract.CheckComment {
		for _, c := range r.stay.ours {
			if m.About(c) {
				return ""
			}
		}
	}
	return fmt.Sprintf("it is about commit %.12s, and %.12s is released", m.Commit, r.commit)
}

// mend heals what a message says as a failure of the tester, verifies it and
// releases it to the branch.
func (r *run) mend(ctx workflow.Context, m contract.CheckMessage) *contract.Failure {
	r.stay.name = m.Name
	var taken contract.TakenCheck
	err := workflow.ExecuteLocalActivity(short(ctx), contract.ActivityTakeCheck, contract.TakeCheckInput{
		RunID: r.in.RunID, Repo: r.in.Settings.Repo.URL, Branch: r.branch, Most: r.stay.most, Message: m,
	}).Get(ctx, &taken)
	switch {
	case err != nil:
		return r.why(err)
	case taken.Again:
		r.stay.name = ""
		r.ignore(ctx, m, contract.EventCheckIgnored, "it was taken before the run was done again")
		return nil
	case taken.ID == 0:
		r.stay.name = ""
		r.ignore(ctx, m, contract.EventCheckIgnored, "no change of the code mends it; let the check run again: "+taken.Failure.Message)
		return nil
	}
	failure := &taken.Failure
	r.heals.count[contract.PhaseTester], r.heals.tried = 0, map[string][]contract.HealAction{}
	if taken.Repair == 0 {
		failure.Message += fmt.Sprintf("; the branch has had the %d repairs that it may get (git.max_repairs)", r.stay.most)
		r.heals.count[contract.PhaseTester] = r.maxRetries // a person is asked at once
	} else {
		r.stay.repairs++
	}
	r.stay.check = taken.ID
	r.failed = failed{}
	r.phase, r.status, r.failure = contract.PhaseTester, contract.PhaseTester.Error(), failure
	if _, err := r.transition(ctx, happened(contract.EventCheckReceived, map[string]any{
		"id": m.ID, "name": m.Name, "check_kind": m.Kind, "commit": r.commit, "url": m.URL, "by": m.By, "repair": taken.Repair,
		"status": r.status, "error_type": failure.Class, "error_message": failure.Message,
	})); err != nil {
		return r.why(err)
	}
	back, failure := r.heal(ctx, contract.PhaseTester, failure)
	r.stay.check = 0
	if failure == nil {
		failure = r.passFrom(ctx, back)
	}
	if failure != nil {
		return failure
	}
	r.stay.name = ""
	return r.why(r.flush(ctx))
}

// actionAfter returns what is to be done once a person said that it be tried
// again, "" for the phase as it is. The tests here are green where a check of the
// branch is red: they again would mend nothing.
func (r *run) actionAfter(a *approval, failure *contract.Failure) contract.HealAction {
	if a.action == "" && r.stay.check != 0 && failure.Class == contract.ClassAssertion {
		return contract.HealRepair
	}
	return a.action
}

// endStay says how a run ends that stayed with its branch. What it released
// stands in any case. A stop leaves the run done; what could not be mended makes
// it failed, because the branch as it is is not what was asked for.
func (r *run) endStay(ctx workflow.Context, failure *contract.Failure) (*contract.Failure, []contract.EventDraft) {
	reason := "its time is over"
	if full(ctx) {
		reason = "it was sent more messages than its history can hold; replay it, or start another run, to stay on"
	}
	var events []contract.EventDraft
	switch {
	case r.held.stop != nil:
		reason, failure = r.held.stop.Message, nil
		if r.stay.name != "" {
			reason += "; " + r.stay.name + " was not mended"
		}
		r.phase, r.status = contract.PhaseReleaser, contract.StatusDone
	case failure != nil:
		mine := *failure
		mine.Message = fmt.Sprintf("%s was not mended: %s; the branch %s stands at %.12s as it was released", r.stay.name, mine.Message, r.branch, r.commit)
		failure, reason, r.status = &mine, "what failed was not mended", contract.StatusFailed
	}
	r.pausedFrom, r.waitingFor, r.stay.until = "", "", nil
	events = append(events, contract.EventDraft{Type: contract.EventStayEnded, Payload: map[string]any{
		"branch": r.branch, "commit": r.commit, "reason": reason, "repairs": r.stay.repairs, "ignored": r.stay.ignored + len(r.stay.pending),
	}})
	if failure != nil {
		events = append(events, contract.EventDraft{Type: contract.EventRunFailed, Payload: failure})
	}
	return failure, events
}

// handleChecks registers the update and the signal by which messages come.
func (r *run) handleChecks(ctx workflow.Context) error {
	r.stay.seen = map[string]struct{}{}
	update := func(ctx workflow.Context, m contract.CheckMessage) (contract.Ack, error) {
		return r.receive(ctx, m.Cut()), nil
	}
	validator := func(_ workflow.Context, m contract.CheckMessage) error {
		if why := r.unwanted(m); why != "" {
			return rejected("%s", why)
		}
		return nil
	}
	if err := workflow.SetUpdateHandlerWithOptions(ctx, contract.UpdateCheck, update, workflow.UpdateHandlerOptions{Validator: validator}); err != nil {
		return err
	}
	signals := workflow.GetSignalChannel(ctx, contract.UpdateCheck)
	workflow.Go(ctx, func(ctx workflow.Context) {
		for {
			var m contract.CheckMessage
			if !signals.Receive(ctx, &m) {
				return
			}
			m = m.Cut()
			if why := r.unwanted(m); why != "" {
				r.ignore(ctx, m, contract.EventCheckIgnored, why)
				continue
			}
			r.receive(ctx, m)
		}
	})
	return nil
}

// unwanted says why a message cannot be taken now, "" if it can. It must not
// change anything.
func (r *run) unwanted(m contract.CheckMessage) string {
	if _, came := r.stay.seen[m.ID]; came && m.ID != "" {
		return "" // acknowledged again
	}
	if wrong := m.Wrong(); wrong != "" {
		return "the message " + wrong
	}
	switch {
	case r.in.Settings.Release.Stay <= 0:
		return fmt.Sprintf("run %d does not stay with its branch; create runs with --stay for that", r.in.RunID)
	case r.held.stop != nil, r.stay.on && r.stay.until == nil, r.status.Terminal() && r.status != contract.StatusDone:
		return fmt.Sprintf("run %d has ended (%s)", r.in.RunID, r.status)
	case r.commit == "" && r.phase != contract.PhaseReleaser:
		return fmt.Sprintf("run %d has released nothing yet; it is %s", r.in.RunID, r.status)
	case m.Failed() && len(r.stay.pending) >= mostPending:
		return fmt.Sprintf("%d messages wait already; send it again later", mostPending)
	}
	return ""
}

// receive takes a message once. It may come while the release is at work, or
// while another is mended: then it waits its turn.
func (r *run) receive(ctx workflow.Context, m contract.CheckMessage) contract.Ack {
	if _, came := r.stay.seen[m.ID]; came {
		r.stay.ignored++
		return contract.Ack{Status: r.status, Message: m.Name + " had come before"}
	}
	r.stay.seen[m.ID] = struct{}{}
	if !m.Failed() {
		r.ignore(ctx, m, contract.EventCheckPassed, "")
		return contract.Ack{Applied: true, Status: r.status, Message: m.Name + " passed; there is nothing to mend"}
	}
	if m.Commit == "" && m.Kind == contract.CheckRun {
		m.Commit = r.commit
	}
	if why := r.outdated(m); why != "" && r.status == contract.StatusDone && r.stay.on && r.stay.name == "" {
		r.ignore(ctx, m, contract.EventCheckIgnored, why)
		return contract.Ack{Status: r.status, Message: m.Name + " is ignored: " + why}
	}
	r.stay.pending = append(r.stay.pending, m)
	return contract.Ack{Applied: true, Status: r.status, Message: m.Name + " is being looked at"}
}

// ignore says that a message changed nothing: the first ones one by one, those
// of a flood by their number.
func (r *run) ignore(ctx workflow.Context, m contract.CheckMessage, kind contract.EventType, why string) {
	r.stay.ignored++
	if r.stay.told < mostTold {
		r.stay.told++
		r.tell(ctx, kind, map[string]any{"id": m.ID, "name": m.Name, "check_kind": m.Kind, "commit": m.Commit, "by": m.By, "reason": why})
		return
	}
	if r.stay.untold++; r.stay.untold > 1 {
		return // the one before waits to tell the number
	}
	workflow.Go(ctx, func(ctx workflow.Context) {
		if workflow.Sleep(ctx, untoldPause) != nil {
			return // the run ends, and says how many there were
		}
		n := r.stay.untold
		r.stay.untold = 0
		r.tell(ctx, contract.EventCheckIgnored, map[string]any{"messages": n, "reason": "there are too many to name each"})
	})
}

// tell writes an event about messages, as long as the run's workflow is at work.
func (r *run) tell(ctx workflow.Context, kind contract.EventType, payload map[string]any) {
	if _, err := r.transition(ctx, happened(kind, payload)); err != nil {
		r.log.Error("Could not record what became of a message about the branch", "event", kind, "error", err)
	}
}
