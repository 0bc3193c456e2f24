package github

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	api "github.com/google/go-github/v88/github"

	"github.com/rocketgpt/orchestrator/internal/forge"
)

// Review adds a review with comments on lines.
func (s *Service) Review(ctx context.Context, repo string, number int64, review forge.NewReview) error {
	c, err := s.on(ctx, repo, "add a review to pull request %d", number)
	if err != nil {
		return err
	}
	if err := forge.CheckCommit(review.Commit); err != nil {
		return c.fail(err)
	}
	if review.Body == "" && len(review.Comments) == 0 {
		return c.refuse("the review has neither a text nor comments")
	}
	placed, rest := review.Comments, []forge.LineComment(nil)
	if len(placed) > 0 {
		lines, err := c.lines(number)
		if err != nil {
			return c.fail(err)
		}
		placed, rest = forge.Place(review.Comments, lines)
	}
	err = c.review(number, review.Commit, forge.WithUnplaced(review.Body, rest), placed)
	if len(placed) > 0 && status(err, http.StatusUnprocessableEntity) {
		// The change is not that of the commit any more, so that GitHub cannot place the comments.
		err = c.review(number, review.Commit, forge.WithUnplaced(review.Body, review.Comments), nil)
	}
	return c.fail(err)
}

func (c *call) review(number int64, commit, body string, comments []forge.LineComment) error {
	event, side := "COMMENT", "RIGHT"
	request := &api.PullRequestReviewRequest{CommitID: &commit, Event: &event}
	if body != "" {
		request.Body = &body
	}
	for _, one := range comments {
		request.Comments = append(request.Comments, &api.DraftReviewComment{Path: &one.Path, Line: &one.Line, Side: &side, Body: &one.Body})
	}
	_, _, err := c.api.PullRequests.CreateReview(c.ctx, c.owner, c.name, int(number), request)
	return err
}

// lines returns the lines of the new files that comments can be on.
func (c *call) lines(number int64) (forge.Lines, error) {
	files, err := all(func(o api.ListOptions) ([]*api.CommitFile, *api.Response, error) {
		return c.api.PullRequests.ListFiles(c.ctx, c.owner, c.name, int(number), &o)
	})
	if err != nil {
		return nil, err
	}
	out := forge.Lines{}
	for _, file := range files {
		out.Add(file.GetFilename(), file.GetPatch())
	}
	return out, nil
}

// The beginnings of the IDs of comments. GitHub counts each kind on its own.
const (
	onConversation = "issue/"
	onLine         = "line/"
	ofReview       = "review/"
)

// Comments returns the comments on an issue or pull request, also those of reviews.
func (s *Service) Comments(ctx context.Context, repo string, on forge.Subject, since time.Time) ([]forge.Comment, error) {
	c, err := s.on(ctx, repo, "read the comments on %s", on)
	if err != nil {
		return nil, err
	}
	out, err := c.conversation(on.Number, since)
	if err == nil && on.PullRequest {
		var more []forge.Comment
		if more, err = c.ofReviews(on.Number, since); err == nil {
			out = append(out, more...)
		}
	}
	if err != nil {
		return nil, c.fail(err)
	}
	slices.SortStableFunc(out, func(a, b forge.Comment) int { return a.CreatedAt.Compare(b.CreatedAt) })
	return out, nil
}

func (c *call) conversation(number int64, since time.Time) ([]forge.Comment, error) {
	options := &api.IssueListCommentsOptions{}
	if !since.IsZero() {
		options.Since = &since
	}
	list, err := all(func(o api.ListOptions) ([]*api.IssueComment, *api.Response, error) {
		options.ListOptions = o
		return c.api.Issues.ListComments(c.ctx, c.owner, c.name, int(number), options)
	})
	var out []forge.Comment
	for _, one := range list {
		out = append(out, issueComment(one))
	}
	return out, err
}

// ofReviews returns the texts of reviews and the comments on lines.
func (c *call) ofReviews(number int64, since time.Time) ([]forge.Comment, error) {
	reviews, err := all(func(o api.ListOptions) ([]*api.PullRequestReview, *api.Response, error) {
		return c.api.PullRequests.ListReviews(c.ctx, c.owner, c.name, int(number), &o)
	})
	if err != nil {
		return nil, err
	}
	var out []forge.Comment
	for _, one := range reviews {
		at := one.GetSubmittedAt().Time
		if one.GetBody() == "" || one.GetState() == "PENDING" || at.Before(since) {
			continue
		}
		out = append(out, forge.Comment{
			ID: ofReview + strconv.FormatInt(one.GetID(), 10), Author: one.GetUser().GetLogin(), Bot: isBot(one.GetUser()), Review: one.GetState() != "APPROVED", Body: one.GetBody(),
			URL: one.GetHTMLURL(), Commit: one.GetCommitID(), CreatedAt: at, UpdatedAt: at,
		})
	}
	onLines, err := all(func(o api.ListOptions) ([]*api.PullRequestComment, *api.Response, error) {
		return c.api.PullRequests.ListComments(c.ctx, c.owner, c.name, int(number), &api.PullRequestListCommentsOptions{Since: since, ListOptions: o})
	})
	for _, one := range onLines {
		out = append(out, lineComment(one))
	}
	return out, err
}

// Approvals returns the people whose last review of the head approves it.
func (s *Service) Approvals(ctx context.Context, repo string, number int64) ([]string, error) {
	c, err := s.on(ctx, repo, "read the approvals of pull request %d", number)
	if err != nil {
		return nil, err
	}
	pr, _, err := s.api.PullRequests.Get(c.ctx, c.owner, c.name, int(number))
	if err != nil {
		return nil, c.fail(err)
	}
	reviews, err := all(func(o api.ListOptions) ([]*api.PullRequestReview, *api.Response, error) {
		return s.api.PullRequests.ListReviews(c.ctx, c.owner, c.name, int(number), &o)
	})
	if err != nil {
		return nil, c.fail(err)
	}
	approved := map[string]bool{}
	for _, one := range reviews { // the oldest first; a comment changes nothing
		who := one.GetUser().GetLogin()
		switch one.GetState() {
		case "APPROVED":
			approved[who] = one.GetCommitID() == pr.GetHead().GetSHA()
		case "CHANGES_REQUESTED", "DISMISSED":
			delete(approved, who)
		}
		if isBot(one.GetUser()) || who == pr.GetUser().GetLogin() {
			delete(approved, who)
		}
	}
	maps.DeleteFunc(approved, func(_ string, current bool) bool { return !current })
	return slices.Sorted(maps.Keys(approved)), nil
}

// AddComment adds a comment to an issue or pull request.
func (s *Service) AddComment(ctx context.Context, repo string, on forge.Subject, text string) (forge.Comment, error) {
	c, err := s.on(ctx, repo, "comment on %s", on)
	if err != nil {
		return forge.Comment{}, err
	}
	made, _, err := s.api.Issues.CreateComment(c.ctx, c.owner, c.name, int(on.Number), &api.IssueComment{Body: &text})
	if err != nil {
		return forge.Comment{}, c.fail(err)
	}
	return issueComment(made), nil
}

// Reply answers a comment: one on a line in its thread, others in the conversation.
func (s *Service) Reply(ctx context.Context, repo string, on forge.Subject, to forge.Comment, text string) (forge.Comment, error) {
	thread := number(to.Thread, onLine)
	if thread == 0 || !on.PullRequest {
		return s.AddComment(ctx, repo, on, text)
	}
	c, err := s.on(ctx, repo, "answer a comment on %s", on)
	if err != nil {
		return forge.Comment{}, err
	}
	made, _, err := s.api.PullRequests.CreateCommentInReplyTo(c.ctx, c.owner, c.name, int(on.Number), text, thread)
	if err != nil {
		return forge.Comment{}, c.fail(err)
	}
	return lineComment(made), nil
}

func issueComment(c *api.IssueComment) forge.Comment {
	return forge.Comment{
		ID: onConversation + strconv.FormatInt(c.GetID(), 10), Author: c.GetUser().GetLogin(), Bot: isBot(c.GetUser()), Body: c.GetBody(),
		URL: c.GetHTMLURL(), CreatedAt: c.GetCreatedAt().Time, UpdatedAt: c.GetUpdatedAt().Time,
	}
}

// lineComment converts a comment on a line. Its line is that of the commit that it was made on, 0 if
// it is on a deleted line.
func lineComment(c *api.PullRequestComment) forge.Comment {
	thread := c.GetInReplyTo()
	if thread == 0 {
		thread = c.GetID()
	}
	line := cmp.Or(c.GetOriginalLine(), c.GetLine())
	if c.GetSide() == "LEFT" {
		line = 0
	}
	return forge.Comment{
		ID: onLine + strconv.FormatInt(c.GetID(), 10), Thread: onLine + strconv.FormatInt(thread, 10),
		Author: c.GetUser().GetLogin(), Bot: isBot(c.GetUser()), Body: c.GetBody(), URL: c.GetHTMLURL(),
		Path: c.GetPath(), Line: line, Commit: cmp.Or(c.GetOriginalCommitID(), c.GetCommitID()),
		CreatedAt: c.GetCreatedAt().Time, UpdatedAt: c.GetUpdatedAt().Time,
	}
}

func isBot(u *api.User) bool { return u.GetType() == "Bot" }

// number returns the number in a comment's ID, 0 if it is not of the kind.
func number(id, kind string) int64 {
	rest, ok := strings.CutPrefix(id, kind)
	if !ok {
		return 0
	}
	n, err := strconv.ParseInt(rest, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
