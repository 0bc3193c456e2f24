package views

import (
	"cmp"
	"context"
	"encoding/json"
	"math"
	"slices"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
	"github.com/rocketgpt/orchestrator/internal/store/internal/rowconv"
)

// LogKey is a position in the log of a run: a message of a conversation or, after all messages, a
// check or the end of an execution.
type LogKey struct {
	At          time.Time
	ExecutionID int64
	Turn, Place int
	Check       string // id of the check
}

// Turn numbers of the log entries that follow an execution's conversation.
const (
	LogCheck = math.MaxInt32 - 1 // the output of a check
	LogEnd   = math.MaxInt32     // how the execution failed
)

// Compare returns which of two positions comes first: -1, 0 or 1.
func (k LogKey) Compare(o LogKey) int {
	return cmp.Or(k.At.Compare(o.At), cmp.Compare(k.ExecutionID, o.ExecutionID), cmp.Compare(k.Turn, o.Turn), cmp.Compare(k.Place, o.Place), cmp.Compare(k.Check, o.Check))
}

// LogStart and LogStop are the positions before and after all entries.
var (
	LogStart = LogKey{At: time.Unix(0, 0).UTC()}
	LogStop  = LogKey{At: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), ExecutionID: math.MaxInt64, Turn: LogEnd, Place: math.MaxInt32}
)

// LogQuery selects a window of a run's log.
type LogQuery struct {
	Executions []store.Execution // whose log it is
	From       LogKey            // the position after which, or before which, the window begins
	Back       bool              // the window ends before From
	Role       string            // of messages; LogRoleCheck: outputs of checks
	Text       string            // that messages contain, ignoring case
	Errors     bool              // only failures
	Most       int               // maximum number of positions to return
	Scan       int               // maximum number of messages to search
}

// LogRoleCheck is the role of outputs of checks.
const LogRoleCheck = "check"

// LogWindow is a window of a log, in order of time.
type LogWindow struct {
	Keys []LogKey
	// Next is the position of the last message read, from which to continue in the direction of the
	// query.
	Next LogKey
	More bool // there is, or may be, more in that direction
}

// maxFailedCalls limits the failed calls that are read for one window.
const maxFailedCalls = 2000

// LogExecutions returns the executions of a run without their output, in the order in
// which they began.
func (v *Views) LogExecutions(ctx context.Context, runID int64) ([]store.Execution, error) {
	rows, err := v.q.LogExecutions(ctx, runID)
	return rowconv.Convert(rows, func(r db.LogExecutionsRow) store.Execution {
		return store.Execution{
			ExecutionRef: contract.ExecutionRef{ID: r.ID, RunID: runID, Phase: contract.Phase(r.Phase), Step: r.Step, Agent: contract.Agent(r.Agent), Attempt: int(r.Attempt)},
			Status:       contract.ExecutionStatus(r.Status), Failure: rowconv.Failure(r.ErrorClass, r.ErrorCode, r.ErrorMessage, ""),
			Provider: r.Provider, Model: r.Model, Turns: int(r.Turns),
			Usage:     contract.Usage{Calls: int(r.Turns), PromptTokens: r.PromptTokens, CompletionTokens: r.CompletionTokens, MicroUSD: r.CostMicros, EstimatedPrice: r.PriceEstimated},
			StartedAt: r.StartedAt, FinishedAt: r.FinishedAt,
		}
	}), dberr.Explain(err, "read the executions of run %d", runID)
}

// LogWindow returns a window of a log. The query limits the amount of data read, however long the
// log is; a search covers the first 20,000 characters of each message. Outputs of checks are not
// searched: their text is not in the database.
func (v *Views) LogWindow(ctx context.Context, q LogQuery) (LogWindow, error) {
	ids := rowconv.Convert(q.Executions, func(e store.Execution) int64 { return e.ID })
	w, bound := LogWindow{Next: q.From}, LogStop
	if q.Back {
		bound = LogStart
	}
	var err error
	switch {
	case len(ids) == 0:
		return w, nil
	case q.Errors && (q.Role == "" || q.Role == "tool"):
		w.Keys, w.More, err = v.failedCalls(ctx, q, ids)
		if w.More {
			bound = w.Keys[len(w.Keys)-1]
		}
	case !q.Errors && q.Role != LogRoleCheck:
		err = v.scanLog(ctx, q, ids, &w, &bound)
	}
	if err != nil {
		return w, dberr.Explain(err, "read the logs of %d executions", len(ids))
	}
	if q.Role == "" || q.Role == LogRoleCheck {
		others, err := v.outcomes(ctx, q, ids)
		if err != nil {
			return w, dberr.Explain(err, "read the checks of %d executions", len(ids))
		}
		for _, k := range others {
			if q.past(k, q.From) && !q.past(k, bound) {
				w.Keys = append(w.Keys, k)
			}
		}
	}
	w.close(q, bound)
	return w, nil
}

// past reports whether a position comes after another one in the query's direction.
func (q LogQuery) past(k, from LogKey) bool {
	if q.Back {
		return k.Compare(from) < 0
	}
	return k.Compare(from) > 0
}

// close sorts and truncates a window.
func (w *LogWindow) close(q LogQuery, bound LogKey) {
	slices.SortFunc(w.Keys, func(a, b LogKey) int {
		if q.Back {
			return b.Compare(a)
		}
		return a.Compare(b)
	})
	switch {
	case len(w.Keys) > q.Most:
		w.Keys, w.More = w.Keys[:q.Most], true
		w.Next = w.Keys[q.Most-1]
	case w.More:
		w.Next = bound
	case len(w.Keys) > 0:
		w.Next = w.Keys[len(w.Keys)-1]
	}
	if q.Back {
		slices.Reverse(w.Keys)
	}
}

// scanLog reads messages until it has enough matches, or has reached the maximum number of
// messages. The bound is then the position at which it stopped.
func (v *Views) scanLog(ctx context.Context, q LogQuery, ids []int64, w *LogWindow, bound *LogKey) error {
	filtered := q.Role != "" || q.Text != ""
	for from, scanned := q.From, 0; ; {
		want := q.Most + 1
		if filtered {
			want = q.Scan - scanned
		}
		rows, err := v.logRows(ctx, q, ids, from, want)
		if err != nil {
			return err
		}
		var seen int
		var horizon bool
		from, seen, horizon = w.take(rows, from, q.Most, want)
		if horizon && q.Back { // continue with the horizon's whole execution and everything before it
			from.Turn, from.Place = math.MaxInt32, math.MaxInt32
		}
		scanned += seen
		if seen == want || len(w.Keys) > q.Most || filtered && horizon && scanned >= q.Scan {
			*bound, w.More = from, true
			return nil
		}
		if !horizon {
			return nil
		}
	}
}

// take adds hits to a window until it has enough, and returns the last position, the number of
// messages read, and whether it reached the horizon.
func (w *LogWindow) take(rows []db.LogAfterRow, from LogKey, most, want int) (last LogKey, seen int, horizon bool) {
	for _, r := range rows {
		from = LogKey{At: r.CreatedAt, ExecutionID: r.ExecutionID, Turn: int(r.Turn), Place: int(r.Position)}
		if r.Turn < 0 {
			return from, seen, true
		}
		seen++
		if r.Hit {
			w.Keys = append(w.Keys, from)
		}
		if seen == want || len(w.Keys) > most {
			break
		}
	}
	return from, seen, false
}

func (v *Views) logRows(ctx context.Context, q LogQuery, ids []int64, from LogKey, most int) ([]db.LogAfterRow, error) {
	p := db.LogAfterParams{
		Executions: ids, At: from.At, ExecutionID: from.ExecutionID, Turn: int32(from.Turn), Place: int32(from.Place),
		Most: int32(most), Role: q.Role, Text: q.Text,
	}
	if !q.Back {
		return v.q.LogAfter(ctx, p)
	}
	rows, err := v.q.LogBefore(ctx, db.LogBeforeParams(p))
	return rowconv.Convert(rows, func(r db.LogBeforeRow) db.LogAfterRow { return db.LogAfterRow(r) }), err
}

func (v *Views) failedCalls(ctx context.Context, q LogQuery, ids []int64) ([]LogKey, bool, error) {
	p := db.FailedCallsParams{Results: rowconv.ToolResults, Executions: ids, At: q.From.At, Upto: LogStop.At, Down: q.Back, Most: maxFailedCalls}
	if q.Back {
		p.At, p.Upto = LogStart.At, q.From.At
	}
	rows, err := v.q.FailedCalls(ctx, p)
	var keys []LogKey
	for _, r := range rows {
		if k := (LogKey{At: r.CreatedAt, ExecutionID: r.ExecutionID, Turn: int(r.Turn), Place: int(r.Position)}); q.past(k, q.From) {
			keys = append(keys, k)
		}
	}
	return keys, len(rows) == maxFailedCalls && len(keys) > 0, err
}

// outcomes returns the positions of checks, and of executions that failed.
func (v *Views) outcomes(ctx context.Context, q LogQuery, ids []int64) ([]LogKey, error) {
	checks, err := v.q.LogChecks(ctx, ids)
	var keys []LogKey
	for _, c := range checks {
		if !q.Errors || !c.Ok {
			keys = append(keys, LogKey{At: c.FinishedAt, ExecutionID: c.ExecutionID, Turn: LogCheck, Check: c.CheckID})
		}
	}
	for _, e := range q.Executions {
		if e.Failure != nil && e.FinishedAt != nil && q.Role == "" {
			keys = append(keys, LogKey{At: *e.FinishedAt, ExecutionID: e.ID, Turn: LogEnd})
		}
	}
	return keys, err
}

// LogText is a message with the details that the log shows next to it.
type LogText struct {
	Role     string
	Text     string // its beginning
	Length   int    // of the whole, in characters
	Lines    int    // of the whole
	Calls    json.RawMessage
	Tool     string        // whose result it is
	OK       bool          // of a tool's result
	Code     contract.Code // why it is not OK
	Duration time.Duration
}

// maxCalls is the maximum size, in bytes, of a message's tool calls that are read in full; of
// larger ones, only the tools' names are read.
const maxCalls = 64 << 10

// LogTexts returns messages by their positions, with at most the given number of
// characters of each.
func (v *Views) LogTexts(ctx context.Context, keys []LogKey, cut int) (map[LogKey]LogText, error) {
	p := db.LogTextsParams{Cut: int32(cut), MostCalls: maxCalls, Results: rowconv.ToolResults}
	for _, k := range keys {
		if k.Turn < LogCheck {
			p.Executions, p.Turns, p.Places = append(p.Executions, k.ExecutionID), append(p.Turns, int32(k.Turn)), append(p.Places, int32(k.Place))
		}
	}
	rows, err := v.q.LogTexts(ctx, p)
	texts := make(map[LogKey]LogText, len(rows))
	for _, r := range rows {
		texts[LogKey{At: r.CreatedAt, ExecutionID: r.ExecutionID, Turn: int(r.Turn), Place: int(r.Position)}] = LogText{
			Role: r.Role, Text: r.Text, Length: int(r.Length), Lines: int(r.Breaks) + 1, Calls: r.Calls,
			Tool: r.Tool, OK: r.Ok, Code: contract.Code(r.Code), Duration: time.Duration(r.DurationMs) * time.Millisecond,
		}
	}
	return texts, dberr.Explain(err, "read %d messages", len(keys))
}

// LogOutput is a check with the artifact that contains its output.
type LogOutput struct {
	Result     contract.CheckResult
	LogDigest  string
	ArtifactID int64 // 0: none
	Size       int64
}

// LogOutputs returns checks by their positions.
func (v *Views) LogOutputs(ctx context.Context, runID int64, keys []LogKey) (map[LogKey]LogOutput, error) {
	p := db.LogCheckResultsParams{RunID: runID}
	for _, k := range keys {
		if k.Turn == LogCheck {
			p.Executions, p.Checks = append(p.Executions, k.ExecutionID), append(p.Checks, k.Check)
		}
	}
	if len(p.Checks) == 0 {
		return nil, nil
	}
	rows, err := v.q.LogCheckResults(ctx, p)
	if err != nil {
		return nil, dberr.Explain(err, "read %d checks of run %d", len(p.Checks), runID)
	}
	out := make(map[LogKey]LogOutput, len(rows))
	for _, r := range rows {
		result, err := rowconv.Decode[contract.CheckResult](r.Result)
		if err != nil {
			return nil, err
		}
		out[LogKey{At: r.FinishedAt, ExecutionID: r.ExecutionID, Turn: LogCheck, Check: r.CheckID}] = LogOutput{result, r.LogDigest, r.ArtifactID, r.Size}
	}
	return out, nil
}

// Spoken is the beginning of a conversation's message.
type Spoken struct {
	Turn      int
	Index     int // of the tool call whose result it is; -1: not a result
	Role      string
	Text      string
	Size      int64           // of the whole text, in bytes
	ToolCalls json.RawMessage // requested by the model, unchanged
}

// maxSpoken is the maximum number of messages of a turn that are read.
const maxSpoken = 80

// TurnOf returns the new messages for a model in a turn, and its response; texts are truncated to
// 20,000 characters.
func (v *Views) TurnOf(ctx context.Context, executionID int64, turn int) ([]Spoken, error) {
	rows, err := v.q.SpokenInTurn(ctx, db.SpokenInTurnParams{ExecutionID: executionID, TurnBefore: int32(turn - 1), Turn: int32(turn), Results: rowconv.ToolResults, Most: maxSpoken})
	return rowconv.Convert(rows, func(r db.SpokenInTurnRow) Spoken {
		return Spoken{Turn: int(r.Turn), Index: max(-1, int(r.Position)-rowconv.ToolResults), Role: r.Role, Text: r.Text, Size: r.Size, ToolCalls: r.ToolCalls}
	}), dberr.Explain(err, "read turn %d of execution %d", turn, executionID)
}
