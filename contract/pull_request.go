package contract

import "time"

// DraftPolicy says which pull requests are drafts.
type DraftPolicy string

// The draft policies.
const (
	DraftByGate DraftPolicy = "gate" // if the gate demanded an approval of the release
	DraftAlways DraftPolicy = "always"
	DraftNever  DraftPolicy = "never"
)

// PullRequestSettings describe the pull request of a run's release.
type PullRequestSettings struct {
	Base       string      `json:"base,omitempty"` // branch to merge into; empty: the one that the run started from
	Draft      DraftPolicy `json:"draft"`
	Labels     []string    `json:"labels,omitempty"`
	Reviewers  []string    `json:"reviewers,omitempty"` // people, and teams as organisation/team
	CodeOwners bool        `json:"code_owners,omitempty"`
	Statuses   bool        `json:"statuses,omitempty"`
	Comments   bool        `json:"comments,omitempty"`
	// CloseIssue says that merging the pull request closes the issue that the run is about, CommentIssue
	// that a comment there names the pull request.
	CloseIssue   bool `json:"close_issue,omitempty"`
	CommentIssue bool `json:"comment_issue,omitempty"`
	// Update says how the branch gets commits of its base while the run watches it; nil: it does not.
	Update *UpdateSettings `json:"update,omitempty"`
	Link   string          `json:"link,omitempty"` // address of the dashboard; empty: no link to the run
}

// PullRequestInput is the input for opening or updating the pull request of a released branch.
type PullRequestInput struct {
	Execution ExecutionRef    `json:"execution"` // of the releaser
	Repo      Repo            `json:"repo"`
	Release   ReleaseSettings `json:"release"`
	Branch    string          `json:"branch"`
	Commit    string          `json:"commit"`
	Workspace Workspace       `json:"workspace"` // what was released
	// Merged is the content of the base that was brought into the branch last, slim; empty: the base commit
	// of the run.
	Merged Workspace `json:"merged,omitzero"`
	// Approved says that the release needed an approval, which was given.
	Approved bool `json:"approved,omitempty"`
}

// PullRequestState is the state of a pull request.
type PullRequestState string

// The states of a pull request.
const (
	PullRequestOpen   PullRequestState = "open"
	PullRequestClosed PullRequestState = "closed"
	PullRequestMerged PullRequestState = "merged"
)

// PullRequest is the pull request of a run's branch, as last seen.
type PullRequest struct {
	RunID     int64            `json:"runId"`
	Forge     string           `json:"forge" doc:"name of the forge (forges)"`
	Repo      string           `json:"repository" doc:"path on the forge, such as owner/name"`
	Number    int64            `json:"number"`
	URL       string           `json:"url"`
	Title     string           `json:"title"`
	Head      string           `json:"head" doc:"the released branch"`
	Base      string           `json:"base" doc:"branch to merge into"`
	Commit    string           `json:"commit" doc:"that the run released last"`
	State     PullRequestState `json:"state" enum:"open,closed,merged"`
	Draft     bool             `json:"draft"`
	Conflict  bool             `json:"conflict" doc:"the forge says that it conflicts with its base"`
	Notes     []string         `json:"notes,omitempty" doc:"what could not be done, such as labels that the forge refused"`
	CreatedAt time.Time        `json:"created_at"`
	UpdatedAt time.Time        `json:"updated_at"`
}

// StateText returns the state for people: that of an open draft is "draft", and a conflict with the base
// is added.
func (p PullRequest) StateText() string {
	text := string(p.State)
	if p.Draft && p.State == PullRequestOpen {
		text = "draft"
	}
	if p.Conflict && p.State == PullRequestOpen {
		text += " (conflict)"
	}
	return text
}
