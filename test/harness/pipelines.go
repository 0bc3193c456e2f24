package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
)

// Spawn creates a pipeline without waiting for it and returns its id.
func (s *Stack) Spawn(tb testing.TB, args ...string) int64 {
	tb.Helper()
	var made struct {
		ID int64 `json:"pipeline_id"`
	}
	s.OK(tb, append([]string{"pipeline", "spawn", "--json"}, args...)...).JSON(tb, &made)
	require.Positive(tb, made.ID)
	return made.ID
}

// AwaitPipeline waits until a pipeline's row satisfies a condition, and returns it.
func (s *Stack) AwaitPipeline(tb testing.TB, id int64, what string, most time.Duration, ok func(store.Pipeline) bool) store.Pipeline {
	tb.Helper()
	var last store.Pipeline
	Await(tb, fmt.Sprintf("pipeline %d to be %s", id, what), most, func() (bool, string) {
		row, err := s.Store(tb).Pipeline(tb.Context(), id)
		if err != nil {
			return false, err.Error()
		}
		last = row
		return ok(row), string(row.Status) + " " + row.WaitingFor
	})
	return last
}

// PipelineHistories reads the histories of a pipeline and of its members.
func (s *Stack) PipelineHistories(tb testing.TB, p store.Pipeline) []History {
	tb.Helper()
	ids := []string{contract.PipelineWorkflowID(p.ID)}
	for _, m := range p.Members {
		ids = append(ids, contract.MemberWorkflowID(p.ID, m.Member))
	}
	return s.HistoriesOf(tb, ids...)
}

// CheckPipelines checks the invariants of standalone pipelines and their recoveries: the checks of
// CheckInvariants that apply to them.
func CheckPipelines(tb testing.TB, s *Stack, ids ...int64) {
	tb.Helper()
	accounts := map[int64][]store.Pipeline{}
	var all []History
	for _, id := range ids {
		for next := id; next != 0; {
			p, err := s.Store(tb).Pipeline(tb.Context(), next)
			require.NoError(tb, err)
			if slices.ContainsFunc(accounts[p.RunID], func(o store.Pipeline) bool { return o.ID == p.ID }) {
				break
			}
			accounts[p.RunID] = append(accounts[p.RunID], p)
			next = p.RecoveredBy
		}
	}
	for run, pipelines := range accounts {
		c := &account{TB: tb, s: s, db: s.Store(tb), run: run, pipelines: pipelines}
		c.read()
		for _, p := range pipelines {
			c.isOver(p)
			c.happenedOnce(p)
			c.asHistorySays(p)
			histories := s.PipelineHistories(tb, p)
			c.refused(p, histories[0])
			for _, h := range histories {
				h.Replay(tb)
				all = append(all, h)
			}
		}
		c.executed()
		c.booked()
	}
	require.Equal(tb, s.canary, digestOf(tb, filepath.Join(s.Dir, "canary")), "a directory outside every workspace changed")
	s.checkSecrets(tb, all)
}

// account is the cost and the events of a chain of recovered pipelines that are being checked.
type account struct {
	testing.TB
	s          *Stack
	db         *store.Store
	run        int64
	pipelines  []store.Pipeline
	events     []contract.Event
	executions []store.Execution
	calls      []store.ModelCall
}

// which prefixes a message with the pipeline that it is about.
func (c *account) which(p store.Pipeline, what string) string {
	return fmt.Sprintf("pipeline %d (%s) of account %d: %s", p.ID, p.Status, c.run, what)
}

func (c *account) read() {
	c.Helper()
	for {
		var after int64
		if n := len(c.events); n > 0 {
			after = c.events[n-1].Seq
		}
		page, err := c.db.Events(c.Context(), c.run, after, 1000)
		require.NoError(c, err)
		if c.events = append(c.events, page...); len(page) < 1000 {
			break
		}
	}
	for i, e := range c.events {
		require.Equal(c, int64(i+1), e.Seq, "the events of account %d are numbered without gaps", c.run)
	}
	var err error
	c.executions, err = c.db.Executions(c.Context(), c.run)
	require.NoError(c, err)
	c.calls, err = c.db.ModelCalls(c.Context(), c.run)
	require.NoError(c, err)
}

func (c *account) isOver(p store.Pipeline) {
	c.Helper()
	if !p.Status.Terminal() {
		require.NotEmpty(c, p.WaitingFor, c.which(p, "it is neither finished nor waiting for a person"))
		return
	}
	require.NotNil(c, p.FinishedAt, c.which(p, "it has no end time"))
	require.NotNil(c, p.Metrics.End, c.which(p, "its metrics have no end time"))
	require.Equal(c, p.Status == contract.PipelineCompleted, p.Consensus != nil, c.which(p, "it has a consensus exactly if it is completed"))
	require.Equal(c, p.Consensus != nil, p.Metrics.Consensus, c.which(p, "its metrics agree on the consensus"))
	require.Equal(c, p.Status != contract.PipelineCompleted, p.Failure != nil, c.which(p, "it has a failure exactly if it is not completed"))
	_, err := c.db.Run(c.Context(), p.RunID)
	require.ErrorIs(c, err, store.ErrNotFound, c.which(p, "the carrier of its events is not a run"))
}

// of returns the events of a pipeline of the given types, or of all types if none are given.
func (c *account) of(p store.Pipeline, kinds ...contract.EventType) (out []contract.Event) {
	for _, e := range c.events {
		if names(e, p.ID) && (len(kinds) == 0 || slices.Contains(kinds, e.Type)) {
			out = append(out, e)
		}
	}
	return out
}

// names reports whether an event is about a pipeline.
func names(e contract.Event, pipeline int64) bool {
	var said struct {
		ID int64 `json:"pipeline_id"`
	}
	return json.Unmarshal(e.Payload, &said) == nil && said.ID == pipeline
}

// happenedOnce checks rows and events for duplicates and gaps.
func (c *account) happenedOnce(p store.Pipeline) {
	c.Helper()
	require.Len(c, c.of(p, contract.EventPipelineSpawned), 1, c.which(p, "it was spawned once"))
	require.Len(c, c.of(p, contract.EventAgentSpawned), len(p.Members), c.which(p, "each member joined once"))
	messages, err := c.db.PipelineMessages(c.Context(), p.ID, 0, 0, false)
	require.NoError(c, err)
	require.Len(c, messages, p.Metrics.TotalMessages, c.which(p, "its metrics have the number of messages"))
	require.Len(c, c.of(p, contract.EventAgentMessage), len(messages), c.which(p, "each message is reported once"))
	for i, m := range messages {
		require.Equal(c, i+1, m.Seq, c.which(p, "messages are numbered without gaps"))
	}
	require.Len(c, c.of(p, contract.EventVoteCast), p.Metrics.Votes, c.which(p, "each vote is reported once"))
	entries, err := c.db.PipelineEntries(c.Context(), p.ID, true, false)
	require.NoError(c, err)
	require.Len(c, c.of(p, contract.EventBlackboardWritten), len(entries), c.which(p, "each write is reported once"))
	if !p.Status.Terminal() {
		return
	}
	require.Len(c, c.of(p, contract.EventAgentEnded), len(p.Members), c.which(p, "each member ended once"))
	require.Len(c, c.of(p, contract.EventOrchestrationComplete), 1, c.which(p, "it ended once"))
	require.Equal(c, p.RecoveredBy != 0, len(c.of(p, contract.EventRecoveryStarted)) == 1, c.which(p, "a recovery is reported once"))
	if p.AbortReason != "" {
		var steps []contract.EventType
		for _, e := range c.of(p, contract.AbortSteps()...) {
			steps = append(steps, e.Type)
		}
		require.Equal(c, contract.AbortSteps(), steps, c.which(p, "the steps of an abort are in order"))
		require.NotEmpty(c, p.HandoffRef, c.which(p, "it left a handoff"))
		require.NotNil(c, p.FailureContext, c.which(p, "it left a failure context"))
		_, err := c.db.PipelineReport(c.Context(), p.ID, "partial", true)
		require.NoError(c, err, c.which(p, "it left a partial report"))
	}
}

// asHistorySays checks the row against the state that a worker derives from the history.
func (c *account) asHistorySays(p store.Pipeline) {
	c.Helper()
	var view contract.DeliberationView
	Await(c, fmt.Sprintf("pipeline %d to answer a query", p.ID), 2*time.Minute, func() (bool, string) {
		ctx, cancel := context.WithTimeout(c.Context(), 20*time.Second)
		defer cancel()
		value, err := c.s.Temporal(c).QueryWorkflow(ctx, contract.PipelineWorkflowID(p.ID), "", contract.QueryBlackboard)
		if err == nil {
			err = value.Get(&view)
		}
		return err == nil, fmt.Sprint(err)
	})
	require.Equal(c, []any{p.Status, p.Iteration, p.WaitingFor, p.AbortReason}, []any{view.Status, view.Iteration, view.WaitingFor, view.AbortReason}, c.which(p, "status"))
	require.Equal(c, p.Members, view.Members, c.which(p, "members"))
	require.Equal(c, p.Metrics, view.Metrics, c.which(p, "metrics"))
	votes, err := c.db.PipelineVotes(c.Context(), p.ID, false)
	require.NoError(c, err)
	require.ElementsMatch(c, votes, view.Votes, c.which(p, "votes"))
}

// recordedErrors is the maximum number of rejected moves that a deliberation records individually.
const recordedErrors = 100

// refused checks that the rows of rejected moves match the history's records, in order, and are
// limited in number.
func (c *account) refused(p store.Pipeline, h History) {
	c.Helper()
	var told, kept []contract.Error
	reported := 0 // by others than the deliberation, so not rejected moves
	for _, e := range h.Events {
		if e.GetWorkflowExecutionUpdateAcceptedEventAttributes().GetAcceptedRequest().GetInput().GetName() == contract.UpdateRecordError ||
			e.GetWorkflowExecutionSignaledEventAttributes().GetSignalName() == contract.UpdateRecordError {
			reported++
		}
		a := e.GetActivityTaskScheduledEventAttributes()
		if a.GetActivityType().GetName() != contract.ActivityPipelineRecord {
			continue
		}
		var rec contract.PipelineRecord
		require.NoError(c, converter.GetDefaultDataConverter().FromPayloads(a.GetInput(), &rec))
		told = append(told, rec.Errors...)
	}
	rows, err := c.db.PipelineErrors(c.Context(), p.ID)
	require.NoError(c, err)
	for _, r := range rows {
		kept = append(kept, r.Error)
	}
	require.Equal(c, told, kept, c.which(p, "rejected moves"))
	require.LessOrEqual(c, len(kept), recordedErrors, c.which(p, "the number of recorded errors is limited"))
	require.LessOrEqual(c, len(kept), p.Metrics.Refused+reported, c.which(p, "every recorded error is counted"))
}

// executed checks that each member of each pipeline has one execution, and that all have ended.
func (c *account) executed() {
	c.Helper()
	attempts := map[string]int{}
	for _, e := range c.executions {
		attempts[e.Step]++
		require.Equal(c, attempts[e.Step], e.Attempt, "attempts of %s of account %d are numbered from 1", e.Step, c.run)
		require.Equal(c, contract.PhasePlanner, e.Phase)
		if last := c.pipelines[len(c.pipelines)-1]; last.Status.Terminal() {
			require.NotEqual(c, contract.ExecutionRunning, e.Status, "%s of account %d is still running", e.Step, c.run)
		}
	}
	for _, m := range contract.Members() {
		joined := 0
		for _, p := range c.pipelines {
			if slices.ContainsFunc(p.Members, func(v contract.MemberView) bool { return v.Member == m }) {
				joined++
			}
		}
		require.LessOrEqual(c, attempts[string(m.Agent())], joined, "%s of account %d has at most one execution for each time that it joined", m, c.run)
	}
}

// booked checks that the cost in rows, in the budget, of the members and in the model's own log
// agree.
func (c *account) booked() {
	c.Helper()
	var rows, told, unknown int64
	over := c.pipelines[len(c.pipelines)-1].Status.Terminal()
	byExecution := map[int64]int64{}
	for _, call := range c.calls {
		rows += call.Usage.Tokens()
		unknown += call.Unsettled.Tokens // of workers that were killed
		byExecution[call.ExecutionID] += call.Usage.Tokens()
		require.False(c, over && call.Status == "reserved", "a model call of account %d is still reserved", c.run)
	}
	for _, e := range c.executions {
		of := byExecution[e.ID]
		require.False(c, over && e.Usage.Tokens() != of, "%s of account %d, attempt %d, reports %d tokens, but its calls used %d", e.Step, c.run, e.Attempt, e.Usage.Tokens(), of)
	}
	for _, p := range c.pipelines {
		for _, m := range p.Members {
			told += m.Usage.Tokens()
			i := slices.IndexFunc(c.executions, func(e store.Execution) bool { return e.ID == m.ExecutionID })
			// The response to a cancelled or failed call may have been paid for.
			if whole := over && i >= 0 && c.executions[i].Status == contract.ExecutionCompleted; whole {
				require.Equal(c, byExecution[m.ExecutionID], m.Usage.Tokens(), c.which(p, "usage reported by "+string(m.Member)))
			}
		}
	}
	budget, err := c.db.Budget(c.Context(), store.ScopeRun, fmt.Sprint(c.run))
	require.NoError(c, err)
	require.Equal(c, rows+unknown, budget.SpentTokens, "the budget of account %d and its calls agree", c.run)
	if over {
		require.Zero(c, budget.ReservedTokens, "tokens of account %d are still reserved", c.run)
		require.LessOrEqual(c, told, rows, "members of account %d do not report more than was booked", c.run)
	}
	served := c.s.served(c.TB, c.run, unbooked{abandoned: c.abandoned, cancelled: c.cancelled}, func(format string, args ...any) string {
		return fmt.Sprintf("account %d: ", c.run) + fmt.Sprintf(format, args...)
	})
	require.Equal(c, served, rows, "the tokens booked for account %d are those that the model served", c.run)
}

// abandoned reports whether a turn has no booked call: if it was lost in a kill, the other member may
// have ended the deliberation in the meantime, and the call is not repeated.
func (c *account) abandoned(k turn) bool {
	return !c.hasCall(k, func(call store.ModelCall) bool { return call.Usage.Tokens() > 0 })
}

// cancelled reports whether the call of a turn was cancelled while a response that was sent at the
// given time arrived: the deliberation ended just then. It is not counted.
func (c *account) cancelled(k turn, sent time.Time) bool {
	return c.abandoned(k) && c.hasCall(k, func(call store.ModelCall) bool {
		return call.Failure != nil && call.Failure.Code == contract.CodeCancelled && call.FinishedAt.Sub(sent).Abs() < cancelTime
	})
}

// hasCall reports whether a turn has a call for which is reports true.
func (c *account) hasCall(k turn, is func(store.ModelCall) bool) bool {
	return slices.ContainsFunc(c.executions, func(e store.Execution) bool {
		return e.Attempt == k.attempt && slices.ContainsFunc(c.calls, func(call store.ModelCall) bool {
			return call.ExecutionID == e.ID && string(call.Agent) == k.agent && call.Turn == k.turn && is(call)
		})
	})
}
