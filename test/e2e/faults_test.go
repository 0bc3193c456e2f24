package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/test/harness"
)

// outcome is how a run of a scenario ends. An empty class is a done run.
type outcome struct {
	class contract.Class
	code  contract.Code
	says  string // in the failure's message
	check func(t *testing.T, run views.RunDetails)
}

// unhealed lets a run end with its first failure.
var unhealed = []string{"--set", "execution.max_retries=0"}

// faults runs every fault of the examples.
func (w *stackTests) faults(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(harness.Root(), "examples", "go", "fault-*.yaml"))
	require.NoError(t, err)
	expected := map[string]outcome{
		"fault-cycle":        {class: contract.ClassLogic, code: contract.CodeInvalidPlan, says: "dependency cycle"},
		"fault-escape":       {class: contract.ClassSafety, code: contract.CodePathEscape, says: "step-001"},
		"fault-invalid-plan": {class: contract.ClassLLM, code: contract.CodeInvalidOutput},
		"fault-loop":         {class: contract.ClassLLM, code: contract.CodeLoop, says: "read_file"},
		"fault-red-test":     {class: contract.ClassAssertion, code: contract.CodeTestsFailed, says: "test", check: redTestIsFound},
		"fault-rate-limit":   {check: w.requireStatus(429)},
		"fault-server-error": {check: w.requireStatus(500)},
	}
	ids := map[string]int64{}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		require.Contains(t, expected, name, "the test knows how it ends")
		ids[name] = w.startIn(t, w.sample, name, unhealed...)
	}
	require.Len(t, ids, len(expected))
	for name, want := range expected {
		t.Run(name, func(t *testing.T) { w.ends(t, ids[name], want) })
	}
}

func (w *stackTests) ends(t *testing.T, id int64, want outcome) {
	t.Helper()
	var run views.RunDetails
	if want.class == "" {
		w.end(t, id, contract.StatusDone)
		run = w.Inspect(t, id)
	} else {
		run = w.failed(t, id, want.class, want.code)
		require.Contains(t, run.Failure.Message, want.says)
	}
	if want.check != nil {
		want.check(t, run)
	}
}

func redTestIsFound(t *testing.T, run views.RunDetails) {
	t.Helper()
	require.Len(t, run.Findings, 2)
	edited, red := run.Findings[0], run.Findings[1]
	require.Equal(t, "pinned-tests/edited", edited.Rule)
	require.Equal(t, contract.SeverityMedium, edited.Severity)
	for _, f := range run.Findings {
		require.Equal(t, contract.CategoryTest, f.Category)
		require.Contains(t, f.Location, "greeter_test.go:")
	}
	require.Equal(t, contract.SeverityMajor, red.Severity)
	require.Contains(t, run.Failure.Message, "the change also modified tests: TestGreet was edited")
}

// requireStatus requires that the model answered with a status, so that the fault fired.
func (w *stackTests) requireStatus(status int) func(t *testing.T, run views.RunDetails) {
	return func(t *testing.T, run views.RunDetails) {
		t.Helper()
		fired := 0
		for _, e := range w.Requests(t, run.ID) {
			if e.Status == status {
				fired++
			}
		}
		require.Positive(t, fired, "the fault fired")
	}
}
