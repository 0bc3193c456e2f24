package control

import (
	"context"

	"github.com/rocketgpt/orchestrator/internal/brain"
)

// BrainQuery is a question about a repository.
type BrainQuery struct {
	// Repo is a directory on this host or a URL.
	Repo string
	// Rev is a branch, tag or commit; empty: the checked-out commit, or the default branch of a URL.
	Rev string
	brain.Query
}

// BrainSearch finds the files of a repository that matter for a question.
func (r *Runs) BrainSearch(ctx context.Context, q BrainQuery) (answer brain.Answer, err error) {
	if err = q.Check(); err != nil { // before the repository is indexed
		return answer, err
	}
	commit, notes, err := r.withView(ctx, q.Repo, q.Rev, func(v brain.View) error {
		answer, err = v.Search(ctx, q.Query)
		return err
	})
	answer.Commit, answer.Notes = commit, append(notes, answer.Notes...)
	return answer, err
}

// BrainMap is a description of a repository.
type BrainMap struct {
	Text   string   `json:"text"`
	Commit string   `json:"commit" doc:"commit that is described"`
	Notes  []string `json:"notes" doc:"what is worth knowing about it"`
}

// BrainMap describes a repository within a number of tokens (0: the default): first what matters for a
// goal, which may be empty.
func (r *Runs) BrainMap(ctx context.Context, repo, rev, goal string, tokens int) (m BrainMap, err error) {
	if err = brain.CheckTokens(tokens); err != nil {
		return m, err
	}
	m.Commit, m.Notes, err = r.withView(ctx, repo, rev, func(v brain.View) error {
		m.Text, err = v.Map(goal, tokens)
		return err
	})
	return m, err
}

// withView calls f with the index of a commit of a repository. What it lacks is indexed first. The
// notes say what is worth knowing about the commit.
func (r *Runs) withView(ctx context.Context, repo, rev string, f func(brain.View) error) (commit string, notes []string, err error) {
	if repo == "" {
		return "", nil, wrong("no repository given; specify a directory or a URL (--repo)")
	}
	if repo, err = withPath(repo); err != nil {
		return "", nil, err
	}
	b, workspaces, err := r.openBrain()
	if err != nil {
		return "", nil, err
	}
	at, info, err := workspaces.Resolve(ctx, repo, rev)
	if err != nil {
		return "", nil, err
	}
	view, err := b.View(ctx, at)
	if err != nil {
		return "", nil, err
	}
	if rev == "" {
		notes = uncommitted(info)
	}
	if view.Corpus.Docs() == 0 {
		notes = append(notes, "The commit has no file that is indexed.")
	}
	return at.Base, append([]string{}, notes...), f(view)
}
