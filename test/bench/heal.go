package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"time"

	"github.com/google/uuid"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
)

// The targets for healing. They are printed next to the measurements; missing one is not a failure.
const (
	aimHeal   = 150 * time.Millisecond // median, from a failure to the next attempt, without the model
	aimReplay = time.Second            // to the first event of the phase
	aimResume = 5 * time.Second        // beyond the heartbeat timeout
)

// The goals of the runs that fail once and are healed.
const (
	goalPlan   = "Bench of a healed plan."
	goalRepair = "Bench of a repaired test."
)

// healRules returns the rules for runs that fail once: one step that creates a file.
func healRules() []map[string]any {
	var rules []map[string]any
	rule := func(goal string, when, reply map[string]any) {
		when["contains"] = goal
		rules = append(rules, map[string]any{
			"when": when, "reply": reply, "usage": map[string]any{"prompt_tokens": 1000, "completion_tokens": 200},
		})
	}
	does := func(calls ...any) map[string]any { return map[string]any{"tool_calls": calls} }
	call := func(name string, arguments map[string]any) any {
		return map[string]any{"name": name, "arguments": arguments}
	}
	finish := call("finish", map[string]any{"summary": "done"})
	for goal, text := range map[string]string{goalPlan: "right\n", goalRepair: "wrong\n"} {
		if goal == goalPlan {
			rule(goal, map[string]any{"agent": "planner", "attempt": 1}, map[string]any{"text": "Here is the plan: first"})
		}
		rule(goal, map[string]any{"agent": "planner"}, map[string]any{"json": contract.Plan{
			Summary: "Make a file.", ComplexityScore: 0.1, Steps: []contract.Step{{
				ID: "s1", Name: "Make it", Description: "Make src/made.txt.", Dependencies: []string{}, EstimatedComplexity: contract.LevelLow,
				RiskLevel: contract.LevelLow, VerificationCriteria: []string{"It is there"}, Files: []string{"src/made.txt"},
			}},
		}})
		rule(goal, map[string]any{"agent": "builder"}, does(call("create_file", map[string]any{"path": "src/made.txt", "content": text}), finish))
	}
	rule(goalRepair, map[string]any{"agent": "repair"},
		does(call("edit_file", map[string]any{"path": "src/made.txt", "old_text": "wrong", "new_text": "right"}), finish))
	return rules
}

// spread has the median and the maximum of some durations.
type spread struct {
	N     int   `json:"n"`
	P50MS int64 `json:"p50_ms"`
	MaxMS int64 `json:"max_ms"`
}

func spreadOf(all []time.Duration) spread {
	if len(all) == 0 {
		return spread{}
	}
	return spread{N: len(all), P50MS: median(all, time.Duration.Milliseconds), MaxMS: slices.Max(all).Milliseconds()}
}

// healResult has the durations of heals and replays.
type healResult struct {
	Plan   spread `json:"plan"`         // planner.error to planner.started, healed by correct_json
	Repair spread `json:"repair"`       // tester.error to tester.started, healed by repair
	Model  spread `json:"repair_model"` // of the model's responses during repairs; not included in Repair
	Tools  spread `json:"repair_tools"` // of the Repair agent's tools; included in Repair
	Bare   spread `json:"bare"`         // the same with a bare parent and child workflow
	Replay spread `json:"replay"`       // rgpt run replay until the phase's first event
}

// healRuns is the number of measurements of each, after a warm-up.
const healRuns = 10

func measureHealing(ctx context.Context, h *benchStack, o options) (*healResult, error) {
	r := &healResult{}
	plan, err := h.healed(ctx, goalPlan, contract.PhasePlanner)
	if err != nil {
		return nil, err
	}
	repair, err := h.healed(ctx, goalRepair, contract.PhaseTester)
	if err != nil {
		return nil, err
	}
	r.Plan, r.Repair = spreadOf(plan.took), spreadOf(repair.took)
	r.Model, r.Tools = spreadOf(repair.model), spreadOf(repair.tools)
	if r.Replay, err = h.replays(ctx, repair.ids); err != nil || !o.bare {
		return r, err
	}
	r.Bare, err = h.bareHeals(ctx)
	return r, err
}

// healedRuns has the measurements of runs that were healed once.
type healedRuns struct {
	took, model, tools []time.Duration
	ids                []int64
}

// healed creates runs whose phase fails once, one at a time, and measures from the failure to the
// phase's next attempt, without the model's time.
func (h *benchStack) healed(ctx context.Context, goal string, p contract.Phase) (r healedRuns, err error) {
	for i := range healRuns + 1 {
		id, err := h.createFor(ctx, goal)
		if err == nil {
			err = h.await(ctx, id)
		}
		if err != nil {
			return r, err
		}
		if i == 0 {
			continue // it warms up
		}
		if err := h.readHeal(ctx, id, p, &r); err != nil {
			return r, err
		}
	}
	return r, nil
}

// readHeal computes from the events of a run the duration of its heal, and how much of it the model
// and the tools took.
func (h *benchStack) readHeal(ctx context.Context, id int64, p contract.Phase, r *healedRuns) error {
	run, err := h.views.RunDetails(ctx, id)
	if err != nil {
		return err
	}
	var from, to time.Time
	for _, e := range run.Events {
		switch {
		case e.Type == p.ErrorEvent() && from.IsZero():
			from = e.CreatedAt
		case e.Type == p.Started() && !from.IsZero() && to.IsZero():
			to = e.CreatedAt
		}
	}
	if to.IsZero() {
		return fmt.Errorf("the %s of run %d did not fail and restart", p, id)
	}
	rows, err := h.views.Timing(ctx, id)
	if err != nil {
		return err
	}
	within := func(at time.Time) bool { return at.After(from) && at.Before(to) }
	var model, tools time.Duration
	for _, c := range rows.ModelCalls {
		if c.FinishedAt != nil && within(c.StartedAt) && within(*c.FinishedAt) {
			model += c.FinishedAt.Sub(c.StartedAt)
		}
	}
	for _, c := range rows.ToolCalls {
		if within(c.StartedAt) {
			tools += c.FinishedAt.Sub(c.StartedAt)
		}
	}
	r.took, r.model, r.tools, r.ids = append(r.took, to.Sub(from)-model), append(r.model, model), append(r.tools, tools), append(r.ids, id)
	return nil
}

// replays replays the tester phase of runs from the command line, and measures from the start of
// the command to the phase's first event.
func (h *benchStack) replays(ctx context.Context, ids []int64) (spread, error) {
	var took []time.Duration
	for _, id := range ids {
		run, err := h.store.Run(ctx, id)
		if err != nil {
			return spread{}, err
		}
		began := make(chan time.Time, 1)
		follow, cancel := context.WithCancel(ctx)
		followed := make(chan error, 1)
		go func() {
			followed <- h.feed.Follow(follow, id, run.EventSeq, func(e contract.Event) error {
				if e.Type == contract.PhaseTester.Started() {
					began <- e.CreatedAt
					return errFound
				}
				return nil
			})
		}()
		started := time.Now()
		err = h.rgpt(ctx, "run", "replay", fmt.Sprint(id), "--phase", "tester")
		if err == nil {
			if err = <-followed; errors.Is(err, errFound) {
				took = append(took, (<-began).Sub(started))
				err = h.await(ctx, id)
			}
		}
		cancel()
		if err != nil {
			return spread{}, err
		}
	}
	return spreadOf(took), nil
}

// errFound ends following events.
var errFound = errors.New("found")

// rgpt runs a command of the command line.
func (h *benchStack) rgpt(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, h.options.Programs.Starter, append(args, "--data-dir", h.stack.DataDir)...)
	cmd.Dir, cmd.Env = h.options.ConfigDir, append(os.Environ(), h.stack.Environment()...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("rgpt %v: %w: %s", args, err, out)
	}
	return nil
}

// A bare heal: an activity fails, a child workflow runs one activity, and the failed activity runs
// again.
const (
	bareHealedWorkflow = "bench.BareHealed"
	bareHealWorkflow   = "bench.BareHeal"
	bareFailing        = "bench.Fail"
)

// failing fails the first time.
func failing(_ context.Context, attempt int) error {
	if attempt == 1 {
		return temporal.NewNonRetryableApplicationError("the first attempt fails", "bench", nil)
	}
	return nil
}

func bareHealed(ctx workflow.Context) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	if err := workflow.ExecuteActivity(ctx, bareFailing, 1).Get(ctx, nil); err == nil {
		return errors.New("the first attempt did not fail")
	}
	if err := workflow.ExecuteChildWorkflow(ctx, bareHealWorkflow).Get(ctx, nil); err != nil {
		return err
	}
	return workflow.ExecuteActivity(ctx, bareFailing, 2).Get(ctx, nil)
}

func bareHeal(ctx workflow.Context) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	return workflow.ExecuteActivity(ctx, bareActivity, time.Duration(0)).Get(ctx, nil)
}

// bareHeals measures bare heals, from the failure to the start of the next attempt.
func (h *benchStack) bareHeals(ctx context.Context) (spread, error) {
	w, err := startBare(h.temporal)
	if err != nil {
		return spread{}, err
	}
	defer w.Stop()
	var took []time.Duration
	for i := range healRuns + 1 {
		id := "bare-heal-" + uuid.NewString()
		run, err := h.temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: id, TaskQueue: bareQueue}, bareHealedWorkflow)
		if err == nil {
			err = run.Get(ctx, nil)
		}
		if err != nil {
			return spread{}, err
		}
		var failed, again time.Time
		events := h.temporal.GetWorkflowHistory(ctx, id, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for events.HasNext() {
			e, err := events.Next()
			if err != nil {
				return spread{}, err
			}
			switch e.GetEventType() { //nolint:exhaustive // only two of many
			case enumspb.EVENT_TYPE_ACTIVITY_TASK_FAILED:
				failed = e.GetEventTime().AsTime()
			case enumspb.EVENT_TYPE_ACTIVITY_TASK_STARTED:
				again = e.GetEventTime().AsTime()
			}
		}
		if i > 0 {
			took = append(took, again.Sub(failed))
		}
	}
	return spreadOf(took), nil
}

func (r *healResult) print(out io.Writer) error {
	if r == nil {
		return nil
	}
	t := newTable(out, "Healing (zero model latency, excluding the model's time)", "WHAT", "N", "P50", "MAX", "AIM FOR P50")
	row := func(what string, s spread, aim string) {
		t.row(what, fmt.Sprint(s.N), ms(s.P50MS), ms(s.MaxMS), aim)
	}
	under := "< " + aimHeal.String()
	row("planner.error to planner.started, by correct_json", r.Plan, under)
	row("tester.error to tester.started, by repair: agent loop with an edit, judgement of the patch", r.Repair, under)
	row("  of which the edit in its temporary working directory", r.Tools, "")
	row("  in addition: the model's response, from its reservation to its booking", r.Model, "")
	if r.Bare.N > 0 {
		row("bare: from a failed activity to its next attempt, with a child workflow of one activity in between", r.Bare, "")
	}
	row("rgpt run replay --phase tester to tester.started", r.Replay, "< "+aimReplay.String())
	return t.Flush()
}
