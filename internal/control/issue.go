package control

import (
	"context"
	"os"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/forge/connect"
	"github.com/rocketgpt/orchestrator/internal/runs/issue"
)

// IssueText is what an issue said when a run about it was wanted.
type IssueText struct{ Title, Body string }

// wholeGoal returns the goal of a creation. If that is about an issue, it reads the issue, completes
// what the creation leaves open, and adds the text of the issue to the goal, as data.
func (r *Runs) wholeGoal(ctx context.Context, c *Creation, out *Created) (title, description string, err error) {
	title, description, err = r.goal(*c)
	if err != nil || c.Issue == "" {
		return title, description, err
	}
	forges, err := connect.New(r.Config.Forges, os.Getenv)
	if err != nil {
		return "", "", about(FieldIssue, err)
	}
	defer forges.Close()
	at, err := forges.Issue(c.Issue)
	if err != nil {
		return "", "", about(FieldIssue, err)
	}
	found, err := at.Service.Issue(ctx, at.Repo, at.Number)
	if err != nil {
		return "", "", about(FieldIssue, err)
	}
	if c.IssueText != nil { // who wanted the run has read this, and not what was made of it since
		found.Title, found.Body = c.IssueText.Title, c.IssueText.Body
	}
	known := issue.Of(issue.At{Forge: at.Forge, Repo: at.Repo, URL: at.URL}, found)
	if found.Closed {
		return "", "", about(FieldIssue, refused("the issue %s is closed, so no run was created; reopen it, or give its text as a goal (--goal-file)", known))
	}
	c.issue = &known
	if c.Repo == "" {
		c.Repo = at.Clone
	}
	if title == "" {
		title = issue.Title(known)
	}
	most := int(r.Config.Execution.MaxGoalBytes.Int64())
	text, note := issue.Describe(known, found.Body, most-len(title)-len(description)-len("\n\n")-c.longestOwnGoal())
	if note != "" {
		out.Notes = append(out.Notes, note)
	}
	description = strings.TrimSpace(description + "\n\n" + text)
	if size := len(title) + len(description); size > most {
		return "", "", about(FieldGoal, wrong("the goal leaves no room for the text of the issue: both have %d bytes, more than the %d allowed (execution.max_goal_bytes); shorten the goal", size, most))
	}
	return title, description, nil
}
