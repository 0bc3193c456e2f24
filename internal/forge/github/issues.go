package github

import (
	"context"
	"slices"
	"strings"
	"time"

	api "github.com/google/go-github/v88/github"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/forge"
)

// Issue returns an issue by its number.
func (s *Service) Issue(ctx context.Context, repo string, number int64) (forge.Issue, error) {
	c, err := s.on(ctx, repo, "read issue %d", number)
	if err != nil {
		return forge.Issue{}, err
	}
	found, _, err := s.api.Issues.Get(c.ctx, c.owner, c.name, int(number))
	if err == nil && found.IsPullRequest() {
		err = fault.New(contract.ClassConfig, contract.CodeRepository, "%d is a pull request", number)
	}
	if err != nil {
		return forge.Issue{}, c.fail(err)
	}
	return issue(found), nil
}

// Issues returns the open issues with a label that changed since a time.
func (s *Service) Issues(ctx context.Context, repo, label string, since time.Time) ([]forge.Issue, error) {
	c, err := s.on(ctx, repo, "list the issues with the label %q", label)
	if err != nil {
		return nil, err
	}
	options := &api.IssueListByRepoOptions{State: "open", Sort: "updated", Direction: "asc", ListOptions: api.ListOptions{PerPage: perPage}}
	if label != "" && !strings.Contains(label, ",") { // a comma separates labels
		options.Labels = []string{label}
	}
	found, err := forge.ReadIssues(since, func(since time.Time, number int) (forge.IssuePage, error) {
		options.Since = since
		if number == 1 {
			options.After, options.ListOptions.Page = "", 0
		}
		list, resp, err := s.api.Issues.ListByRepo(c.ctx, c.owner, c.name, options)
		if err != nil {
			return forge.IssuePage{}, err
		}
		options.After, options.ListOptions.Page = resp.After, resp.NextPage // of the next page by number
		page := forge.IssuePage{More: resp.After != "" || resp.NextPage != 0}
		for _, one := range list {
			got := issue(one)
			page.Last = got.UpdatedAt
			if !one.IsPullRequest() && (label == "" || has(got.Labels, label)) {
				page.Issues = append(page.Issues, got)
			}
		}
		return page, nil
	})
	return found, c.fail(err)
}

// has reports whether a list has a label. Their case does not count.
func has(list []string, label string) bool {
	return slices.ContainsFunc(list, func(one string) bool { return strings.EqualFold(one, label) })
}

func issue(i *api.Issue) forge.Issue {
	return forge.Issue{
		Number: int64(i.GetNumber()), URL: i.GetHTMLURL(), Title: i.GetTitle(), Body: i.GetBody(), Author: i.GetUser().GetLogin(),
		Labels: labels(i.Labels), Closed: i.GetState() == "closed", UpdatedAt: i.GetUpdatedAt().Time,
	}
}
