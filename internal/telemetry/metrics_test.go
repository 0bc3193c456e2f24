package telemetry_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

func TestMetricsCountWhatHappens(t *testing.T) {
	t.Parallel()
	model := contract.ModelChoice{Provider: "p-test", Model: "m-test"}
	telemetry.ObserveModelCall(model, time.Second, contract.Usage{PromptTokens: 1200, CompletionTokens: 300, MicroUSD: 2_500_000}, nil)
	telemetry.ObserveModelCall(model, time.Second, contract.Usage{PromptTokens: -5}, &contract.Failure{Class: contract.ClassInfra, Code: contract.CodeRateLimited})
	telemetry.ObservePhase(contract.PhaseBuilder, contract.PhaseBuilder.Completed(), time.Minute)
	telemetry.CountRun(contract.StatusDone)
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
		`rgpt_phase_duration_seconds_count{phase="builder",status="builder_completed"} 1`,
		`rgpt_runs_total{status="done"} 1`,
		`rgpt_findings_total{category="test",severity="major"} 1`,
		`rgpt_model_call_duration_seconds_count{model="m-test",provider="p-test"} 2`,
		`rgpt_database_duration_seconds_count{operation="op-test",outcome="error"} 1`,
		"go_goroutines",
	} {
		require.Contains(t, string(body), line)
	}
}

func TestMetricsFollowTheRulesOfPrometheus(t *testing.T) {
	t.Parallel()
	problems, err := testutil.GatherAndLint(telemetry.Registry)
	require.NoError(t, err)
	require.Empty(t, problems)
}
