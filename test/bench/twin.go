package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/devstack"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/modelclient"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/tester"
	"github.com/rocketgpt/orchestrator/internal/tester/standalone"
	"github.com/rocketgpt/orchestrator/internal/tool"
	"github.com/rocketgpt/orchestrator/internal/verify/checks"
	"github.com/rocketgpt/orchestrator/internal/workspace"
)

// twin does the work of a run as a script would, in this process: the same model calls, tools, git
// operations, sandboxed tests and branch, with the product's own packages and settings, but without
// Temporal, database, events, artifacts and policy gate. It keeps its state in memory and loses it in a
// crash. How much longer a run takes is the price of durability.
type twin struct {
	host    *tester.Host
	models  *modelclient.Client
	choice  contract.ModelChoice
	tools   *tool.Set
	offered []model.Tool
	checks  checks.Settings
	start   contract.Workspace
	repo    contract.Repo
	runs    atomic.Int64
}

// newTwin prepares a twin of the stack's runs. Its caches are its own.
func (h *benchStack) newTwin(ctx context.Context) (*twin, error) {
	dir, cfg := filepath.Join(h.dir, "twin"), h.config
	settings := h.newRun.Settings
	t := &twin{choice: settings.Models[contract.AgentBuilder], checks: h.checks, repo: settings.Repo}
	workspaces, err := setup.Workspaces(cfg, dir, standalone.NewMemory(), setup.KeepSpares(cfg))
	if err != nil {
		return nil, err
	}
	if t.start, err = workspaces.Start(ctx, t.repo); err != nil {
		return nil, err
	}
	if t.models, err = modelclient.New(setup.Providers(cfg), setup.Catalogue(cfg), modelclient.Options{}); err != nil {
		return nil, err
	}
	if t.tools, err = tool.Builtin().Set(tool.CreateFile, tool.EditFile, tool.Finish); err != nil {
		return nil, err
	}
	for _, d := range t.tools.Definitions() {
		t.offered = append(t.offered, model.Tool{Name: d.Name, Description: d.Description, Parameters: d.Parameters})
	}
	log := slog.New(slog.DiscardHandler)
	// The program that starts sandboxes is not next to this one, but next to the stack's.
	runner, err := sandbox.NewProcess(sandbox.Options{
		AllowUnisolated: cfg.Execution.Sandbox.AllowUnisolated, Toolchains: sandbox.DetectToolchains(),
		Executable: filepath.Join(filepath.Dir(h.options.Programs.Worker), "rgpt-sandbox"), DataDir: dir,
	})
	if err != nil {
		return nil, err
	}
	t.host = &tester.Host{Config: cfg, Workspaces: workspaces, Sandbox: runner, DataDir: dir, Log: log, Facts: &sync.Map{}}
	return t, nil
}

// twinRun is one run of a twin.
type twinRun struct {
	*twin
	id      int64
	goal    string
	key     string // of its working directories
	mu      sync.Mutex
	changes map[string]contract.Change
}

// run plans, builds, tests and releases, like a run of the product.
func (t *twin) run(ctx context.Context, latency time.Duration) error {
	r := &twinRun{twin: t, id: -t.runs.Add(1), goal: goal(latency), changes: map[string]contract.Change{}}
	r.key = fmt.Sprintf("twin-%d", -r.id)
	plan, err := r.plan(ctx)
	if err != nil {
		return err
	}
	if err := r.build(ctx, plan); err != nil {
		return err
	}
	var changes []contract.Change
	for _, s := range plan.Steps {
		changes = append(changes, r.changes[s.ID])
	}
	final, stages, conflict, err := t.host.Workspaces.Fold(ctx, t.start, changes)
	if err == nil && conflict != nil {
		err = fmt.Errorf("the step %s conflicts", conflict.Step)
	}
	if err != nil {
		return err
	}
	if err := r.test(ctx, final); err != nil {
		return err
	}
	if err := r.release(ctx, plan, stages); err != nil {
		return err
	}
	_, err = setup.BuildCaches(t.host.DataDir).RemoveRun(r.id)
	return errors.Join(err, t.host.Workspaces.CleanUp(ctx, r.key))
}

// twinTries limits how often the twin makes a model call whose connection breaks. The product tries more often.
const twinTries = 3

// ask makes one model call.
func (r *twinRun) ask(ctx context.Context, q model.Request, id model.Identity) (model.Response, error) {
	id.Run = r.id
	for id.Attempt = 1; ; id.Attempt++ {
		q.Choice, q.Headers = r.choice, id
		answer, err := r.models.Complete(ctx, q)
		if err == nil || id.Attempt == twinTries || fault.Of(err).Code != contract.CodeUnavailable {
			return answer, err
		}
	}
}

func (r *twinRun) plan(ctx context.Context) (contract.Plan, error) {
	var plan contract.Plan
	files, err := r.host.Workspaces.Files(ctx, r.start)
	if err != nil {
		return plan, err
	}
	answer, err := r.ask(ctx, model.Request{Messages: []model.Message{
		{Role: model.RoleSystem, Text: "Plan the change as JSON."},
		{Role: model.RoleUser, Text: r.goal + "\n\nFiles:\n" + strings.Join(files, "\n")},
	}}, model.Identity{Agent: string(contract.AgentPlanner), Phase: string(contract.PhasePlanner.Running()), Turn: 1})
	if err != nil {
		return plan, err
	}
	return plan, json.Unmarshal([]byte(answer.Text), &plan)
}

// build carries out the steps, each as soon as those that it depends on are done.
func (r *twinRun) build(ctx context.Context, plan contract.Plan) error {
	done := map[string]chan struct{}{}
	for _, s := range plan.Steps {
		done[s.ID] = make(chan struct{})
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, s := range plan.Steps {
		group.Go(func() error {
			for _, id := range s.Dependencies {
				select {
				case <-done[id]:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			if err := r.step(ctx, s); err != nil {
				return fmt.Errorf("step %s: %w", s.ID, err)
			}
			close(done[s.ID])
			return nil
		})
	}
	return group.Wait()
}

// step lets the model work on a step until it calls finish.
func (r *twinRun) step(ctx context.Context, s contract.Step) error {
	r.mu.Lock()
	var needs []contract.Change
	for _, id := range stepIDs() { // in the plan's order, with what the dependencies depend on
		if dependsOn(s.ID, id) {
			needs = append(needs, r.changes[id])
		}
	}
	r.mu.Unlock()
	from, _, conflict, err := r.host.Workspaces.Fold(ctx, r.start, needs)
	if err == nil && conflict != nil {
		err = errors.New("its dependencies conflict")
	}
	if err != nil {
		return err
	}
	conversation := []model.Message{
		{Role: model.RoleSystem, Text: "Carry out the step with the tools, then call finish."},
		{Role: model.RoleUser, Text: r.goal + "\n\n" + s.Name + "\n" + s.Description},
	}
	ws := from
	for turn := 1; ; turn++ {
		answer, err := r.ask(ctx, model.Request{Messages: conversation, Tools: r.offered},
			model.Identity{Agent: string(contract.AgentBuilder), Phase: string(contract.PhaseBuilder.Running()), Step: s.ID, Turn: turn})
		if err != nil {
			return err
		}
		conversation = append(conversation, model.Message{Role: model.RoleAssistant, Text: answer.Text, ToolCalls: answer.ToolCalls})
		if len(answer.ToolCalls) == 0 {
			return errors.New("the model called no tool")
		}
		for _, call := range answer.ToolCalls {
			text, err := r.callTool(ctx, &ws, s.ID, call)
			if err != nil {
				return err
			}
			if call.Name == tool.Finish {
				r.mu.Lock()
				defer r.mu.Unlock()
				r.changes[s.ID] = contract.Change{Step: s.ID, From: from, To: ws}
				return nil
			}
			conversation = append(conversation, model.Message{Role: model.RoleTool, ToolCallID: call.ID, Text: text})
		}
	}
}

// dependsOn reports whether a step needs another one, directly or through others.
func dependsOn(step, other string) bool {
	for _, id := range needs[step] {
		if id == other || dependsOn(id, other) {
			return true
		}
	}
	return false
}

// callTool carries out a call in the step's own directory and saves what it changed.
func (r *twinRun) callTool(ctx context.Context, ws *contract.Workspace, step string, call model.ToolCall) (string, error) {
	def, _ := r.tools.Definition(call.Name)
	open := r.host.Workspaces.OpenFiles
	if def.ReadOnly {
		open = r.host.Workspaces.View
	}
	dir, err := open(ctx, *ws, r.key+"/"+step)
	if err != nil {
		return "", err
	}
	defer dir.Close()
	result, err := r.tools.Call(ctx, tool.Env{Root: dir.Path(), Runner: r.host.Sandbox}, call.Name, json.RawMessage(call.Arguments))
	if err == nil && !result.OK {
		err = errors.New(result.Text)
	}
	if err != nil || !result.Changed {
		return result.Text, err
	}
	*ws, err = dir.SaveFile(ctx, result.Path)
	return result.Text, err
}

// test runs the checks of the changed repository.
func (r *twinRun) test(ctx context.Context, ws contract.Workspace) error {
	view, err := r.host.Workspaces.OpenShared(ctx, ws)
	if err != nil {
		return err
	}
	pipeline, err := checks.Plan(view.Path(), r.checks)
	view.Close()
	if err != nil {
		return err
	}
	for _, stage := range pipeline.Stages {
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(r.host.Config.Worker.MaxConcurrentActivities)
		for _, c := range stage {
			group.Go(func() error { return r.check(ctx, ws, c) })
		}
		if err := group.Wait(); err != nil {
			return err
		}
	}
	return nil
}

func (r *twinRun) check(ctx context.Context, ws contract.Workspace, c contract.Check) error {
	_, result, err := r.host.Check(ctx, tester.Task{
		Check: c, Workspace: ws, Settings: r.checks, Timeout: time.Minute,
		Key: r.key + "/tests", BaseKey: r.key + "/compiled", Who: r.key, Run: r.id, Layer: c.ID,
		Environment: func(context.Context, contract.Workspace, string) (*tester.CommandEnv, error) {
			return &tester.CommandEnv{OfBase: true}, nil
		},
		Follow: func() (func([]byte), func()) { return func([]byte) {}, func() {} },
		Keep:   func(context.Context, tester.Files) error { return nil },
	})
	if err == nil && !result.OK {
		err = fmt.Errorf("the check %s failed: %s", c.ID, result.Message)
	}
	return err
}

// release creates the branch, with one commit for each step.
func (r *twinRun) release(ctx context.Context, plan contract.Plan, stages []contract.Workspace) error {
	messages := make([]workspace.CommitMessage, len(stages))
	for i := range stages {
		messages[i] = workspace.CommitMessage{
			Subject: plan.Steps[i].Name, Body: plan.Steps[i].Description, Date: time.Now(), AuthorName: "Twin", AuthorEmail: "twin@localhost",
		}
	}
	commit, err := r.host.Workspaces.Commits(ctx, r.repo, stages, messages)
	if err != nil {
		return err
	}
	return r.host.Workspaces.Publish(ctx, r.repo, commit, r.key, workspace.PublishOptions{})
}

// twinResult compares runs of the product with those of its twin, with medians of all rounds.
type twinResult struct {
	Latency    time.Duration `json:"latency_ns"`
	Runs       int           `json:"runs"` // at once
	ProductMS  int64         `json:"product_wall_ms"`
	TwinMS     int64         `json:"twin_wall_ms"`
	Ratio      float64       `json:"ratio"`
	ProductCPU float64       `json:"product_cpu_ms"` // of a run, without the scripted model
	TwinCPU    float64       `json:"twin_cpu_ms"`    // of a run
}

// twinRounds is how often product and twin are measured, in turns.
const twinRounds = 3

// measureTwin compares one run, and many at once, for each latency.
func measureTwin(ctx context.Context, h *benchStack, o options, say func(string, ...any)) ([]twinResult, error) {
	t, err := h.newTwin(ctx)
	if err != nil {
		return nil, err
	}
	say("Warming up")
	if _, err := h.product(ctx, o.latency[0], 1, false); err != nil {
		return nil, err
	}
	if err := t.run(ctx, o.latency[0]); err != nil {
		return nil, err
	}
	var all []twinResult
	for _, l := range o.latency {
		for _, n := range []int{1, o.parallel} {
			if n == 0 {
				continue
			}
			say("%d at once, product and twin, latency %s", n, l)
			result, err := h.compare(ctx, t, l, n)
			if err != nil {
				return all, err
			}
			all = append(all, result)
		}
	}
	return all, nil
}

// compare measures n runs at once of the product and of the twin, in turns. The wall time is that until all
// have ended.
func (h *benchStack) compare(ctx context.Context, t *twin, latency time.Duration, n int) (twinResult, error) {
	var product, own []cpuLoad
	for range twinRounds {
		r, err := h.product(ctx, latency, n, true)
		if err != nil {
			return twinResult{}, err
		}
		product = append(product, r.Load)
		if r, err = h.measure(ctx, n, true, func(ctx context.Context, _ int) error { return t.run(ctx, latency) }); err != nil {
			return twinResult{}, fmt.Errorf("twin: %w", err)
		}
		own = append(own, r.Load)
	}
	wall := func(l cpuLoad) int64 { return int64(1000 * l.Seconds) }
	each := func(seconds float64) float64 { return 1000 * seconds / float64(n) }
	result := twinResult{
		Latency: latency, Runs: n, ProductMS: median(product, wall), TwinMS: median(own, wall),
		ProductCPU: median(product, func(l cpuLoad) float64 { return each(l.withoutModel()) }),
		TwinCPU:    median(own, func(l cpuLoad) float64 { return each(l.Bench) }),
	}
	result.Ratio = float64(result.ProductMS) / float64(max(result.TwinMS, 1))
	return result, nil
}

// withoutModel returns the CPU seconds of the stack without the scripted model, which no installation has.
func (l cpuLoad) withoutModel() float64 {
	total := l.Total
	for _, p := range l.Processes {
		if p.Role == string(devstack.RoleModel) {
			total -= p.CPU + p.Children
		}
	}
	return total
}

// printTwin prints the price of durability.
func (r results) printTwin(out io.Writer) error {
	if len(r.Twin) == 0 {
		return nil
	}
	t := newTable(out, fmt.Sprintf("The price of durability: runs compared with the same work in one process without Temporal and database (medians of %d rounds)", twinRounds),
		"LATENCY", "AT ONCE", "RUN", "TWIN", "RATIO", "CPU OF A RUN", "CPU OF A TWIN")
	for _, p := range r.Twin {
		t.row(p.Latency.String(), fmt.Sprint(p.Runs), ms(p.ProductMS), ms(p.TwinMS), ratio(p.Ratio),
			fmt.Sprintf("%.0f ms", p.ProductCPU), fmt.Sprintf("%.0f ms", p.TwinCPU))
	}
	return t.Flush()
}
