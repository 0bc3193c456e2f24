package gitea_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/test/gitea"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(gitea.Main(m)) }

const patience = time.Minute

func TestAKilledServerStartsAgainWithItsAddressAndData(t *testing.T) {
	t.Parallel()
	s := gitea.Start(t)
	repo := s.Repository(t, map[string]string{"a.txt": "one\n", "b/c.txt": "two\n"})
	s.Branch(t, repo, "change", "main")
	commit := s.Commit(t, repo, "change", "Change a file", map[string]string{"a.txt": "three\n", "new.txt": "new\n"})
	require.Equal(t, commit, s.Head(t, repo, "change"))
	number := s.PullRequest(t, s.Bot, repo, "change", "main", "A change")
	svc := connect(t, s.URL, s.Bot)
	s.Kill(t)
	_, err := svc.PullRequest(t.Context(), repo, number)
	requireFault(t, err, contract.ClassInfra, contract.CodeUnavailable, repo, s.Bot.Token)
	require.Error(t, s.Call(t.Context(), s.Bot, http.MethodGet, "/version", nil, nil), "it is not there")
	s.Restart(t)
	got, err := svc.PullRequest(t.Context(), repo, number)
	require.NoError(t, err)
	require.Equal(t, commit, got.HeadCommit)

	hooks := gitea.Receive(t)
	s.Webhook(t, repo, hooks.URL, "secret", "issues")
	s.Issue(t, s.Owner, repo, "An issue", "")
	d := hooks.Await(t, "an opened issue", patience, func(d gitea.Delivery) bool { return d.Header.Get("X-Gitea-Event") == "issues" })
	require.NotEmpty(t, d.Header.Get("X-Gitea-Signature"))

	p := s.Proxy(t)
	p.Lose(func(r *http.Request) bool { return r.Method == http.MethodPost })
	resp, err := http.Post(p.URL+"/api/v1/repos/"+repo+"/issues", "application/json", http.NoBody)
	if err == nil {
		resp.Body.Close()
	}
	require.ErrorContains(t, err, "EOF")
	require.Equal(t, 1, p.Lost())
	s.Stop(t)
}
