package doctor_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/doctor"
	"github.com/rocketgpt/orchestrator/internal/forge"
	"github.com/rocketgpt/orchestrator/internal/forge/connect"
	"github.com/rocketgpt/orchestrator/internal/forge/forgetest"
)

func TestRepositoriesOfTriggersAreCheckedOnTheirForges(t *testing.T) {
	t.Parallel()
	hub := forgetest.NewGitHub(t)
	repo := hub.Repository("octo/app")
	set, err := connect.New(map[string]config.Forge{"work": {Kind: "github", URL: hub.URL(), TokenEnv: "TOKEN"}}, func(string) string { return forgetest.BotToken })
	require.NoError(t, err)
	defer set.Close()
	run := func(path string) doctor.Result {
		return doctor.TriggerRepositories(set, []doctor.TriggerRepository{{Forge: "work", Repository: path, Triggers: []string{"a", "b"}}}).Run(t.Context())[0]
	}
	require.Equal(t, doctor.OK, run("octo/app").Status)
	missing := run("octo/none")
	require.Equal(t, doctor.Fail, missing.Status)
	require.Contains(t, missing.Remedy, "triggers.a, triggers.b")
	cloned := doctor.TriggerRepositories(set, []doctor.TriggerRepository{{Forge: "work", Repository: "octo/app", Triggers: []string{"a", "b"}, Cloned: []string{"b"}}}).Run(t.Context())[0]
	require.Equal(t, doctor.Fail, cloned.Status, "git uses no http")
	require.Contains(t, cloned.Remedy, "repo of triggers.b ")
	repo.SetMember(forgetest.Bot, forge.PermissionRead)
	require.Equal(t, doctor.Warn, run("octo/app").Status)
}

func TestSchedulesThatAreNotAsConfiguredAreReported(t *testing.T) {
	t.Parallel()
	run := func(problems []string, err error) doctor.Result {
		return doctor.TriggerSchedules(func(context.Context) ([]string, error) { return problems, err }).Run(t.Context())[0]
	}
	require.Equal(t, doctor.OK, run(nil, nil).Status)
	require.Equal(t, doctor.Fail, run(nil, errors.New("no connection")).Status)
	warned := run([]string{"the trigger a has no schedule", "the schedule of b is paused"}, nil)
	require.Equal(t, []any{doctor.Warn, "the trigger a has no schedule; the schedule of b is paused"}, []any{warned.Status, warned.Message})
}
