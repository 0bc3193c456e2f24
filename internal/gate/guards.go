package gate

import (
	"sync"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/gate/change"
	"github.com/rocketgpt/orchestrator/internal/gate/guard/base"
	"github.com/rocketgpt/orchestrator/internal/gate/guard/dependencies"
	"github.com/rocketgpt/orchestrator/internal/gate/guard/injection"
	"github.com/rocketgpt/orchestrator/internal/gate/guard/labels"
	"github.com/rocketgpt/orchestrator/internal/gate/guard/refactor"
	"github.com/rocketgpt/orchestrator/internal/gate/guard/rewrite"
	"github.com/rocketgpt/orchestrator/internal/gate/guard/secrets"
	"github.com/rocketgpt/orchestrator/internal/gate/guard/syntax"
	"github.com/rocketgpt/orchestrator/internal/gate/guard/tests"
	"github.com/rocketgpt/orchestrator/internal/gate/guard/workflow"
)

// Guards returns all guards, as configured.
func Guards(cfg *config.Config) ([]change.Guard, error) {
	guards := []change.Guard{secrets.Guard, rewrite.Guard, refactor.Guard, syntax.Guard, workflow.Guard, labels.Guard, injection.Guard, base.Guard}
	if cfg.Verification.PinnedTests == "enforce" { // otherwise, verification reports what it finds
		guards = append(guards, tests.Guard)
	}
	if cfg.Gate.Advisories == "" {
		return append(guards, dependencies.Guard), nil
	}
	advisories, err := loaded.of(cfg.Gate.Advisories)
	if err != nil {
		return nil, fault.Wrap(err, contract.ClassConfig, contract.CodeInvalidConfig, "the advisories (gate.advisories) cannot be read")
	}
	return append(guards, dependencies.New(advisories)), nil
}

// advisoriesAge is how long advisories in memory are used before their directory is read again.
const advisoriesAge = 10 * time.Minute

// loaded are the advisories of directories. A gate is made for each judgement, and a directory can have
// hundreds of thousands of files.
var loaded = advisoryCache{all: map[string]loadedAdvisories{}}

type loadedAdvisories struct {
	dependencies.Advisories
	at time.Time
}

type advisoryCache struct {
	sync.Mutex
	all map[string]loadedAdvisories
}

// of returns the advisories of a directory. Callers that come while it is read wait for the same result.
func (c *advisoryCache) of(dir string) (dependencies.Advisories, error) {
	c.Lock()
	defer c.Unlock()
	if known, ok := c.all[dir]; ok && time.Since(known.at) < advisoriesAge {
		return known.Advisories, nil
	}
	read, err := dependencies.LoadAdvisories(dir)
	if err != nil {
		return nil, err
	}
	c.all[dir] = loadedAdvisories{read, time.Now()}
	return read, nil
}

// amounts are the rules about the size of a change, which is that of the whole change.
var amounts = []string{"files", "lines", "size", "deletions", "mass-deletion"}

// publication are the names of the guards that look for what must not be published, in whatever commit.
var publication = []string{"secrets", "workflow", "rewrite", "injection"}
