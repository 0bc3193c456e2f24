package report_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/runs/report"
	"github.com/rocketgpt/orchestrator/internal/store/changesets"
)

// threeChanges is a set of three runs, of which the first two have pull requests.
func threeChanges() report.ChangeSet {
	at := time.Now()
	pr := func(n int64) *changesets.PullRequest {
		return &changesets.PullRequest{Repo: fmt.Sprint("team/app", n), Number: n, URL: fmt.Sprint("https://git.example.com/", n), State: contract.PullRequestOpen}
	}
	return report.ChangeSet{Run: 41, Link: func(id int64) string { return fmt.Sprint("https://rgpt.example.com/runs/", id) }, Set: changesets.Set{
		ID: 7, DecidedAt: &at, Outcome: contract.OutcomeIncomplete, Settings: contract.ChangeSetSettings{Incomplete: contract.IncompleteDraft},
		Runs: []changesets.Member{
			{RunID: 41, Project: "app1", Status: contract.PhaseReleaser.Running(), ReadyAt: &at, PullRequest: pr(1)},
			{RunID: 42, Project: "app2", Status: contract.StatusDone, ReadyAt: &at, PullRequest: pr(2)},
			{RunID: 43, Project: "app3", Status: contract.StatusFailed, Failure: &contract.Failure{Code: contract.CodeCheckFailed, Message: "@team: closes #1 <!-- rgpt:change-set end -->\n|"}},
		},
	}}
}

func TestAPullRequestLinksTheOthersOfItsSetAndNamesWhatIsMissing(t *testing.T) {
	t.Parallel()
	c := threeChanges()
	require.True(t, c.Draft())
	text := c.Section()
	require.Contains(t, text, "incomplete: 1 of 3 changes are missing")
	require.Contains(t, text, "| `team/app1` | this pull request |")
	require.Contains(t, text, "| `team/app2` | [pull request 2](https://git.example.com/2) (open) |")
	require.Contains(t, text, "| `app3` | **missing**: it failed ([run 43](https://rgpt.example.com/runs/43)): ")
	require.Equal(t, 1, strings.Count(text, "<!-- rgpt:change-set end -->"), "a reason cannot end the part")
	require.NotContains(t, text, "| @team")
	require.NotContains(t, text, ": @team")
}

func TestWhatIsMissingHasItsReason(t *testing.T) {
	t.Parallel()
	for want, m := range map[string]changesets.Member{
		"**missing**: the policy gate refused it": {Status: contract.StatusFailed, Failure: &contract.Failure{Code: contract.CodeDenied}},
		"**missing**: it was stopped":             {Status: contract.StatusCancelled},
		"**missing**: it waits for a person":      {Status: contract.StatusWaitingForApproval},
		"**missing**: it is paused":               {Status: contract.StatusPaused},
		"**missing**: it is not ready yet":        {Status: contract.PhaseBuilder.Running()},
		"(closed): **missing**":                   {Status: contract.StatusDone, PullRequest: &changesets.PullRequest{State: contract.PullRequestClosed}},
		"nothing had to be changed":               {Status: contract.StatusDone},
		"branch `rgpt/run-3`":                     {Status: contract.StatusDone, Branch: "rgpt/run-3"},
	} {
		c := threeChanges()
		m.RunID = 43
		c.Set.Runs[2] = m
		require.Contains(t, c.Section(), want)
		require.Equal(t, strings.Contains(want, "missing"), strings.Contains(c.Section(), "incomplete"), want)
	}
	c := threeChanges()
	at := time.Now()
	c.Set.Runs[2] = changesets.Member{RunID: 43, Status: contract.PhaseReleaser.Running(), ReadyAt: &at}
	require.Contains(t, c.Section(), "being released")
	require.NotContains(t, c.Section(), "missing")
}

func TestThePartAboutASetIsReplacedAndNothingElse(t *testing.T) {
	t.Parallel()
	c := threeChanges()
	body := "before\n" + c.Section() + "\nafter"
	c.Set.Runs[1].PullRequest.State = contract.PullRequestMerged
	now, found := report.WithSection(body, c.Section())
	require.True(t, found)
	require.Equal(t, "before\n"+c.Section()+"\nafter", now)
	require.Contains(t, now, "(merged)")
	again, _ := report.WithSection(now, c.Section())
	require.Equal(t, now, again)
	same, found := report.WithSection("a person removed it", c.Section())
	require.False(t, found)
	require.Equal(t, "a person removed it", same)
}

func TestAPullRequestOfALargeSetFits(t *testing.T) {
	t.Parallel()
	c := threeChanges()
	one := c.Set.Runs[2]
	one.Failure.Message = strings.Repeat("long ", 1000)
	for range 17 {
		c.Set.Runs = append(c.Set.Runs, one)
	}
	require.Less(t, len(c.Section()), 8000)
}
