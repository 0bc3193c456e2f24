package gitlab

import (
	"cmp"
	"context"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	api "gitlab.com/gitlab-org/api/client-go/v2"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/forge"
)

// draftPrefix marks the title of a draft; draftPattern matches all marks that GitLab accepts.
const draftPrefix = "Draft: "

var draftPattern = regexp.MustCompile(`(?i)^\s*(\[draft\]|\(draft\)|draft:)\s*`)

// plain returns a title without marks of a draft.
func plain(title string) string {
	for draftPattern.MatchString(title) {
		title = draftPattern.ReplaceAllString(title, "")
	}
	return title
}

// titled returns a title with or without the mark of a draft.
func titled(title string, draft bool) string {
	if draft {
		return draftPrefix + plain(title)
	}
	return plain(title)
}

// quick matches the beginning of a line that GitLab would run as a command, such as /merge.
var quick = regexp.MustCompile(`(?m)^(\s*)/([A-Za-z])`)

// harmless returns a text in which no line is a command: GitLab runs those of comments and
// descriptions with the rights of their author.
func harmless(text string) string { return quick.ReplaceAllString(text, `$1\/$2`) }

// FindPullRequest returns the open merge request from a branch of the project into base.
func (s *Service) FindPullRequest(ctx context.Context, repo, head, base string) (*forge.PullRequest, error) {
	c, err := s.on(ctx, repo, "find the merge request from %q into %q", head, base)
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
	list, err := all(func(o api.ListOptions) ([]*api.BasicMergeRequest, *api.Response, error) {
		return c.api.MergeRequests.ListProjectMergeRequests(c.repo, &api.ListProjectMergeRequestsOptions{
			ListOptions: o, State: api.Ptr("opened"), SourceBranch: &head, TargetBranch: &base,
		}, c.with())
	})
	if err != nil {
		return nil, err
	}
	for _, one := range list {
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

// PullRequest returns a merge request by its number, which is its IID.
func (s *Service) PullRequest(ctx context.Context, repo string, number int64) (forge.PullRequest, error) {
	c, err := s.on(ctx, repo, "read merge request %d", number)
	if err != nil {
		return forge.PullRequest{}, err
	}
	mr, err := c.read(number)
	if err != nil {
		return forge.PullRequest{}, c.fail(err)
	}
	return pullRequest(&mr.BasicMergeRequest), nil
}

func (c *call) read(number int64) (*api.MergeRequest, error) {
	mr, _, err := c.api.MergeRequests.GetMergeRequest(c.repo, number, &api.GetMergeRequestsOptions{
		IncludeRebaseInProgress: api.Ptr(true), IncludeDivergedCommitsCount: api.Ptr(true),
	}, c.with())
	return mr, err
}

// CreatePullRequest opens a merge request, or returns the one that is open already.
func (s *Service) CreatePullRequest(ctx context.Context, repo string, opened forge.NewPullRequest) (forge.PullRequest, error) {
	c, err := s.on(ctx, repo, "open a merge request from %q into %q", opened.Head, opened.Base)
	if err != nil {
		return forge.PullRequest{}, err
	}
	if err := checkBranches(opened.Head, opened.Base); err != nil {
		return forge.PullRequest{}, c.fail(err)
	}
	mr, _, err := s.api.MergeRequests.CreateMergeRequest(c.repo, &api.CreateMergeRequestOptions{
		Title: api.Ptr(titled(opened.Title, opened.Draft)), Description: api.Ptr(harmless(opened.Body)), SourceBranch: &opened.Head, TargetBranch: &opened.Base,
	}, c.with())
	if status(err, http.StatusConflict) {
		existing, findErr := c.find(opened.Head, opened.Base)
		if findErr != nil {
			return forge.PullRequest{}, c.fail(findErr)
		}
		if existing != nil {
			return *existing, nil
		}
	}
	if err != nil {
		return forge.PullRequest{}, c.fail(err)
	}
	return pullRequest(&mr.BasicMergeRequest), nil
}

// UpdatePullRequest changes what is set in the change.
func (s *Service) UpdatePullRequest(ctx context.Context, repo string, number int64, change forge.PullRequestChange) (forge.PullRequest, error) {
	c, err := s.on(ctx, repo, "change merge request %d", number)
	if err != nil {
		return forge.PullRequest{}, err
	}
	mr, err := c.read(number)
	if err != nil {
		return forge.PullRequest{}, c.fail(err)
	}
	edit := &api.UpdateMergeRequestOptions{}
	draft, title := mr.Draft, plain(mr.Title)
	if change.Draft != nil {
		draft = *change.Draft
	}
	if change.Title != nil {
		title = *change.Title
	}
	if wanted := titled(title, draft); wanted != mr.Title {
		edit.Title = &wanted
	}
	if change.Body != nil {
		edit.Description = api.Ptr(harmless(*change.Body))
	}
	if change.State != nil {
		event, ok := map[forge.State]string{forge.Open: "reopen", forge.Closed: "close"}[*change.State]
		if !ok {
			return forge.PullRequest{}, c.refuse("the state %q cannot be set", *change.State)
		}
		if stateOf(mr.State) != *change.State {
			edit.StateEvent = &event
		}
	}
	if *edit != (api.UpdateMergeRequestOptions{}) {
		if mr, _, err = s.api.MergeRequests.UpdateMergeRequest(c.repo, number, edit, c.with()); err != nil {
			return forge.PullRequest{}, c.fail(err)
		}
	}
	return pullRequest(&mr.BasicMergeRequest), nil
}

// RequestReviews adds reviewers to a merge request.
func (s *Service) RequestReviews(ctx context.Context, repo string, number int64, reviewers forge.Reviewers) error {
	c, err := s.on(ctx, repo, "request reviews of merge request %d", number)
	if err != nil || len(reviewers.People)+len(reviewers.Teams) == 0 {
		return err
	}
	if len(reviewers.Teams) > 0 {
		return c.refuse("GitLab has no teams of reviewers; name people")
	}
	mr, err := c.read(number)
	if err != nil {
		return c.fail(err)
	}
	var ids []int64
	for _, one := range mr.Reviewers {
		ids = append(ids, one.ID)
	}
	before := len(ids)
	for _, login := range reviewers.People {
		id, err := c.userID(login)
		if err != nil {
			return c.fail(err)
		}
		if id == 0 {
			return c.refuse("%q has no account", login)
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	if len(ids) == before {
		return nil
	}
	_, _, err = s.api.MergeRequests.UpdateMergeRequest(c.repo, number, &api.UpdateMergeRequestOptions{ReviewerIDs: &ids}, c.with())
	return c.fail(err)
}

// AddLabels adds labels to an issue or merge request. GitLab creates those that do not exist.
func (s *Service) AddLabels(ctx context.Context, repo string, on forge.Subject, labels []string) error {
	c, err := s.on(ctx, repo, "add labels to %s", on)
	if err != nil || len(labels) == 0 {
		return err
	}
	for _, label := range labels {
		if label == "" || strings.Contains(label, ",") {
			return c.refuse("GitLab has no label %q: it may not be empty or contain a comma", label)
		}
	}
	return c.fail(c.label(on, labels, nil))
}

// RemoveLabel removes a label.
func (s *Service) RemoveLabel(ctx context.Context, repo string, on forge.Subject, label string) error {
	c, err := s.on(ctx, repo, "remove the label %q from %s", label, on)
	if err != nil || label == "" || strings.Contains(label, ",") {
		return err // no such label can exist
	}
	return c.fail(c.label(on, nil, []string{label}))
}

// label changes the labels of an issue or merge request.
func (c *call) label(on forge.Subject, add, remove []string) error {
	list := func(labels []string) *api.LabelOptions {
		if labels == nil {
			return nil
		}
		return (*api.LabelOptions)(&labels)
	}
	var err error
	if on.PullRequest {
		_, _, err = c.api.MergeRequests.UpdateMergeRequest(c.repo, on.Number, &api.UpdateMergeRequestOptions{AddLabels: list(add), RemoveLabels: list(remove)}, c.with())
	} else {
		_, _, err = c.api.Issues.UpdateIssue(c.repo, on.Number, &api.UpdateIssueOptions{AddLabels: list(add), RemoveLabels: list(remove)}, c.with())
	}
	return err
}

// Branch returns the newest commit of a branch.
func (s *Service) Branch(ctx context.Context, repo, branch string) (string, error) {
	c, err := s.on(ctx, repo, "read the branch %q", branch)
	if err != nil {
		return "", err
	}
	if branch == "" {
		project, err := c.project()
		if err != nil {
			return "", c.fail(err)
		}
		branch = project.DefaultBranch
	}
	if err := forge.CheckBranch(branch); err != nil {
		return "", c.fail(err)
	}
	found, _, err := s.api.Branches.GetBranch(c.repo, branch, c.with())
	if err != nil || found.Commit == nil {
		return "", c.fail(err)
	}
	return found.Commit.ID, nil
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
	_, err = s.api.Branches.DeleteBranch(c.repo, branch, c.with())
	return c.fail(c.missing(err))
}

func stateOf(state string) forge.State {
	switch state {
	case "merged":
		return forge.Merged
	case "closed":
		return forge.Closed
	}
	return forge.Open // opened, or locked while it is merged
}

// pullRequest converts a merge request.
func pullRequest(m *api.BasicMergeRequest) forge.PullRequest {
	out := forge.PullRequest{
		Number: m.IID, URL: m.WebURL, Title: m.Title, Body: m.Description, Head: m.SourceBranch, Base: m.TargetBranch, HeadCommit: m.SHA,
		FromFork: m.SourceProjectID != m.TargetProjectID, State: stateOf(m.State), Draft: m.Draft, Mergeable: canMerge(m), Behind: m.DetailedMergeStatus == "need_rebase", Labels: m.Labels, UpdatedAt: at(m.UpdatedAt),
	}
	if m.Draft {
		out.Title = plain(m.Title)
	}
	if m.Author != nil {
		out.Author = m.Author.Username
	}
	if out.State == forge.Merged {
		// A fast-forward merge has no commit of its own.
		out.MergeCommit = cmp.Or(m.MergeCommitSHA, m.SquashCommitSHA, m.SHA)
	}
	return out
}

// canMerge reports whether the change can be merged without conflicts; nil: GitLab has not found out
// yet, or it is not open.
func canMerge(m *api.BasicMergeRequest) *bool {
	switch m.DetailedMergeStatus {
	case "", "not_open", "unchecked", "checking", "preparing", "approvals_syncing":
		return nil
	case "conflict", "need_rebase", "commits_status":
		return api.Ptr(false)
	}
	return api.Ptr(!m.HasConflicts)
}

func at(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

// conflict returns the failure for a merge request that cannot be merged.
func (c *call) conflict(format string, args ...any) error {
	return c.fail(fault.New(contract.ClassLogic, contract.CodeMergeConflict, format, args...))
}
