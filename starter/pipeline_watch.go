package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"

	"github.com/spf13/cobra"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/backend"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/feed"
	"github.com/rocketgpt/orchestrator/internal/terminal"
)

// recoveryTimeout is the maximum wait for the event that reports whether an announced recovery
// started. It normally follows immediately, unless the worker dies in between.
const recoveryTimeout = time.Minute

// resultMark starts the last line that is printed for a pipeline followed to its end.
const resultMark = "ORCHESTRATION_RESULT:"

// orchestrationResult is the result of the last pipeline in a chain of recoveries.
type orchestrationResult struct {
	Consensus   bool                         `json:"consensus"`
	TaskID      string                       `json:"task_id"`
	Metrics     contract.DeliberationMetrics `json:"metrics"`
	AbortReason contract.AbortReason         `json:"abort_reason"`
	// RequiresAutoRecovery reports whether the pipeline was aborted and no recovery reached a
	// consensus.
	RequiresAutoRecovery bool                    `json:"requires_auto_recovery"`
	PipelineID           int64                   `json:"pipeline_id"`
	Status               contract.PipelineStatus `json:"status"`
	Final                string                  `json:"final"`
	Attempts             int                     `json:"attempts"`
	Pipelines            []int64                 `json:"pipelines"` // all followed pipelines; the other fields describe the last one
	Failure              *contract.Failure       `json:"failure,omitempty"`
}

func newPipelineWatch(a *app) *cobra.Command {
	var after int64
	cmd := &cobra.Command{
		Use: "watch [PIPELINE]", Short: "Follow a pipeline and its recoveries until they end (default: the newest pipeline)", Args: perhapsPipeline,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd.Context(), 0, func(h backend.Backend) error {
				id, err := chosenPipeline(cmd.Context(), h, args)
				if err != nil {
					return err
				}
				return a.watchPipeline(cmd.Context(), h, id, after)
			})
		},
	}
	cmd.Flags().Int64Var(&after, "after", 0, "skip events up to this number")
	return cmd
}

// watchPipeline shows the events of a pipeline and its recoveries until the last one ends, and
// returns its exit code.
func (a *app) watchPipeline(ctx context.Context, h backend.Backend, id, after int64) error {
	var all []int64
	aborted := false
	for {
		all = append(all, id)
		p, next, err := a.followPipeline(ctx, h, id, after)
		if ctx.Err() != nil {
			fmt.Fprintf(a.errs, "Pipeline %d continues in the background. Follow it with: rgpt pipeline watch %d\n", id, id)
			return ended{exitError}
		}
		if err != nil {
			return err
		}
		aborted = aborted || p.AbortReason != ""
		if next == 0 || slices.Contains(all, next) {
			return a.reportPipeline(p, all, aborted)
		}
		id, after = next, 0
	}
}

// followPipeline shows the events of one pipeline until it ends. It returns the pipeline and the ID
// of its recovery, 0 if there is none.
func (a *app) followPipeline(ctx context.Context, h backend.Backend, id, after int64) (store.Pipeline, int64, error) {
	p, err := withRetries(ctx, func() (store.Pipeline, error) { return h.Pipeline(ctx, id) })
	if err != nil {
		return p, 0, err
	}
	if !a.json {
		fmt.Fprintf(a.out, "Pipeline %d%s: %s\n", p.ID, recoveryOf(p), terminal.Clean(p.Objective))
	}
	if isOver(p) {
		return p, p.RecoveredBy, a.showLogs(ctx, h, id, &after, false)
	}
	following, enough := context.WithCancel(ctx)
	defer enough()
	wait := func() { time.AfterFunc(recoveryTimeout, enough) } // has no effect after following has ended
	if p.Status.Terminal() {
		wait()
	}
	var next int64
	err = h.FollowPipeline(following, id, after, func(e contract.Event) error {
		entry := control.LogOf(e)
		a.printPipelineLog(entry, false)
		if entry.Status == contract.PipelineReport {
			a.askToContinue(following, h, id)
		}
		var recovers bool
		recovers, next = recoveryIn(e)
		switch {
		case next != 0, e.Type == contract.EventRecoveryFailed, overBy(e) && !recovers:
			return feed.ErrStop
		case recovers:
			wait()
		}
		return nil
	})
	if err != nil && (ctx.Err() != nil || !errors.Is(err, context.Canceled)) {
		return p, 0, err
	}
	p, err = withRetries(ctx, func() (store.Pipeline, error) { return h.Pipeline(ctx, id) })
	return p, next, err
}

// askToContinue reports that a pipeline is waiting for the user, if it still is.
func (a *app) askToContinue(ctx context.Context, h backend.Backend, id int64) {
	if p, err := h.Pipeline(ctx, id); err == nil && p.WaitingFor != "" {
		fmt.Fprintf(a.errs, "Pipeline %d is waiting for you: rgpt pipeline %s %d\n", id, p.WaitingFor, id)
	}
}

// overBy reports whether an event ends a pipeline. It was recorded by the pipeline, or by a worker
// that closed it because its workflow no longer existed.
func overBy(e contract.Event) bool {
	var said struct {
		Status  contract.PipelineStatus `json:"status"`
		Failure *contract.Failure       `json:"failure"`
	}
	closed := e.Type == contract.EventPipelineUpdated && json.Unmarshal(e.Payload, &said) == nil && said.Status.Terminal() && said.Failure != nil
	return closed || e.Type == contract.EventOrchestrationComplete
}

// recoveryIn returns whether an event announces a recovery, and the ID of the recovering pipeline
// if it has started.
func recoveryIn(e contract.Event) (recovers bool, next int64) {
	var said struct {
		Recovers    bool  `json:"requires_auto_recovery"`
		RecoveredBy int64 `json:"recovered_by"`
	}
	if json.Unmarshal(e.Payload, &said) != nil {
		return false, 0
	}
	switch e.Type {
	case contract.EventOrchestrationComplete:
		return said.Recovers, 0
	case contract.EventRecoveryStarted:
		return true, said.RecoveredBy
	default:
		return false, 0
	}
}

// isOver reports whether a pipeline is over and no recovery follows.
func isOver(p store.Pipeline) bool {
	switch {
	case !p.Status.Terminal():
		return false
	case p.RecoveredBy != 0, p.Status == contract.PipelineCompleted, p.Status == contract.PipelineStopped, p.Attempt > p.Settings.Recoveries:
		return true
	}
	return p.FinishedAt != nil && time.Since(*p.FinishedAt) > recoveryTimeout
}

// recoveryOf describes which pipeline this one recovers.
func recoveryOf(p store.Pipeline) string {
	if p.PriorID == 0 {
		return ""
	}
	return fmt.Sprintf(" (attempt %d, recovers pipeline %d)", p.Attempt, p.PriorID)
}

// reportPipeline prints how a pipeline ended. The last line is for programs.
func (a *app) reportPipeline(p store.Pipeline, all []int64, aborted bool) error {
	consensus := p.Status == contract.PipelineCompleted
	out := orchestrationResult{
		Consensus: consensus, TaskID: p.Task.TaskID, Metrics: p.Metrics, AbortReason: p.AbortReason, RequiresAutoRecovery: aborted && !consensus,
		PipelineID: p.ID, Status: p.Status, Attempts: p.Attempt, Pipelines: all, Failure: p.Failure,
	}
	if p.Consensus != nil {
		out.Final = p.Consensus.Value.Head
	}
	if !a.json {
		a.printPipelineEnd(p)
	}
	raw, err := json.Marshal(out)
	if err != nil {
		return fmt.Errorf("write the result of pipeline %d: %w", p.ID, err)
	}
	fmt.Fprintf(a.out, "%s%s\n", resultMark, visible(string(raw)))
	if code := pipelineExit(p); code != exitConsensus {
		return ended{code}
	}
	return nil
}

// visible escapes the characters of a JSON document that could affect a terminal. Its meaning does
// not change.
func visible(doc string) string {
	var b strings.Builder
	for _, r := range doc {
		if !unicode.IsControl(r) && !unicode.Is(unicode.Cf, r) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, "\\u%04x", unit)
		}
	}
	return b.String()
}

// pipelineExit returns the exit code for the result of a pipeline.
func pipelineExit(p store.Pipeline) int {
	switch {
	case p.Status == contract.PipelineCompleted:
		return exitConsensus
	case p.Status == contract.PipelineFailed:
		return exitError
	case p.AbortReason != "", p.Status == contract.PipelineStopped, p.Status == contract.PipelineTimeout:
		return exitAborted
	default:
		return exitNoConsensus
	}
}

// printPipelineEnd prints how a pipeline ended.
func (a *app) printPipelineEnd(p store.Pipeline) {
	took := ""
	if p.FinishedAt != nil {
		took = " after " + p.FinishedAt.Sub(p.CreatedAt).Round(100*time.Millisecond).String()
	}
	fmt.Fprintf(a.out, "\nPipeline %d is %s%s.\n", p.ID, p.Status, took)
	if p.AbortReason != "" {
		fmt.Fprintf(a.out, "  aborted    %s\n", p.AbortReason)
	}
	if f := p.Failure; f != nil {
		fmt.Fprintf(a.out, "  %s (%s): %s\n", f.Class, f.Code, terminal.Clean(f.Message))
	}
	a.printConsensus(p)
	a.printMetrics(p)
}
