package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/devstack"
	"github.com/rocketgpt/orchestrator/internal/livetext"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/modelclient"
	"github.com/rocketgpt/orchestrator/internal/pgcluster"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/feed"
)

// The calls whose texts are shown: each of them streams a text in four pieces, for two seconds.
const (
	textCalls = 100 // at the same time
	textScene = "rules:\n  - pace: 500ms\n    reply: {text: %q}\n"
	textWords = 400
)

// liveTextResult is what a call costs if its text is, or is not, shown while it is written.
type liveTextResult struct {
	Mode       string  `json:"mode"`
	Calls      int     `json:"calls"`
	CPUMS      float64 `json:"cpu_ms"`          // of the worker and of the client that watches
	DatabaseMS float64 `json:"database_cpu_ms"` // of PostgreSQL
	TotalRatio float64 `json:"ratio"`           // to calls without live text
	TextsSeen  float64 `json:"texts_seen"`      // of each call, by the client
}

// liveTextBench makes streamed calls over HTTP and shows their texts through PostgreSQL.
type liveTextBench struct {
	db     *store.Store
	pid    int // of PostgreSQL
	client *modelclient.Client
	run    int64
	every  time.Duration
}

// measureLiveText compares calls without live text, with it, and with a client that watches.
func measureLiveText(ctx context.Context, say func(string, ...any)) (out []liveTextResult, err error) {
	say("Measuring live text")
	dir, err := os.MkdirTemp("", "rgpt-bench-livetext-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // PostgreSQL may run as another user, who must be able to traverse it
		return nil, err
	}
	cluster, err := pgcluster.Start(ctx, pgcluster.Options{Dir: filepath.Join(dir, "postgres"), Log: filepath.Join(dir, "log"), Volatile: true})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, cluster.Stop(context.WithoutCancel(ctx))) }()
	if err := cluster.CreateDatabase(ctx, "livetext"); err != nil {
		return nil, err
	}
	if err := store.Migrate(ctx, cluster.URL("livetext")); err != nil {
		return nil, err
	}
	db, err := store.Open(ctx, cluster.URL("livetext"), store.Options{ApplicationName: "bench"})
	if err != nil {
		return nil, err
	}
	defer db.Close()
	run, _, err := db.CreateRun(ctx, store.NewRun{Project: "bench", GoalTitle: "Show texts", Settings: contract.Settings{Repo: contract.Repo{URL: "/bench", Base: "c0ffee", Tree: "beef"}}})
	if err != nil {
		return nil, err
	}
	address, _, stop, err := startSelf(ctx, "-serve-model", fmt.Sprintf(textScene, strings.Repeat("word ", textWords)))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	client, err := modelclient.New([]model.Provider{{Name: "p", Kind: model.KindScripted, BaseURL: "http://" + address + "/v1", MaxConcurrent: textCalls}}, nil, modelclient.Options{})
	if err != nil {
		return nil, err
	}
	defer client.Close()
	b := liveTextBench{db: db, pid: cluster.Process.PID, client: client, run: run.ID, every: config.Default().Models.LiveTextEvery}
	if _, err := b.calls(ctx, "warm-up", false); err != nil {
		return nil, err
	}
	return b.modes(ctx)
}

// modes measures the three kinds of calls.
func (b liveTextBench) modes(ctx context.Context) (out []liveTextResult, err error) {
	add := func(mode string, live bool) {
		if err != nil {
			return
		}
		var r liveTextResult
		if r, err = b.calls(ctx, mode, live); err == nil {
			out = append(out, r)
		}
	}
	add("off", false)
	add("nobody watches", true)
	stop, received, failure := b.watch(ctx)
	if err = errors.Join(err, failure); err != nil {
		return nil, err
	}
	add("somebody watches", true)
	stop()
	for i := range out {
		out[i].TotalRatio = (out[i].CPUMS + out[i].DatabaseMS) / (out[0].CPUMS + out[0].DatabaseMS)
		if i == len(out)-1 {
			out[i].TextsSeen = float64(received()) / textCalls
		}
	}
	return out, err
}

// calls makes calls at the same time.
func (b liveTextBench) calls(ctx context.Context, mode string, live bool) (liveTextResult, error) {
	own, database := processorTime(), read(b.pid, devstack.RolePostgres).CPU
	failed := make([]error, textCalls)
	var all sync.WaitGroup
	for i := range textCalls {
		all.Go(func() { failed[i] = b.call(ctx, i, live) })
	}
	all.Wait()
	return liveTextResult{
		Mode: mode, Calls: textCalls, CPUMS: float64((processorTime() - own).Microseconds()) / 1000 / textCalls,
		DatabaseMS: 1000 * (read(b.pid, devstack.RolePostgres).CPU - database) / textCalls,
	}, errors.Join(failed...)
}

func (b liveTextBench) call(ctx context.Context, n int, live bool) error {
	req := model.Request{Choice: contract.ModelChoice{Provider: "p", Model: "m"}, Messages: []model.Message{{Role: model.RoleUser, Text: "go"}}}
	if live {
		w := livetext.Start(ctx, b.db, store.LiveText{RunID: b.run, ExecutionID: int64(n + 1), Turn: 1, Try: 1}, b.every, slog.New(slog.DiscardHandler))
		defer w.End()
		req.Delta = w.Add
	}
	_, err := b.client.Complete(ctx, req)
	return err
}

// watch follows the texts of the run, as a client's stream does, until stop is called. It returns
// once PostgreSQL knows of it.
func (b liveTextBench) watch(ctx context.Context) (stop func(), received func() int, err error) {
	f := feed.New(b.db, feed.Options{})
	ctx, cancel := context.WithCancel(ctx)
	n := 0
	var following sync.WaitGroup
	following.Go(func() {
		_ = f.FollowTexts(ctx, b.run, func(store.LiveText) error { n++; return nil }) // until it is cancelled
	})
	stop = func() { cancel(); following.Wait(); f.Close() }
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		watched, err := b.db.ShowText(ctx, store.LiveText{RunID: b.run})
		if err != nil {
			tick.Stop()
			stop()
			return nil, nil, err
		}
		if watched {
			tick.Stop()
			return stop, func() int { return n }, nil
		}
		<-tick.C
	}
}

func (r results) printLiveText(out io.Writer) error {
	if len(r.LiveText) == 0 {
		return nil
	}
	t := newTable(out, fmt.Sprintf("Showing what a model writes, at the default interval: %d calls at a time, each of which streams for two seconds", textCalls),
		"LIVE TEXT", "CPU OF A CALL", "OF POSTGRESQL", "RATIO TO OFF", "TEXTS OF A CALL THAT THE WATCHER GOT")
	for _, l := range r.LiveText {
		t.row(l.Mode, millis(l.CPUMS), millis(l.DatabaseMS), ratio(l.TotalRatio), fmt.Sprintf("%.1f", l.TextsSeen))
	}
	return t.Flush()
}
