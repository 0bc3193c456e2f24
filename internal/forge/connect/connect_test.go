package connect_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/forge"
	"github.com/rocketgpt/orchestrator/internal/forge/connect"
	"github.com/rocketgpt/orchestrator/internal/forge/forgetest"
)

func TestTheForgeOfARemoteIsConnected(t *testing.T) {
	t.Parallel()
	hub, lab := forgetest.NewGitHub(t), forgetest.NewGitLab(t)
	hub.Repository("octo/app")
	lab.Repository("group/sub/app")
	set, err := connect.New(map[string]config.Forge{
		"hub": {Kind: "github", URL: hub.URL(), TokenEnv: "TOKEN"}, "lab": {Kind: "gitlab", URL: lab.URL() + "/", TokenEnv: "TOKEN"},
		"app": {Kind: "github", URL: "https://ghe.example.com", App: config.ForgeApp{ID: 1, KeyFile: "/does/not/exist"}},
	}, func(string) string { return forgetest.BotToken })
	require.NoError(t, err)
	t.Cleanup(set.Close)
	for remote, want := range map[string]struct {
		name, repo string
		kind       forge.Kind
	}{
		hub.Remote("octo/app"):      {"hub", "octo/app", forge.GitHub},
		lab.Remote("group/sub/app"): {"lab", "group/sub/app", forge.GitLab},
	} {
		service, name, repo, err := set.For(remote)
		require.NoError(t, err)
		require.Equal(t, []any{want.name, want.repo, want.kind}, []any{name, repo, service.Kind()})
		access, err := service.Access(t.Context(), repo)
		require.NoError(t, err)
		require.Equal(t, forgetest.Bot, access.Login)
		again, err := set.Named(name)
		require.NoError(t, err)
		require.Same(t, service, again, "it is connected once")
	}
	_, _, _, err = set.For("https://ghe.example.com/octo/app")
	require.ErrorContains(t, err, "cannot read the private key of the GitHub App 1")
}
