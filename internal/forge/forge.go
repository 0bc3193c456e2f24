// Package forge works with the services that host repositories: GitHub, GitLab, and Gitea, which
// includes Forgejo. A Service is one of them with credentials; the packages below implement it.
//
// Everything that a forge returns is data that strangers may have written: titles, texts, names of
// branches and people. Nothing here interprets it.
package forge

import (
	"context"
	"strconv"
	"time"
)

// Kind is the software of a forge.
type Kind string

// The kinds of forges.
const (
	GitHub Kind = "github"
	GitLab Kind = "gitlab"
	Gitea  Kind = "gitea" // also Forgejo
)

// Service is a forge with the credentials to use it. Its methods are safe for concurrent use.
//
// A repository is its path on the forge: owner/name, on GitLab with any number of groups.
//
// Every error is a *fault.Error whose message names the operation, the repository and the forge,
// never a credential: CONFIG_ERROR if the credentials or their rights do not suffice
// (CodeUnauthorized) or the object does not exist or cannot be seen (CodeRepository), INFRA_ERROR
// with RetryAfter if a rate limit was reached or the forge is unavailable, CONFIG_ERROR with
// CodeBadRequest if it refused the request. Methods do not retry; their callers do.
type Service interface {
	// Kind returns the forge's kind.
	Kind() Kind
	// Access returns who the credentials belong to and what they may do with a repository. Without a
	// repository (""), it returns only the former.
	Access(ctx context.Context, repo string) (Access, error)
	// Permission returns what a person may do with a repository: PermissionNone for a stranger.
	Permission(ctx context.Context, repo, login string) (Permission, error)

	// FindPullRequest returns the open pull request from a branch of the repository into base, nil
	// if none exists.
	FindPullRequest(ctx context.Context, repo, head, base string) (*PullRequest, error)
	// PullRequest returns a pull request by its number.
	PullRequest(ctx context.Context, repo string, number int64) (PullRequest, error)
	// CreatePullRequest opens a pull request. If one is already open from the same head into the same
	// base, it returns that one, unchanged: a call whose answer was lost can be repeated. Labels and
	// reviewers are set separately, because they may fail on their own.
	CreatePullRequest(ctx context.Context, repo string, opened NewPullRequest) (PullRequest, error)
	// UpdatePullRequest changes what is set in the change.
	UpdatePullRequest(ctx context.Context, repo string, number int64, change PullRequestChange) (PullRequest, error)
	// AddLabels adds labels to an issue or pull request, and creates those that the repository does
	// not have. Labels that it has already stay.
	AddLabels(ctx context.Context, repo string, on Subject, labels []string) error
	// RemoveLabel removes a label. It succeeds if the label is not set.
	RemoveLabel(ctx context.Context, repo string, on Subject, label string) error
	// RequestReviews asks people to review a pull request, in addition to earlier requests. The
	// forge may refuse people who cannot review.
	RequestReviews(ctx context.Context, repo string, number int64, reviewers Reviewers) error
	// Review adds a review with comments on lines. It neither approves nor rejects.
	Review(ctx context.Context, repo string, number int64, review NewReview) error
	// Approvals returns the people who approved the current head commit of a pull request and have not
	// withdrawn it, each once, sorted. Programs do not count, nor does who opened it. On a public repository,
	// everybody can approve: ask Permission whose approval counts.
	Approvals(ctx context.Context, repo string, number int64) ([]string, error)
	// Merge merges a pull request whose head is the given commit. It returns the commit on the base.
	// A head that has moved, and a pull request that cannot be merged, are a LOGIC_ERROR with
	// CodeMergeConflict. It succeeds if the pull request was merged already with this head.
	Merge(ctx context.Context, repo string, number int64, merge Merge) (string, error)
	// Branch returns the newest commit of a branch; of the default branch if it is empty. A branch that does
	// not exist is a CONFIG_ERROR with CodeRepository.
	Branch(ctx context.Context, repo, branch string) (commit string, err error)
	// DeleteBranch deletes a branch. It succeeds if the branch does not exist.
	DeleteBranch(ctx context.Context, repo, branch string) error

	// SetStatus sets the status of a commit in a context. It replaces the earlier one.
	SetStatus(ctx context.Context, repo, commit string, status Status) error
	// RequiredChecks returns the names of the checks that merging into a branch requires, whether or not they
	// were reported for a commit, each once, sorted: as far as the credentials can see, and the forge knows
	// them by name. GitLab does not. Patterns of Gitea are not among them. Check.Required is true for what
	// was reported and is required by any of these means.
	RequiredChecks(ctx context.Context, repo, base string) ([]string, error)
	// Checks returns the last result of each status and check of a commit.
	Checks(ctx context.Context, repo, commit string) ([]Check, error)
	// CheckLog returns the last most bytes of a check's log, "" if the forge has none.
	CheckLog(ctx context.Context, repo string, check Check, most int) (string, error)

	// Issue returns an issue by its number.
	Issue(ctx context.Context, repo string, number int64) (Issue, error)
	// Issues returns the open issues with a label that changed since a time, the oldest change first.
	// If there are more than MaxIssues, it may stop after as many, so that the next call continues since
	// the last change in them; they are then not all of one second. An empty label means all issues. An issue
	// that changes while they are read is in this result or in that of a call since the last change in it.
	Issues(ctx context.Context, repo, label string, since time.Time) ([]Issue, error)
	// Comments returns the comments on an issue or pull request that were made or edited since a time,
	// the oldest first: those of the conversation and those on lines of a change. Older ones may be among
	// them, if the forge does not say when they became visible.
	Comments(ctx context.Context, repo string, on Subject, since time.Time) ([]Comment, error)
	// AddComment adds a comment to an issue or pull request.
	AddComment(ctx context.Context, repo string, on Subject, text string) (Comment, error)
	// Reply answers a comment in its thread, or below it where the forge has no thread for it.
	Reply(ctx context.Context, repo string, on Subject, to Comment, text string) (Comment, error)
}

// MaxIssues is the number of issues after which Service.Issues may stop.
const MaxIssues = 1000

// Subject is an issue or a pull request. On GitLab, an issue and a merge request may have the same
// number.
type Subject struct {
	Number      int64
	PullRequest bool
}

// OnIssue returns the subject that is an issue.
func OnIssue(number int64) Subject { return Subject{Number: number} }

// OnPullRequest returns the subject that is a pull request.
func OnPullRequest(number int64) Subject { return Subject{Number: number, PullRequest: true} }

// String names the subject, for messages.
func (s Subject) String() string {
	if s.PullRequest {
		return "pull request " + strconv.FormatInt(s.Number, 10)
	}
	return "issue " + strconv.FormatInt(s.Number, 10)
}

// Permission is what a person or token may do with a repository. Greater ones include lesser ones.
type Permission int

// The permissions.
const (
	PermissionNone Permission = iota
	PermissionRead
	PermissionWrite
	PermissionAdmin
)

// Access describes credentials at a repository.
type Access struct {
	Login         string // who they belong to; of a GitHub App "name[bot]"
	Permission    Permission
	DefaultBranch string
	// Missing are the rights, as the forge names them, that pull requests need and the credentials
	// do not have, as far as the forge says so.
	Missing []string
}

// State is the state of a pull request.
type State string

// The states of a pull request.
const (
	Open   State = "open"
	Closed State = "closed"
	Merged State = "merged"
)

// PullRequest is a pull request; on GitLab, a merge request.
type PullRequest struct {
	Number      int64
	URL         string // for people
	Title, Body string
	Head, Base  string // names of branches
	HeadCommit  string
	FromFork    bool // the head is a branch of another repository
	State       State
	Draft       bool
	Mergeable   *bool  // nil: the forge has not found out yet
	Behind      bool   // the forge demands that the head has the newest commit of the base, and says that it lacks it
	MergeCommit string // of a merged one
	Labels      []string
	Author      string
	UpdatedAt   time.Time
}

// NewPullRequest is a pull request to be opened.
type NewPullRequest struct {
	Head, Base  string
	Title, Body string
	Draft       bool
}

// PullRequestChange is a change of a pull request. Nil fields stay as they are.
type PullRequestChange struct {
	Title, Body *string
	Draft       *bool
	State       *State // Open or Closed
}

// Reviewers are people and teams to be asked for a review, by their names on the forge.
type Reviewers struct {
	People []string
	Teams  []string // as organisation/team; GitLab has none
}

// NewReview is a review of a commit.
type NewReview struct {
	Commit   string
	Body     string
	Comments []LineComment
}

// LineComment is a comment on a line of a file as it is after the change. Where the forge cannot
// place it, because the line is not part of the change, its text is added to the review's body.
type LineComment struct {
	Path string
	Line int // from 1
	Body string
}

// MergeMethod is a way to merge.
type MergeMethod string

// The merge methods.
const (
	MergeCommit MergeMethod = "merge"
	MergeSquash MergeMethod = "squash"
	MergeRebase MergeMethod = "rebase"
)

// Approval is who approved a head of a pull request.
type Approval struct {
	Head string
	// Base is the commit after which the commits begin that were approved: the newest one of the branch into which
	// the pull request was to be merged then that the head has, too.
	Base string
	By   []string
}

// Merge is the request to merge a pull request.
type Merge struct {
	Method     MergeMethod
	HeadCommit string // the commit that was judged: another head is not merged
	Title      string // of the commit; empty: the forge's default
	Message    string
}

// CheckState is the state of a check or status.
type CheckState string

// The states of a check.
const (
	CheckPending CheckState = "pending"
	CheckSuccess CheckState = "success"
	CheckFailure CheckState = "failure"
	CheckError   CheckState = "error" // it could not run; no code change fixes it
	CheckSkipped CheckState = "skipped"
)

// Status is the status of a commit to be set. Contexts tell statuses of a commit apart.
type Status struct {
	Context     string
	State       CheckState // not CheckSkipped
	Description string     // cut to what the forge allows
	URL         string
}

// Check is a check or status of a commit, of any reporter.
type Check struct {
	ID          string // identifies this result: a check that runs again has another
	Name        string // the status's context or the check's name
	State       CheckState
	Description string
	URL         string
	Required    bool // the base branch's protection requires it, as far as the credentials can see
}

// Issue is an issue.
type Issue struct {
	Number    int64
	URL       string
	Title     string
	Body      string
	Author    string
	Labels    []string
	Closed    bool
	UpdatedAt time.Time
}

// Comment is a comment on an issue, a pull request or a line of one.
type Comment struct {
	ID        string // unique within the repository
	Thread    string // of comments on lines and discussions; "" where the forge has none
	Author    string
	Bot       bool // as far as the forge says so
	Review    bool // it is the text of a review as a whole, which does not approve
	Body      string
	URL       string
	Path      string // of a comment on a line
	Line      int
	Commit    string // that a comment on a line was made on
	CreatedAt time.Time
	UpdatedAt time.Time
}
