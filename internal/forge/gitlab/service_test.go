package gitlab_test

import (
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rocketgpt/orchestrator/internal/forge"
	"github.com/rocketgpt/orchestrator/internal/forge/forgehttp"
	"github.com/rocketgpt/orchestrator/internal/forge/forgetest"
	"github.com/rocketgpt/orchestrator/internal/forge/gitlab"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func options(t *testing.T, address, token string) forgehttp.Options {
	t.Helper()
	u, err := url.Parse(address)
	require.NoError(t, err)
	return forgehttp.Options{Name: "lab", URL: u, Token: forgehttp.Static(token), Timeout: 5 * time.Second}
}

func open(t *testing.T, lab *forgetest.GitLab, token string) *gitlab.Service {
	t.Helper()
	s, err := gitlab.New(options(t, lab.URL(), token))
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

func TestTheClientKeepsTheContract(t *testing.T) {
	t.Parallel()
	forgetest.Contract(t, func(t *testing.T) forgetest.World {
		t.Helper()
		lab := forgetest.NewGitLab(t)
		repo := lab.Repository("group/sub/app")
		return forgetest.World{
			Service: open(t, lab, forgetest.BotToken), Repo: "group/sub/app", Missing: "group/other",
			Login: forgetest.Bot, Member: forgetest.Member, Stranger: forgetest.Stranger,
			Push: repo.Push, Head: repo.Head, OpenIssue: repo.OpenIssue, Say: repo.Say, Approve: repo.Approve, SayOnLine: repo.SayOnLine, Job: repo.Job,
			As:     func(token string) forge.Service { return open(t, lab, token) },
			Faults: lab.Faults,
		}
	})
}
