package state

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// post is an entry of the blackboard with all its versions.
type post struct {
	contract.Entry
	versions []contract.Text
	own      []string // keys of the objections to it
	logged   int      // where it first appears in the log
	closed   int      // where its last state appears in the log
}

// move carries out one move of a member. If it is invalid it is refused, and the other
// moves of the turn still count.
func (c *State) move(s *Participant, id string, m contract.Move, now time.Time) {
	if !slices.Contains(contract.MovesOf(s.Member), m.Kind) {
		c.RecordError(s, contract.Error{
			ID: id, Class: contract.ClassSafety, Code: contract.CodeForbidden,
			Message: fmt.Sprintf("%s has no move %q; its moves are %s", s.Member, fault.Clip(string(m.Kind), KeyLength), kinds(contract.MovesOf(s.Member))),
		}, 1)
		return
	}
	why := c.wrongForm(m)
	if why == "" {
		why = c.carryOut(s, id, m, now)
	}
	if why != "" {
		c.RecordError(s, contract.Error{
			ID: id, Class: contract.ClassLLM, Code: contract.CodeInvalidOutput, Message: fmt.Sprintf("%s was rejected: %s", m.Kind, why),
		}, 1)
		return
	}
	c.Metrics.Decisions++
	c.RowStale = true
}

func kinds(all []contract.MoveKind) string {
	var out []string
	for _, k := range all {
		out = append(out, string(k))
	}
	return strings.Join(out, ", ")
}

// wrongForm returns why the form of a move is invalid, regardless of its subject. The activity has
// already checked this, but a signal may not come from the activity.
func (c *State) wrongForm(m contract.Move) string {
	const share = 1.0
	outside := func(f *float64) bool { return f != nil && !(*f >= 0 && *f <= share) }
	switch {
	case m.Text.Size > c.Settings.TextLimit:
		return fmt.Sprintf("its text is %d bytes long, more than the %d allowed", m.Text.Size, c.Settings.TextLimit)
	case len(m.Text.Head) > contract.TextHead, len(m.Text.Ref) > KeyLength:
		return fmt.Sprintf("its text is too long: text longer than %d bytes must be stored in the database", contract.TextHead)
	case m.Key != "" && !validKey(m.Key) && !c.named(m):
		return fmt.Sprintf("a key must be 1 to %d characters long: letters, digits, dots, dashes or underscores", KeyLength)
	case len(m.From) > c.Settings.Entries || slices.ContainsFunc(m.From, func(k string) bool { return !validKey(k) }):
		return "the \"from\" field contains an invalid key"
	case outside(m.Score), outside(m.ComplexityScore):
		return "scores must be from 0 to 1"
	case m.Version < 0:
		return "versions start at 1"
	}
	return ""
}

// named reports whether a move answers an objection by its key. Such keys may be longer than the
// keys that members choose.
func (c *State) named(m contract.Move) bool {
	return m.Kind == contract.MoveResolve && contract.IsObjectionKey(m.Key) && len(m.Key) <= objectionKeyLength
}

func validKey(k string) bool {
	if k == "" || len(k) > KeyLength {
		return false
	}
	const marks = "_.-"
	for _, r := range k {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune(marks, r) {
			return false
		}
	}
	return true
}

// carryOut carries out a move, or returns why it cannot be done.
func (c *State) carryOut(s *Participant, id string, m contract.Move, now time.Time) string {
	switch m.Kind {
	case contract.MoveAnalyse:
		return c.analyse(s, m, now)
	case contract.MovePropose:
		return c.propose(s, m, now)
	case contract.MoveSynthesise:
		return c.synthesise(s, m, now)
	case contract.MoveEvaluate:
		return c.evaluate(s, m, now)
	case contract.MoveObject:
		return c.object(s, id, m, now)
	case contract.MoveResolve:
		return c.resolve(s, id, m, now)
	case contract.MoveVote:
		return c.vote(s, id, m, now)
	case contract.MoveMessage:
		return c.message(s, id, m, now)
	case contract.MoveVerdict:
		return c.judge(s, m, now)
	case contract.MoveDecompose:
		return c.decompose(s, m, now)
	default: // done
		s.done = true
		return ""
	}
}

// nameable returns the entry under a key that members can name: a proposal or a synthesis.
func (c *State) nameable(key string) (*post, string) {
	if key == "" {
		return nil, "it needs a key"
	}
	for _, p := range c.board {
		if p.Key == key && (p.Kind == contract.MovePropose || p.Kind == contract.MoveSynthesise) {
			return p, ""
		}
	}
	return nil, fmt.Sprintf("there is no %s", key)
}

// at returns the post with a key in a section, nil if there is none.
func (c *State) at(section contract.Section, key string) *post {
	for _, p := range c.board {
		if p.Section == section && p.Key == key {
			return p
		}
	}
	return nil
}

// write puts an entry on the blackboard: a new one, or a new version of the existing one.
func (c *State) write(e contract.Entry, now time.Time) string {
	p := c.at(e.Section, e.Key)
	if p == nil {
		if e.Author.Valid() && e.Inherited == 0 && len(c.board) >= c.Settings.Entries {
			return fmt.Sprintf("the blackboard is full: it has %d entries", len(c.board))
		}
		p = &post{logged: len(c.log)}
		c.board = append(c.board, p)
		p.Place = len(c.board)
	}
	e.Version, e.Timestamp, e.Place = len(p.versions)+1, now, p.Place
	p.Entry, p.versions = e, append(p.versions, e.Value)
	c.show(p)
	c.log = append(c.log, logEntry{by: e.Author, post: p, fresh: true})
	if e.Inherited > 0 { // also news to its author, who wrote it in an earlier deliberation
		c.log[len(c.log)-1].by = contract.SystemAuthor
	}
	c.AddEvent(contract.EventBlackboardWritten, map[string]any{
		"section": e.Section, "key": e.Key, "version": e.Version, "author": e.Author, "move": e.Kind, "text": e.Value.Head, "about": e.About, "inherited": e.Inherited,
	})
	c.assign()
	c.proposals()
	return ""
}

// written records an entry that a member wrote.
func (c *State) written(s *Participant, e contract.Entry, now time.Time) string {
	e.Author = s.Member
	why := c.write(e, now)
	if why == "" {
		c.Metrics.BlackboardWrites++
		c.progressed(s, now)
	}
	return why
}

// progressed records that a member made progress.
func (c *State) progressed(s *Participant, now time.Time) { s.progress, c.LastProgress = now, now }

// show marks an entry to be written to the database in its current state.
func (c *State) show(p *post) {
	c.RowStale = true
	for i, e := range c.entries {
		if e.Section == p.Section && e.Key == p.Key && e.Version == p.Version {
			c.entries[i] = p.Entry
			return
		}
	}
	c.entries = append(c.entries, p.Entry)
}

// restate changes the state of an entry and logs the change for the other members.
func (c *State) restate(p *post, state contract.EntryState, by contract.Member) {
	if p.State == state {
		return
	}
	p.State, p.closed = state, len(c.log)
	c.show(p)
	c.log = append(c.log, logEntry{by: by, post: p})
}

func (c *State) analyse(s *Participant, m contract.Move, now time.Time) string {
	key := contract.KeyAnalysis
	if first := c.at(contract.SectionProblem, key); first != nil && first.Author != s.Member {
		key += "." + string(s.Member)
	}
	if m.ComplexityScore != nil {
		c.maxComplexity = max(c.maxComplexity, *m.ComplexityScore)
	}
	return c.written(s, contract.Entry{Section: contract.SectionProblem, Key: key, Kind: m.Kind, Value: m.Text, ComplexityScore: m.ComplexityScore}, now)
}

// put writes a proposal or a synthesis under its author's key.
func (c *State) put(s *Participant, section contract.Section, m contract.Move, now time.Time) string {
	if m.Key == "" {
		return "it needs a key"
	}
	if p, _ := c.nameable(m.Key); p != nil {
		switch {
		case p.Author != s.Member && (c.subtask(m.Key) == nil || p.State != contract.EntryWithdrawn):
			return fmt.Sprintf("%s belongs to %s; use another key", m.Key, p.Author)
		case p.Section != section:
			return fmt.Sprintf("%s is already in %s; use another key", m.Key, p.Section)
		}
	}
	return c.written(s, contract.Entry{Section: section, Key: m.Key, Kind: m.Kind, Value: m.Text, State: contract.EntryLive, Score: m.Score, From: m.From}, now)
}

// synthesise combines proposals, which then count as merged.
func (c *State) synthesise(s *Participant, m contract.Move, now time.Time) string {
	if c.subtask(m.Key) != nil {
		return fmt.Sprintf("%s is a subtask, which only a proposal can solve; use another key", m.Key)
	}
	var from []*post
	for _, key := range m.From {
		p, why := c.nameable(key)
		if why != "" {
			return "its \"from\" field is invalid: " + why
		}
		from = append(from, p)
	}
	if why := c.put(s, contract.SectionSynthesis, m, now); why != "" {
		return why
	}
	// The author supports the new version, and no longer any earlier one.
	written, _ := c.nameable(m.Key)
	for _, v := range c.votes {
		if v.Voter == s.Member && v.Key == m.Key && v.Version < written.Version {
			c.outdated[v.ID] = true
		}
	}
	for _, p := range from {
		if p.Kind == contract.MovePropose && p.State == contract.EntryLive {
			c.restate(p, contract.EntryMerged, s.Member)
		}
	}
	c.proposals()
	return ""
}

func (c *State) evaluate(s *Participant, m contract.Move, now time.Time) string {
	p, why := c.nameable(m.Key)
	if why != "" {
		return why
	}
	return c.written(s, contract.Entry{
		Section: p.Section, Key: p.Key + "/evaluation/" + string(s.Member), Kind: m.Kind, Value: m.Text, About: p.Key, AboutVersion: c.known(s, p), Score: m.Score,
	}, now)
}

func (c *State) object(s *Participant, id string, m contract.Move, now time.Time) string {
	p, why := c.nameable(m.Key)
	if why != "" {
		return why
	}
	key := contract.ObjectionKey(p.Key, id)
	if why := c.written(s, contract.Entry{
		Section: p.Section, Key: key, Kind: m.Kind, Value: m.Text, State: contract.EntryLive, About: p.Key, AboutVersion: c.known(s, p),
	}, now); why != "" {
		return why
	}
	p.own = append(p.own, key)
	c.conflict(true, "objection", key)
	return ""
}

// resolve answers an objection by its key. With the key of a proposal or a synthesis, it answers
// all objections to that entry that the member was shown or made itself; if there are none, the
// author of a proposal withdraws the proposal.
func (c *State) resolve(s *Participant, id string, m contract.Move, now time.Time) string {
	if contract.IsObjectionKey(m.Key) {
		o := c.objection(m.Key)
		switch {
		case o == nil:
			return fmt.Sprintf("there is no %s", fault.Clip(m.Key, KeyLength))
		case !c.shown(s, o):
			return fmt.Sprintf("%s has not been shown to you yet; answer it in your next turn", m.Key)
		}
		return c.answer(s, id, o, m, now, o)
	}
	p, why := c.nameable(m.Key)
	if why != "" {
		return why
	}
	read := slices.DeleteFunc(c.objections(p), func(o *post) bool { return !c.shown(s, o) })
	if len(read) > 0 || c.closedMeanwhile(s, p) {
		return c.answer(s, id, p, m, now, read...)
	}
	return c.withdraw(s, p, now)
}

// objection returns the objection with a key, nil if there is none.
func (c *State) objection(key string) *post {
	for _, p := range c.board {
		if p.Key == key && p.Kind == contract.MoveObject {
			return p
		}
	}
	return nil
}

// shown reports whether a member knows an entry: it wrote it, or was shown it before
// the turn that it has just taken.
func (c *State) shown(s *Participant, p *post) bool {
	return p.Author == s.Member || p.logged < s.logRead && !slices.Contains(s.deferred, p)
}

// closedMeanwhile reports whether another member closed an objection after this member was shown it
// as open. A reply to it is then an answer and withdraws nothing.
func (c *State) closedMeanwhile(s *Participant, p *post) bool {
	return slices.ContainsFunc(p.own, func(key string) bool {
		o := c.at(p.Section, key)
		return o != nil && o.State != contract.EntryLive && c.shown(s, o) && o.closed >= s.logRead && c.log[o.closed].by != s.Member
	})
}

// answer records the answer to an objection or an entry for the members who made the objections,
// and closes the open ones. A member who answers its own objection withdraws it.
func (c *State) answer(s *Participant, id string, about *post, m contract.Move, now time.Time, all ...*post) string {
	if m.Text.Size == 0 && slices.ContainsFunc(all, func(o *post) bool { return o.Author != s.Member }) {
		return "it needs text that responds to the objection"
	}
	if m.Text.Size > 0 {
		if why := c.written(s, contract.Entry{
			Section: about.Section, Key: contract.AnswerKey(about.Key, id), Kind: m.Kind, Value: m.Text, About: about.Key,
		}, now); why != "" {
			return why
		}
	}
	for _, o := range all {
		if o.State != contract.EntryLive { // another answer was first; this one is also sent
			continue
		}
		state := contract.EntryAnswered
		if o.Author == s.Member {
			state = contract.EntryWithdrawn
		}
		c.restate(o, state, s.Member)
		c.conflict(false, "objection", o.Key)
	}
	c.progressed(s, now)
	return ""
}

// withdraw withdraws a proposal and the objections to it.
func (c *State) withdraw(s *Participant, p *post, now time.Time) string {
	if why := c.keeps(s, p); why != "" {
		return why
	}
	c.restate(p, contract.EntryWithdrawn, s.Member)
	for _, o := range c.objections(p) {
		c.restate(o, contract.EntrySettled, s.Member)
		c.conflict(false, "objection", o.Key)
	}
	c.progressed(s, now)
	c.proposals()
	c.assign()
	return ""
}

// keeps returns why a member cannot withdraw an entry, "" if it can.
func (c *State) keeps(s *Participant, p *post) string {
	switch {
	case p.Kind != contract.MovePropose:
		return fmt.Sprintf("there is no objection to %s", p.Key)
	case p.Author != s.Member:
		return fmt.Sprintf("%s has no objection to resolve; only %s can withdraw this proposal", p.Key, p.Author)
	case p.State != contract.EntryLive:
		return fmt.Sprintf("%s is already %s", p.Key, p.State)
	}
	return ""
}

// objections returns the unanswered objections to an entry.
func (c *State) objections(p *post) []*post {
	var open []*post
	for _, key := range p.own {
		if o := c.at(p.Section, key); o != nil && o.State == contract.EntryLive {
			open = append(open, o)
		}
	}
	return open
}

func (c *State) vote(s *Participant, id string, m contract.Move, now time.Time) string {
	p, why := c.nameable(m.Key)
	switch {
	case why != "":
		return why
	case p.Kind != contract.MoveSynthesise:
		return fmt.Sprintf("%s is not a synthesis; only a synthesis can be voted on", p.Key)
	case m.Version > p.Version:
		return fmt.Sprintf("%s has no version %d; its newest version is %d", p.Key, m.Version, p.Version)
	case m.Accept == nil:
		return "it needs \"accept\": true or false"
	}
	known := c.known(s, p)
	if m.Version > known || known == 0 {
		return fmt.Sprintf("version %d of %s has not been shown to you yet; vote for it in your next turn", max(m.Version, known+1), p.Key)
	}
	m.Version = cmp.Or(m.Version, known)
	v := contract.Vote{ID: id, Voter: s.Member, Key: p.Key, Version: m.Version, Accept: *m.Accept, Text: m.Text, At: now}
	c.votes = slices.DeleteFunc(c.votes, func(o contract.Vote) bool { return o.Voter == v.Voter && o.Key == v.Key && o.Version == v.Version })
	c.votes = append(c.votes, v)
	c.cast = append(c.cast, v)
	c.Metrics.Votes++
	c.progressed(s, now)
	c.log = append(c.log, logEntry{by: s.Member, vote: &v})
	c.AddEvent(contract.EventVoteCast, map[string]any{"id": id, "voter": v.Voter, "key": v.Key, "version": v.Version, "accept": v.Accept, "text": v.Text.Head})
	return ""
}

// known returns the newest version of an entry that a member was shown, or wrote; 0 if
// there is none.
func (c *State) known(s *Participant, p *post) int {
	known, version := 0, 0
	for i, h := range c.log {
		if h.post != p || !h.fresh {
			continue
		}
		version++
		if h.by == s.Member || i < s.logRead && !slices.Contains(s.deferred, p) {
			known = version
		}
	}
	return known
}

func (c *State) message(s *Participant, id string, m contract.Move, now time.Time) string {
	to := contract.Member(m.To)
	switch {
	case to == "ALL":
		to = ""
	case to == s.Member:
		return "it is addressed to its sender"
	case to != "" && !to.Valid():
		return "its recipient is not active; the \"to\" field must be ALPHA, BETA, GAMMA or ALL"
	}
	if m.Text.Head == "" {
		return "it is empty"
	}
	msg := contract.Message{Seq: c.Metrics.TotalMessages + 1, ID: id, From: s.Member, To: to, Text: m.Text, At: now}
	c.Metrics.TotalMessages++
	if to != "" {
		c.Metrics.DirectMessages++
	}
	c.messages = append(c.messages, msg)
	c.said = append(c.said, msg)
	c.progressed(s, now)
	c.log = append(c.log, logEntry{by: s.Member, to: to, message: &msg})
	c.AddEvent(contract.EventAgentMessage, map[string]any{"id": id, "seq": msg.Seq, "from": msg.From, "to": msg.To, "text": m.Text.Head})
	return ""
}

// judge records GAMMA's verdict, which is final. Only the first one counts.
func (c *State) judge(s *Participant, m contract.Move, now time.Time) string {
	p, why := c.nameable(m.Key)
	switch {
	case why != "":
		return why
	case m.Version > p.Version:
		return fmt.Sprintf("%s has no version %d; its newest version is %d", p.Key, m.Version, p.Version)
	case c.verdict != nil:
		return "there is already a verdict"
	}
	v := &Choice{Key: p.Key, Version: m.Version, By: s.Member, text: m.Text}
	v.Version = cmp.Or(v.Version, p.Version)
	c.verdict = v
	c.progressed(s, now)
	return ""
}

// liveProposals counts the unresolved proposals. Proposals for subtasks do not compete with others.
func (c *State) liveProposals() int {
	n := 0
	for _, p := range c.board {
		if p.Kind == contract.MovePropose && p.State == contract.EntryLive && c.subtask(p.Key) == nil {
			n++
		}
	}
	return n
}

// proposals records whether live proposals compete: two or more count as one conflict.
func (c *State) proposals() {
	const rivals = 2
	compete := c.liveProposals() >= rivals
	if compete == c.rivalry {
		return
	}
	c.rivalry = compete
	c.conflict(compete, "proposals", "")
}

// conflict counts a conflict that appeared or was resolved.
func (c *State) conflict(up bool, kind, key string) {
	event := contract.EventConflictResolved
	if up {
		event = contract.EventConflictDetected
		c.Metrics.ConflictsDetected++
	} else {
		c.Metrics.ConflictsResolved++
	}
	c.AddEvent(event, map[string]any{"kind": kind, "key": key, "unresolved_proposals": c.liveProposals()})
}

// AcceptConsensus makes a version of an entry the consensus: it is accepted, all other entries are
// settled, and no conflict remains open.
func (c *State) AcceptConsensus(chosen *Choice, now time.Time) contract.Entry {
	p, _ := c.nameable(chosen.Key)
	for _, o := range c.board {
		switch {
		case o.Kind == contract.MoveObject && o.State == contract.EntryLive:
			c.Metrics.ConflictsOpen++
			c.restate(o, contract.EntrySettled, contract.SystemAuthor)
			c.conflict(false, "objection", o.Key)
		case o == p:
			c.restate(o, contract.EntryAccepted, contract.SystemAuthor)
		case o.State == contract.EntryLive:
			c.restate(o, contract.EntrySettled, contract.SystemAuthor)
		}
	}
	c.proposals()
	achieved, author := true, contract.SystemAuthor
	if chosen.By != "" {
		author = chosen.By
	}
	if chosen.text.Head != "" {
		c.write(contract.Entry{Section: contract.SectionConsensus, Key: "verdict", Author: author, Kind: contract.MoveVerdict, Value: chosen.text, About: p.Key}, now)
	}
	c.write(contract.Entry{
		Section: contract.SectionConsensus, Key: contract.KeyFinal, Author: author, Value: p.versions[chosen.Version-1],
		About: p.Key, AboutVersion: chosen.Version, From: []string{p.Key}, Achieved: &achieved,
	}, now)
	c.Metrics.Consensus = true
	c.Decision = c.decide(p, chosen)
	c.AddEvent(contract.EventConsensusReached, map[string]any{
		"key": chosen.Key, "version": chosen.Version, "by": chosen.By, "iterations": c.Metrics.Iterations,
		"text": p.versions[chosen.Version-1].Head, "voters": c.voters(chosen), "rejected": len(c.Decision.Rejected), "open_questions": len(c.Decision.OpenQuestions),
	})
	return c.board[len(c.board)-1].Entry
}

// RecordNoConsensus records that there is no consensus.
func (c *State) RecordNoConsensus(why string, now time.Time) {
	achieved := false
	c.write(contract.Entry{
		Section: contract.SectionConsensus, Key: contract.KeyFinal, Author: contract.SystemAuthor, Value: textOf(why), Achieved: &achieved,
	}, now)
}

// textOf returns a text that the system wrote.
func textOf(s string) contract.Text {
	head := fault.Clip(s, contract.TextHead)
	return contract.Text{Head: head, Size: len(head)}
}
