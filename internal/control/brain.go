package control

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/brain"
	"github.com/rocketgpt/orchestrator/internal/embedding"
	"github.com/rocketgpt/orchestrator/internal/modelclient"
	"github.com/rocketgpt/orchestrator/internal/rerank"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/workspace"
)

// Indexed is a repository that was indexed at a commit.
type Indexed struct {
	Repo   string   `json:"repo" doc:"repository"`
	Commit string   `json:"commit" doc:"commit that was indexed"`
	Notes  []string `json:"notes" doc:"what is worth knowing about it"`
	brain.Indexed
}

// BrainStats is what is indexed on a host and in the database.
type BrainStats struct {
	brain.Stats
	Indexing []Indexing `json:"indexing" doc:"indexings that were requested of this process, the newest first"`
}

// index is this process's index of repositories, which is opened when it is first needed and stays in
// memory until Runs is closed.
type index struct {
	mu         sync.Mutex
	brain      *brain.Brain
	workspaces *workspace.Manager
	models     *modelclient.Client // of searches; nil: none
	background *background
}

// Close ends what Runs does in the background, and waits for it.
func (r *Runs) Close() {
	x := r.own()
	x.mu.Lock()
	b, bg, models := x.brain, x.background, x.models
	x.brain, x.background, x.models = nil, nil, nil
	x.mu.Unlock()
	if bg != nil {
		bg.close()
	}
	if b != nil {
		b.Close()
	}
	if models != nil {
		models.Close()
	}
}

// brainModels are the models of an index of repositories, and their client.
type brainModels struct {
	embeddings *brain.Embeddings
	rerank     *brain.Reranking
	client     *modelclient.Client
}

// brainModels returns the models of searches; all are nil if none is configured. Without a database,
// nothing could limit what they cost.
func (r *Runs) brainModels(log *slog.Logger) (m brainModels, err error) {
	_, embeds, err := setup.EmbeddingModel(r.Config)
	_, reranks, failed := setup.RerankModel(r.Config)
	if err = errors.Join(err, failed); err != nil || !embeds && !reranks || r.Store == nil {
		return m, err
	}
	if m.client, err = setup.Model(r.Config); err != nil {
		return m, err
	}
	gate := setup.Admission(r.Config, r.Store, m.client, log)
	if m.embeddings, err = embedding.ForBrain(r.Config, r.Store, m.client, gate, log); err == nil {
		m.rerank, err = rerank.ForBrain(r.Config, r.Store, m.client, gate, log)
	}
	if err != nil {
		m.client.Close()
	}
	return m, err
}

// openBrain returns this process's index of repositories, and the repositories.
func (r *Runs) openBrain() (*brain.Brain, *workspace.Manager, error) {
	x := r.own()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.brain == nil {
		workspaces, err := setup.Workspaces(r.Config, r.DataDir, r.Artifacts)
		if err != nil {
			return nil, nil, err
		}
		log := cmp.Or(r.Log, slog.New(slog.DiscardHandler))
		models, err := r.brainModels(log)
		if err != nil {
			return nil, nil, err
		}
		x.workspaces, x.models = workspaces, models.client
		x.brain = setup.Brain(r.Config, r.DataDir, workspaces, r.Store, models.embeddings, models.rerank, log)
	}
	return x.brain, x.workspaces, nil
}

// IndexRepository indexes a commit of a repository, for searches on this host; what is extracted from
// its files is shared with the other hosts. rev "" means the checked-out commit, or the default branch
// of a URL. progress may be nil.
func (r *Runs) IndexRepository(ctx context.Context, repo, rev string, progress func(brain.Progress)) (Indexed, error) {
	out, ws, err := r.toIndex(ctx, repo, rev)
	if err != nil {
		return Indexed{}, err
	}
	b, _, err := r.openBrain()
	if err == nil {
		_, out.Indexed, err = b.Index(ctx, ws, progress)
	}
	return out, err
}

// toIndex finds the commit that is to be indexed.
func (r *Runs) toIndex(ctx context.Context, repo, rev string) (Indexed, contract.Workspace, error) {
	if repo == "" {
		return Indexed{}, contract.Workspace{}, wrong("no repository given; specify a directory or a URL")
	}
	repo, err := withPath(repo)
	if err != nil {
		return Indexed{}, contract.Workspace{}, err
	}
	_, workspaces, err := r.openBrain()
	if err != nil {
		return Indexed{}, contract.Workspace{}, err
	}
	at, info, err := workspaces.Resolve(ctx, repo, rev)
	if err != nil {
		return Indexed{}, contract.Workspace{}, err
	}
	out := Indexed{Repo: at.URL, Commit: at.Base, Notes: append([]string{}, uncommitted(info)...)}
	ws, err := workspaces.Start(ctx, at)
	return out, ws, err
}

// uncommitted says whether a repository has changes that its commit lacks.
func uncommitted(info workspace.Info) []string {
	if !info.Dirty {
		return nil
	}
	return []string{info.Path + " has uncommitted changes, which are not indexed."}
}

// BrainStats returns what is indexed on this host and in the database.
func (r *Runs) BrainStats(ctx context.Context) (BrainStats, error) {
	b, _, err := r.openBrain()
	if err != nil {
		return BrainStats{}, err
	}
	// Read before the sizes: what an ended indexing wrote is then in them.
	indexings := r.indexings()
	stats, err := b.Stats(ctx)
	return BrainStats{Stats: stats, Indexing: indexings}, err
}
