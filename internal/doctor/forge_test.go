package doctor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/doctor"
	"github.com/rocketgpt/orchestrator/internal/forge"
	"github.com/rocketgpt/orchestrator/internal/forge/connect"
	"github.com/rocketgpt/orchestrator/internal/forge/forgetest"
)

func TestForgesAreCheckedWithTheirCredentialsAndRights(t *testing.T) {
	t.Parallel()
	hub, lab := forgetest.NewGitHub(t), forgetest.NewGitLab(t)
	repo := hub.Repository("octo/app")
	env := map[string]string{"TOKEN": forgetest.BotToken, "WRONG": "tok-wrong-0123456789"}
	run := func(remote string, forges map[string]config.Forge) []doctor.Result {
		set, err := connect.New(forges, func(name string) string { return env[name] })
		require.NoError(t, err)
		results := doctor.ForgeAccess(set, remote).Run(t.Context())
		set.Close()
		return results
	}
	require.Equal(t, doctor.OK, run("", nil)[0].Status)
	forges := map[string]config.Forge{
		"a": {Kind: "github", URL: hub.URL(), TokenEnv: "TOKEN"}, "b": {Kind: "gitlab", URL: lab.URL(), TokenEnv: "WRONG"}, "c": {Kind: "github", TokenEnv: "NONE"},
	}
	results := run(hub.Remote("octo/app"), forges)
	require.Equal(t, []string{"forge: a", "forge: b", "forge: c"}, []string{results[0].Check, results[1].Check, results[2].Check})
	require.Equal(t, []doctor.Status{doctor.OK, doctor.Fail, doctor.Fail}, []doctor.Status{results[0].Status, results[1].Status, results[2].Status})
	require.Equal(t, "github responds; used as rgpt, which has the rights that pull requests of octo/app need, as far as the forge says", results[0].Message)
	require.Contains(t, results[1].Message, "HTTP 401 Unauthorized")
	require.NotContains(t, results[1].Message, "tok-wrong")
	require.Contains(t, results[2].Message, "the environment variable NONE is empty")

	require.Equal(t, "github responds; used as rgpt", run("git@elsewhere.example.com:a/b.git", forges)[0].Message)
	repo.SetMember(forgetest.Bot, forge.PermissionRead)
	results = run(hub.Remote("octo/app"), forges)
	require.Equal(t, doctor.Warn, results[0].Status)
	require.Contains(t, results[0].Message, "lacks rights in octo/app: write access to the repository")
}
