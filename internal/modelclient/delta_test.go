package modelclient

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/model"
)

func TestThePiecesOfAStreamArePassedOnAndThoseOfOtherResponsesAreNot(t *testing.T) {
	t.Parallel()
	overEachWire(t, `rules:
  - reply:
      text: "First I look at the file, then I change it in two places."
      reasoning: hm
      tool_calls:
        - {name: edit_file, arguments: {path: hello.txt, old_text: hello, new_text: hello there}}
        - {name: finish, arguments: {summary: said more}}
`, func(t *testing.T, c *Client, _ string, streamed bool) {
		var text strings.Builder
		var pieces, thoughts int
		var tools, arguments []string
		req := question()
		req.Delta = func(kind model.DeltaKind, piece string) {
			switch kind {
			case model.DeltaText:
				pieces++
				text.WriteString(piece)
			case model.DeltaReasoning:
				thoughts++
			case model.DeltaTool:
				tools, arguments = append(tools, piece), append(arguments, "")
			case model.DeltaArguments:
				arguments[len(arguments)-1] += piece
			}
		}
		resp, err := c.Complete(t.Context(), req)
		require.NoError(t, err)
		if !streamed {
			require.Empty(t, tools)
			require.Zero(t, pieces+thoughts)
			return
		}
		require.Equal(t, resp.Text, text.String())
		require.Greater(t, pieces, 1)
		require.Equal(t, []string{"edit_file", "finish"}, tools)
		require.Equal(t, []string{resp.ToolCalls[0].Arguments, resp.ToolCalls[1].Arguments}, arguments)
		if c.providers["p"].Kind.Messages() { // the scripted model has no reasoning in OpenAI's protocol
			require.Positive(t, thoughts)
		}
	})
}

func TestReasoningInAFieldOfAProvidersOwnIsPassedOnWithoutItsText(t *testing.T) {
	t.Parallel()
	for _, field := range []string{"reasoning_content", "reasoning"} {
		url := serve(t, events(
			`{"choices":[{"index":0,"delta":{"role":"assistant","content":null,"`+field+`":"first I think"}}]}`,
			`{"choices":[{"index":0,"delta":{"content":"Done.","`+field+`":null},"finish_reason":"stop"}]}`,
		))
		c := newClient(t, model.Provider{BaseURL: url}, Options{})
		var kinds []model.DeltaKind
		var texts []string
		req := question()
		req.Delta = func(kind model.DeltaKind, piece string) { kinds, texts = append(kinds, kind), append(texts, piece) }
		_, err := c.Complete(t.Context(), req)
		require.NoError(t, err)
		require.Equal(t, []model.DeltaKind{model.DeltaReasoning, model.DeltaText}, kinds)
		require.Equal(t, []string{"", "Done."}, texts)
	}
}
