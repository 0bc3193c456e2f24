package activities

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/environment"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store"
)

// surroundings are what the commands of one workspace run in: its environment, if
// it has one, and a home and a /tmp that last for one use.
type surroundings struct {
	recipe environment.Recipe
	env    *environment.Environment // nil: nothing was set up
	// failed is why the environment that the workspace's own manifests want could
	// not be made; env is that of the base commit then.
	failed    *environment.Failed
	ofBase    bool // it is the environment of the base commit
	home, tmp string
}

// Close gives the environment back.
func (s *surroundings) Close() { s.env.Close() }

// outfit gives a command its surroundings.
func (s *surroundings) outfit(c *sandbox.Command) {
	s.recipe.Outfit(c)
	c.Home, c.Tmp = s.home, s.tmp
	if s.env != nil {
		c.HomeBase, c.WorkspaceBase = s.env.Home(), s.env.Work()
	}
}

// unignored are patterns of what the environment added to the work tree and the
// repository does not ignore: none of it is an agent's change.
func (s *surroundings) unignored() []string {
	if s.env == nil {
		return nil
	}
	return s.env.Unignored
}

// surroundings returns what commands on a checkout of a run's workspace run in.
// Where an agent changed a manifest or a lock file, that is the environment which
// the change wants; it is made now unless it is there.
func (a *Activities) surroundings(ctx context.Context, run store.Run, spec setup.RunSpec, ws contract.Workspace, checkout string) (*surroundings, error) {
	if run.Settings.Environment == nil {
		return &surroundings{ofBase: true}, nil
	}
	var known store.Setup
	var err error
	if run.SetupID != 0 {
		if known, err = a.Store.SetupByID(ctx, run.SetupID); err != nil {
			return nil, err
		}
	}
	w, err := a.wantedBy(ctx, run, spec, known, ws, checkout)
	if err != nil {
		return nil, err
	}
	if ws.Tree == run.Settings.Repo.Tree {
		// As it was set up for the run, whatever has changed on this host since.
		w.digest = run.Environment
	}
	s := &surroundings{recipe: w.recipe, ofBase: w.digest == run.Environment}
	if w.digest == "" {
		return s, nil
	}
	if before := a.failedBefore(w.digest + "@" + ws.Tree); before != nil && w.digest != run.Environment {
		s.failed = before
		return s, a.fallBack(ctx, run, s)
	}
	p, err := a.provide(ctx, run.ID, w, run.Settings.Environment.Timeout)
	if err != nil {
		return nil, err
	}
	s.env, s.failed = p.env, p.failed
	if s.failed == nil {
		return s, nil
	}
	a.failures.Store(w.digest+"@"+ws.Tree, failedSetup{s.failed, time.Now()})
	return s, a.fallBack(ctx, run, s)
}

// failedSetup is a set-up that a change wanted, and when it failed.
type failedSetup struct {
	failed *environment.Failed
	at     time.Time
}

// failedFor is how long a set-up that failed is not tried again for the next
// command. It may have failed for want of a registry.
const failedFor = 5 * time.Minute

// failedBefore returns why a set-up failed a moment ago, nil where it did not.
func (a *Activities) failedBefore(key string) *environment.Failed {
	before, ok := a.failures.Load(key)
	if !ok {
		return nil
	}
	f := before.(failedSetup) //nolint:forcetypeassert // nothing else is stored
	if time.Since(f.at) > failedFor {
		a.failures.Delete(key)
		return nil
	}
	return f.failed
}

// fallBack takes the environment of the base commit, where the one that is wanted
// cannot be made.
func (a *Activities) fallBack(ctx context.Context, run store.Run, s *surroundings) error {
	if run.Environment == "" {
		return nil
	}
	env, err := a.keptEnvironment(ctx, run.Environment)
	s.env = env
	return err
}

// setupNote says, in the answer to an agent's command, that the environment which
// its change wants could not be made.
func setupNote(f *environment.Failed) string {
	var b strings.Builder
	fmt.Fprintf(&b, "NOTE: your change of manifests or lock files wants another environment, which could not be set up. `%s` failed (%s):\n%s\n",
		f.Command, f.Why, f.Output)
	if len(f.Refused) > 0 {
		fmt.Fprintf(&b, "It asked for %s, which only the operator can allow (environment.network.hosts).\n", strings.Join(f.Refused, ", "))
	}
	b.WriteString("Until that is fixed, commands run in the environment of the base commit, and the final checks fail.\n\n")
	return b.String()
}
