package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
	"github.com/rocketgpt/orchestrator/internal/store/internal/rowconv"
)

// LogKey is a place in the log of a run: that of a message of a conversation,
// or, after all messages, that of a check or of the end of an execution.
type LogKey struct {
	At          time.Time
	ExecutionID int64
	Turn, Place int
	Check       string // id of the check
}

// What stands in an execution's log after its conversation, as turns.
const (
	LogCheck = math.MaxInt32 - 1 // the output of a check
	LogEnd   = math.MaxInt32     // how the execution failed
)

// Compare says which of two places comes first: -1, 0 or 1.
func (k LogKey) Compare(o LogKey) int {
	return cmp.Or(k.At.Compare(o.At), cmp.Compare(k.ExecutionID, o.ExecutionID), cmp.Compare(k.Turn, o.Turn), cmp.Compare(k.Place, o.Place), cmp.Compare(k.Check, o.Check))
}

// LogStart and LogStop are before and after everything.
var (
	LogStart = LogKey{At: time.Unix(0, 0).UTC()}
	LogStop  = LogKey{At: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), ExecutionID: math.MaxInt64, Turn: LogEnd, Place: math.MaxInt32}
)

// LogQuery asks for a window of a run's log.
type LogQuery struct {
	Executions []Execution // whose log it is
	From       LogKey      // the place after which, or before which, the window begins
	Back       bool        // the window ends before From
	Role       string      // of messages; LogRoleCheck: outputs of checks
	Text       string      // that messages contain, whatever the case
	Errors     bool        // only what went wrong
	Most       int         // how many places are returned
	Scan       int         // how many messages are looked at for it, at most
}

// LogRoleCheck is the role of outputs of checks.
const LogRoleCheck = "check"

// LogWindow is a window of a log, in the order of time.
type LogWindow struct {
	Keys []LogKey
	// Next is the place from which to go on in the direction of the query: that of
	// the last message that was looked at.
	Next LogKey
	More bool // there is more in that direction, or may be
}

// mostFailedCalls bounds the failed calls that are looked at for one window.
const mostFailedCalls = 2000

// LogExecutions returns the executions of a run without what they gave, in the
// order in which they began.
func (s *Store) LogExecutions(ctx context.Context, runID int64) ([]Execution, error) {
	rows, err := s.q.LogExecutions(ctx, runID)
	return rowconv.Convert(rows, func(r db.LogExecutionsRow) Execution {
		return Execution{
			ExecutionRef: contract.ExecutionRef{ID: r.ID, RunID: runID, Phase: contract.Phase(r.Phase), Step: r.Step, Agent: contract.Agent(r.Agent), Attempt: int(r.Attempt)},
			Status:       contract.ExecutionStatus(r.Status), Failure: rowconv.Failure(r.ErrorClass, r.ErrorCode, r.ErrorMessage, ""),
			Provider: r.Provider, Model: r.Model, Turns: int(r.Turns),
			Usage:     contract.Usage{Calls: int(r.Turns), PromptTokens: r.PromptTokens, CompletionTokens: r.CompletionTokens, MicroUSD: r.CostMicros},
			StartedAt: r.StartedAt, FinishedAt: r.FinishedAt,
		}
	}), dberr.Explain(err, "read the executions of run %d", runID)
}

// LogWindow returns a window of a log. What it reads is bounded by the query,
// however long the log is; of messages that are searched the first 20,000
// characters count. Outputs of checks are not searched: their text is not here.
func (s *Store) LogWindow(ctx context.Context, q LogQuery) (LogWindow, error) {
	ids := rowconv.Convert(q.Executions, func(e Execution) int64 { return e.ID })
	w, bound := LogWindow{Next: q.From}, LogStop
	if q.Back {
		bound = LogStart
	}
	var err error
	switch {
	case len(ids) == 0:
		return w, nil
	case q.Errors && (q.Role == "" || q.Role == "tool"):
		w.Keys, w.More, err = s.failedCalls(ctx, q, ids)
		if w.More {
			bound = w.Keys[len(w.Keys)-1]
		}
	case !q.Errors && q.Role != LogRoleCheck:
		err = s.scanLog(ctx, q, ids, &w, &bound)
	}
	if err != nil {
		return w, dberr.Explain(err, "read the log of %d executions", len(ids))
	}
	if q.Role == "" || q.Role == LogRoleCheck {
		others, err := s.outcomes(ctx, q, ids)
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

// past reports whether a place comes after another one in the query's direction.
func (q LogQuery) past(k, from LogKey) bool {
	if q.Back {
		return k.Compare(from) < 0
	}
	return k.Compare(from) > 0
}

// close puts a window in order and cuts it.
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

// scanLog goes through messages until it has enough of those that are asked
// for, or has looked at as many as it may. The bound is then where it ended.
func (s *Store) scanLog(ctx context.Context, q LogQuery, ids []int64, w *LogWindow, bound *LogKey) error {
	filtered := q.Role != "" || q.Text != ""
	for from, scanned := q.From, 0; ; {
		want := q.Most + 1
		if filtered {
			want = q.Scan - scanned
		}
		rows, err := s.logRows(ctx, q, ids, from, want)
		if err != nil {
			return err
		}
		var seen int
		var horizon bool
		from, seen, horizon = w.take(rows, from, q.Most, want)
		if horizon && q.Back { // what is before the horizon's execution, and all of that
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

// take adds hits to a window until there are enough of them, and returns the last
// place, how many messages it went through, and whether it came to the horizon.
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

func (s *Store) logRows(ctx context.Context, q LogQuery, ids []int64, from LogKey, most int) ([]db.LogAfterRow, error) {
	p := db.LogAfterParams{
		Executions: ids, At: from.At, ExecutionID: from.ExecutionID, Turn: int32(from.Turn), Place: int32(from.Place),
		Most: int32(most), Role: q.Role, Text: q.Text,
	}
	if !q.Back {
		return s.q.LogAfter(ctx, p)
	}
	rows, err := s.q.LogBefore(ctx, db.LogBeforeParams(p))
	return rowconv.Convert(rows, func(r db.LogBeforeRow) db.LogAfterRow { return db.LogAfterRow(r) }), err
}

func (s *Store) failedCalls(ctx context.Context, q LogQuery, ids []int64) ([]LogKey, bool, error) {
	p := db.FailedCallsParams{Results: toolResults, Executions: ids, At: q.From.At, Upto: LogStop.At, Down: q.Back, Most: mostFailedCalls}
	if q.Back {
		p.At, p.Upto = LogStart.At, q.From.At
	}
	rows, err := s.q.FailedCalls(ctx, p)
	var keys []LogKey
	for _, r := range rows {
		if k := (LogKey{At: r.CreatedAt, ExecutionID: r.ExecutionID, Turn: int(r.Turn), Place: int(r.Position)}); q.past(k, q.From) {
			keys = append(keys, k)
		}
	}
	return keys, len(rows) == mostFailedCalls && len(keys) > 0, err
}

// outcomes returns the places of checks, and of executions that failed.
func (s *Store) outcomes(ctx context.Context, q LogQuery, ids []int64) ([]LogKey, error) {
	checks, err := s.q.LogChecks(ctx, ids)
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

// LogText is a message with what the log shows beside it.
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

// mostCalls is how many bytes of a message's tool calls are read; of more, only
// the tools' names are.
const mostCalls = 64 << 10

// LogTexts returns messages by their places, with at most as many characters of
// each as given.
func (s *Store) LogTexts(ctx context.Context, keys []LogKey, cut int) (map[LogKey]LogText, error) {
	p := db.LogTextsParams{Cut: int32(cut), MostCalls: mostCalls, Results: toolResults}
	for _, k := range keys {
		if k.Turn < LogCheck {
			p.Executions, p.Turns, p.Places = append(p.Executions, k.ExecutionID), append(p.Turns, int32(k.Turn)), append(p.Places, int32(k.Place))
		}
	}
	rows, err := s.q.LogTexts(ctx, p)
	texts := make(map[LogKey]LogText, len(rows))
	for _, r := range rows {
		texts[LogKey{At: r.CreatedAt, ExecutionID: r.ExecutionID, Turn: int(r.Turn), Place: int(r.Position)}] = LogText{
			Role: r.Role, Text: r.Text, Length: int(r.Length), Lines: int(r.Breaks) + 1, Calls: r.Calls,
			Tool: r.Tool, OK: r.Ok, Code: contract.Code(r.Code), Duration: time.Duration(r.DurationMs) * time.Millisecond,
		}
	}
	return texts, dberr.Explain(err, "read %d messages", len(keys))
}

// LogOutput is a check with the artifact that holds what it printed.
type LogOutput struct {
	Result     contract.CheckResult
	LogDigest  string
	ArtifactID int64 // 0: none
	Size       int64
}

// LogOutputs returns checks by their places.
func (s *Store) LogOutputs(ctx context.Context, runID int64, keys []LogKey) (map[LogKey]LogOutput, error) {
	p := db.LogCheckResultsParams{RunID: runID}
	for _, k := range keys {
		if k.Turn == LogCheck {
			p.Executions, p.Checks = append(p.Executions, k.ExecutionID), append(p.Checks, k.Check)
		}
	}
	if len(p.Checks) == 0 {
		return nil, nil
	}
	rows, err := s.q.LogCheckResults(ctx, p)
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

// MadeArtifact is an artifact with what made it.
type MadeArtifact struct {
	contract.Artifact
	Phase   contract.Phase
	Step    string
	Attempt int
	Agent   contract.Agent
}

// ArtifactFilter selects artifacts of a run. What is zero selects all.
type ArtifactFilter struct {
	Type  contract.ArtifactType
	Phase contract.Phase
	Text  string // in the name, whatever the case
	After int64  // the last one that is known
	Limit int    // default and most 1000
}

// ArtifactsOf returns artifacts of a run with what made them, in the order in
// which they came.
func (s *Store) ArtifactsOf(ctx context.Context, runID int64, f ArtifactFilter) ([]MadeArtifact, error) {
	rows, err := s.lists.ArtifactsOf(ctx, db.ArtifactsOfParams{
		RunID: runID, AfterID: f.After, Type: string(f.Type), Phase: string(f.Phase), Text: f.Text, Most: rowconv.Limit(f.Limit, 1000),
	})
	return rowconv.Convert(rows, func(r db.ArtifactsOfRow) MadeArtifact { return madeOf(runID, r) }), dberr.Explain(err, "read artifacts of run %d", runID)
}

func madeOf(runID int64, r db.ArtifactsOfRow) MadeArtifact {
	return MadeArtifact{
		Artifact: contract.Artifact{
			ID: r.ID, RunID: runID, ExecutionID: r.ExecutionID, Name: r.Name, Type: contract.ArtifactType(r.Type), Size: r.Size, Digest: r.Hash, CreatedAt: r.CreatedAt,
		},
		Phase: contract.Phase(r.Phase), Step: r.Step, Attempt: int(r.Attempt), Agent: contract.Agent(r.Agent),
	}
}

// Artifact returns an artifact of a run, and the numbers of those before and
// after it, 0 for none. It is ErrNotFound that the run has none of that number.
func (s *Store) Artifact(ctx context.Context, runID, id int64) (a MadeArtifact, before, after int64, err error) {
	r, err := s.q.ArtifactOf(ctx, db.ArtifactOfParams{RunID: runID, ID: id})
	if errors.Is(err, pgx.ErrNoRows) {
		return a, 0, 0, dberr.NotFound("run %d has no artifact %d", runID, id)
	}
	a = madeOf(runID, db.ArtifactsOfRow{
		ID: r.ID, ExecutionID: r.ExecutionID, Name: r.Name, Type: r.Type, Size: r.Size, Hash: r.Hash, CreatedAt: r.CreatedAt,
		Phase: r.Phase, Step: r.Step, Attempt: r.Attempt, Agent: r.Agent,
	})
	return a, r.Before, r.After, dberr.Explain(err, "read artifact %d of run %d", id, runID)
}

// ShownEvent is an event whose payload may be cut: then it is no JSON.
type ShownEvent struct {
	contract.Event
	Payload string
	Size    int // of the whole payload, in bytes
}

// EventWindow asks for events of a run by their numbers.
type EventWindow struct {
	Above, Upto int64  // numbers from above the first up to the second
	Prefix      string // of the type
	Down        bool   // the last ones first
	Most        int
	Cut         int // characters of each payload
}

// EventsIn returns events of a window. Numbers have no gaps, so a window bounds
// what is read.
func (s *Store) EventsIn(ctx context.Context, runID int64, w EventWindow) ([]ShownEvent, error) {
	p := db.EventsBetweenParams{Cut: int32(w.Cut), RunID: runID, Above: w.Above, Upto: w.Upto, Prefix: w.Prefix, Most: int32(w.Most)}
	var rows []db.EventsBetweenRow
	var err error
	if w.Down {
		var down []db.EventsBetweenDownRow
		down, err = s.q.EventsBetweenDown(ctx, db.EventsBetweenDownParams(p))
		rows = rowconv.Convert(down, func(r db.EventsBetweenDownRow) db.EventsBetweenRow { return db.EventsBetweenRow(r) })
	} else {
		rows, err = s.q.EventsBetween(ctx, p)
	}
	return rowconv.Convert(rows, func(r db.EventsBetweenRow) ShownEvent {
		e := contract.Event{RunID: r.RunID, Seq: r.Seq, Type: contract.EventType(r.EventType), CreatedAt: r.CreatedAt}
		if len(r.Payload) == int(r.Size) {
			e.Payload = json.RawMessage(r.Payload)
		}
		return ShownEvent{Event: e, Payload: r.Payload, Size: int(r.Size)}
	}), dberr.Explain(err, "read events of run %d", runID)
}

// Replayed is a time that a run was done again.
type Replayed struct {
	ID          int64
	Phase       contract.Phase
	Order       contract.ReplayOrder // without what was kept
	Kept        []string             // steps whose work was taken over
	ExecutionID int64                // that it led to; 0: not begun
	Attempt     int                  // of the phase
	Status      contract.ExecutionStatus
	CreatedAt   time.Time
}

// Replays returns how a run was done again, the last time first, at most as
// many as given.
func (s *Store) Replays(ctx context.Context, runID int64, most int) ([]Replayed, error) {
	rows, err := s.q.ReplaysOf(ctx, db.ReplaysOfParams{RunID: runID, Most: int32(most)})
	if err != nil {
		return nil, dberr.Explain(err, "read the replays of run %d", runID)
	}
	out := make([]Replayed, len(rows))
	for i, r := range rows {
		out[i] = Replayed{
			ID: r.ID, Phase: contract.Phase(r.Phase), ExecutionID: r.ExecutionID, Attempt: int(r.Attempt), Status: contract.ExecutionStatus(r.Status), CreatedAt: r.CreatedAt,
		}
		if out[i].Order, err = rowconv.Decode[contract.ReplayOrder](r.ReplayOrder); err != nil {
			return nil, err
		}
		if out[i].Kept, err = rowconv.Decode[[]string](r.Kept); err != nil {
			return nil, err
		}
	}
	return out, nil
}
