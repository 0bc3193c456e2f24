package eval_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/eval"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	base  = "0123456789abcdef0123456789abcdef01234567"
	patch = "diff --git a/tests/test_a.py b/tests/test_a.py\n--- a/tests/test_a.py\n+++ b/tests/test_a.py\n@@ -1 +1 @@\n-old\n+new\n"
)

func write(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

func task() eval.Task {
	return eval.Task{
		ID: "one", Repo: "owner/name", Base: base, Goal: eval.Goal{Title: "Fix it", Description: "It fails.\nAlways."},
		Tests: eval.Tests{Patch: patch}, FailToPass: []string{"a"}, PassToPass: []string{"b"}, Environment: map[string]any{"setup": []any{"make deps"}},
		Settings: map[string]string{"execution.max_retries": "1"}, Timeout: eval.Duration(30 * time.Minute), Solution: patch,
	}
}

func TestASetThatIsWrittenIsReadAgain(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(*strings.Builder, eval.Set) error{
		"set.yaml":  func(b *strings.Builder, s eval.Set) error { return eval.WriteYAML(b, s) },
		"set.jsonl": func(b *strings.Builder, s eval.Set) error { return eval.WriteLines(b, s) },
	} {
		var text strings.Builder
		require.NoError(t, write(&text, eval.Set{Name: "set", Tasks: []eval.Task{task()}}))
		file := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(file, []byte(text.String()), 0o600))
		s, err := eval.Load(file)
		require.NoError(t, err)
		require.Equal(t, eval.Set{Name: "set", Tasks: []eval.Task{task()}}, s)
	}
}

func TestPublishedInstancesBecomeTasks(t *testing.T) {
	t.Parallel()
	line := `{"instance_id":"o__n-1","repo":"o/n","base_commit":"` + base + `","problem_statement":"Title here\n\nBody","patch":"p","test_patch":"diff --git a/tests/test_a.py b/tests/test_a.py\n--- a/tests/test_a.py\n+++ b/tests/test_a.py\n@@ -1 +1 @@\n-old\n+new\n",
"FAIL_TO_PASS":"[\"tests/test_a.py::test_x\"]","PASS_TO_PASS":["tests/test_a.py::test_y"],"hints_text":"not used",
"install_config":{"python":"3.9","pre_install":["apt-get update"],"pip_packages":["pytest","it's"],"install":"pip install -e .","reqs_path":null,"test_cmd":"pytest -rA"}}`
	s, err := eval.Load(write(t, "rebench.jsonl", strings.ReplaceAll(line, "\n", "")+"\n\n"))
	require.NoError(t, err)
	require.Equal(t, "rebench", s.Name)
	got := s.Tasks[0]
	require.Equal(t, eval.Goal{Title: "Title here", Description: "Body"}, got.Goal)
	require.Equal(t, []string{"tests/test_a.py::test_x"}, got.FailToPass)
	require.Equal(t, []string{"tests/test_a.py::test_y"}, got.PassToPass)
	require.Equal(t, "p", got.Solution)
	require.Equal(t, "pytest -rA 'tests/test_a.py' --junitxml=.rgpt-eval.xml", got.Tests.Command)
	require.Equal(t, map[string]any{"setup": []any{"apt-get update", `python -m pip install 'pytest' 'it'\''s'`, "pip install -e ."}}, got.Environment)
}

func TestAWrongSetNamesItsMistakes(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*eval.Task){
		"base":                  func(t *eval.Task) { t.Base = "main" },
		"repo is missing":       func(t *eval.Task) { t.Repo = "" },
		"goal.title":            func(t *eval.Task) { t.Goal.Title = " " },
		"neither a patch nor a": func(t *eval.Task) { t.Tests = eval.Tests{} },
		"id must have":          func(t *eval.Task) { t.ID = "../up" },
		"the name of a test":    func(t *eval.Task) { t.FailToPass = []string{""} },
	} {
		x := task()
		change(&x)
		require.ErrorContains(t, eval.Set{Tasks: []eval.Task{x}}.Check(), want)
	}
	require.ErrorContains(t, eval.Set{Tasks: []eval.Task{task(), task()}}.Check(), "used twice")
	_, err := eval.Load(write(t, "bad.yaml", "tasks: []\nunknown: 1\n"))
	require.ErrorContains(t, err, "bad.yaml")
	require.Equal(t, contract.ClassConfig, fault.Of(err).Class)
	_, err = eval.Load(write(t, "set.txt", ""))
	require.ErrorContains(t, err, "must end in")
}

func TestVariantsExcludeWhatContradicts(t *testing.T) {
	t.Parallel()
	for want, v := range map[string]eval.Variant{
		"an oracle excludes": {Name: "a", Oracle: eval.OracleExact, Model: "p/m"},
		"oracle must be":     {Name: "a", Oracle: "sometimes"},
		"requires a model":   {Name: "a", Driver: &eval.Driver{Command: "x"}},
		"a preset or a":      {Name: "a", Model: "p/m", Driver: &eval.Driver{}},
		"has no value":       {Name: "a", Config: map[string]any{"x": nil}},
		"must have letters":  {Name: "a b"},
	} {
		require.ErrorContains(t, eval.CheckVariants([]eval.Variant{v}), want)
	}
	s, err := eval.Variant{Config: map[string]any{"execution": map[string]any{"max_retries": 2}, "models.timeout": "1m", "list": []any{"a"}}}.Settings()
	require.NoError(t, err)
	require.Equal(t, map[string]string{"execution.max_retries": "2", "models.timeout": "1m", "list": `["a"]`}, s)
}
