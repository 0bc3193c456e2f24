package telemetry_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

// Not parallel, and first: the hostile names of the next test leave no room.
func TestMetricsCountWhatHappens(t *testing.T) {
	model := contract.ModelChoice{Provider: "p-test", Model: "m-test"}
	telemetry.ObserveModelCall(model, time.Second, contract.Usage{PromptTokens: 1200, CompletionTokens: 300, MicroUSD: 2_500_000}, nil)
	telemetry.ObserveModelCall(model, time.Second, contract.Usage{PromptTokens: -5}, &contract.Failure{Class: contract.ClassInfra, Code: contract.CodeRateLimited})
	telemetry.ObservePhase(contract.PhaseBuilder, contract.ExecutionCompleted, time.Minute)
	telemetry.CountRun(contract.StatusDone)
	telemetry.EndedPipeline(contract.PipelineTimeout, contract.AbortTimeout, 90*time.Second, 7)
	telemetry.EndedPipeline(contract.PipelineCompleted, "", time.Second, 1)
	telemetry.CountGamma(contract.GammaConflict)
	telemetry.CountRecovery(contract.AbortTimeout)
	telemetry.CountMessage(contract.Message{To: contract.Beta})
	telemetry.CountMessage(contract.Message{})
	telemetry.CountRefused(3)
	telemetry.CountRefused(-1)
	telemetry.CountPipelineError(contract.Error{Member: contract.Alpha, Class: contract.ClassSafety})
	telemetry.CountPipelineError(contract.Error{Member: "hostile", Class: "hostile"})
	telemetry.CountFinding(contract.SeverityMajor, contract.CategoryTest)
	telemetry.CountToolCall("t-test", "")
	telemetry.CountToolCall("t-test", contract.CodePathEscape)
	telemetry.ObserveDatabase("op-test", time.Millisecond, nil)
	telemetry.ObserveDatabase("op-test", time.Millisecond, errors.New("down"))

	require.InDelta(t, 1200, testutil.ToFloat64(telemetry.Tokens.WithLabelValues("p-test", "m-test", "prompt")), 0)
	require.InDelta(t, 300, testutil.ToFloat64(telemetry.Tokens.WithLabelValues("p-test", "m-test", "completion")), 0)
	require.InDelta(t, 2.5, testutil.ToFloat64(telemetry.Cost.WithLabelValues("p-test", "m-test")), 1e-9)
	require.InDelta(t, 1, testutil.ToFloat64(telemetry.ModelErrors.WithLabelValues("p-test", "m-test", "INFRA_ERROR", "rate_limited")), 0)
	require.InDelta(t, 1, testutil.ToFloat64(telemetry.ToolCalls.WithLabelValues("t-test", "path_escape")), 0)
	require.InDelta(t, 1, testutil.ToFloat64(telemetry.ToolCalls.WithLabelValues("t-test", "ok")), 0)

	answer := httptest.NewRecorder()
	telemetry.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	for _, line := range []string{
		`rgpt_phase_duration_seconds_count{phase="builder",status="completed"} 1`,
		`rgpt_runs_total{status="done"} 1`,
		`rgpt_pipelines_total{abort="timeout",status="TIMEOUT"} 1`,
		`rgpt_pipelines_total{abort="none",status="COMPLETED"} 1`,
		`rgpt_pipeline_duration_seconds_bucket{status="TIMEOUT",le="120"} 1`,
		`rgpt_pipeline_iterations_sum{status="TIMEOUT"} 7`,
		`rgpt_pipeline_gamma_total{reason="CONFLICT"} 1`,
		`rgpt_pipeline_recoveries_total{abort="timeout"} 1`,
		`rgpt_pipeline_messages_total{kind="direct"} 1`,
		`rgpt_pipeline_messages_total{kind="broadcast"} 1`,
		"rgpt_pipeline_refused_total 3",
		`rgpt_pipeline_errors_total{agent="alpha",class="SAFETY_ERROR"} 1`,
		`rgpt_pipeline_errors_total{agent="none",class="other"} 1`,
		`rgpt_findings_total{category="test",severity="major"} 1`,
		`rgpt_model_call_duration_seconds_count{model="m-test",provider="p-test"} 2`,
		`rgpt_database_duration_seconds_count{operation="op-test",outcome="error"} 1`,
		"go_goroutines",
	} {
		require.Contains(t, string(body), line)
	}
}

// TestWhatCanBeCountedOfPipelinesIsServedFromTheStart counts each possible event after
// it was expected: none of them adds a series.
func TestWhatCanBeCountedOfPipelinesIsServedFromTheStart(t *testing.T) {
	series := func() map[string]float64 {
		families, err := telemetry.Registry.Gather()
		require.NoError(t, err)
		out := map[string]float64{}
		for _, f := range families {
			if !strings.HasPrefix(f.GetName(), "rgpt_pipeline") {
				continue
			}
			for _, m := range f.GetMetric() {
				out[fmt.Sprint(f.GetName(), m.GetLabel())] = m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
		return out
	}
	before := series()
	telemetry.ExpectPipelines()
	expected := series()
	for name, n := range expected {
		require.InDelta(t, before[name], n, 0, "%s: nothing has happened", name)
	}
	for status, aborts := range map[contract.PipelineStatus][]contract.AbortReason{
		contract.PipelineCompleted: {""}, contract.PipelineFailed: {""}, contract.PipelineStopped: {""}, contract.PipelineTimeout: {contract.AbortTimeout},
		contract.PipelineOrchestrationFailed: {"", contract.AbortStuck, contract.AbortIterationLimit},
	} {
		require.True(t, status.Terminal())
		for _, a := range aborts {
			telemetry.EndedPipeline(status, a, time.Second, 1)
			telemetry.CountRecovery(a)
		}
	}
	for _, reason := range contract.GammaReasons() {
		telemetry.CountGamma(reason)
	}
	telemetry.CountMessage(contract.Message{To: contract.Alpha})
	telemetry.CountMessage(contract.Message{})
	telemetry.CountRefused(1)
	for _, class := range contract.Classes() {
		for _, m := range append(contract.Members(), "") {
			telemetry.CountPipelineError(contract.Error{Member: m, Class: class})
		}
	}
	for name, n := range series() {
		now, there := expected[name]
		require.True(t, there, "%s came when it was counted", name)
		if !strings.Contains(name, "other") {
			require.Greater(t, n, now, "%s cannot occur", name)
		}
	}
}

func TestMetricsFollowTheRulesOfPrometheus(t *testing.T) {
	t.Parallel()
	problems, err := testutil.GatherAndLint(telemetry.Registry)
	require.NoError(t, err)
	require.Empty(t, problems)
}

func TestLabelValuesAreBoundedWhateverNamesComeFromOutside(t *testing.T) {
	for i := range 5000 {
		name := fmt.Sprintf("hostile-%d", i)
		telemetry.ObserveModelCall(contract.ModelChoice{Provider: name, Model: name}, time.Second, contract.Usage{PromptTokens: 1},
			&contract.Failure{Class: contract.ClassInfra, Code: contract.Code(name)})
		telemetry.CountToolCall(name, contract.Code(name))
	}
	telemetry.ObserveModelCall(contract.ModelChoice{Provider: "p", Model: "not UTF-8: \xff"}, time.Second, contract.Usage{}, nil)
	telemetry.ObserveModelCall(contract.ModelChoice{Provider: "p", Model: strings.Repeat("long", 1000)}, time.Second, contract.Usage{}, nil)
	families, err := telemetry.Registry.Gather()
	require.NoError(t, err)
	for _, family := range families {
		require.LessOrEqual(t, len(family.GetMetric()), 650, family.GetName())
		for _, m := range family.GetMetric() {
			for _, l := range m.GetLabel() {
				require.LessOrEqual(t, len(l.GetValue()), 100, family.GetName())
			}
		}
	}
	require.Positive(t, testutil.ToFloat64(telemetry.Tokens.WithLabelValues(telemetry.OtherValue, telemetry.OtherValue, "prompt")))
}

func TestRequestsCountByRouteAndClassOfStatus(t *testing.T) {
	t.Parallel()
	telemetry.ObserveRequest("GET /test/{id}", 404, time.Millisecond)
	telemetry.ObserveRequest("/test/{id}", 405, time.Millisecond)
	telemetry.ObserveRequest("", 421, time.Millisecond)
	families, err := telemetry.Registry.Gather()
	require.NoError(t, err)
	seen := map[string]uint64{}
	for _, family := range families {
		if family.GetName() != "rgpt_http_request_duration_seconds" {
			continue
		}
		for _, m := range family.GetMetric() {
			seen[m.GetLabel()[0].GetValue()+" "+m.GetLabel()[1].GetValue()] = m.GetHistogram().GetSampleCount()
		}
	}
	require.Equal(t, map[string]uint64{"/test/{id} 4xx": 2, "none 4xx": 1}, seen)
}
