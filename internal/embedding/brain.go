package embedding

import (
	"context"
	"log/slog"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/admission"
	"github.com/rocketgpt/orchestrator/internal/brain"
	"github.com/rocketgpt/orchestrator/internal/brain/vectors"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/modelclient"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store"
)

// ForBrain returns what computes the embeddings of indexed repositories; nil if brain.embeddings names
// no model. The projects of the repositories pay for the calls, also for those of runs: what is embedded
// serves all runs.
func ForBrain(cfg *config.Config, db *store.Store, models *modelclient.Client, gate *admission.Gate, log *slog.Logger) (*brain.Embeddings, error) {
	choice, ok, err := setup.EmbeddingModel(cfg)
	if !ok || err != nil {
		return nil, err
	}
	c := cfg.Brain.Embeddings
	e := &Embedder{Store: db, Admission: gate, Model: models, Config: cfg, Log: log}
	return &brain.Embeddings{
		Space:    vectors.Space{Model: choice.Provider + "/" + choice.Model, Dimensions: c.Dimensions},
		MaxTexts: c.MaxTexts, MaxBytes: c.MaxSize.Int64(), MaxMicroUSD: c.MaxCostUSD.Int64(), MaxTime: c.MaxTime, Wait: c.Wait,
		Compute: func(ctx context.Context, repo string, texts []string, keep func(ctx context.Context, first int, vectors [][]float32) error) (contract.Usage, error) {
			return e.Embed(ctx, Work{Tenant: store.DefaultTenant, Project: setup.ProjectOf(repo), Choice: choice, Dimensions: c.Dimensions, Texts: texts}, keep)
		},
	}, nil
}
