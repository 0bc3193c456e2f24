package gitea_test

import (
	"net/http"
	"strings"
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

func TestATestActsDuringARequest(t *testing.T) {
	t.Parallel()
	s := gitea.Shared(t)
	repo := s.Repository(t, nil)
	p := gitea.NewProxy(t)
	issues := func() int {
		var all []struct{ Number int64 }
		s.Do(t, s.Owner, http.MethodGet, "/repos/"+repo+"/issues", nil, &all)
		return len(all)
	}
	create := func() error {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.URL+"/api/v1/repos/"+repo+"/issues", strings.NewReader(`{"title": "An issue"}`))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "token "+s.Owner.Token)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		resp.Body.Close()
		require.Equal(t, http.StatusCreated, resp.StatusCode)
		return nil
	}
	require.Error(t, create(), "nothing is there yet")
	p.Forward(t, s.URL)
	var seen []int
	match := func(r *http.Request) bool { return r.Method == http.MethodPost }
	p.Meet(&gitea.Meeting{Match: match, Before: func() { seen = append(seen, issues()) }})
	p.Meet(&gitea.Meeting{Match: match, After: func() bool { seen = append(seen, issues()); return true }})
	require.NoError(t, create())
	require.ErrorContains(t, create(), "EOF", "its answer is lost")
	require.NoError(t, create(), "each meeting takes place once")
	require.Equal(t, []int{0, 2}, seen)
	require.Equal(t, 1, p.Lost())
}
