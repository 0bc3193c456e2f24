package contract

import "time"

// BranchPoint is a commit from which a run continues its branch: people pushed it, or it brings the base
// of the pull request in. The commit and those before it stay as they are: what the run adds begins
// after it.
type BranchPoint struct {
	Commit    string    `json:"commit"`
	Workspace Workspace `json:"workspace"` // its content, slim, as a change of the run's base commit
	// Update says how the base is brought in, if the branch is not at the commit yet. Nil: it is.
	Update *BranchUpdate `json:"update,omitempty"`
}

// UpdateMethod says how a branch gets the commits of its base.
type UpdateMethod string

// The update methods.
const (
	UpdateMerge  UpdateMethod = "merge"
	UpdateRebase UpdateMethod = "rebase"
)

// UpdateWhen says when a branch gets the commits of its base.
type UpdateWhen string

// When a branch is updated.
const (
	UpdateOnConflict UpdateWhen = "conflict" // if it conflicts with its base, or the forge demands its newest commit
	UpdateIfBehind   UpdateWhen = "behind"   // whenever its base has newer commits
)

// UpdateSettings say how a run updates the branch of its pull request from the base while it watches it.
type UpdateSettings struct {
	Method   UpdateMethod  `json:"method"`
	When     UpdateWhen    `json:"when"`
	Max      int           `json:"max"`      // updates of the run
	Interval time.Duration `json:"interval"` // between two updates
}

// BranchUpdate is how a branch gets the commits of its base. The same one makes the same commits on
// every host.
type BranchUpdate struct {
	Head    string    `json:"head"` // commit of the branch
	Base    string    `json:"base"` // commit of the base
	Into    string    `json:"into"` // name of the base
	Rebased bool      `json:"rebased,omitempty"`
	At      time.Time `json:"at"` // of the merge commit
	// Content is that of the base, slim, as a change of the run's base commit.
	Content Workspace `json:"content"`
	// Conflicts are the files that conflict. Then the workspace of the point is the automatic merge with
	// conflict markers, and the commit is the merge with what the run makes of it.
	Conflicts []string `json:"conflicts,omitempty"`
}

// MaxUpdateConflicts is the number of conflicting files that a run resolves.
const MaxUpdateConflicts = 50

// ActivityUpdateBranch brings the base of a pull request into the branch of a run, without pushing it.
const ActivityUpdateBranch = "rgpt.releaser.UpdateBranch"

// UpdateBranchInput is the input for bringing the base into a branch.
type UpdateBranchInput struct {
	RunID   int64           `json:"run_id"`
	Repo    Repo            `json:"repo"`
	Release ReleaseSettings `json:"release"`
	Branch  string          `json:"branch"`
	Head    string          `json:"head"`             // at which the run knows the branch
	Why     string          `json:"why"`              // conclusion of the message
	Pushed  bool            `json:"pushed,omitempty"` // people have pushed to the branch
	At      time.Time       `json:"at"`
}

// UpdateBranchResult is a branch with its base brought in.
type UpdateBranchResult struct {
	// Reason is why nothing is to be done; empty: the run continues from the point.
	Reason   string      `json:"reason,omitempty"`
	UpToDate bool        `json:"up_to_date,omitempty"` // the reason is that the branch has all commits of its base
	Point    BranchPoint `json:"point"`
	Note     string      `json:"note,omitempty"` // why the base is merged although the settings want a rebase
}

// ActivityConflictMarkers finds conflict markers that the resolution of conflicts has left.
const ActivityConflictMarkers = "rgpt.releaser.ConflictMarkers"

// ConflictMarkersInput is the input for finding conflict markers.
type ConflictMarkersInput struct {
	From   Workspace    `json:"from"` // the automatic merge, slim
	To     Workspace    `json:"to"`   // the resolution
	Update BranchUpdate `json:"update"`
}

// ActivityTakeBranch finds out whether people moved the branch of a run, and what is on it now.
const ActivityTakeBranch = "rgpt.releaser.TakeBranch"

// TakeBranchInput is the input for continuing from what people pushed to a branch.
type TakeBranchInput struct {
	RunID   int64           `json:"run_id"`
	Repo    Repo            `json:"repo"`
	Release ReleaseSettings `json:"release"`
	Branch  string          `json:"branch"`
	Commit  string          `json:"commit"` // at which the run knows the branch
	// Changes are those of the run that are not on the branch yet. They are applied to what people
	// pushed.
	Changes []Change `json:"changes,omitempty"`
}

// MaxPushers is the number of names in a TakeBranchResult.
const MaxPushers = 50

// TakeBranchResult is what people pushed to a branch.
type TakeBranchResult struct {
	Point BranchPoint `json:"point"` // its commit is that of the input if nobody moved the branch
	// Stages is what the run's changes make of it, after each of them, slim.
	Stages []Workspace `json:"stages,omitempty"`
	// Conflict is the first change that cannot be applied to it; nil: all of them can.
	Conflict *Conflict `json:"conflict,omitempty"`
	// Rewritten says that the commit at which the run knew the branch is not part of it any longer.
	Rewritten bool `json:"rewritten,omitempty"`
	// Commits is the number of new commits, without those that merges brought in.
	Commits int `json:"commits"`
	// People are the names and addresses in the new commits.
	People []string `json:"people,omitempty"`
}
