package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/apiclient"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/health"
	"github.com/rocketgpt/orchestrator/internal/runs/diff"
	"github.com/rocketgpt/orchestrator/internal/runs/rerun"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/internal/webhook"
	"github.com/rocketgpt/orchestrator/internal/workerhost"
)

// house is what commands read and steer runs by: the parts of an installation
// themselves, or its HTTP API. Both do the same, and their errors have the same
// classes and codes.
type house interface {
	Close()

	ListRuns(ctx context.Context, f store.Filter) ([]store.Run, error)
	Run(ctx context.Context, id int64) (store.Run, error)
	RunDetails(ctx context.Context, id int64) (views.RunDetails, error)
	Events(ctx context.Context, id, after int64, limit int) ([]contract.Event, error)
	Follow(ctx context.Context, id, after int64, fn func(contract.Event) error) error
	Conversations(ctx context.Context, id int64, phase contract.Phase, step string) ([]control.Conversation, error)
	File(ctx context.Context, f contract.Artifact) (io.ReadCloser, error)
	Diff(ctx context.Context, left, right diff.Ref) (diff.Diff, error)
	OpenInterventions(ctx context.Context, limit int) ([]views.Intervention, error)
	Timing(ctx context.Context, id int64) (control.Timing, error)
	Rejudge(ctx context.Context, id int64, rules control.Rules) (control.Retrials, error)
	Models(ctx context.Context, check bool) (control.Models, error)
	Agents(ctx context.Context) (health.Report, error)
	// Links returns where else a run can be looked at; empty where that is not known.
	Links(ctx context.Context, id int64) (dashboard, temporal string, err error)

	Create(ctx context.Context, c control.Creation) (control.Created, error)
	Fork(ctx context.Context, o rerun.ForkOrder, model string, temperature *float64) (control.Created, error)
	Replay(ctx context.Context, o rerun.Order, model string, temperature *float64) (rerun.Result, error)
	Resume(ctx context.Context, id int64, c contract.Command) (control.Again, error)
	Heal(ctx context.Context, id int64, c contract.Command) (control.Again, error)
	Steer(ctx context.Context, id int64, name string, c contract.Command) (contract.Ack, error)
	ApproveEdited(ctx context.Context, id int64, plan contract.Plan, c contract.Command) (contract.Ack, error)
	Advance(ctx context.Context, id int64, c contract.Command) (contract.Ack, error)
	SwitchModel(ctx context.Context, id int64, model string, temperature *float64, c contract.Command) (contract.Ack, error)
	Check(ctx context.Context, id int64, m contract.CheckMessage) (contract.Ack, error)

	Webhooks(ctx context.Context) ([]store.Webhook, error)
	RegisterWebhook(ctx context.Context, r webhook.Registration) (webhook.Made, error)
	TestWebhook(ctx context.Context, id int64) (store.Delivery, error)
	Deliveries(ctx context.Context, id int64, f store.DeliveryFilter) ([]store.Delivery, error)
	RemoveWebhook(ctx context.Context, id int64) error

	environmentHouse
	pipelineHouse
}

var (
	_ house = here{}
	_ house = (*apiclient.Client)(nil)
)

// open opens the house that a command works in: the server's where one is named,
// else the parts that it needs.
func (a *app) open(ctx context.Context, needs need) (house, error) {
	if address := a.server(); address != "" {
		return apiclient.New(address, func(text string) { fmt.Fprintln(a.errs, "rgpt: warning:", clean(text)) })
	}
	p, err := a.parts(ctx, needs)
	if err != nil {
		return nil, err
	}
	return newHere(p), nil
}

// serverEnv names the server by which commands work.
const serverEnv = "RGPT_SERVER"

// server returns the address of the server by which commands work: that of the
// flag, also an empty one, else that of the environment. Empty is this machine.
func (a *app) server() string {
	if a.serverSet {
		return a.serverFlag
	}
	return a.getenv(serverEnv)
}

// onlyHere marks a command, and those below it, as one of this machine.
const onlyHere = "only here"

// local marks commands that work on this machine alone.
func local(cmds ...*cobra.Command) []*cobra.Command {
	for _, c := range cmds {
		if c.Annotations == nil {
			c.Annotations = map[string]string{}
		}
		c.Annotations[onlyHere] = "true"
	}
	return cmds
}

// refuseServer refuses --server where it means nothing. The variable is not
// refused: it is there for the other commands.
func (a *app) refuseServer(cmd *cobra.Command) error {
	a.serverSet = cmd.Flags().Changed("server")
	if !a.serverSet || a.serverFlag == "" {
		return nil
	}
	for c := cmd; c != nil; c = c.Parent() {
		if c.Annotations[onlyHere] != "" {
			return usageError{fmt.Errorf("%s works on this machine only and not through a server; leave --server out", cmd.CommandPath())}
		}
	}
	return nil
}

// here is the house whose parts can be reached from this machine.
type here struct {
	*control.Runs
	parts *parts
}

func newHere(p *parts) here {
	return here{&control.Runs{Store: p.Store, Views: views.New(p.Store), Feed: p.Feed, Temporal: p.Temporal, Artifacts: p.Artifacts, Config: p.Config, DataDir: p.DataDir}, p}
}

func (h here) Close() { h.parts.Close() }

func (h here) ListRuns(ctx context.Context, f store.Filter) ([]store.Run, error) {
	return h.Store.ListRuns(ctx, f)
}

func (h here) Run(ctx context.Context, id int64) (store.Run, error) { return h.Store.Run(ctx, id) }

func (h here) RunDetails(ctx context.Context, id int64) (views.RunDetails, error) {
	return h.Views.RunDetails(ctx, id)
}

func (h here) Events(ctx context.Context, id, after int64, limit int) ([]contract.Event, error) {
	return h.Store.Events(ctx, id, after, limit)
}

func (h here) Follow(ctx context.Context, id, after int64, fn func(contract.Event) error) error {
	return h.Feed.Follow(ctx, id, after, fn)
}

func (h here) OpenInterventions(ctx context.Context, limit int) ([]views.Intervention, error) {
	return h.Views.OpenInterventions(ctx, limit)
}

// Timing connects to Temporal, without which it still answers.
// Agents looks anew each time.
func (h here) Agents(ctx context.Context) (health.Report, error) {
	return health.New(h.Views, h.Temporal, h.Config.Temporal.Namespace, agentsEvery/2, quiet()).Report(ctx)
}

func (h here) Timing(ctx context.Context, id int64) (control.Timing, error) {
	if _, err := h.Store.Run(ctx, id); err != nil {
		return control.Timing{}, err
	}
	limited, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	c, unreachable := workerhost.Connect(limited, h.Config.Temporal, quiet())
	runs := *h.Runs
	if unreachable == nil {
		defer c.Close()
		runs.Temporal = c
	}
	t, err := runs.Timing(ctx, id)
	if unreachable != nil {
		t.Unknown = unreachable
	}
	return t, err
}

func (h here) Models(ctx context.Context, check bool) (control.Models, error) {
	return h.Runs.Models(ctx, check), nil
}

func (h here) Links(ctx context.Context, id int64) (dashboard, temporal string, err error) {
	if h.parts.Stack == nil {
		return "", "", nil
	}
	run, err := h.Store.Run(ctx, id)
	return fmt.Sprintf("%s/runs/%d", h.parts.Stack.Server, id), h.parts.Stack.WorkflowURL(run.WorkflowID, run.WorkflowRunID), err
}

func (h here) Fork(ctx context.Context, o rerun.ForkOrder, model string, temperature *float64) (control.Created, error) {
	run, err := h.Store.Run(ctx, o.RunID)
	if err != nil {
		return control.Created{}, err
	}
	if o.Model, err = h.ModelFor(run, contract.AgentBuilder, model, temperature); err != nil {
		return control.Created{}, err
	}
	return h.Runs.Fork(ctx, o)
}

func (h here) Replay(ctx context.Context, o rerun.Order, model string, temperature *float64) (rerun.Result, error) {
	run, err := h.Store.Run(ctx, o.RunID)
	if err != nil {
		return rerun.Result{}, err
	}
	if o.Model, err = h.ModelFor(run, contract.AgentOf(o.Phase), model, temperature); err != nil {
		return rerun.Result{}, err
	}
	return h.Runs.Replay(ctx, o)
}

func (h here) hooks() *webhook.Hooks {
	return webhook.New(h.Store, h.Feed, h.Config.Server.Webhooks, quiet())
}

func (h here) Webhooks(ctx context.Context) ([]store.Webhook, error) { return h.Store.Webhooks(ctx) }

func (h here) RegisterWebhook(ctx context.Context, r webhook.Registration) (webhook.Made, error) {
	return h.hooks().Register(ctx, r)
}

func (h here) TestWebhook(ctx context.Context, id int64) (store.Delivery, error) {
	return h.hooks().Test(ctx, id, "")
}

func (h here) Deliveries(ctx context.Context, id int64, f store.DeliveryFilter) ([]store.Delivery, error) {
	return h.Store.Deliveries(ctx, id, f)
}

func (h here) RemoveWebhook(ctx context.Context, id int64) error {
	return h.Store.DeleteWebhook(ctx, id)
}

// checkRemote refuses what a server would take for something of its own: a folder
// is one of its host, and no place relative to here.
func checkRemote(repo string) error {
	if strings.HasPrefix(repo, "/") || strings.Contains(repo, ":") {
		return nil
	}
	return usageError{fmt.Errorf("--repo %s: with --server a folder is one of the server's host; give its absolute path there, or a URL", repo)}
}
