package verdict_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/runs/verdict"
)

var bounds = verdict.MoveBounds{Moves: 16, Text: 1024}

func TestEveryMoveOfTheDesignIsRead(t *testing.T) {
	t.Parallel()
	said, err := verdict.ReadMoves(`{"moves": [
		{"move": "analyse", "complexity_score": 0.6, "text": "hard"}, {"move": "propose", "key": "p1", "text": "do it"},
		{"move": "evaluate", "key": "p1", "score": 0.7, "text": "good"}, {"move": "object", "key": "p1", "text": "but"},
		{"move": "resolve", "key": "p1", "text": "so"}, {"move": "synthesise", "key": "s1", "from": ["p1", "p2"], "text": "both"},
		{"move": "vote", "key": "s1", "version": 1, "accept": true, "text": "yes"}, {"move": "message", "to": "BETA", "text": "hi"},
		{"move": "verdict", "key": "s1", "text": "final"}, {"move": "done", "text": "done"}]}`, bounds)
	require.NoError(t, err)
	hard, good, yes := 0.6, 0.7, true
	require.Equal(t, []verdict.ModelMove{
		{Move: contract.Move{Kind: contract.MoveAnalyse, ComplexityScore: &hard}, Whole: "hard"},
		{Move: contract.Move{Kind: contract.MovePropose, Key: "p1"}, Whole: "do it"},
		{Move: contract.Move{Kind: contract.MoveEvaluate, Key: "p1", Score: &good}, Whole: "good"},
		{Move: contract.Move{Kind: contract.MoveObject, Key: "p1"}, Whole: "but"},
		{Move: contract.Move{Kind: contract.MoveResolve, Key: "p1"}, Whole: "so"},
		{Move: contract.Move{Kind: contract.MoveSynthesise, Key: "s1", From: []string{"p1", "p2"}}, Whole: "both"},
		{Move: contract.Move{Kind: contract.MoveVote, Key: "s1", Version: 1, Accept: &yes}, Whole: "yes"},
		{Move: contract.Move{Kind: contract.MoveMessage, To: "BETA"}, Whole: "hi"},
		{Move: contract.Move{Kind: contract.MoveVerdict, Key: "s1"}, Whole: "final"},
		{Move: contract.Move{Kind: contract.MoveDone}, Whole: "done"},
	}, said)
	said, err = verdict.ReadMoves("```json\n{\"moves\": []}\n```", bounds)
	require.NoError(t, err)
	require.Empty(t, said)
}

func TestAnAnswerThatIsNoTurnIsAnErrorThatTheModelCanRead(t *testing.T) {
	t.Parallel()
	many := `{"moves": [` + strings.TrimSuffix(strings.Repeat(`{"move": "done"},`, 17), ",") + `]}`
	for name, c := range map[string]struct{ text, says string }{
		"words":            {"I agree with BETA.", "not a single JSON document"},
		"nothing":          {"", "it is empty"},
		"two documents":    {`{"moves": []} {"moves": []}`, "unexpected text after the document"},
		"a list":           {`[]`, "schema"},
		"another member":   {`{"moves": [{"move": "done", "member": "BETA"}]}`, "member"},
		"a sender":         {`{"from": "BETA", "moves": []}`, "from"},
		"an unknown move":  {`{"moves": [{"move": "approve"}]}`, "/moves/0/move"},
		"a wrong type":     {`{"moves": [{"move": "propose", "key": 7}]}`, "/moves/0/key"},
		"a ready text":     {`{"moves": [{"move": "propose", "key": "p", "text": {"ref": "abc"}}]}`, "/moves/0/text"},
		"a large score":    {`{"moves": [{"move": "evaluate", "key": "p", "score": 7}]}`, "/moves/0/score"},
		"a stranger":       {`{"moves": [{"move": "message", "to": "ROOT", "text": "x"}]}`, "/moves/0/to"},
		"too many moves":   {many, "the response has 17 moves, more than the 16 allowed in one turn"},
		"a long text":      {fmt.Sprintf(`{"moves": [{"move": "message", "text": %q}]}`, strings.Repeat("x", 1025)), "1025 bytes long, more than the 1024 allowed"},
		"many ingredients": {`{"moves": [{"move": "synthesise", "key": "s", "from": [` + strings.TrimSuffix(strings.Repeat(`"p",`, 17), ",") + `]}]}`, "17 contributions"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := verdict.ReadMoves(c.text, bounds)
			require.ErrorContains(t, err, c.says)
			f := fault.Of(err)
			require.Equal(t, []any{contract.ClassLLM, contract.CodeInvalidOutput}, []any{f.Class, f.Code})
			require.Less(t, len(f.Message), 2000)
		})
	}
}

func TestAKeyThatIsTooLongIsCutButStillTooLong(t *testing.T) {
	t.Parallel()
	said, err := verdict.ReadMoves(fmt.Sprintf(`{"moves": [{"move": "synthesise", "key": %q, "from": [%q], "text": "x"}]}`,
		strings.Repeat("k", 100000), strings.Repeat("ä", 100000)), bounds)
	require.NoError(t, err)
	require.Len(t, said[0].Key, 97, "longer than a key may be, so that it is refused where it is taken")
	require.LessOrEqual(t, len(said[0].From[0]), 97)
}

func TestAKeyMayBeNamedAsNewsShowsIt(t *testing.T) {
	t.Parallel()
	said, err := verdict.ReadMoves(`{"moves": [{"move": "resolve", "key": "solutions/p1/objection/BETA-2-1", "text": "so"},
		{"move": "synthesise", "key": "s1", "from": ["solutions/p1", "p2"], "text": "both"}]}`, bounds)
	require.NoError(t, err)
	require.Equal(t, "p1/objection/BETA-2-1", said[0].Key)
	require.Equal(t, []string{"p1", "p2"}, said[1].From)
}

func TestSubtasksAreReadWithinTheirBounds(t *testing.T) {
	t.Parallel()
	said, err := verdict.ReadMoves(`{"moves": [{"move": "decompose", "text": "two parts", "subtasks": [
		{"id": "t1", "description": "first", "member": "ALPHA"}, {"id": "t2", "description": "then", "dependencies": ["t1"]}]}]}`, bounds)
	require.NoError(t, err)
	require.Equal(t, []contract.Subtask{
		{ID: "t1", Description: "first", Member: contract.Alpha}, {ID: "t2", Description: "then", Dependencies: []string{"t1"}},
	}, said[0].Subtasks)
	for says, subtasks := range map[string]string{
		"13 subtasks":                  strings.TrimSuffix(strings.Repeat(`{"id": "t", "description": "d"},`, 13), ","),
		"1025 bytes":                   `{"id": "t", "description": "` + strings.Repeat("d", 1025) + `"}`,
		"depends on 13 other subtasks": `{"id": "t", "description": "d", "dependencies": [` + strings.TrimSuffix(strings.Repeat(`"x",`, 13), ",") + `]}`,
		"/moves/0/subtasks/0/me":       `{"id": "t", "description": "d", "member": "GAMMA"}`,
	} {
		_, err := verdict.ReadMoves(`{"moves": [{"move": "decompose", "subtasks": [`+subtasks+`]}]}`, bounds)
		require.ErrorContains(t, err, says)
	}
}

func FuzzMovesAreWithinTheirBoundsWhateverAModelSays(f *testing.F) {
	f.Add(`{"moves": [{"move": "propose", "key": "p1", "text": "x"}]}`)
	f.Add(`{"moves": [{"move": "vote", "key": "\ud800", "version": 1e400}]}`)
	f.Add("```\n{}\n```")
	f.Fuzz(func(t *testing.T, text string) {
		said, err := verdict.ReadMoves(text, bounds)
		if err != nil {
			require.NotEmpty(t, fault.Of(err).Message)
			return
		}
		require.LessOrEqual(t, len(said), bounds.Moves)
		for _, m := range said {
			require.LessOrEqual(t, len(m.Whole), bounds.Text)
			require.LessOrEqual(t, len(m.Key), 65)
			require.Empty(t, m.Text, "a model names no stored text")
			_, err := json.Marshal(m)
			require.NoError(t, err)
		}
	})
}
