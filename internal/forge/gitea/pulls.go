package gitea

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	sdk "code.gitea.io/sdk/gitea"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/forge"
	"github.com/rocketgpt/orchestrator/internal/forge/forgehttp"
)

// draftPrefix marks the title of a draft.
const draftPrefix = "WIP: "

// draftMarks matches the prefixes that mark a draft, unless the server's settings name others.
var draftMarks = regexp.MustCompile(`(?i)^(\s*(WIP:|\[WIP\])\s*)+`)

// settleTime is how long a pull request that changed is taken to be unchecked if the forge says that
// it is not mergeable: the forge says so too while it looks for conflicts.
const settleTime = 5 * time.Second

// settleTick is the interval at which Merge looks whether the forge has finished.
const settleTick = 250 * time.Millisecond

// title returns the title of a pull request as the forge shows it.
func title(text string, draft bool) string {
	text = draftMarks.ReplaceAllString(text, "")
	if draft {
		return draftPrefix + text
	}
	return text
}

// pullRequest converts a pull request from a response.
func pullRequest(p *sdk.PullRequest, resp *sdk.Response) forge.PullRequest {
	out := forge.PullRequest{
		Number: p.Index, URL: address(p.HTMLURL), Title: title(p.Title, false), Body: p.Body,
		Draft: p.Draft, State: forge.Open, Author: login(p.Poster), Labels: labelNames(p.Labels),
	}
	if p.Head != nil && p.Base != nil {
		out.Head, out.HeadCommit, out.Base = p.Head.Name, p.Head.Sha, p.Base.Ref
		out.FromFork = p.Head.RepoID != p.Base.RepoID
	}
	if p.Updated != nil {
		out.UpdatedAt = *p.Updated
	}
	switch {
	case p.HasMerged:
		out.State = forge.Merged
		if p.MergedCommitID != nil {
			out.MergeCommit = *p.MergedCommitID
		}
	case p.State == sdk.StateClosed:
		out.State = forge.Closed
	case p.Mergeable || !p.Draft && settled(out.UpdatedAt, resp): // it calls no draft mergeable
		out.Mergeable = &p.Mergeable
	}
	return out
}

// settled reports whether enough time has passed since a change, by the forge's clock.
func settled(changed time.Time, resp *sdk.Response) bool {
	now := time.Now()
	if resp != nil && resp.Response != nil {
		if at, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
			now = at
		}
	}
	return now.Sub(changed) >= settleTime
}

func login(u *sdk.User) string {
	if u == nil {
		return ""
	}
	return u.UserName
}

// PullRequest returns a pull request by its number. Mergeable is nil for a draft, and for the first
// seconds after a change unless the pull request can be merged.
func (s *Service) PullRequest(ctx context.Context, repo string, number int64) (forge.PullRequest, error) {
	c, err := s.begin(ctx, repo, fmt.Sprintf("read pull request %d", number))
	if err != nil {
		return forge.PullRequest{}, err
	}
	out, err := c.pullRequest(number)
	return out, c.explain(err)
}

func (c *call) pullRequest(number int64) (forge.PullRequest, error) {
	p, resp, err := c.api.GetPullRequest(c.owner, c.name, number)
	if err != nil {
		return forge.PullRequest{}, err
	}
	return pullRequest(p, resp), nil
}

// FindPullRequest returns the open pull request from a branch of the repository into base.
func (s *Service) FindPullRequest(ctx context.Context, repo, head, base string) (*forge.PullRequest, error) {
	c, err := s.begin(ctx, repo, fmt.Sprintf("find the pull request of %q into %q", fault.Clip(head, maxShown), fault.Clip(base, maxShown)))
	if err != nil {
		return nil, err
	}
	found, err := c.find(head, base)
	return found, c.explain(err)
}

// find returns the open pull request from a branch into another, nil if none exists.
func (c *call) find(head, base string) (*forge.PullRequest, error) {
	for _, branch := range []string{head, base} {
		if err := c.checkBranch(branch); err != nil {
			return nil, err
		}
	}
	// The forge has a request for one, but it may return a closed one of the same branches, and does
	// not understand a base with a slash.
	if !strings.Contains(base, "/") && !strings.Contains(head, ":") {
		p, resp, err := c.api.GetPullRequestByBaseHead(c.owner, c.name, base, head)
		switch {
		case is(err, http.StatusNotFound):
			return nil, c.exists()
		case err != nil:
			return nil, err
		}
		if got := pullRequest(p, resp); got.State == forge.Open && got.Head == head && got.Base == base && !got.FromFork {
			return &got, nil
		}
	}
	return c.open(func(p forge.PullRequest) bool { return p.Head == head && p.Base == base && !p.FromFork })
}

// open returns the first open pull request that matches, nil if none does.
func (c *call) open(match func(forge.PullRequest) bool) (*forge.PullRequest, error) {
	var found *forge.PullRequest
	_, err := pages(func(page sdk.ListOptions) ([]*sdk.PullRequest, *sdk.Response, error) {
		some, resp, err := c.api.ListRepoPullRequests(c.owner, c.name, sdk.ListPullRequestsOptions{ListOptions: page, State: sdk.StateOpen, Sort: "recentupdate"})
		for _, p := range some {
			if got := pullRequest(p, resp); match(got) {
				found = &got
				return nil, resp, nil // an empty page is the last one
			}
		}
		return some, resp, err
	})
	return found, err
}

// CreatePullRequest opens a pull request.
func (s *Service) CreatePullRequest(ctx context.Context, repo string, opened forge.NewPullRequest) (forge.PullRequest, error) {
	c, err := s.begin(ctx, repo, fmt.Sprintf("open a pull request of %q into %q", fault.Clip(opened.Head, maxShown), fault.Clip(opened.Base, maxShown)))
	if err != nil {
		return forge.PullRequest{}, err
	}
	for _, branch := range []string{opened.Head, opened.Base} {
		if err := c.checkBranch(branch); err != nil {
			return forge.PullRequest{}, err
		}
	}
	if strings.TrimSpace(title(opened.Title, false)) == "" {
		return forge.PullRequest{}, c.refuse("it has no title")
	}
	p, resp, err := c.api.CreatePullRequest(c.owner, c.name, sdk.CreatePullRequestOption{
		Head: opened.Head, Base: opened.Base, Title: title(opened.Title, opened.Draft), Body: opened.Body,
	})
	if is(err, http.StatusConflict) {
		there, failed := c.find(opened.Head, opened.Base)
		if failed != nil {
			return forge.PullRequest{}, c.explain(failed)
		}
		if there != nil {
			return *there, nil
		}
	}
	if err != nil {
		return forge.PullRequest{}, c.explain(err)
	}
	return pullRequest(p, resp), nil
}

// UpdatePullRequest changes what is set in the change.
func (s *Service) UpdatePullRequest(ctx context.Context, repo string, number int64, change forge.PullRequestChange) (forge.PullRequest, error) {
	c, err := s.begin(ctx, repo, fmt.Sprintf("change pull request %d", number))
	if err != nil {
		return forge.PullRequest{}, err
	}
	opts := sdk.EditPullRequestOption{Body: change.Body}
	if change.Title != nil || change.Draft != nil { // the title says whether it is a draft
		now, err := c.pullRequest(number)
		if err != nil {
			return forge.PullRequest{}, c.explain(err)
		}
		if change.Title != nil {
			now.Title = *change.Title
		}
		if change.Draft != nil {
			now.Draft = *change.Draft
		}
		if strings.TrimSpace(title(now.Title, false)) == "" {
			return forge.PullRequest{}, c.refuse("the new title is empty")
		}
		opts.Title = title(now.Title, now.Draft)
	}
	if change.State != nil {
		state := sdk.StateOpen
		switch *change.State {
		case forge.Open:
		case forge.Closed:
			state = sdk.StateClosed
		default:
			return forge.PullRequest{}, c.refuse("its state cannot be set to %q; expected %q or %q", *change.State, forge.Open, forge.Closed)
		}
		opts.State = &state
	}
	p, resp, err := c.api.EditPullRequest(c.owner, c.name, number, opts)
	if err != nil {
		return forge.PullRequest{}, c.explain(err)
	}
	return pullRequest(p, resp), nil
}

// RequestReviews asks people to review a pull request.
func (s *Service) RequestReviews(ctx context.Context, repo string, number int64, reviewers forge.Reviewers) error {
	c, err := s.begin(ctx, repo, fmt.Sprintf("request reviews of pull request %d", number))
	if err != nil {
		return err
	}
	var teams []string
	for _, full := range reviewers.Teams {
		organisation, team, ok := strings.Cut(full, "/")
		if !ok || !strings.EqualFold(organisation, c.owner) {
			return c.refuse("the team %q does not belong to the organisation that owns the repository; expected %s/TEAM", fault.Clip(full, maxShown), c.owner)
		}
		teams = append(teams, team)
	}
	if len(reviewers.People)+len(teams) == 0 {
		return nil
	}
	if len(teams) > 0 { // without an organisation, the forge ignores them
		if _, _, err := c.api.GetOrg(c.owner); err != nil {
			return c.explain(err)
		}
	}
	_, err = c.api.CreateReviewRequests(c.owner, c.name, number, sdk.PullReviewRequestOptions{Reviewers: reviewers.People, TeamReviewers: teams})
	return c.explain(err)
}

// mergeStyles are the forge's names of the merge methods.
var mergeStyles = map[forge.MergeMethod]sdk.MergeStyle{
	forge.MergeCommit: sdk.MergeStyleMerge, forge.MergeSquash: sdk.MergeStyleSquash, forge.MergeRebase: sdk.MergeStyleRebase,
}

// Merge merges a pull request. It waits for the time of settleTime while the forge looks for
// conflicts.
func (s *Service) Merge(ctx context.Context, repo string, number int64, m forge.Merge) (string, error) {
	c, err := s.begin(ctx, repo, fmt.Sprintf("merge pull request %d", number))
	if err != nil {
		return "", err
	}
	style, ok := mergeStyles[m.Method]
	if !ok {
		return "", c.refuse("the merge method %q does not exist", m.Method)
	}
	if err := c.checkCommit(m.HeadCommit); err != nil {
		return "", err
	}
	for deadline := time.Now().Add(settleTime); ; {
		commit, checking, err := c.merge(number, m, style)
		if checking {
			if err = c.checked(ctx, number, deadline); err == nil {
				continue
			}
		}
		return commit, c.explain(err)
	}
}

// merge makes one attempt to merge. checking says that the forge refused it because of a conflict, or
// because it has not looked for conflicts yet: it does not say which.
func (c *call) merge(number int64, m forge.Merge, style sdk.MergeStyle) (commit string, checking bool, err error) {
	_, _, err = c.api.MergePullRequest(c.owner, c.name, number, sdk.MergePullRequestOption{
		Style: style, Title: m.Title, Message: m.Message, HeadCommitId: m.HeadCommit,
	})
	if err != nil && !is(err, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusConflict) {
		return "", false, err
	}
	now, failed := c.pullRequest(number)
	switch {
	case failed != nil:
		return "", false, failed
	case now.State == forge.Merged && (err == nil || now.HeadCommit == m.HeadCommit):
		return now.MergeCommit, false, nil
	case err == nil:
		return "", false, fault.New(contract.ClassInfra, contract.CodeUnavailable, "the forge accepted the request, but the pull request is %s", now.State)
	}
	err = unmerged(now, m, err)
	return "", err == nil, err
}

// unmerged returns the reason why a merge was refused, nil for a conflict or an unfinished check.
func unmerged(now forge.PullRequest, m forge.Merge, refusal error) error {
	conflict := func(format string, args ...any) error {
		return fault.New(contract.ClassLogic, contract.CodeMergeConflict, format, args...)
	}
	_, said := forgehttp.StatusOf(refusal)
	switch {
	case now.State == forge.Merged:
		return conflict("it was merged already, with the head %s instead of %s", now.HeadCommit, m.HeadCommit)
	case now.State == forge.Closed:
		return conflict("it is closed; open it again, or open another one")
	case now.HeadCommit != m.HeadCommit:
		return conflict("its head has moved from %s to %s; judge the new commits first", m.HeadCommit, now.HeadCommit)
	case strings.Contains(said, "User not allowed to merge"):
		return fault.New(contract.ClassConfig, contract.CodeUnauthorized, "the credentials may not merge into %s; give them write access, and add them to the people that the branch's protection allows to merge", now.Base)
	case strings.Contains(said, "merge style"):
		return fault.New(contract.ClassConfig, contract.CodeBadRequest, "the repository does not allow the merge method %q; allow it in the repository's settings, or use another", m.Method)
	case now.Draft:
		return conflict("it is a draft; mark it as ready first")
	case !strings.Contains(said, "try again later"):
		return conflict("%s", said)
	}
	return nil
}

// checked waits until the forge has found no conflict. At the deadline, there is one.
func (c *call) checked(ctx context.Context, number int64, deadline time.Time) error {
	tick := time.NewTicker(settleTick)
	defer tick.Stop()
	for {
		p, _, err := c.api.GetPullRequest(c.owner, c.name, number)
		late := time.Now().After(deadline)
		switch {
		case err != nil:
			return err
		case p.Mergeable && !late:
			return nil
		case p.Mergeable: // but each attempt came during another check
			return fault.New(contract.ClassInfra, contract.CodeUnavailable, "the forge is still looking for conflicts; try again").After(time.Second)
		case late:
			return fault.New(contract.ClassLogic, contract.CodeMergeConflict, "it conflicts with its base")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}
