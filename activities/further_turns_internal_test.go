package activities

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
)

// turn returns the result of a turn with one call for each fingerprint, all carried out.
func turn(fingerprints ...string) contract.ThinkResult {
	r := contract.ThinkResult{Usage: contract.Usage{Calls: 1, PromptTokens: 100, CompletionTokens: 10, MicroUSD: 5}}
	for i, f := range fingerprints {
		r.Calls = append(r.Calls, contract.ToolCallRef{Index: i, Tool: "read_file", ReadOnly: true})
		r.Done = append(r.Done, contract.DoneCall{Index: i, Outcome: contract.ToolOutcome{OK: true, Workspace: contract.Workspace{Tree: f}, Fingerprint: f}})
	}
	return r
}

func TestAConversationServesOneRequestAndOnlyWhileItIsNew(t *testing.T) {
	t.Parallel()
	rows := []store.TranscriptEntry{{Turn: 1}}
	c := &readConversation{rows, time.Now()}
	got, ok := c.take()
	require.True(t, ok)
	require.Equal(t, rows, got)
	_, ok = c.take()
	require.False(t, ok, "the call is attempted again")
	_, ok = (&readConversation{rows, time.Now().Add(-conversationAge)}).take()
	require.False(t, ok, "the turn has waited")
	_, ok = (*readConversation)(nil).take()
	require.False(t, ok)
}

func TestTurnsEndWhereTheWorkflowMustDecide(t *testing.T) {
	t.Parallel()
	with := func(r contract.ThinkResult, change func(*contract.ThinkResult)) contract.ThinkResult {
		change(&r)
		return r
	}
	many := turn(strings.Split(strings.Repeat("x", contract.TurnCallLimit-1), "")...)
	for i := range many.Done {
		many.Done[i].Outcome.Fingerprint = strings.Repeat("y", i+1)
	}
	for name, c := range map[string]struct {
		turns []contract.ThinkResult
		left  *contract.StepLeft
		most  int // besides the first; 0: 9
		goOn  bool
	}{
		"nothing to decide":               {turns: []contract.ThinkResult{turn("a"), turn("b", "c")}, goOn: true},
		"a failed call":                   {turns: []contract.ThinkResult{with(turn("a"), func(r *contract.ThinkResult) { r.Done[0].Outcome.OK = false })}, goOn: true},
		"finish":                          {turns: []contract.ThinkResult{with(turn("a"), func(r *contract.ThinkResult) { r.Finish = true })}},
		"an unusable response":            {turns: []contract.ThinkResult{turn("a"), {Bad: "it called no tool"}}},
		"a call that is left":             {turns: []contract.ThinkResult{with(turn("a", "b"), func(r *contract.ThinkResult) { r.Done = r.Done[:1] })}},
		"a failed turn":                   {turns: []contract.ThinkResult{turn("a"), {Failure: &contract.Failure{}}}},
		"a path outside":                  {turns: []contract.ThinkResult{with(turn("a"), func(r *contract.ThinkResult) { r.Done[0].Outcome.Code = contract.CodePathEscape })}},
		"a forbidden tool":                {turns: []contract.ThinkResult{with(turn("a"), func(r *contract.ThinkResult) { r.Done[0].Outcome.Code = contract.CodeForbidden })}},
		"a repetition":                    {turns: []contract.ThinkResult{turn("a"), turn("b"), turn("a")}},
		"a repetition in one turn":        {turns: []contract.ThinkResult{turn("a", "a")}},
		"as many turns as are allowed":    {turns: []contract.ThinkResult{turn("a"), turn("b")}, most: 1},
		"one turn fewer":                  {turns: []contract.ThinkResult{turn("a")}, most: 1, goOn: true},
		"as many calls as one turn's":     {turns: []contract.ThinkResult{many, turn("a")}},
		"one call fewer":                  {turns: []contract.ThinkResult{many}, goOn: true},
		"no tokens left":                  {turns: []contract.ThinkResult{turn("a"), turn("b")}, left: &contract.StepLeft{Tokens: 220}},
		"one token left":                  {turns: []contract.ThinkResult{turn("a"), turn("b")}, left: &contract.StepLeft{Tokens: 221}, goOn: true},
		"no money left":                   {turns: []contract.ThinkResult{turn("a"), turn("b")}, left: &contract.StepLeft{MicroUSD: 10, Tokens: 1000}},
		"money without a limit of tokens": {turns: []contract.ThinkResult{turn("a"), turn("b")}, left: &contract.StepLeft{MicroUSD: 11}, goOn: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := time.Now()
			most := c.most
			if most == 0 {
				most = 9
			}
			in := contract.ThinkInput{Turn: 4, Planned: true, Left: c.left, Tools: &contract.TurnTools{}, Further: &contract.FurtherTurns{Turns: most}}
			chain := newTurnChain(in, most, now.Add(time.Minute), now)
			for i, r := range c.turns {
				require.True(t, chain.continues(now), "before turn %d", i)
				chain.add(r)
			}
			require.Equal(t, c.goOn, chain.continues(now))
			if c.goOn {
				require.Equal(t, 4+len(c.turns), chain.next.Turn)
				last := c.turns[len(c.turns)-1].Done
				require.Equal(t, last[len(last)-1].Outcome.Workspace, chain.next.Tools.Workspace)
				require.False(t, chain.next.Planned)
				require.Nil(t, chain.next.Further)
			}
			require.Empty(t, in.Tools.Workspace, "the activity's input is not changed")
		})
	}
}

func TestNoTurnBeginsAfterTheTimeOfTheWorkerOrOfTheStep(t *testing.T) {
	t.Parallel()
	now := time.Now()
	chain := func(step time.Duration) *turnChain {
		c := newTurnChain(contract.ThinkInput{Tools: &contract.TurnTools{}, Further: &contract.FurtherTurns{Turns: 9, Time: step}}, 9, now.Add(time.Minute), now)
		c.add(turn("a"))
		return c
	}
	require.True(t, chain(0).continues(now.Add(time.Minute-1)))
	require.False(t, chain(0).continues(now.Add(time.Minute)))
	require.True(t, chain(time.Hour).continues(now.Add(time.Minute-1)))
	require.False(t, chain(time.Second).continues(now.Add(time.Second)))
}
