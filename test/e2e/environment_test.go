package e2e

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/devstack"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/test/harness"
)

// busySetup keeps a set-up at work for some seconds, so that it can be met in its midst.
const busySetup = `i=0; while [ $i -lt 1500000 ]; do i=$((i+1)); done`

// needing is a repository whose tests need what its set-up installs: a package in
// the work tree and a tool in the home.
func needing(setup ...string) map[string]string {
	setup = append(setup,
		`mkdir -p node_modules/greeting ~/.local/bin && cat lock.txt > node_modules/greeting/version && od -An -N8 -tx8 /dev/urandom > node_modules/greeting/made`,
		`printf '#!/bin/sh\necho tool\n' > ~/.local/bin/tool && chmod +x ~/.local/bin/tool`,
	)
	list, _ := json.Marshal(setup)
	return map[string]string{
		".gitignore": "node_modules/\n", "lock.txt": "1\n",
		"test.sh":   "#!/bin/sh\n[ \"$(~/.local/bin/tool)\" = tool ] && [ \"$(cat lock.txt)\" = \"$(cat node_modules/greeting/version)\" ] || { echo 'not installed'; exit 1; }\n[ ! -f broken ]\n",
		"rgpt.yaml": fmt.Sprintf("verification:\n  auto_detect: false\n  test: {command: sh test.sh, format: exit-code}\nenvironment:\n  setup: %s\n", list),
	}
}

// environmentEvents are those that tell how a run was prepared.
func environmentEvents(run views.RunDetails) []contract.EventType {
	var out []contract.EventType
	for _, e := range run.Events {
		if strings.HasPrefix(string(e.Type), "environment.") || strings.HasPrefix(string(e.Type), "baseline.") {
			out = append(out, e.Type)
		}
	}
	return out
}

// TestManyRunsOfAColdRepositoryMakeOneEnvironment starts runs at once whose
// repository nobody has set up yet, and kills the worker, Temporal and Postgres in
// the midst of the set-up.
func TestManyRunsOfAColdRepositoryMakeOneEnvironment(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, harness.Options{Scenario: quickRules("20ms")})
	repo := harness.Repo(t, filepath.Join(s.Dir, "cold"), needing(busySetup))
	var ids []int64
	for range 6 {
		ids = append(ids, s.Create(t, "--repo", repo, "--goal", "Quick"))
	}
	db := s.Store(t)
	for _, role := range []devstack.Role{devstack.RoleWorker, devstack.RoleTemporal, devstack.RolePostgres} {
		harness.Await(t, "a set-up is under way", longest, func() (bool, string) {
			events, err := db.Events(t.Context(), ids[0], 0, 100)
			if err != nil {
				return false, err.Error()
			}
			return slices.ContainsFunc(events, func(e contract.Event) bool { return e.Type == contract.EventEnvironmentStarted }), "not begun"
		})
		s.Kill(t, role)
		s.Up(t)
	}
	digests := map[string]int{}
	for _, id := range ids {
		s.AwaitEnd(t, db, id, longest)
		run := s.Inspect(t, id)
		require.Equal(t, contract.StatusDone, run.Status, "%v", run.Failure)
		require.NotNil(t, run.Environment)
		require.Equal(t, contract.EventBaselineReady, environmentEvents(run)[len(environmentEvents(run))-1])
		digests[run.Environment.Digest]++
	}
	require.Len(t, digests, 1)
	made, err := db.Environments(t.Context(), repo, 10)
	require.NoError(t, err)
	require.Len(t, made, 1, "one set-up")
	baseline, err := db.Baseline(t.Context(), s.Inspect(t, ids[0]).Baseline.Key)
	require.NoError(t, err)
	require.Len(t, slices.DeleteFunc(baseline.Checks, func(c store.BaselineCheck) bool { return c.Result.Check.Category == contract.CategorySecurity }), 1, "one baseline")
	harness.CheckInvariants(t, s, ids...)
	s.CheckSandboxes(t)
}

// TestASetupThatFailsIsAQuestionThatAPersonCanAnswer breaks a set-up and mends it
// by hand.
func TestASetupThatFailsIsAQuestionThatAPersonCanAnswer(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, harness.Options{Scenario: quickRules("20ms"), Config: "environment: {agent_turns: 0}\n"})
	repo := harness.Repo(t, filepath.Join(s.Dir, "broken"), needing("echo 'libfoo is missing' >&2; exit 3"))
	id := s.Create(t, "--repo", repo, "--goal", "Quick")
	db := s.Store(t)
	harness.Await(t, "it asks", longest, func() (bool, string) {
		run, err := db.Run(t.Context(), id)
		return err == nil && run.WaitingFor == contract.InterventionEnvironment, fmt.Sprint(run.Status, err)
	})
	require.Empty(t, s.Requests(t, id), "nothing is paid before")
	run := s.Inspect(t, id)
	asked := run.Interventions[len(run.Interventions)-1]
	require.Contains(t, asked.Reason, "exit 3")
	require.Contains(t, asked.ActionRequired, "rgpt env set")
	s.OK(t, "run", "reject", fmt.Sprint(id), "--reason", "another day")
	ended := s.AwaitEnd(t, db, id, longest)
	require.Equal(t, contract.StatusFailed, ended.Status)
	require.Equal(t, contract.ClassConfig, ended.Failure.Class)
	require.Empty(t, s.Requests(t, id))

	s.OK(t, "env", "set", "--repo", repo, "--command", "mkdir -p node_modules/greeting ~/.local/bin && cat lock.txt > node_modules/greeting/version",
		"--command", `printf '#!/bin/sh\necho tool\n' > ~/.local/bin/tool && chmod +x ~/.local/bin/tool`, "--reason", "libfoo is not needed")
	s.OK(t, "run", "resume", fmt.Sprint(id))
	s.AwaitStatus(t, db, id, contract.StatusDone, longest)
	harness.CheckInvariants(t, s, id)
}
