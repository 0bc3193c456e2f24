package contract

// BranchPoint is a commit that people pushed to the branch of a run, and from which the run continues.
// The commit and those before it stay as they are: what the run adds begins after it.
type BranchPoint struct {
	Commit    string    `json:"commit"`
	Workspace Workspace `json:"workspace"` // its content, slim, as a change of the run's base commit
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
