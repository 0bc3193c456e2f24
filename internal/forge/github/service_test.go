package github_test

import (
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rocketgpt/orchestrator/internal/forge"
	"github.com/rocketgpt/orchestrator/internal/forge/forgehttp"
	"github.com/rocketgpt/orchestrator/internal/forge/forgetest"
	"github.com/rocketgpt/orchestrator/internal/forge/github"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func options(t *testing.T, address, token string) forgehttp.Options {
	t.Helper()
	u, err := url.Parse(address)
	require.NoError(t, err)
	return forgehttp.Options{Name: "hub", URL: u, Token: forgehttp.Static(token), Timeout: 5 * time.Second}
}

func open(t *testing.T, hub *forgetest.GitHub, token string) *github.Service {
	t.Helper()
	s, err := github.New(options(t, hub.URL(), token))
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

func TestTheClientKeepsTheContract(t *testing.T) {
	t.Parallel()
	forgetest.Contract(t, func(t *testing.T) forgetest.World {
		t.Helper()
		hub := forgetest.NewGitHub(t)
		repo := hub.Repository("octo/app")
		return forgetest.World{
			Service: open(t, hub, forgetest.BotToken), Repo: "octo/app", Missing: "octo/other",
			Login: forgetest.Bot, Member: forgetest.Member, Stranger: forgetest.Stranger,
			Push: repo.Push, Head: repo.Head, OpenIssue: repo.OpenIssue, Say: repo.Say, Approve: repo.Approve, SayOnLine: repo.SayOnLine, Job: repo.Job,
			Require: func(check string) { repo.Require(check) },
			As:      func(token string) forge.Service { return open(t, hub, token) },
			Faults:  hub.Faults,
		}
	})
}
