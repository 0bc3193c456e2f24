package standalone

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/environment"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/tester"
)

// prepared is the environment of a state.
type prepared struct {
	recipe environment.Recipe
	digest string              // empty: no setup is needed
	failed *environment.Failed // why there is no environment
	ofBase bool                // it is the environment of the base, or there is no base
}

// prepareAll prepares the environments. It returns false if the state that everything starts from
// cannot be set up.
func (v *verification) prepareAll(ctx context.Context) (bool, error) {
	origin := tester.Origin{
		Repo: v.settings.Repo, Settings: v.spec.Environment, Scope: "commit " + v.report.Commit, Owner: "commit " + v.report.Commit,
	}
	if v.report.WorkTree {
		origin.Scope, origin.Owner = "work tree", "work tree"
	}
	if v.compares() {
		origin.Scope = "commit " + v.base.Base
	}
	first, err := v.prepare(ctx, origin, v.compares())
	if err != nil {
		return false, err
	}
	first.ofBase = true
	v.baseEnv, v.env = first, first
	if first.failed != nil {
		v.report.Failure = tester.SetupFailure(*first.failed, first.recipe)
		v.report.Advice = v.setupAdvice(first)
		return false, nil
	}
	if v.compares() && v.ws.Tree != v.base.Tree {
		origin.Environment = first.digest
		if v.env, err = v.prepare(ctx, origin, false); err != nil {
			return false, err
		}
		v.env.ofBase = v.env.digest == first.digest
	}
	return true, nil
}

// prepare returns the environment of a state, which is created unless it exists.
func (v *verification) prepare(ctx context.Context, origin tester.Origin, base bool) (prepared, error) {
	started := time.Now()
	view, err := v.host.Workspaces.OpenShared(ctx, v.state(base))
	if err != nil {
		return prepared{}, err
	}
	defer view.Close()
	need, err := v.host.Require(ctx, origin, v.state(base), view.Path())
	out := prepared{recipe: need.Recipe, digest: need.Digest}
	if err != nil || need.Digest == "" {
		return out, err
	}
	env, err := setup.Environments(v.DataDir).Open(need.Digest)
	kept := err == nil
	if errors.Is(err, environment.ErrNotHere) {
		v.Progress.SettingUp(base, need.Recipe.Describe())
		env, out.failed, err = v.create(ctx, need, base)
	}
	if err != nil || out.failed != nil {
		return out, err
	}
	v.held = append(v.held, env)
	made := Environment{
		Digest: need.Digest, Summary: need.Recipe.Describe(), Kept: kept, Bytes: env.Bytes, Files: env.Files, Missing: need.Recipe.Absent(),
		DurationMS: time.Since(started).Milliseconds(),
	}
	v.Progress.Ready(base, made)
	if !base || v.report.Environment == nil {
		v.report.Environment = &made
	}
	return out, nil
}

// create creates an environment. It tries again if a host could not be reached, as a run does.
func (v *verification) create(ctx context.Context, need tester.Requirement, base bool) (*environment.Environment, *environment.Failed, error) {
	started, limit := time.Now(), v.settings.Environment.Timeout
	for attempt := 1; ; attempt++ {
		var wait time.Duration
		var again bool
		env, failed, err := v.host.Create(ctx, tester.Creation{
			Requirement: need, Key: v.directory(base) + "/environment", Who: "environment of rgpt verify", Timeout: limit,
			Follow: func() (func([]byte), func(context.Context, *tester.Egress) error) {
				var whole tester.Output
				write := func(chunk []byte) {
					whole.Add(chunk)
					v.Progress.Output(chunk)
				}
				return write, func(_ context.Context, way *tester.Egress) error { return v.keepSetup(base, whole.Log(), way) }
			},
			Again: func(err *fault.Error) bool {
				wait, again = err.RetryDelay(attempt)
				again = again && time.Since(started) < limit
				return again
			},
		})
		if err == nil && failed == nil {
			err = setup.SweepEnvironments(ctx, v.Config, v.DataDir, func(string) bool { return false })
			if err != nil && ctx.Err() == nil {
				v.Log.WarnContext(ctx, "Could not clean up the environments", "error", err)
			}
			return env, nil, nil
		}
		if err == nil || !again || ctx.Err() != nil {
			return nil, failed, err
		}
		v.note("%s; trying again in %s", fault.Of(err).Message, wait.Round(time.Second))
		select {
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		case <-time.After(wait):
		}
	}
}

func (v *verification) keepSetup(base bool, log []byte, way *tester.Egress) error {
	folder := "environment"
	if base {
		folder = path.Join(contract.StepBaseline, folder)
	}
	return v.keepLogs(path.Join(folder, "setup.log"), path.Join(folder, "network.jsonl"), log, way)
}

// setupAdvice returns advice on a failed setup.
func (v *verification) setupAdvice(p prepared) string {
	var out []string
	if refused := p.failed.Refused; len(refused) > 0 {
		hosts := slices.Clone(p.recipe.Hosts)
		for _, h := range refused {
			hosts = append(hosts, strings.TrimSuffix(h, ":443"))
		}
		out = append(out, fmt.Sprintf("allow the host in your own configuration (environment: {network: {hosts: [%s]}})", strings.Join(hosts, ", ")))
	}
	out = append(out, "specify the setup in the repository's rgpt.yaml (environment: {setup: ['…']}) or with --env FILE")
	if v.Artifacts == "" {
		out = append(out, "for the full output, repeat the command with --artifacts DIR")
	}
	return strings.Join(out, "; ")
}

// commandEnv returns the surroundings of the commands of one check.
func (v *verification) commandEnv(base bool) (*tester.CommandEnv, error) {
	if v.settings.Environment == nil {
		return &tester.CommandEnv{OfBase: true}, nil
	}
	p := v.env
	if base {
		p = v.baseEnv
	}
	out := &tester.CommandEnv{Recipe: p.recipe, OfBase: p.ofBase, Failed: p.failed}
	digest := p.digest
	if p.failed != nil {
		digest = v.baseEnv.digest
	}
	if digest == "" {
		return out, nil
	}
	env, err := setup.Environments(v.DataDir).Open(digest)
	if err != nil {
		return nil, tester.EnvironmentFault(err)
	}
	out.Environment = env
	return out, nil
}
