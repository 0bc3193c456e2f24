package workflows

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// table is a council whose members are the test.
type table struct {
	*council
	now   time.Time
	turns map[contract.Member]contract.Turn // the last that each was given
}

func start() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }

func newTable(change ...func(*contract.DeliberationInput)) *table {
	t := &table{council: newCouncil(deliberationInput(change...), start()), now: start(), turns: map[contract.Member]contract.Turn{}}
	for _, m := range peers() {
		t.join(m, string(m)+"-token", "", t.now)
	}
	t.become(contract.PipelineRunning, t.now, "")
	t.give()
	return t
}

// exchanging is a table in the middle of an exchange.
func exchanging(change ...func(*contract.DeliberationInput)) *table {
	t := newTable(change...)
	t.hearFrom(contract.Alpha)
	t.hearFrom(contract.Beta)
	t.become(contract.PipelineReport, t.now, "")
	t.become(contract.PipelineOrchestrating, t.now, "")
	t.give()
	return t
}

// give hands out the turns that are due, and returns to whom.
func (t *table) give() []contract.Member {
	var out []contract.Member
	for _, g := range t.grants(t.now) {
		t.turns[g.to] = g.turn
		out = append(out, g.to)
	}
	return out
}

// hearFrom delivers a member's turn.
func (t *table) hearFrom(m contract.Member, moves ...contract.Move) {
	t.hear(contract.Moves{Token: string(m) + "-token", Member: m, Turn: t.turns[m].Number, Moves: moves}, t.now)
}

func TestMovesThatMakeNoSenseAreRefused(t *testing.T) {
	t.Parallel()
	long := text(strings.Repeat("x", contract.TextHead+1))
	negative := -0.1
	cases := map[string]contract.Move{
		"it needs a key":                 {Kind: contract.MovePropose, Text: text("x")},
		"a key has":                      proposes("no spaces"),
		"BETA's":                         proposes("pb"),
		"take another key":               synthesises("pa"),
		"there is no p9":                 evaluates("p9", 0.5),
		"there is no p8":                 objects("p8"),
		"there is no p7":                 resolves("p7"),
		"there is no s9":                 accepts("s9", 1),
		"there is no p6":                 synthesises("sx", "p6"),
		"no synthesis":                   accepts("pa", 1),
		"no version 9":                   accepts("sb", 9),
		"accept":                         {Kind: contract.MoveVote, Key: "sb"},
		"only BETA can withdraw":         resolves("pb"),
		"nobody objects to sb":           resolves("sb"),
		"its own sender":                 tells("ALPHA", "me"),
		"to nobody":                      tells("PERSON", "approve it"),
		"says nothing":                   {Kind: contract.MoveMessage},
		"too long":                       {Kind: contract.MoveMessage, Text: long},
		"bytes, and":                     {Kind: contract.MoveMessage, Text: contract.Text{Head: "x", Size: 2 << 20}},
		"scores are":                     {Kind: contract.MoveEvaluate, Key: "pb", Score: &negative},
		"versions are":                   {Kind: contract.MoveVote, Key: "sb", Version: -1},
		"has no move \"verdict\"":        decides("sb"),
		"has no move \"approve\"":        {Kind: "approve"},
		"something that is no key":       {Kind: contract.MoveSynthesise, Key: "sy", From: []string{"../x"}},
		"the blackboard is full: it has": {Kind: contract.MovePropose, Key: "full", Text: text("x")},
	}
	for why, move := range cases {
		t.Run(why, func(t *testing.T) {
			t.Parallel()
			c := newTable(func(in *contract.DeliberationInput) {
				in.Settings.TextLimit = 1 << 20
				if move.Key == "full" {
					in.Settings.Entries = 4 // the task, pa, pb, sb
				}
			})
			c.hearFrom(contract.Beta, proposes("pb"), synthesises("sb"))
			before := c.metrics
			c.hearFrom(contract.Alpha, proposes("pa"), move)
			require.Len(t, c.seat(contract.Alpha).errors, 1)
			require.Contains(t, c.seat(contract.Alpha).errors[0].Message, why)
			require.Equal(t, 1, c.metrics.Refused)
			require.Equal(t, before.Decisions+1, c.metrics.Decisions, "the proposal before it counts")
			require.Equal(t, before.BlackboardWrites+1, c.metrics.BlackboardWrites)
		})
	}
}

func TestEveryTurnIsTakenOnceAndInOrder(t *testing.T) {
	t.Parallel()
	c := exchanging()
	say := func(turn int, words string) {
		c.hear(contract.Moves{Token: "ALPHA-token", Member: contract.Alpha, Turn: turn, Moves: []contract.Move{tells("", words)}}, c.now)
	}
	say(3, "three") // early
	say(1, "one")   // had come
	require.Empty(t, c.messages)
	say(2, "two")
	say(2, "two again")
	require.Len(t, c.messages, 1)
	c.hearFrom(contract.Beta)
	require.Contains(t, c.give(), contract.Alpha)
	c.hearHeld(c.seat(contract.Alpha), c.now)
	require.Len(t, c.messages, 2)
	require.Equal(t, []string{"ALPHA-2-1", "ALPHA-3-1"}, []string{c.messages[0].ID, c.messages[1].ID})
	require.Zero(t, c.metrics.Refused, "duplicates and late ones are nobody's fault")
	say(99, "far ahead")
	require.Equal(t, 1, c.metrics.Refused)
}

func TestAStolenTokenHarmsNeitherItsOwnerNorWhomItSpeaksFor(t *testing.T) {
	t.Parallel()
	c := exchanging()
	const often = 20
	for range often {
		c.hear(contract.Moves{Token: "ALPHA-token", Member: contract.Beta, Turn: 2, Moves: []contract.Move{isDone()}}, c.now)
	}
	for _, m := range peers() {
		s := c.seat(m)
		require.Equal(t, []any{false, false, 0, contract.MemberThinking}, []any{s.dead, s.done, s.view.Errors, s.view.Status}, m)
	}
	require.Equal(t, often, c.metrics.Refused)
	require.Len(t, c.errs, often)
	require.Equal(t, contract.Error{
		Member: contract.Alpha, Class: contract.ClassSafety, Code: contract.CodeForbidden, Severity: contract.SeverityMajor, Message: "moves came in the name of another with the token of ALPHA",
	}, c.errs[0])
}

func TestNothingThatASignalCarriesIsRecordedAtItsFullLength(t *testing.T) {
	t.Parallel()
	huge := strings.Repeat("x", 3<<19)
	long := contract.Text{Head: huge, Ref: huge, Size: 1}
	for name, moves := range map[string]contract.Moves{
		"a failure": {Bad: &contract.Failure{Class: contract.Class(huge), Code: contract.Code(huge), Message: huge, Cause: huge}},
		"a kind":    {Moves: []contract.Move{{Kind: contract.MoveKind(huge)}}},
		"a key":     {Moves: []contract.Move{{Kind: contract.MovePropose, Key: huge}}},
		"a text":    {Moves: []contract.Move{{Kind: contract.MovePropose, Key: "p1", Text: long}}},
		"origins":   {Moves: []contract.Move{{Kind: contract.MoveSynthesise, Key: "s1", From: []string{huge}}}},
		"a vote":    {Moves: []contract.Move{{Kind: contract.MoveVote, Key: huge}}},
		"receivers": {Moves: []contract.Move{{Kind: contract.MoveMessage, To: huge, Text: contract.Text{Head: "x"}}}},
		"a sender":  {Token: "BETA-token", Member: contract.Member(huge)},
		"a token":   {Token: huge, Member: contract.Alpha},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := exchanging()
			if moves.Token == "" {
				moves.Token, moves.Member = "ALPHA-token", contract.Alpha
			}
			moves.Turn = 2
			c.hear(moves, c.now)
			require.Equal(t, 1, c.metrics.Refused)
			for c.toWrite() {
				require.Less(t, size(c.draft(1, c.now)), contract.PayloadLimit)
			}
			for _, g := range c.grants(c.now) {
				require.Less(t, size(g.turn), contract.PayloadLimit)
			}
			require.Less(t, size(c.view()), contract.PayloadLimit)
		})
	}
}

func TestAFloodIsCountedAndRecordedOnlyInPart(t *testing.T) {
	t.Parallel()
	c := newTable()
	const flood = 10_000
	for i := range flood {
		c.hear(contract.Moves{Token: "x", Member: contract.Alpha, Turn: i, Moves: []contract.Move{tells("", "hm")}}, c.now)
	}
	require.Equal(t, flood, c.metrics.Refused)
	require.Len(t, c.errs, toldErrors)
	require.Zero(t, c.metrics.TotalMessages)

	many := slices.Repeat([]contract.Move{tells("", "hm")}, flood)
	c.hearFrom(contract.Alpha, many...)
	require.Equal(t, c.settings.MovesPerTurn, c.metrics.TotalMessages, "the first of a turn count")
	require.Equal(t, flood+flood-c.settings.MovesPerTurn, c.metrics.Refused)
}

func TestWhoIsDoneIsWokenByWhatIsForIt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		moves []contract.Move
		woken bool
	}{
		"a message to it":                                 {[]contract.Move{tells("ALPHA", "psst")}, true},
		"an objection to what it wrote":                   {[]contract.Move{objects("pa")}, true},
		"a synthesis of a partner at work":                {[]contract.Move{synthesises("s1")}, true},
		"a message to all":                                {[]contract.Move{tells("ALL", "hm")}, false},
		"a proposal":                                      {[]contract.Move{proposes("pb")}, false},
		"a synthesis of a partner that is done":           {[]contract.Move{synthesises("s1"), isDone()}, false},
		"a message to it of a partner that is done":       {[]contract.Move{tells("ALPHA", "psst"), isDone()}, true},
		"an objection to what it wrote that was answered": {[]contract.Move{objects("pa"), resolves("pa")}, false},
	} {
		for _, first := range peers() { // in either order
			t.Run(fmt.Sprint(name, ", ", first, " first"), func(t *testing.T) {
				t.Parallel()
				tb := newTable()
				tb.hearFrom(contract.Alpha, proposes("pa"))
				tb.hearFrom(contract.Beta)
				tb.become(contract.PipelineOrchestrating, tb.now, "")
				tb.give()
				if first == contract.Alpha {
					tb.hearFrom(contract.Alpha, isDone())
					tb.hearFrom(contract.Beta, c.moves...)
				} else {
					tb.hearFrom(contract.Beta, c.moves...)
					tb.hearFrom(contract.Alpha, isDone())
				}
				require.Equal(t, !c.woken, tb.seat(contract.Alpha).done)
				require.Equal(t, c.woken, slices.Contains(tb.give(), contract.Alpha))
			})
		}
	}
}

func TestTurnsAreGivenForNewsOrWhenNobodyThinks(t *testing.T) {
	t.Parallel()
	c := exchanging()
	require.Empty(t, c.give(), "both think")
	c.hearFrom(contract.Alpha)
	require.Empty(t, c.give(), "BETA thinks, and there is no news for ALPHA")
	c.hearFrom(contract.Beta, tells("ALPHA", "news"))
	require.Equal(t, peers(), c.give(), "nobody thinks")
	require.Equal(t, 1, c.metrics.Iterations)
	c.hearFrom(contract.Beta, tells("", "hm"))
	require.Empty(t, c.give(), "ALPHA thinks; nothing is new to BETA")
	c.hearFrom(contract.Alpha, proposes("pa"))
	require.Equal(t, peers(), c.give())
	require.Len(t, c.turns[contract.Beta].News.Entries, 1)
	require.Empty(t, c.turns[contract.Beta].News.Messages, "its own are no news")
	require.Len(t, c.turns[contract.Alpha].News.Messages, 1, "and what it was told is told once")
	require.Equal(t, 2, c.metrics.Iterations)
	require.Equal(t, 2+2+2+2, c.metrics.BlackboardReads)
}

func TestOneThatAnswersAtOnceIsNotGivenTurnsWithoutEndWhileAnotherThinks(t *testing.T) {
	t.Parallel()
	c := exchanging(func(in *contract.DeliberationInput) { in.Settings.ForceGamma = true })
	c.join(contract.Gamma, "GAMMA-token", contract.GammaForced, c.now)
	c.give()
	given := 0
	for range 50 { // BETA thinks all the while
		c.hearFrom(contract.Alpha, tells("GAMMA", "ping"))
		c.hearFrom(contract.Gamma, tells("ALPHA", "pong"))
		given += len(c.give())
	}
	require.LessOrEqual(t, given, 2*turnsInRound)
	require.Zero(t, c.metrics.Iterations)
}

func TestAPlaceOfTheBlackboardKeepsItsNumber(t *testing.T) {
	t.Parallel()
	c := newTable()
	c.hearFrom(contract.Alpha, proposes("z"), proposes("a"), proposes("z"))
	var got []string
	for _, e := range c.entries { // as they are written
		got = append(got, fmt.Sprintf("%d %s v%d", e.Place, e.Key, e.Version))
	}
	require.Equal(t, []string{"1 task_definition v1", "2 z v1", "3 a v1", "2 z v2"}, got)
}

func TestProgressIsToldInWholePercents(t *testing.T) {
	t.Parallel()
	c := exchanging(func(in *contract.DeliberationInput) { in.Settings.Iterations = 7 })
	for range 14 { // so many turns
		for _, m := range c.give() {
			c.hearFrom(m, tells("", "hm"))
		}
		for _, v := range c.views() {
			told, err := json.Marshal(v.Progress)
			require.NoError(t, err)
			require.LessOrEqual(t, len(told), len("0.39"), string(told))
		}
	}
}

func TestARoundInWhichTheLastAreRevokedIsCountedOnce(t *testing.T) {
	t.Parallel()
	c := exchanging(func(in *contract.DeliberationInput) { in.Settings.ForceGamma, in.Settings.ViolationLimit = true, 0 })
	c.join(contract.Gamma, "GAMMA-token", contract.GammaForced, c.now)
	c.give()
	c.hearFrom(contract.Alpha, decides("s1"))
	require.Zero(t, c.metrics.Iterations, "BETA has not taken its turn")
	c.hearFrom(contract.Beta, decides("s1"))
	require.NotNil(t, c.bothGone())
	require.Equal(t, 1, c.metrics.Iterations)
	c.decided = true
	c.hearFrom(contract.Gamma, tells("", "hello?"))
	require.Equal(t, []int{1, 1}, []int{c.metrics.Iterations, c.metrics.TotalMessages}, "what is said while it ends is kept, and makes no round")
}

func TestAConsensusIsAboutOneVersion(t *testing.T) {
	t.Parallel()
	c := exchanging()
	c.hearFrom(contract.Alpha, synthesises("s1"), accepts("s1", 0))
	c.hearFrom(contract.Beta, tells("", "hm"))
	c.give()
	c.hearFrom(contract.Alpha, synthesises("s1"))
	c.hearFrom(contract.Beta)
	c.give()
	c.hearFrom(contract.Beta, accepts("s1", 2))
	require.Nil(t, c.conclude(c.now), "they accept different versions")
	c.hearFrom(contract.Alpha)
	c.give()
	c.hearFrom(contract.Beta, rejects("s1", 2))
	c.hearFrom(contract.Alpha, accepts("s1", 2))
	require.Nil(t, c.conclude(c.now), "the last vote counts")
	c.give()
	c.hearFrom(contract.Beta, accepts("s1", 1))
	require.Nil(t, c.conclude(c.now), "who writes a new version stands for the earlier one no longer")
	c.give()
	c.hearFrom(contract.Alpha, accepts("s1", 1))
	out := c.conclude(c.now)
	require.NotNil(t, out)
	require.Equal(t, &choice{key: "s1", version: 1}, out.choice)
	require.Equal(t, 6, c.metrics.Votes)
}

func TestConflictsAreCountedUpAndDown(t *testing.T) {
	t.Parallel()
	c := exchanging()
	c.hearFrom(contract.Alpha, proposes("p1"), proposes("p2"), proposes("p3"))
	require.Equal(t, 1, c.metrics.ConflictsDetected, "proposals that compete are one conflict")
	reason, wanted := c.gammaWanted(c.now)
	require.True(t, wanted)
	require.Equal(t, contract.GammaConflict, reason)
	c.hearFrom(contract.Beta, objects("p1"), objects("p1"))
	require.Equal(t, 3, c.metrics.ConflictsDetected)
	c.give()
	c.hearFrom(contract.Alpha, resolves("p1"), resolves("p1"))
	require.Equal(t, 2, c.metrics.ConflictsResolved, "the objections were answered; then it was withdrawn")
	require.Equal(t, contract.EntryWithdrawn, c.at(contract.SectionSolutions, "p1").State)
	c.hearFrom(contract.Beta, synthesises("s1", "p2", "p3"), objects("s1"))
	require.Equal(t, contract.EntryMerged, c.at(contract.SectionSolutions, "p2").State)
	require.Equal(t, 3, c.metrics.ConflictsResolved)
	c.accept(&choice{key: "s1", version: 1}, c.now)
	require.Equal(t, 4, c.metrics.ConflictsDetected)
	require.Equal(t, 4, c.metrics.ConflictsResolved, "at a consensus none is open")
}

func TestPayloadsFitWhateverTheTextsAre(t *testing.T) {
	t.Parallel()
	hostile := contract.Text{Head: strings.Repeat("<", contract.TextHead), Ref: strings.Repeat("a", keyLength), Size: 1 << 20}
	c := exchanging(func(in *contract.DeliberationInput) { in.Settings.MovesPerTurn = 1000 })
	var many []contract.Move
	for i := range 60 {
		many = append(many, contract.Move{Kind: contract.MovePropose, Key: fmt.Sprint("p", i), Text: hostile}, contract.Move{Kind: contract.MoveMessage, Text: hostile},
			contract.Move{Kind: contract.MoveSynthesise, Key: fmt.Sprint("s", i), Text: hostile}, contract.Move{Kind: contract.MoveVote, Key: fmt.Sprint("s", i), Accept: new(bool), Text: hostile})
	}
	c.settings.Entries = 1000
	c.hearFrom(contract.Alpha, many...)
	c.hearFrom(contract.Beta)
	require.Contains(t, c.give(), contract.Beta)
	fits := func(what string, v any) {
		raw, err := json.Marshal(v)
		require.NoError(t, err)
		require.Less(t, len(raw), contract.PayloadLimit, what)
	}
	fits("a turn", c.turns[contract.Beta])
	require.Contains(t, c.turns[contract.Beta].News.Note, "older entries")
	c.report(contract.ReportPartial, contract.PipelineStopped, c.summary(), c.now)
	fits("the handoff", c.handoffOf(contract.ReasonNoConsensus, c.now))
	fits("what is inherited", c.inherit(contract.ReasonNoConsensus))
	c.failed(contract.ReasonNoConsensus, c.now)
	var entries, messages, votes, events int
	for c.toWrite() {
		rec := c.draft(1, c.now)
		fits("a record", rec)
		entries, messages, votes, events = entries+len(rec.Entries), messages+len(rec.Messages), votes+len(rec.Votes), events+len(rec.Events)
	}
	require.Equal(t, []int{121, 60, 60}, []int{entries, messages, votes}, "nothing is left out of the records")
	require.Greater(t, events, 240)
}

// party is a deliberation whose members do anything, in any order.
type party struct {
	*table
	r       *rand.Rand
	mail    []letter
	said    map[string]contract.Move // by id, of turns as they were first delivered
	first   map[string]bool          // turns that were delivered, by member and number
	records []contract.PipelineRecord
	steps   int
}

// letter is a signal on its way.
type letter struct {
	at    time.Time
	moves contract.Moves
	gone  contract.Member // its workflow ended instead
}

// invent makes up what a member does in a turn.
func (p *party) invent(m contract.Member) []contract.Move {
	keys := []string{"p1", "p2", "p3", "s1", "s2", "nothing", "not a key"}
	key := func() string { return keys[p.r.IntN(len(keys))] }
	anything := []func() contract.Move{
		func() contract.Move { return proposes(string(m) + key()) }, func() contract.Move { return proposes(key()) },
		func() contract.Move { return synthesises(key(), key()) }, func() contract.Move { return synthesises(fmt.Sprint("s", 1+p.r.IntN(2))) },
		func() contract.Move { return evaluates(key(), p.r.Float64()) }, func() contract.Move { return objects(key()) }, func() contract.Move { return resolves(key()) },
		func() contract.Move { return answers(p.anyObjection(), "so") },
		func() contract.Move {
			return decomposes(contract.Subtask{ID: "t1", Description: "a"}, contract.Subtask{ID: fmt.Sprint("t", 1+p.r.IntN(3)), Description: "b", Dependencies: []string{"t1"}})
		},
		func() contract.Move { return proposes(fmt.Sprint("t", 1+p.r.IntN(3))) },
		func() contract.Move { return accepts(key(), p.r.IntN(3)) }, func() contract.Move { return rejects(key(), p.r.IntN(3)) },
		func() contract.Move {
			return tells([]string{"", "ALL", "ALPHA", "BETA", "GAMMA", "PERSON"}[p.r.IntN(6)], "hm")
		},
		func() contract.Move { return analyses(p.r.Float64()) }, isDone, func() contract.Move { return decides(key()) },
	}
	out := make([]contract.Move, p.r.IntN(6))
	for i := range out {
		out[i] = anything[p.r.IntN(len(anything))]()
	}
	return out
}

// anyObjection is the key of some objection, if there is one.
func (p *party) anyObjection() string {
	keys := []string{"p1/objection/ALPHA-1-1"}
	for _, e := range p.of(contract.MoveObject) {
		keys = append(keys, e.Key)
	}
	return keys[p.r.IntN(len(keys))]
}

// post sends what a member does in a turn, perhaps twice, perhaps late, perhaps
// never; and sometimes somebody else says something in its name.
func (p *party) post(m contract.Member, turn contract.Turn) {
	soon := func(most int) time.Time { return p.now.Add(time.Duration(p.r.IntN(most*1000)) * time.Millisecond) }
	moves := contract.Moves{Token: string(m) + "-token", Member: m, Turn: turn.Number, Usage: contract.Usage{Calls: 1}, Moves: p.invent(m)}
	switch dice := p.r.IntN(100); {
	case dice < 2:
		p.mail = append(p.mail, letter{at: soon(20), gone: m})
		return
	case dice < 4:
		return // it hangs
	case dice < 8:
		moves.Moves, moves.Bad = nil, &fault.New(contract.ClassLLM, contract.CodeInvalidOutput, "no JSON %d", dice).Failure
	}
	p.mail = append(p.mail, letter{at: soon(15), moves: moves})
	for p.r.IntN(3) == 0 {
		p.mail = append(p.mail, letter{at: soon(40), moves: moves})
	}
	if p.r.IntN(10) == 0 {
		forged := moves
		forged.Token, forged.Moves = "guessed", []contract.Move{tells("", "forged"), decides("s1")}
		p.mail = append(p.mail, letter{at: soon(15), moves: forged})
	}
}

// next lets the next thing happen: mail, or the time of a deadline.
func (p *party) next() {
	p.steps++
	at, i := p.deadline(p.now), -1
	for n, l := range p.mail {
		if at.IsZero() || l.at.Before(at) {
			at, i = l.at, n
		}
	}
	if at.After(p.now) {
		p.now = at
	}
	if i < 0 {
		return
	}
	l := p.mail[i]
	p.mail = slices.Delete(p.mail, i, i+1)
	p.deliver(l)
}

func (p *party) deliver(l letter) {
	if l.gone != "" {
		p.ended(l.gone, contract.MemberResult{Failure: &fault.New(contract.ClassLLM, contract.CodeRefusal, "no").Failure})
		return
	}
	turn := fmt.Sprint(l.moves.Member, "-", l.moves.Turn)
	if s := p.seat(l.moves.Member); l.moves.Token == s.token && !s.dead && !p.over && !p.first[turn] {
		p.first[turn] = true
		for i, m := range l.moves.Moves {
			p.said[fmt.Sprint(turn, "-", i+1)] = m
		}
	}
	p.hear(l.moves, p.now)
}

// run plays the deliberation to its end, as the workflow does.
func (p *party) run(t *testing.T) *outcome {
	exchange := func() *outcome {
		for {
			require.Less(t, p.steps, 5_000, "it ends")
			if p.status == contract.PipelineOrchestrating {
				if out := p.conclude(p.now); out != nil {
					return out
				}
			} else if p.openingOver(p.now) {
				return p.bothGone()
			}
			if reason, wanted := p.gammaWanted(p.now); wanted {
				p.join(contract.Gamma, "GAMMA-token", reason, p.now)
			}
			for _, g := range p.grants(p.now) {
				p.post(g.to, g.turn)
			}
			if p.r.IntN(3) == 0 && p.toWrite() {
				p.records = append(p.records, p.draft(int64(len(p.records)+1), p.now))
			}
			p.next()
		}
	}
	if out := exchange(); out != nil {
		return out
	}
	p.become(contract.PipelineReport, p.now, "")
	p.become(contract.PipelineOrchestrating, p.now, "")
	return exchange()
}

func TestAThousandDeliberationsLoseAndRepeatNothingAndEnd(t *testing.T) {
	t.Parallel()
	endings, joined := map[string]int{}, map[contract.GammaReason]int{}
	for seed := range uint64(1000) {
		p := &party{table: newTable(), r: rand.New(rand.NewPCG(seed, 7)), said: map[string]contract.Move{}, first: map[string]bool{}}
		for _, m := range peers() {
			p.post(m, p.turns[m])
		}
		out := p.run(t)
		endings[string(out.status)+" "+string(out.abort)]++
		joined[p.metrics.GammaReason]++
		if out.choice != nil {
			p.accept(out.choice, p.now)
		}
		p.over = true
		before := p.metrics
		for len(p.mail) > 0 { // what comes too late
			l := p.mail[0]
			p.mail = p.mail[1:]
			p.deliver(l)
		}
		require.Equal(t, before, p.metrics, "seed %d: what comes after the end changes nothing", seed)
		for p.toWrite() {
			p.records = append(p.records, p.draft(int64(len(p.records)+1), p.now))
		}
		p.check(t, seed, out)
	}
	t.Logf("endings: %v; GAMMA: %v", endings, joined)
	require.GreaterOrEqual(t, len(endings), 5, "the deliberations are of many kinds: %v", endings)
	require.GreaterOrEqual(t, len(joined), 4, "GAMMA joins for many reasons: %v", joined)
}

// check compares what was written with what members did.
func (p *party) check(t *testing.T, seed uint64, out *outcome) {
	t.Helper()
	want := contract.DeliberationMetrics{}
	seen := map[string]bool{}
	once := func(id string) contract.Move {
		require.False(t, seen[id], "seed %d: %s is written twice", seed, id)
		seen[id] = true
		move, ok := p.said[id]
		require.True(t, ok, "seed %d: nobody did %s", seed, id)
		return move
	}
	refused, refusals := map[string]bool{}, 0
	for _, rec := range p.records {
		for _, m := range rec.Messages {
			move := once(m.ID)
			want.TotalMessages++
			require.Equal(t, want.TotalMessages, m.Seq, "seed %d", seed)
			require.True(t, strings.HasPrefix(m.ID, string(m.From)+"-"), "seed %d", seed)
			if move.To != "" && move.To != "ALL" {
				want.DirectMessages++
			}
		}
		for _, v := range rec.Votes {
			once(v.ID)
			want.Votes++
		}
		for _, e := range rec.Errors {
			refused[e.ID] = true
			refusals++
		}
		for _, e := range rec.Events {
			payload, _ := e.Payload.(map[string]any)
			switch e.Type {
			case contract.EventBlackboardWritten:
				if move := payload["move"]; move != contract.MoveKind("") && move != contract.MoveVerdict {
					want.BlackboardWrites++
				}
			case contract.EventConflictDetected:
				want.ConflictsDetected++
			case contract.EventConflictResolved:
				want.ConflictsResolved++
			case contract.EventGammaSpawned:
				require.False(t, want.GammaSpawned, "seed %d: GAMMA joins once", seed)
				want.GammaSpawned = true
			default:
			}
		}
	}
	// Each move of a turn that counted was taken or refused; of one that was
	// revoked, those after the last straw are neither.
	revoked := slices.ContainsFunc(p.seats, func(s *seat) bool { return s.revoke != "" })
	for id, move := range p.said {
		s := p.seat(contract.Member(strings.Split(id, "-")[0]))
		if refused[id] || p.turnOf(id) > s.taken || s.revoke != "" && p.turnOf(id) == s.taken {
			continue
		}
		want.Decisions++
		if move.Kind == contract.MoveMessage || move.Kind == contract.MoveVote {
			require.True(t, seen[id], "seed %d: %s was lost: %+v", seed, id, move)
		}
	}
	got := p.metrics
	if revoked {
		require.LessOrEqual(t, want.Decisions, got.Decisions, "seed %d", seed)
	} else {
		require.Equal(t, want.Decisions, got.Decisions, "seed %d", seed)
	}
	if refusals < toldErrors {
		require.Equal(t, refusals, got.Refused, "seed %d", seed)
	}
	require.Equal(t, want.TotalMessages, got.TotalMessages, "seed %d", seed)
	require.Equal(t, want.DirectMessages, got.DirectMessages, "seed %d", seed)
	require.Equal(t, want.Votes, got.Votes, "seed %d", seed)
	require.Equal(t, want.BlackboardWrites, got.BlackboardWrites, "seed %d", seed)
	require.Equal(t, want.ConflictsDetected, got.ConflictsDetected, "seed %d", seed)
	require.Equal(t, want.ConflictsResolved, got.ConflictsResolved, "seed %d", seed)
	require.Equal(t, want.GammaSpawned, got.GammaSpawned, "seed %d", seed)
	require.LessOrEqual(t, got.Iterations, p.settings.Iterations, "seed %d", seed)
	if out.abort == contract.AbortIterationLimit && p.now.Before(p.lastProgress.Add(p.settings.AbortAfter)) && p.now.Before(p.roundsOver.Add(p.settings.ModelTimeout)) {
		require.False(t, slices.ContainsFunc(p.living(), (*seat).thinking), "seed %d: a turn is cut off", seed)
	}
	if out.status == contract.PipelineCompleted {
		require.Equal(t, got.ConflictsDetected, got.ConflictsResolved, "seed %d", seed)
		for _, s := range p.livingPeers() {
			require.True(t, out.choice.by == contract.Gamma || slices.ContainsFunc(p.votes, func(v contract.Vote) bool {
				return v.Voter == s.member && v.Key == out.choice.key && v.Version == out.choice.version && v.Accept
			}), "seed %d", seed)
		}
	}
	votes := map[string]bool{}
	for _, v := range p.votes {
		key := fmt.Sprint(v.Voter, v.Key, v.Version)
		require.False(t, votes[key], "seed %d: %s has two votes", seed, key)
		votes[key] = true
	}
}

func (p *party) turnOf(id string) int {
	var turn int
	_, _ = fmt.Sscanf(strings.Split(id, "-")[1], "%d", &turn)
	return turn
}
