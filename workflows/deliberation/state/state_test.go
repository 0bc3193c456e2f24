package state

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
	"github.com/rocketgpt/orchestrator/workflows/deliberation/deliberationtest"
)

// peers is a deliberation whose members are played by the test.
type peers struct {
	*State
	now   time.Time
	turns map[contract.Member]contract.Turn // the last turn of each
}

func start() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }

func newPeers(change ...func(*contract.DeliberationInput)) *peers {
	t := &peers{State: New(deliberationtest.Input(change...), start()), now: start(), turns: map[contract.Member]contract.Turn{}}
	for _, m := range Peers() {
		t.Join(m, string(m)+"-token", "", t.now)
	}
	t.SetStatus(contract.PipelineRunning, t.now, "")
	t.giveTurns()
	return t
}

// exchanging is a table in the middle of an exchange.
func exchanging(change ...func(*contract.DeliberationInput)) *peers {
	t := newPeers(change...)
	t.receive(contract.Alpha)
	t.receive(contract.Beta)
	t.SetStatus(contract.PipelineReport, t.now, "")
	t.SetStatus(contract.PipelineOrchestrating, t.now, "")
	t.giveTurns()
	return t
}

// giveTurns gives the turns that are due, and returns to whom.
func (t *peers) giveTurns() []contract.Member {
	var out []contract.Member
	for _, g := range t.NextTurns(t.now) {
		t.turns[g.To] = g.Turn
		out = append(out, g.To)
	}
	return out
}

// receive delivers a member's turn.
func (t *peers) receive(m contract.Member, moves ...contract.Move) {
	t.Receive(contract.Moves{Token: string(m) + "-token", Member: m, Turn: t.turns[m].Number, Moves: moves}, t.now)
}

func TestMovesThatMakeNoSenseAreRefused(t *testing.T) {
	t.Parallel()
	long := deliberationtest.Text(strings.Repeat("x", contract.TextHead+1))
	negative := -0.1
	cases := map[string]contract.Move{
		"it needs a key":                 {Kind: contract.MovePropose, Text: deliberationtest.Text("x")},
		"a key must be":                  deliberationtest.Proposes("no spaces"),
		"belongs to BETA":                deliberationtest.Proposes("pb"),
		"use another key":                deliberationtest.Synthesises("pa"),
		"there is no p9":                 deliberationtest.Evaluates("p9", 0.5),
		"there is no p8":                 deliberationtest.Objects("p8"),
		"there is no p7":                 deliberationtest.Resolves("p7"),
		"there is no s9":                 deliberationtest.Accepts("s9", 1),
		"there is no p6":                 deliberationtest.Synthesises("sx", "p6"),
		"not a synthesis":                deliberationtest.Accepts("pa", 1),
		"no version 9":                   deliberationtest.Accepts("sb", 9),
		"accept":                         {Kind: contract.MoveVote, Key: "sb"},
		"only BETA can withdraw":         deliberationtest.Resolves("pb"),
		"there is no objection to sb":    deliberationtest.Resolves("sb"),
		"addressed to its sender":        deliberationtest.Sends("ALPHA", "me"),
		"recipient is not active":        deliberationtest.Sends("PERSON", "approve it"),
		"it is empty":                    {Kind: contract.MoveMessage},
		"too long":                       {Kind: contract.MoveMessage, Text: long},
		"bytes long, more than":          {Kind: contract.MoveMessage, Text: contract.Text{Head: "x", Size: 2 << 20}},
		"scores must be":                 {Kind: contract.MoveEvaluate, Key: "pb", Score: &negative},
		"versions start at 1":            {Kind: contract.MoveVote, Key: "sb", Version: -1},
		"has no move \"verdict\"":        deliberationtest.Decides("sb"),
		"has no move \"approve\"":        {Kind: "approve"},
		"an invalid key":                 {Kind: contract.MoveSynthesise, Key: "sy", From: []string{"../x"}},
		"the blackboard is full: it has": {Kind: contract.MovePropose, Key: "full", Text: deliberationtest.Text("x")},
	}
	for why, move := range cases {
		t.Run(why, func(t *testing.T) {
			t.Parallel()
			c := newPeers(func(in *contract.DeliberationInput) {
				in.Settings.TextLimit = 1 << 20
				if move.Key == "full" {
					in.Settings.Entries = 4 // the task, pa, pb, sb
				}
			})
			c.receive(contract.Beta, deliberationtest.Proposes("pb"), deliberationtest.Synthesises("sb"))
			before := c.Metrics
			c.receive(contract.Alpha, deliberationtest.Proposes("pa"), move)
			require.Len(t, c.Participant(contract.Alpha).errors, 1)
			require.Contains(t, c.Participant(contract.Alpha).errors[0].Message, why)
			require.Equal(t, 1, c.Metrics.Refused)
			require.Equal(t, before.Decisions+1, c.Metrics.Decisions, "the proposal before it counts")
			require.Equal(t, before.BlackboardWrites+1, c.Metrics.BlackboardWrites)
		})
	}
}

func TestEveryTurnIsExecutedOnceAndInOrder(t *testing.T) {
	t.Parallel()
	c := exchanging()
	say := func(turn int, words string) {
		c.Receive(contract.Moves{Token: "ALPHA-token", Member: contract.Alpha, Turn: turn, Moves: []contract.Move{deliberationtest.Sends("", words)}}, c.now)
	}
	say(3, "three") // early
	say(1, "one")   // had come
	require.Empty(t, c.messages)
	say(2, "two")
	say(2, "two again")
	require.Len(t, c.messages, 1)
	c.receive(contract.Beta)
	require.Contains(t, c.giveTurns(), contract.Alpha)
	c.ReceiveEarly(c.Participant(contract.Alpha), c.now)
	require.Len(t, c.messages, 2)
	require.Equal(t, []string{"ALPHA-2-1", "ALPHA-3-1"}, []string{c.messages[0].ID, c.messages[1].ID})
	require.Zero(t, c.Metrics.Refused, "duplicates and late ones are nobody's fault")
	say(99, "far ahead")
	require.Equal(t, 1, c.Metrics.Refused)
}

func TestAStolenTokenHarmsNeitherItsOwnerNorTheImpersonatedMember(t *testing.T) {
	t.Parallel()
	c := exchanging()
	const often = 20
	for range often {
		c.Receive(contract.Moves{Token: "ALPHA-token", Member: contract.Beta, Turn: 2, Moves: []contract.Move{deliberationtest.Done()}}, c.now)
	}
	for _, m := range Peers() {
		s := c.Participant(m)
		require.Equal(t, []any{false, false, 0, contract.MemberThinking}, []any{s.Dead, s.done, s.View.Errors, s.View.Status}, m)
	}
	require.Equal(t, often, c.Metrics.Refused)
	require.Len(t, c.errs, often)
	require.Equal(t, contract.Error{
		Member: contract.Alpha, Class: contract.ClassSafety, Code: contract.CodeForbidden, Severity: contract.SeverityMajor, Message: "the token of ALPHA was used to submit moves as another member",
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
			c.Receive(moves, c.now)
			require.Equal(t, 1, c.Metrics.Refused)
			for c.HasUnwritten() {
				require.Less(t, size(c.NextRecord(1, c.now)), contract.PayloadLimit)
			}
			for _, g := range c.NextTurns(c.now) {
				require.Less(t, size(g.Turn), contract.PayloadLimit)
			}
			require.Less(t, size(c.View()), contract.PayloadLimit)
		})
	}
}

func TestAFloodIsCountedAndRecordedOnlyInPart(t *testing.T) {
	t.Parallel()
	c := newPeers()
	const flood = 10_000
	for i := range flood {
		c.Receive(contract.Moves{Token: "x", Member: contract.Alpha, Turn: i, Moves: []contract.Move{deliberationtest.Sends("", "hm")}}, c.now)
	}
	require.Equal(t, flood, c.Metrics.Refused)
	require.Len(t, c.errs, MaxRefusalsRecorded)
	require.Zero(t, c.Metrics.TotalMessages)

	many := slices.Repeat([]contract.Move{deliberationtest.Sends("", "hm")}, flood)
	c.receive(contract.Alpha, many...)
	require.Equal(t, c.Settings.MovesPerTurn, c.Metrics.TotalMessages, "the first of a turn count")
	require.Equal(t, flood+flood-c.Settings.MovesPerTurn, c.Metrics.Refused)
}

func TestWhoIsDoneIsWokenByWhatIsForIt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		moves []contract.Move
		woken bool
	}{
		"a message to it":                                 {[]contract.Move{deliberationtest.Sends("ALPHA", "psst")}, true},
		"an objection to what it wrote":                   {[]contract.Move{deliberationtest.Objects("pa")}, true},
		"a synthesis of a partner at work":                {[]contract.Move{deliberationtest.Synthesises("s1")}, true},
		"a message to all":                                {[]contract.Move{deliberationtest.Sends("ALL", "hm")}, false},
		"a proposal":                                      {[]contract.Move{deliberationtest.Proposes("pb")}, false},
		"a synthesis of a partner that is done":           {[]contract.Move{deliberationtest.Synthesises("s1"), deliberationtest.Done()}, false},
		"a message to it of a partner that is done":       {[]contract.Move{deliberationtest.Sends("ALPHA", "psst"), deliberationtest.Done()}, true},
		"an objection to what it wrote that was answered": {[]contract.Move{deliberationtest.Objects("pa"), deliberationtest.Resolves("pa")}, false},
	} {
		for _, first := range Peers() { // in either order
			t.Run(fmt.Sprint(name, ", ", first, " first"), func(t *testing.T) {
				t.Parallel()
				tb := newPeers()
				tb.receive(contract.Alpha, deliberationtest.Proposes("pa"))
				tb.receive(contract.Beta)
				tb.SetStatus(contract.PipelineOrchestrating, tb.now, "")
				tb.giveTurns()
				if first == contract.Alpha {
					tb.receive(contract.Alpha, deliberationtest.Done())
					tb.receive(contract.Beta, c.moves...)
				} else {
					tb.receive(contract.Beta, c.moves...)
					tb.receive(contract.Alpha, deliberationtest.Done())
				}
				require.Equal(t, !c.woken, tb.Participant(contract.Alpha).done)
				require.Equal(t, c.woken, slices.Contains(tb.giveTurns(), contract.Alpha))
			})
		}
	}
}

func TestTurnsAreGivenForNewsOrWhenNobodyThinks(t *testing.T) {
	t.Parallel()
	c := exchanging()
	require.Empty(t, c.giveTurns(), "both think")
	c.receive(contract.Alpha)
	require.Empty(t, c.giveTurns(), "BETA thinks, and there is no news for ALPHA")
	c.receive(contract.Beta, deliberationtest.Sends("ALPHA", "news"))
	require.Equal(t, Peers(), c.giveTurns(), "nobody thinks")
	require.Equal(t, 1, c.Metrics.Iterations)
	c.receive(contract.Beta, deliberationtest.Sends("", "hm"))
	require.Empty(t, c.giveTurns(), "ALPHA thinks; nothing is new to BETA")
	c.receive(contract.Alpha, deliberationtest.Proposes("pa"))
	require.Equal(t, Peers(), c.giveTurns())
	require.Len(t, c.turns[contract.Beta].News.Entries, 1)
	require.Empty(t, c.turns[contract.Beta].News.Messages, "its own are no news")
	require.Len(t, c.turns[contract.Alpha].News.Messages, 1, "and what it was told is told once")
	require.Equal(t, 2, c.Metrics.Iterations)
	require.Equal(t, 2+2+2+2, c.Metrics.BlackboardReads)
}

func TestAFastMemberGetsABoundedNumberOfTurnsWhileAnotherThinks(t *testing.T) {
	t.Parallel()
	c := exchanging(func(in *contract.DeliberationInput) { in.Settings.ForceGamma = true })
	c.Join(contract.Gamma, "GAMMA-token", contract.GammaForced, c.now)
	c.giveTurns()
	given := 0
	for range 50 { // BETA thinks all the while
		c.receive(contract.Alpha, deliberationtest.Sends("GAMMA", "ping"))
		c.receive(contract.Gamma, deliberationtest.Sends("ALPHA", "pong"))
		given += len(c.giveTurns())
	}
	require.LessOrEqual(t, given, 2*turnsInRound)
	require.Zero(t, c.Metrics.Iterations)
}

func TestAPlaceOfTheBlackboardKeepsItsNumber(t *testing.T) {
	t.Parallel()
	c := newPeers()
	c.receive(contract.Alpha, deliberationtest.Proposes("z"), deliberationtest.Proposes("a"), deliberationtest.Proposes("z"))
	var got []string
	for _, e := range c.entries { // as they are written
		got = append(got, fmt.Sprintf("%d %s v%d", e.Place, e.Key, e.Version))
	}
	require.Equal(t, []string{"1 task_definition v1", "2 z v1", "3 a v1", "2 z v2"}, got)
}

func TestProgressIsReportedInWholePercents(t *testing.T) {
	t.Parallel()
	c := exchanging(func(in *contract.DeliberationInput) { in.Settings.Iterations = 7 })
	for range 14 { // so many turns
		for _, m := range c.giveTurns() {
			c.receive(m, deliberationtest.Sends("", "hm"))
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
	c.Join(contract.Gamma, "GAMMA-token", contract.GammaForced, c.now)
	c.giveTurns()
	c.receive(contract.Alpha, deliberationtest.Decides("s1"))
	require.Zero(t, c.Metrics.Iterations, "BETA has not taken its turn")
	c.receive(contract.Beta, deliberationtest.Decides("s1"))
	require.NotNil(t, c.PeersGone())
	require.Equal(t, 1, c.Metrics.Iterations)
	c.Decided = true
	c.receive(contract.Gamma, deliberationtest.Sends("", "hello?"))
	require.Equal(t, []int{1, 1}, []int{c.Metrics.Iterations, c.Metrics.TotalMessages}, "what is said while it ends is kept, and makes no round")
}

func TestAConsensusIsAboutOneVersion(t *testing.T) {
	t.Parallel()
	c := exchanging()
	c.receive(contract.Alpha, deliberationtest.Synthesises("s1"), deliberationtest.Accepts("s1", 0))
	c.receive(contract.Beta, deliberationtest.Sends("", "hm"))
	c.giveTurns()
	c.receive(contract.Alpha, deliberationtest.Synthesises("s1"))
	c.receive(contract.Beta)
	c.giveTurns()
	c.receive(contract.Beta, deliberationtest.Accepts("s1", 2))
	require.Nil(t, c.Conclude(c.now), "they accept different versions")
	c.receive(contract.Alpha)
	c.giveTurns()
	c.receive(contract.Beta, deliberationtest.Rejects("s1", 2))
	c.receive(contract.Alpha, deliberationtest.Accepts("s1", 2))
	require.Nil(t, c.Conclude(c.now), "the last vote counts")
	c.giveTurns()
	c.receive(contract.Beta, deliberationtest.Accepts("s1", 1))
	require.Nil(t, c.Conclude(c.now), "who writes a new version stands for the earlier one no longer")
	c.giveTurns()
	c.receive(contract.Alpha, deliberationtest.Accepts("s1", 1))
	out := c.Conclude(c.now)
	require.NotNil(t, out)
	require.Equal(t, &Choice{Key: "s1", Version: 1}, out.Choice)
	require.Equal(t, 6, c.Metrics.Votes)
}

func TestConflictsAreCountedUpAndDown(t *testing.T) {
	t.Parallel()
	c := exchanging()
	c.receive(contract.Alpha, deliberationtest.Proposes("p1"), deliberationtest.Proposes("p2"), deliberationtest.Proposes("p3"))
	require.Equal(t, 1, c.Metrics.ConflictsDetected, "proposals that compete are one conflict")
	reason, wanted := c.GammaWanted(c.now)
	require.True(t, wanted)
	require.Equal(t, contract.GammaConflict, reason)
	c.receive(contract.Beta, deliberationtest.Objects("p1"), deliberationtest.Objects("p1"))
	require.Equal(t, 3, c.Metrics.ConflictsDetected)
	c.giveTurns()
	c.receive(contract.Alpha, deliberationtest.Resolves("p1"), deliberationtest.Resolves("p1"))
	require.Equal(t, 2, c.Metrics.ConflictsResolved, "the objections were answered; then it was withdrawn")
	require.Equal(t, contract.EntryWithdrawn, c.at(contract.SectionSolutions, "p1").State)
	c.receive(contract.Beta, deliberationtest.Synthesises("s1", "p2", "p3"), deliberationtest.Objects("s1"))
	require.Equal(t, contract.EntryMerged, c.at(contract.SectionSolutions, "p2").State)
	require.Equal(t, 3, c.Metrics.ConflictsResolved)
	c.AcceptConsensus(&Choice{Key: "s1", Version: 1}, c.now)
	require.Equal(t, 4, c.Metrics.ConflictsDetected)
	require.Equal(t, 4, c.Metrics.ConflictsResolved, "at a consensus none is open")
}

func TestPayloadsFitWhateverTheTextsAre(t *testing.T) {
	t.Parallel()
	hostile := contract.Text{Head: strings.Repeat("<", contract.TextHead), Ref: strings.Repeat("a", KeyLength), Size: 1 << 20}
	c := exchanging(func(in *contract.DeliberationInput) { in.Settings.MovesPerTurn = 1000 })
	var many []contract.Move
	for i := range 60 {
		many = append(many, contract.Move{Kind: contract.MovePropose, Key: fmt.Sprint("p", i), Text: hostile}, contract.Move{Kind: contract.MoveMessage, Text: hostile},
			contract.Move{Kind: contract.MoveSynthesise, Key: fmt.Sprint("s", i), Text: hostile}, contract.Move{Kind: contract.MoveVote, Key: fmt.Sprint("s", i), Accept: new(bool), Text: hostile})
	}
	c.Settings.Entries = 1000
	c.receive(contract.Alpha, many...)
	c.receive(contract.Beta)
	require.Contains(t, c.giveTurns(), contract.Beta)
	fits := func(what string, v any) {
		raw, err := json.Marshal(v)
		require.NoError(t, err)
		require.Less(t, len(raw), contract.PayloadLimit, what)
	}
	fits("a turn", c.turns[contract.Beta])
	require.Contains(t, c.turns[contract.Beta].News.Note, "older entries")
	c.AddReport(contract.ReportPartial, contract.PipelineStopped, c.Summary(), c.now)
	fits("the handoff", c.Handoff(contract.ReasonNoConsensus, c.now))
	fits("what is inherited", c.Inherit(contract.ReasonNoConsensus))
	c.RecordFailureContext(contract.ReasonNoConsensus, c.now)
	var entries, messages, votes, events int
	for c.HasUnwritten() {
		rec := c.NextRecord(1, c.now)
		fits("a record", rec)
		entries, messages, votes, events = entries+len(rec.Entries), messages+len(rec.Messages), votes+len(rec.Votes), events+len(rec.Events)
	}
	require.Equal(t, []int{121, 60, 60}, []int{entries, messages, votes}, "nothing is left out of the records")
	require.Greater(t, events, 240)
}

// randomDeliberation is a deliberation whose members do anything, in any order.
type randomDeliberation struct {
	*peers
	r       *rand.Rand
	mail    []message
	said    map[string]contract.Move // by id, of turns as they were first delivered
	first   map[string]bool          // turns that were delivered, by member and number
	records []contract.PipelineRecord
	steps   int
}

// message is a signal in transit.
type message struct {
	at    time.Time
	moves contract.Moves
	gone  contract.Member // its workflow ended instead
}

// randomMoves draws what a member does in a turn.
func (p *randomDeliberation) randomMoves(m contract.Member) []contract.Move {
	keys := []string{"p1", "p2", "p3", "s1", "s2", "nothing", "not a key"}
	key := func() string { return keys[p.r.IntN(len(keys))] }
	anything := []func() contract.Move{
		func() contract.Move { return deliberationtest.Proposes(string(m) + key()) }, func() contract.Move { return deliberationtest.Proposes(key()) },
		func() contract.Move { return deliberationtest.Synthesises(key(), key()) }, func() contract.Move { return deliberationtest.Synthesises(fmt.Sprint("s", 1+p.r.IntN(2))) },
		func() contract.Move { return deliberationtest.Evaluates(key(), p.r.Float64()) }, func() contract.Move { return deliberationtest.Objects(key()) }, func() contract.Move { return deliberationtest.Resolves(key()) },
		func() contract.Move { return answers(p.anyObjection(), "so") },
		func() contract.Move {
			return decomposes(contract.Subtask{ID: "t1", Description: "a"}, contract.Subtask{ID: fmt.Sprint("t", 1+p.r.IntN(3)), Description: "b", Dependencies: []string{"t1"}})
		},
		func() contract.Move { return deliberationtest.Proposes(fmt.Sprint("t", 1+p.r.IntN(3))) },
		func() contract.Move { return deliberationtest.Accepts(key(), p.r.IntN(3)) }, func() contract.Move { return deliberationtest.Rejects(key(), p.r.IntN(3)) },
		func() contract.Move {
			return deliberationtest.Sends([]string{"", "ALL", "ALPHA", "BETA", "GAMMA", "PERSON"}[p.r.IntN(6)], "hm")
		},
		func() contract.Move { return deliberationtest.Analyses(p.r.Float64()) }, deliberationtest.Done, func() contract.Move { return deliberationtest.Decides(key()) },
	}
	out := make([]contract.Move, p.r.IntN(6))
	for i := range out {
		out[i] = anything[p.r.IntN(len(anything))]()
	}
	return out
}

// anyObjection returns the key of some objection, if there is one.
func (p *randomDeliberation) anyObjection() string {
	keys := []string{"p1/objection/ALPHA-1-1"}
	for _, e := range p.EntriesOf(contract.MoveObject) {
		keys = append(keys, e.Key)
	}
	return keys[p.r.IntN(len(keys))]
}

// send sends what a member does in a turn, perhaps twice, perhaps late, perhaps never;
// and sometimes another sender uses its name.
func (p *randomDeliberation) send(m contract.Member, turn contract.Turn) {
	soon := func(most int) time.Time { return p.now.Add(time.Duration(p.r.IntN(most*1000)) * time.Millisecond) }
	moves := contract.Moves{Token: string(m) + "-token", Member: m, Turn: turn.Number, Usage: contract.Usage{Calls: 1}, Moves: p.randomMoves(m)}
	switch dice := p.r.IntN(100); {
	case dice < 2:
		p.mail = append(p.mail, message{at: soon(20), gone: m})
		return
	case dice < 4:
		return // it hangs
	case dice < 8:
		moves.Moves, moves.Bad = nil, &fault.New(contract.ClassLLM, contract.CodeInvalidOutput, "no JSON %d", dice).Failure
	}
	p.mail = append(p.mail, message{at: soon(15), moves: moves})
	for p.r.IntN(3) == 0 {
		p.mail = append(p.mail, message{at: soon(40), moves: moves})
	}
	if p.r.IntN(10) == 0 {
		forged := moves
		forged.Token, forged.Moves = "guessed", []contract.Move{deliberationtest.Sends("", "forged"), deliberationtest.Decides("s1")}
		p.mail = append(p.mail, message{at: soon(15), moves: forged})
	}
}

// step makes the next thing happen: a delivery, or a deadline.
func (p *randomDeliberation) step() {
	p.steps++
	at, i := p.NextDeadline(p.now), -1
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

func (p *randomDeliberation) deliver(l message) {
	if l.gone != "" {
		p.MemberEnded(l.gone, contract.MemberResult{Failure: &fault.New(contract.ClassLLM, contract.CodeRefusal, "no").Failure})
		return
	}
	turn := fmt.Sprint(l.moves.Member, "-", l.moves.Turn)
	if s := p.Participant(l.moves.Member); l.moves.Token == s.token && !s.Dead && !p.Closed && !p.first[turn] {
		p.first[turn] = true
		for i, m := range l.moves.Moves {
			p.said[fmt.Sprint(turn, "-", i+1)] = m
		}
	}
	p.Receive(l.moves, p.now)
}

// run runs the deliberation to its end, like the workflow.
func (p *randomDeliberation) run(t *testing.T) *Outcome {
	exchange := func() *Outcome {
		for {
			require.Less(t, p.steps, 5_000, "it ends")
			if p.Status == contract.PipelineOrchestrating {
				if out := p.Conclude(p.now); out != nil {
					return out
				}
			} else if p.OpeningOver(p.now) {
				return p.PeersGone()
			}
			if reason, wanted := p.GammaWanted(p.now); wanted {
				p.Join(contract.Gamma, "GAMMA-token", reason, p.now)
			}
			for _, g := range p.NextTurns(p.now) {
				p.send(g.To, g.Turn)
			}
			if p.r.IntN(3) == 0 && p.HasUnwritten() {
				p.records = append(p.records, p.NextRecord(int64(len(p.records)+1), p.now))
			}
			p.step()
		}
	}
	if out := exchange(); out != nil {
		return out
	}
	p.SetStatus(contract.PipelineReport, p.now, "")
	p.SetStatus(contract.PipelineOrchestrating, p.now, "")
	return exchange()
}

func TestAThousandDeliberationsLoseAndRepeatNothingAndEnd(t *testing.T) {
	t.Parallel()
	endings, joined := map[string]int{}, map[contract.GammaReason]int{}
	for seed := range uint64(1000) {
		p := &randomDeliberation{peers: newPeers(), r: rand.New(rand.NewPCG(seed, 7)), said: map[string]contract.Move{}, first: map[string]bool{}}
		for _, m := range Peers() {
			p.send(m, p.turns[m])
		}
		out := p.run(t)
		endings[string(out.Status)+" "+string(out.Abort)]++
		joined[p.Metrics.GammaReason]++
		if out.Choice != nil {
			p.AcceptConsensus(out.Choice, p.now)
		}
		p.Closed = true
		before := p.Metrics
		for len(p.mail) > 0 { // what comes too late
			l := p.mail[0]
			p.mail = p.mail[1:]
			p.deliver(l)
		}
		require.Equal(t, before, p.Metrics, "seed %d: what comes after the end changes nothing", seed)
		for p.HasUnwritten() {
			p.records = append(p.records, p.NextRecord(int64(len(p.records)+1), p.now))
		}
		p.check(t, seed, out)
	}
	t.Logf("endings: %v; GAMMA: %v", endings, joined)
	require.GreaterOrEqual(t, len(endings), 5, "the deliberations are of many kinds: %v", endings)
	require.GreaterOrEqual(t, len(joined), 4, "GAMMA joins for many reasons: %v", joined)
}

// written is what the records of a deliberation hold.
type written struct {
	counts   contract.DeliberationMetrics // as the deliberation should have counted
	seen     map[string]bool              // messages and votes, by id
	refused  map[string]bool              // moves, by id
	refusals int
}

// check compares what was written with what members did.
func (p *randomDeliberation) check(t *testing.T, seed uint64, out *Outcome) {
	t.Helper()
	w := p.readRecords(t, seed)
	p.checkMoves(t, seed, w)
	p.checkMetrics(t, seed, w)
	p.checkOutcome(t, seed, out)
	p.checkVotes(t, seed)
}

// readRecords reads the records, in which each message and vote is one that a member sent, once.
func (p *randomDeliberation) readRecords(t *testing.T, seed uint64) *written {
	t.Helper()
	w := &written{seen: map[string]bool{}, refused: map[string]bool{}}
	once := func(id string) contract.Move {
		require.False(t, w.seen[id], "seed %d: %s is written twice", seed, id)
		w.seen[id] = true
		move, ok := p.said[id]
		require.True(t, ok, "seed %d: nobody did %s", seed, id)
		return move
	}
	for _, rec := range p.records {
		for _, m := range rec.Messages {
			move := once(m.ID)
			w.counts.TotalMessages++
			require.Equal(t, w.counts.TotalMessages, m.Seq, "seed %d", seed)
			require.True(t, strings.HasPrefix(m.ID, string(m.From)+"-"), "seed %d", seed)
			if move.To != "" && move.To != "ALL" {
				w.counts.DirectMessages++
			}
		}
		for _, v := range rec.Votes {
			once(v.ID)
			w.counts.Votes++
		}
		for _, e := range rec.Errors {
			w.refused[e.ID] = true
			w.refusals++
		}
		for _, e := range rec.Events {
			payload, _ := e.Payload.(map[string]any)
			switch e.Type {
			case contract.EventBlackboardWritten:
				if move := payload["move"]; move != contract.MoveKind("") && move != contract.MoveVerdict {
					w.counts.BlackboardWrites++
				}
			case contract.EventConflictDetected:
				w.counts.ConflictsDetected++
			case contract.EventConflictResolved:
				w.counts.ConflictsResolved++
			case contract.EventGammaSpawned:
				require.False(t, w.counts.GammaSpawned, "seed %d: GAMMA joins once", seed)
				w.counts.GammaSpawned = true
			default:
			}
		}
	}
	return w
}

// checkMoves requires that no message or vote was lost, and counts the decisions. Each move of a
// turn that counted was accepted or refused; if the member was revoked, those after the decisive
// move are neither.
func (p *randomDeliberation) checkMoves(t *testing.T, seed uint64, w *written) {
	t.Helper()
	for id, move := range p.said {
		s := p.Participant(contract.Member(strings.Split(id, "-")[0]))
		if w.refused[id] || p.turnOf(id) > s.received || s.RevokeReason != "" && p.turnOf(id) == s.received {
			continue
		}
		w.counts.Decisions++
		if move.Kind == contract.MoveMessage || move.Kind == contract.MoveVote {
			require.True(t, w.seen[id], "seed %d: %s was lost: %+v", seed, id, move)
		}
	}
}

// checkMetrics compares the metrics with what was written.
func (p *randomDeliberation) checkMetrics(t *testing.T, seed uint64, w *written) {
	t.Helper()
	want, got := w.counts, p.Metrics
	if slices.ContainsFunc(p.Participants, func(s *Participant) bool { return s.RevokeReason != "" }) {
		require.LessOrEqual(t, want.Decisions, got.Decisions, "seed %d", seed)
	} else {
		require.Equal(t, want.Decisions, got.Decisions, "seed %d", seed)
	}
	if w.refusals < MaxRefusalsRecorded {
		require.Equal(t, w.refusals, got.Refused, "seed %d", seed)
	}
	require.Equal(t, want.TotalMessages, got.TotalMessages, "seed %d", seed)
	require.Equal(t, want.DirectMessages, got.DirectMessages, "seed %d", seed)
	require.Equal(t, want.Votes, got.Votes, "seed %d", seed)
	require.Equal(t, want.BlackboardWrites, got.BlackboardWrites, "seed %d", seed)
	require.Equal(t, want.ConflictsDetected, got.ConflictsDetected, "seed %d", seed)
	require.Equal(t, want.ConflictsResolved, got.ConflictsResolved, "seed %d", seed)
	require.Equal(t, want.GammaSpawned, got.GammaSpawned, "seed %d", seed)
	require.LessOrEqual(t, got.Iterations, p.Settings.Iterations, "seed %d", seed)
}

// checkOutcome requires that no turn was cut off, and that a consensus has the votes of all peers
// that are left, or is the decision of GAMMA.
func (p *randomDeliberation) checkOutcome(t *testing.T, seed uint64, out *Outcome) {
	t.Helper()
	if out.Abort == contract.AbortIterationLimit && p.now.Before(p.LastProgress.Add(p.Settings.AbortAfter)) && p.now.Before(p.roundsOver.Add(p.Settings.ModelTimeout)) {
		require.False(t, slices.ContainsFunc(p.Living(), (*Participant).thinking), "seed %d: a turn is cut off", seed)
	}
	if out.Status == contract.PipelineCompleted {
		require.Equal(t, p.Metrics.ConflictsDetected, p.Metrics.ConflictsResolved, "seed %d", seed)
		for _, s := range p.livingPeers() {
			require.True(t, out.Choice.By == contract.Gamma || slices.ContainsFunc(p.votes, func(v contract.Vote) bool {
				return v.Voter == s.Member && v.Key == out.Choice.Key && v.Version == out.Choice.Version && v.Accept
			}), "seed %d", seed)
		}
	}
}

// checkVotes requires that a member has one vote on a version.
func (p *randomDeliberation) checkVotes(t *testing.T, seed uint64) {
	t.Helper()
	votes := map[string]bool{}
	for _, v := range p.votes {
		key := fmt.Sprint(v.Voter, v.Key, v.Version)
		require.False(t, votes[key], "seed %d: %s has two votes", seed, key)
		votes[key] = true
	}
}

func (p *randomDeliberation) turnOf(id string) int {
	var turn int
	_, _ = fmt.Sscanf(strings.Split(id, "-")[1], "%d", &turn)
	return turn
}
