package contract

// Workspace is the state of a repository during a run, as a value: any worker on any
// host can continue with it. A directory is only a cache of it.
type Workspace struct {
	Repo  string `json:"repo"`            // URL or absolute path, as in Repo.URL
	Base  string `json:"base"`            // full commit id that the run started from
	Tree  string `json:"tree"`            // git tree id of the current content
	Patch string `json:"patch,omitempty"` // digest of the artifact that leads from Base's tree to Tree; empty if they are the same
}

// Workspace returns a workspace with the repository's content at its base commit.
func (r Repo) Workspace() Workspace { return Workspace{Repo: r.URL, Base: r.Base, Tree: r.Tree} }

// Slim returns the workspace without the fields that all workspaces of a run share, so that lists
// stay small in histories. Of restores these fields.
func (w Workspace) Slim() Workspace { return Workspace{Tree: w.Tree, Patch: w.Patch} }

// Of returns the workspace with the fields that it shares with base, a workspace of the same run.
func (w Workspace) Of(base Workspace) Workspace {
	w.Repo, w.Base = base.Repo, base.Base
	return w
}

// Change is the change of one step, from From to To. Both may be slim.
type Change struct {
	Step string    `json:"step"`
	From Workspace `json:"from"`
	To   Workspace `json:"to"`
}

// Credit names the author of a step's change, for the trailers of its commit.
type Credit struct {
	Step   string `json:"step"`
	Model  string `json:"model,omitempty"`
	Prompt string `json:"prompt,omitempty"` // version of the prompt
}

// FastForward applies changes to a workspace as long as each starts where the previous one ended,
// which needs no merge, and returns the rest. Only the trees are compared.
func FastForward(start Workspace, changes []Change) (Workspace, []Change) {
	for i, c := range changes {
		if c.From.Tree != start.Tree {
			return start, changes[i:]
		}
		start = c.To.Of(start)
	}
	return start, nil
}

// Conflict describes a conflict during the integration of changes.
type Conflict struct {
	Step  string   `json:"step"` // the step whose change could not be merged
	Paths []string `json:"paths"`
}
