// Package state is what a deliberation knows and decides: participants, blackboard,
// votes, rounds. It is a pure state machine: time comes in as an argument, and what
// is to be written waits in it until somebody writes it.
package state

import (
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// State is all that a deliberation knows: its members, the blackboard,
// messages, votes and what they amount to. It is pure. What happens comes in
// through its methods, with the time at which it happens; what is to be written
// gathers in its outbox. The workflow around it carries out what it decides.
type State struct {
	outbox
	Input         contract.DeliberationInput
	Settings      contract.DeliberationSettings
	SettingsStale bool // the row does not show the settings as they are
	Status        contract.PipelineStatus
	waiting       string        // for what, by name
	ExchangeLimit time.Duration // of the exchange

	Participants []*Participant // ALPHA, BETA, and GAMMA once it joined
	board        []*post
	messages     []contract.Message
	votes        []contract.Vote    // the last one of each voter on each version
	outdated     map[string]bool    // ids of votes whose voters wrote a new version since
	subtasks     []contract.Subtask // that GAMMA made of the objective
	log          []logEntry         // what members are told of, in order
	Metrics      contract.DeliberationMetrics

	refusalsRecorded int     // refusals that were recorded one by one
	errorCount       int     // errors of members
	verdict          *Choice // GAMMA's
	Decision         *contract.Decision
	validating       *Choice   // what both agreed on and GAMMA is asked about
	rivalry          bool      // two proposals or more are live
	maxComplexity    float64   // the highest complexity that an analysis found
	openedAt         time.Time // when the opening began
	exchangeAt       time.Time // when the exchange began
	LastProgress     time.Time // of anybody
	reportedAt       time.Time // when the checkpoint was reported
	roundsOver       time.Time // when the last round was; zero: it is not
	Decided          bool      // how it ends is known; what members say makes no rounds any more
	Closed           bool      // nothing that members say counts any more
	Ending           Ending    // what the row says of the end
}

// Ending is what a pipeline's row says of how it ended.
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

// Participant is what is known of one member.
type Participant struct {
	Member contract.Member
	token  string // who knows it speaks as this member
	View   contract.MemberView

	granted   int  // number of the last turn that it was given
	received  int  // number of the last turn that it delivered
	inOpening bool // the turn that it was given belongs to the opening
	started   bool // it was given a turn of the exchange
	early     map[int]contract.Moves
	logRead   int // how much of the log it was told
	open      bool
	late      bool // with its opening work
	done      bool
	Dead      bool

	progress     time.Time
	round        int // turns delivered in this round
	given        int // turns given in this round
	errors       []contract.Error
	repeats      map[string]int
	violations   int
	seenSubtasks []string              // subtasks that it was told are its own
	deferred     []*post               // what there was no room to tell it
	joinReason   string                // GAMMA joined
	Model        *contract.ModelChoice // to be used from its next turn on
	RevokeReason string                // why it is revoked; its workflow is to be cancelled
}

// logEntry is one thing that members are told of.
type logEntry struct {
	by      contract.Member
	to      contract.Member // alone; empty: everybody
	post    *post
	fresh   bool // the post's version is new
	message *contract.Message
	vote    *contract.Vote
	ended   contract.Member
}

// Choice is a version of an entry that was agreed upon.
type Choice struct {
	Key     string
	Version int
	By      contract.Member // GAMMA: its verdict; empty: votes
	text    contract.Text   // of a verdict
}

const (
	// maxEarlyTurns is how many turns of a member wait for earlier ones.
	maxEarlyTurns = 4
	// turnsInRound is how many turns a member is given within one round: one that
	// answers at once must not spend without end while another one thinks.
	turnsInRound = 3
	// MaxRefusalsRecorded is how many refusals are recorded one by one. Those of a flood
	// are counted.
	MaxRefusalsRecorded = 100
	// KeyLength is how many bytes a key may have.
	KeyLength = 64
	// objectionKeyLength is how many bytes the key of an objection may have, which ends
	// with the move that made it.
	objectionKeyLength = KeyLength + 32
	// MaxContextNotes is how many notes from outside a failure context keeps.
	MaxContextNotes = 20
)

// New returns the state of a deliberation that begins now, with the task and what
// it inherits on the blackboard.
func New(in contract.DeliberationInput, now time.Time) *State {
	c := &State{
		Input: in, Settings: in.Settings, Status: contract.PipelineSpawned,
		Metrics: contract.DeliberationMetrics{Start: now}, LastProgress: now, ExchangeLimit: in.Settings.ExchangeTime(in.Task), outdated: map[string]bool{},
	}
	c.seed(now)
	return c
}

// Peers are those who deliberate; GAMMA only mediates.
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

// beginExchange lets everybody take part anew: what a member said of being done
// with its opening work is no word on the exchange.
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

// roles say what the members are there for.
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

// Join gives a member its seat.
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

// gammaReasonText tells GAMMA what it is there for.
var gammaReasonText = map[contract.GammaReason]string{
	contract.GammaStuck:      "STUCK: an agent showed no progress for a while; help the others to go on",
	contract.GammaConflict:   "CONFLICT: too many proposals are unresolved; bring them together",
	contract.GammaComplexity: "COMPLEXITY: the objective was found to be complex; break it down for the others, and keep the exchange on what matters",
	contract.GammaSuccess:    "SUCCESS: the others say that they are done; validate what they agreed on, or decide where they did not agree",
	contract.GammaRecovery:   "RECOVERY: an earlier attempt failed; see the recovery context",
	contract.GammaForced:     "FORCED: you were asked for when this was started",
}

// Participant returns the seat of a member, nil if it never joined.
func (c *State) Participant(m contract.Member) *Participant {
	for _, s := range c.Participants {
		if s.Member == m {
			return s
		}
	}
	return nil
}

// Living returns who is still there.
func (c *State) Living() []*Participant {
	var out []*Participant
	for _, s := range c.Participants {
		if !s.Dead {
			out = append(out, s)
		}
	}
	return out
}

// livingPeers returns which of ALPHA and BETA are still there.
func (c *State) livingPeers() []*Participant {
	return slices.DeleteFunc(c.Living(), func(s *Participant) bool { return s.Member == contract.Gamma })
}

// peersDone reports whether all peers that are left are done.
func (c *State) peersDone() bool {
	left := c.livingPeers()
	return len(left) > 0 && !slices.ContainsFunc(left, func(s *Participant) bool { return !s.done })
}

func (s *Participant) thinking() bool { return s.granted > s.received }

// Receive takes what came as a member's moves. Who it is from is what its token
// says. Each turn counts once, in order: early ones wait, those that came before
// are dropped.
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

// speaker returns the member that a signal is from. One that lies about it is
// refused, and nobody is blamed: a member's workflow has its name from its
// deliberation, so whoever shows its token under another name has stolen it, and
// must not be able to have it revoked.
func (c *State) speaker(m contract.Moves) *Participant {
	if c.Closed {
		return nil
	}
	s := c.ByToken(m.Token)
	forged := contract.Error{Class: contract.ClassSafety, Code: contract.CodeForbidden}
	switch {
	case s == nil:
		forged.Message = "moves came with a token that no member has"
		if m.Member.Valid() {
			forged.Member = m.Member
			forged.Message = fmt.Sprintf("moves came in the name of %s with a token that it does not have", m.Member)
		}
		c.RecordRefusal(forged, 1)
		return nil
	case m.Member != s.Member:
		forged.Member = s.Member
		forged.Message = fmt.Sprintf("moves came in the name of another with the token of %s", s.Member)
		c.RecordRefusal(forged, 1)
		return nil
	}
	return s
}

// ByToken returns the member whose token this is, nil if it is nobody's.
func (c *State) ByToken(token string) *Participant {
	for _, s := range c.Participants {
		if token != "" && s.token == token {
			return s
		}
	}
	return nil
}

// keepEarly keeps an early turn until those before it have come.
func (c *State) keepEarly(s *Participant, m contract.Moves) {
	if _, have := s.early[m.Turn]; have {
		return
	}
	if len(s.early) >= maxEarlyTurns || m.Turn > s.received+maxEarlyTurns || len(m.Moves) > c.Settings.MovesPerTurn {
		c.RecordRefusal(contract.Error{Member: s.Member, Class: contract.ClassLLM, Code: contract.CodeInvalidOutput, Message: fmt.Sprintf("turn %d of %s came before it was given", m.Turn, s.Member)}, 1)
		return
	}
	s.early[m.Turn] = m
}

// ReceiveEarly takes turns that waited for those before them, and reports whether there
// were any.
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
	if !s.inOpening { // before its moves: one of them may end it, and with it the round
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
			Message: fmt.Sprintf("a turn has at most %d moves; the others were not taken", c.Settings.MovesPerTurn),
		}, over)
	}
	for i, move := range m.Moves {
		if s.Dead { // revoked for one of them
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

// moveID names a move, or a turn as a whole: ALPHA-3-2.
func moveID(m contract.Member, turn, n int) string { return fmt.Sprintf("%s-%d-%d", m, turn, n) }

// advance draws the conclusions of what has just happened: who is woken, and
// whether a round is over.
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

// roundsUsedUp reports whether the last round is over. Turns that began before are
// still heard (hearsOut); no other one begins, but GAMMA's to validate an agreement.
func (c *State) roundsUsedUp() bool { return c.Metrics.Iterations >= c.Settings.Iterations }

// awaitsTurns reports whether a turn is under way that began before the end of the
// last round, and may take that long yet.
func (c *State) awaitsTurns(now time.Time) bool {
	return slices.ContainsFunc(c.Living(), (*Participant).thinking) && now.Before(c.roundsOver.Add(c.Settings.ModelTimeout))
}

// roundOver reports whether each peer that is at work has delivered a turn. Where
// none is left at work GAMMA's turns count.
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

// wakes reports whether one that said that it is done has to hear of this.
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

// mostStanding bounds what a member is told of where things stand.
const mostStanding = 12

// stands is where syntheses stand, and proposals that are objected to, for a member
// that is about to take a turn. Members take turns side by side: only here they see
// whether what they said has reached the others.
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
		for _, o := range open[:min(len(open), mostStanding)] {
			at.Open = append(at.Open, contract.Objection{Key: o.Key, Author: o.Author})
		}
		out = append(out, at)
	}
	return out[max(0, len(out)-mostStanding):]
}

// concerns reports whether something is news to a member.
func (s *Participant) concerns(h logEntry) bool {
	if h.by == s.Member || h.to != "" && h.to != s.Member {
		return false
	}
	return h.ended != s.Member
}

// hasNews reports whether something happened that a member was not told.
func (c *State) hasNews(s *Participant) bool {
	return slices.ContainsFunc(c.log[s.logRead:], s.concerns)
}

// TurnGrant is a turn that a member is given.
type TurnGrant struct {
	To   contract.Member
	Turn contract.Turn
}

// NextTurns gives turns to those who are to take one now.
func (c *State) NextTurns(now time.Time) []TurnGrant {
	var out []TurnGrant
	for _, s := range c.due() {
		out = append(out, TurnGrant{s.Member, c.give(s, now)})
	}
	return out
}

// due returns who is to take a turn now.
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

// give makes a member's next turn, with what it was not told yet.
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

// news is what happened since a member was last told.
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
	for _, h := range c.log[s.logRead:] { // what is new is told whole, with its state as it is now
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
		e.Subtasks = nil // told by themselves
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

// RecordRefusal counts moves and signals that were not taken, and records them while
// they are few.
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

// RecordError refuses what a member did and counts it against the member. Past a limit
// the member is revoked.
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
	switch c.Settings.AgentLimits().Past(s.View.Errors, s.repeats[kind], s.violations) {
	case contract.OffenceViolations:
		c.Revoke(s, fmt.Sprintf("it broke the rules %d times, last: %s", s.violations, e.Message), e)
	case contract.OffenceRepeats:
		c.Revoke(s, fmt.Sprintf("it made the same error %d times: %s", s.repeats[kind], e.Message), e)
	case contract.OffenceErrors:
		c.Revoke(s, fmt.Sprintf("it made %d errors, last: %s", s.View.Errors, e.Message), e)
	}
}

// Revoke ends a member. The partner goes on alone.
func (c *State) Revoke(s *Participant, why string, e contract.Error) {
	if s.Dead {
		return
	}
	s.RevokeReason = why
	c.end(s, contract.MemberRevoked, &contract.Failure{Class: e.Class, Code: e.Code, Message: fmt.Sprintf("%s was revoked: %s", s.Member, why)})
}

// end notes that a member is gone.
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

// EndParticipants notes how those who are left end, with the deliberation.
func (c *State) EndParticipants(status contract.MemberStatus) {
	for _, s := range c.Living() {
		s.Dead = true
		s.View.Status, s.View.Phase, s.View.BlockedReason = status, phaseEnded, ""
		c.tellEnd(s, nil)
	}
}

// tellEnd tells that a member is gone, and more of it.
func (c *State) tellEnd(s *Participant, more map[string]any) {
	v := s.View
	c.AddEvent(contract.EventAgentEnded, with(map[string]any{
		"member": s.Member, "status": v.Status, "turns": v.Turns, "usage": v.Usage, "errors": v.Errors, "role": v.Role, "model": c.modelOf(s.Member),
	}, more))
}

// with adds to a payload.
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

// Agents says who is there, in which role and with which model.
func (c *State) Agents() []map[string]any {
	out := []map[string]any{}
	for _, s := range c.Participants {
		out = append(out, map[string]any{"member": s.Member, "role": s.View.Role, "model": c.modelOf(s.Member), "status": s.View.Status})
	}
	return out
}

// round is the round of the exchange that is under way, from 1; before and after the
// exchange it is how many there were.
func (c *State) round() int {
	if c.Status != contract.PipelineOrchestrating || c.Decided {
		return c.Metrics.Iterations
	}
	return min(c.Metrics.Iterations+1, c.Settings.Iterations)
}

// CloseRound counts the round in which it ended, if anybody took a turn in it.
func (c *State) CloseRound() {
	if !c.roundsUsedUp() && slices.ContainsFunc(c.Participants, func(s *Participant) bool { return s.round > 0 }) {
		c.Metrics.Iterations++
	}
}

// MemberEnded notes that a member's workflow has returned. Its count of what it spent
// is the true one: that of a turn that never arrived is in it too.
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
		failure = &fault.New(contract.ClassInfra, contract.CodeCancelled, "%s was cancelled from outside", m).Failure
	}
	c.end(s, contract.MemberFailed, failure)
}

// lateOpenings marks who has not delivered its opening work in time.
func (c *State) lateOpenings(now time.Time) {
	if c.Status != contract.PipelineRunning || now.Before(c.openedAt.Add(c.Settings.OpeningTimeout)) {
		return
	}
	for _, s := range c.livingPeers() {
		if !s.open && !s.late {
			s.late = true
			s.View.Status, s.View.BlockedReason = contract.MemberTimedOut, fmt.Sprintf("its opening work took longer than %s", c.Settings.OpeningTimeout)
			c.RowStale = true
		}
	}
}

// OpeningOver reports whether everybody is done with the opening or timed out.
func (c *State) OpeningOver(now time.Time) bool {
	c.lateOpenings(now)
	return !slices.ContainsFunc(c.livingPeers(), func(s *Participant) bool { return !s.open && !s.late })
}

// GammaWanted says why GAMMA has to join now, if it has to. It joins once.
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

// stuckSince reports whether a member at work has shown no progress for too long.
func (c *State) stuckSince(now time.Time) bool {
	after := c.Settings.GammaStuckAfter
	return after > 0 && slices.ContainsFunc(c.livingPeers(), func(s *Participant) bool {
		return !s.done && !now.Before(s.progress.Add(after))
	})
}

// agreement is the version that the peers who are left accept, nil if there is
// none.
func (c *State) agreement() *Choice { return c.agreementBy(c.counting()) }

// lastAgreement is an earlier version that all accepted, though one of them wrote a new
// version since: rather that than nothing, where a deliberation would end without any.
func (c *State) lastAgreement() *Choice { return c.agreementBy(c.votes) }

// counting are the votes that count: those for earlier versions of who wrote a new one
// since do not.
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
	for _, v := range slices.Backward(votes) { // the newest first
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

// Conclude says how the exchange ends, if it does now.
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

// PeersGone is the end of a pipeline that nobody is left in.
func (c *State) PeersGone() *Outcome {
	if len(c.livingPeers()) > 0 {
		return nil
	}
	out := &Outcome{Status: contract.PipelineFailed}
	for _, h := range c.log { // the last that ended is why
		if s := c.Participant(h.ended); s != nil && s.Member != contract.Gamma {
			out.Failure = s.View.Failure
		}
	}
	return out
}

// awaitsGamma reports whether what was agreed waits for GAMMA's word: both say
// that they are done, and GAMMA has not spoken yet.
func (c *State) awaitsGamma(agreed *Choice) bool {
	if c.Participant(contract.Gamma) == nil {
		return c.peersDone()
	}
	v := c.validating
	return v != nil && v.Key == agreed.Key && v.Version == agreed.Version && !c.gammaIsThrough()
}

// gammaIsThrough reports whether no word of GAMMA's can be waited for any more.
func (c *State) gammaIsThrough() bool {
	g := c.Participant(contract.Gamma)
	return g != nil && (g.Dead || g.done)
}

// abortReason says why the deliberation has to be given up, if it has to.
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

// gammaOwesFirst reports whether GAMMA was asked to validate and has not taken a
// turn: the limit of rounds does not take that from it.
func (c *State) gammaOwesFirst() bool {
	if c.agreement() == nil {
		return false
	}
	g := c.Participant(contract.Gamma)
	return g == nil && c.peersDone() || g != nil && c.validating != nil && g.received == 0 && !g.Dead
}

// NextDeadline is the next moment at which time alone changes something; zero: none.
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

// SwitchModels lets members use other models from their next turn on.
func (c *State) SwitchModels(models map[contract.Agent]contract.ModelChoice) {
	next := map[contract.Agent]contract.ModelChoice{}
	for _, m := range contract.Members() {
		next[m.Agent()] = c.Settings.Models[m.Agent()]
		other, ok := models[m.Agent()]
		if !ok {
			continue
		}
		next[m.Agent()] = other
		if s := c.Participant(m); s != nil && other != c.Settings.Models[m.Agent()] {
			s.Model = &other
		}
	}
	c.Settings.Models = next
}
