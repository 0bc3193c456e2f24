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

// agentCache is the build cache of an agent in a run: what it compiled in one command
// is used in the next, and nowhere else.
func (a *Activities) agentCache(in contract.ToolInput) (*buildcache.Cache, error) {
	return a.openCache(in.Workspace.Repo, in.Execution.RunID, string(in.Execution.Agent))
}

// checkCache is the build cache of one check: another attempt, and another check of the
// same attempt, must not find what this one's code left.
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
		return nil, fault.Wrap(err, contract.ClassInfra, fault.Of(err).Code, "the build cache in %s cannot be created", filepath.Join(a.DataDir, "cache"))
	}
	return cache, nil
}

// limited returns what every sandboxed command gets, including those of set-ups.
func (a *Activities) limited() sandbox.Command {
	c := sandbox.Command{Env: map[string]string{}, Limits: setup.Limits(a.Config)}
	for _, path := range a.Config.Execution.Sandbox.ReadOnly {
		c.Mounts = append(c.Mounts, sandbox.Mount{Host: path, Inside: path})
	}
	return c
}

// command returns what every sandboxed command of agents and checks gets.
func (a *Activities) command(cache *buildcache.Cache) sandbox.Command {
	c := a.limited()
	cache.Give(&c)
	return c
}

// fillBase compiles the commit that the run started from, once per host for each set of
// dependencies, so that a check does not have to compile them in its own layer. It
// takes up to half of the check's time, which a check would need for the same work
// without it. Without it a check is slower, not wrong.
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

// compilerOutfit returns what an environment provides for the compiler: its modules,
// and nothing that chooses which program is the compiler or what it runs. All runs of
// the repository rely on what it compiles.
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

// timeLeft returns what fillBase left of a check's time.
func timeLeft(in contract.VerifyInput, started time.Time) time.Duration {
	return max(in.Timeout-time.Since(started), in.Timeout/4)
}
