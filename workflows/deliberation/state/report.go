package state

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// outbox holds the data of a deliberation that must still be written, in order of occurrence.
type outbox struct {
	RowStale bool // the row does not show the current state
	entries  []contract.Entry
	said     []contract.Message
	cast     []contract.Vote
	errs     []contract.Error
	commands []contract.EventDraft // see AddCommand
	events   []contract.EventDraft
	reports  []*contract.DeliberationReport
}

// The sizes in bytes of lists that share one payload with others. Texts are written as
// JSON, in which a byte may take six.
const (
	recordBytes  = 40 << 10
	newsBytes    = 12 << 10 // each of its lists
	changeBytes  = 4 << 10
	reportBytes  = 24 << 10
	handoffBytes = 8 << 10 // each of its lists
	viewBytes    = 256 << 10
)

// AddEvent adds an event to the outbox.
func (c *State) AddEvent(kind contract.EventType, payload map[string]any) {
	payload["pipeline_id"] = c.Input.PipelineID
	c.events = append(c.events, contract.EventDraft{Type: kind, Payload: payload})
	c.RowStale = true
}

// AddCommand adds an event about a command to a deliberation that began before commands had events. It is
// written with the next record that has room left for it, so that it causes no record and moves nothing to a
// later one: its history would not replay.
func (c *State) AddCommand(kind contract.EventType, payload map[string]any) {
	payload["pipeline_id"] = c.Input.PipelineID
	c.commands = append(c.commands, contract.EventDraft{Type: kind, Payload: payload})
}

// HasUnwritten reports whether anything must still be written.
func (c *State) HasUnwritten() bool {
	return c.RowStale || len(c.entries)+len(c.said)+len(c.cast)+len(c.errs)+len(c.events)+len(c.reports) > 0
}

// NextRecord moves as much of the outbox as fits into a record, and returns that record with the
// current state.
func (c *State) NextRecord(seq int64, now time.Time) contract.PipelineRecord {
	room := recordBytes
	rec := contract.PipelineRecord{PipelineID: c.Input.PipelineID, RunID: c.Input.RunID, ForRun: c.Input.ForRun, Seq: seq, At: now, Change: c.change()}
	if len(c.reports) > 0 {
		rec.Change.Report, c.reports = c.reports[0], c.reports[1:]
		room -= reportBytes
	}
	rec.Entries, room = cut(&c.entries, room)
	rec.Messages, room = cut(&c.said, room)
	rec.Votes, room = cut(&c.cast, room)
	rec.Errors, room = cut(&c.errs, room)
	rec.Events, room = cut(&c.events, room)
	commands, _ := cut(&c.commands, room)
	rec.Events = append(rec.Events, commands...)
	c.RowStale, c.SettingsStale = false, false
	return rec
}

// cut removes as many items from the front of a list as fit into the room, and returns the
// remaining room: 0 if items remain, so that nothing later is written before them.
func cut[T any](from *[]T, room int) (taken []T, left int) {
	n := 0
	for ; n < len(*from) && room > 0; n++ {
		if room -= size((*from)[n]); room <= 0 && n > 0 {
			break
		}
	}
	taken, *from = (*from)[:n:n], (*from)[n:]
	if len(*from) > 0 {
		room = 0
	}
	return taken, room
}

// size returns the number of bytes that a value takes in a history.
func size(v any) int {
	raw, err := json.Marshal(v)
	if err != nil {
		return contract.PayloadLimit
	}
	return len(raw)
}

// newest returns the last items of a list that fit into the room, and the number of items before
// them.
func newest[T any](all []T, room int) (kept []T, before int) {
	n := len(all)
	for n > 0 {
		if room -= size(all[n-1]); room < 0 {
			break
		}
		n--
	}
	return all[n:], n
}

// leftOut returns a note about the lists that were shortened, "" if none were.
func leftOut(parts ...any) string {
	var out []string
	for i := 0; i+1 < len(parts); i += 2 {
		if n, _ := parts[i].(int); n > 0 {
			out = append(out, fmt.Sprintf("older %s: %d", parts[i+1], n))
		}
	}
	if len(out) == 0 {
		return ""
	}
	return "omitted here, but stored in the database: " + strings.Join(out, ", ")
}

// clipNews shortens news to the size limits of a turn, and returns the number of entries dropped.
func clipNews(n contract.News) (contract.News, int) {
	var entries, changes, messages, votes int
	n.Entries, entries = newest(n.Entries, newsBytes)
	n.Changes, changes = newest(n.Changes, changeBytes)
	n.Messages, messages = newest(n.Messages, newsBytes)
	n.Votes, votes = newest(n.Votes, newsBytes)
	n.Note = leftOut(entries, "entries", changes, "changes", messages, "messages", votes, "votes")
	return n, entries
}

// change returns the new values of the pipeline's row.
func (c *State) change() *contract.PipelineChange {
	e := c.Ending
	var altered *contract.DeliberationSettings
	if c.SettingsStale {
		now := c.Settings
		altered = &now
	}
	return &contract.PipelineChange{
		Settings: altered,

		Status: c.Status, Iteration: c.round(), WaitingFor: c.waiting, Members: c.views(), Metrics: c.Measured(),
		AbortReason: e.AbortReason, HandoffRef: e.HandoffRef, RecoveredBy: e.RecoveredBy, FailureCtx: e.failureContext, Consensus: e.Consensus, Failure: e.Failure, Finished: e.Finished,
	}
}

// Measured returns the metrics with their score.
func (c *State) Measured() contract.DeliberationMetrics {
	m := c.Metrics
	m.PerformanceScore = m.Score(c.Settings.Iterations)
	return m
}

// views returns the views of the members.
func (c *State) views() []contract.MemberView {
	out := []contract.MemberView{}
	for _, s := range c.Participants {
		v := s.View
		v.Progress = c.progressOf(s)
		if v.Status == contract.MemberIdle {
			v.BlockedReason = c.waitsFor(s)
		}
		out = append(out, v)
	}
	return out
}

// progressOf returns a member's progress from 0 to 1: the opening turn is the first third, then
// each round counts; a member that is done is at 1.
func (c *State) progressOf(s *Participant) float64 {
	const opening, rest, whole = 0.3, 0.6, 1.0
	const percent, half = 100, 0.5
	switch {
	case s.done || s.View.Status == contract.MemberDone:
		return whole
	case !s.open && !s.started:
		return 0
	case c.Settings.Iterations <= 0:
		return opening
	}
	share := opening + rest*min(whole, float64(c.Metrics.Iterations)/float64(c.Settings.Iterations))
	return float64(int(share*percent+half)) / percent
}

// waitsFor describes what an idle member is waiting for.
func (c *State) waitsFor(s *Participant) string {
	if c.Status == contract.PipelineReport && c.waiting != "" {
		return "waits for " + c.waiting
	}
	var names []string
	for _, o := range c.Living() {
		if o != s && o.thinking() {
			names = append(names, string(o.Member))
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "waits for " + strings.Join(names, " and ")
}

// all returns all entries of the blackboard.
func (c *State) all() []contract.Entry {
	out := []contract.Entry{}
	for _, section := range contract.Sections() {
		for _, p := range c.board {
			if p.Section == section {
				out = append(out, p.Entry)
			}
		}
	}
	return out
}

// EntriesOf returns the entries that were written by a kind of move.
func (c *State) EntriesOf(kind contract.MoveKind) []contract.Entry {
	out := []contract.Entry{}
	for _, p := range c.board {
		if p.Kind == kind {
			out = append(out, p.Entry)
		}
	}
	return out
}

// last returns the n latest messages of a member.
func (c *State) last(m contract.Member, n int) []contract.Message {
	out := []contract.Message{}
	for _, msg := range c.messages {
		if msg.From == m {
			out = append(out, msg)
		}
	}
	return out[max(0, len(out)-n):]
}

// View returns the answer to the blackboard query.
func (c *State) View() contract.DeliberationView {
	v := contract.DeliberationView{
		PipelineID: c.Input.PipelineID, Status: c.Status, Attempt: c.Input.Attempt, Iteration: c.round(), WaitingFor: c.waiting, Subtasks: slices.Clone(c.subtasks),
		Members: c.views(), Blackboard: c.all(), Votes: slices.Clone(c.votes), Messages: []contract.Message{}, Metrics: c.Measured(), AbortReason: c.Ending.AbortReason,
	}
	for _, s := range c.Participants {
		v.Messages = append(v.Messages, c.last(s.Member, contract.MessageTail)...)
	}
	slices.SortFunc(v.Messages, func(a, b contract.Message) int { return a.Seq - b.Seq })
	v.Blackboard, _ = newest(v.Blackboard, viewBytes)
	v.Votes, _ = newest(v.Votes, viewBytes)
	v.Messages, _ = newest(v.Messages, viewBytes)
	return v
}

// AddReport adds a report with the findings so far.
func (c *State) AddReport(kind string, status contract.PipelineStatus, summary string, now time.Time) {
	m := c.Measured()
	r := &contract.DeliberationReport{
		PipelineID: c.Input.PipelineID, Kind: kind, Status: status, Agents: c.views(), Metrics: &m, Analysis: m.Analysis(), Decision: c.Decision, Summary: summary, At: now,
	}
	const part = 4 // the votes may take a quarter of the report
	var entries, votes int
	r.Blackboard, entries = newest(c.all(), reportBytes-reportBytes/part)
	r.Votes, votes = newest(c.votes, reportBytes/part)
	if note := leftOut(entries, "entries", votes, "votes"); note != "" {
		r.Analysis = append(r.Analysis, note)
	}
	c.reports = append(c.reports, r)
	c.RowStale = true
}

// Summary returns the content of a report in one sentence.
func (c *State) Summary() string {
	var parts []string
	for _, v := range c.views() {
		parts = append(parts, fmt.Sprintf("%s is %s after %d turns", v.Member, v.Status, v.Turns))
	}
	return fmt.Sprintf("%d proposals (%d live), %d syntheses, %d messages and %d votes in %d rounds; %s",
		len(c.EntriesOf(contract.MovePropose)), c.liveProposals(), len(c.EntriesOf(contract.MoveSynthesise)), c.Metrics.TotalMessages, c.Metrics.Votes,
		c.Metrics.Iterations, strings.Join(parts, ", "))
}

// Handoff returns the data that this deliberation hands to its recovery.
func (c *State) Handoff(reason string, now time.Time) contract.Handoff {
	h := contract.Handoff{
		PipelineID: c.Input.PipelineID, Attempt: c.Input.Attempt, AbortReason: c.Ending.AbortReason, Agents: c.views(),
		LastMessages: map[contract.Member][]contract.Message{}, RecoveryHints: []string{c.RecoveryHint(reason)},
		WrittenAt: now, KeptUntil: now.Add(contract.HandoffKept),
	}
	var n [5]int
	h.Proposals, n[0] = newest(c.EntriesOf(contract.MovePropose), handoffBytes)
	h.Syntheses, n[1] = newest(c.EntriesOf(contract.MoveSynthesise), handoffBytes)
	h.Analysis, n[2] = newest(c.EntriesOf(contract.MoveAnalyse), handoffBytes)
	h.ConsensusState, n[3] = newest(slices.Clone(c.votes), handoffBytes)
	for _, s := range c.Participants {
		kept, before := newest(c.last(s.Member, contract.HandoffTail), handoffBytes/len(contract.Members()))
		h.LastMessages[s.Member] = kept
		n[4] += before
	}
	h.RecoveryHints = append(h.RecoveryHints, c.Measured().Analysis()...)
	if note := leftOut(n[0], "proposals", n[1], "syntheses", n[2], "analyses", n[3], "votes", n[4], "messages"); note != "" {
		h.RecoveryHints = append(h.RecoveryHints, note)
	}
	return h
}

// RecoveryHint returns advice for the next attempt.
func (c *State) RecoveryHint(reason string) string {
	switch reason {
	case string(contract.AbortStuck):
		return fmt.Sprintf("there was no progress for %s: begin with the inherited entries, and vote on the newest synthesis soon", c.Settings.AbortAfter)
	case string(contract.AbortIterationLimit):
		return fmt.Sprintf("%d rounds were not enough: skip side questions, merge the inherited proposals into one synthesis and vote on it", c.Settings.Iterations)
	case string(contract.AbortTimeout):
		return fmt.Sprintf("the time limit of %s was reached: write less, and vote on the newest synthesis as soon as it exists", c.ExchangeLimit)
	case contract.ReasonAgentsFailed:
		return "all agents failed: see their errors; another model, or shorter turns, may help"
	}
	return "all members finished without reaching agreement: let GAMMA settle the points on which ALPHA and BETA disagree"
}

// RecordFailureContext records why a deliberation failed, for its failure context.
func (c *State) RecordFailureContext(reason string, now time.Time) {
	since := c.exchangeAt
	if since.IsZero() {
		since = c.openedAt
	}
	c.Ending.failureContext = &contract.FailureContext{
		Reason: reason, IterationCount: c.Metrics.Iterations, ElapsedSeconds: now.Sub(since).Seconds(), Metrics: c.Measured(),
		GammaSpawned: c.Metrics.GammaSpawned, ErrorCount: c.errorCount, RecoveryHint: c.RecoveryHint(reason), Notes: c.Ending.Notes,
	}
	c.AddEvent(contract.EventFailureContext, map[string]any{
		"reason": reason, "iteration_count": c.Metrics.Iterations, "error_count": c.errorCount, "recovery_hint": c.Ending.failureContext.RecoveryHint,
	})
}

// seed writes the entries that are on the blackboard before the first turn.
func (c *State) seed(now time.Time) {
	system := func(key, text string) {
		c.write(contract.Entry{Section: contract.SectionProblem, Key: key, Author: contract.SystemAuthor, Value: textOf(text)}, now)
	}
	system(contract.KeyTask, c.Input.Task.Objective)
	if in := c.Input.Inherited; in != nil {
		system(contract.KeyRecoveryContext, in.Context)
		system(KeyRecoveryInstructions, in.Instructions)
		for _, e := range in.Entries {
			c.write(e, now)
		}
	}
}

// KeyRecoveryInstructions is the key of a recovery's instructions.
const KeyRecoveryInstructions = "recovery_instructions"

// Inherit returns what a recovery inherits: proposals and syntheses that were not
// withdrawn, marked with the attempt that they come from.
func (c *State) Inherit(reason string) *contract.Inherited {
	out := &contract.Inherited{
		PipelineID: c.Input.PipelineID, Attempt: c.Input.Attempt, AbortReason: c.Ending.AbortReason, HandoffRef: c.Ending.HandoffRef,
		Context:      fault.Clip(fmt.Sprintf("attempt %d (pipeline %d) ended: %s. %s", c.Input.Attempt, c.Input.PipelineID, reason, c.Summary()), contract.TextHead),
		Instructions: fault.Clip(c.RecoveryHint(reason)+". Entries whose keys begin with inherited_ are from earlier attempts: use, merge or withdraw them.", contract.TextHead),
	}
	taken := map[string]bool{}
	for _, p := range c.board {
		if p.Kind != contract.MovePropose && p.Kind != contract.MoveSynthesise || p.State == contract.EntryWithdrawn {
			continue
		}
		e := p.Entry
		if e.Inherited == 0 {
			e.Inherited, e.Key = c.Input.Attempt, fmt.Sprintf("inherited_%s_%s", e.Author.Agent(), e.Key)
		}
		e.Key = unused(e.Key, taken)
		e.From = nil // inherited entries have new keys
		out.Entries = append(out.Entries, e)
	}
	var before int
	if out.Entries, before = newest(out.Entries, reportBytes); before > 0 {
		out.Instructions = fault.Clip(leftOut(before, "entries")+". "+out.Instructions, contract.TextHead)
	}
	return out
}

// unused returns a key that is not taken yet and is short enough for members to use.
func unused(key string, taken map[string]bool) string {
	const room = 4
	base := key[:min(len(key), KeyLength-room)]
	if len(key) <= KeyLength {
		base = key
	}
	for n := 2; taken[base]; n++ {
		base = fmt.Sprintf("%s-%d", key[:min(len(key), KeyLength-room)], n)
	}
	taken[base] = true
	return base
}
