package activities

import (
	"context"
	"slices"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/notice"
	"github.com/rocketgpt/orchestrator/internal/tool"
)

// shortCallsTime limits short tool calls that are carried out side by side with their model call. Those that
// take longer are repeated on their own, with their own time limit.
const shortCallsTime = 10 * time.Second

// callTools carries out the tool calls of a turn in order, as far as that needs no decision of the workflow: up
// to the first whose repository is not on this host, and, unless the activity has the time for them, up to the
// first that may take long. Each result is stored under its call's key before the next one begins, so a repeated
// activity finds those of an earlier attempt. A call that fails for a reason of the host's is left to the workflow
// with those after it. So are all others once ctx ends, the worker stops or the run is paused, and long calls after
// one that the workflow may end the step for.
func (a *Activities) callTools(ctx context.Context, in contract.ThinkInput, turn contract.ThinkResult) []contract.DoneCall {
	apart := turn.Finish && turn.Blocked == "" && in.Tools.FinishApart
	at := in.Tools.Workspace
	var done []contract.DoneCall
	for calls := ownCalls(turn.Calls, apart, in.Tools.Long); len(calls) > 0; {
		group := calls[:contract.SideBySide(calls)]
		long := slices.ContainsFunc(group, func(c contract.ToolCallRef) bool { return c.Long })
		if ends(ctx) || a.paused(ctx, in.Execution.RunID) || long && needDecision(done) {
			break
		}
		outcomes, all := a.callTogether(ctx, in, at, group, long)
		done = append(done, outcomes...)
		if !all {
			break
		}
		at, calls = outcomes[len(outcomes)-1].Outcome.Workspace, calls[len(group):]
	}
	return done
}

// ends reports whether an activity should begin nothing: it was cancelled, or its worker stops.
func ends(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return true
	case <-activity.GetWorkerStopChannel(ctx):
		return true
	default:
		return false
	}
}

// paused reports whether a run is paused, or whether that cannot be found out.
func (a *Activities) paused(ctx context.Context, run int64) bool {
	status, err := a.Store.RunStatus(ctx, run)
	return err != nil || status == contract.StatusPaused
}

// needDecision reports whether the workflow may end a step because of calls that were carried out: it counts
// forbidden actions, and calls that repeat themselves.
func needDecision(done []contract.DoneCall) bool {
	seen := map[string]bool{}
	for _, d := range done {
		if forbidden(d.Outcome) || seen[d.Outcome.Fingerprint] {
			return true
		}
		seen[d.Outcome.Fingerprint] = true
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

// callTogether carries out calls that do not depend on each other; long: one of them may take long. It returns the
// outcomes of those before the first that could not be carried out, and whether that was all of them.
func (a *Activities) callTogether(ctx context.Context, in contract.ThinkInput, at contract.Workspace, calls []contract.ToolCallRef, long bool) (done []contract.DoneCall, all bool) {
	if long {
		notice.Does(ctx, contract.ActivityTool)
		defer notice.Does(ctx, contract.ActivityThink)
	} else {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, shortCallsTime)
		defer cancel()
	}
	outcomes, errs := make([]contract.ToolOutcome, len(calls)), make([]error, len(calls))
	var running sync.WaitGroup
	for i, c := range calls {
		running.Go(func() {
			outcomes[i], errs[i] = a.CallTool(ctx, contract.ToolInput{
				LocalOnly: true, Execution: in.Execution, Turn: in.Turn, Index: c.Index, Workspace: at, From: in.Tools.From, Timeout: in.Tools.Timeout,
			})
		})
	}
	running.Wait()
	for i, c := range calls {
		if errs[i] != nil || outcomes[i].Cold {
			if errs[i] != nil && ctx.Err() == nil {
				a.Log.WarnContext(ctx, "Could not carry out a tool call with its model call", "execution", in.Execution.ID, "turn", in.Turn, "tool", c.Tool, "error", errs[i])
			}
			return done, false
		}
		done = append(done, contract.DoneCall{Index: c.Index, Outcome: outcomes[i]})
	}
	return done, true
}
