package activities

import (
	"context"
	"sync"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/tool"
)

// turnToolsTime limits the tool calls that are carried out together with their model call. Those that
// take longer are repeated on their own, with their own time limit.
const turnToolsTime = 10 * time.Second

// callShortTools carries out the tool calls of a turn, in order, up to the first that may take long or
// whose repository is not on this host. Each result is stored under its call's key before the next one
// begins, so a repeated activity finds those of an earlier attempt. A call that fails for a reason of
// the host's is left to the workflow with those after it, and so are all calls once ctx ends or the run
// is paused: the workflow waits until it goes on.
func (a *Activities) callShortTools(ctx context.Context, in contract.ThinkInput, turn contract.ThinkResult) []contract.DoneCall {
	ctx, cancel := context.WithTimeout(ctx, turnToolsTime)
	defer cancel()
	apart := turn.Finish && turn.Blocked == "" && in.Tools.FinishApart
	at := in.Tools.Workspace
	var done []contract.DoneCall
	for calls := shortCalls(turn.Calls, apart); len(calls) > 0; {
		if status, err := a.Store.RunStatus(ctx, in.Execution.RunID); err != nil || status == contract.StatusPaused {
			break
		}
		group := calls[:contract.SideBySide(calls)]
		outcomes, ok := a.callTogether(ctx, in, at, group)
		done = append(done, outcomes...)
		if !ok {
			break
		}
		at, calls = outcomes[len(outcomes)-1].Outcome.Workspace, calls[len(group):]
	}
	return done
}

// shortCalls returns the calls before the first that may take long, without those that finish if they
// are carried out apart.
func shortCalls(calls []contract.ToolCallRef, finishApart bool) []contract.ToolCallRef {
	var short []contract.ToolCallRef
	for _, c := range calls {
		if c.Long {
			break
		}
		if !finishApart || c.Tool != tool.Finish {
			short = append(short, c)
		}
	}
	return short
}

// callTogether carries out calls that do not depend on each other. It returns the outcomes of those
// before the first that could not be carried out, and whether that was all of them.
func (a *Activities) callTogether(ctx context.Context, in contract.ThinkInput, at contract.Workspace, calls []contract.ToolCallRef) (done []contract.DoneCall, all bool) {
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
