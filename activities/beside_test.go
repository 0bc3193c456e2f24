package activities

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAPartOfAnActivityEndsWithItsErrorOrPanic(t *testing.T) {
	t.Parallel()
	a := &Activities{Log: slog.New(slog.DiscardHandler)}
	lost := errors.New("lost")
	require.NoError(t, a.beside(t.Context(), "the report", func() error { return nil })())
	require.ErrorIs(t, a.beside(t.Context(), "the report", func() error { return lost })(), lost)
	require.ErrorContains(t, a.beside(t.Context(), "the report", func() error { panic("no patch") })(), "the report panicked, which is a bug of the worker: no patch")
}
