package activities

import (
	"strconv"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/buildcache"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/tester"
)

func (a *Activities) caches() buildcache.Store { return setup.BuildCaches(a.DataDir) }

// host returns what the tester's work on this host needs.
func (a *Activities) host() *tester.Host {
	return &tester.Host{
		Config: a.Config, Workspaces: a.Workspaces, Sandbox: a.Sandbox, Proxy: a.Proxy, DataDir: a.DataDir, Log: a.Log,
		Tools: a.CommandTools, BuildImage: a.BuildImage, Facts: &a.facts,
	}
}

// agentCache is the build cache of an agent in a run: files compiled by one of its commands are
// reused by the next, and nowhere else.
func (a *Activities) agentCache(in contract.ToolInput) (*buildcache.Cache, error) {
	return a.host().OpenCache(in.Workspace.Repo, in.Execution.RunID, string(in.Execution.Agent))
}

// checkLayer is the name of the build cache of one check: other attempts, and other checks of the
// same attempt, must not see files that its code left behind.
func checkLayer(in contract.VerifyInput) string {
	use := strconv.FormatInt(in.Execution.ID, 10)
	if in.Baseline != "" {
		use = contract.StepBaseline
	}
	return use + "/" + in.Check.ID
}
