package backend

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/devstack"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/health"
	"github.com/rocketgpt/orchestrator/internal/notify"
	"github.com/rocketgpt/orchestrator/internal/retention"
	"github.com/rocketgpt/orchestrator/internal/runs/rerun"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/feed"
	"github.com/rocketgpt/orchestrator/internal/store/messages"
	"github.com/rocketgpt/orchestrator/internal/store/notifications"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/internal/temporal"
	"github.com/rocketgpt/orchestrator/internal/webhook"
)

const (
	// DatabaseTimeout is how long an interactive command waits for the database.
	DatabaseTimeout = 3 * time.Second
	// TemporalTimeout is how long an interactive command waits for Temporal.
	TemporalTimeout = 10 * time.Second
	// agentsTTL is how long a report on agents is considered current.
	agentsTTL = time.Second
)

// Needs is the set of parts that a command needs besides configuration and database.
type Needs int

// The parts that only some commands need.
const (
	NeedTemporal Needs = 1 << iota
	NeedArtifacts
)

// Local is the backend for an installation that this machine can reach directly.
type Local struct {
	*control.Runs
	Stack *devstack.Stack // nil if the parts run elsewhere
}

// OpenLocal opens the database and the parts that a command needs.
func OpenLocal(ctx context.Context, cfg *config.Config, dataDir string, stack *devstack.Stack, needs Needs) (_ Backend, err error) {
	if cfg.Database.URL == "" {
		if _, err = devstack.Load(dataDir); err == nil { // otherwise, its error explains what to do
			err = fault.New(contract.ClassConfig, contract.CodeInvalidConfig, "the stack in %s has never been started; start it with `rgpt dev`", dataDir)
		}
		return nil, err
	}
	l := &Local{&control.Runs{Config: cfg, DataDir: dataDir}, stack}
	defer func() {
		if err != nil {
			l.Close()
		}
	}()
	if l.Store, err = store.Open(ctx, cfg.Database.URL, store.Options{MaxConns: 4, ConnectTimeout: DatabaseTimeout}); err != nil {
		return nil, err
	}
	l.Views, l.Feed = views.New(l.Store), feed.New(l.Store, feed.Options{})
	if needs&NeedTemporal != 0 {
		if l.Temporal, err = temporal.Connect(ctx, cfg.Temporal, slog.New(slog.DiscardHandler)); err != nil {
			return nil, err
		}
	}
	if needs&NeedArtifacts != 0 {
		if l.Artifacts, err = setup.Artifacts(ctx, cfg, dataDir); err != nil {
			return nil, err
		}
		retention.Exclude(l.Artifacts, l.Store)
	}
	return l, nil
}

// Close closes the parts.
func (l Local) Close() {
	l.Runs.Close()
	if l.Temporal != nil {
		l.Temporal.Close()
	}
	if l.Artifacts != nil {
		_ = l.Artifacts.Close()
	}
	if l.Store != nil {
		l.Feed.Close()
		l.Store.Close()
	}
}

// ListRuns returns the runs that match a filter.
func (l Local) ListRuns(ctx context.Context, f store.Filter) ([]store.Run, error) {
	return l.Store.ListRuns(ctx, f)
}

// Run returns a run.
func (l Local) Run(ctx context.Context, id int64) (store.Run, error) { return l.Store.Run(ctx, id) }

// RunDetails returns the details of a run.
func (l Local) RunDetails(ctx context.Context, id int64) (views.RunDetails, error) {
	return l.Views.RunDetails(ctx, id)
}

// Events returns events of a run after a sequence number.
func (l Local) Events(ctx context.Context, id, after int64, limit int) ([]contract.Event, error) {
	return l.Store.Events(ctx, id, after, limit)
}

// Messages returns the messages of people to the agents of a run.
func (l Local) Messages(ctx context.Context, id int64) ([]messages.Message, error) {
	return messages.Of(ctx, l.Store, id)
}

// ModelCalls returns model calls of a run after an id.
func (l Local) ModelCalls(ctx context.Context, id, after int64, limit int) ([]views.ModelCall, error) {
	return l.Views.ModelCalls(ctx, id, after, limit)
}

// Follow calls fn with each event of a run after a sequence number.
func (l Local) Follow(ctx context.Context, id, after int64, fn func(contract.Event) error) error {
	return l.Feed.Follow(ctx, id, after, fn)
}

// FollowTexts calls fn with what models write in a run.
func (l Local) FollowTexts(ctx context.Context, id int64, fn func(store.LiveText) error) error {
	return l.Feed.FollowTexts(ctx, id, fn)
}

// OpenInterventions returns the questions that wait for a person, oldest first.
func (l Local) OpenInterventions(ctx context.Context, limit int) ([]views.Intervention, error) {
	return l.Views.OpenInterventions(ctx, limit)
}

// Agents reads the current state on each call.
func (l Local) Agents(ctx context.Context) (health.Report, error) {
	return health.New(l.Views, l.Temporal, l.Config.Temporal.Namespace, agentsTTL, slog.New(slog.DiscardHandler)).Report(ctx)
}

// Timing connects to Temporal, but also works without it.
func (l Local) Timing(ctx context.Context, id int64) (control.Timing, error) {
	if _, err := l.Store.Run(ctx, id); err != nil {
		return control.Timing{}, err
	}
	limited, cancel := context.WithTimeout(ctx, TemporalTimeout)
	defer cancel()
	c, unreachable := temporal.Connect(limited, l.Config.Temporal, slog.New(slog.DiscardHandler))
	runs := l.Runs
	if unreachable == nil {
		defer c.Close()
		runs = runs.WithTemporal(c)
	}
	t, err := runs.Timing(ctx, id)
	if unreachable != nil {
		t.Unknown = unreachable
	}
	return t, err
}

// Models returns the configured models and, if check is set, whether they respond.
func (l Local) Models(ctx context.Context, check bool) (control.Models, error) {
	return l.Runs.Models(ctx, check), nil
}

// Links returns the pages of a run in the dashboard and in Temporal.
func (l Local) Links(ctx context.Context, id int64) (dashboard, temporal string, err error) {
	if l.Stack == nil {
		return "", "", nil
	}
	run, err := l.Store.Run(ctx, id)
	return fmt.Sprintf("%s/runs/%d", l.Stack.Server, id), l.Stack.WorkflowURL(run.WorkflowID, run.WorkflowRunID), err
}

// Fork starts a new run from a step of an old one.
func (l Local) Fork(ctx context.Context, o rerun.ForkRequest, m control.ModelOverride) (control.Created, error) {
	run, err := l.Store.Run(ctx, o.RunID)
	if err != nil {
		return control.Created{}, err
	}
	if o.Model, err = l.ModelFor(ctx, run, contract.AgentBuilder, m); err != nil {
		return control.Created{}, err
	}
	return l.Runs.Fork(ctx, o)
}

// Replay repeats a run from the given phase on.
func (l Local) Replay(ctx context.Context, o rerun.Request, m control.ModelOverride) (rerun.Result, error) {
	run, err := l.Store.Run(ctx, o.RunID)
	if err != nil {
		return rerun.Result{}, err
	}
	if o.Model, err = l.ModelFor(ctx, run, contract.AgentOf(o.Phase), m); err != nil {
		return rerun.Result{}, err
	}
	return l.Runs.Replay(ctx, o)
}

func (l Local) hooks() *webhook.Hooks {
	return webhook.New(l.Store, l.Feed, l.Config.Server.Webhooks, slog.New(slog.DiscardHandler))
}

// Webhooks returns the registered webhooks.
func (l Local) Webhooks(ctx context.Context) ([]store.Webhook, error) { return l.Store.Webhooks(ctx) }

// RegisterWebhook adds a webhook.
func (l Local) RegisterWebhook(ctx context.Context, r webhook.Registration) (webhook.Created, error) {
	return l.hooks().Register(ctx, r)
}

// TestWebhook sends a test event to a webhook.
func (l Local) TestWebhook(ctx context.Context, id int64) (store.Delivery, error) {
	return l.hooks().Test(ctx, id, "")
}

// Deliveries returns the deliveries of a webhook.
func (l Local) Deliveries(ctx context.Context, id int64, f store.DeliveryFilter) ([]store.Delivery, error) {
	return l.Store.Deliveries(ctx, id, f)
}

// RemoveWebhook deletes a webhook.
func (l Local) RemoveWebhook(ctx context.Context, id int64, by string) error {
	return l.Store.DeleteWebhook(ctx, id, by)
}

// Notifications returns of what people were notified or are to be, newest first.
func (l Local) Notifications(ctx context.Context, f notifications.Filter) ([]notifications.Notification, error) {
	return notifications.Find(ctx, l.Store, f)
}

// TestNotification sends a test message on a channel and returns the result.
func (l Local) TestNotification(ctx context.Context, channel string) (notify.Tested, error) {
	n := l.notifier()
	defer n.Close()
	return n.Test(ctx, channel)
}

// notifier returns the notifier of the configuration.
func (l Local) notifier() *notify.Notifier {
	return notify.New(notify.Options{Store: l.Store, Channels: l.Config.Notifications, Webhooks: l.Config.Server.Webhooks, Dashboard: l.Config.Server.URL, Getenv: os.Getenv})
}

// ResendNotification sends a notification that failed or was dropped again.
func (l Local) ResendNotification(ctx context.Context, id int64, by string) (notifications.Notification, error) {
	return l.notifier().Resend(ctx, id, by)
}

// Browsers returns the browsers that are notified, oldest first.
func (l Local) Browsers(ctx context.Context) ([]notifications.Browser, error) {
	return notifications.Browsers(ctx, l.Store)
}

// RemoveBrowser ends the notification of a browser.
func (l Local) RemoveBrowser(ctx context.Context, id, by string) error {
	return l.notifier().Unsubscribe(ctx, id, by)
}

// Spawn starts a pipeline.
func (l Local) Spawn(ctx context.Context, s control.Spawning) (control.Spawned, error) {
	return l.Pipelines().Spawn(ctx, s)
}

// ListPipelines returns the pipelines that match a filter.
func (l Local) ListPipelines(ctx context.Context, f store.PipelineFilter) ([]store.Pipeline, error) {
	return l.Store.ListPipelines(ctx, f)
}

// Pipeline returns a pipeline.
func (l Local) Pipeline(ctx context.Context, id int64) (store.Pipeline, error) {
	return l.Store.Pipeline(ctx, id)
}

// Orchestration returns the state of a pipeline.
func (l Local) Orchestration(ctx context.Context, id int64, every bool) (control.Orchestration, error) {
	return l.Pipelines().Orchestration(ctx, id, every)
}

// PipelineLogs returns messages of a pipeline.
func (l Local) PipelineLogs(ctx context.Context, id, after int64, limit int) ([]control.PipelineLog, error) {
	return l.Pipelines().Logs(ctx, id, after, limit)
}

// FollowPipeline calls fn with each event of a pipeline.
func (l Local) FollowPipeline(ctx context.Context, id, after int64, fn func(contract.Event) error) error {
	return l.Pipelines().Follow(ctx, id, after, fn)
}

// ContinuePipeline continues a pipeline that has ended.
func (l Local) ContinuePipeline(ctx context.Context, id int64, n control.Continuation) (contract.PipelineAck, error) {
	return l.Pipelines().Continue(ctx, id, n)
}

// StopPipeline stops a pipeline.
func (l Local) StopPipeline(ctx context.Context, id int64, c contract.PipelineCommand) (contract.PipelineAck, error) {
	return l.Pipelines().Stop(ctx, id, c)
}

// RevokeMember removes a member from a pipeline.
func (l Local) RevokeMember(ctx context.Context, id int64, m contract.Member, c contract.PipelineCommand) (contract.PipelineAck, error) {
	return l.Pipelines().Revoke(ctx, id, m, c)
}

// SwitchPipelineModel switches the model of a pipeline member.
func (l Local) SwitchPipelineModel(ctx context.Context, id int64, m contract.Member, model string, temperature *float64, effort contract.Effort, c contract.PipelineCommand) (contract.PipelineAck, error) {
	return l.Pipelines().SwitchModel(ctx, id, m, model, temperature, effort, c)
}
