package activities

import (
	"context"
	"fmt"
	"strings"

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
		return &surroundings{}, nil
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
	s := &surroundings{recipe: w.recipe}
	if w.digest == "" {
		return s, nil
	}
	if before, ok := a.failures.Load(w.digest); ok && w.digest != run.Environment {
		s.failed = before.(*environment.Failed) //nolint:forcetypeassert // nothing else is stored
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
	a.failures.Store(w.digest, s.failed)
	return s, a.fallBack(ctx, run, s)
}

// fallBack takes the environment of the base commit, where the one that is wanted
// cannot be made.
func (a *Activities) fallBack(ctx context.Context, run store.Run, s *surroundings) error {
	if run.Environment == "" {
		return nil
	}
	p, err := a.provide(ctx, run.ID, wanted{digest: run.Environment, recipe: s.recipe, workspace: run.Settings.Repo.Workspace()}, run.Settings.Environment.Timeout)
	s.env = p.env
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
