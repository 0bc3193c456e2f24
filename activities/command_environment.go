package activities

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/environment"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/tester"
)

// commandEnv returns the environment for commands on a checkout of a run's workspace. If an agent
// changed a manifest or a lock file, it is the environment that the change requires, created now
// unless it exists.
func (a *Activities) commandEnv(ctx context.Context, run store.Run, spec setup.RunSpec, ws contract.Workspace, checkout string) (*tester.CommandEnv, error) {
	if run.Settings.Environment == nil {
		return &tester.CommandEnv{OfBase: true}, nil
	}
	known, err := a.setupOf(ctx, run)
	if err != nil {
		return nil, err
	}
	w, err := a.wantedBy(ctx, run, spec, known, ws, checkout)
	if err != nil {
		return nil, err
	}
	// The base commit keeps the environment set up for the run, regardless of later changes on this
	// host.
	s := &tester.CommandEnv{Recipe: w.Recipe, OfBase: ws.Tree == run.Settings.Repo.Tree || w.Digest == run.Environment}
	if s.OfBase {
		s.Environment, err = a.baseEnvironment(ctx, run, spec, known)
		return s, err
	}
	if w.Digest == "" {
		return s, nil
	}
	// The key includes the tree because a file that is not an input of the digest may fix the
	// failure.
	attempt := w.Digest + "@" + ws.Tree
	if s.Failed = a.failedSince(attempt, time.Now().Add(-failedFor)); s.Failed == nil {
		p, err := a.provide(ctx, run.ID, w, run.Settings.Environment.Timeout)
		if err != nil {
			return nil, err
		}
		if s.Environment, s.Failed = p.env, p.failed; s.Failed == nil {
			return s, nil
		}
		a.rememberFailed(attempt, s.Failed)
	}
	// The environment that the change requires cannot be created, so the base commit's is used.
	s.Environment, err = a.baseEnvironment(ctx, run, spec, known)
	return s, err
}

// setupOf returns the stored setup of a run, the zero Setup if it uses none.
func (a *Activities) setupOf(ctx context.Context, run store.Run) (store.Setup, error) {
	if run.SetupID == 0 {
		return store.Setup{}, nil
	}
	return a.Store.SetupByID(ctx, run.SetupID)
}

// toolsOfRun returns the tools that a run's commands can use.
func (a *Activities) toolsOfRun(ctx context.Context, run store.Run) (environment.Tools, error) {
	spec, err := specOf(run)
	if err != nil {
		return nil, err
	}
	known, err := a.setupOf(ctx, run)
	if err != nil {
		return nil, err
	}
	settings, err := setup.WithStored(spec.Environment, known)
	if err != nil {
		return nil, err
	}
	return a.host().ToolsOf(ctx, repoOf(run), settings)
}

// failedSetup is a failed setup that a change required, with the time of the failure.
type failedSetup struct {
	failed *environment.Failed
	at     time.Time
}

// failedFor is how long later commands do not retry a failed setup. It may have failed because a
// registry was down.
const failedFor = 5 * time.Minute

// failedSince returns the failure of a setup after the given time, or nil if there was none.
func (a *Activities) failedSince(key string, after time.Time) *environment.Failed {
	before, ok := a.failures.Load(key)
	if !ok {
		return nil
	}
	if f := before.(failedSetup); f.at.After(after) { //nolint:forcetypeassert // nothing else is stored
		return f.failed
	}
	a.failures.Delete(key)
	return nil
}

// rememberFailed records that a setup failed now, and removes old failures.
func (a *Activities) rememberFailed(key string, failed *environment.Failed) {
	a.failures.Range(func(other, f any) bool {
		if time.Since(f.(failedSetup).at) > failedFor { //nolint:forcetypeassert // nothing else is stored
			a.failures.Delete(other)
		}
		return true
	})
	a.failures.Store(key, failedSetup{failed, time.Now()})
}

// setupNote returns the note for the result of an agent's command if the environment that its
// change requires could not be created.
func setupNote(f *environment.Failed) string {
	var b strings.Builder
	fmt.Fprintf(&b, "NOTE: your change to manifests or lock files requires a different environment, which could not be set up. `%s` failed (%s):\n%s\n",
		f.Command, f.Why, f.Output)
	if len(f.Refused) > 0 {
		fmt.Fprintf(&b, "It tried to reach %s, which only the operator can allow (environment.network.hosts).\n", strings.Join(f.Refused, ", "))
	}
	b.WriteString("Until that is fixed, commands run in the environment of the base commit, and the final checks fail.\n\n")
	return b.String()
}
