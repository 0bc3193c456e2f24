package gate

import (
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/gate/change"
	"github.com/rocketgpt/orchestrator/internal/gate/guard/refactor"
	"github.com/rocketgpt/orchestrator/internal/gate/guard/rewrite"
	"github.com/rocketgpt/orchestrator/internal/gate/guard/secrets"
	"github.com/rocketgpt/orchestrator/internal/gate/guard/syntax"
	"github.com/rocketgpt/orchestrator/internal/gate/guard/tests"
)

// Guards returns all guards, as configured.
func Guards(cfg *config.Config) ([]change.Guard, error) {
	guards := []change.Guard{secrets.Guard, rewrite.Guard, refactor.Guard, syntax.Guard}
	if cfg.Verification.PinnedTests == "enforce" { // otherwise, verification reports what it finds
		guards = append(guards, tests.Guard)
	}
	return guards, nil
}

// publication are the names of the guards that look for what must not be published, in whatever commit.
var publication = []string{"secrets", "workflow", "rewrite", "injection"}
