package github

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	api "github.com/google/go-github/v88/github"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/forge"
	"github.com/rocketgpt/orchestrator/internal/forge/forgehttp"
)

// baseWait is the wait until GitHub has compared a pull request with a base that has changed.
const baseWait = 3 * time.Second

// FindPullRequest returns the open pull request from a branch of the repository into base.
func (s *Service) FindPullRequest(ctx context.Context, repo, head, base string) (*forge.PullRequest, error) {
	c, err := s.on(ctx, repo, "find the pull request from %q into %q", head, base)
	if err != nil {
		return nil, err
	}
	found, err := c.find(head, base)
	return found, c.fail(err)
}

func (c *call) find(head, base string) (*forge.PullRequest, error) {
	if err := checkBranches(head, base); err != nil {
		return nil, err
	}
	list, err := all(func(o api.ListOptions) ([]*api.PullRequest, *api.Response, error) {
		return c.api.PullRequests.List(c.ctx, c.owner, c.name, &api.PullRequestListOptions{State: "open", Head: c.owner + ":" + head, Base: base, ListOptions: o})
	})
	if err != nil {
		return nil, err
	}
	for _, one := range list { // GitHub ignores a filter that it does not understand
		if pr := pullRequest(one); pr.Head == head && pr.Base == base && !pr.FromFork {
			return &pr, nil
		}
	}
	return nil, nil
}

func checkBranches(branches ...string) error {
	for _, branch := range branches {
		if err := forge.CheckBranch(branch); err != nil {
			return err
		}
	}
	return nil
}

// PullRequest returns a pull request by its number.
func (s *Service) PullRequest(ctx context.Context, repo string, number int64) (forge.PullRequest, error) {
	c, err := s.on(ctx, repo, "read pull request %d", number)
	if err != nil {
		return forge.PullRequest{}, err
	}
	pr, err := c.read(number)
	return pr, c.fail(err)
}

func (c *call) read(number int64) (forge.PullRequest, error) {
	pr, _, err := c.api.PullRequests.Get(c.ctx, c.owner, c.name, int(number))
	if err != nil {
		return forge.PullRequest{}, err
	}
	return pullRequest(pr), nil
}

// CreatePullRequest opens a pull request, or returns the one that is open already.
func (s *Service) CreatePullRequest(ctx context.Context, repo string, opened forge.NewPullRequest) (forge.PullRequest, error) {
	c, err := s.on(ctx, repo, "open a pull request from %q into %q", opened.Head, opened.Base)
	if err != nil {
		return forge.PullRequest{}, err
	}
	if err := checkBranches(opened.Head, opened.Base); err != nil {
		return forge.PullRequest{}, c.fail(err)
	}
	pr, _, err := s.api.PullRequests.Create(c.ctx, c.owner, c.name, &api.NewPullRequest{
		Title: &opened.Title, Head: &opened.Head, Base: &opened.Base, Body: &opened.Body, Draft: &opened.Draft,
	})
	if code, message := forgehttp.StatusOf(err); code == http.StatusUnprocessableEntity && strings.Contains(message, "already exists") {
		existing, findErr := c.find(opened.Head, opened.Base)
		if findErr != nil || existing != nil {
			return deref(existing), c.fail(findErr)
		}
	}
	if err != nil {
		return forge.PullRequest{}, c.fail(err)
	}
	return pullRequest(pr), nil
}

func deref(pr *forge.PullRequest) forge.PullRequest {
	if pr == nil {
		return forge.PullRequest{}
	}
	return *pr
}

// UpdatePullRequest changes what is set in the change.
func (s *Service) UpdatePullRequest(ctx context.Context, repo string, number int64, change forge.PullRequestChange) (forge.PullRequest, error) {
	c, err := s.on(ctx, repo, "change pull request %d", number)
	if err != nil {
		return forge.PullRequest{}, err
	}
	var pr *api.PullRequest
	if change.Title == nil && change.Body == nil && change.State == nil {
		pr, _, err = s.api.PullRequests.Get(c.ctx, c.owner, c.name, int(number))
	} else {
		edit := &api.PullRequest{Title: change.Title, Body: change.Body}
		if change.State != nil {
			if *change.State != forge.Open && *change.State != forge.Closed {
				return forge.PullRequest{}, c.refuse("the state %q cannot be set", *change.State)
			}
			state := string(*change.State)
			edit.State = &state
		}
		pr, _, err = s.api.PullRequests.Edit(c.ctx, c.owner, c.name, int(number), edit)
	}
	if err != nil {
		return forge.PullRequest{}, c.fail(err)
	}
	if change.Draft != nil && *change.Draft != pr.GetDraft() {
		if err := c.setDraft(pr.GetNodeID(), *change.Draft); err != nil {
			return forge.PullRequest{}, c.fail(err)
		}
		pr.Draft = change.Draft
	}
	return pullRequest(pr), nil
}

// RequestReviews asks people and teams to review a pull request.
func (s *Service) RequestReviews(ctx context.Context, repo string, number int64, reviewers forge.Reviewers) error {
	c, err := s.on(ctx, repo, "request reviews of pull request %d", number)
	if err != nil || len(reviewers.People)+len(reviewers.Teams) == 0 {
		return err
	}
	request := api.ReviewersRequest{Reviewers: reviewers.People}
	for _, team := range reviewers.Teams {
		request.TeamReviewers = append(request.TeamReviewers, team[strings.LastIndexByte(team, '/')+1:])
	}
	_, _, err = s.api.PullRequests.RequestReviewers(c.ctx, c.owner, c.name, int(number), request)
	return c.fail(err)
}

// Merge merges a pull request whose head is the given commit.
func (s *Service) Merge(ctx context.Context, repo string, number int64, merge forge.Merge) (string, error) {
	c, err := s.on(ctx, repo, "merge pull request %d", number)
	if err != nil {
		return "", err
	}
	if err := forge.CheckCommit(merge.HeadCommit); err != nil {
		return "", c.fail(err)
	}
	done, _, err := s.api.PullRequests.Merge(c.ctx, c.owner, c.name, int(number), merge.Message, &api.PullRequestOptions{
		CommitTitle: merge.Title, SHA: merge.HeadCommit, MergeMethod: string(merge.Method),
	})
	if err == nil && done.GetMerged() {
		return done.GetSHA(), nil
	}
	code, message := forgehttp.StatusOf(err)
	switch {
	case err == nil:
		message = done.GetMessage()
	case code != http.StatusMethodNotAllowed && code != http.StatusConflict && code != http.StatusUnprocessableEntity:
		return "", c.fail(err)
	}
	// The answer to an earlier request may have been lost.
	pr, readErr := c.read(number)
	switch {
	case readErr != nil:
		return "", c.fail(readErr)
	case pr.State == forge.Merged && pr.HeadCommit == merge.HeadCommit:
		return pr.MergeCommit, nil
	case code == http.StatusUnprocessableEntity, strings.Contains(message, "not allowed on this repository"):
		return "", c.fail(err) // the method, not the change
	case pr.State == forge.Open && pr.HeadCommit == merge.HeadCommit && strings.Contains(message, "Base branch was modified"):
		// Its look for conflicts with the new base has not ended.
		return "", c.fail(fault.New(contract.ClassInfra, contract.CodeUnavailable, "GitHub has not yet compared it with the newest commit of its base: %s", message).After(baseWait))
	}
	return "", c.conflict(pr, merge.HeadCommit, message)
}

// conflict returns the failure for a pull request that cannot be merged.
func (c *call) conflict(pr forge.PullRequest, head, message string) error {
	why := "GitHub does not merge it: " + message
	switch {
	case pr.HeadCommit != head:
		why = "its head is now " + pr.HeadCommit + ", not " + head
	case pr.State != forge.Open:
		why = "it is " + string(pr.State)
	}
	return c.fail(fault.New(contract.ClassLogic, contract.CodeMergeConflict, "%s", why))
}

// Branch returns the newest commit of a branch.
func (s *Service) Branch(ctx context.Context, repo, branch string) (string, error) {
	c, err := s.on(ctx, repo, "read the branch %q", branch)
	if err != nil {
		return "", err
	}
	if branch == "" {
		r, _, err := s.api.Repositories.Get(c.ctx, c.owner, c.name)
		if err != nil {
			return "", c.fail(err)
		}
		branch = r.GetDefaultBranch()
	}
	if err := forge.CheckBranch(branch); err != nil {
		return "", c.fail(err)
	}
	ref, _, err := s.api.Git.GetRef(c.ctx, c.owner, c.name, "refs/heads/"+branch)
	return ref.GetObject().GetSHA(), c.fail(err)
}

// DeleteBranch deletes a branch.
func (s *Service) DeleteBranch(ctx context.Context, repo, branch string) error {
	c, err := s.on(ctx, repo, "delete the branch %q", branch)
	if err != nil {
		return err
	}
	if err := forge.CheckBranch(branch); err != nil {
		return c.fail(err)
	}
	_, err = s.api.Git.DeleteRef(c.ctx, c.owner, c.name, "refs/heads/"+branch)
	if !status(err, http.StatusUnprocessableEntity, http.StatusNotFound) {
		return c.fail(err)
	}
	// The branch may not exist, or may not be deleted.
	if _, _, readErr := s.api.Repositories.Get(c.ctx, c.owner, c.name); readErr != nil {
		return c.fail(readErr)
	}
	if _, _, readErr := s.api.Git.GetRef(c.ctx, c.owner, c.name, "refs/heads/"+branch); status(readErr, http.StatusNotFound) {
		return nil
	}
	return c.fail(err)
}

// labelPath returns a label's name as part of a URL.
func labelPath(label string) (string, bool) {
	return url.PathEscape(label), label != "" && label != "." && label != ".."
}

// AddLabels adds labels to an issue or pull request. GitHub creates those that do not exist.
func (s *Service) AddLabels(ctx context.Context, repo string, on forge.Subject, labels []string) error {
	c, err := s.on(ctx, repo, "add labels to %s", on)
	if err != nil || len(labels) == 0 {
		return err
	}
	_, _, err = s.api.Issues.AddLabelsToIssue(c.ctx, c.owner, c.name, int(on.Number), labels)
	return c.fail(err)
}

// RemoveLabel removes a label.
func (s *Service) RemoveLabel(ctx context.Context, repo string, on forge.Subject, label string) error {
	c, err := s.on(ctx, repo, "remove the label %q from %s", label, on)
	if err != nil {
		return err
	}
	path, ok := labelPath(label)
	if !ok {
		return nil // no such label can exist
	}
	_, err = s.api.Issues.RemoveLabelForIssue(c.ctx, c.owner, c.name, int(on.Number), path)
	if status(err, http.StatusNotFound) {
		// Either the label is not set, or no such issue exists.
		_, _, err = s.api.Issues.Get(c.ctx, c.owner, c.name, int(on.Number))
	}
	return c.fail(err)
}

// pullRequest converts a pull request.
func pullRequest(p *api.PullRequest) forge.PullRequest {
	out := forge.PullRequest{
		Number: int64(p.GetNumber()), URL: p.GetHTMLURL(), Title: p.GetTitle(), Body: p.GetBody(),
		Head: p.GetHead().GetRef(), Base: p.GetBase().GetRef(), HeadCommit: p.GetHead().GetSHA(),
		FromFork: p.GetHead().GetRepo().GetFullName() != p.GetBase().GetRepo().GetFullName(),
		State:    forge.State(p.GetState()), Draft: p.GetDraft(), Mergeable: p.Mergeable, Behind: p.GetMergeableState() == "behind",
		Labels: labels(p.Labels), Author: p.GetUser().GetLogin(), UpdatedAt: p.GetUpdatedAt().Time,
	}
	if p.GetMerged() || p.MergedAt != nil {
		out.State, out.MergeCommit = forge.Merged, p.GetMergeCommitSHA()
	}
	return out
}

func labels(list []*api.Label) []string {
	var out []string
	for _, one := range list {
		out = append(out, one.GetName())
	}
	return out
}
