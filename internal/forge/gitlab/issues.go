package gitlab

import (
	"context"
	"strings"
	"time"

	api "gitlab.com/gitlab-org/api/client-go/v2"

	"github.com/rocketgpt/orchestrator/internal/forge"
)

// Issue returns an issue by its number, which is its IID.
func (s *Service) Issue(ctx context.Context, repo string, number int64) (forge.Issue, error) {
	c, err := s.on(ctx, repo, "read issue %d", number)
	if err != nil {
		return forge.Issue{}, err
	}
	found, _, err := s.api.Issues.GetIssue(c.repo, number, c.with())
	if err != nil {
		return forge.Issue{}, c.fail(err)
	}
	return issue(found), nil
}

// Issues returns the open issues with a label that changed since a time.
func (s *Service) Issues(ctx context.Context, repo, label string, since time.Time) ([]forge.Issue, error) {
	c, err := s.on(ctx, repo, "list the issues with the label %q", label)
	if err != nil || strings.Contains(label, ",") {
		return nil, err // no such label can exist
	}
	options := &api.ListProjectIssuesOptions{State: api.Ptr("opened"), OrderBy: api.Ptr("updated_at"), Sort: api.Ptr("asc")}
	if label != "" {
		options.Labels = &api.LabelOptions{label}
	}
	options.PerPage = perPage
	found, err := forge.ReadIssues(since, func(since time.Time, number int) (forge.IssuePage, error) {
		options := *options
		options.Page = int64(number)
		if !since.IsZero() {
			options.UpdatedAfter = &since
		}
		list, resp, err := s.api.Issues.ListProjectIssues(c.repo, &options, c.with())
		if err != nil {
			return forge.IssuePage{}, err
		}
		page := forge.IssuePage{More: resp.NextPage > options.Page}
		for _, one := range list {
			got := issue(one)
			page.Issues, page.Last = append(page.Issues, got), got.UpdatedAt
		}
		return page, nil
	})
	return found, c.fail(err)
}

func issue(i *api.Issue) forge.Issue {
	out := forge.Issue{
		Number: i.IID, URL: i.WebURL, Title: i.Title, Body: i.Description, Labels: i.Labels, Closed: i.State == "closed", UpdatedAt: at(i.UpdatedAt),
	}
	if i.Author != nil {
		out.Author = i.Author.Username
	}
	return out
}
