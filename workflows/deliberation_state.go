package workflows

import (
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// council is all that a deliberation knows: its members, the blackboard,
// messages, votes and what they amount to. It is pure. What happens comes in
// through its methods, with the time at which it happens; what is to be written
// gathers in its outbox. The workflow around it carries out what it decides.
type council struct {
	outbox
	in       contract.DeliberationInput
	settings contract.DeliberationSettings
	altered  bool // the row does not show the settings as they are
	status   contract.PipelineStatus
	waiting  string        // for what, by name
	limit    time.Duration // of the exchange

	seats    []*seat // ALPHA, BETA, and GAMMA once it joined
	board    []*post
	messages []contract.Message
	votes    []contract.Vote    // the last one of each voter on each version
	outdated map[string]bool    // ids of votes whose voters wrote a new version since
	parts    []contract.Subtask // that GAMMA made of the objective
	log      []happening        // what members are told of, in order
	metrics  contract.DeliberationMetrics

	toldOfErrors int     // refusals that were recorded one by one
	errorCount   int     // errors of members
	verdict      *choice // GAMMA's
	decision     *contract.Decision
	validating   *choice     // what both agreed on and GAMMA is asked about
	rivalry      bool        // two proposals or more are live
	analysed     float64     // the highest complexity that an analysis found
	opened       time.Time   // when the opening began
	exchange     time.Time   // when the exchange began
	lastProgress time.Time   // of anybody
	reported     time.Time   // when the checkpoint was reported
	roundsOver   time.Time   // when the last round was; zero: it is not
	decided      bool        // how it ends is known; what members say makes no rounds any more
	over         bool        // nothing that members say counts any more
	ending       endingState // what the row says of the end
}

// endingState is what a pipeline's row says of how it ended.
type endingState struct {
	abort     contract.AbortReason
	handoff   string
	recovery  int64
	context   *contract.FailureContext
	consensus *contract.Entry
	failure   *contract.Failure
	notes     []string // from outside, for the failure context
	finished  bool
}

// seat is what is known of one member.
type seat struct {
	member contract.Member
	token  string // who knows it speaks as this member
	view   contract.MemberView

	granted int  // number of the last turn that it was given
	taken   int  // number of the last turn that it delivered
	early   bool // the turn that it was given belongs to the opening
	started bool // it was given a turn of the exchange
	held    map[int]contract.Moves
	told    int // how much of the log it was told
	open    bool
	late    bool // with its opening work
	done    bool
	dead    bool

	progress time.Time
	round    int // turns delivered in this round
	given    int // turns given in this round
	errors   []contract.Error
	repeats  map[string]int
	violated int
	parts    []string              // subtasks that it was told are its own
	owed     []*post               // what there was no room to tell it
	why      string                // GAMMA joined
	model    *contract.ModelChoice // to be used from its next turn on
	revoke   string                // why it is revoked; its workflow is to be cancelled
}

// happening is one thing that members are told of.
type happening struct {
	by      contract.Member
	to      contract.Member // alone; empty: everybody
	post    *post
	fresh   bool // the post's version is new
	message *contract.Message
	vote    *contract.Vote
	ended   contract.Member
}

// choice is a version of an entry that was agreed upon.
type choice struct {
	key     string
	version int
	by      contract.Member // GAMMA: its verdict; empty: votes
	text    contract.Text   // of a verdict
}

const (
	// heldTurns is how many turns of a member wait for earlier ones.
	heldTurns = 4
	// turnsInRound is how many turns a member is given within one round: one that
	// answers at once must not spend without end while another one thinks.
	turnsInRound = 3
	// toldErrors is how many refusals are recorded one by one. Those of a flood
	// are counted.
	toldErrors = 100
	// keyLength is how many bytes a key may have.
	keyLength = 64
	// objectionKeyLength is how many bytes the key of an objection may have, which ends
	// with the move that made it.
	objectionKeyLength = keyLength + 32
	// contextNotes is how many notes from outside a failure context keeps.
	contextNotes = 20
)

func newCouncil(in contract.DeliberationInput, now time.Time) *council {
	c := &council{
		in: in, settings: in.Settings, status: contract.PipelineSpawned,
		metrics: contract.DeliberationMetrics{Start: now}, lastProgress: now, limit: in.Settings.ExchangeTime(in.Task), outdated: map[string]bool{},
	}
	c.seed(now)
	return c
}

// peers are those who deliberate; GAMMA only mediates.
func peers() []contract.Member { return []contract.Member{contract.Alpha, contract.Beta} }

// become moves the pipeline to another status.
func (c *council) become(s contract.PipelineStatus, now time.Time, waiting string) {
	from := c.status
	c.status, c.waiting = s, waiting
	switch s {
	case contract.PipelineRunning:
		c.opened = now
	case contract.PipelineReport:
		c.reported = now
	case contract.PipelineOrchestrating:
		c.beginExchange(now)
	default:
	}
	c.tell(contract.EventPipelineUpdated, map[string]any{"status": s, "from": from, "waiting_for": waiting, "attempt": c.in.Attempt})
	if s == contract.PipelineOrchestrating {
		c.tell(contract.EventOrchestrationStarted, map[string]any{"mode": c.settings.Mode, "task_id": c.in.Task.TaskID, "agents": c.agents()})
	}
}

// beginExchange lets everybody take part anew: what a member said of being done
// with its opening work is no word on the exchange.
func (c *council) beginExchange(now time.Time) {
	c.exchange, c.lastProgress = now, now
	for _, s := range c.living() {
		s.done, s.progress = false, now
		if s.view.Status == contract.MemberDone {
			s.view.Status = contract.MemberIdle
		}
		s.view.Phase = phaseExchange
	}
	c.changed = true
}

// The phases of members.
const (
	phaseOpening  = "opening"
	phaseExchange = "exchange"
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

// join gives a member its seat.
func (c *council) join(m contract.Member, token string, reason contract.GammaReason, now time.Time) {
	s := &seat{
		member: m, token: token, progress: now, held: map[int]contract.Moves{}, repeats: map[string]int{},
		view: contract.MemberView{Member: m, Role: roleOf(m), Status: contract.MemberIdle, Phase: phaseOpening, LastActivity: now},
	}
	if c.status == contract.PipelineOrchestrating {
		s.view.Phase = phaseExchange
	}
	c.seats = append(c.seats, s)
	c.tell(contract.EventAgentSpawned, map[string]any{
		"member": m, "role": s.view.Role, "workflow": contract.MemberWorkflowID(c.in.PipelineID, m), "model": c.modelOf(m),
	})
	if m != contract.Gamma {
		return
	}
	s.why = gammaWhy[reason]
	at := now
	c.metrics.GammaSpawned, c.metrics.GammaReason, c.metrics.GammaAt = true, reason, &at
	c.tell(contract.EventGammaSpawned, map[string]any{"reason": reason, "why": s.why, "role": s.view.Role, "model": c.modelOf(m)})
	if c.peersDone() {
		c.validating = c.agreement()
	}
}

// gammaWhy tells GAMMA what it is there for.
var gammaWhy = map[contract.GammaReason]string{
	contract.GammaStuck:      "STUCK: an agent showed no progress for a while; help the others to go on",
	contract.GammaConflict:   "CONFLICT: too many proposals are unresolved; bring them together",
	contract.GammaComplexity: "COMPLEXITY: the objective was found to be complex; break it down for the others, and keep the exchange on what matters",
	contract.GammaSuccess:    "SUCCESS: the others say that they are done; validate what they agreed on, or decide where they did not agree",
	contract.GammaRecovery:   "RECOVERY: an earlier attempt failed; see the recovery context",
	contract.GammaForced:     "FORCED: you were asked for when this was started",
}

// seat returns the seat of a member, nil if it never joined.
func (c *council) seat(m contract.Member) *seat {
	for _, s := range c.seats {
		if s.member == m {
			return s
		}
	}
	return nil
}

// living returns who is still there.
func (c *council) living() []*seat {
	var out []*seat
	for _, s := range c.seats {
		if !s.dead {
			out = append(out, s)
		}
	}
	return out
}

// livingPeers returns which of ALPHA and BETA are still there.
func (c *council) livingPeers() []*seat {
	return slices.DeleteFunc(c.living(), func(s *seat) bool { return s.member == contract.Gamma })
}

// peersDone reports whether all peers that are left are done.
func (c *council) peersDone() bool {
	left := c.livingPeers()
	return len(left) > 0 && !slices.ContainsFunc(left, func(s *seat) bool { return !s.done })
}

func (s *seat) thinking() bool { return s.granted > s.taken }

// hear takes what came as a member's moves. Who it is from is what its token
// says. Each turn counts once, in order: early ones wait, those that came before
// are dropped.
func (c *council) hear(m contract.Moves, now time.Time) {
	s := c.speaker(m)
	if s == nil || c.over || s.dead || m.Turn <= s.taken {
		return
	}
	if m.Turn > s.taken+1 || m.Turn > s.granted {
		c.hold(s, m)
		return
	}
	c.take(s, m, now)
	c.hearHeld(s, now)
}

// speaker returns the member that a signal is from. One that lies about it is
// refused, and nobody is blamed: a member's workflow has its name from its
// deliberation, so whoever shows its token under another name has stolen it, and
// must not be able to have it revoked.
func (c *council) speaker(m contract.Moves) *seat {
	if c.over {
		return nil
	}
	s := c.owner(m.Token)
	forged := contract.Error{Class: contract.ClassSafety, Code: contract.CodeForbidden}
	switch {
	case s == nil:
		forged.Message = "moves came with a token that no member has"
		if m.Member.Valid() {
			forged.Member = m.Member
			forged.Message = fmt.Sprintf("moves came in the name of %s with a token that it does not have", m.Member)
		}
		c.refused(forged, 1)
		return nil
	case m.Member != s.member:
		forged.Member = s.member
		forged.Message = fmt.Sprintf("moves came in the name of another with the token of %s", s.member)
		c.refused(forged, 1)
		return nil
	}
	return s
}

// owner returns the member whose token this is, nil if it is nobody's.
func (c *council) owner(token string) *seat {
	for _, s := range c.seats {
		if token != "" && s.token == token {
			return s
		}
	}
	return nil
}

// hold keeps an early turn until those before it have come.
func (c *council) hold(s *seat, m contract.Moves) {
	if _, have := s.held[m.Turn]; have {
		return
	}
	if len(s.held) >= heldTurns || m.Turn > s.taken+heldTurns || len(m.Moves) > c.settings.MovesPerTurn {
		c.refused(contract.Error{Member: s.member, Class: contract.ClassLLM, Code: contract.CodeInvalidOutput, Message: fmt.Sprintf("turn %d of %s came before it was given", m.Turn, s.member)}, 1)
		return
	}
	s.held[m.Turn] = m
}

// hearHeld takes turns that waited for those before them, and reports whether there
// were any.
func (c *council) hearHeld(s *seat, now time.Time) (heard bool) {
	for s.taken < s.granted && !s.dead && !c.over {
		m, ok := s.held[s.taken+1]
		if !ok {
			return heard
		}
		delete(s.held, m.Turn)
		c.take(s, m, now)
		heard = true
	}
	return heard
}

// take carries out a member's turn.
func (c *council) take(s *seat, m contract.Moves, now time.Time) {
	s.taken = m.Turn
	v := &s.view
	v.Turns, v.ExecutionID, v.Attempt, v.LastActivity = s.taken, m.ExecutionID, m.Attempt, now
	v.Usage, v.Status, v.BlockedReason = v.Usage.Add(m.Usage), contract.MemberIdle, ""
	s.open, s.errors = true, nil
	if !s.early { // before its moves: one of them may end it, and with it the round
		s.round++
	}
	if m.Bad != nil {
		c.blame(s, contract.Error{
			ID: moveID(s.member, m.Turn, 0), Class: contract.ClassLLM, Code: contract.Code(fault.Clip(string(m.Bad.Code), keyLength)), Message: fault.Clip(m.Bad.Message, contract.TextHead),
		}, 1)
		m.Moves = nil
	}
	if over := len(m.Moves) - c.settings.MovesPerTurn; over > 0 {
		m.Moves = m.Moves[:c.settings.MovesPerTurn]
		c.blame(s, contract.Error{
			ID: moveID(s.member, m.Turn, 0), Class: contract.ClassLLM, Code: contract.CodeInvalidOutput,
			Message: fmt.Sprintf("a turn has at most %d moves; the others were not taken", c.settings.MovesPerTurn),
		}, over)
	}
	for i, move := range m.Moves {
		if s.dead { // revoked for one of them
			break
		}
		c.move(s, moveID(s.member, m.Turn, i+1), move, now)
	}
	if s.done {
		v.Status = contract.MemberDone
	}
	c.changed = true
	c.settle()
}

// moveID names a move, or a turn as a whole: ALPHA-3-2.
func moveID(m contract.Member, turn, n int) string { return fmt.Sprintf("%s-%d-%d", m, turn, n) }

// settle draws the conclusions of what has just happened: who is woken, and
// whether a round is over.
func (c *council) settle() {
	if c.status != contract.PipelineOrchestrating || c.decided {
		return
	}
	for _, s := range c.living() {
		if s.done && (c.hasUntold(s) || slices.ContainsFunc(c.log[s.told:], func(h happening) bool { return c.wakes(s, h) })) {
			s.done, s.view.Status = false, contract.MemberIdle
			c.changed = true
		}
	}
	if c.roundsUp() || !c.roundOver() {
		return
	}
	c.metrics.Iterations++
	for _, s := range c.seats {
		s.round, s.given = 0, 0
		if s.thinking() {
			s.given = 1
		}
	}
	c.changed = true
}

// roundsUp reports whether the last round is over. Turns that began before are
// still heard (hearsOut); no other one begins, but GAMMA's to validate an agreement.
func (c *council) roundsUp() bool { return c.metrics.Iterations >= c.settings.Iterations }

// hearsOut reports whether a turn is under way that began before the end of the
// last round, and may take that long yet.
func (c *council) hearsOut(now time.Time) bool {
	return slices.ContainsFunc(c.living(), (*seat).thinking) && now.Before(c.roundsOver.Add(c.settings.ModelTimeout))
}

// roundOver reports whether each peer that is at work has delivered a turn. Where
// none is left at work GAMMA's turns count.
func (c *council) roundOver() bool {
	delivered, active := 0, 0
	for _, s := range c.seats {
		if s.member == contract.Gamma {
			continue
		}
		if s.round > 0 {
			delivered++
		}
		if !s.dead && !s.done {
			active++
			if s.round == 0 {
				return false
			}
		}
	}
	if delivered > 0 {
		return true
	}
	g := c.seat(contract.Gamma)
	return active == 0 && g != nil && g.round > 0
}

// wakes reports whether one that said that it is done has to hear of this.
func (c *council) wakes(s *seat, h happening) bool {
	switch {
	case h.by == s.member:
		return false
	case h.message != nil:
		return h.message.To == s.member
	case h.post == nil || !h.fresh:
		return false
	case h.post.Kind == contract.MoveObject:
		about, _ := c.nameable(h.post.About)
		return about != nil && about.Author == s.member && about.State == contract.EntryLive && h.post.State == contract.EntryLive
	case h.post.Kind == contract.MoveDecompose:
		return s.member != contract.Gamma
	case h.post.Kind == contract.MoveSynthesise:
		author := c.seat(h.by)
		return author != nil && !author.dead && !author.done
	}
	return false
}

// mostStanding bounds what a member is told of where things stand.
const mostStanding = 12

// stands is where syntheses stand, and proposals that are objected to, for a member
// that is about to take a turn. Members take turns side by side: only here they see
// whether what they said has reached the others.
func (c *council) stands(s *seat) []contract.Standing {
	var out []contract.Standing
	for _, p := range c.board {
		open := c.objections(p)
		if p.State != contract.EntryLive || p.Kind != contract.MoveSynthesise && (p.Kind != contract.MovePropose || len(open) == 0) {
			continue
		}
		at := contract.Standing{Key: p.Key, Kind: p.Kind, Author: p.Author, Version: p.Version}
		for _, other := range c.living() {
			if other != s && other.member != p.Author {
				at.Shown = append(at.Shown, contract.ShownTo{Member: other.member, Version: c.known(other, p)})
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
func (s *seat) concerns(h happening) bool {
	if h.by == s.member || h.to != "" && h.to != s.member {
		return false
	}
	return h.ended != s.member
}

// hasNews reports whether something happened that a member was not told.
func (c *council) hasNews(s *seat) bool { return slices.ContainsFunc(c.log[s.told:], s.concerns) }

// grant is a turn that a member is given.
type grant struct {
	to   contract.Member
	turn contract.Turn
}

// grants gives turns to those who are to take one now.
func (c *council) grants(now time.Time) []grant {
	var out []grant
	for _, s := range c.due() {
		out = append(out, grant{s.member, c.give(s, now)})
	}
	return out
}

// due returns who is to take a turn now.
func (c *council) due() []*seat {
	idle := slices.DeleteFunc(c.living(), func(s *seat) bool { return s.thinking() || s.done })
	switch c.status {
	case contract.PipelineRunning:
		return slices.DeleteFunc(idle, func(s *seat) bool { return s.granted > 0 || s.member == contract.Gamma })
	case contract.PipelineOrchestrating:
	default:
		return nil
	}
	if c.roundsUp() {
		owes := c.gammaOwesFirst()
		return slices.DeleteFunc(idle, func(s *seat) bool { return !owes || s.member != contract.Gamma })
	}
	quiet := !slices.ContainsFunc(c.living(), (*seat).thinking)
	return slices.DeleteFunc(idle, func(s *seat) bool {
		return s.started && !quiet && (s.given >= turnsInRound || !c.hasNews(s) && !c.hasUntold(s))
	})
}

// give makes a member's next turn, with what it was not told yet.
func (c *council) give(s *seat, now time.Time) contract.Turn {
	s.granted++
	t := contract.Turn{Token: s.token, Number: s.granted, Phase: phaseExchange, News: c.news(s, now), Errors: s.errors, Model: s.model}
	if s.early = c.status == contract.PipelineRunning; s.early {
		t.Phase = phaseOpening
	} else {
		s.started = true
		s.given++
	}
	s.told, s.errors, s.model, s.why = len(c.log), nil, nil, ""
	s.parts = c.partsOf(s.member)
	s.view.Phase, s.view.Status, s.view.BlockedReason = t.Phase, contract.MemberThinking, ""
	c.metrics.BlackboardReads++
	c.changed = true
	return t
}

// news is what happened since a member was last told.
func (c *council) news(s *seat, now time.Time) contract.News {
	n := contract.News{Round: c.round(), Rounds: c.settings.Iterations, Why: s.why}
	if c.status == contract.PipelineOrchestrating {
		n.Left = c.exchange.Add(c.limit).Sub(now).Round(time.Second).String()
		n.Members = c.views()
		n.Standing = c.stands(s)
	}
	told, whole, decomposed := map[*post]bool{}, slices.Clone(s.owed), false
	for _, p := range whole {
		told[p] = true
	}
	for _, h := range c.log[s.told:] { // what is new is told whole, with its state as it is now
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
	n.Subtasks = c.partsFor(s, decomposed)
	for _, h := range c.log[s.told:] {
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
	s.owed = whole[:left]
	return n
}

// refused counts moves and signals that were not taken, and records them while
// they are few.
func (c *council) refused(e contract.Error, n int) {
	c.metrics.Refused += n
	if c.toldOfErrors >= toldErrors {
		return
	}
	c.toldOfErrors++
	e.Severity = e.Grade()
	c.errs = append(c.errs, e)
	c.tell(contract.EventAgentError, map[string]any{
		"id": e.ID, "member": e.Member, "error_type": e.Class, "error_code": e.Code, "error_message": e.Message, "severity": e.Severity,
	})
	c.changed = true
}

// blame refuses what a member did and counts it against the member. Past a limit
// the member is revoked.
func (c *council) blame(s *seat, e contract.Error, n int) {
	e.Member = s.member
	c.refused(e, n)
	c.errorCount++
	s.view.Errors++
	if len(s.errors) < c.settings.MovesPerTurn {
		s.errors = append(s.errors, e)
	}
	kind := string(e.Class) + "|" + string(e.Code) + "|" + fault.WithoutNumbers(e.Message)
	s.repeats[kind]++
	if e.Class == contract.ClassSafety {
		s.violated++
	}
	switch c.settings.AgentLimits().Past(s.view.Errors, s.repeats[kind], s.violated) {
	case contract.OffenceViolations:
		c.revoke(s, fmt.Sprintf("it broke the rules %d times, last: %s", s.violated, e.Message), e)
	case contract.OffenceRepeats:
		c.revoke(s, fmt.Sprintf("it made the same error %d times: %s", s.repeats[kind], e.Message), e)
	case contract.OffenceErrors:
		c.revoke(s, fmt.Sprintf("it made %d errors, last: %s", s.view.Errors, e.Message), e)
	}
}

// revoke ends a member. The partner goes on alone.
func (c *council) revoke(s *seat, why string, e contract.Error) {
	if s.dead {
		return
	}
	s.revoke = why
	c.end(s, contract.MemberRevoked, &contract.Failure{Class: e.Class, Code: e.Code, Message: fmt.Sprintf("%s was revoked: %s", s.member, why)})
}

// end notes that a member is gone.
func (c *council) end(s *seat, status contract.MemberStatus, failure *contract.Failure) {
	s.dead, s.done = true, false
	s.view.Status, s.view.Phase, s.view.Failure = status, phaseEnded, failure
	if failure != nil {
		s.view.BlockedReason = fault.Clip(failure.Message, contract.TextHead)
	}
	c.log = append(c.log, happening{by: s.member, ended: s.member})
	c.tellEnd(s, map[string]any{"failure": failure})
	c.assign()
	c.settle()
}

// leave notes how those who are left end, with the deliberation.
func (c *council) leave(status contract.MemberStatus) {
	for _, s := range c.living() {
		s.dead = true
		s.view.Status, s.view.Phase, s.view.BlockedReason = status, phaseEnded, ""
		c.tellEnd(s, nil)
	}
}

// tellEnd tells that a member is gone, and more of it.
func (c *council) tellEnd(s *seat, more map[string]any) {
	v := s.view
	c.tell(contract.EventAgentEnded, with(map[string]any{
		"member": s.member, "status": v.Status, "turns": v.Turns, "usage": v.Usage, "errors": v.Errors, "role": v.Role, "model": c.modelOf(s.member),
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
func (c *council) modelOf(m contract.Member) contract.ModelChoice {
	return c.settings.Models[m.Agent()]
}

// agents says who is there, in which role and with which model.
func (c *council) agents() []map[string]any {
	out := []map[string]any{}
	for _, s := range c.seats {
		out = append(out, map[string]any{"member": s.member, "role": s.view.Role, "model": c.modelOf(s.member), "status": s.view.Status})
	}
	return out
}

// round is the round of the exchange that is under way, from 1; before and after the
// exchange it is how many there were.
func (c *council) round() int {
	if c.status != contract.PipelineOrchestrating || c.decided {
		return c.metrics.Iterations
	}
	return min(c.metrics.Iterations+1, c.settings.Iterations)
}

// closeRound counts the round in which it ended, if anybody took a turn in it.
func (c *council) closeRound() {
	if !c.roundsUp() && slices.ContainsFunc(c.seats, func(s *seat) bool { return s.round > 0 }) {
		c.metrics.Iterations++
	}
}

// ended notes that a member's workflow has returned. Its count of what it spent
// is the true one: that of a turn that never arrived is in it too.
func (c *council) ended(m contract.Member, r contract.MemberResult) {
	s := c.seat(m)
	if r.ExecutionID != 0 {
		s.view.ExecutionID, s.view.Attempt = r.ExecutionID, r.Attempt
	}
	if r.Usage.Calls >= s.view.Usage.Calls {
		s.view.Usage = r.Usage
	}
	s.view.Late = max(0, r.Turns-s.taken)
	c.changed = true
	if s.dead || c.over {
		return
	}
	failure := r.Failure
	if failure == nil {
		failure = &fault.New(contract.ClassInfra, contract.CodeCancelled, "%s was cancelled from outside", m).Failure
	}
	c.end(s, contract.MemberFailed, failure)
}

// lateOpenings marks who has not delivered its opening work in time.
func (c *council) lateOpenings(now time.Time) {
	if c.status != contract.PipelineRunning || now.Before(c.opened.Add(c.settings.OpeningTimeout)) {
		return
	}
	for _, s := range c.livingPeers() {
		if !s.open && !s.late {
			s.late = true
			s.view.Status, s.view.BlockedReason = contract.MemberTimedOut, fmt.Sprintf("its opening work took longer than %s", c.settings.OpeningTimeout)
			c.changed = true
		}
	}
}

// openingOver reports whether everybody is done with the opening or timed out.
func (c *council) openingOver(now time.Time) bool {
	c.lateOpenings(now)
	return !slices.ContainsFunc(c.livingPeers(), func(s *seat) bool { return !s.open && !s.late })
}

// gammaWanted says why GAMMA has to join now, if it has to. It joins once.
func (c *council) gammaWanted(now time.Time) (contract.GammaReason, bool) {
	if c.seat(contract.Gamma) != nil || c.roundsUp() && !c.gammaOwesFirst() {
		return "", false
	}
	s := c.settings
	complexity := max(c.in.Task.Complexity, c.analysed)
	switch {
	case c.in.Inherited != nil || c.in.Attempt > 1:
		return contract.GammaRecovery, true
	case s.ForceGamma:
		return contract.GammaForced, true
	case s.GammaComplexityOver > 0 && complexity > s.GammaComplexityOver:
		return contract.GammaComplexity, true
	case c.status != contract.PipelineOrchestrating:
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
func (c *council) stuckSince(now time.Time) bool {
	after := c.settings.GammaStuckAfter
	return after > 0 && slices.ContainsFunc(c.livingPeers(), func(s *seat) bool {
		return !s.done && !now.Before(s.progress.Add(after))
	})
}

// agreement is the version that the peers who are left accept, nil if there is
// none.
func (c *council) agreement() *choice { return c.agreementBy(c.counting()) }

// lastAgreement is an earlier version that all accepted, though one of them wrote a new
// version since: rather that than nothing, where a deliberation would end without any.
func (c *council) lastAgreement() *choice { return c.agreementBy(c.votes) }

// counting are the votes that count: those for earlier versions of who wrote a new one
// since do not.
func (c *council) counting() []contract.Vote {
	return slices.DeleteFunc(slices.Clone(c.votes), func(v contract.Vote) bool { return c.outdated[v.ID] })
}

func (c *council) agreementBy(votes []contract.Vote) *choice {
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
		if v.Accept && !slices.ContainsFunc(left, func(s *seat) bool { return !accepts(s.member, v.Key, v.Version) }) {
			return &choice{key: v.Key, version: v.Version}
		}
	}
	return nil
}

// outcome is how a deliberation ends.
type outcome struct {
	status  contract.PipelineStatus
	abort   contract.AbortReason
	choice  *choice
	failure *contract.Failure
}

// conclude says how the exchange ends, if it does now.
func (c *council) conclude(now time.Time) *outcome {
	if c.verdict != nil {
		return &outcome{status: contract.PipelineCompleted, choice: c.verdict}
	}
	if out := c.bothGone(); out != nil {
		return out
	}
	if c.roundsUp() && c.roundsOver.IsZero() {
		c.roundsOver = now
	}
	agreed, abort := c.agreement(), c.abortReason(now)
	if agreed == nil && abort != "" {
		agreed = c.lastAgreement()
	}
	switch {
	case agreed != nil && (!c.awaitsGamma(agreed) || abort != ""):
		return &outcome{status: contract.PipelineCompleted, choice: agreed}
	case agreed != nil:
		return nil
	case abort == contract.AbortTimeout:
		return &outcome{status: contract.PipelineTimeout, abort: abort}
	case abort != "":
		return &outcome{status: contract.PipelineOrchestrationFailed, abort: abort}
	case c.peersDone() && c.gammaIsThrough():
		return &outcome{status: contract.PipelineOrchestrationFailed}
	}
	return nil
}

// bothGone is the end of a pipeline that nobody is left in.
func (c *council) bothGone() *outcome {
	if len(c.livingPeers()) > 0 {
		return nil
	}
	out := &outcome{status: contract.PipelineFailed}
	for _, h := range c.log { // the last that ended is why
		if s := c.seat(h.ended); s != nil && s.member != contract.Gamma {
			out.failure = s.view.Failure
		}
	}
	return out
}

// awaitsGamma reports whether what was agreed waits for GAMMA's word: both say
// that they are done, and GAMMA has not spoken yet.
func (c *council) awaitsGamma(agreed *choice) bool {
	if c.seat(contract.Gamma) == nil {
		return c.peersDone()
	}
	v := c.validating
	return v != nil && v.key == agreed.key && v.version == agreed.version && !c.gammaIsThrough()
}

// gammaIsThrough reports whether no word of GAMMA's can be waited for any more.
func (c *council) gammaIsThrough() bool {
	g := c.seat(contract.Gamma)
	return g != nil && (g.dead || g.done)
}

// abortReason says why the deliberation has to be given up, if it has to.
func (c *council) abortReason(now time.Time) contract.AbortReason {
	after := c.settings.AbortAfter
	stuck := after > 0 && !now.Before(c.lastProgress.Add(after))
	switch {
	case c.limit > 0 && !now.Before(c.exchange.Add(c.limit)):
		return contract.AbortTimeout
	case c.roundsUp() && !c.gammaOwesFirst() && (stuck || !c.hearsOut(now)):
		return contract.AbortIterationLimit
	case stuck:
		return contract.AbortStuck
	}
	return ""
}

// gammaOwesFirst reports whether GAMMA was asked to validate and has not taken a
// turn: the limit of rounds does not take that from it.
func (c *council) gammaOwesFirst() bool {
	if c.agreement() == nil {
		return false
	}
	g := c.seat(contract.Gamma)
	return g == nil && c.peersDone() || g != nil && c.validating != nil && g.taken == 0 && !g.dead
}

// deadline is the next moment at which time alone changes something; zero: none.
func (c *council) deadline(now time.Time) time.Time {
	var next time.Time
	at := func(t time.Time) {
		if t.After(now) && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	switch c.status {
	case contract.PipelineRunning:
		at(c.opened.Add(c.settings.OpeningTimeout))
	case contract.PipelineReport:
		at(c.reported.Add(c.settings.ContinueWait))
	case contract.PipelineOrchestrating:
		at(c.exchange.Add(c.limit))
		at(c.lastProgress.Add(c.settings.AbortAfter))
		if !c.roundsOver.IsZero() {
			at(c.roundsOver.Add(c.settings.ModelTimeout))
		}
		if after := c.settings.GammaStuckAfter; after > 0 && c.seat(contract.Gamma) == nil {
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

// switchModels lets members use other models from their next turn on.
func (c *council) switchModels(models map[contract.Agent]contract.ModelChoice) {
	next := map[contract.Agent]contract.ModelChoice{}
	for _, m := range contract.Members() {
		next[m.Agent()] = c.settings.Models[m.Agent()]
		other, ok := models[m.Agent()]
		if !ok {
			continue
		}
		next[m.Agent()] = other
		if s := c.seat(m); s != nil && other != c.settings.Models[m.Agent()] {
			s.model = &other
		}
	}
	c.settings.Models = next
}
