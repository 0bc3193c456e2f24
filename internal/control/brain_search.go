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
	err = r.withView(ctx, q.Repo, q.Rev, func(v brain.View) error {
		answer, err = v.Search(ctx, q.Query)
		return err
	})
	return answer, err
}

// BrainMap describes a repository within a number of tokens (0: the default): first what matters for a
// goal, which may be empty.
func (r *Runs) BrainMap(ctx context.Context, repo, rev, goal string, tokens int) (text string, err error) {
	err = r.withView(ctx, repo, rev, func(v brain.View) error {
		text, err = v.Map(goal, tokens)
		return err
	})
	return text, err
}

// withView calls f with the index of a commit of a repository. What it lacks is indexed first.
func (r *Runs) withView(ctx context.Context, repo, rev string, f func(brain.View) error) error {
	if repo == "" {
		return wrong("no repository given; specify a directory or a URL (--repo)")
	}
	repo, err := withPath(repo)
	if err != nil {
		return err
	}
	b, workspaces, err := r.openBrain()
	if err != nil {
		return err
	}
	at, _, err := workspaces.Resolve(ctx, repo, rev)
	if err != nil {
		return err
	}
	view, err := b.View(ctx, at)
	if err != nil {
		return err
	}
	return f(view)
}
