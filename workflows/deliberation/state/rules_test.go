package state

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/workflows/deliberation/deliberationtest"
)

// answers is a resolve move with words.
func answers(key, words string) contract.Move {
	return contract.Move{Kind: contract.MoveResolve, Key: key, Text: deliberationtest.Text(words)}
}

func decomposes(parts ...contract.Subtask) contract.Move {
	return contract.Move{Kind: contract.MoveDecompose, Text: deliberationtest.Text("its parts"), Subtasks: parts}
}

// news returns the entries and changes in a turn's news, by key.
func news(turn contract.Turn) (entries map[string]contract.Entry, changes map[string]contract.StateChange) {
	entries, changes = map[string]contract.Entry{}, map[string]contract.StateChange{}
	for _, e := range turn.News.Entries {
		entries[e.Key] = e
	}
	for _, c := range turn.News.Changes {
		changes[c.Key] = c
	}
	return entries, changes
}

// round lets both peers take their turns at the same time, and gives the next ones.
func (t *peers) round(alpha, beta []contract.Move) {
	t.receive(contract.Alpha, alpha...)
	t.receive(contract.Beta, beta...)
	t.giveTurns()
}

func TestOnlyAnObjectionThatWasShownIsAnsweredAndItsAuthorGetsTheAnswer(t *testing.T) {
	t.Parallel()
	c := exchanging()
	c.round([]contract.Move{deliberationtest.Proposes("p1"), deliberationtest.Proposes("p2"), deliberationtest.Synthesises("s1", "p1", "p2")}, nil)
	unseen := contract.ObjectionKey("s1", "BETA-3-1")
	c.receive(contract.Beta, deliberationtest.Objects("s1"))
	c.receive(contract.Alpha, answers(unseen, "a guess"), answers("s1", "another"))
	c.giveTurns()
	require.Equal(t, contract.EntryLive, c.objection(unseen).State, "what was written in the same round stays open")
	require.Len(t, c.turns[contract.Alpha].Errors, 2)

	c.round([]contract.Move{answers(unseen, "because of the cache")}, nil)
	require.Equal(t, contract.EntryAnswered, c.objection(unseen).State)
	require.Empty(t, c.turns[contract.Alpha].Errors, "the real answer is taken")
	entries, changes := news(c.turns[contract.Beta])
	answer := entries[contract.AnswerKey(unseen, "ALPHA-4-1")]
	require.Equal(t, "because of the cache", answer.Value.Head)
	require.Equal(t, unseen, answer.About)
	require.Equal(t, contract.StateChange{
		Section: contract.SectionSynthesis, Key: unseen, Kind: contract.MoveObject, Author: contract.Beta, State: contract.EntryAnswered, By: contract.Alpha,
	}, changes[unseen])
	require.NotContains(t, entries, unseen, "it knows what it wrote")
	require.Equal(t, c.Metrics.ConflictsDetected, c.Metrics.ConflictsResolved)
}

func TestTheKeyOfAnEntryAnswersAllObjectionsToItThatWereShown(t *testing.T) {
	t.Parallel()
	c := exchanging()
	c.round([]contract.Move{deliberationtest.Proposes("p1")}, nil)
	c.round(nil, []contract.Move{deliberationtest.Objects("p1")})
	c.receive(contract.Beta, deliberationtest.Objects("p1"))
	c.receive(contract.Alpha, answers("p1", "so it is"))
	require.Equal(t, contract.EntryAnswered, c.objection(contract.ObjectionKey("p1", "BETA-3-1")).State)
	require.Equal(t, contract.EntryLive, c.objection(contract.ObjectionKey("p1", "BETA-4-1")).State, "it came in the same round")
	require.Zero(t, c.Metrics.Refused)
}

func TestAnObjectionIsWithdrawnByItsAuthor(t *testing.T) {
	t.Parallel()
	c := exchanging()
	c.round([]contract.Move{deliberationtest.Proposes("p1")}, nil)
	c.round(nil, []contract.Move{deliberationtest.Objects("p1"), answers(contract.ObjectionKey("p1", "BETA-3-1"), "I was wrong")})
	require.Equal(t, contract.EntryWithdrawn, c.objection(contract.ObjectionKey("p1", "BETA-3-1")).State)
	require.Zero(t, c.Metrics.Refused)
}

func TestTwoAnswersToOneObjectionAreBothKept(t *testing.T) {
	t.Parallel()
	c := exchanging(func(in *contract.DeliberationInput) { in.Settings.ForceGamma = true })
	c.Join(contract.Gamma, "GAMMA-token", contract.GammaForced, c.now)
	c.giveTurns()
	c.round([]contract.Move{deliberationtest.Proposes("p1")}, nil)
	c.round(nil, []contract.Move{deliberationtest.Objects("p1")})
	key := contract.ObjectionKey("p1", "BETA-3-1")
	c.receive(contract.Gamma)
	c.giveTurns()
	c.receive(contract.Alpha, answers(key, "first"))
	c.receive(contract.Gamma, answers(key, "second"))
	require.Zero(t, c.Metrics.Refused)
	require.Equal(t, 1, c.Metrics.ConflictsResolved)
	require.NotNil(t, c.at(contract.SectionSolutions, contract.AnswerKey(key, "ALPHA-3-1")))
	require.NotNil(t, c.at(contract.SectionSolutions, contract.AnswerKey(key, "GAMMA-2-1")))
}

func TestAWithdrawnProposalTakesItsObjectionsWithIt(t *testing.T) {
	t.Parallel()
	c := exchanging()
	c.round([]contract.Move{deliberationtest.Proposes("p1")}, nil)
	c.round([]contract.Move{deliberationtest.Resolves("p1")}, []contract.Move{deliberationtest.Objects("p1")})
	require.Equal(t, contract.EntryWithdrawn, c.at(contract.SectionSolutions, "p1").State)
	c.receive(contract.Alpha)
	require.Equal(t, c.Metrics.ConflictsDetected, c.Metrics.ConflictsResolved+1, "the objection came after it, and is open")
	require.Zero(t, c.Metrics.Refused)
}

func TestNewsHasTextsOnceAndChangesInALine(t *testing.T) {
	t.Parallel()
	c := exchanging()
	c.round([]contract.Move{deliberationtest.Proposes("p1")}, []contract.Move{deliberationtest.Proposes("p2")})
	c.round(nil, []contract.Move{deliberationtest.Synthesises("s1", "p1", "p2")})
	entries, changes := news(c.turns[contract.Alpha])
	require.Contains(t, entries, "s1")
	require.NotContains(t, entries, "p1", "it wrote it")
	require.NotContains(t, entries, "p2", "it has read it")
	require.Equal(t, contract.EntryMerged, changes["p1"].State)
	require.Equal(t, contract.EntryMerged, changes["p2"].State)
}

func TestADecisionKeepsReasonsAlternativesQuestionsAndRemarks(t *testing.T) {
	t.Parallel()
	c := exchanging()
	c.round([]contract.Move{deliberationtest.Proposes("p1"), deliberationtest.Proposes("p3")}, []contract.Move{deliberationtest.Proposes("p2"), deliberationtest.Synthesises("s0", "p2")})
	c.round([]contract.Move{deliberationtest.Resolves("p3"), deliberationtest.Evaluates("s0", 0.4)}, []contract.Move{deliberationtest.Objects("p1"), deliberationtest.Synthesises("s1", "p2"), deliberationtest.Evaluates("s1", 0.9)})
	yes, no := true, false
	c.round(
		[]contract.Move{deliberationtest.Objects("s1"), {Kind: contract.MoveVote, Key: "s1", Version: 1, Accept: &yes, Text: deliberationtest.Text("watch the clock skew")}},
		[]contract.Move{{Kind: contract.MoveVote, Key: "s1", Version: 1, Accept: &no, Text: deliberationtest.Text("too early")}, {Kind: contract.MoveVote, Key: "s1", Version: 1, Accept: &yes}},
	)
	out := c.Conclude(c.now)
	require.NotNil(t, out)
	c.AcceptConsensus(out.Choice, c.now)
	d := c.Decision
	require.Equal(t, []any{"s1", 1, contract.Member("")}, []any{d.Key, d.Version, d.By})
	require.Equal(t, c.at(contract.SectionSynthesis, "s1").Value, d.Text)
	require.Len(t, d.Reasons, 1)
	require.InDelta(t, 0.9, *d.Reasons[0].Score, 1e-9)
	rejected := map[string]contract.Alternative{}
	for _, a := range d.Rejected {
		rejected[a.Key] = a
	}
	require.Len(t, rejected, 3, "p2 is part of it: %v", rejected)
	require.Equal(t, contract.EntryWithdrawn, rejected["p3"].State)
	require.Len(t, rejected["p1"].Against, 1)
	require.Contains(t, rejected, "s0")
	require.Len(t, d.OpenQuestions, 1, "the objection that nobody answered; the last vote counts")
	require.Equal(t, contract.Alpha, d.OpenQuestions[0].By)
	require.Equal(t, []contract.Remark{{By: contract.Alpha, About: "s1", Text: deliberationtest.Text("watch the clock skew")}}, d.Remarks)
	c.AddReport(contract.ReportFinal, contract.PipelineCompleted, "", c.now)
	require.Equal(t, d, c.reports[0].Decision)
}

func TestMembersAndPagesGetTheSameRound(t *testing.T) {
	t.Parallel()
	c := exchanging()
	require.Equal(t, []int{1, 1, 0}, []int{c.turns[contract.Alpha].News.Round, c.View().Iteration, c.Metrics.Iterations})
	c.round([]contract.Move{deliberationtest.Synthesises("s1"), deliberationtest.Accepts("s1", 1)}, nil)
	require.Equal(t, []int{2, 2, 1}, []int{c.turns[contract.Alpha].News.Round, c.View().Iteration, c.Metrics.Iterations})
	c.receive(contract.Beta, deliberationtest.Accepts("s1", 1))
	require.NotNil(t, c.Conclude(c.now))
	c.Decided = true
	c.CloseRound()
	require.Equal(t, []int{2, 2}, []int{c.View().Iteration, c.Metrics.Iterations}, "the round in which it ended counts")
	c.MemberEnded(contract.Alpha, contract.MemberResult{Turns: 3})
	require.Equal(t, []int{2, 1}, []int{c.Participant(contract.Alpha).View.Turns, c.Participant(contract.Alpha).View.Late}, "an answer that came too late is told")
}

// hardTask is an exchange that GAMMA joined because the objective is complex.
func hardTask(t *testing.T) *peers {
	t.Helper()
	hard := 0.9
	c := newPeers()
	c.receive(contract.Alpha, contract.Move{Kind: contract.MoveAnalyse, ComplexityScore: &hard, Text: deliberationtest.Text("hard")})
	c.receive(contract.Beta)
	c.SetStatus(contract.PipelineOrchestrating, c.now, "")
	reason, wanted := c.GammaWanted(c.now)
	require.True(t, wanted)
	require.Equal(t, contract.GammaComplexity, reason)
	c.Join(contract.Gamma, "GAMMA-token", reason, c.now)
	c.giveTurns()
	return c
}

// subtaskStatuses returns the subtasks' statuses by id.
func (t *peers) subtaskStatuses() map[string]string {
	out := map[string]string{}
	for _, p := range t.subtasks {
		out[p.ID] = p.Status + " " + string(p.Member)
	}
	return out
}

func TestSubtasksAreTakenInTheOrderOfTheirDependencies(t *testing.T) {
	t.Parallel()
	c := hardTask(t)
	c.receive(contract.Gamma, decomposes(
		contract.Subtask{ID: "t1", Description: "store", Member: contract.Alpha},
		contract.Subtask{ID: "t2", Description: "api", Dependencies: []string{"t1"}, Member: contract.Beta},
		contract.Subtask{ID: "t3", Description: "docs"},
	))
	require.Equal(t, map[string]string{"t1": "assigned ALPHA", "t2": "waiting BETA", "t3": "assigned BETA"}, c.subtaskStatuses(),
		"what is nobody's goes to whoever has less to do")
	c.receive(contract.Alpha, deliberationtest.Done())
	c.receive(contract.Beta, deliberationtest.Proposes("t2"))
	require.Contains(t, c.Participant(contract.Beta).errors[0].Message, "is waiting for other subtasks (t1)")
	c.giveTurns()
	require.False(t, c.Participant(contract.Alpha).done, "who was done is woken for its subtask")
	require.Len(t, c.turns[contract.Alpha].News.Subtasks, 3)
	c.round([]contract.Move{deliberationtest.Proposes("t1")}, []contract.Move{deliberationtest.Proposes("t3")})
	require.Equal(t, map[string]string{"t1": "done ALPHA", "t2": "assigned BETA", "t3": "done BETA"}, c.subtaskStatuses())
	require.Zero(t, c.Metrics.ConflictsDetected, "solutions of subtasks do not compete")
	c.end(c.Participant(contract.Beta), contract.MemberFailed, nil)
	require.Equal(t, "assigned ALPHA", c.subtaskStatuses()["t2"], "the partner takes over")
	c.receive(contract.Alpha, deliberationtest.Proposes("t2"), deliberationtest.Synthesises("s1", "t1", "t2", "t3"))
	require.Equal(t, "done ALPHA", c.subtaskStatuses()["t2"])
	require.Equal(t, c.subtasks, c.at(contract.SectionProblem, contract.KeySubtasks).Subtasks)
}

func TestAnAnswerToWhatWasClosedMeanwhileWithdrawsNothing(t *testing.T) {
	t.Parallel()
	c := exchanging()
	c.round([]contract.Move{deliberationtest.Proposes("p1")}, nil)
	c.round(nil, []contract.Move{deliberationtest.Objects("p1")})
	c.receive(contract.Beta, answers(contract.ObjectionKey("p1", "BETA-3-1"), "never mind"))
	c.receive(contract.Alpha, answers("p1", "because"))
	require.Equal(t, contract.EntryLive, c.at(contract.SectionSolutions, "p1").State)
	require.NotNil(t, c.at(contract.SectionSolutions, contract.AnswerKey("p1", "ALPHA-4-1")))
	require.Zero(t, c.Metrics.Refused)
}

func TestAnAnswerNeedsWords(t *testing.T) {
	t.Parallel()
	c := exchanging()
	c.round([]contract.Move{deliberationtest.Proposes("p1")}, nil)
	c.round(nil, []contract.Move{deliberationtest.Objects("p1")})
	c.receive(contract.Alpha, contract.Move{Kind: contract.MoveResolve, Key: "p1"})
	require.Contains(t, c.Participant(contract.Alpha).errors[0].Message, "it needs text")
	require.Equal(t, contract.EntryLive, c.objection(contract.ObjectionKey("p1", "BETA-3-1")).State)
}

func TestNewsThatDidNotFitIsSentLaterAndNotAnsweredBefore(t *testing.T) {
	t.Parallel()
	c := exchanging(func(in *contract.DeliberationInput) { in.Settings.MovesPerTurn = 64 })
	c.round([]contract.Move{deliberationtest.Proposes("p1")}, nil)
	var many []contract.Move
	for range 40 {
		many = append(many, contract.Move{Kind: contract.MoveObject, Key: "p1", Text: deliberationtest.Text(strings.Repeat("o", contract.TextHead))})
	}
	c.receive(contract.Alpha)
	c.receive(contract.Beta, many...)
	c.giveTurns()
	first := len(c.turns[contract.Alpha].News.Entries)
	require.Less(t, first, len(many))
	require.Contains(t, c.turns[contract.Alpha].News.Note, "older entries")
	c.round([]contract.Move{answers("p1", "so")}, nil)
	require.Len(t, c.objections(c.at(contract.SectionSolutions, "p1")), len(many)-first, "those that were not shown are open")
	entries, _ := news(c.turns[contract.Alpha])
	require.NotEmpty(t, entries)
	for key := range entries {
		require.Equal(t, contract.EntryLive, c.objection(key).State)
	}
}

func TestAFinishedMemberGetsATurnForAnUnseenSubtask(t *testing.T) {
	t.Parallel()
	c := hardTask(t)
	c.receive(contract.Gamma, decomposes(
		contract.Subtask{ID: "t1", Description: "store", Member: contract.Alpha},
		contract.Subtask{ID: "t2", Description: "api", Dependencies: []string{"t1"}, Member: contract.Alpha},
	))
	c.round(nil, nil)
	c.receive(contract.Alpha, deliberationtest.Proposes("t1"), deliberationtest.Done())
	require.Equal(t, "assigned ALPHA", c.subtaskStatuses()["t2"])
	require.False(t, c.Participant(contract.Alpha).done)
	c.receive(contract.Beta)
	require.Contains(t, c.giveTurns(), contract.Alpha)
	c.receive(contract.Alpha, deliberationtest.Done())
	require.True(t, c.Participant(contract.Alpha).done, "told of it, it may be done all the same")
}

func TestASubtaskIsSolvedByAProposalOfItsOwnerAlone(t *testing.T) {
	t.Parallel()
	c := hardTask(t)
	c.receive(contract.Gamma, decomposes(contract.Subtask{ID: "t1", Description: "store", Member: contract.Alpha}))
	c.round(nil, []contract.Move{deliberationtest.Synthesises("t1")})
	require.Contains(t, c.turns[contract.Beta].Errors[0].Message, "is a subtask")
	c.receive(contract.Alpha, deliberationtest.Proposes("t1"), deliberationtest.Resolves("t1"))
	c.end(c.Participant(contract.Alpha), contract.MemberFailed, nil)
	require.Equal(t, "assigned BETA", c.subtaskStatuses()["t1"])
	c.receive(contract.Beta, deliberationtest.Proposes("t1"))
	require.Equal(t, "done BETA", c.subtaskStatuses()["t1"], "a withdrawn solution keeps nobody from another one")
}

func TestSubtasksAreShownInFullOnceAndFitATurn(t *testing.T) {
	t.Parallel()
	var parts []contract.Subtask
	for i := range contract.Subtasks {
		parts = append(parts, contract.Subtask{ID: fmt.Sprintf("t%d", i), Description: strings.Repeat("<", 600), Member: contract.Beta})
	}
	c := hardTask(t)
	c.receive(contract.Gamma, decomposes(parts...))
	require.Contains(t, c.Participant(contract.Gamma).errors[0].Message, "fewer words")
	for i := range parts {
		parts[i].Description = strings.Repeat("d", 600)
	}
	c.round(nil, nil)
	c.receive(contract.Gamma, decomposes(parts...))
	c.round([]contract.Move{deliberationtest.Sends("", "a")}, []contract.Move{deliberationtest.Sends("", "b")})
	turn := c.turns[contract.Alpha]
	require.Less(t, size(turn), contract.PayloadLimit/2)
	require.Len(t, turn.News.Subtasks, len(parts))
	require.NotEmpty(t, turn.News.Subtasks[0].Description)
	entries, _ := news(turn)
	require.Contains(t, entries, contract.KeySubtasks)
	require.Empty(t, entries[contract.KeySubtasks].Subtasks, "told once")
	c.round([]contract.Move{deliberationtest.Sends("", "a")}, []contract.Move{deliberationtest.Sends("", "b")})
	require.Empty(t, c.turns[contract.Alpha].News.Subtasks[0].Description)
	require.NotEmpty(t, c.turns[contract.Beta].News.Subtasks[0].Description, "it is to solve it")
}

func TestOpenObjectionsToMergedProposalsAreOpenQuestions(t *testing.T) {
	t.Parallel()
	c := exchanging()
	c.round([]contract.Move{deliberationtest.Proposes("p1")}, []contract.Move{deliberationtest.Proposes("p2")})
	c.round([]contract.Move{deliberationtest.Objects("p2"), deliberationtest.Objects("p2")}, []contract.Move{deliberationtest.Objects("p1"), deliberationtest.Objects("p1")})
	c.round([]contract.Move{deliberationtest.Synthesises("s1", "p1", "p2"), deliberationtest.Accepts("s1", 1)}, nil)
	c.receive(contract.Beta, deliberationtest.Accepts("s1", 1))
	c.AcceptConsensus(c.Conclude(c.now).Choice, c.now)
	require.Len(t, c.Decision.OpenQuestions, 4)
	require.Contains(t, strings.Join(c.Measured().Analysis(), " "), "4 of them open")
}

func TestVotesAreForVersionsThatTheirVoterKnows(t *testing.T) {
	t.Parallel()
	c := exchanging()
	c.receive(contract.Alpha, deliberationtest.Synthesises("s1"), deliberationtest.Accepts("s1", 1))
	c.receive(contract.Beta, deliberationtest.Synthesises("s1"), deliberationtest.Accepts("s1", 1))
	require.Nil(t, c.agreement(), "what it meant was its own s1, which was not taken")
	c.giveTurns()
	require.Len(t, c.turns[contract.Beta].Errors, 2)
	c.receive(contract.Alpha, deliberationtest.Accepts("s1", 0))
	c.receive(contract.Beta, deliberationtest.Accepts("s1", 0))
	require.Equal(t, &Choice{Key: "s1", Version: 1}, c.agreement(), "the newest that it was shown")
}

// TestAnEarlierVersionThatAllAcceptedIsBetterThanNone makes an author write a new
// version in the round in which the other accepts the one before it, which is the last
// round.
func TestAnEarlierVersionThatAllAcceptedIsBetterThanNone(t *testing.T) {
	t.Parallel()
	c := exchanging(func(in *contract.DeliberationInput) { in.Settings.Iterations = 2 })
	c.round([]contract.Move{deliberationtest.Synthesises("s1"), deliberationtest.Accepts("s1", 1)}, nil)
	c.receive(contract.Alpha, deliberationtest.Synthesises("s1"), deliberationtest.Accepts("s1", 2))
	c.receive(contract.Beta, deliberationtest.Accepts("s1", 1))
	require.Nil(t, c.agreement())
	out := c.Conclude(c.now)
	require.NotNil(t, out)
	require.Equal(t, contract.PipelineCompleted, out.Status)
	require.Equal(t, &Choice{Key: "s1", Version: 1}, out.Choice)
	require.Equal(t, 1, c.AcceptConsensus(out.Choice, c.now).AboutVersion, "the newest is another one")

	again := exchanging(func(in *contract.DeliberationInput) { in.Settings.Iterations = 2 })
	again.round([]contract.Move{deliberationtest.Synthesises("s1"), deliberationtest.Accepts("s1", 1)}, nil)
	again.receive(contract.Alpha, deliberationtest.Synthesises("s1"), deliberationtest.Rejects("s1", 1))
	again.receive(contract.Beta, deliberationtest.Accepts("s1", 1))
	require.Equal(t, contract.PipelineOrchestrationFailed, again.Conclude(again.now).Status, "its author does not want it any more")
}

// TestMembersGetTheStateOfTheDeliberation makes one member write while the other reacts to
// the previous state: only the current state shows that they crossed.
func TestMembersGetTheStateOfTheDeliberation(t *testing.T) {
	t.Parallel()
	c := exchanging()
	c.round([]contract.Move{deliberationtest.Synthesises("s1"), deliberationtest.Accepts("s1", 1)}, nil)
	c.receive(contract.Beta, deliberationtest.Objects("s1"), deliberationtest.Evaluates("s1", 0.5), deliberationtest.Accepts("s1", 1))
	c.receive(contract.Alpha, deliberationtest.Synthesises("s1"))
	require.Nil(t, c.agreement(), "ALPHA stands for version 2 now")
	key := contract.ObjectionKey("s1", "BETA-3-1")
	require.Equal(t, 1, c.objection(key).AboutVersion)
	require.Equal(t, 1, c.at(contract.SectionSynthesis, "s1/evaluation/BETA").AboutVersion)
	require.Equal(t, []contract.Standing{{
		Key: "s1", Kind: contract.MoveSynthesise, Author: contract.Alpha, Version: 2,
		Shown: []contract.ShownTo{{Member: contract.Beta, Version: 1}},
		Votes: []contract.Vote{{Voter: contract.Beta, Key: "s1", Version: 1, Accept: true}},
		Open:  []contract.Objection{{Key: key, Author: contract.Beta}},
	}}, c.stands(c.Participant(contract.Alpha)))
	c.giveTurns()
	require.Equal(t, 2, c.stands(c.Participant(contract.Alpha))[0].Shown[0].Version, "it is told in the turn that it takes now")
}

func TestAMemberMaySolveASubtaskThatWasReassignedAfterItWasShown(t *testing.T) {
	t.Parallel()
	c := hardTask(t)
	part := func(m contract.Member) contract.Subtask {
		return contract.Subtask{ID: "t1", Description: "store", Member: m}
	}
	c.receive(contract.Gamma, decomposes(part(contract.Beta)))
	c.round(nil, nil)
	c.receive(contract.Gamma, decomposes(part(contract.Alpha)))
	require.Equal(t, "assigned ALPHA", c.subtaskStatuses()["t1"])
	c.receive(contract.Beta, deliberationtest.Proposes("t1"))
	require.Equal(t, "done ALPHA", c.subtaskStatuses()["t1"])
	require.Zero(t, c.Metrics.Refused)
	require.Equal(t, contract.Beta, c.at(contract.SectionSolutions, "t1").Author)
}

func TestADecompositionThatMakesNoSenseIsRefused(t *testing.T) {
	t.Parallel()
	part := func(id string, after ...string) contract.Subtask {
		return contract.Subtask{ID: id, Description: "do", Dependencies: after}
	}
	for why, parts := range map[string][]contract.Subtask{
		"it needs 1 to 12":                nil,
		"the id of a subtask":             {part("../x")},
		"two subtasks have the id t1":     {part("t1"), part("t1")},
		"needs a description":             {{ID: "t1"}},
		"must be ALPHA or BETA, or empty": {{ID: "t1", Description: "do", Member: contract.Gamma}},
		"p1 is already on the blackboard": {part("p1")},
		`"t9", which is not a subtask`:    {part("t1", "t9")},
		"depend on each other: t1":        {part("t1", "t2"), part("t2", "t1"), part("t3")},
	} {
		c := hardTask(t)
		c.receive(contract.Alpha, deliberationtest.Proposes("p1"))
		c.receive(contract.Gamma, decomposes(parts...))
		require.Len(t, c.Participant(contract.Gamma).errors, 1, why)
		require.Contains(t, c.Participant(contract.Gamma).errors[0].Message, why)
		require.Empty(t, c.subtasks)
	}
}

func TestErrorsSayHowGraveTheyAre(t *testing.T) {
	t.Parallel()
	c := exchanging()
	c.receive(contract.Alpha, deliberationtest.Decides("s1"), deliberationtest.Resolves("nothing"))
	c.RecordError(c.Participant(contract.Beta), contract.Error{Class: contract.ClassLLM, Code: contract.CodeUnknown, Severity: contract.SeverityMinor, Message: "slow"}, 0)
	var got []contract.Severity
	for _, e := range c.errs {
		got = append(got, e.Severity)
	}
	require.Equal(t, []contract.Severity{contract.SeverityMajor, contract.SeverityMedium, contract.SeverityMinor}, got)
}

func TestCommandsOfEarlierDeliberationsLeaveTheirRecordsAsTheyWere(t *testing.T) {
	t.Parallel()
	records := func(commands int) (out []string) {
		c := New(contract.DeliberationInput{}, start())
		for range commands {
			c.AddCommand(contract.EventPipelineCommanded, map[string]any{"text": strings.Repeat("x", 4<<10)})
		}
		for range 50 {
			c.AddEvent(contract.EventPipelineUpdated, map[string]any{"text": strings.Repeat("x", 1<<10)})
		}
		for c.HasUnwritten() {
			rec := c.NextRecord(1, start())
			events := slices.DeleteFunc(rec.Events, func(e contract.EventDraft) bool { return e.Type == contract.EventPipelineCommanded })
			commands -= len(rec.Events) - len(events)
			out = append(out, fmt.Sprint(len(events)))
		}
		require.LessOrEqual(t, commands, 0, "where there is room, they are written")
		return out
	}
	require.Len(t, records(0), 2)
	require.Equal(t, records(0), records(3))
	c := New(contract.DeliberationInput{}, start())
	c.NextRecord(1, start())
	c.AddCommand(contract.EventPipelineCommanded, map[string]any{})
	require.False(t, c.HasUnwritten())
}
