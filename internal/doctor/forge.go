package doctor

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/rocketgpt/orchestrator/internal/forge"
)

// Forges are the configured forges.
type Forges interface {
	// Names returns their names.
	Names() []string
	// Named returns a forge by its name.
	Named(name string) (forge.Service, error)
	// For returns the forge of a git remote, its name, and the repository's path on it.
	For(remote string) (svc forge.Service, name, repo string, err error)
	// Remote returns the address for git of a repository on a forge.
	Remote(name, repo string) (string, error)
}

// forgeRights is the remedy for rights that are missing.
const forgeRights = "docs/FORGES.md lists the rights that a token or App needs"

// ForgeAccess checks that each forge responds and accepts its credentials. If the remote, that of the
// repository in the working directory, belongs to one of them, it also checks the rights there.
// remote may be empty.
func ForgeAccess(forges Forges, remote string) Check {
	return Check{Name: "forges", Run: func(ctx context.Context) []Result {
		names := forges.Names()
		if len(names) == 0 {
			return Passed("none are configured; pull requests cannot be opened")
		}
		var here, repo string
		if remote != "" {
			_, here, repo, _ = forges.For(remote) // a remote elsewhere does not concern the forges
		}
		found := make([]Result, len(names))
		var wait sync.WaitGroup
		for i, name := range names {
			wait.Go(func() {
				at := ""
				if name == here {
					at = repo
				}
				found[i] = forgeResult(ctx, forges, name, at)
			})
		}
		wait.Wait()
		return found
	}}
}

// forgeResult checks one forge and, unless repo is empty, the rights in a repository.
func forgeResult(ctx context.Context, forges Forges, name, repo string) Result {
	result := func(r []Result) Result {
		r[0].Check = "forge: " + name
		return r[0]
	}
	service, err := forges.Named(name)
	if err != nil {
		return result(FailedBy(err, "correct forges."+name))
	}
	access, err := service.Access(ctx, repo)
	if err != nil {
		return result(FailedBy(err, "correct forges."+name+", or its credentials; "+forgeRights))
	}
	text := fmt.Sprintf("%s responds; used as %s", service.Kind(), access.Login)
	if repo == "" {
		return result(Passed("%s", text))
	}
	if len(access.Missing) > 0 {
		return result(Warned(text+", which lacks rights in "+repo+": "+strings.Join(access.Missing, ", "), forgeRights))
	}
	return result(Passed("%s, which has the rights that pull requests of %s need, as far as the forge says", text, repo))
}
