package activities

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/buildcache"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/verify"
	"github.com/rocketgpt/orchestrator/internal/verify/checks"
)

func (a *Activities) caches() buildcache.Store { return setup.BuildCaches(a.DataDir) }

// agentCache is the build cache of an agent in a run: files compiled by one of its commands are
// reused by the next, and nowhere else.
func (a *Activities) agentCache(in contract.ToolInput) (*buildcache.Cache, error) {
	return a.openCache(in.Workspace.Repo, in.Execution.RunID, string(in.Execution.Agent))
}

// checkCache is the build cache of one check: other attempts, and other checks of the same attempt,
// must not see files that its code left behind.
func (a *Activities) checkCache(in contract.VerifyInput) (*buildcache.Cache, error) {
	use := strconv.FormatInt(in.Execution.ID, 10)
	if in.Baseline != "" {
		use = contract.StepBaseline
	}
	return a.openCache(in.Workspace.Repo, in.Execution.RunID, use+"/"+in.Check.ID)
}

func (a *Activities) openCache(repo string, run int64, use string) (*buildcache.Cache, error) {
	cache, err := a.caches().Open(repo, run, use)
	if err != nil {
		return nil, fault.Wrap(err, contract.ClassInfra, fault.Of(err).Code, "cannot create the build cache in %s", filepath.Join(a.DataDir, "cache"))
	}
	return cache, nil
}

// limited returns the settings of every sandboxed command, including setup commands.
func (a *Activities) limited() sandbox.Command {
	c := sandbox.Command{Env: map[string]string{}, Limits: setup.Limits(a.Config)}
	for _, path := range a.Config.Execution.Sandbox.ReadOnly {
		c.Mounts = append(c.Mounts, sandbox.Mount{Host: path, Inside: path})
	}
	return c
}

// command returns the settings of every sandboxed command of agents and checks.
func (a *Activities) command(cache *buildcache.Cache) sandbox.Command {
	c := a.limited()
	cache.Give(&c)
	return c
}

// fillBase compiles the commit that the run started from, once per host for each set of
// dependencies, so a check does not have to compile everything in its own layer. It takes up to
// half of the check's time, which the check would otherwise spend on the same compilation. A
// failure only makes the check slower.
func (a *Activities) fillBase(ctx context.Context, in contract.VerifyInput, checkout string, env verify.Env, cache *buildcache.Cache) {
	dependencies := checks.Dependencies(checkout)
	if dependencies == "" {
		return
	}
	err := cache.Fill(ctx, dependencies, func(ctx context.Context, dir string) error {
		ctx, cancel := context.WithTimeout(ctx, in.Timeout/2)
		defer cancel()
		base, err := a.Workspaces.Start(ctx, contract.Repo{URL: in.Workspace.Repo, Base: in.Workspace.Base})
		if err != nil {
			return err
		}
		tree, err := a.Workspaces.Open(ctx, base, fmt.Sprintf("%d/base", in.Execution.RunID))
		if err != nil {
			return err
		}
		defer tree.Close()
		env.GoCache = sandbox.GoCache{Dir: dir}
		env.Outfit = compilerOutfit(env.Outfit)
		env.Mounts = slices.DeleteFunc(slices.Clone(env.Mounts), func(m sandbox.Mount) bool { return m.Writable })
		env.Limits.Timeout = in.Timeout / 2
		return verify.Compile(ctx, tree.Path(), env)
	})
	if err != nil && ctx.Err() == nil {
		a.Log.WarnContext(ctx, "Could not compile the base commit for the build cache", "run", in.Execution.RunID, "base", in.Workspace.Base, "error", err)
	}
}

// compilerOutfit returns only the part of an environment that the compiler needs: its modules, and
// nothing that selects the compiler or the programs that it runs. All runs of the repository rely
// on its output.
func compilerOutfit(all func(*sandbox.Command)) func(*sandbox.Command) {
	return func(c *sandbox.Command) {
		env := maps.Clone(c.Env)
		if env == nil {
			env = map[string]string{}
		}
		if all != nil {
			all(c)
		}
		c.Env, c.Path = env, nil
		c.Env["GOENV"] = "off"
	}
}

// timeLeft returns the part of a check's time that fillBase did not use.
func timeLeft(in contract.VerifyInput, started time.Time) time.Duration {
	return max(in.Timeout-time.Since(started), in.Timeout/4)
}
