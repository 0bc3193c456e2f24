package livetext_test

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/livetext"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/modelclient"
	"github.com/rocketgpt/orchestrator/internal/scripted"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/storetest"
)

// BenchmarkCalls compares streamed calls over HTTP without live text, with it while
// nobody watches, and with it while the run is watched. The interval is so short that each call is
// shown several times, which real calls are only once in 500 ms.
func BenchmarkCalls(b *testing.B) {
	f := storetest.Setup(b)
	scenario, err := scripted.Parse("bench", []byte("rules:\n  - {pace: 1ms, reply: {text: \""+strings.Repeat("a word and another ", 4000)+"\"}}\n"))
	require.NoError(b, err)
	server, err := scripted.New(scenario, scripted.Options{})
	require.NoError(b, err)
	web := httptest.NewServer(server)
	b.Cleanup(func() { require.NoError(b, server.Close()); web.Close() })
	client, err := modelclient.New([]model.Provider{{Name: "p", Kind: model.KindScripted, BaseURL: web.URL + "/v1"}}, nil, modelclient.Options{})
	require.NoError(b, err)
	b.Cleanup(client.Close)

	call := func(b *testing.B, live bool) {
		b.Helper()
		req := model.Request{Choice: contract.ModelChoice{Provider: "p", Model: "m"}, Messages: []model.Message{{Role: model.RoleUser, Text: "go"}}}
		if live {
			w := livetext.Start(b.Context(), f.Store, store.LiveText{RunID: f.First.ID, ExecutionID: 1, Turn: 1, Try: 1}, 2*time.Millisecond, slog.New(slog.DiscardHandler))
			defer w.End()
			req.Delta = w.Add
		}
		_, err := client.Complete(b.Context(), req)
		require.NoError(b, err)
	}
	measure := func(live bool) func(*testing.B) {
		return func(b *testing.B) {
			runtime.GC()
			before := processorTime(b)
			for b.Loop() {
				call(b, live)
			}
			b.ReportMetric(float64(processorTime(b)-before)/float64(b.N), "cpu-ns/op")
		}
	}
	b.Run("off", measure(false))
	b.Run("unwatched", measure(true))
	ctx, stop := context.WithCancel(context.WithoutCancel(b.Context()))
	ended := make(chan error, 1)
	seen := make(chan struct{}, 1)
	go func() {
		ended <- f.FollowTexts(ctx, f.First.ID, func(store.LiveText) error {
			select {
			case seen <- struct{}{}:
			default:
			}
			return nil
		})
	}()
	for watched := false; !watched; {
		watched, err = f.ShowText(b.Context(), store.LiveText{RunID: f.First.ID})
		require.NoError(b, err)
	}
	b.Run("watched", measure(true))
	<-seen
	stop()
	require.ErrorIs(b, <-ended, context.Canceled)
}

// processorTime is what this process has used.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkShow is one statement while nobody watches.
func BenchmarkShow(b *testing.B) {
	f := storetest.Setup(b)
	text := store.LiveText{RunID: f.First.ID, ExecutionID: 1, Turn: 1, Try: 1, Text: strings.Repeat("a word ", store.LiveTextBytes/7)}
	for b.Loop() {
		_, err := f.ShowText(b.Context(), text)
		require.NoError(b, err)
	}
}

// BenchmarkAdd is what a piece of a stream costs in memory.
func BenchmarkAdd(b *testing.B) {
	w := livetext.Start(b.Context(), &audience{}, store.LiveText{}, time.Hour, slog.New(slog.DiscardHandler))
	defer w.End()
	for b.Loop() {
		w.Add(model.DeltaText, "a word ")
	}
}
