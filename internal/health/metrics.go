package health

import (
	"cmp"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store/providers"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

// maxFailedRefreshes is the number of failed refreshes after which outdated metrics are omitted.
const maxFailedRefreshes = 3

var (
	queueBacklog    = prometheus.NewDesc("rgpt_queue_backlog", "Approximate number of tasks waiting in a task queue.", []string{"queue"}, nil)
	queueBacklogAge = prometheus.NewDesc("rgpt_queue_backlog_age_seconds", "Waiting time of the oldest task in a queue.", []string{"queue"}, nil)
	queuePollers    = prometheus.NewDesc("rgpt_queue_pollers", "Workers polling a task queue.", []string{"queue"}, nil)
	agentsByHealth  = prometheus.NewDesc("rgpt_agents", "Worker agents, by role and health.", []string{"role", "health"}, nil)
	unfinishedRuns  = prometheus.NewDesc("rgpt_runs_unfinished", "Runs that have not ended, by status.", []string{"status"}, nil)
	openPipelines   = prometheus.NewDesc("rgpt_pipelines_unfinished", "Pipelines that have not ended, by status.", []string{"status"}, nil)
	waitPipelines   = prometheus.NewDesc("rgpt_pipelines_waiting", "Pipelines waiting for a person to continue them.", nil, nil)
	breakerState    = prometheus.NewDesc("rgpt_provider_breaker_state", "Circuit breaker of a model, or of a provider (model=\"all\"): 0 closed, 1 half-open, 2 open.", []string{"provider", "model"}, nil)
	callsWaiting    = prometheus.NewDesc("rgpt_provider_queue_length", "Model calls that wait for their turn at a provider with limits.", []string{"provider"}, nil)
	callsActive     = prometheus.NewDesc("rgpt_provider_calls_active", "Model calls being made at a provider with limits.", []string{"provider"}, nil)
	interventions   = prometheus.NewDesc("rgpt_interventions_open", "Questions that need a person's answer.", nil, nil)
)

// stateValues are the values of rgpt_provider_breaker_state.
var stateValues = map[providers.State]float64{providers.Closed: 0, providers.HalfOpen: 1, providers.Open: 2}

// Describe describes the metrics of a monitor.
func (m *Monitor) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{queueBacklog, queueBacklogAge, queuePollers, agentsByHealth, unfinishedRuns, openPipelines, waitPipelines, interventions, breakerState, callsWaiting, callsActive} {
		to <- d
	}
}

// Collect exports the result of the last refresh, without outdated parts. It does not block.
func (m *Monitor) Collect(to chan<- prometheus.Metric) {
	m.mu.Lock()
	r, at := m.last, m.at
	m.mu.Unlock()
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	recent := func(t time.Time) bool { return time.Since(t) < maxFailedRefreshes*m.interval+refreshTimeout }
	if r.QueuesAt != nil && recent(*r.QueuesAt) {
		for _, q := range r.Queues {
			gauge(queueBacklog, float64(q.Backlog), q.Name)
			gauge(queueBacklogAge, q.BacklogAge, q.Name)
			gauge(queuePollers, float64(q.Pollers), q.Name)
		}
	}
	if !recent(at) {
		return
	}
	type one struct {
		role   string
		health contract.Health
	}
	count := map[one]int{}
	for _, a := range r.Agents {
		count[one{a.Type, a.HealthStatus}]++
	}
	for _, role := range contract.WorkerRoles() {
		for _, h := range contract.Healths() {
			gauge(agentsByHealth, float64(count[one{role.Name, h}]), role.Name, string(h))
		}
	}
	for status, n := range r.Unfinished.Runs {
		gauge(unfinishedRuns, float64(n), string(status))
	}
	for status, n := range r.Unfinished.Pipelines {
		gauge(openPipelines, float64(n), string(status))
	}
	gauge(waitPipelines, float64(r.Unfinished.Waiting))
	gauge(interventions, float64(r.Unfinished.Interventions))
	m.collectProviders(r, gauge)
}

// collectProviders exports what is known about the model providers.
func (m *Monitor) collectProviders(r Report, gauge func(*prometheus.Desc, float64, ...string)) {
	calls := map[string]providers.Queue{}
	breakers := map[[2]string]providers.State{}
	for _, name := range m.ModelProviders {
		calls[name], breakers[[2]string{name, telemetry.AllModels}] = providers.Queue{}, providers.Closed
	}
	for _, q := range r.Providers {
		calls[strings.ToValidUTF8(q.Provider, "?")] = q
	}
	for _, b := range r.Breakers {
		breakers[[2]string{strings.ToValidUTF8(b.Provider, "?"), cmp.Or(strings.ToValidUTF8(b.Model, "?"), telemetry.AllModels)}] = b.State
	}
	for name, q := range calls {
		gauge(callsWaiting, float64(q.Waiting), name)
		gauge(callsActive, float64(q.Active), name)
	}
	for of, state := range breakers {
		gauge(breakerState, stateValues[state], of[0], of[1])
	}
}
