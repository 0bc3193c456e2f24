package connect_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/forge"
	"github.com/rocketgpt/orchestrator/internal/forge/connect"
)

func none(string) string { return "" }

func newSet(t testing.TB, forges map[string]config.Forge) *connect.Set {
	t.Helper()
	set, err := connect.New(forges, none)
	require.NoError(t, err)
	return set
}

func forges() map[string]config.Forge {
	return map[string]config.Forge{
		"hub":    {Kind: "github"},
		"lab":    {Kind: "gitlab"},
		"tea":    {Kind: "gitea", URL: "https://git.example.com/", Hosts: []string{"ssh.example.com"}},
		"below":  {Kind: "gitea", URL: "https://host.example.com/git/"},
		"ported": {Kind: "gitea", URL: "http://127.0.0.1:3001"},
		"other":  {Kind: "gitea", URL: "http://127.0.0.1:3002", Hosts: []string{"127.0.0.1:2222"}},
		"six":    {Kind: "gitlab", URL: "https://[2001:db8::1]:8443/gitlab", Hosts: []string{"[2001:db8::1]:22"}},
	}
}

func TestARemoteIsFoundInEveryFormThatGitKnows(t *testing.T) {
	t.Parallel()
	set := newSet(t, forges())
	for _, c := range []struct{ remote, name, repo string }{
		{"https://github.com/octo/app", "hub", "octo/app"},
		{"https://github.com/octo/app.git", "hub", "octo/app"},
		{"https://github.com/octo/app.git/", "hub", "octo/app"},
		{"https://github.com//octo/app//", "hub", "octo/app"},
		{"http://github.com/octo/app", "hub", "octo/app"},
		{"https://github.com:443/octo/app", "hub", "octo/app"},
		{"HTTPS://GitHub.com/Octo/App.js", "hub", "Octo/App.js"},
		{"https://me:secret@github.com/octo/app.git", "hub", "octo/app"},
		{"git@github.com:octo/app.git", "hub", "octo/app"},
		{"git@github.com:/octo/app.git", "hub", "octo/app"},
		{"github.com:octo/app", "hub", "octo/app"},
		{"org-1234@github.com:octo/app.git", "hub", "octo/app"},
		{"ssh://git@github.com/octo/app.git", "hub", "octo/app"},
		{"ssh://git@github.com:22/octo/app.git", "hub", "octo/app"},
		{"ssh://git@ssh.github.com:443/octo/app.git", "hub", "octo/app"},
		{"git+ssh://git@github.com/octo/app", "hub", "octo/app"},
		{"git://github.com/octo/app.git", "hub", "octo/app"},
		{"https://github.com/octo/%61pp", "hub", "octo/app"},
		{" https://github.com/octo/app\n", "hub", "octo/app"},
		{"https://github.com/octo/.github", "hub", "octo/.github"},
		{"https://gitlab.com/group/app.git", "lab", "group/app"},
		{"git@gitlab.com:group/sub/deeper/app.git", "lab", "group/sub/deeper/app"},
		{"ssh://git@altssh.gitlab.com:443/group/sub/app", "lab", "group/sub/app"},
		{"https://git.example.com/a/b", "tea", "a/b"},
		{"git@ssh.example.com:a/b", "tea", "a/b"},
		{"ssh://git@git.example.com:2222/a/b", "tea", "a/b"},
		{"[git@git.example.com:2222]:a/b.git", "tea", "a/b"},
		{"https://host.example.com/git/a/b.git", "below", "a/b"},
		{"git@host.example.com:a/b.git", "below", "a/b"},
		{"git@host.example.com:git/b.git", "below", "git/b"},
		{"http://127.0.0.1:3001/a/b", "ported", "a/b"},
		{"http://me@127.0.0.1:3002/a/b.git", "other", "a/b"},
		{"ssh://git@127.0.0.1:2222/a/b.git", "other", "a/b"},
		{"https://[2001:db8::1]:8443/gitlab/g/p", "six", "g/p"},
		{"ssh://git@[2001:db8::1]/g/p", "six", "g/p"},
		{"git@[2001:db8::1]:g/p", "six", "g/p"},
	} {
		name, repo, err := set.Find(c.remote)
		require.NoError(t, err, c.remote)
		require.Equal(t, []string{c.name, c.repo}, []string{name, repo}, c.remote)
	}
}

func TestAHostileRemoteIsRefused(t *testing.T) {
	t.Parallel()
	set := newSet(t, forges())
	for _, remote := range []string{
		"", "  ", "/srv/git/app.git", "../app", "file:///srv/git/app.git", `C:\git\app`, "C:/git/app",
		"https://github.com", "https://github.com/", "https://github.com/octo", "https://github.com/octo/", "https://github.com/octo/.git",
		"https://github.com/octo/app/extra", "https://github.com/octo/../app", "https://github.com/../octo/app", "https://github.com/octo/..",
		"https://github.com/%2e%2e/app", "https://github.com/octo%2fapp/x/y", "https://github.com/octo//app", "https://github.com/./app",
		"https://github.com/octo/app?x=1", "https://github.com/octo/app#x", "https://github.com/octo/a%00b", "https://github.com/octo/a%0ab",
		"https://github.com/octo/a b", "https://github.com/octo/a\x00b", "https://github.com/octo/a\nb", "https://github.com/octo/a\u202eb", "https://github.com/octo/ä",
		"https://github.com/-octo/app", "https://github.com/octo/--upload-pack=x", "git@github.com:octo/app;rm", "git@github.com:octo/$(x)",
		"git@github.com:", "git@github.com:octo", "git@github.com:../octo/app", "git@-oProxyCommand=x:octo/app", ":octo/app", "git@:octo/app",
		"ext::sh -c x", "ext::sh", "fd::3", "ftp://github.com/octo/app", "javascript://github.com/octo/app",
		"https://host.example.com/other/a/b", "https://host.example.com/git", "https://host.example.com/gitx/a/b",
		"https://gitlab.com/" + strings.Repeat("g/", 21) + "p", "https://github.com/octo/" + strings.Repeat("a", 3000), "https://%zz/octo/app",
	} {
		name, repo, err := set.Find(remote)
		require.Error(t, err, "%q is %s in %s", remote, repo, name)
		require.Equal(t, contract.ClassConfig, fault.Of(err).Class, remote)
	}
}

func TestARemoteOfNoForgeSaysWhatToAdd(t *testing.T) {
	t.Parallel()
	_, _, err := newSet(t, nil).Find("git@github.com:octo/app.git")
	require.Equal(t, "the remote github.com:octo/app.git belongs to none of the forges (none are configured); add its forge to the configuration, such as "+
		"forges: {github: {kind: github, token_env: GITHUB_TOKEN}}, or add github.com to hosts of a forge that also serves it", fault.Of(err).Message)
	require.True(t, fault.Is(err, contract.CodeInvalidConfig))

	_, _, err = newSet(t, map[string]config.Forge{"hub": {Kind: "github"}}).Find("https://me:secret@code.example.com:8443/a/b.git")
	require.Equal(t, "the remote https://code.example.com:8443/a/b.git belongs to none of the forges (configured: hub); add its forge to the configuration, such as "+
		"forges: {NAME: {kind: gitea, url: \"https://code.example.com:8443\", token_env: FORGE_TOKEN}} (kind: github, gitlab or gitea), or add code.example.com:8443 to hosts of a forge that also serves it", fault.Of(err).Message)

	// Another port is another server.
	_, _, err = newSet(t, forges()).Find("http://127.0.0.1:3003/a/b")
	require.ErrorContains(t, err, "belongs to none of the forges")
	_, _, err = newSet(t, forges()).Find("https://evil-github.com/a/b")
	require.ErrorContains(t, err, "belongs to none of the forges")
	_, _, err = newSet(t, forges()).Find("https://github.com.evil.example/a/b")
	require.ErrorContains(t, err, "belongs to none of the forges")
}

func TestARemoteOfTwoForgesNamesBoth(t *testing.T) {
	t.Parallel()
	set := newSet(t, map[string]config.Forge{"a": {Kind: "gitea", URL: "https://h.example.com:1"}, "b": {Kind: "gitea", URL: "https://h.example.com:2"}})
	_, _, err := set.Find("git@h.example.com:x/y")
	require.Equal(t, "the remote h.example.com:x/y may belong to the forges a and b; add its host and port to hosts of one of them", fault.Of(err).Message)
	name, _, err := set.Find("https://h.example.com:2/x/y")
	require.NoError(t, err)
	require.Equal(t, "b", name)
}

func TestTheForgeBelowThePathOfAnotherIsFound(t *testing.T) {
	t.Parallel()
	set := newSet(t, map[string]config.Forge{"root": {Kind: "gitea", URL: "https://h.example.com"}, "below": {Kind: "gitlab", URL: "https://h.example.com/lab"}})
	for remote, want := range map[string]string{
		"https://h.example.com/lab/a/b": "below", "https://h.example.com/labour/b": "root", "https://h.example.com/x/y": "root",
	} {
		name, _, err := set.Find(remote)
		require.NoError(t, err, remote)
		require.Equal(t, want, name, remote)
	}
}

func TestMissingCredentialsSayWhatToSet(t *testing.T) {
	t.Parallel()
	set := newSet(t, map[string]config.Forge{"hub": {Kind: "github"}, "lab": {Kind: "gitlab", TokenEnv: "GITLAB_TOKEN"}})
	_, _, _, err := set.For("https://github.com/octo/app")
	require.Equal(t, "the forge hub (https://github.com) cannot be used: no access token is configured; set forges.hub.token_env or token_file", fault.Of(err).Message)
	require.True(t, fault.Is(err, contract.CodeUnauthorized))
	_, err = set.Named("lab")
	require.ErrorContains(t, err, "the environment variable GITLAB_TOKEN is empty")
	_, err = set.Named("tea")
	require.Equal(t, `no forge is named "tea"; the setting forges has: hub, lab`, fault.Of(err).Message)
	require.Equal(t, []string{"hub", "lab"}, set.Names())
}

func FuzzRemote(f *testing.F) {
	for _, seed := range []string{"https://me:hunter2secret@github.com/octo/app.git", "git@gitlab.com:a/b/c.git", "[git@git.example.com:22]:a/b", "ssh://[::1]:22/a/b", "a::b", "hunter2secret@[::"} {
		f.Add(seed)
	}
	set := newSet(f, forges())
	kinds := map[string]forge.Kind{"hub": forge.GitHub, "lab": forge.GitLab, "six": forge.GitLab}
	f.Fuzz(func(t *testing.T, remote string) {
		name, repo, err := set.Find(remote)
		if err != nil {
			require.Equal(t, contract.ClassConfig, fault.Of(err).Class)
			return
		}
		kind := kinds[name]
		if kind == "" {
			kind = forge.Gitea
		}
		_, _, err = forge.SplitRepository(kind, repo)
		require.NoError(t, err)
	})
}

func TestARepositoryHasTheSpellingOfItsForge(t *testing.T) {
	t.Parallel()
	set := newSet(t, forges())
	for _, c := range []struct{ repo, pullRequest, want string }{
		{"TEAM/app", "https://git.example.com/Team/App/pulls/7", "Team/App"},
		{"team/old-name", "https://git.example.com/team/app/pulls/7", "team/app"},
		{"Team/App", "http://localhost:3000/Team/App/pulls/7", "team/app"},
		{"Team/App", "https://github.com/other/app/pull/7", "team/app"},
		{"Team/App", "https://git.example.com/Team/App", "team/app"},
		{"Team/App", "", "team/app"},
	} {
		require.Equal(t, c.want, set.Spelling("tea", c.repo, c.pullRequest), c.pullRequest)
	}
}
