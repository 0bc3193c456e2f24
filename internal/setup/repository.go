package setup

import (
	"context"
	"math"
	"path/filepath"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/workspace"
)

// maxConfig is the maximum size of a repository's rgpt.yaml.
const maxConfig = 1 << 20

// RepositoryConfig merges the rgpt.yaml of a workspace, which may set fewer settings than the
// operator's: see config.LoadRepository.
func RepositoryConfig(ctx context.Context, workspaces *workspace.Manager, cfg *config.Config, ws contract.Workspace, info workspace.Info) (*config.Config, error) {
	name := "the repository's " + config.FileName
	if info.Path != "" {
		name = filepath.Join(info.Path, config.FileName)
	}
	data, found, err := workspaces.File(ctx, ws, config.FileName, math.MaxInt64)
	if err != nil || !found {
		return cfg, err
	}
	if len(data) > maxConfig {
		return nil, fault.New(contract.ClassHuman, contract.CodeInvalidConfig,
			"%s is %d bytes long, more than the %d allowed; it must be read in full because it may contain restrictions", name, len(data), maxConfig)
	}
	return config.LoadRepository(cfg, data, name)
}
