package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/backend"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/feed"
	"github.com/rocketgpt/orchestrator/internal/storetest"
)

// flakyBackend is a backend in which a part fails to answer some requests at first.
type flakyBackend struct {
	backend.Backend
	asked int
}

func (s *flakyBackend) answers() error {
	if s.asked++; s.asked%3 != 0 && s.asked > 1 {
		return fault.New(contract.ClassInfra, contract.CodeUnavailable, "away")
	}
	return nil
}

func (s *flakyBackend) Run(ctx context.Context, id int64) (store.Run, error) {
	if err := s.answers(); err != nil {
		return store.Run{}, err
	}
	return s.Backend.Run(ctx, id)
}

func (s *flakyBackend) Events(ctx context.Context, id, after int64, limit int) ([]contract.Event, error) {
	if err := s.answers(); err != nil {
		return nil, err
	}
	return s.Backend.Events(ctx, id, after, limit)
}

func TestAFollowerSeesTheEndOfARunDespiteAnOutage(t *testing.T) {
	t.Parallel()
	p := withStore(t)
	id := p.fill(t, "Greet")
	events := storetest.Feed(t, p.Store, feed.Options{})
	follow := func(wrap func(backend.Backend) backend.Backend) string {
		var out bytes.Buffer
		a := newApp(strings.NewReader(""), &out, &out)
		var end ended
		require.ErrorAs(t, a.follow(t.Context(), wrap(backend.Local{Runs: &control.Runs{Store: p.Store, Views: p.Views, Feed: events}}), id), &end)
		require.Equal(t, exitFailed, end.code)
		return out.String()
	}
	s := &flakyBackend{}
	require.Equal(t, follow(func(h backend.Backend) backend.Backend { return h }), follow(func(h backend.Backend) backend.Backend { s.Backend = h; return s }))
	require.Greater(t, s.asked, 5, "it was away")
}

func TestAServerIsThatOfTheFlagElseThatOfTheEnvironment(t *testing.T) {
	t.Parallel()
	a := newApp(strings.NewReader(""), nil, nil)
	a.env = []string{"RGPT_SERVER=http://from-env"}
	require.Equal(t, "http://from-env", a.server())
	a.serverSet = true
	require.Empty(t, a.server(), "an empty flag is this machine")
	a.serverFlag = "http://from-flag"
	require.Equal(t, "http://from-flag", a.server())
}
