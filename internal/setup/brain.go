package setup

import (
	"cmp"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/brain"
	"github.com/rocketgpt/orchestrator/internal/brain/index"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/workspace"
)

// Brain returns this host's index of repositories. embeddings and rerank may be nil. The caller closes it.
func Brain(cfg *config.Config, dataDir string, workspaces *workspace.Manager, st *store.Store, embeddings *brain.Embeddings, rerank *brain.Reranking, log *slog.Logger) *brain.Brain {
	b := cfg.Brain
	return brain.New(brain.Options{
		Root: brain.Dir(dataDir), Workspaces: workspaces, Store: st, MaxFileSize: b.MaxFile.Int64(), Disk: b.Disk.Int64(), History: b.History, Workers: b.Workers, PrepareTime: b.PrepareTime, Embeddings: embeddings, Rerank: rerank, Log: log,
	})
}

// SweepBrain removes this host's indexes of repositories that exceed its limit.
func SweepBrain(cfg *config.Config, dataDir string) error {
	_, err := index.Prune(brain.Dir(dataDir), cfg.Brain.Disk.Int64())
	return err
}

// EmbeddingModel returns the model of brain.embeddings; ok is false if none is configured.
func EmbeddingModel(cfg *config.Config) (choice contract.ModelChoice, ok bool, err error) {
	e := cfg.Brain.Embeddings
	return brainModel(cfg, "brain.embeddings", e.Provider, e.Model)
}

// RerankModel returns the model of brain.rerank; ok is false if none is configured.
func RerankModel(cfg *config.Config) (choice contract.ModelChoice, ok bool, err error) {
	r := cfg.Brain.Rerank
	return brainModel(cfg, "brain.rerank", r.Provider, r.Model)
}

func brainModel(cfg *config.Config, section, provider, model string) (choice contract.ModelChoice, ok bool, err error) {
	if model == "" {
		return choice, false, nil
	}
	choice = contract.ModelChoice{Provider: cmp.Or(provider, cfg.Models.Default.Provider), Model: model}
	if _, known := cfg.Models.Providers[choice.Provider]; !known {
		return choice, false, fault.New(contract.ClassConfig, contract.CodeInvalidConfig,
			"%s requires a provider from models.providers; got %q", section, choice.Provider)
	}
	return WithTimeout(cfg, choice), true, nil
}

// ProjectOf derives the name of a project from its repository.
func ProjectOf(url string) string {
	url, _, _ = strings.Cut(url, "?")
	name := filepath.Base(strings.TrimRight(url, "/"))
	if at := strings.LastIndexAny(name, "@:"); at >= 0 { // user:password@host, git@host:app.git
		name = name[at+1:]
	}
	name = strings.TrimSuffix(name, ".git")
	if strings.Trim(name, "./") == "" {
		return "project"
	}
	return name
}
