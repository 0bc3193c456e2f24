package connect_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/forge/connect"
)

func issueSet(t *testing.T) *connect.Set {
	t.Helper()
	all := forges()
	for name, f := range all {
		f.TokenEnv = "TOKEN"
		all[name] = f
	}
	set, err := connect.New(all, func(string) string { return "secret-token" })
	require.NoError(t, err)
	return set
}

func TestAnIssueIsFoundByItsAddressOnEachForge(t *testing.T) {
	t.Parallel()
	set := issueSet(t)
	for address, want := range map[string]connect.Issue{
		"https://github.com/octo/app/issues/12":                     {Forge: "hub", Repo: "octo/app", Number: 12, URL: "https://github.com/octo/app/issues/12", Clone: "https://github.com/octo/app.git"},
		" https://github.com/octo/app/issues/12#issuecomment-3\n":   {Forge: "hub", Repo: "octo/app", Number: 12, URL: "https://github.com/octo/app/issues/12", Clone: "https://github.com/octo/app.git"},
		"https://github.com/octo/app/issues/12/?x=1":                {Forge: "hub", Repo: "octo/app", Number: 12, URL: "https://github.com/octo/app/issues/12", Clone: "https://github.com/octo/app.git"},
		"https://github.com/octo/issues/issues/7":                   {Forge: "hub", Repo: "octo/issues", Number: 7, URL: "https://github.com/octo/issues/issues/7", Clone: "https://github.com/octo/issues.git"},
		"https://gitlab.com/group/sub/app/-/issues/12":              {Forge: "lab", Repo: "group/sub/app", Number: 12, URL: "https://gitlab.com/group/sub/app/-/issues/12", Clone: "https://gitlab.com/group/sub/app.git"},
		"https://gitlab.com/group/app/-/work_items/3":               {Forge: "lab", Repo: "group/app", Number: 3, URL: "https://gitlab.com/group/app/-/issues/3", Clone: "https://gitlab.com/group/app.git"},
		"https://gitlab.com/group/app/issues/3":                     {Forge: "lab", Repo: "group/app", Number: 3, URL: "https://gitlab.com/group/app/-/issues/3", Clone: "https://gitlab.com/group/app.git"},
		"https://host.example.com/git/a/b/issues/1":                 {Forge: "below", Repo: "a/b", Number: 1, URL: "https://host.example.com/git/a/b/issues/1", Clone: "https://host.example.com/git/a/b.git"},
		"http://127.0.0.1:3001/a/b/issues/1":                        {Forge: "ported", Repo: "a/b", Number: 1, URL: "http://127.0.0.1:3001/a/b/issues/1", Clone: "http://127.0.0.1:3001/a/b.git"},
		"https://me:hunter2@git.example.com/a/b/issues/1":           {Forge: "tea", Repo: "a/b", Number: 1, URL: "https://git.example.com/a/b/issues/1", Clone: "https://git.example.com/a/b.git"},
		"https://ssh.example.com/a/b/issues/999999999999999999":     {Forge: "tea", Repo: "a/b", Number: 999999999999999999, URL: "https://git.example.com/a/b/issues/999999999999999999", Clone: "https://git.example.com/a/b.git"},
		"https://[2001:db8::1]:8443/gitlab/g/h/p/-/issues/5#note_1": {Forge: "six", Repo: "g/h/p", Number: 5, URL: "https://[2001:db8::1]:8443/gitlab/g/h/p/-/issues/5", Clone: "https://[2001:db8::1]:8443/gitlab/g/h/p.git"},
	} {
		got, err := set.Issue(address)
		require.NoError(t, err, address)
		require.NotNil(t, got.Service)
		got.Service = nil
		require.Equal(t, want, got, address)
		again, err := set.IssueURL(got.Forge, got.Repo, got.Number)
		require.NoError(t, err)
		require.Equal(t, got.URL, again)
	}
}

func TestWhatIsNotTheAddressOfAnIssueIsRefused(t *testing.T) {
	t.Parallel()
	set := issueSet(t)
	for _, address := range []string{
		"", "12", "#12", "octo/app#12", "https://github.com/octo/app", "https://github.com/octo/app/issues", "https://github.com/octo/app/issues/",
		"https://github.com/octo/app/issues/0", "https://github.com/octo/app/issues/-1", "https://github.com/octo/app/issues/012", "https://github.com/octo/app/issues/1e3",
		"https://github.com/octo/app/issues/12345678901234567890", "https://github.com/octo/app/pull/12", "https://github.com/octo/app/issues/12/edit",
		"https://github.com/octo/issues/12", "https://github.com/issues/12", "https://github.com/a/b/c/issues/12", "https://github.com/octo/../app/issues/12",
		"https://github.com/octo/%2e%2e/issues/12", "https://github.com/octo/a\u202eb/issues/12", "https://github.com/octo/a b/issues/12",
		"ssh://git@github.com/octo/app/issues/12", "git@github.com:octo/app/issues/12", "file:///octo/app/issues/12", "javascript://github.com/octo/app/issues/12",
		"https://evil.example.com/octo/app/issues/12", "https://github.com.evil.example/octo/app/issues/12", "https://github.com:444/octo/app/issues/12",
		"https://github.com/" + strings.Repeat("a", 3000) + "/app/issues/12", "https://github.com\\@evil.example/octo/app/issues/12", "https://github.com/octo/app/issues/12\x00",
	} {
		got, err := set.Issue(address)
		require.Error(t, err, "%q is %v", address, got)
		require.Equal(t, contract.ClassConfig, fault.Of(err).Class, address)
		require.NotContains(t, err.Error(), "hunter2")
	}
	_, err := set.Issue("https://me:hunter2@github.com/octo/app/pull/12")
	require.Equal(t, "https://github.com/octo/app/pull/12 is not the address of an issue; expected one such as https://github.com/owner/name/issues/12", fault.Of(err).Message)
	_, err = newSet(t, map[string]config.Forge{"hub": {Kind: "github"}}).Issue("https://github.com/octo/app/issues/12")
	require.ErrorContains(t, err, "set forges.hub.token_env or token_file")
	_, err = set.IssueURL("nowhere", "a/b", 1)
	require.ErrorContains(t, err, `no forge is named "nowhere"`)
}
