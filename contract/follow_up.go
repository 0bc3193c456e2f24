package contract

// FollowUp is the earlier run whose branch a run continues. The earlier run does not change.
type FollowUp struct {
	RunID int64 `json:"run_id"` // the earlier run
	// Branch is the branch that the earlier run released, and to which this run adds its commits. It is
	// empty for a fork of a follow-up: that has a branch of its own.
	Branch string `json:"branch,omitempty"`
	// Into is the branch from which the first run of the branch started, for a run that follows up on
	// this one. It is empty if that run started from a commit or a tag.
	Into string `json:"into,omitempty"`
	// Root is the commit from which the first run of the branch started. Its rgpt.yaml and its dev
	// container apply to all runs of the branch: agents may have changed those of the branch.
	Root string `json:"root,omitempty"`
}

// ContinuedBranch returns the branch to which a run adds its commits, or "" if it makes its own.
func (s Settings) ContinuedBranch() string {
	if s.FollowUp == nil {
		return ""
	}
	return s.FollowUp.Branch
}
