package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/config"
)

func TestAForgeNeedsOnlyItsKind(t *testing.T) {
	t.Parallel()
	c, err := load(t, "forges: {hub: {kind: github}}")
	require.NoError(t, err)
	require.Equal(t, config.Forge{Kind: "github", Timeout: config.DefaultForgeTimeout, Poll: time.Minute, PollLimit: 120}, c.Forges["hub"])

	c, err = load(t, `
forges:
  own:
    kind: gitea
    url: https://git.example.com:3000/git/
    hosts: [ssh.example.com, "git.example.com:2222", 10.0.0.1]
    token_file: /run/secrets/token
    webhook_secret_env: HOOK
    timeout: 90s
    poll: 5m
    poll_limit: 60
  app: {kind: github, app: {id: 12, installation: 34, key_file: /run/secrets/key.pem}}
`)
	require.NoError(t, err)
	require.Equal(t, config.Forge{
		Kind: "gitea", URL: "https://git.example.com:3000/git/", Hosts: []string{"ssh.example.com", "git.example.com:2222", "10.0.0.1"},
		TokenFile: "/run/secrets/token", WebhookSecretEnv: "HOOK", Timeout: 90 * time.Second, Poll: 5 * time.Minute, PollLimit: 60,
	}, c.Forges["own"])
	require.Equal(t, config.ForgeApp{ID: 12, Installation: 34, KeyFile: "/run/secrets/key.pem"}, c.Forges["app"].App)
}

func TestTheEnvironmentSetsAForge(t *testing.T) {
	t.Parallel()
	c, err := config.Load(config.Sources{Env: []string{"RGPT_FORGES_HUB_KIND=github", "RGPT_FORGES_HUB_TOKEN_ENV=GITHUB_TOKEN"}})
	require.NoError(t, err)
	require.Equal(t, config.Forge{Kind: "github", TokenEnv: "GITHUB_TOKEN", Timeout: config.DefaultForgeTimeout, Poll: time.Minute, PollLimit: 120}, c.Forges["hub"])
}

func TestMistakesAboutForgesSayWhatIsExpected(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, want string }{
		{"{url: 'https://h'}", `forges.x.kind: is missing; expected one of github, gitlab, gitea`},
		{"{kind: bitbucket}", `forges.x.kind: expected one of github, gitlab, gitea, got "bitbucket"`},
		{"{kind: gitea}", `forges.x.url: is missing; forges of kind "gitea" have no default URL`},
		{"{kind: gitea, url: 'ssh://git@h'}", `forges.x.url: expected an http or https URL without credentials, a query or a fragment, got a value that is not shown because it may be secret`},
		{"{kind: gitea, url: 'https://me:secret@h'}", `forges.x.url: expected an http or https URL without credentials, a query or a fragment, got a value that is not shown because it may be secret`},
		{"{kind: gitea, url: 'https://h/?a=b'}", `forges.x.url: expected`},
		{"{kind: gitea, url: 'https://h/a/../b'}", `forges.x.url: expected`},
		{"{kind: github, hosts: [a.com/b]}", `forges.x.hosts[0]: expected a host such as ssh.example.com or git.example.com:2222, got "a.com/b"`},
		{"{kind: github, hosts: ['a.com:0']}", `forges.x.hosts[0]: expected a host`},
		{"{kind: github, token: ghp_x}", `forges.x.token: unknown key; secrets do not belong in this file; use token_env or token_file`},
		{"{kind: github, token_env: ghp-x}", `forges.x.token_env: expected the name of an environment variable, not its value, got a value that is not shown`},
		{"{kind: github, timeout: 1ms}", `forges.x.timeout: expected a duration`},
		{"{kind: gitlab, app: {id: 1, key_file: k}}", `forges.x.app: is allowed only for the kind github`},
		{"{kind: github, token_env: A, app: {id: 1, key_file: k}}", `forges.x.app: cannot be combined with token_env or token_file`},
		{"{kind: github, app: {key_file: k}}", `forges.x.app.id: is missing`},
		{"{kind: github, app: {id: 1}}", `forges.x.app.key_file: is missing`},
	} {
		_, err := load(t, "forges: {x: "+c.in+"}")
		require.ErrorContains(t, err, c.want, c.in)
		require.NotContains(t, err.Error(), "me:secret")
		require.NotContains(t, err.Error(), "ghp")
	}
	_, err := load(t, "forges: {X y: {kind: github}}")
	require.ErrorContains(t, err, "forges.X y: invalid key; expected a name")
}

func TestTheCredentialsOfForgesAreSecret(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	key := "-----BEGIN RSA PRIVATE KEY-----\n" + strings.Repeat("k", 64) + "\n" + strings.Repeat("K", 20) + "\nAB==\n-----END RSA PRIVATE KEY-----\n"
	c, err := load(t, `
forges:
  a: {kind: github, token_env: TOKEN, webhook_secret_file: `+write(t, dir, "hook", "from-a-file\n")+`}
  b: {kind: github, app: {id: 1, key_file: `+write(t, dir, "key.pem", key)+`}}
  c: {kind: gitlab, token_file: /does/not/exist}
`)
	require.NoError(t, err)
	env := map[string]string{"TOKEN": "from-the-environment"}
	getenv := func(name string) string { return env[name] }
	require.ElementsMatch(t, []string{"from-the-environment", "from-a-file", strings.Repeat("k", 64), strings.Repeat("K", 20)}, c.Secrets(getenv))

	token, err := c.Forges["a"].Token(getenv)
	require.NoError(t, err)
	require.Equal(t, "from-the-environment", token)
	_, err = c.Forges["a"].Token(func(string) string { return "" })
	require.EqualError(t, err, "the access token is missing: the environment variable TOKEN is empty")
	_, err = c.Forges["a"].Token(func(string) string { return "secret value" })
	require.EqualError(t, err, "the access token in the environment variable TOKEN must be a single line without spaces")
	_, err = c.Forges["b"].WebhookSecret(getenv)
	require.EqualError(t, err, "no webhook secret is configured")
	_, err = c.Forges["c"].Token(getenv)
	require.ErrorContains(t, err, "the access token cannot be read: open /does/not/exist")
}
