package control

import (
	"cmp"
	"context"
	"log/slog"

	"github.com/rocketgpt/orchestrator/internal/brain"
	"github.com/rocketgpt/orchestrator/internal/setup"
)

// Indexed is a repository that was indexed at a commit.
type Indexed struct {
	Repo   string   `json:"repo" doc:"repository"`
	Commit string   `json:"commit" doc:"commit that was indexed"`
	Notes  []string `json:"notes" doc:"what is worth knowing about it"`
	brain.Indexed
}

// withBrain calls f with this host's index of repositories.
func (r *Runs) withBrain(f func(*brain.Brain) error) error {
	workspaces, err := setup.Workspaces(r.Config, r.DataDir, r.Artifacts)
	if err != nil {
		return err
	}
	b := setup.Brain(r.Config, r.DataDir, workspaces, r.Store, cmp.Or(r.Log, slog.New(slog.DiscardHandler)))
	defer b.Close()
	return f(b)
}

// IndexRepository indexes a commit of a repository, for searches on this host; what is extracted from
// its files is shared with the other hosts. rev "" means the checked-out commit, or the default branch
// of a URL. progress may be nil.
func (r *Runs) IndexRepository(ctx context.Context, repo, rev string, progress func(brain.Progress)) (Indexed, error) {
	if repo == "" {
		return Indexed{}, wrong("no repository given; specify a directory or a URL")
	}
	repo, err := withPath(repo)
	if err != nil {
		return Indexed{}, err
	}
	var notes Created
	at, cfg, err := r.resolve(ctx, Creation{Repo: repo, Base: rev}, &notes)
	if err != nil {
		return Indexed{}, err
	}
	workspaces, err := setup.Workspaces(cfg, r.DataDir, r.Artifacts)
	if err != nil {
		return Indexed{}, err
	}
	ws, err := workspaces.Start(ctx, at)
	if err != nil {
		return Indexed{}, err
	}
	out := Indexed{Repo: at.URL, Commit: at.Base, Notes: append([]string{}, notes.Notes...)}
	b := setup.Brain(r.Config, r.DataDir, workspaces, r.Store, cmp.Or(r.Log, slog.New(slog.DiscardHandler)))
	defer b.Close()
	_, out.Indexed, err = b.Index(ctx, ws, progress)
	return out, err
}

// BrainStats returns what is indexed on this host and in the database.
func (r *Runs) BrainStats(ctx context.Context) (stats brain.Stats, err error) {
	err = r.withBrain(func(b *brain.Brain) error {
		stats, err = b.Stats(ctx)
		return err
	})
	return stats, err
}
