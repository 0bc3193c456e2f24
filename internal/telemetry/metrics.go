package telemetry

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/rocketgpt/orchestrator/contract"
)

// Registry holds all metrics of this process.
var Registry = newRegistry()

func newRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// The metrics. Labels take values of small sets only: never ids, paths or texts.
// The functions below fill them; they are exported for tests and for what has no
// function.
var (
	factory = promauto.With(Registry)

	// PhaseDuration is the time from the start of a phase to its end.
	PhaseDuration = factory.NewHistogramVec(prometheus.HistogramOpts{
		Name: "rgpt_phase_duration_seconds", Help: "Time that a phase of a run took, by how it ended.",
		Buckets: []float64{0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 4 * 3600},
	}, []string{"phase", "status"})
	// Runs counts how often a run reached a status.
	Runs = factory.NewCounterVec(prometheus.CounterOpts{
		Name: "rgpt_runs_total", Help: "How often a run reached a status.",
	}, []string{"status"})
	// Findings counts findings of verification.
	Findings = factory.NewCounterVec(prometheus.CounterOpts{
		Name: "rgpt_findings_total", Help: "Findings of verification.",
	}, []string{"severity", "category"})
	// Heals counts what self-heal did, once it is known whether it helped.
	Heals = factory.NewCounterVec(prometheus.CounterOpts{
		Name: "rgpt_heals_total", Help: "What self-heal did, by what came of it.",
	}, []string{"class", "action", "result"})
	// Tokens counts tokens that models were paid for; kind is prompt or completion.
	Tokens = factory.NewCounterVec(prometheus.CounterOpts{
		Name: "rgpt_model_tokens_total", Help: "Tokens that models were paid for.",
	}, []string{"provider", "model", "kind"})
	// Cost counts money for model calls, in US dollars.
	Cost = factory.NewCounterVec(prometheus.CounterOpts{
		Name: "rgpt_model_cost_usd_total", Help: "Money for model calls, in US dollars.",
	}, []string{"provider", "model"})
	// ModelCallDuration is the time that model calls took, failed ones too.
	ModelCallDuration = factory.NewHistogramVec(prometheus.HistogramOpts{
		Name: "rgpt_model_call_duration_seconds", Help: "Time that model calls took, failed ones too.",
		Buckets: []float64{0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300},
	}, []string{"provider", "model"})
	// ModelErrors counts failed model calls by failure class and code.
	ModelErrors = factory.NewCounterVec(prometheus.CounterOpts{
		Name: "rgpt_model_errors_total", Help: "Failed model calls, by failure class and code.",
	}, []string{"provider", "model", "class", "code"})
	// ToolCalls counts tool calls of agents; outcome is ok or a failure code.
	ToolCalls = factory.NewCounterVec(prometheus.CounterOpts{
		Name: "rgpt_tool_calls_total", Help: "Tool calls of agents, by how they ended.",
	}, []string{"tool", "outcome"})
	// DatabaseDuration is the time that database operations took.
	DatabaseDuration = factory.NewHistogramVec(prometheus.HistogramOpts{
		Name: "rgpt_database_duration_seconds", Help: "Time that database operations took.",
		Buckets: []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10},
	}, []string{"operation", "outcome"})
)

// ObservePhase notes that a phase ended with a status after some time.
func ObservePhase(phase contract.Phase, status contract.Status, took time.Duration) {
	PhaseDuration.WithLabelValues(string(phase), string(status)).Observe(took.Seconds())
}

// CountRun notes that a run reached a status.
func CountRun(status contract.Status) { Runs.WithLabelValues(string(status)).Inc() }

// CountFinding notes a finding.
func CountFinding(severity contract.Severity, category contract.Category) {
	Findings.WithLabelValues(string(severity), string(category)).Inc()
}

// CountHeal notes what came of a heal.
func CountHeal(h contract.HealNote) {
	Heals.WithLabelValues(string(h.ErrorType), string(h.Action), string(h.Status)).Inc()
}

// ObserveModelCall notes a model call: how long it took and what it cost. A
// failed one has a failure; what it cost counts all the same.
func ObserveModelCall(model contract.ModelChoice, took time.Duration, usage contract.Usage, failure *contract.Failure) {
	ModelCallDuration.WithLabelValues(model.Provider, model.Model).Observe(took.Seconds())
	Tokens.WithLabelValues(model.Provider, model.Model, "prompt").Add(float64(max(usage.PromptTokens, 0)))
	Tokens.WithLabelValues(model.Provider, model.Model, "completion").Add(float64(max(usage.CompletionTokens, 0)))
	Cost.WithLabelValues(model.Provider, model.Model).Add(float64(max(usage.MicroUSD, 0)) / 1e6)
	if failure != nil {
		ModelErrors.WithLabelValues(model.Provider, model.Model, string(failure.Class), string(failure.Code)).Inc()
	}
}

// CountToolCall notes a tool call. The tool must be one that exists: names that
// a model made up would fill the memory of whoever reads the metrics. An empty
// code is success.
func CountToolCall(tool string, code contract.Code) {
	outcome := string(code)
	if outcome == "" {
		outcome = "ok"
	}
	ToolCalls.WithLabelValues(tool, outcome).Inc()
}

// ObserveDatabase notes a database operation, by the name of its query.
func ObserveDatabase(operation string, took time.Duration, err error) {
	outcome := "ok"
	if err != nil {
		outcome = "error"
	}
	DatabaseDuration.WithLabelValues(operation, outcome).Observe(took.Seconds())
}

// Handler serves the metrics in the format of Prometheus.
func Handler() http.Handler {
	return promhttp.HandlerFor(Registry, promhttp.HandlerOpts{EnableOpenMetrics: true, Registry: Registry})
}
