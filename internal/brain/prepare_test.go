package brain_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/brain"
)

func TestAnIndexThatIsNotReadyInTimeIsMadeMeanwhile(t *testing.T) {
	t.Parallel()
	h := newHost(t, nil)
	ws := h.start(t, repository(t, map[string]string{"a.go": "package a\n\nfunc ParseRequest(text string) error { return nil }\n", "b.go": "package a\n"}))
	_, err := h.MapOf(t.Context(), ws, "parse requests", 500, 0)
	require.ErrorIs(t, err, brain.ErrNotReady)
	text, err := h.MapOf(t.Context(), ws, "parse requests", 500, time.Minute)
	require.NoError(t, err)
	require.Contains(t, text, "a.go (to line 3)\n  3: func ParseRequest(text string) error")
	again, err := h.MapOf(t.Context(), ws, "parse requests", 500, 0)
	require.NoError(t, err)
	require.Equal(t, text, again, "what is ready is not waited for")
	v, err := h.Prepared(t.Context(), ws, 0)
	require.NoError(t, err)
	require.Equal(t, 2, v.Corpus.Docs())
}

func TestAKnownTreeIsNotReadAgain(t *testing.T) {
	t.Parallel()
	h := newHost(t, nil)
	repo := repository(t, map[string]string{"a.go": "package a\n\nfunc ParseRequest() {}\n"})
	ws := h.start(t, repo)
	_, err := h.ViewOf(t.Context(), ws)
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(h.root))
	v, err := h.ViewOf(t.Context(), ws)
	require.NoError(t, err)
	answer, err := v.Search(t.Context(), brain.Query{Text: "ParseRequest"})
	require.NoError(t, err)
	require.Len(t, answer.Files, 1)
}

func TestARepositoryThatCannotBeIndexedIsAnError(t *testing.T) {
	t.Parallel()
	h := newHost(t, nil)
	ws := contract.Workspace{Repo: t.TempDir(), Base: "0000000000000000000000000000000000000001", Tree: "0000000000000000000000000000000000000002"}
	_, err := h.MapOf(t.Context(), ws, "x", 500, time.Minute)
	require.Error(t, err)
	require.NotErrorIs(t, err, brain.ErrNotReady)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = h.Prepared(ended, h.start(t, repository(t, map[string]string{"a.go": "package a\n"})), time.Minute)
	require.ErrorIs(t, err, context.Canceled)
}

func TestClosingEndsTheWorkInTheBackground(t *testing.T) {
	t.Parallel()
	h := newHost(t, nil)
	ws := h.start(t, repository(t, map[string]string{"a.go": "package a\n"}))
	h.Prepare(ws)
	h.Close()
	_, err := h.Prepared(t.Context(), ws, time.Minute)
	require.ErrorIs(t, err, brain.ErrNotReady, "nothing is begun after that")
}
