package activities

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/notice"
	"github.com/rocketgpt/orchestrator/internal/temporal"
	"github.com/rocketgpt/orchestrator/internal/tool"
)

// shortCallsTime limits a group of short tool calls that is carried out with its model call. Those that take longer
// are repeated on their own, with their own time limit.
const shortCallsTime = 10 * time.Second

// turnCalls are the tool calls in the response of a turn.
type turnCalls struct {
	all []model.ToolCall // none: they must be read
	// fresh says that no result can be stored yet, because the response was stored a moment ago.
	fresh  bool
	status contract.Status // of the run at that moment; empty: it must be read
}

// callsAtHand returns the calls of a response that was not read from the database. They must be read if the
// database cannot store them as they are.
func callsAtHand(calls []model.ToolCall, now storedResponse) turnCalls {
	if slices.ContainsFunc(calls, func(c model.ToolCall) bool {
		return strings.ToValidUTF8(c.Arguments, "") != c.Arguments || strings.Contains(c.Arguments, "\x00")
	}) {
		calls = nil
	}
	return turnCalls{calls, now.fresh, now.status}
}

// callTools carries out the tool calls of a turn in order, as far as that needs no decision of the workflow: up
// to the first whose repository is not on this host, and up to the first that may take long unless there is time for
// it; see mayTakeLong. Each result is stored under its call's key before the next one begins, so a repeated activity
// finds those of an earlier attempt. A call that fails for a reason of the host's is left to the workflow with those
// after it. So are all others once ctx ends, the worker stops or the run is paused, and long calls after one that the
// workflow may end the step for; seen are the fingerprints of the calls of earlier turns. Calls that finish come last.
func (a *Activities) callTools(ctx context.Context, in contract.ThinkInput, turn contract.ThinkResult, calls turnCalls, seen map[string]bool) []contract.DoneCall {
	apart := turn.Finish && turn.Blocked == "" && in.Tools.FinishApart
	at := in.Tools.Workspace
	var done []contract.DoneCall
	for left := ownCalls(turn.Calls, apart, in.Tools.Long > 0); len(left) > 0; {
		group := together(left)
		long := group[0].Long
		if !mayBegin(ctx) || a.paused(ctx, in.Execution.RunID, calls.status) || long && (needsDecision(done, seen) || !a.mayTakeLong(ctx, in, group)) {
			break
		}
		outcomes, all := a.callTogether(ctx, in, at, group, calls)
		done = append(done, outcomes...)
		if !all {
			break
		}
		at, left = outcomes[len(outcomes)-1].Outcome.Workspace, left[len(group):]
		calls.fresh, calls.status = false, "" // another attempt of the activity, or a pause, may have begun meanwhile
	}
	if apart && in.Tools.FinishHere {
		done = append(done, a.finishHere(ctx, in, turn, at, calls, done)...)
	}
	return done
}

// finishHere carries out the calls of a turn that finish the work, after all others, if all these have succeeded and
// the agent has left nothing unread or unanswered. Otherwise they are left to the workflow, which may refuse them.
func (a *Activities) finishHere(ctx context.Context, in contract.ThinkInput, turn contract.ThinkResult, at contract.Workspace, calls turnCalls, others []contract.DoneCall) []contract.DoneCall {
	if turn.Unread || len(turn.Unanswered) > 0 || !mayBegin(ctx) || len(others) == 0 && a.paused(ctx, in.Execution.RunID, calls.status) {
		return nil
	}
	var last []contract.ToolCallRef
	for _, c := range turn.Calls {
		i := slices.IndexFunc(others, func(d contract.DoneCall) bool { return d.Index == c.Index })
		switch {
		case c.Tool == tool.Finish:
			last = append(last, c)
		case i < 0 || others[i].Failure != nil || !others[i].Outcome.OK:
			return nil
		}
	}
	var done []contract.DoneCall
	for _, c := range last {
		outcome, all := a.callTogether(ctx, in, at, []contract.ToolCallRef{c}, calls)
		if done = append(done, outcome...); !all {
			break
		}
	}
	return done
}

// together returns the first calls that are carried out side by side: all are short, or all may take long.
func together(calls []contract.ToolCallRef) []contract.ToolCallRef {
	group := calls[:contract.SideBySide(calls)]
	if i := slices.IndexFunc(group, func(c contract.ToolCallRef) bool { return c.Long != group[0].Long }); i > 0 {
		group = group[:i]
	}
	return group
}

// mayBegin reports whether an activity may begin more work: it was not cancelled, and its worker does not stop.
func mayBegin(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-activity.GetWorkerStopChannel(ctx):
		return false
	default:
		return true
	}
}

// mayTakeLong reports whether calls that may take long can be carried out in this activity, because their results are
// stored already, or because enough of the activity's time is left. A repeated activity begins none: if a command
// takes its worker down, its own activity fails, and not one that has done other work before.
func (a *Activities) mayTakeLong(ctx context.Context, in contract.ThinkInput, calls []contract.ToolCallRef) bool {
	info := activity.GetInfo(ctx)
	if info.Attempt == 1 {
		return time.Until(info.Deadline) >= in.Tools.Long
	}
	for _, c := range calls {
		if _, _, err := a.Store.ToolResult(ctx, in.Execution.ID, in.Turn, c.Index); err != nil {
			return false
		}
	}
	return true
}

// paused reports whether a run is paused, or whether that cannot be found out. Its status is read unless it is known.
func (a *Activities) paused(ctx context.Context, run int64, known contract.Status) bool {
	if known != "" {
		return known == contract.StatusPaused
	}
	status, err := a.Store.RunStatus(ctx, run)
	return err != nil || status == contract.StatusPaused
}

// needsDecision reports whether the workflow may end a step because of calls that were carried out: it counts
// forbidden actions, and calls that repeat each other or those seen in earlier turns.
func needsDecision(done []contract.DoneCall, seen map[string]bool) bool {
	now := map[string]bool{}
	for _, d := range done {
		call := d.Outcome.Fingerprint
		if forbidden(d.Outcome) || seen[call] || now[call] {
			return true
		}
		now[call] = true
	}
	return false
}

// forbidden reports whether a tool call was one that the agent is not allowed.
func forbidden(out contract.ToolOutcome) bool {
	return out.Code == contract.CodePathEscape || out.Code == contract.CodeForbidden
}

// ownCalls returns the calls that are carried out with their model call: without those that finish if they are
// carried out apart, and without the first that may take long and all after it, unless long ones are wanted.
func ownCalls(calls []contract.ToolCallRef, finishApart, long bool) []contract.ToolCallRef {
	var own []contract.ToolCallRef
	for _, c := range calls {
		if c.Long && !long {
			break
		}
		if !finishApart || c.Tool != tool.Finish {
			own = append(own, c)
		}
	}
	return own
}

// callTogether carries out calls that do not depend on each other. It returns the outcomes of those before the first
// that could not be carried out, and whether that was all of them. If that one may take long and must not be repeated,
// its failure is returned, too.
func (a *Activities) callTogether(ctx context.Context, in contract.ThinkInput, at contract.Workspace, group []contract.ToolCallRef, calls turnCalls) (done []contract.DoneCall, all bool) {
	if group[0].Long {
		notice.Does(ctx, contract.ActivityTool)
		defer notice.Does(ctx, contract.ActivityThink)
	} else {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, shortCallsTime)
		defer cancel()
	}
	outcomes, errs := make([]contract.ToolOutcome, len(group)), make([]error, len(group))
	var running sync.WaitGroup
	for i, c := range group {
		running.Go(func() {
			outcomes[i], errs[i] = a.callOf(ctx, contract.ToolInput{
				LocalOnly: true, Execution: in.Execution, Turn: in.Turn, Index: c.Index, Workspace: at, From: in.Tools.From, Timeout: in.Tools.Timeout,
			}, calls)
		})
	}
	running.Wait()
	for i, c := range group {
		switch {
		case errs[i] != nil && ctx.Err() == nil:
			if failure := a.failedCall(ctx, in, c, errs[i]); failure != nil {
				done = append(done, contract.DoneCall{Index: c.Index, Failure: failure})
			}
			return done, false
		case errs[i] != nil || outcomes[i].Cold:
			return done, false
		}
		done = append(done, contract.DoneCall{Index: c.Index, Outcome: outcomes[i]})
	}
	return done, true
}

// failedCall reports that a call could not be carried out. It returns the failure if the call may take long and must
// not be repeated; others are left to the workflow, which repeats them once more than an activity of their own.
func (a *Activities) failedCall(ctx context.Context, in contract.ThinkInput, call contract.ToolCallRef, err error) *contract.Failure {
	typed := temporal.Reported(err, temporal.Identity())
	a.Log.WarnContext(ctx, "Could not carry out a tool call with its model call", "run", in.Execution.RunID, "execution", in.Execution.ID,
		"turn", in.Turn, "tool", call.Tool, "class", typed.Class, "code", typed.Code, "error", err)
	if _, again := typed.RetryDelay(1); again || !call.Long {
		return nil
	}
	return fault.Of(typed)
}
