package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// TriggerRepository is a repository on a forge that triggers watch.
type TriggerRepository struct {
	Forge, Repository string
	Triggers          []string // their names
	Cloned            []string // those of them that clone the repository from the forge
}

// TriggerRepositories checks that the forges of triggers give access to their repositories.
func TriggerRepositories(forges Forges, repositories []TriggerRepository) Check {
	return Check{Name: "triggers", Run: func(ctx context.Context) []Result {
		found := make([][]Result, len(repositories))
		var wait sync.WaitGroup
		for i, r := range repositories {
			wait.Go(func() { found[i] = triggerRepository(ctx, forges, r) })
		}
		wait.Wait()
		if bad := slices.Concat(found...); len(bad) > 0 {
			return bad
		}
		return Passed("the forges of triggers respond (%d repositories)", len(repositories))
	}}
}

// triggerRepository returns what is wrong with a repository.
func triggerRepository(ctx context.Context, forges Forges, r TriggerRepository) []Result {
	of := "triggers." + strings.Join(r.Triggers, ", triggers.")
	service, err := forges.Named(r.Forge)
	if err != nil {
		return FailedBy(err, "correct forges."+r.Forge)
	}
	if address, err := forges.Remote(r.Forge, r.Repository); err == nil && len(r.Cloned) > 0 && strings.HasPrefix(address, "http://") {
		return Failed(fmt.Sprintf("git does not use %s, because http is not encrypted", address),
			"set repo of triggers."+strings.Join(r.Cloned, ", triggers.")+" to an address with https or ssh, or to a clone on this host; or name a host that serves https in forges."+r.Forge+".hosts")
	}
	access, err := service.Access(ctx, r.Repository)
	switch {
	case err != nil:
		return FailedBy(err, "correct "+of+", or forges."+r.Forge+" and its credentials; "+forgeRights)
	case len(access.Missing) > 0:
		return Warned(fmt.Sprintf("%s lacks rights in %s, which %s needs: %s", access.Login, r.Repository, of, strings.Join(access.Missing, ", ")), forgeRights)
	}
	return nil
}

// TriggerSchedules checks that Temporal has the schedules of triggers as configured. problems returns
// what is wrong with them.
func TriggerSchedules(problems func(context.Context) ([]string, error)) Check {
	return Check{Name: "schedules", Run: func(ctx context.Context) []Result {
		found, err := problems(ctx)
		switch {
		case err != nil:
			return FailedBy(err, "see the result of the check temporal")
		case len(found) > 0:
			return Warned(strings.Join(found, "; "), "restart rgpt server, which sets the schedules; unpause those that are paused with Temporal's tools")
		}
		return Passed("as configured")
	}}
}
