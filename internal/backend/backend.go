// Package backend provides the commands of rgpt with access to an installation: directly (Local),
// or through its HTTP API (apiclient.Client). Both behave the same, and their errors have the same
// classes and codes.
package backend

import (
	"context"
	"io"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/apiclient"
	"github.com/rocketgpt/orchestrator/internal/brain"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/eval/report"
	"github.com/rocketgpt/orchestrator/internal/gate/explain"
	"github.com/rocketgpt/orchestrator/internal/health"
	"github.com/rocketgpt/orchestrator/internal/ledger"
	"github.com/rocketgpt/orchestrator/internal/notify"
	"github.com/rocketgpt/orchestrator/internal/retention"
	"github.com/rocketgpt/orchestrator/internal/runs/diff"
	"github.com/rocketgpt/orchestrator/internal/runs/rerun"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/attempts"
	"github.com/rocketgpt/orchestrator/internal/store/chain"
	"github.com/rocketgpt/orchestrator/internal/store/changesets"
	"github.com/rocketgpt/orchestrator/internal/store/evals"
	"github.com/rocketgpt/orchestrator/internal/store/flaky"
	"github.com/rocketgpt/orchestrator/internal/store/mergequeues"
	"github.com/rocketgpt/orchestrator/internal/store/messages"
	"github.com/rocketgpt/orchestrator/internal/store/modelchoices"
	"github.com/rocketgpt/orchestrator/internal/store/notifications"
	"github.com/rocketgpt/orchestrator/internal/store/retain"
	"github.com/rocketgpt/orchestrator/internal/store/triggers"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/internal/webhook"
)

// Backend reads and controls runs and pipelines.
type Backend interface {
	Close()

	ListRuns(ctx context.Context, f store.Filter) ([]store.Run, error)
	Run(ctx context.Context, id int64) (store.Run, error)
	RunDetails(ctx context.Context, id int64) (views.RunDetails, error)
	Events(ctx context.Context, id, after int64, limit int) ([]contract.Event, error)
	Follow(ctx context.Context, id, after int64, fn func(contract.Event) error) error
	FollowTexts(ctx context.Context, id int64, fn func(store.LiveText) error) error
	ModelCalls(ctx context.Context, id, after int64, limit int) ([]views.ModelCall, error)
	Messages(ctx context.Context, id int64) ([]messages.Message, error)
	Conversations(ctx context.Context, id int64, phase contract.Phase, step string) ([]control.Conversation, error)
	File(ctx context.Context, f contract.Artifact) (io.ReadCloser, error)
	Diff(ctx context.Context, left, right diff.Ref) (diff.Diff, error)
	OpenInterventions(ctx context.Context, limit int) ([]views.Intervention, error)
	Timing(ctx context.Context, id int64) (control.Timing, error)
	Rejudge(ctx context.Context, id int64, rules control.Rules) (control.Retrials, error)
	ExplainGate(ctx context.Context, id, verdict int64) ([]explain.Explanation, error)
	Ledger(ctx context.Context, f chain.Filter) ([]ledger.Entry, error)
	PullRequests(ctx context.Context, f control.PullRequestFilter) (control.PullRequestPage, error)
	MergeQueues(ctx context.Context, f mergequeues.Filter) ([]mergequeues.MergeQueue, error)
	ChangeSets(ctx context.Context, before int64, most int) (changesets.Page, error)
	ChangeSet(ctx context.Context, id int64) (changesets.Set, error)
	StopChangeSet(ctx context.Context, id int64, c contract.Command) (changesets.Set, error)
	ReleaseChangeSet(ctx context.Context, id int64, c contract.Command) (changesets.Set, error)
	CommandQueue(ctx context.Context, q control.QueueRequest) (contract.QueueAck, error)
	Models(ctx context.Context, check bool) (control.Models, error)
	AgentModels(ctx context.Context) ([]control.AgentModel, error)
	SetAgentModel(ctx context.Context, agent contract.Agent, n control.NewModelChoice) (control.AgentModel, error)
	UnsetAgentModel(ctx context.Context, agent contract.Agent, seen *int64, by string) (control.AgentModel, error)
	ModelChanges(ctx context.Context, agent contract.Agent, limit int) ([]modelchoices.Change, error)
	Agents(ctx context.Context) (health.Report, error)
	// Links returns the URLs of a run in the dashboard and in Temporal; empty if unknown.
	Links(ctx context.Context, id int64) (dashboard, temporal string, err error)

	Create(ctx context.Context, c control.Creation) (control.Created, error)
	// Estimate returns what a request will probably cost and take, and creates nothing.
	Estimate(ctx context.Context, c control.Creation) (control.Estimate, error)
	AttemptsOf(ctx context.Context, id int64) (attempts.Group, error)
	SteerAttempts(ctx context.Context, id int64, name string, c contract.Command) (attempts.Group, error)
	Fork(ctx context.Context, o rerun.ForkRequest, m control.ModelOverride) (control.Created, error)
	Replay(ctx context.Context, o rerun.Request, m control.ModelOverride) (rerun.Result, error)
	Resume(ctx context.Context, id int64, c contract.Command) (control.Resumption, error)
	FollowUp(ctx context.Context, f control.FollowUp) (control.Created, error)
	Heal(ctx context.Context, id int64, c contract.Command) (control.Resumption, error)
	Steer(ctx context.Context, id int64, name string, c contract.Command) (contract.Ack, error)
	ApproveEdited(ctx context.Context, id int64, plan contract.Plan, c contract.Command) (contract.Ack, error)
	Advance(ctx context.Context, id int64, c contract.Command) (contract.Ack, error)
	SwitchModel(ctx context.Context, id int64, model string, temperature *float64, effort contract.Effort, c contract.Command) (contract.Ack, error)
	Label(ctx context.Context, id int64, c store.LabelChange) (control.Labelled, error)
	Tell(ctx context.Context, id int64, c contract.Command) (contract.Ack, error)
	Check(ctx context.Context, id int64, m contract.CheckMessage) (contract.Ack, error)

	Webhooks(ctx context.Context) ([]store.Webhook, error)
	RegisterWebhook(ctx context.Context, r webhook.Registration) (webhook.Created, error)
	TestWebhook(ctx context.Context, id int64) (store.Delivery, error)
	Deliveries(ctx context.Context, id int64, f store.DeliveryFilter) ([]store.Delivery, error)
	RemoveWebhook(ctx context.Context, id int64, by string) error

	// Notifications returns of what people were notified or are to be, newest first.
	Notifications(ctx context.Context, f notifications.Filter) ([]notifications.Notification, error)
	// TestNotification sends a test message on a channel and returns the result.
	TestNotification(ctx context.Context, channel string) (notify.Tested, error)
	// ResendNotification sends a notification that failed or was dropped again.
	ResendNotification(ctx context.Context, id int64, by string) (notifications.Notification, error)
	// Browsers returns the browsers that are notified, oldest first.
	Browsers(ctx context.Context) ([]notifications.Browser, error)
	// RemoveBrowser ends the notification of a browser.
	RemoveBrowser(ctx context.Context, id, by string) error

	Environments(ctx context.Context, repo string, limit int) ([]control.Environment, error)
	Environment(ctx context.Context, digest string) (control.Environment, error)
	RemoveEnvironment(ctx context.Context, digest, by string) (control.Environment, error)
	// IndexRepository indexes a commit of a repository.
	IndexRepository(ctx context.Context, repo, rev string, progress func(brain.Progress)) (control.Indexed, error)
	BrainSearch(ctx context.Context, q control.BrainQuery) (brain.Answer, error)
	BrainMap(ctx context.Context, repo, rev, goal string, tokens int) (control.BrainMap, error)
	BrainStats(ctx context.Context) (control.BrainStats, error)
	FindEnvironment(ctx context.Context, repo, base string) (control.FoundEnvironment, error)
	Setups(ctx context.Context, repo string, limit int) ([]store.Setup, error)
	AddSetup(ctx context.Context, n control.NewSetup) (store.Setup, error)
	RevokeSetup(ctx context.Context, id int64, by string) (store.Setup, error)
	FlakyTests(ctx context.Context, repo string, limit int) ([]flaky.Test, error)
	Quarantine(ctx context.Context, repo string, all bool, limit int) ([]flaky.Entry, error)
	AddQuarantine(ctx context.Context, n control.NewQuarantine) (flaky.Entry, error)
	RemoveQuarantine(ctx context.Context, id int64, by string) (flaky.Entry, error)
	Evals(ctx context.Context, before int64, limit int) ([]evals.Summary, error)
	EvalReport(ctx context.Context, id int64, compare []string) (report.Report, error)
	LiveOutput(ctx context.Context, id, after int64, limit int) ([]views.Output, error)

	Triggers(ctx context.Context) ([]control.Trigger, error)
	Trigger(ctx context.Context, name string) (control.Trigger, error)
	FireTrigger(ctx context.Context, name string, f control.TriggerFire) (triggers.Firing, error)
	PauseTrigger(ctx context.Context, name string, p control.TriggerPause) (control.Trigger, error)
	ResumeTrigger(ctx context.Context, name, by string) (control.Trigger, error)
	TriggerDeliveries(ctx context.Context, f triggers.Filter) (control.TriggerDeliveries, error)
	RedeliverTrigger(ctx context.Context, id int64, by string) (triggers.Firing, error)

	Clean(ctx context.Context, c control.Cleaning) (retention.CleanupReport, error)
	Cleanups(ctx context.Context, limit int) ([]retain.Cleanup, error)
	Hold(ctx context.Context, id int64, reason, by string) (retain.Hold, error)
	ReleaseHold(ctx context.Context, id int64, by string) (retain.Hold, error)

	Spawn(ctx context.Context, s control.Spawning) (control.Spawned, error)
	ListPipelines(ctx context.Context, f store.PipelineFilter) ([]store.Pipeline, error)
	Pipeline(ctx context.Context, id int64) (store.Pipeline, error)
	Orchestration(ctx context.Context, id int64, every bool) (control.Orchestration, error)
	PipelineLogs(ctx context.Context, id, after int64, limit int) ([]control.PipelineLog, error)
	FollowPipeline(ctx context.Context, id, after int64, fn func(contract.Event) error) error
	ContinuePipeline(ctx context.Context, id int64, n control.Continuation) (contract.PipelineAck, error)
	StopPipeline(ctx context.Context, id int64, c contract.PipelineCommand) (contract.PipelineAck, error)
	SwitchPipelineModel(ctx context.Context, id int64, m contract.Member, model string, temperature *float64, effort contract.Effort, c contract.PipelineCommand) (contract.PipelineAck, error)
	RevokeMember(ctx context.Context, id int64, m contract.Member, c contract.PipelineCommand) (contract.PipelineAck, error)
}

var (
	_ Backend = Local{}
	_ Backend = (*apiclient.Client)(nil)
)
