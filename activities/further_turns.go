package activities

import (
	"context"
	"slices"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
	"github.com/rocketgpt/orchestrator/internal/temporal"
)

// commandMargin is how long before an activity was scheduled a command of a person may have been given for
// the activity to make only one turn: it may have reached the agent's workflow after that, and the clocks of
// Temporal and of the database may differ.
const commandMargin = 10 * time.Second

// turns makes the turns of an activity: the one that its input names, and further ones as long as the workflow
// would only schedule the next; see turnChain. Their responses and results are stored under their keys, like
// those of a turn that is an activity of its own, so a repeated activity finds them.
//
// An error is that of the first turn. If a further one is to be retried, it is not among the results, which say
// how long the workflow should wait.
func (a *Activities) turns(ctx context.Context, in contract.ThinkInput) (contract.ThinkResult, error) {
	most, err := a.turnsOf(ctx, in)
	if err != nil {
		return contract.ThinkResult{}, err
	}
	chain := newTurnChain(in, most, time.Now().Add(a.Config.Worker.TurnsTime), scheduled(ctx))
	first, err := a.oneTurn(ctx, in, &chain.known)
	if err != nil {
		return contract.ThinkResult{}, err
	}
	chain.add(first)
	for chain.continues(time.Now()) && a.mayFollow(ctx, in.Execution, &chain.known) {
		result, again := a.furtherTurn(ctx, chain.next, &chain.known)
		if result == nil {
			first.Wait = again
			break
		}
		all := first
		all.Further = append(slices.Clip(first.Further), *result)
		if !fits(all) {
			break // the turn is stored, so it costs nothing to make it an activity
		}
		telemetry.FurtherTurns.WithLabelValues().Inc()
		first = all
		chain.add(*result)
	}
	return first, nil
}

// fits reports whether the results of several turns are small enough for a history.
func fits(r contract.ThinkResult) bool {
	return temporal.CheckSize("the results of several turns", r) == nil
}

// scheduled returns when an activity was scheduled.
func scheduled(ctx context.Context) time.Time {
	if !activity.IsActivity(ctx) {
		return time.Now()
	}
	return activity.GetInfo(ctx).ScheduledTime
}

// turnsOf returns how many turns may follow the first one of an activity. A repeated activity makes at most
// one new model call, so the attempts of a call are counted as if its turn were an activity of its own.
func (a *Activities) turnsOf(ctx context.Context, in contract.ThinkInput) (int, error) {
	if in.Further == nil || !activity.IsActivity(ctx) {
		return 0, nil
	}
	if activity.GetInfo(ctx).Attempt == 1 {
		return in.Further.Turns, nil
	}
	stored, err := a.Store.AnsweredTurns(ctx, in.Execution.ID)
	return min(in.Further.Turns, stored+1-in.Turn), err
}

// mayFollow reports whether an agent's next turn may follow in the same activity: the worker is not stopping,
// and nobody steers the run. It notes whether people have written to the agent, and the conversation if nothing is to
// be added to it before the turn.
func (a *Activities) mayFollow(ctx context.Context, e contract.ExecutionRef, known *turnMemory) bool {
	if !mayBegin(ctx) {
		return false
	}
	info, now := activity.GetInfo(ctx), time.Now()
	pending, rows, err := a.Store.PendingInputSince(ctx, e, info.ScheduledTime.Add(-commandMargin))
	if err != nil && ctx.Err() == nil {
		a.Log.WarnContext(ctx, "Could not find out whether an agent's next turn may follow at once", "run", e.RunID, "error", err)
	}
	known.noMessages = err == nil && !pending.Messages
	if known.noMessages && info.Attempt == 1 { // the attempt before may still run, and add messages
		known.conversation = &readConversation{rows, now}
	}
	return err == nil && !pending.Steered
}

// furtherTurn makes a turn after the first one of an activity. It returns nil if the turn must be made again, after
// the wait: by an activity of its own, because what was done before counts, even if that is stopped. A final failure
// is part of the result.
func (a *Activities) furtherTurn(ctx context.Context, in contract.ThinkInput, known *turnMemory) (_ *contract.ThinkResult, wait time.Duration) {
	result, err := a.oneTurn(ctx, in, known)
	if err == nil {
		return &result, 0
	}
	if ctx.Err() != nil {
		return nil, 0 // the worker stops, or the agent was cancelled
	}
	typed := temporal.Reported(err, temporal.Identity())
	a.Log.WarnContext(ctx, "A turn of an agent failed", "run", in.Execution.RunID, "execution", in.Execution.ID, "turn", in.Turn,
		"class", typed.Class, "code", typed.Code, "error", err)
	if wait, again := typed.RetryDelay(1); again {
		return nil, wait
	}
	return &contract.ThinkResult{Failure: fault.Of(typed)}, 0
}

// turnChain decides which turns follow each other in one activity: those after which the agent's workflow would
// only schedule the next one, because it has nothing to decide, to wait for or to carry out.
type turnChain struct {
	next  contract.ThinkInput // of the turn that may follow
	until time.Time           // no turn follows after that
	turns int                 // that may be made, with the one that is
	calls int                 // of all turns so far
	known turnMemory
	ended bool // by what a turn did
}

// turnMemory is what the turns of one activity know of those before them.
type turnMemory struct {
	seen       map[string]bool // fingerprints of the calls so far
	before     *previousTurn   // nil: it must be read
	noMessages bool            // people have written nothing to the agent that it has not got

	conversation *readConversation // before the next turn; nil: it must be read
}

// conversationAge is how old a conversation may be when the request for the next turn is made; a turn that has waited
// longer, for its model or for another attempt of the activity, reads the conversation again. Only another attempt can
// have added messages. Temporal starts one if it gets no heartbeats of this one, which may still reach the database:
// then the two make the same turn, as they may anyway while a model answers, and the answer that is stored first counts.
const conversationAge = time.Second

// readConversation is a conversation that was read a moment ago. It serves one request.
type readConversation struct {
	rows []store.TranscriptEntry
	at   time.Time
}

// take returns the conversation unless it was used, or may have changed since.
func (c *readConversation) take() (rows []store.TranscriptEntry, ok bool) {
	if c == nil || c.rows == nil || time.Since(c.at) > conversationAge {
		return nil, false
	}
	rows, c.rows = c.rows, nil
	return rows, true
}

// previousTurn is a turn whose response was stored a moment ago, as the one after it sees it.
type previousTurn struct {
	turn  int
	basis store.CallBasis
}

// newTurnChain returns the chain of an activity's turns, of which at most so many follow the first one.
// It was scheduled at the given time.
func newTurnChain(in contract.ThinkInput, most int, until, at time.Time) *turnChain {
	c := &turnChain{next: in, until: until, turns: most + 1, known: turnMemory{seen: map[string]bool{}}}
	c.next.Further = nil
	if in.Further != nil && in.Further.Time > 0 {
		if ends := at.Add(in.Further.Time); ends.Before(until) {
			c.until = ends
		}
	}
	return c
}

// continues reports whether the next turn may follow now.
func (c *turnChain) continues(now time.Time) bool {
	return !c.ended && c.turns > 0 && c.calls < contract.TurnCallLimit && now.Before(c.until)
}

// add adds the result of the turn that was next.
func (c *turnChain) add(r contract.ThinkResult) {
	c.calls += len(r.Calls)
	c.ended = c.ended || r.Failure != nil || r.Bad != "" || r.Finish || len(r.Calls) == 0 || len(r.Done) < len(r.Calls)
	for _, d := range r.Done {
		out := d.Outcome
		// The workflow counts forbidden actions, and calls that repeat themselves.
		c.ended = c.ended || d.Failure != nil || forbidden(out) || c.known.seen[out.Fingerprint]
		c.known.seen[out.Fingerprint] = true
	}
	if left := c.next.Left; left != nil {
		rest := *left
		c.ended = c.ended || use(&rest.Tokens, r.Usage.Tokens()) || use(&rest.MicroUSD, r.Usage.MicroUSD)
		c.next.Left = &rest
	}
	c.turns--
	if c.ended {
		return
	}
	c.next.Turn++
	c.next.Planned = false
	tools := *c.next.Tools
	tools.Workspace = r.Done[len(r.Done)-1].Outcome.Workspace
	c.next.Tools = &tools
}

// use reduces what is left of a limit; 0 means that there is none. It reports whether nothing is left.
func use(left *int64, used int64) (spent bool) {
	if *left <= 0 {
		return false
	}
	*left -= used
	return *left <= 0
}
