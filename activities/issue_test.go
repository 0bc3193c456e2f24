package activities

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
)

func TestOnlyAnIssueOfTheSameForgeIsClosed(t *testing.T) {
	t.Parallel()
	about := &contract.Issue{Forge: "work", Repo: "team/app", Number: 12}
	for _, c := range []struct {
		issue       *contract.Issue
		close       bool
		forge, repo string
		want        string
	}{
		{about, true, "work", "team/app", "#12"},
		{about, true, "work", "Team/App", "#12"},
		{about, true, "work", "team/other", "team/app#12"},
		{about, true, "other", "team/app", ""},
		{about, false, "work", "team/app", ""},
		{nil, true, "work", "team/app", ""},
	} {
		run := store.Run{Settings: contract.Settings{Issue: c.issue, Release: contract.ReleaseSettings{PullRequest: &contract.PullRequestSettings{CloseIssue: c.close}}}}
		require.Equal(t, c.want, closes(run, c.forge, c.repo, false))
		ofSet := c.want
		if c.forge == "work" && c.repo == "team/other" {
			ofSet = ""
		}
		require.Equal(t, ofSet, closes(run, c.forge, c.repo, true), "of a set, only the one in the repository of the issue closes it")
	}
}
