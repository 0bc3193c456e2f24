package activities

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/sandbox"
)

func TestAPartOfAnActivityEndsWithItsErrorOrPanic(t *testing.T) {
	t.Parallel()
	a := &Activities{Log: slog.New(slog.DiscardHandler)}
	lost := errors.New("lost")
	require.NoError(t, a.beside(t.Context(), "the report", func() error { return nil })())
	require.ErrorIs(t, a.beside(t.Context(), "the report", func() error { return lost })(), lost)
	var none sandbox.Runner
	panics := func() error { _, err := none.Run(context.Background(), sandbox.Command{}); return err }
	require.ErrorContains(t, a.beside(t.Context(), "the report", panics)(), "the report panicked, which is a bug of the worker: runtime error")
}
