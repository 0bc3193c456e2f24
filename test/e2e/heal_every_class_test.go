package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/test/harness"
)

// everyClassRules are those of a run that meets a failure of every class, one
// after another.
func everyClassRules() harness.Rules {
	escape := calls(call("create_file", "path", "../out.txt", "content", "gotcha"))
	return first(makes(wrong),
		rule(on("agent", "planner", "attempt", 1), says(halfAPlan), 300),
		rule(on("agent", "planner", "attempt", 2), aCircle(), 300),
		rule(on("agent", "builder", "attempt", 1), escape, 50),
		rule(on("agent", "builder", "attempt", 2), status(402), 0),
		repairs(wrong, "crash", "attempt", 1), repairs("crash", "right", "attempt", 2),
	).Named("heal-every-class")
}

// everyClass is one run that meets a failure of every class in turn and still
// ends done: seven are healed, and with one a person has to help.
func (w *healTests) everyClass(t *testing.T) {
	files := unconfigured()
	settings := "[ -f settings.yaml ] || { echo 'Error: configuration file settings.yaml not found: open settings.yaml: no such file or directory'; exit 1; }\n"
	files["test.sh"] = "#!/bin/sh\n" + settings + healableRepo()["test.sh"][len("#!/bin/sh\n"):]
	repo := harness.Repo(t, filepath.Join(w.Dir, "repo-every-class"), files)
	id := w.startIn(t, repo, "heal-every-class", "--approve-release", "--set", "execution.max_retries=5")
	w.awaitApproval(t, id, "release")
	require.NoError(t, os.Rename(repo, repo+"-elsewhere"))
	w.OK(t, "run", "approve", arg(id))
	w.awaitQuestion(t, id)
	require.NoError(t, os.Rename(repo+"-elsewhere", repo))
	w.OK(t, "run", "approve", arg(id), "--reason", "it is back")
	w.end(t, id, contract.StatusDone)
	run := w.Inspect(t, id)
	require.Equal(t, []string{
		"LLM_ERROR invalid_output correct_json failed", "LOGIC_ERROR invalid_plan refine_plan success",
		"SAFETY_ERROR path_escape policy_correction failed", "INFRA_ERROR quota_exhausted other_provider success",
		"CONFIG_ERROR invalid_config create_defaults failed", "ASSERTION_ERROR tests_failed repair failed",
		"RUNTIME_ERROR command_crashed rerun_strict failed", "RUNTIME_ERROR command_crashed repair success",
		"HUMAN_ERROR repository ask_person success",
	}, healsOf(run))
	classes := map[contract.Class]bool{}
	for _, h := range run.SelfHealEvents {
		classes[h.ErrorType] = true
	}
	require.Len(t, classes, len(contract.Classes()), "every class there is")
	w.explained(t, run)
	require.Equal(t, "right", harness.Git(t, repo, "show", run.ReleaseBranch+":made.txt"))
	require.Equal(t, "greeting: hello", harness.Git(t, repo, "show", run.ReleaseBranch+":settings.yaml"))
}
