package gitlab

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"time"

	api "gitlab.com/gitlab-org/api/client-go/v2"

	"github.com/rocketgpt/orchestrator/internal/forge"
)

// Review adds comments on lines as discussions, and the review's text as the last comment. A review
// that was added in part is completed: comments that are there already are not added again.
func (s *Service) Review(ctx context.Context, repo string, number int64, review forge.NewReview) error {
	c, err := s.on(ctx, repo, "add a review to merge request %d", number)
	if err != nil {
		return err
	}
	if err := forge.CheckCommit(review.Commit); err != nil {
		return c.fail(err)
	}
	if review.Body == "" && len(review.Comments) == 0 {
		return c.refuse("the review has neither a text nor comments")
	}
	rest := review.Comments
	if len(rest) > 0 {
		if rest, err = c.reviewLines(number, review); err != nil {
			return c.fail(err)
		}
	}
	body := forge.WithUnplaced(review.Body, rest)
	if body == "" {
		return nil
	}
	_, _, err = s.api.Notes.CreateMergeRequestNote(c.repo, number, &api.CreateMergeRequestNoteOptions{Body: api.Ptr(harmless(body))}, c.with())
	return c.fail(err)
}

// reviewLines adds the comments that are on lines of the change, and returns the others.
func (c *call) reviewLines(number int64, review forge.NewReview) ([]forge.LineComment, error) {
	version, err := c.version(number, review.Commit)
	if err != nil || version == nil {
		return review.Comments, err
	}
	lines, old := forge.Lines{}, map[string]string{}
	for _, diff := range version.Diffs {
		lines.Add(diff.NewPath, diff.Diff)
		old[diff.NewPath] = diff.OldPath
	}
	login, err := c.known(c.ctx)
	if err != nil {
		return nil, err
	}
	earlier, err := c.comments(forge.OnPullRequest(number), time.Time{})
	if err != nil {
		return nil, err
	}
	placed, rest := forge.Place(review.Comments, lines)
	for _, one := range placed {
		if slices.ContainsFunc(earlier, func(e forge.Comment) bool {
			return e.Author == login && e.Path == one.Path && e.Line == one.Line && e.Commit == review.Commit && e.Body == harmless(one.Body)
		}) {
			continue
		}
		position := &api.PositionOptions{
			BaseSHA: &version.BaseCommitSHA, StartSHA: &version.StartCommitSHA, HeadSHA: &version.HeadCommitSHA,
			PositionType: api.Ptr("text"), NewPath: &one.Path, OldPath: api.Ptr(old[one.Path]), NewLine: api.Ptr(int64(one.Line)),
		}
		if before := lines[one.Path][one.Line]; before > 0 {
			position.OldLine = api.Ptr(int64(before))
		}
		_, _, err := c.api.Discussions.CreateMergeRequestDiscussion(c.repo, number, &api.CreateMergeRequestDiscussionOptions{Body: api.Ptr(harmless(one.Body)), Position: position}, c.with())
		if status(err, http.StatusBadRequest, http.StatusUnprocessableEntity) { // GitLab cannot place it
			rest = append(rest, one)
		} else if err != nil {
			return nil, err
		}
	}
	return rest, nil
}

// version returns the version of a merge request whose head is a commit, nil if there is none.
func (c *call) version(number int64, commit string) (*api.MergeRequestDiffVersion, error) {
	list, err := c.versions(number)
	if err != nil {
		return nil, err
	}
	for _, one := range list {
		if one.HeadCommitSHA == commit {
			whole, _, err := c.api.MergeRequests.GetSingleMergeRequestDiffVersion(c.repo, number, one.ID, nil, c.with())
			return whole, err
		}
	}
	return nil, nil
}

// Comments returns the comments on an issue or merge request, without GitLab's own notes.
func (s *Service) Comments(ctx context.Context, repo string, on forge.Subject, since time.Time) ([]forge.Comment, error) {
	c, err := s.on(ctx, repo, "read the comments on %s", on)
	if err != nil {
		return nil, err
	}
	out, err := c.comments(on, since)
	return out, c.fail(err)
}

func (c *call) comments(on forge.Subject, since time.Time) ([]forge.Comment, error) {
	discussions, err := all(func(o api.ListOptions) ([]*api.Discussion, *api.Response, error) {
		if on.PullRequest {
			return c.api.Discussions.ListMergeRequestDiscussions(c.repo, on.Number, &api.ListMergeRequestDiscussionsOptions{ListOptions: o}, c.with())
		}
		return c.api.Discussions.ListIssueDiscussions(c.repo, on.Number, &api.ListIssueDiscussionsOptions{ListOptions: o}, c.with())
	})
	if err != nil {
		return nil, err
	}
	var out []forge.Comment
	for _, d := range discussions {
		for _, note := range d.Notes {
			if one := c.comment(on, note, d.ID); !note.System && !one.UpdatedAt.Before(since) {
				out = append(out, one)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b forge.Comment) int { return a.CreatedAt.Compare(b.CreatedAt) })
	return out, nil
}

// AddComment adds a comment to an issue or merge request.
func (s *Service) AddComment(ctx context.Context, repo string, on forge.Subject, text string) (forge.Comment, error) {
	c, err := s.on(ctx, repo, "comment on %s", on)
	if err != nil {
		return forge.Comment{}, err
	}
	body := harmless(text)
	var note *api.Note
	if on.PullRequest {
		note, _, err = s.api.Notes.CreateMergeRequestNote(c.repo, on.Number, &api.CreateMergeRequestNoteOptions{Body: &body}, c.with())
	} else {
		note, _, err = s.api.Notes.CreateIssueNote(c.repo, on.Number, &api.CreateIssueNoteOptions{Body: &body}, c.with())
	}
	if err != nil {
		return forge.Comment{}, c.fail(err)
	}
	return c.comment(on, note, ""), nil
}

// discussionPattern matches the IDs of discussions.
var discussionPattern = regexp.MustCompile(`^[0-9a-f]{1,64}$`)

// Reply answers a comment in its discussion.
func (s *Service) Reply(ctx context.Context, repo string, on forge.Subject, to forge.Comment, text string) (forge.Comment, error) {
	if !discussionPattern.MatchString(to.Thread) {
		return s.AddComment(ctx, repo, on, text)
	}
	c, err := s.on(ctx, repo, "answer a comment on %s", on)
	if err != nil {
		return forge.Comment{}, err
	}
	body := harmless(text)
	var note *api.Note
	if on.PullRequest {
		note, _, err = s.api.Discussions.AddMergeRequestDiscussionNote(c.repo, on.Number, to.Thread, &api.AddMergeRequestDiscussionNoteOptions{Body: &body}, c.with())
	} else {
		note, _, err = s.api.Discussions.AddIssueDiscussionNote(c.repo, on.Number, to.Thread, &api.AddIssueDiscussionNoteOptions{Body: &body}, c.with())
	}
	if err != nil {
		return forge.Comment{}, c.fail(err)
	}
	return c.comment(on, note, to.Thread), nil
}

// botPattern matches the accounts of project and group access tokens.
var botPattern = regexp.MustCompile(`^(project|group)_\d+_bot(_[0-9a-f]+)?$`)

func (c *call) comment(on forge.Subject, n *api.Note, thread string) forge.Comment {
	kind := "issues"
	if on.PullRequest {
		kind = "merge_requests"
	}
	out := forge.Comment{
		ID: strconv.FormatInt(n.ID, 10), Thread: thread, Author: n.Author.Username, Bot: botPattern.MatchString(n.Author.Username), Body: n.Body,
		URL:       fmt.Sprintf("%s/%s/-/%s/%d#note_%d", c.http.Site(), c.repo, kind, on.Number, n.ID),
		CreatedAt: at(n.CreatedAt), UpdatedAt: at(n.UpdatedAt),
	}
	if p := n.Position; p != nil {
		out.Path, out.Line, out.Commit = p.NewPath, int(p.NewLine), p.HeadSHA
	}
	return out
}
