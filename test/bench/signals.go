package main

import (
	"context"
	"time"

	"github.com/google/uuid"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/workflow"
	"golang.org/x/sync/errgroup"
)

// Two bare workflows signal each other. Messages between agents are also signals, sent through the
// workflow of their deliberation.
const (
	bareCallerWorkflow   = "bench.Caller"
	bareAnswererWorkflow = "bench.Answerer"
	bareSignal           = "bench.signal"
	signalRounds         = 10 // of each pair
)

// bareCaller repeatedly signals another workflow and waits for its signal. It returns the duration
// of each round trip, from workflow task to workflow task.
func bareCaller(ctx workflow.Context, other string) ([]time.Duration, error) {
	var took []time.Duration
	back := workflow.GetSignalChannel(ctx, bareSignal)
	for range signalRounds {
		from := workflow.Now(ctx)
		if err := workflow.SignalExternalWorkflow(ctx, other, "", bareSignal, len(took)).Get(ctx, nil); err != nil {
			return nil, err
		}
		back.Receive(ctx, nil)
		took = append(took, workflow.Now(ctx).Sub(from))
	}
	return took, nil
}

// bareAnswerer responds to each signal with a signal.
func bareAnswerer(ctx workflow.Context, caller string) error {
	calls := workflow.GetSignalChannel(ctx, bareSignal)
	for range signalRounds {
		calls.Receive(ctx, nil)
		if err := workflow.SignalExternalWorkflow(ctx, caller, "", bareSignal, true).Get(ctx, nil); err != nil {
			return err
		}
	}
	return nil
}

// signals measures bare round trips: of one pair at a time, and of many in parallel.
func (h *benchStack) signals(ctx context.Context, many int) ([]signalResult, error) {
	w, err := startBare(h.temporal)
	if err != nil {
		return nil, err
	}
	defer w.Stop()
	if _, err := h.signal(ctx, warmRuns, false); err != nil {
		return nil, err
	}
	var all []signalResult
	for _, atOnce := range []bool{false, true} {
		pairs := idleRuns
		if atOnce {
			pairs = many
		}
		s, err := h.signal(ctx, pairs, atOnce)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

func (h *benchStack) signal(ctx context.Context, pairs int, atOnce bool) (signalResult, error) {
	r := signalResult{Pairs: pairs, AtOnce: atOnce}
	took := make([][]time.Duration, pairs)
	begun := time.Now()
	group, together := errgroup.WithContext(ctx)
	if !atOnce {
		group.SetLimit(1)
	}
	for i := range pairs {
		group.Go(func() error {
			id := "bare-signals-" + uuid.NewString()
			caller, answerer := id+"/caller", id+"/answerer"
			other, err := h.temporal.ExecuteWorkflow(together, client.StartWorkflowOptions{ID: answerer, TaskQueue: bareQueue}, bareAnswererWorkflow, caller)
			if err != nil {
				return err
			}
			run, err := h.temporal.ExecuteWorkflow(together, client.StartWorkflowOptions{ID: caller, TaskQueue: bareQueue}, bareCallerWorkflow, answerer)
			if err != nil {
				return err
			}
			if err := run.Get(together, &took[i]); err != nil {
				return err
			}
			return other.Get(together, nil)
		})
	}
	if err := group.Wait(); err != nil {
		return r, err
	}
	var all []time.Duration
	for _, t := range took {
		all = append(all, t...)
	}
	r.N, r.Each = len(all), float64(len(all))/time.Since(begun).Seconds()
	r.P50, r.P95 = quantile(all, 0.5, milli), quantile(all, 0.95, milli)
	return r, nil
}
