package gitea

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	sdk "code.gitea.io/sdk/gitea"
	"github.com/bluekeyes/go-gitdiff/gitdiff"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/forge"
)

// Review adds a review. The forge would accept a comment on any line, but does not show one that is
// not in the change. Comments also go to the body if the head has moved since, or the change is too
// large to be read.
func (s *Service) Review(ctx context.Context, repo string, number int64, review forge.NewReview) error {
	c, err := s.begin(ctx, repo, fmt.Sprintf("review pull request %d", number))
	if err != nil {
		return err
	}
	if err := c.checkCommit(review.Commit); err != nil {
		return err
	}
	opts := sdk.CreatePullReviewOptions{State: sdk.ReviewStateComment, Body: review.Body, CommitID: review.Commit}
	var shown lines
	if len(review.Comments) > 0 {
		if shown, err = c.shown(number, review.Commit); err != nil {
			return c.explain(err)
		}
	}
	for _, one := range review.Comments {
		switch {
		case strings.TrimSpace(one.Body) == "":
			return c.refuse("its comment on line %d has no text", one.Line)
		case shown.has(one.Path, one.Line):
			opts.Comments = append(opts.Comments, sdk.CreatePullReviewComment{Path: one.Path, Body: one.Body, NewLineNum: int64(one.Line)})
		default:
			opts.Body = strings.TrimSpace(opts.Body + "\n\n" + elsewhere(one))
		}
	}
	if strings.TrimSpace(opts.Body) == "" && len(opts.Comments) == 0 {
		return c.refuse("it has no text")
	}
	_, _, err = c.api.CreatePullReview(c.owner, c.name, number, opts)
	return c.explain(err)
}

// Approvals returns the people whose last review of the head approves it.
func (s *Service) Approvals(ctx context.Context, repo string, number int64) ([]string, error) {
	c, err := s.begin(ctx, repo, fmt.Sprintf("read the approvals of pull request %d", number))
	if err != nil {
		return nil, err
	}
	p, err := c.pullRequest(number)
	if err != nil {
		return nil, c.explain(err)
	}
	reviews, err := pages(func(page sdk.ListOptions) ([]*sdk.PullReview, *sdk.Response, error) {
		return c.api.ListPullReviews(c.owner, c.name, number, sdk.ListPullReviewsOptions{ListOptions: page})
	})
	if err != nil {
		return nil, c.explain(err)
	}
	slices.SortFunc(reviews, func(a, b *sdk.PullReview) int { return cmp.Compare(a.ID, b.ID) })
	approved := map[string]bool{}
	for _, one := range reviews { // a comment changes nothing
		if one.Reviewer == nil || one.Reviewer.UserName == p.Author {
			continue
		}
		switch who := one.Reviewer.UserName; one.State {
		case sdk.ReviewStateApproved:
			approved[who] = !one.Dismissed && one.CommitID == p.HeadCommit
		case sdk.ReviewStateRequestChanges:
			if !one.Dismissed {
				delete(approved, who)
			}
		default:
		}
	}
	maps.DeleteFunc(approved, func(_ string, current bool) bool { return !current })
	return slices.Sorted(maps.Keys(approved)), nil
}

// elsewhere returns the text for the review's body of a comment that cannot be placed.
func elsewhere(one forge.LineComment) string {
	path := strings.ReplaceAll(strings.Join(strings.Fields(one.Path), " "), "`", "'")
	return fmt.Sprintf("`%s`, line %d:\n\n%s", path, one.Line, one.Body)
}

// lines are the lines of files that a change shows, by path: those that it adds, and those around.
type lines map[string][]span

// span is lines from first up to, but not including, end.
type span struct{ first, end int64 }

func (l lines) has(path string, line int) bool {
	for _, s := range l[path] {
		if s.first <= int64(line) && int64(line) < s.end {
			return true
		}
	}
	return false
}

// shown returns the lines that a pull request shows, none if its head is not the commit.
func (c *call) shown(number int64, commit string) (lines, error) {
	p, err := c.pullRequest(number)
	if err != nil || p.HeadCommit != commit {
		return nil, err
	}
	diff, _, err := c.api.GetPullRequestDiff(c.owner, c.name, number, sdk.PullRequestDiffOptions{})
	if err != nil {
		if fault.Is(c.explain(err), contract.CodeTooLarge) {
			return nil, nil
		}
		return nil, err
	}
	return parseLines(string(diff)), nil
}

// parseLines returns the lines that a diff shows. Of a diff that cannot be read, it returns those of
// the files before the mistake.
func parseLines(diff string) lines {
	files, _, _ := gitdiff.Parse(strings.NewReader(diff)) // hostile text; what was read is correct
	shown := lines{}
	for _, f := range files {
		if f.IsBinary || f.IsDelete {
			continue
		}
		for _, fragment := range f.TextFragments {
			shown[f.NewName] = append(shown[f.NewName], span{fragment.NewPosition, fragment.NewPosition + fragment.NewLines})
		}
	}
	return shown
}
