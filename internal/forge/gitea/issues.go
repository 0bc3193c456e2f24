package gitea

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	sdk "code.gitea.io/sdk/gitea"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/forge"
)

// Issue returns an issue by its number.
func (s *Service) Issue(ctx context.Context, repo string, number int64) (forge.Issue, error) {
	c, err := s.begin(ctx, repo, fmt.Sprintf("read issue %d", number))
	if err != nil {
		return forge.Issue{}, err
	}
	i, _, err := c.api.GetIssue(c.owner, c.name, number)
	if err == nil && i.PullRequest != nil {
		err = fault.New(contract.ClassConfig, contract.CodeRepository, "it is a pull request")
	}
	if err != nil {
		return forge.Issue{}, c.explain(err)
	}
	return issue(i), nil
}

func issue(i *sdk.Issue) forge.Issue {
	return forge.Issue{
		Number: i.Index, URL: address(i.HTMLURL), Title: i.Title, Body: i.Body, Author: login(i.Poster),
		Labels: labelNames(i.Labels), Closed: i.State == sdk.StateClosed, UpdatedAt: i.Updated,
	}
}

// maxPasses is how often a list of several pages is read that changes meanwhile.
const maxPasses = 10

// Issues returns the open issues with a label that changed since a time.
func (s *Service) Issues(ctx context.Context, repo, label string, since time.Time) ([]forge.Issue, error) {
	c, err := s.begin(ctx, repo, "list issues")
	if err != nil {
		return nil, err
	}
	opts := sdk.ListIssueOption{State: sdk.StateOpen, Type: sdk.IssueTypeIssue, Since: since}
	// The forge ignores labels that the repository does not have, such as those of its organisation,
	// and takes a comma to separate labels. So its answer only makes the list shorter.
	if label != "" && !strings.Contains(label, ",") {
		opts.Labels = []string{label}
	}
	var found forge.IssueSet
	var before []int64
	for pass := 1; ; pass++ {
		asked := 0
		all, err := pages(func(page sdk.ListOptions) ([]*sdk.Issue, *sdk.Response, error) {
			asked++
			opts := opts
			opts.ListOptions = page
			return c.api.ListRepoIssues(c.owner, c.name, opts)
		})
		if err != nil {
			return nil, c.explain(err)
		}
		var some []forge.Issue
		var now []int64
		for _, i := range all {
			now = append(now, i.Index)
			if got := issue(i); label == "" || slices.Contains(got.Labels, label) {
				some = append(some, got)
			}
		}
		// The forge sorts by the time of creation. When an issue on an earlier page leaves the list, because it
		// is closed or loses its label, the first one of the next page moves to a page that was read. So
		// several pages are read again until they are as they were: then none left while they were read.
		if found.Add(some); asked == 1 || slices.Equal(before, now) {
			return found.Sorted(), nil
		}
		before = now
		if pass == maxPasses {
			return nil, c.explain(fault.New(contract.ClassInfra, contract.CodeUnavailable, "the list changed each of the %d times that it was read", maxPasses))
		}
	}
}

// Comments returns the comments on an issue or pull request. The texts of reviews are among them. All
// reviews are returned, because theirs is the time when they were begun, not when they were submitted.
func (s *Service) Comments(ctx context.Context, repo string, on forge.Subject, since time.Time) ([]forge.Comment, error) {
	c, err := s.begin(ctx, repo, "read the comments on "+on.String())
	if err != nil {
		return nil, err
	}
	all, err := c.conversation(on, since)
	since = since.Truncate(time.Second) // times are precise to the second
	all = slices.DeleteFunc(all, func(one forge.Comment) bool { return one.UpdatedAt.Before(since) })
	if err == nil && on.PullRequest {
		var reviews []forge.Comment
		reviews, err = c.reviews(on.Number)
		all = append(all, reviews...)
	}
	if err != nil {
		return nil, c.explain(err)
	}
	slices.SortStableFunc(all, func(a, b forge.Comment) int { return a.CreatedAt.Compare(b.CreatedAt) })
	return all, nil
}

// conversation returns the comments that are not part of a review.
func (c *call) conversation(on forge.Subject, since time.Time) ([]forge.Comment, error) {
	some, err := pages(func(page sdk.ListOptions) ([]*sdk.Comment, *sdk.Response, error) {
		return c.api.ListIssueComments(c.owner, c.name, on.Number, sdk.ListIssueCommentOptions{ListOptions: page, Since: since})
	})
	if err != nil {
		return nil, c.orMissing(err, on)
	}
	out := make([]forge.Comment, 0, len(some))
	for _, one := range some {
		out = append(out, comment(one))
	}
	return out, nil
}

func comment(one *sdk.Comment) forge.Comment {
	return forge.Comment{
		ID: strconv.FormatInt(one.ID, 10), Author: login(one.Poster), Bot: bot(one.Poster), Body: one.Body,
		URL: address(one.HTMLURL), CreatedAt: one.Created, UpdatedAt: one.Updated,
	}
}

// bot reports whether an account is one of those that the forge has for its own actions. It does not
// say which other accounts are programs.
func bot(u *sdk.User) bool { return u != nil && u.ID < 0 }

// reviewID is the ID of a review's text, which has its own numbers, as a comment.
func reviewID(id int64) string { return "review-" + strconv.FormatInt(id, 10) }

// reviews returns the texts of the submitted reviews of a pull request, and their comments on lines.
func (c *call) reviews(number int64) ([]forge.Comment, error) {
	all, err := pages(func(page sdk.ListOptions) ([]*sdk.PullReview, *sdk.Response, error) {
		return c.api.ListPullReviews(c.owner, c.name, number, sdk.ListPullReviewsOptions{ListOptions: page})
	})
	if err != nil {
		return nil, err
	}
	var out []forge.Comment
	for _, r := range all {
		if r.State == sdk.ReviewStatePending || r.State == sdk.ReviewStateRequestReview {
			continue
		}
		if r.Body != "" {
			out = append(out, forge.Comment{
				ID: reviewID(r.ID), Author: login(r.Reviewer), Bot: bot(r.Reviewer), Review: r.State != sdk.ReviewStateApproved, Body: r.Body,
				URL: address(r.HTMLURL), CreatedAt: r.Submitted, UpdatedAt: r.Submitted,
			})
		}
		if r.CodeCommentsCount == 0 {
			continue
		}
		some, _, err := c.api.ListPullReviewComments(c.owner, c.name, number, r.ID)
		if err != nil {
			return nil, err
		}
		for _, one := range some {
			out = append(out, lineComment(one, r.CommitID))
		}
	}
	return out, nil
}

// lineComment converts a comment on a line. commit is the one that was reviewed.
func lineComment(one *sdk.PullReviewComment, commit string) forge.Comment {
	line := int(one.LineNum)
	place := strconv.Itoa(line)
	if one.LineNum == 0 { // a line as it was before the change
		line = int(one.OldLineNum)
		place = "-" + strconv.Itoa(line)
	}
	return forge.Comment{
		// The forge shows all comments on a line as one thread.
		ID: strconv.FormatInt(one.ID, 10), Thread: one.Path + ":" + place,
		Author: login(one.Reviewer), Bot: bot(one.Reviewer), Body: one.Body, URL: address(one.HTMLURL),
		Path: one.Path, Line: line, Commit: cmp.Or(commit, one.CommitID), CreatedAt: one.Created, UpdatedAt: one.Updated,
	}
}

// AddComment adds a comment to an issue or pull request.
func (s *Service) AddComment(ctx context.Context, repo string, on forge.Subject, text string) (forge.Comment, error) {
	c, err := s.begin(ctx, repo, "comment on "+on.String())
	if err != nil {
		return forge.Comment{}, err
	}
	return c.add(on, text)
}

func (c *call) add(on forge.Subject, text string) (forge.Comment, error) {
	if strings.TrimSpace(text) == "" {
		return forge.Comment{}, c.refuse("the comment has no text")
	}
	one, _, err := c.api.CreateIssueComment(c.owner, c.name, on.Number, sdk.CreateIssueCommentOption{Body: text})
	if err != nil {
		return forge.Comment{}, c.explain(c.orMissing(err, on))
	}
	return comment(one), nil
}

// orMissing is orMissing for an issue or pull request.
func (c *call) orMissing(err error, on forge.Subject) error {
	return orMissing(err, func() error {
		_, _, err := c.api.GetIssue(c.owner, c.name, on.Number)
		return err
	})
}

// Reply answers a comment. On a line, the answer is another comment on the line, which the forge
// shows in the same thread. Elsewhere, it is another comment on the issue or pull request.
func (s *Service) Reply(ctx context.Context, repo string, on forge.Subject, to forge.Comment, text string) (forge.Comment, error) {
	c, err := s.begin(ctx, repo, fmt.Sprintf("answer comment %s on %s", fault.Clip(to.ID, maxShown), on))
	if err != nil {
		return forge.Comment{}, err
	}
	if to.Path == "" || to.Line == 0 || !on.PullRequest {
		return c.add(on, text)
	}
	if strings.TrimSpace(text) == "" {
		return forge.Comment{}, c.refuse("the answer has no text")
	}
	one := sdk.CreatePullReviewComment{Path: to.Path, Body: text, NewLineNum: int64(to.Line)}
	if strings.HasSuffix(to.Thread, ":-"+strconv.Itoa(to.Line)) {
		one.NewLineNum, one.OldLineNum = 0, int64(to.Line)
	}
	r, _, err := c.api.CreatePullReview(c.owner, c.name, on.Number, sdk.CreatePullReviewOptions{
		State: sdk.ReviewStateComment, CommitID: to.Commit, Comments: []sdk.CreatePullReviewComment{one},
	})
	if err != nil {
		return forge.Comment{}, c.explain(err)
	}
	made, _, err := c.api.ListPullReviewComments(c.owner, c.name, on.Number, r.ID)
	if err != nil {
		return forge.Comment{}, c.explain(err)
	}
	if len(made) == 0 {
		return forge.Comment{}, c.explain(fault.New(contract.ClassInfra, contract.CodeUnavailable, "the forge accepted the answer, but does not show it"))
	}
	return lineComment(made[len(made)-1], r.CommitID), nil
}
