package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"golang.org/x/sync/errgroup"

	"github.com/rocketgpt/orchestrator/contract"
)

// A crowd is many runs that mostly wait for a slow model.
const (
	crowdLatency = 5 * time.Second
	crowdStops   = 20                     // further runs, stopped while the others are in progress
	crowdAsk     = 100 * time.Millisecond // between two requests to the API
)

// The aims of a crowd.
const (
	aimCrowd   = 1.3 // of one run's wall time
	aimStop    = 2 * time.Second
	aimAPI     = 200 * time.Millisecond
	aimCrowdMB = 3 << 10
)

// crowdResult has the measurements of many runs at once, compared with one.
type crowdResult struct {
	Runs    int     `json:"runs"`
	OneMS   int64   `json:"one_wall_ms"`
	AllMS   int64   `json:"all_wall_ms"` // from the first run's creation to the last one's end
	Ratio   float64 `json:"ratio"`
	StopMS  int64   `json:"stop_ms_p95"` // from the request until the run has ended
	APIMS   int64   `json:"api_ms_p95"`  // of reading a run
	PeakMB  int64   `json:"peak_mb"`     // of all processes
	CPU     float64 `json:"cpu_seconds_per_run"`
	Load    cpuLoad `json:"load"` // of these and of the stopped runs
	Answers int     `json:"api_requests"`
}

// crowdConfig lets as many runs work at once as the measurement needs.
func crowdConfig(dir string) (string, error) {
	text, err := yaml.Marshal(map[string]any{
		"execution": map[string]any{"concurrent_runs": 0},
	})
	if err != nil {
		return "", fmt.Errorf("configure the crowd: %w", err)
	}
	file := filepath.Join(dir, "crowd.yaml")
	return file, os.WriteFile(file, text, 0o600)
}

// measureCrowd measures many runs at once, stops further ones meanwhile, and reads runs through the API.
func measureCrowd(ctx context.Context, h *benchStack, runs int, say func(string, ...any)) (*crowdResult, error) {
	say("One run, latency %s", crowdLatency)
	one, err := h.product(ctx, crowdLatency, 1, false)
	if err != nil {
		return nil, err
	}
	say("%d runs at once, latency %s", runs, crowdLatency)
	m := startMeter(h)
	began := time.Now()
	all, allCtx := errgroup.WithContext(ctx)
	for range runs {
		all.Go(func() error {
			id, err := h.create(allCtx, crowdLatency)
			if err != nil {
				return err
			}
			return h.await(allCtx, id)
		})
	}
	reading, done := context.WithCancel(ctx)
	defer done()
	var times []time.Duration
	others, _ := errgroup.WithContext(ctx)
	others.Go(func() (err error) {
		times, err = h.readRuns(reading, 1)
		return err
	})
	stops, err := h.stopMany(ctx, one.WallMS)
	if err != nil {
		return nil, err
	}
	err = all.Wait()
	took := time.Since(began)
	done()
	if err != nil {
		return nil, err
	}
	if err := others.Wait(); err != nil {
		return nil, err
	}
	load := m.stop()
	r := &crowdResult{
		Runs: runs, OneMS: one.WallMS, AllMS: took.Milliseconds(), Ratio: float64(took.Milliseconds()) / float64(one.WallMS),
		StopMS: quantile(stops, 0.95, time.Duration.Milliseconds), APIMS: quantile(times, 0.95, time.Duration.Milliseconds),
		CPU: load.Total / float64(runs+crowdStops), Load: load, Answers: len(times),
	}
	for _, p := range load.Processes {
		r.PeakMB += p.PeakMB
	}
	return r, nil
}

// stopMany starts further runs and stops each while it works. It returns how long each took to end.
func (h *benchStack) stopMany(ctx context.Context, wallMS int64) ([]time.Duration, error) {
	took := make([]time.Duration, crowdStops)
	group, ctx := errgroup.WithContext(ctx)
	for i := range took {
		group.Go(func() error {
			id, err := h.create(ctx, crowdLatency)
			if err != nil {
				return err
			}
			// Spread over the time in which the others work.
			wait := time.NewTimer(time.Duration(wallMS) * time.Millisecond * time.Duration(i+1) / (crowdStops + 2))
			defer wait.Stop()
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-wait.C:
			}
			asked := time.Now()
			if err := h.ask(ctx, http.MethodPost, "/api/runs/"+strconv.FormatInt(id, 10)+"/stop", `{"by":"bench","reason":"measured"}`); err != nil {
				return err
			}
			var result contract.RunResult
			if err := h.temporal.GetWorkflow(ctx, contract.RunWorkflowID(id), "").Get(ctx, &result); err != nil {
				return fmt.Errorf("run %d: %w", id, err)
			}
			took[i] = time.Since(asked)
			return nil
		})
	}
	return took, group.Wait()
}

// readRuns reads the newest runs and one of them until ctx ends. It returns how long each request took.
func (h *benchStack) readRuns(ctx context.Context, id int64) ([]time.Duration, error) {
	tick := time.NewTicker(crowdAsk)
	defer tick.Stop()
	var times []time.Duration
	for {
		for _, path := range []string{"/api/runs?limit=20", "/api/runs/" + strconv.FormatInt(id, 10)} {
			asked := time.Now()
			err := h.ask(ctx, http.MethodGet, path, "")
			if ctx.Err() != nil {
				return times, nil // the measurement is over
			}
			if err != nil {
				return times, err
			}
			times = append(times, time.Since(asked))
		}
		select {
		case <-ctx.Done():
			return times, nil
		case <-tick.C:
		}
	}
}

// ask sends a request to the API and reads the whole response.
func (h *benchStack) ask(ctx context.Context, method, path, body string) error {
	request, err := http.NewRequestWithContext(ctx, method, h.stack.Server+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= http.StatusMultipleChoices {
		err = fmt.Errorf("%s %s: %s: %s", method, path, response.Status, text)
	}
	return err
}

func (r *crowdResult) print(out io.Writer) error {
	if r == nil {
		return nil
	}
	t := newTable(out, fmt.Sprintf("%d runs at once, latency %s, %d others stopped meanwhile; %.2f s of CPU for each", r.Runs, crowdLatency, crowdStops, r.CPU), "WHAT", "MEASURED", "AIM")
	t.row("wall time of one run", ms(r.OneMS), "")
	t.row("of all", fmt.Sprintf("%s, %s times as long", ms(r.AllMS), ratio(r.Ratio)), fmt.Sprintf("≤ %.1f", aimCrowd))
	t.row("stop, p95", ms(r.StopMS), "< "+aimStop.String())
	t.row(fmt.Sprintf("API, p95 of %d requests", r.Answers), ms(r.APIMS), "< "+aimAPI.String())
	t.row("memory of all processes", fmt.Sprintf("%d MB", r.PeakMB), fmt.Sprintf("< %d MB", aimCrowdMB))
	for _, p := range r.Load.Processes {
		each := func(seconds float64) float64 { return 1000 * seconds / float64(r.Runs+crowdStops) }
		t.row("CPU time of a run, "+p.Role, fmt.Sprintf("%.0f ms, and %.0f ms of its children", each(p.CPU), each(p.Children)), "")
	}
	return t.Flush()
}
