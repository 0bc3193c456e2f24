// Package mergequeue is the workflow that merges the pull requests of a branch: it tests several of them
// together, on top of the branch as it is, and merges only what passed.
package mergequeue

import (
	"encoding/json"
	"errors"
	"time"

	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/workflows/internal/options"
	"github.com/rocketgpt/orchestrator/workflows/mergequeue/state"
)

const (
	// firstCommand is how long a new queue waits for the command with which it was started.
	firstCommand = time.Minute
	// checksWait is how long one activity waits for checks.
	checksWait = 10 * time.Minute
	// After an outage, the queue tries again, first after minOutage, then each time after twice as long, up to
	// maxOutage. It pauses if the outage takes longer than outageTime.
	minOutage  = time.Minute
	maxOutage  = 10 * time.Minute
	outageTime = 24 * time.Hour
)

// Workflow is the merge queue of a branch. It ends when it is empty and not paused.
func Workflow(ctx workflow.Context, in contract.MergeQueueInput) error {
	m := &machine{queue: state.New(in.Queue, workflow.Now(ctx)), log: log.With(workflow.GetLogger(ctx), "queue", in.Queue.String()), saving: workflow.NewMutex(ctx)}
	if len(in.State) > 0 {
		var err error
		if m.queue, err = state.Restore(in.State); err != nil {
			return err
		}
	}
	m.notBefore = map[int64]time.Time{}
	if err := workflow.SetUpdateHandlerWithOptions(ctx, contract.UpdateQueue, m.command, workflow.UpdateHandlerOptions{Validator: m.check}); err != nil {
		return err
	}
	if len(in.State) == 0 {
		if _, err := workflow.AwaitWithTimeout(ctx, firstCommand, func() bool { return m.handled > 0 }); err != nil {
			return err
		}
	}
	return m.run(ctx)
}

// machine carries out what the state of a queue decides.
type machine struct {
	queue     *state.Queue
	log       log.Logger
	saving    workflow.Mutex
	handled   int                 // commands since the execution began
	notBefore map[int64]time.Time // when pull requests whose own checks run can be tested
	outage    outage
}

// outage is a time in which what the queue needs is not available.
type outage struct {
	since, until time.Time // until: of the next attempt; zero without an outage
	wait         time.Duration
}

// next notes another failed attempt, and reports whether there will be one more.
func (o *outage) next(now time.Time) bool {
	if o.since.IsZero() {
		o.since = now
	}
	if now.Sub(o.since) >= outageTime {
		*o = outage{}
		return false
	}
	o.wait = min(max(2*o.wait, minOutage), maxOutage)
	o.until = now.Add(o.wait)
	return true
}

func (m *machine) check(_ workflow.Context, c contract.QueueCommand) error {
	if err := m.queue.Check(c); err != nil {
		return fault.ToTemporal(err, 1)
	}
	return nil
}

// command applies a command. It answers once the change is stored.
func (m *machine) command(ctx workflow.Context, c contract.QueueCommand) (contract.QueueAck, error) {
	m.handled++
	if err := m.check(ctx, c); err != nil { // an earlier command of the same task may have changed the state
		return contract.QueueAck{}, err
	}
	ack := m.queue.Apply(c, workflow.Now(ctx))
	return ack, m.save(ctx)
}

// save stores what has changed.
func (m *machine) save(ctx workflow.Context) error {
	if err := m.saving.Lock(ctx); err != nil {
		return err
	}
	defer m.saving.Unlock()
	for {
		changes, changed, more := m.queue.Unsaved()
		if !changed {
			return nil
		}
		if err := workflow.ExecuteActivity(options.Persistent(ctx), contract.ActivityQueueSave, changes).Get(ctx, nil); err != nil {
			return err
		}
		if !more {
			return nil
		}
	}
}

// run tests and merges until the queue is empty.
func (m *machine) run(ctx workflow.Context) error {
	for {
		if err := m.save(ctx); err != nil {
			return err
		}
		if workflow.GetInfo(ctx).GetContinueAsNewSuggested() || m.handled >= contract.MaxUpdates {
			return m.continueAsNew(ctx)
		}
		if m.queue.Empty() {
			ended, err := m.end(ctx)
			if ended || err != nil {
				return err
			}
			continue
		}
		group, most, wait := m.next(ctx)
		if len(group) == 0 {
			if err := m.await(ctx, wait); err != nil {
				return err
			}
			continue
		}
		switch err := m.round(ctx, group, most); {
		case err == nil:
			m.outage = outage{}
		case temporal.IsCanceledError(err) || ctx.Err() != nil:
			return err
		case fault.Of(err).Class == contract.ClassInfra && m.outage.next(workflow.Now(ctx)):
			m.log.Warn("The merge queue waits, because something that it needs is not available", "error", err, "until", m.outage.until)
			m.queue.Outage(group)
		default:
			m.outage = outage{}
			m.log.Warn("The merge queue pauses, because something outside of it failed", "error", err)
			m.queue.Pause(contract.BySystem, fault.Of(err).Message, workflow.Now(ctx))
		}
	}
}

// end waits for the answers to all commands, and reports whether the queue is still empty.
func (m *machine) end(ctx workflow.Context) (bool, error) {
	if err := workflow.Await(ctx, func() bool { return workflow.AllHandlersFinished(ctx) }); err != nil {
		return false, err
	}
	return m.queue.Empty(), nil
}

func (m *machine) continueAsNew(ctx workflow.Context) error {
	if err := workflow.Await(ctx, func() bool { return workflow.AllHandlersFinished(ctx) }); err != nil {
		return err
	}
	if err := m.save(ctx); err != nil {
		return err
	}
	data, err := json.Marshal(m.queue)
	if err != nil {
		return err
	}
	return workflow.NewContinueAsNewError(ctx, contract.WorkflowMergeQueue, contract.MergeQueueInput{Queue: m.queue.Ref, State: data})
}

// next returns the pull requests to be tested next, and how many of them at most. If it is none, it returns how long to wait, 0 for
// until the next command.
func (m *machine) next(ctx workflow.Context) (group []int64, most int, wait time.Duration) {
	if m.queue.Paused != nil {
		return nil, 0, 0
	}
	now := workflow.Now(ctx)
	if left := m.outage.until.Sub(now); left > 0 {
		return nil, 0, left
	}
	later := map[int64]bool{}
	for _, e := range m.queue.Entries {
		if at := m.notBefore[e.Number]; at.After(now) {
			later[e.Number] = true
			if left := at.Sub(now); wait == 0 || left < wait {
				wait = left
			}
		}
	}
	group, most = m.queue.Next(later)
	return group, most, wait
}

// await waits for a command, for at most a time unless it is 0.
func (m *machine) await(ctx workflow.Context, most time.Duration) error {
	before := m.handled
	if most == 0 {
		return workflow.Await(ctx, func() bool { return m.handled != before })
	}
	_, err := workflow.AwaitWithTimeout(ctx, most, func() bool { return m.handled != before })
	return err
}

// round builds a candidate, waits for its checks and does what follows from them.
func (m *machine) round(ctx workflow.Context, group []int64, most int) error {
	in := contract.QueueCandidateInput{Queue: m.queue.Ref, Policy: m.queue.Policy, Most: most, At: workflow.Now(ctx)}
	for _, number := range group {
		e, _ := m.queue.Entry(number)
		in.Wanted = append(in.Wanted, contract.QueueWanted{Number: number, Head: e.Head, Since: since(e, in.At)})
	}
	var built contract.QueueCandidate
	if err := workflow.ExecuteActivity(options.Remote(ctx, contract.QueueReleaser, options.LongWork), contract.ActivityQueueCandidate, in).Get(ctx, &built); err != nil {
		return err
	}
	for _, p := range built.Parts {
		delete(m.notBefore, p.Number)
		if p.Verdict == contract.QueueNotYet {
			m.notBefore[p.Number] = workflow.Now(ctx).Add(in.Policy.CheckPoll)
		}
	}
	tested, returned := m.queue.Built(built, in.At)
	m.sendBack(ctx, in.Policy, returned)
	if len(tested) == 0 || m.queue.Paused != nil {
		m.queue.Wait(tested, "")
		m.cleanUp(ctx, built.Branch)
		return nil
	}
	err := m.save(ctx)
	if err == nil {
		err = m.decide(ctx, in.Policy, built, tested)
	}
	m.queue.Wait(m.left(tested), "")
	m.cleanUp(ctx, built.Branch)
	return err
}

// since returns since when the own checks of a pull request are waited for.
func since(e contract.QueueEntry, now time.Time) time.Time {
	if e.Since != nil {
		return *e.Since
	}
	return now
}

// left returns the parts that are tested or merged at the moment.
func (m *machine) left(parts []contract.QueuePart) (out []contract.QueuePart) {
	for _, p := range parts {
		if e, ok := m.queue.Entry(p.Number); ok && e.State != contract.QueueWaiting {
			out = append(out, p)
		}
	}
	return out
}

// decide waits for the checks of a candidate. It merges the parts of one that passes, and searches in
// one that does not.
func (m *machine) decide(ctx workflow.Context, policy contract.MergePolicy, built contract.QueueCandidate, tested []contract.QueuePart) error {
	note := ""
	result := contract.QueueChecks{Result: contract.QueueGreen}
	if len(built.Required) == 0 {
		note = "no check is required"
	} else {
		var err error
		if result, err = m.checks(ctx, policy, built, tested); err != nil || !m.queue.Complete(tested) {
			return err
		}
	}
	if result.Result != contract.QueueGreen {
		m.sendBack(ctx, policy, m.queue.Failed(tested, result.Reason))
		return nil
	}
	return m.merge(ctx, policy, built.Base, tested, note)
}

// checks returns the result of the checks of a candidate, unless a command makes it useless.
func (m *machine) checks(ctx workflow.Context, policy contract.MergePolicy, built contract.QueueCandidate, tested []contract.QueuePart) (contract.QueueChecks, error) {
	if known, ok := m.queue.Result(built.Tree); ok {
		return known, nil
	}
	m.queue.Ran()
	deadline := workflow.Now(ctx).Add(policy.CheckTime)
	in := contract.QueueChecksInput{Queue: m.queue.Ref, Commit: built.Commit, Required: built.Required, Poll: policy.CheckPoll}
	for {
		in.Wait = min(deadline.Sub(workflow.Now(ctx)), checksWait)
		within, cancel := workflow.WithCancel(options.Remote(ctx, contract.QueueReleaser, checksWait+options.SaveTime))
		running := workflow.ExecuteActivity(within, contract.ActivityQueueChecks, in)
		err := workflow.Await(ctx, func() bool { return running.IsReady() || !m.queue.Complete(tested) })
		useless := !running.IsReady()
		cancel()
		var out contract.QueueChecks
		if got := running.Get(ctx, &out); err == nil {
			err = got
		}
		var canceled *temporal.CanceledError
		if useless && (err == nil || errors.As(err, &canceled)) && ctx.Err() == nil {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		if out.Result != contract.QueuePending || !workflow.Now(ctx).Before(deadline) {
			m.queue.Learn(built.Tree, out)
			return out, nil
		}
	}
}

// merge merges the parts of a candidate that passed its checks, in order, as long as the base is what
// they were tested on.
func (m *machine) merge(ctx workflow.Context, policy contract.MergePolicy, base string, tested []contract.QueuePart, note string) error {
	for i, p := range tested {
		if !m.queue.Complete(tested[i:]) {
			return nil
		}
		m.queue.Merging(p.Number)
		if err := m.save(ctx); err != nil {
			return err
		}
		var done contract.QueueMergeResult
		e, _ := m.queue.Entry(p.Number)
		err := workflow.ExecuteActivity(options.Remote(ctx, contract.QueueReleaser, options.LongWork), contract.ActivityQueueMerge,
			contract.QueueMergeInput{Queue: m.queue.Ref, Policy: policy, Part: p, Base: base, OfRun: e.RunID != 0}).Get(ctx, &done)
		switch {
		case err != nil:
			return err
		case done.Merged:
			notes := done.Notes
			if note != "" {
				notes = append([]string{note}, notes...)
			}
			m.queue.Merged(p.Number, done.Commit, joined(notes))
		case done.Refused != "":
			m.sendBack(ctx, policy, []contract.QueueEntry{m.queue.Return(p.Number, done.Refused)})
		}
		if !done.Merged || done.Moved {
			m.queue.Release()
			return nil
		}
		base = done.Base
	}
	return nil
}

func joined(notes []string) (out string) {
	for i, n := range notes {
		if i > 0 {
			out += "; "
		}
		out += n
	}
	return out
}

// sendBack informs the authors of pull requests why they left the queue. If that fails, the rows say it.
func (m *machine) sendBack(ctx workflow.Context, policy contract.MergePolicy, returned []contract.QueueEntry) {
	for _, e := range returned {
		in := contract.QueueReturnInput{Queue: m.queue.Ref, Policy: policy, Entry: e}
		if err := workflow.ExecuteActivity(options.Answer(ctx), contract.ActivityQueueReturn, in).Get(ctx, nil); err != nil {
			m.log.Warn("Could not comment on a pull request that left the merge queue", "number", e.Number, "error", err)
		}
	}
}

// cleanUp removes the branch of a candidate.
func (m *machine) cleanUp(ctx workflow.Context, branch string) {
	if branch == "" {
		return
	}
	own, done := workflow.NewDisconnectedContext(ctx)
	defer done()
	in := contract.QueueCleanUpInput{Queue: m.queue.Ref, Branch: branch}
	if err := workflow.ExecuteActivity(options.Answer(own), contract.ActivityQueueCleanUp, in).Get(own, nil); err != nil {
		m.log.Warn("Could not remove the branch of a candidate", "branch", branch, "error", err)
	}
}
