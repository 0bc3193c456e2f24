package control

import (
	"context"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/brain"
	"github.com/rocketgpt/orchestrator/internal/workspace"
)

// BrainQuery is a question about a repository.
type BrainQuery struct {
	// Repo is a directory on this host or a URL.
	Repo string
	// Rev is a branch, tag or commit; empty: the checked-out commit, or the default branch of a URL.
	Rev string
	// Wait is how long to wait for the index, which is made in the background; after that, the error is
	// brain.ErrNotReady. 0: the index is made for this question, however long it takes.
	Wait time.Duration
	brain.Query
}

// BrainSearch finds the files of a repository that matter for a question.
func (r *Runs) BrainSearch(ctx context.Context, q BrainQuery) (answer brain.Answer, err error) {
	if err = q.Check(); err != nil { // before the repository is indexed
		return answer, err
	}
	commit, notes, err := r.withView(ctx, q, func(v brain.View) error {
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
func (r *Runs) BrainMap(ctx context.Context, repo, rev, goal string, tokens int) (BrainMap, error) {
	return r.BrainMapOf(ctx, BrainQuery{Repo: repo, Rev: rev, Query: brain.Query{Text: goal, Tokens: tokens}})
}

// BrainMapOf is BrainMap for the goal, the tokens and the wait of a query.
func (r *Runs) BrainMapOf(ctx context.Context, q BrainQuery) (m BrainMap, err error) {
	if err = brain.CheckTokens(q.Tokens); err != nil {
		return m, err
	}
	m.Commit, m.Notes, err = r.withView(ctx, q, func(v brain.View) error {
		m.Text, err = v.Map(q.Text, q.Tokens)
		return err
	})
	return m, err
}

// withView calls f with the index of a commit of a repository. What it lacks is indexed first. The
// notes say what is worth knowing about the commit.
func (r *Runs) withView(ctx context.Context, q BrainQuery, f func(brain.View) error) (commit string, notes []string, err error) {
	if q.Repo == "" {
		return "", nil, wrong("no repository given; specify a directory or a URL (--repo)")
	}
	repo, err := withPath(q.Repo)
	if err != nil {
		return "", nil, err
	}
	b, workspaces, err := r.openBrain()
	if err != nil {
		return "", nil, err
	}
	at, info, err := workspaces.Resolve(ctx, repo, q.Rev)
	if err != nil {
		return "", nil, err
	}
	view, err := viewOf(ctx, b, workspaces, at, q.Wait)
	if err != nil {
		return "", nil, err
	}
	if q.Rev == "" {
		notes = uncommitted(info)
	}
	if view.Corpus.Docs() == 0 {
		notes = append(notes, "The commit has no file that is indexed.")
	}
	return at.Base, append([]string{}, notes...), f(view)
}

// viewOf returns the view of a commit, for which it waits at most the given time, if any.
func viewOf(ctx context.Context, b *brain.Brain, workspaces *workspace.Manager, at contract.Repo, wait time.Duration) (brain.View, error) {
	if wait == 0 {
		return b.View(ctx, at)
	}
	ws, err := workspaces.Start(ctx, at)
	if err != nil {
		return brain.View{}, err
	}
	return b.Prepared(ctx, ws, wait)
}
