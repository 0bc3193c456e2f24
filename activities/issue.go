package activities

import (
	"context"
	"fmt"
	"strings"

	"go.temporal.io/sdk/activity"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/forge"
	"github.com/rocketgpt/orchestrator/internal/runs/pullrequest"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

// closes returns how a pull request in a repository names the issue that it closes when it is merged,
// "" if it closes none: only an issue on the same forge can be closed. Of a change set, only the pull request
// in the repository of the issue closes it.
func closes(run store.Run, name, repo string, ofSet bool) string {
	i, s := run.Settings.Issue, run.Settings.Release.PullRequest
	switch {
	case i == nil || !s.CloseIssue || i.Forge != name:
		return ""
	case strings.EqualFold(i.Repo, repo):
		return fmt.Sprintf("#%d", i.Number)
	case ofSet:
		return ""
	}
	return i.String()
}

// announceAttempts is the number of attempts to comment on an issue. The release does not depend on it.
const announceAttempts = 5

// announce comments on the issue that a run is about with the address of its open pull request. What
// the forge refuses is returned as a note.
func (a *Activities) announce(ctx context.Context, run store.Run, pr forge.PullRequest, name, repo string) (note string, err error) {
	i, s := run.Settings.Issue, run.Settings.Release.PullRequest
	if i == nil || !s.CommentIssue || pr.State != forge.Open {
		return "", nil
	}
	service, err := a.Forges.Named(i.Forge)
	if err == nil {
		text := fmt.Sprintf("Run %d opened a pull request for this issue: %s", run.ID, telemetry.Redact(pr.URL))
		if s.Link != "" {
			text = fmt.Sprintf("[Run %d](%s) opened a pull request for this issue: %s", run.ID, runLink(s.Link, run.ID), telemetry.Redact(pr.URL))
		}
		err = pullrequest.Announce(ctx, service, pullrequest.Announcement{
			Repo: i.Repo, Number: i.Number, Of: fmt.Sprintf("%s/%s/%d", name, repo, pr.Number), Text: text,
		})
	}
	if err != nil && (fault.Of(err).Class != contract.ClassInfra || activity.GetInfo(ctx).Attempt >= announceAttempts) {
		return "the issue " + i.String() + " got no comment about the pull request: " + fault.Of(err).Message, nil
	}
	return "", err
}

// runLink returns the address of the page of a run.
func runLink(dashboard string, run int64) string {
	return fmt.Sprintf("%s/runs/%d", strings.TrimRight(dashboard, "/"), run)
}
