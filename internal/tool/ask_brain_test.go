package tool

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func ask(t *testing.T, env Env, args string) (Result, error) {
	t.Helper()
	set, err := Builtin().Set(AskBrain)
	require.NoError(t, err)
	return set.Call(t.Context(), env, AskBrain, json.RawMessage(args))
}

func TestAQuestionGetsTheBrainsAnswer(t *testing.T) {
	t.Parallel()
	env := Env{Brain: func(_ context.Context, query string) (string, error) {
		if query == "nothing" {
			return "", nil
		}
		return "a.go:1-2\n", nil
	}}
	result, err := ask(t, env, `{"query": "where are requests repeated?"}`)
	require.NoError(t, err)
	require.True(t, result.OK)
	require.Equal(t, "a.go:1-2\n", result.Text)
	require.False(t, result.Changed)

	result, err = ask(t, env, `{"query": "nothing"}`)
	require.NoError(t, err)
	require.True(t, result.OK)
	require.Contains(t, result.Text, "nothing found")
}

func TestABlankQueryIsNotAsked(t *testing.T) {
	t.Parallel()
	result, err := ask(t, Env{}, `{"query": " "}`)
	require.NoError(t, err)
	require.False(t, result.OK)
	require.Contains(t, result.Text, "in words")
}

func TestWithoutAnIndexTheAgentLearnsWhatToUseInstead(t *testing.T) {
	t.Parallel()
	result, err := ask(t, Env{}, `{"query": "retries"}`)
	require.NoError(t, err)
	require.False(t, result.OK)
	require.Empty(t, result.Code, "asking is not misconduct")
	require.Contains(t, result.Text, "search and list_files")
}

func TestABrainThatFailsIsNotAnAnswer(t *testing.T) {
	t.Parallel()
	env := Env{Brain: func(context.Context, string) (string, error) { return "", errors.New("disk is full") }}
	_, err := ask(t, env, `{"query": "retries"}`)
	require.ErrorContains(t, err, "disk is full")
}
