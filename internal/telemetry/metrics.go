package telemetry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/rocketgpt/orchestrator/contract"
)

// Registry contains all metrics of this process.
var Registry = newRegistry()

func newRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// The metrics. Label values come only from small sets: never IDs, paths or texts. The functions
// below update the metrics; the variables are exported for tests and for metrics without a
// function.
var (
	factory = promauto.With(Registry)

	// PhaseDuration is the duration of run phases.
	PhaseDuration = histogram("rgpt_phase_duration_seconds", "Duration of run phases, by status.",
		[]float64{0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 4 * 3600}, "phase", "status")
	// Runs counts runs that ended.
	Runs = counter("rgpt_runs_total", "Finished runs, by status.", "status")
	// Findings counts findings of verification.
	Findings = counter("rgpt_findings_total", "Verification findings, by severity and category.", "severity", "category")
	// FlakyTests counts tests that failed and then passed in a re-run of the same verification.
	FlakyTests = counter("rgpt_flaky_tests_total", "Tests that failed, then passed in a re-run of the same verification.")
	// QuarantinedFailures counts failures of quarantined tests, which did not count.
	QuarantinedFailures = counter("rgpt_quarantined_failures_total", "Failures of quarantined tests, which did not fail a verification.")
	// Heals counts heals, once their result is known.
	Heals = counter("rgpt_heals_total", "Self-heal actions, by failure class, action and result.", "class", "action", "result")
	// Verdicts counts what the policy gate decided about changes; a change that was judged before does
	// not count again.
	Verdicts = counter("rgpt_gate_verdicts_total", "Verdicts of the policy gate about changes, by stage and decision.", "stage", "decision")
	// GateDuration is the time that the policy gate takes for a change.
	GateDuration = histogram("rgpt_gate_duration_seconds", "Time of the policy gate for a change, by stage.",
		[]float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.25, 0.5, 1, 2, 5, 10}, "stage")
	// RegistryLookups counts packages that registries were asked about for the policy gate.
	RegistryLookups = counter("rgpt_gate_registry_lookups_total", "Packages that registries were asked about for the policy gate, by ecosystem and result: found, not_found, failed, cached (already known) or skipped (the registry failed before).", "ecosystem", "result")
	// ChangeSets counts decisions about change sets.
	ChangeSets = counter("rgpt_change_sets_decided_total", "Decisions about change sets, by outcome: complete (all runs were ready), incomplete (some were), none (no run was) or stopped.", "outcome")
	// Choices counts the choices among several attempts at a goal, by what decided.
	Choices = counter("rgpt_attempt_choices_total", "Choices among several attempts at a goal, by what decided: only, findings, same, size, judge, none (no attempt passed) or stopped.", "rule")
	// Environments counts the environments of runs; result is kept (reused), made (created) or
	// failed.
	Environments = counter("rgpt_environments_total", "Environment requests, by result: kept (already stored), made (built) or failed.", "result")
	// EnvironmentDuration is the time until a run's environment was ready, including waiting.
	EnvironmentDuration = histogram("rgpt_environment_duration_seconds", "Time until a run's environment was ready, by result.",
		[]float64{0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1200}, "result")
	// Deleted counts what clean-ups deleted, and DeletedBytes its size; kind is files, logs,
	// environments or blobs.
	Deleted      = counter("rgpt_deleted_total", "Items deleted by retention, by kind: files, logs, environments or blobs.", "kind")
	DeletedBytes = counter("rgpt_deleted_bytes_total", "Bytes deleted by retention, by kind. Only blobs free space: files and logs may share a blob.", "kind")
	// Cleanups counts clean-ups; origin is schedule or person, result is completed or failed.
	Cleanups = counter("rgpt_cleanups_total", "Clean-ups, by origin (schedule or person) and result (completed or failed).", "origin", "result")
	// Egress counts network requests of sandboxes; verdict is allowed, refused or failed.
	Egress = counter("rgpt_egress_requests_total", "Network requests from sandboxed commands, by verdict.", "verdict")
	// Pipelines counts finished pipelines, each attempt separately; abort is the abort reason, or
	// none.
	Pipelines = counter("rgpt_pipelines_total", "Finished pipelines, by status and abort reason.", "status", "abort")
	// PipelineDuration is the duration of pipelines, including the time that they waited for a
	// person.
	PipelineDuration = histogram("rgpt_pipeline_duration_seconds", "Duration of pipelines, by status.",
		[]float64{1, 5, 10, 30, 60, 120, 180, 300, 600, 1800, 3600, 4 * 3600, 24 * 3600}, "status")
	// PipelineIterations is the number of rounds of exchange in a pipeline.
	PipelineIterations = histogram("rgpt_pipeline_iterations", "Discussion rounds per pipeline, by status.",
		[]float64{0, 1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 50}, "status")
	// Gammas counts pipelines that GAMMA joined.
	Gammas = counter("rgpt_pipeline_gamma_total", "Pipelines that GAMMA joined, by reason.", "reason")
	// PipelineRecoveries counts started recoveries; abort is the abort reason of the previous
	// pipeline, or none.
	PipelineRecoveries = counter("rgpt_pipeline_recoveries_total", "Pipeline recoveries, by the previous pipeline's abort reason.", "abort")
	// PipelineMessages counts messages between members; kind is direct or broadcast.
	PipelineMessages = counter("rgpt_pipeline_messages_total", "Messages between pipeline agents, by kind.", "kind")
	// PipelineRefused counts rejected moves and signals. It has no labels, and only the processes
	// that count it export it.
	PipelineRefused = counter("rgpt_pipeline_refused_total", "Rejected pipeline moves and signals.")
	// PipelineErrors counts recorded errors of members, by member (alpha, beta, gamma, or none) and
	// failure class.
	PipelineErrors = counter("rgpt_pipeline_errors_total", "Errors recorded in pipelines, by agent and failure class.", "agent", "class")
	// Tokens counts billed tokens; kind is prompt or completion.
	Tokens = counter("rgpt_model_tokens_total", "Billed model tokens, by provider, model and kind.", "provider", "model", "kind")
	// TokenParts counts parts of the billed tokens: cached and cache_write of the prompt, reasoning of
	// the completion.
	TokenParts = counter("rgpt_model_token_parts_total", "Parts of the billed model tokens, by provider, model and part.", "provider", "model", "part")
	// Cost is the total cost of model calls, in US dollars.
	Cost = counter("rgpt_model_cost_usd_total", "Cost of model calls, in US dollars.", "provider", "model")
	// ModelCallDuration is the duration of model calls, including failed ones.
	ModelCallDuration = histogram("rgpt_model_call_duration_seconds", "Duration of model calls, including failed ones.",
		[]float64{0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300}, "provider", "model")
	// ModelErrors counts failed model calls by failure class and code.
	ModelErrors = counter("rgpt_model_errors_total", "Failed model calls, by failure class and code.", "provider", "model", "class", "code")
	// CacheLookups counts requests for which the response to an identical one was looked up; result is
	// hit or miss.
	CacheLookups = counter("rgpt_model_cache_lookups_total", "Requests for which the response to an identical, earlier one was looked up, by result: hit (it answered the request) or miss.", "result")
	// FurtherTurns counts turns of agents that followed another one in the same activity.
	FurtherTurns = counter("rgpt_further_turns_total", "Turns of agents that followed another one in the same activity.")
	// activityWork is the number of activities that have a turn to work or wait for one; state is working or waiting.
	activityWork = gauge("rgpt_activity_work", "Activities by state: working (they have a turn, of at most 250 ms), or waiting for one.", "state")
	// activityWait is how long they waited.
	activityWait = histogram("rgpt_activity_wait_seconds", "Time that activities waited until they could work.",
		[]float64{0.001, 0.01, 0.1, 0.5, 1, 2, 5, 10, 30, 60})
	// coreWork is the number of checks and commands; state is working or waiting.
	coreWork = gauge("rgpt_core_work", "Checks and commands of repositories on this host, by state: working or waiting (for a free core).", "state")
	// coreWait is how long they waited.
	coreWait = histogram("rgpt_core_wait_seconds", "Time that checks and commands of repositories waited for a free core.",
		[]float64{0.001, 0.01, 0.1, 1, 5, 10, 30, 60, 300, 600, 1800, 3600})
	// BrainFiles counts files that were added to indexes; source is content (they were read) or database
	// (another host or branch had read them).
	BrainFiles = counter("rgpt_brain_files_total", "Files added to the indexes of repositories, by source: content (read on this host) or database (read before, elsewhere).", "source")
	// BrainBytes is the size of the files that were read for an index.
	BrainBytes = counter("rgpt_brain_bytes_total", "Bytes of files read to index repositories.")
	// BrainDuration is the duration of the brain's operations: index or query.
	BrainDuration = histogram("rgpt_brain_duration_seconds", "Duration of indexing a tree and of searching an index, by operation: index or query.",
		[]float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300}, "operation")
	// LiveTexts counts attempts to show what a model writes; outcome is shown, unwatched or failed.
	LiveTexts = counter("rgpt_model_live_texts_total", "Attempts to show what a model writes while it writes it, by outcome: shown, unwatched (nobody watched) or failed.", "outcome")
	// ModelFallbacks counts switches of runs' agents to another model, because the breaker of their own
	// was open.
	ModelFallbacks = counter("rgpt_model_fallbacks_total", "Switches of a run's agent to another model while its own was out.", "provider", "model", "to_provider", "to_model")
	// BreakersOpened counts how often circuit breakers opened; model is all for that of a provider.
	BreakersOpened = counter("rgpt_provider_breaker_opened_total", "Times that a circuit breaker opened; model is all for the provider as a whole.", "provider", "model")
	// ProviderWait is the time that model calls waited for their turn at a provider with limits.
	ProviderWait = histogram("rgpt_provider_wait_seconds", "Time that model calls waited for their turn at a provider with limits.",
		[]float64{0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800}, "provider")
	// BudgetWarnings counts budgets whose use reached models.budgets.warn_at; scope is agent, run,
	// project, tenant or day.
	BudgetWarnings = counter("rgpt_budget_warnings_total", "Warnings about nearly exhausted budgets, by scope.", "scope")
	// BudgetExcesses counts model calls that a provider charged more for than they had reserved.
	BudgetExcesses = counter("rgpt_budget_excesses_total", "Model calls charged above their reservation.", "provider", "model")
	// ToolCalls counts tool calls of agents; outcome is ok or a failure code.
	ToolCalls = counter("rgpt_tool_calls_total", "Agent tool calls, by outcome.", "tool", "outcome")
	// WebhookAttempts counts delivery attempts to webhooks. Outcome is delivered, pending (it will
	// be retried) or failed (it was the last attempt).
	WebhookAttempts = counter("rgpt_webhook_attempts_total", "Webhook delivery attempts, by outcome.", "outcome")
	// NotificationMessages counts attempts to send messages on notification channels, by kind of channel.
	// Outcome is sent, pending (it will be repeated), failed or dropped.
	NotificationMessages = counter("rgpt_notification_messages_total", "Attempts to send messages on notification channels, by kind of channel and outcome: sent, pending (will be repeated), failed or dropped.", "kind", "outcome")
	// ForgeEvents counts what happened to pull requests of runs that watch their branches; outcome is
	// sent, ignored or failed.
	ForgeEvents = counter("rgpt_forge_events_total", "Events of pull requests whose runs watch their branches, by kind (check, comment, closed, merged, pushed) and outcome: sent (to the run), ignored or failed.", "kind", "outcome")
	// ForgeLooks counts looks at such pull requests; outcome is ok or failed.
	ForgeLooks = counter("rgpt_forge_looks_total", "Looks at pull requests whose runs watch their branches, by outcome: ok or failed.", "outcome")
	// MergeQueueEnded counts pull requests that left a merge queue; result is merged or returned.
	MergeQueueEnded = counter("rgpt_merge_queue_ended_total", "Pull requests that left a merge queue, by result: merged or returned.", "result")
	// MergeQueueCheckRuns counts commits of merge queues whose checks ran.
	MergeQueueCheckRuns = counter("rgpt_merge_queue_check_runs_total", "Commits whose checks ran for a merge queue.")
	// MergeQueueDecided counts the pull requests that these checks decided about.
	MergeQueueDecided = counter("rgpt_merge_queue_decided_total", "Pull requests of merge queues that checks decided about. The difference to rgpt_merge_queue_check_runs_total is what testing several at once saved.")
	// ForgeWebhooks counts requests to the address for the webhooks of forges; outcome is accepted,
	// duplicate, ignored (of no interest) or refused.
	ForgeWebhooks = counter("rgpt_forge_webhooks_total", "Webhooks of forges, by outcome: accepted, duplicate, ignored (of no interest) or refused.", "outcome")
	// TriggerFirings counts what fired triggers and has ended; source is what fires the trigger, or
	// unknown; state is fired, skipped or failed.
	TriggerFirings = counter("rgpt_trigger_firings_total", "Deliveries of triggers that have ended, by source of the trigger and state: fired, skipped or failed.", "source", "state")
	// TriggerEvents counts CloudEvents for triggers; outcome is as for ForgeWebhooks.
	TriggerEvents = counter("rgpt_trigger_events_total", "CloudEvents for triggers, by outcome: accepted, duplicate, ignored (of another type) or refused.", "outcome")
	// TriggersWaiting is the age of the oldest delivery of a trigger that waits.
	TriggersWaiting = gauge("rgpt_trigger_oldest_waiting_seconds", "Age of the oldest delivery of a trigger that waits.")
	// TriggerLooks counts looks at forges for what fires triggers; outcome is ok or failed.
	TriggerLooks = counter("rgpt_trigger_looks_total", "Looks at forges for what fires triggers, by outcome: ok or failed.", "outcome")
	// DatabaseDuration is the duration of database operations.
	DatabaseDuration = histogram("rgpt_database_duration_seconds", "Duration of database operations.",
		[]float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10}, "operation", "outcome")
	// RequestDuration is the duration of HTTP requests; for streams, the time that they were open.
	RequestDuration = histogram("rgpt_http_request_duration_seconds", "Duration of HTTP requests, by route and status class.",
		[]float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30}, "route", "status")
	// StreamsOpen is the number of open event streams; kind is sse or websocket.
	StreamsOpen = gauge("rgpt_streams_open", "Open event streams.", "kind")
	// StreamsDropped counts streams that the server closed; reason is slow (the client did not read
	// for too long) or broken (events could not be read).
	StreamsDropped = counter("rgpt_streams_dropped_total", "Event streams that the server closed, by reason.", "kind", "reason")
)

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return factory.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	return factory.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
}

func histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return factory.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
}

// The kinds of streams, and the reasons why the server closes one.
const (
	StreamSSE       = "sse"
	StreamWebSocket = "websocket"

	DroppedSlow   = "slow"
	DroppedBroken = "broken"
)

// ServeStreams exports the metrics of streams from the start, as 0, in a process that serves
// streams.
func ServeStreams() {
	for _, kind := range []string{StreamSSE, StreamWebSocket} {
		StreamsOpen.WithLabelValues(kind)
		for _, reason := range []string{DroppedSlow, DroppedBroken} {
			StreamsDropped.WithLabelValues(kind, reason)
		}
	}
	for _, outcome := range []string{"delivered", "pending", "failed"} {
		WebhookAttempts.WithLabelValues(outcome)
	}
}

// StreamOpened records that a stream is open until the returned function is called.
func StreamOpened(kind string) (closed func()) {
	open := StreamsOpen.WithLabelValues(kind)
	open.Inc()
	return open.Dec
}

// CountDroppedStream records that the server closed a stream.
func CountDroppedStream(kind, reason string) { StreamsDropped.WithLabelValues(kind, reason).Inc() }

// CountSlowStream records that the server closed a stream if err is a write timeout. A client that
// disconnected does not count as slow.
func CountSlowStream(kind string, err error) {
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) {
		CountDroppedStream(kind, DroppedSlow)
	}
}

// CountLiveText records an attempt to show what a model writes.
func CountLiveText(watched bool, err error) {
	outcome := "unwatched"
	switch {
	case err != nil:
		outcome = "failed"
	case watched:
		outcome = "shown"
	}
	LiveTexts.WithLabelValues(outcome).Inc()
}

// ObserveRequest records an HTTP request by the pattern of its route, never its path,
// and by the class of its status: 2xx.
func ObserveRequest(pattern string, status int, took time.Duration) {
	route := pattern
	if _, path, found := strings.Cut(pattern, " "); found {
		route = path
	}
	route = cmp.Or(route, "none")
	RequestDuration.WithLabelValues(route, fmt.Sprintf("%dxx", status/100)).Observe(took.Seconds())
}

// maxValues is the maximum number of values of a label whose values are external (for example, a
// request for a run can contain any model name), and maxValueLength is the maximum length of each
// value. Further or longer values count as OtherValue.
const (
	maxValues      = 200
	maxValueLength = 100
)

// OtherValue replaces all values of a label that exceed its limits.
const OtherValue = "other"

// boundedSet is the set of values that a label has had so far.
type boundedSet struct {
	mu   sync.Mutex
	seen map[string]bool
}

var modelValues, providerValues, codeValues, toolValues boundedSet

// value returns a value, or OtherValue if there are too many. The result is a valid label.
func (f *boundedSet) value(v string) string {
	if len(v) > maxValueLength || !utf8.ValidString(v) {
		return OtherValue
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.seen[v] {
		if len(f.seen) >= maxValues {
			return OtherValue
		}
		if f.seen == nil {
			f.seen = map[string]bool{}
		}
		f.seen[v] = true
	}
	return v
}

// ObservePhase records the status and duration of a finished phase.
func ObservePhase(phase contract.Phase, status contract.ExecutionStatus, took time.Duration) {
	PhaseDuration.WithLabelValues(string(phase), string(status)).Observe(took.Seconds())
}

// CountRun records that a run ended with a status.
func CountRun(status contract.Status) { Runs.WithLabelValues(string(status)).Inc() }

// none replaces a missing label value, because Prometheus treats an empty value as a missing label.
const none = "none"

// EndedPipeline records the status, duration and rounds of a finished pipeline.
func EndedPipeline(status contract.PipelineStatus, abort contract.AbortReason, took time.Duration, rounds int) {
	Pipelines.WithLabelValues(string(status), cmp.Or(string(abort), none)).Inc()
	PipelineDuration.WithLabelValues(string(status)).Observe(max(took, 0).Seconds())
	PipelineIterations.WithLabelValues(string(status)).Observe(float64(rounds))
}

// ExpectLiveTexts exports the metric of live texts as 0 for each outcome.
func ExpectLiveTexts() {
	for _, outcome := range []string{"shown", "unwatched", "failed"} {
		LiveTexts.WithLabelValues(outcome)
	}
}

// BrainIndexed records that a tree was indexed: how many files were read and how large they were, and
// how many extracts came from the database.
func BrainIndexed(read, shared int, bytes int64, took time.Duration) {
	BrainFiles.WithLabelValues("content").Add(float64(read))
	BrainFiles.WithLabelValues("database").Add(float64(shared))
	BrainBytes.WithLabelValues().Add(float64(bytes))
	BrainDuration.WithLabelValues("index").Observe(took.Seconds())
}

// ExpectBrain exports the metrics of the index of repositories from the start, as 0, in a process that
// uses it.
func ExpectBrain() {
	for _, source := range []string{"content", "database"} {
		BrainFiles.WithLabelValues(source)
	}
	BrainBytes.WithLabelValues()
	for _, operation := range []string{"index", "query"} {
		BrainDuration.WithLabelValues(operation)
	}
}

// BrainQueried records that an index was searched.
func BrainQueried(took time.Duration) {
	BrainDuration.WithLabelValues("query").Observe(took.Seconds())
}

// Cores exports what a queue for the cores of this host does.
type Cores struct{}

// Queued implements cores.Observer.
func (Cores) Queued(working, waiting int) {
	coreWork.WithLabelValues("working").Set(float64(working))
	coreWork.WithLabelValues("waiting").Set(float64(waiting))
}

// Waited implements cores.Observer.
func (Cores) Waited(d time.Duration) { coreWait.WithLabelValues().Observe(d.Seconds()) }

// Activities exports what a queue for the activities that work at the same time does.
type Activities struct{}

// Queued implements cores.Observer.
func (Activities) Queued(working, waiting int) {
	activityWork.WithLabelValues("working").Set(float64(working))
	activityWork.WithLabelValues("waiting").Set(float64(waiting))
}

// Waited implements cores.Observer.
func (Activities) Waited(d time.Duration) { activityWait.WithLabelValues().Observe(d.Seconds()) }

// Results of looking up the response to an identical request.
const (
	CacheHit  = "hit"
	CacheMiss = "miss"
)

// ExpectModelCalls exports the metrics of cached responses and of further turns as 0 from the start.
func ExpectModelCalls() {
	FurtherTurns.WithLabelValues()
	Cores{}.Queued(0, 0)
	coreWait.WithLabelValues()
	Activities{}.Queued(0, 0)
	activityWait.WithLabelValues()
	for _, result := range []string{CacheHit, CacheMiss} {
		CacheLookups.WithLabelValues(result)
	}
}

// ExpectPipelines exports each possible count of pipelines from the start, as 0, because an
// increase can only be detected, and trigger an alert, relative to an earlier value. Only the
// processes that count pipelines call it.
func ExpectPipelines() {
	aborts := []string{none}
	for _, a := range contract.AbortReasons() {
		aborts = append(aborts, string(a))
	}
	for status, reasons := range map[contract.PipelineStatus][]string{
		contract.PipelineCompleted: {none}, contract.PipelineFailed: {none}, contract.PipelineStopped: {none},
		contract.PipelineTimeout:             {string(contract.AbortTimeout)},
		contract.PipelineOrchestrationFailed: {none, string(contract.AbortStuck), string(contract.AbortIterationLimit)},
	} {
		PipelineDuration.WithLabelValues(string(status))
		PipelineIterations.WithLabelValues(string(status))
		for _, a := range reasons {
			Pipelines.WithLabelValues(string(status), a)
		}
	}
	for _, reason := range contract.GammaReasons() {
		Gammas.WithLabelValues(string(reason))
	}
	for _, a := range aborts {
		PipelineRecoveries.WithLabelValues(a)
	}
	for _, kind := range []string{direct, broadcast} {
		PipelineMessages.WithLabelValues(kind)
	}
	PipelineRefused.WithLabelValues()
	for _, class := range contract.Classes() {
		PipelineErrors.WithLabelValues(none, string(class))
		for _, m := range contract.Members() {
			PipelineErrors.WithLabelValues(string(m.Agent()), string(class))
		}
	}
}

// CountGamma records that GAMMA joined a pipeline.
func CountGamma(reason contract.GammaReason) { Gammas.WithLabelValues(string(reason)).Inc() }

// CountRecovery records the start of a pipeline that recovers another one.
func CountRecovery(abort contract.AbortReason) {
	PipelineRecoveries.WithLabelValues(cmp.Or(string(abort), none)).Inc()
}

// The kinds of messages.
const (
	direct    = "direct"
	broadcast = "broadcast"
)

// CountMessage records a message from a member to one or all other members.
func CountMessage(m contract.Message) {
	kind := broadcast
	if m.To != "" {
		kind = direct
	}
	PipelineMessages.WithLabelValues(kind).Inc()
}

// CountRefused records rejected moves or signals of a pipeline.
func CountRefused(n int) { PipelineRefused.WithLabelValues().Add(float64(max(n, 0))) }

// CountPipelineError records an error of a member, or of a sender that is not a member.
func CountPipelineError(e contract.Error) {
	agent, class := none, OtherValue
	if e.Member.Valid() {
		agent = string(e.Member.Agent())
	}
	if slices.Contains(contract.Classes(), e.Class) {
		class = string(e.Class)
	}
	PipelineErrors.WithLabelValues(agent, class).Inc()
}

// ObserveEnvironment records the result (kept, made or failed) and duration of preparing a run's
// environment.
func ObserveEnvironment(result string, took time.Duration) {
	Environments.WithLabelValues(result).Inc()
	EnvironmentDuration.WithLabelValues(result).Observe(took.Seconds())
}

// CountDeleted counts what a clean-up deleted of a kind.
func CountDeleted(kind string, count, bytes int64) {
	Deleted.WithLabelValues(kind).Add(float64(count))
	DeletedBytes.WithLabelValues(kind).Add(float64(bytes))
}

// CountCleanup counts a clean-up that ended.
func CountCleanup(origin string, completed bool) {
	result := "completed"
	if !completed {
		result = "failed"
	}
	Cleanups.WithLabelValues(origin, result).Inc()
}

// ExpectCleanups exports each count of clean-ups from an origin, and of the kinds that they delete, from
// the start, as 0, in the processes that count them.
func ExpectCleanups(origin string, kinds ...string) {
	for _, kind := range kinds {
		CountDeleted(kind, 0, 0)
	}
	for _, result := range []string{"completed", "failed"} {
		Cleanups.WithLabelValues(origin, result)
	}
}

// ExpectEnvironments exports each count of environments and of sandboxes' network requests from the
// start, as 0, in the processes that count them.
func ExpectEnvironments() {
	for _, result := range []string{"kept", "made", "failed"} {
		Environments.WithLabelValues(result)
		EnvironmentDuration.WithLabelValues(result)
	}
	for _, verdict := range []string{"allowed", "refused", "failed"} {
		Egress.WithLabelValues(verdict)
	}
}

// CountEgress records a network request of a sandboxed command.
func CountEgress(verdict string) { Egress.WithLabelValues(verdict).Inc() }

// CountFinding records a finding.
func CountFinding(severity contract.Severity, category contract.Category) {
	Findings.WithLabelValues(string(severity), string(category)).Inc()
}

// CountTests records the tests of a check that are flaky, and the failures of quarantined ones.
func CountTests(s contract.TestSummary) {
	FlakyTests.WithLabelValues().Add(float64(s.Flaky))
	QuarantinedFailures.WithLabelValues().Add(float64(s.Quarantined))
}

// CountChangeSet records the decision about a change set.
func CountChangeSet(outcome string) { ChangeSets.WithLabelValues(outcome).Inc() }

// ExpectChangeSets exports the metric of decisions about change sets as 0 for each outcome.
func ExpectChangeSets() {
	for _, outcome := range contract.ChangeSetOutcomes() {
		ChangeSets.WithLabelValues(outcome)
	}
}

// CountChoice records a choice among several attempts at a goal.
func CountChoice(rule string) { Choices.WithLabelValues(rule).Inc() }

// ExpectChoices exports the metric of choices among attempts as 0 for each rule.
func ExpectChoices() {
	for _, rule := range []string{
		contract.RuleOnly, contract.RuleFindings, contract.RuleSame, contract.RuleSize, contract.RuleJudge, contract.RuleNone, contract.RuleStopped,
	} {
		Choices.WithLabelValues(rule)
	}
}

// CountHeal records the result of a heal.
func CountHeal(h contract.HealNote) {
	Heals.WithLabelValues(string(h.ErrorType), string(h.Action), string(h.Status)).Inc()
}

// ObserveModelCall records the duration and cost of a model call. A failed call has a failure; its
// cost is also counted.
func ObserveModelCall(model contract.ModelChoice, took time.Duration, usage contract.Usage, failure *contract.Failure) {
	provider, name := providerValues.value(model.Provider), modelValues.value(model.Model)
	ModelCallDuration.WithLabelValues(provider, name).Observe(took.Seconds())
	Tokens.WithLabelValues(provider, name, "prompt").Add(float64(max(usage.PromptTokens, 0)))
	Tokens.WithLabelValues(provider, name, "completion").Add(float64(max(usage.CompletionTokens, 0)))
	TokenParts.WithLabelValues(provider, name, "cached").Add(float64(max(usage.CachedTokens, 0)))
	TokenParts.WithLabelValues(provider, name, "cache_write").Add(float64(max(usage.CacheWriteTokens, 0)))
	TokenParts.WithLabelValues(provider, name, "reasoning").Add(float64(max(usage.ReasoningTokens, 0)))
	Cost.WithLabelValues(provider, name).Add(float64(max(usage.MicroUSD, 0)) / 1e6)
	if failure != nil {
		ModelErrors.WithLabelValues(provider, name, string(failure.Class), codeValues.value(string(failure.Code))).Inc()
	}
}

// AllModels is the value of the label model for what concerns a provider as a whole.
const AllModels = "all"

// CountFallback records that an agent switched to another model, because its own is out.
func CountFallback(from, to contract.ModelChoice) {
	ModelFallbacks.WithLabelValues(providerValues.value(from.Provider), modelValues.value(from.Model), providerValues.value(to.Provider), modelValues.value(to.Model)).Inc()
}

// CountBreaker records that the circuit breaker of a model opened, or of a provider if model is
// empty.
func CountBreaker(provider, model string) {
	BreakersOpened.WithLabelValues(providerValues.value(provider), modelValues.value(cmp.Or(model, AllModels))).Inc()
}

// ObserveProviderWait records how long a call waited for its turn at a provider.
func ObserveProviderWait(provider string, waited time.Duration) {
	ProviderWait.WithLabelValues(providerValues.value(provider)).Observe(waited.Seconds())
}

// CountToolCall records a tool call. The tool must exist: names invented by a model would create an
// unbounded number of time series. An empty code means success.
func CountToolCall(tool string, code contract.Code) {
	outcome := cmp.Or(string(code), "ok")
	ToolCalls.WithLabelValues(toolValues.value(tool), codeValues.value(outcome)).Inc()
}

// CountWebhook records the outcome of a delivery attempt to a webhook.
func CountWebhook(outcome string) { WebhookAttempts.WithLabelValues(outcome).Inc() }

// CountNotification records the outcome of an attempt to send a message on a notification channel.
func CountNotification(kind, outcome string) {
	NotificationMessages.WithLabelValues(kind, outcome).Inc()
}

// ExpectNotification exports the number of such attempts as 0 until there are any.
func ExpectNotification(kind, outcome string) {
	NotificationMessages.WithLabelValues(kind, outcome)
}

// CountForgeEvent records the outcome of an event of a pull request.
func CountForgeEvent(kind, outcome string) { ForgeEvents.WithLabelValues(kind, outcome).Inc() }

// CountForgeLook records a look at a pull request.
func CountForgeLook(ok bool) {
	outcome := "failed"
	if ok {
		outcome = "ok"
	}
	ForgeLooks.WithLabelValues(outcome).Inc()
}

// CountTriggerLook records a look at a forge for what fires a trigger.
func CountTriggerLook(ok bool) {
	outcome := "failed"
	if ok {
		outcome = "ok"
	}
	TriggerLooks.WithLabelValues(outcome).Inc()
}

// The outcomes of webhooks of forges.
const (
	HookAccepted  = "accepted"
	HookDuplicate = "duplicate"
	HookIgnored   = "ignored"
	HookRefused   = "refused"
)

// CountForgeWebhook records the outcome of a webhook of a forge.
func CountForgeWebhook(outcome string) { ForgeWebhooks.WithLabelValues(outcome).Inc() }

// UnknownTrigger is the source of a trigger that the configuration does not have.
const UnknownTrigger = "unknown"

// CountTriggerFirings records how many deliveries of a trigger ended in a state.
func CountTriggerFirings(source, state string, n int) {
	TriggerFirings.WithLabelValues(source, state).Add(float64(n))
}

// CountTriggerEvent records the outcome of a CloudEvent for a trigger.
func CountTriggerEvent(outcome string) { TriggerEvents.WithLabelValues(outcome).Inc() }

// ObserveTriggersWaiting records the age of the oldest delivery that waits.
func ObserveTriggersWaiting(age time.Duration) { TriggersWaiting.WithLabelValues().Set(age.Seconds()) }

// ExpectTriggers exports the metrics of triggers as 0 from the start, in a process that serves them.
func ExpectTriggers() {
	for _, source := range []string{"issue", "comment", "check", "schedule", "event", "command", UnknownTrigger} {
		for _, state := range []string{"fired", "skipped", "failed"} {
			TriggerFirings.WithLabelValues(source, state)
		}
	}
	for _, outcome := range []string{HookAccepted, HookDuplicate, HookIgnored, HookRefused} {
		TriggerEvents.WithLabelValues(outcome)
	}
	TriggersWaiting.WithLabelValues()
}

// CountMergeQueueEnded records pull requests that left a merge queue.
func CountMergeQueueEnded(result string, n int) {
	MergeQueueEnded.WithLabelValues(result).Add(float64(n))
}

// CountMergeQueueChecks records commits whose checks ran, and pull requests that these decided about.
func CountMergeQueueChecks(runs, decided int) {
	MergeQueueCheckRuns.WithLabelValues().Add(float64(runs))
	MergeQueueDecided.WithLabelValues().Add(float64(decided))
}

// ExpectMergeQueues exports the metrics of merge queues as 0 until there are any.
func ExpectMergeQueues() {
	for _, result := range []string{"merged", "returned"} {
		MergeQueueEnded.WithLabelValues(result)
	}
	MergeQueueCheckRuns.WithLabelValues()
	MergeQueueDecided.WithLabelValues()
}

// ExpectRegistries exports the questions to registries as 0 until there are any.
func ExpectRegistries() {
	for _, result := range []string{"found", "not_found", "failed", "cached", "skipped"} {
		RegistryLookups.WithLabelValues("Go", result)
	}
}

// ExpectForges exports the metrics of forges as 0 from the start, in a process that serves them.
func ExpectForges() {
	for _, kind := range []string{"check", "comment", "closed", "merged", "pushed"} {
		for _, outcome := range []string{"sent", "ignored", "failed"} {
			ForgeEvents.WithLabelValues(kind, outcome)
		}
	}
	for _, outcome := range []string{"ok", "failed"} {
		ForgeLooks.WithLabelValues(outcome)
		TriggerLooks.WithLabelValues(outcome)
	}
	for _, outcome := range []string{HookAccepted, HookDuplicate, HookIgnored, HookRefused} {
		ForgeWebhooks.WithLabelValues(outcome)
	}
}

// ObserveDatabase records a database operation, by the name of its query.
func ObserveDatabase(operation string, took time.Duration, err error) {
	outcome := "ok"
	if err != nil {
		outcome = "error"
	}
	DatabaseDuration.WithLabelValues(operation, outcome).Observe(took.Seconds())
}

// Handler serves the metrics of this process and of additional collectors in Prometheus format.
func Handler(more ...prometheus.Collector) http.Handler {
	own := prometheus.NewRegistry()
	own.MustRegister(more...)
	return promhttp.HandlerFor(prometheus.Gatherers{Registry, own}, promhttp.HandlerOpts{EnableOpenMetrics: true, Registry: Registry})
}
