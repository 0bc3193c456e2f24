// Package state holds the state and the decisions of a deliberation: participants, blackboard,
// votes, rounds. It is a pure state machine: the time is an argument, and data to be written is
// kept in an outbox.
package state

import (
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// State is the state of a deliberation: its members, the blackboard, messages, votes and everything
// derived from them. It is pure: its methods receive what happens, with the time, and data to be
// written is collected in its outbox. The workflow carries out its decisions.
type State struct {
	outbox
	Input         contract.DeliberationInput
	Settings      contract.DeliberationSettings
	SettingsStale bool // the row does not show the current settings
	Status        contract.PipelineStatus
	waiting       string        // what it waits for, by name
	ExchangeLimit time.Duration // of the exchange

	Participants []*Participant // ALPHA, BETA, and GAMMA once it joined
	board        []*post
	messages     []contract.Message
	votes        []contract.Vote    // the latest of each voter on each version
	outdated     map[string]bool    // ids of votes whose voters have written a new version since
	subtasks     []contract.Subtask // GAMMA's parts of the objective
	log          []logEntry         // what members are shown, in order
	Metrics      contract.DeliberationMetrics

	refusalsRecorded int     // refusals that were recorded one by one
	errorCount       int     // errors of members
	verdict          *Choice // GAMMA's
	Decision         *contract.Decision
	validating       *Choice   // the version that both agreed on, for GAMMA to validate
	rivalry          bool      // two or more proposals are live
	maxComplexity    float64   // the highest complexity that an analysis found
	openedAt         time.Time // when the opening began
	exchangeAt       time.Time // when the exchange began
	LastProgress     time.Time // of any member
	reportedAt       time.Time // when the checkpoint was reported
	roundsOver       time.Time // when the last round ended; zero: not over
	Decided          bool      // the outcome is known; further moves do not count towards rounds
	Closed           bool      // further moves do not count
	Ending           Ending    // shown in the row
}

// Ending is the part of a pipeline's row that describes its end.
type Ending struct {
	AbortReason    contract.AbortReason
	HandoffRef     string
	RecoveredBy    int64
	failureContext *contract.FailureContext
	Consensus      *contract.Entry
	Failure        *contract.Failure
	Notes          []string // from outside, for the failure context
	Finished       bool
}

// Participant is the state of one member.
type Participant struct {
	Member contract.Member
	token  string // proves that a signal comes from this member
	View   contract.MemberView

	granted   int  // number of the last turn that it was given
	received  int  // number of the last turn that it delivered
	inOpening bool // its current turn belongs to the opening
	started   bool // it was given a turn of the exchange
	early     map[int]contract.Moves
	logRead   int // number of log entries that it was shown
	open      bool
	late      bool // with its opening turn
	done      bool
	Dead      bool

	progress     time.Time
	round        int // turns delivered in this round
	given        int // turns given in this round
	errors       []contract.Error
	repeats      map[string]int
	violations   int
	seenSubtasks []string              // its own subtasks that it was shown
	deferred     []*post               // omitted from its news for lack of room
	joinReason   string                // why GAMMA joined
	Model        *contract.ModelChoice // for its next turn and later ones
	RevokeReason string                // why it is revoked; its workflow must be cancelled
}

// logEntry is an item of the log that members are shown.
type logEntry struct {
	by      contract.Member
	to      contract.Member // only this member; empty: everybody
	post    *post
	fresh   bool // the post's version is new
	message *contract.Message
	vote    *contract.Vote
	ended   contract.Member
}

// Choice is a version of an entry that was agreed on.
type Choice struct {
	Key     string
	Version int
	By      contract.Member // GAMMA: its verdict; empty: votes
	text    contract.Text   // of a verdict
}

const (
	// maxEarlyTurns is the number of turns of a member that can wait for earlier ones.
	maxEarlyTurns = 4
	// turnsInRound is the maximum number of turns per member and round: a fast member must not
	// spend without limit while another one is thinking.
	turnsInRound = 3
	// MaxRefusalsRecorded is the number of refusals that are recorded individually. Further ones
	// are only counted.
	MaxRefusalsRecorded = 100
	// KeyLength is the maximum length of a key in bytes.
	KeyLength = 64
	// objectionKeyLength is the maximum length of an objection's key in bytes; it ends
	// with the id of the move that made it.
	objectionKeyLength = KeyLength + 32
	// MaxContextNotes is the number of external notes that a failure context keeps.
	MaxContextNotes = 20
)

// New returns the state of a deliberation that begins now, with the task and its
// inheritance on the blackboard.
func New(in contract.DeliberationInput, now time.Time) *State {
	c := &State{
		Input: in, Settings: in.Settings, Status: contract.PipelineSpawned,
		Metrics: contract.DeliberationMetrics{Start: now}, LastProgress: now, ExchangeLimit: in.Settings.ExchangeTime(in.Task), outdated: map[string]bool{},
	}
	c.seed(now)
	return c
}

// Peers are the members that deliberate; GAMMA only mediates.
func Peers() []contract.Member { return []contract.Member{contract.Alpha, contract.Beta} }

// SetStatus moves the pipeline to another status.
func (c *State) SetStatus(s contract.PipelineStatus, now time.Time, waiting string) {
	from := c.Status
	c.Status, c.waiting = s, waiting
	switch s {
	case contract.PipelineRunning:
		c.openedAt = now
	case contract.PipelineReport:
		c.reportedAt = now
	case contract.PipelineOrchestrating:
		c.beginExchange(now)
	default:
	}
	c.AddEvent(contract.EventPipelineUpdated, map[string]any{"status": s, "from": from, "waiting_for": waiting, "attempt": c.Input.Attempt})
	if s == contract.PipelineOrchestrating {
		c.AddEvent(contract.EventOrchestrationStarted, map[string]any{"mode": c.Settings.Mode, "task_id": c.Input.Task.TaskID, "agents": c.Agents()})
	}
}

// beginExchange lets all members take part again: "done" in the opening turns does not
// count for the exchange.
func (c *State) beginExchange(now time.Time) {
	c.exchangeAt, c.LastProgress = now, now
	for _, s := range c.Living() {
		s.done, s.progress = false, now
		if s.View.Status == contract.MemberDone {
			s.View.Status = contract.MemberIdle
		}
		s.View.Phase = PhaseExchange
	}
	c.RowStale = true
}

// The phases of members.
const (
	PhaseOpening  = "opening"
	PhaseExchange = "exchange"
	phaseEnded    = "ended"
)

// roleOf returns the role of a member.
func roleOf(m contract.Member) string {
	switch m {
	case contract.Alpha:
		return "research"
	case contract.Beta:
		return "synthesis"
	default:
		return "mediation"
	}
}

// Join adds a member.
func (c *State) Join(m contract.Member, token string, reason contract.GammaReason, now time.Time) {
	s := &Participant{
		Member: m, token: token, progress: now, early: map[int]contract.Moves{}, repeats: map[string]int{},
		View: contract.MemberView{Member: m, Role: roleOf(m), Status: contract.MemberIdle, Phase: PhaseOpening, LastActivity: now},
	}
	if c.Status == contract.PipelineOrchestrating {
		s.View.Phase = PhaseExchange
	}
	c.Participants = append(c.Participants, s)
	c.AddEvent(contract.EventAgentSpawned, map[string]any{
		"member": m, "role": s.View.Role, "workflow": contract.MemberWorkflowID(c.Input.PipelineID, m), "model": c.modelOf(m),
	})
	if m != contract.Gamma {
		return
	}
	s.joinReason = gammaReasonText[reason]
	at := now
	c.Metrics.GammaSpawned, c.Metrics.GammaReason, c.Metrics.GammaAt = true, reason, &at
	c.AddEvent(contract.EventGammaSpawned, map[string]any{"reason": reason, "why": s.joinReason, "role": s.View.Role, "model": c.modelOf(m)})
	if c.peersDone() {
		c.validating = c.agreement()
	}
}

// gammaReasonText is the reason why GAMMA joined, in words for GAMMA.
var gammaReasonText = map[contract.GammaReason]string{
	contract.GammaStuck:      "STUCK: an agent has made no progress for a while; help the others continue",
	contract.GammaConflict:   "CONFLICT: too many proposals are unresolved; combine them",
	contract.GammaComplexity: "COMPLEXITY: the objective was found to be complex; break it down for the others, and keep the exchange focused on what matters",
	contract.GammaSuccess:    "SUCCESS: the others say that they are done; validate their agreement, or settle the points on which they disagree",
	contract.GammaRecovery:   "RECOVERY: an earlier attempt failed; see the recovery context",
	contract.GammaForced:     "FORCED: your participation was requested when this deliberation was started",
}

// Participant returns the state of a member, nil if it never joined.
func (c *State) Participant(m contract.Member) *Participant {
	for _, s := range c.Participants {
		if s.Member == m {
			return s
		}
	}
	return nil
}

// Living returns the members that are still active.
func (c *State) Living() []*Participant {
	var out []*Participant
	for _, s := range c.Participants {
		if !s.Dead {
			out = append(out, s)
		}
	}
	return out
}

// livingPeers returns the members among ALPHA and BETA that are still active.
func (c *State) livingPeers() []*Participant {
	return slices.DeleteFunc(c.Living(), func(s *Participant) bool { return s.Member == contract.Gamma })
}

// peersDone reports whether all remaining peers are done.
func (c *State) peersDone() bool {
	left := c.livingPeers()
	return len(left) > 0 && !slices.ContainsFunc(left, func(s *Participant) bool { return !s.done })
}

func (s *Participant) thinking() bool { return s.granted > s.received }

// Receive takes moves that arrived. The token identifies the sender. Each turn counts once, in
// order: early turns wait, and turns that were already taken are dropped.
func (c *State) Receive(m contract.Moves, now time.Time) {
	s := c.speaker(m)
	if s == nil || c.Closed || s.Dead || m.Turn <= s.received {
		return
	}
	if m.Turn > s.received+1 || m.Turn > s.granted {
		c.keepEarly(s, m)
		return
	}
	c.take(s, m, now)
	c.ReceiveEarly(s, now)
}

// speaker returns the member that a signal is from. A sender with a false name is refused without
// blaming any member: a member's workflow gets its name from its deliberation, so a sender that
// uses its token under another name has stolen the token, and must not be able to get that member
// revoked.
func (c *State) speaker(m contract.Moves) *Participant {
	if c.Closed {
		return nil
	}
	s := c.ByToken(m.Token)
	forged := contract.Error{Class: contract.ClassSafety, Code: contract.CodeForbidden}
	switch {
	case s == nil:
		forged.Message = "moves were submitted with a token that does not belong to any member"
		if m.Member.Valid() {
			forged.Member = m.Member
			forged.Message = fmt.Sprintf("moves in the name of %s were submitted with an invalid token", m.Member)
		}
		c.RecordRefusal(forged, 1)
		return nil
	case m.Member != s.Member:
		forged.Member = s.Member
		forged.Message = fmt.Sprintf("the token of %s was used to submit moves as another member", s.Member)
		c.RecordRefusal(forged, 1)
		return nil
	}
	return s
}

// ByToken returns the member with a token, nil if there is none.
func (c *State) ByToken(token string) *Participant {
	for _, s := range c.Participants {
		if token != "" && s.token == token {
			return s
		}
	}
	return nil
}

// keepEarly stores an early turn until the turns before it have arrived.
func (c *State) keepEarly(s *Participant, m contract.Moves) {
	if _, have := s.early[m.Turn]; have {
		return
	}
	if len(s.early) >= maxEarlyTurns || m.Turn > s.received+maxEarlyTurns || len(m.Moves) > c.Settings.MovesPerTurn {
		c.RecordRefusal(contract.Error{Member: s.Member, Class: contract.ClassLLM, Code: contract.CodeInvalidOutput, Message: fmt.Sprintf("turn %d of %s arrived before it was assigned", m.Turn, s.Member)}, 1)
		return
	}
	s.early[m.Turn] = m
}

// ReceiveEarly takes the turns that waited for earlier ones, and reports whether there were any.
func (c *State) ReceiveEarly(s *Participant, now time.Time) (heard bool) {
	for s.received < s.granted && !s.Dead && !c.Closed {
		m, ok := s.early[s.received+1]
		if !ok {
			return heard
		}
		delete(s.early, m.Turn)
		c.take(s, m, now)
		heard = true
	}
	return heard
}

// take carries out a member's turn.
func (c *State) take(s *Participant, m contract.Moves, now time.Time) {
	s.received = m.Turn
	v := &s.View
	v.Turns, v.ExecutionID, v.Attempt, v.LastActivity = s.received, m.ExecutionID, m.Attempt, now
	v.Usage, v.Status, v.BlockedReason = v.Usage.Add(m.Usage), contract.MemberIdle, ""
	s.open, s.errors = true, nil
	if !s.inOpening { // before its moves: one of them may end the opening, and the round with it
		s.round++
	}
	if m.Bad != nil {
		c.RecordError(s, contract.Error{
			ID: moveID(s.Member, m.Turn, 0), Class: contract.ClassLLM, Code: contract.Code(fault.Clip(string(m.Bad.Code), KeyLength)), Message: fault.Clip(m.Bad.Message, contract.TextHead),
		}, 1)
		m.Moves = nil
	}
	if over := len(m.Moves) - c.Settings.MovesPerTurn; over > 0 {
		m.Moves = m.Moves[:c.Settings.MovesPerTurn]
		c.RecordError(s, contract.Error{
			ID: moveID(s.Member, m.Turn, 0), Class: contract.ClassLLM, Code: contract.CodeInvalidOutput,
			Message: fmt.Sprintf("a turn can have at most %d moves; the rest were ignored", c.Settings.MovesPerTurn),
		}, over)
	}
	for i, move := range m.Moves {
		if s.Dead { // revoked for one of these moves
			break
		}
		c.move(s, moveID(s.Member, m.Turn, i+1), move, now)
	}
	if s.done {
		v.Status = contract.MemberDone
	}
	c.RowStale = true
	c.advance()
}

// moveID returns the id of a move, or of a whole turn: ALPHA-3-2.
func moveID(m contract.Member, turn, n int) string { return fmt.Sprintf("%s-%d-%d", m, turn, n) }

// advance updates the state that depends on the last change: it wakes members and closes a round
// that is over.
func (c *State) advance() {
	if c.Status != contract.PipelineOrchestrating || c.Decided {
		return
	}
	for _, s := range c.Living() {
		if s.done && (c.hasUnseenSubtask(s) || slices.ContainsFunc(c.log[s.logRead:], func(h logEntry) bool { return c.wakes(s, h) })) {
			s.done, s.View.Status = false, contract.MemberIdle
			c.RowStale = true
		}
	}
	if c.roundsUsedUp() || !c.roundOver() {
		return
	}
	c.Metrics.Iterations++
	for _, s := range c.Participants {
		s.round, s.given = 0, 0
		if s.thinking() {
			s.given = 1
		}
	}
	c.RowStale = true
}

// roundsUsedUp reports whether the last round is over. Turns that began before its end still count
// (awaitsTurns); no other turn begins, except GAMMA's to validate an agreement.
func (c *State) roundsUsedUp() bool { return c.Metrics.Iterations >= c.Settings.Iterations }

// awaitsTurns reports whether a turn is running that began before the end of the last
// round and has time left.
func (c *State) awaitsTurns(now time.Time) bool {
	return slices.ContainsFunc(c.Living(), (*Participant).thinking) && now.Before(c.roundsOver.Add(c.Settings.ModelTimeout))
}

// roundOver reports whether each active peer has delivered a turn. If no peer is
// active, GAMMA's turns count.
func (c *State) roundOver() bool {
	delivered, active := 0, 0
	for _, s := range c.Participants {
		if s.Member == contract.Gamma {
			continue
		}
		if s.round > 0 {
			delivered++
		}
		if !s.Dead && !s.done {
			active++
			if s.round == 0 {
				return false
			}
		}
	}
	if delivered > 0 {
		return true
	}
	g := c.Participant(contract.Gamma)
	return active == 0 && g != nil && g.round > 0
}

// wakes reports whether a log entry wakes a member that is done.
func (c *State) wakes(s *Participant, h logEntry) bool {
	switch {
	case h.by == s.Member:
		return false
	case h.message != nil:
		return h.message.To == s.Member
	case h.post == nil || !h.fresh:
		return false
	case h.post.Kind == contract.MoveObject:
		about, _ := c.nameable(h.post.About)
		return about != nil && about.Author == s.Member && about.State == contract.EntryLive && h.post.State == contract.EntryLive
	case h.post.Kind == contract.MoveDecompose:
		return s.Member != contract.Gamma
	case h.post.Kind == contract.MoveSynthesise:
		author := c.Participant(h.by)
		return author != nil && !author.Dead && !author.done
	}
	return false
}

// maxStanding is the maximum number of entries whose current state a member is shown.
const maxStanding = 12

// stands returns the current state of syntheses, and of proposals with objections, for
// a member that is about to take a turn. Members take turns in parallel: only here do
// they see whether the others have read their moves.
func (c *State) stands(s *Participant) []contract.Standing {
	var out []contract.Standing
	for _, p := range c.board {
		open := c.objections(p)
		if p.State != contract.EntryLive || p.Kind != contract.MoveSynthesise && (p.Kind != contract.MovePropose || len(open) == 0) {
			continue
		}
		at := contract.Standing{Key: p.Key, Kind: p.Kind, Author: p.Author, Version: p.Version}
		for _, other := range c.Living() {
			if other != s && other.Member != p.Author {
				at.Shown = append(at.Shown, contract.ShownTo{Member: other.Member, Version: c.known(other, p)})
			}
		}
		for _, v := range c.counting() {
			if v.Key == p.Key {
				at.Votes = append(at.Votes, contract.Vote{Voter: v.Voter, Key: v.Key, Version: v.Version, Accept: v.Accept})
			}
		}
		for _, o := range open[:min(len(open), maxStanding)] {
			at.Open = append(at.Open, contract.Objection{Key: o.Key, Author: o.Author})
		}
		out = append(out, at)
	}
	return out[max(0, len(out)-maxStanding):]
}

// concerns reports whether a log entry is news to the member.
func (s *Participant) concerns(h logEntry) bool {
	if h.by == s.Member || h.to != "" && h.to != s.Member {
		return false
	}
	return h.ended != s.Member
}

// hasNews reports whether something happened that a member was not shown.
func (c *State) hasNews(s *Participant) bool {
	return slices.ContainsFunc(c.log[s.logRead:], s.concerns)
}

// TurnGrant is a turn for a member.
type TurnGrant struct {
	To   contract.Member
	Turn contract.Turn
}

// NextTurns gives a turn to each member that must take one now.
func (c *State) NextTurns(now time.Time) []TurnGrant {
	var out []TurnGrant
	for _, s := range c.due() {
		out = append(out, TurnGrant{s.Member, c.give(s, now)})
	}
	return out
}

// due returns the members that must take a turn now.
func (c *State) due() []*Participant {
	idle := slices.DeleteFunc(c.Living(), func(s *Participant) bool { return s.thinking() || s.done })
	switch c.Status {
	case contract.PipelineRunning:
		return slices.DeleteFunc(idle, func(s *Participant) bool { return s.granted > 0 || s.Member == contract.Gamma })
	case contract.PipelineOrchestrating:
	default:
		return nil
	}
	if c.roundsUsedUp() {
		owes := c.gammaOwesFirst()
		return slices.DeleteFunc(idle, func(s *Participant) bool { return !owes || s.Member != contract.Gamma })
	}
	quiet := !slices.ContainsFunc(c.Living(), (*Participant).thinking)
	return slices.DeleteFunc(idle, func(s *Participant) bool {
		return s.started && !quiet && (s.given >= turnsInRound || !c.hasNews(s) && !c.hasUnseenSubtask(s))
	})
}

// give returns a member's next turn, with its unread news.
func (c *State) give(s *Participant, now time.Time) contract.Turn {
	s.granted++
	t := contract.Turn{Token: s.token, Number: s.granted, Phase: PhaseExchange, News: c.news(s, now), Errors: s.errors, Model: s.Model}
	if s.inOpening = c.Status == contract.PipelineRunning; s.inOpening {
		t.Phase = PhaseOpening
	} else {
		s.started = true
		s.given++
	}
	s.logRead, s.errors, s.Model, s.joinReason = len(c.log), nil, nil, ""
	s.seenSubtasks = c.subtasksOf(s.Member)
	s.View.Phase, s.View.Status, s.View.BlockedReason = t.Phase, contract.MemberThinking, ""
	c.Metrics.BlackboardReads++
	c.RowStale = true
	return t
}

// news returns everything that happened since a member's last turn.
func (c *State) news(s *Participant, now time.Time) contract.News {
	n := contract.News{Round: c.round(), Rounds: c.Settings.Iterations, Why: s.joinReason}
	if c.Status == contract.PipelineOrchestrating {
		n.Left = c.exchangeAt.Add(c.ExchangeLimit).Sub(now).Round(time.Second).String()
		n.Members = c.views()
		n.Standing = c.stands(s)
	}
	told, whole, decomposed := map[*post]bool{}, slices.Clone(s.deferred), false
	for _, p := range whole {
		told[p] = true
	}
	for _, h := range c.log[s.logRead:] { // new entries are shown whole, in their current state
		if h.post == nil || !h.fresh || !s.concerns(h) {
			continue
		}
		decomposed = decomposed || h.post.Kind == contract.MoveDecompose
		if !told[h.post] {
			told[h.post] = true
			whole = append(whole, h.post)
		}
	}
	for _, p := range whole {
		e := p.Entry
		e.Subtasks = nil // shown separately
		n.Entries = append(n.Entries, e)
	}
	n.Subtasks = c.subtasksFor(s, decomposed)
	for _, h := range c.log[s.logRead:] {
		if !s.concerns(h) {
			continue
		}
		switch {
		case h.post != nil && !told[h.post]:
			told[h.post] = true
			e := h.post.Entry
			n.Changes = append(n.Changes, contract.StateChange{Section: e.Section, Key: e.Key, Kind: e.Kind, Author: e.Author, State: e.State, By: h.by})
		case h.message != nil:
			n.Messages = append(n.Messages, *h.message)
		case h.vote != nil:
			n.Votes = append(n.Votes, *h.vote)
		}
	}
	n, left := clipNews(n)
	s.deferred = whole[:left]
	return n
}

// RecordRefusal counts refused moves and signals, and records each one up to a limit.
func (c *State) RecordRefusal(e contract.Error, n int) {
	c.Metrics.Refused += n
	if c.refusalsRecorded >= MaxRefusalsRecorded {
		return
	}
	c.refusalsRecorded++
	e.Severity = e.Grade()
	c.errs = append(c.errs, e)
	c.AddEvent(contract.EventAgentError, map[string]any{
		"id": e.ID, "member": e.Member, "error_type": e.Class, "error_code": e.Code, "error_message": e.Message, "severity": e.Severity,
	})
	c.RowStale = true
}

// RecordError records an error and counts it against the member. Above a limit, the member is
// revoked.
func (c *State) RecordError(s *Participant, e contract.Error, n int) {
	e.Member = s.Member
	c.RecordRefusal(e, n)
	c.errorCount++
	s.View.Errors++
	if len(s.errors) < c.Settings.MovesPerTurn {
		s.errors = append(s.errors, e)
	}
	kind := string(e.Class) + "|" + string(e.Code) + "|" + fault.WithoutNumbers(e.Message)
	s.repeats[kind]++
	if e.Class == contract.ClassSafety {
		s.violations++
	}
	switch c.Settings.AgentLimits().Exceeded(s.View.Errors, s.repeats[kind], s.violations) {
	case contract.ExceededViolations:
		c.Revoke(s, fmt.Sprintf("it broke the rules %d times; the last time: %s", s.violations, e.Message), e)
	case contract.ExceededRepeats:
		c.Revoke(s, fmt.Sprintf("it made the same error %d times: %s", s.repeats[kind], e.Message), e)
	case contract.ExceededErrors:
		c.Revoke(s, fmt.Sprintf("it made %d errors; the last: %s", s.View.Errors, e.Message), e)
	}
}

// Revoke ends a member. Its partner continues without it.
func (c *State) Revoke(s *Participant, why string, e contract.Error) {
	if s.Dead {
		return
	}
	s.RevokeReason = why
	c.end(s, contract.MemberRevoked, &contract.Failure{Class: e.Class, Code: e.Code, Message: fmt.Sprintf("%s was revoked: %s", s.Member, why)})
}

// end records the end of a member.
func (c *State) end(s *Participant, status contract.MemberStatus, failure *contract.Failure) {
	s.Dead, s.done = true, false
	s.View.Status, s.View.Phase, s.View.Failure = status, phaseEnded, failure
	if failure != nil {
		s.View.BlockedReason = fault.Clip(failure.Message, contract.TextHead)
	}
	c.log = append(c.log, logEntry{by: s.Member, ended: s.Member})
	c.tellEnd(s, map[string]any{"failure": failure})
	c.assign()
	c.advance()
}

// EndParticipants records the end of the remaining members, which end with the deliberation.
func (c *State) EndParticipants(status contract.MemberStatus) {
	for _, s := range c.Living() {
		s.Dead = true
		s.View.Status, s.View.Phase, s.View.BlockedReason = status, phaseEnded, ""
		c.tellEnd(s, nil)
	}
}

// tellEnd adds the event for the end of a member, with more details.
func (c *State) tellEnd(s *Participant, more map[string]any) {
	v := s.View
	c.AddEvent(contract.EventAgentEnded, with(map[string]any{
		"member": s.Member, "status": v.Status, "turns": v.Turns, "usage": v.Usage, "errors": v.Errors, "role": v.Role, "model": c.modelOf(s.Member),
	}, more))
}

// with returns a payload with more keys.
func with(payload, more map[string]any) map[string]any {
	for _, key := range workflow.DeterministicKeys(more) {
		payload[key] = more[key]
	}
	return payload
}

// modelOf returns the model that a member uses.
func (c *State) modelOf(m contract.Member) contract.ModelChoice {
	return c.Settings.Models[m.Agent()]
}

// Agents returns the members, with their roles and models.
func (c *State) Agents() []map[string]any {
	out := []map[string]any{}
	for _, s := range c.Participants {
		out = append(out, map[string]any{"member": s.Member, "role": s.View.Role, "model": c.modelOf(s.Member), "status": s.View.Status})
	}
	return out
}

// round is the current round of the exchange, from 1; before and after the exchange it
// is the number of rounds so far.
func (c *State) round() int {
	if c.Status != contract.PipelineOrchestrating || c.Decided {
		return c.Metrics.Iterations
	}
	return min(c.Metrics.Iterations+1, c.Settings.Iterations)
}

// CloseRound counts a round that was cut short by the end, if any member took a turn in it.
func (c *State) CloseRound() {
	if !c.roundsUsedUp() && slices.ContainsFunc(c.Participants, func(s *Participant) bool { return s.round > 0 }) {
		c.Metrics.Iterations++
	}
}

// MemberEnded records that a member's workflow has returned. Its usage is exact: it includes turns
// that never arrived.
func (c *State) MemberEnded(m contract.Member, r contract.MemberResult) {
	s := c.Participant(m)
	if r.ExecutionID != 0 {
		s.View.ExecutionID, s.View.Attempt = r.ExecutionID, r.Attempt
	}
	if r.Usage.Calls >= s.View.Usage.Calls {
		s.View.Usage = r.Usage
	}
	s.View.Late = max(0, r.Turns-s.received)
	c.RowStale = true
	if s.Dead || c.Closed {
		return
	}
	failure := r.Failure
	if failure == nil {
		failure = &fault.New(contract.ClassInfra, contract.CodeCancelled, "%s was cancelled externally", m).Failure
	}
	c.end(s, contract.MemberFailed, failure)
}

// lateOpenings marks the members that have not delivered their opening turns in time.
func (c *State) lateOpenings(now time.Time) {
	if c.Status != contract.PipelineRunning || now.Before(c.openedAt.Add(c.Settings.OpeningTimeout)) {
		return
	}
	for _, s := range c.livingPeers() {
		if !s.open && !s.late {
			s.late = true
			s.View.Status, s.View.BlockedReason = contract.MemberTimedOut, fmt.Sprintf("its opening turn took longer than %s", c.Settings.OpeningTimeout)
			c.RowStale = true
		}
	}
}

// OpeningOver reports whether every member has finished the opening or timed out.
func (c *State) OpeningOver(now time.Time) bool {
	c.lateOpenings(now)
	return !slices.ContainsFunc(c.livingPeers(), func(s *Participant) bool { return !s.open && !s.late })
}

// GammaWanted returns the reason why GAMMA must join now, if there is one. It joins only once.
func (c *State) GammaWanted(now time.Time) (contract.GammaReason, bool) {
	if c.Participant(contract.Gamma) != nil || c.roundsUsedUp() && !c.gammaOwesFirst() {
		return "", false
	}
	s := c.Settings
	complexity := max(c.Input.Task.Complexity, c.maxComplexity)
	switch {
	case c.Input.Inherited != nil || c.Input.Attempt > 1:
		return contract.GammaRecovery, true
	case s.ForceGamma:
		return contract.GammaForced, true
	case s.GammaComplexityOver > 0 && complexity > s.GammaComplexityOver:
		return contract.GammaComplexity, true
	case c.Status != contract.PipelineOrchestrating:
		return "", false
	case s.GammaConflictAt > 0 && c.liveProposals() >= s.GammaConflictAt:
		return contract.GammaConflict, true
	case c.peersDone():
		return contract.GammaSuccess, true
	case c.stuckSince(now):
		return contract.GammaStuck, true
	}
	return "", false
}

// stuckSince reports whether an active member has made no progress for too long.
func (c *State) stuckSince(now time.Time) bool {
	after := c.Settings.GammaStuckAfter
	return after > 0 && slices.ContainsFunc(c.livingPeers(), func(s *Participant) bool {
		return !s.done && !now.Before(s.progress.Add(after))
	})
}

// agreement returns the version that all remaining peers accept, nil if there is none.
func (c *State) agreement() *Choice { return c.agreementBy(c.counting()) }

// lastAgreement returns the latest version that all remaining peers accepted, even if one of them
// has written a new version since: this is better than ending without an agreement.
func (c *State) lastAgreement() *Choice { return c.agreementBy(c.votes) }

// counting returns the valid votes: a vote for an earlier version is invalid if the voter has
// written a new version since.
func (c *State) counting() []contract.Vote {
	return slices.DeleteFunc(slices.Clone(c.votes), func(v contract.Vote) bool { return c.outdated[v.ID] })
}

func (c *State) agreementBy(votes []contract.Vote) *Choice {
	left := c.livingPeers()
	if len(left) == 0 {
		return nil
	}
	accepts := func(m contract.Member, key string, version int) bool {
		return slices.ContainsFunc(votes, func(v contract.Vote) bool {
			return v.Voter == m && v.Key == key && v.Version == version && v.Accept
		})
	}
	for _, v := range slices.Backward(votes) { // newest first
		if v.Accept && !slices.ContainsFunc(left, func(s *Participant) bool { return !accepts(s.Member, v.Key, v.Version) }) {
			return &Choice{Key: v.Key, Version: v.Version}
		}
	}
	return nil
}

// Outcome is how a deliberation ends.
type Outcome struct {
	Status  contract.PipelineStatus
	Abort   contract.AbortReason
	Choice  *Choice
	Failure *contract.Failure
}

// Conclude returns how the exchange ends, nil if it does not end now.
func (c *State) Conclude(now time.Time) *Outcome {
	if c.verdict != nil {
		return &Outcome{Status: contract.PipelineCompleted, Choice: c.verdict}
	}
	if out := c.PeersGone(); out != nil {
		return out
	}
	if c.roundsUsedUp() && c.roundsOver.IsZero() {
		c.roundsOver = now
	}
	agreed, abort := c.agreement(), c.abortReason(now)
	if agreed == nil && abort != "" {
		agreed = c.lastAgreement()
	}
	switch {
	case agreed != nil && (!c.awaitsGamma(agreed) || abort != ""):
		return &Outcome{Status: contract.PipelineCompleted, Choice: agreed}
	case agreed != nil:
		return nil
	case abort == contract.AbortTimeout:
		return &Outcome{Status: contract.PipelineTimeout, Abort: abort}
	case abort != "":
		return &Outcome{Status: contract.PipelineOrchestrationFailed, Abort: abort}
	case c.peersDone() && c.gammaIsThrough():
		return &Outcome{Status: contract.PipelineOrchestrationFailed}
	}
	return nil
}

// PeersGone returns the outcome of a pipeline without peers.
func (c *State) PeersGone() *Outcome {
	if len(c.livingPeers()) > 0 {
		return nil
	}
	out := &Outcome{Status: contract.PipelineFailed}
	for _, h := range c.log { // the last peer that ended is the reason
		if s := c.Participant(h.ended); s != nil && s.Member != contract.Gamma {
			out.Failure = s.View.Failure
		}
	}
	return out
}

// awaitsGamma reports whether an agreement waits for GAMMA: both peers are done, and GAMMA has not
// responded yet.
func (c *State) awaitsGamma(agreed *Choice) bool {
	if c.Participant(contract.Gamma) == nil {
		return c.peersDone()
	}
	v := c.validating
	return v != nil && v.Key == agreed.Key && v.Version == agreed.Version && !c.gammaIsThrough()
}

// gammaIsThrough reports whether GAMMA will take no more turns.
func (c *State) gammaIsThrough() bool {
	g := c.Participant(contract.Gamma)
	return g != nil && (g.Dead || g.done)
}

// abortReason returns why the deliberation must be aborted, if it must.
func (c *State) abortReason(now time.Time) contract.AbortReason {
	after := c.Settings.AbortAfter
	stuck := after > 0 && !now.Before(c.LastProgress.Add(after))
	switch {
	case c.ExchangeLimit > 0 && !now.Before(c.exchangeAt.Add(c.ExchangeLimit)):
		return contract.AbortTimeout
	case c.roundsUsedUp() && !c.gammaOwesFirst() && (stuck || !c.awaitsTurns(now)):
		return contract.AbortIterationLimit
	case stuck:
		return contract.AbortStuck
	}
	return ""
}

// gammaOwesFirst reports whether GAMMA must validate and has not taken a turn yet: it may take that
// turn even after the last round.
func (c *State) gammaOwesFirst() bool {
	if c.agreement() == nil {
		return false
	}
	g := c.Participant(contract.Gamma)
	return g == nil && c.peersDone() || g != nil && c.validating != nil && g.received == 0 && !g.Dead
}

// NextDeadline returns the next time at which a time limit changes the state; zero if there is
// none.
func (c *State) NextDeadline(now time.Time) time.Time {
	var next time.Time
	at := func(t time.Time) {
		if t.After(now) && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	switch c.Status {
	case contract.PipelineRunning:
		at(c.openedAt.Add(c.Settings.OpeningTimeout))
	case contract.PipelineReport:
		at(c.reportedAt.Add(c.Settings.ContinueWait))
	case contract.PipelineOrchestrating:
		at(c.exchangeAt.Add(c.ExchangeLimit))
		at(c.LastProgress.Add(c.Settings.AbortAfter))
		if !c.roundsOver.IsZero() {
			at(c.roundsOver.Add(c.Settings.ModelTimeout))
		}
		if after := c.Settings.GammaStuckAfter; after > 0 && c.Participant(contract.Gamma) == nil {
			for _, s := range c.livingPeers() {
				if !s.done {
					at(s.progress.Add(after))
				}
			}
		}
	default:
	}
	return next
}

// SwitchModels switches members to other models from their next turn on; source says what determines
// them.
func (c *State) SwitchModels(models map[contract.Agent]contract.ModelChoice, source string) {
	next, sources := map[contract.Agent]contract.ModelChoice{}, map[contract.Agent]string{}
	for _, m := range contract.Members() {
		if from, ok := c.Settings.ModelSources[m.Agent()]; ok {
			sources[m.Agent()] = from
		}
		next[m.Agent()] = c.Settings.Models[m.Agent()]
		other, ok := models[m.Agent()]
		if !ok {
			continue
		}
		next[m.Agent()] = other
		if other == c.Settings.Models[m.Agent()] {
			continue
		}
		sources[m.Agent()] = source
		if s := c.Participant(m); s != nil {
			s.Model = &other
		}
	}
	c.Settings.Models, c.Settings.ModelSources = next, sources
}
