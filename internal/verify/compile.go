package verify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
	"github.com/rocketgpt/orchestrator/internal/verify/checks"
	"github.com/rocketgpt/orchestrator/internal/verify/output"
)

// Compile compiles a checkout and its tests into env.GoCache.Dir and runs none of the code: the go
// tool compiles the sources, generates no code, and starts no program from the checkout. Its output
// is therefore as trustworthy as the compiler. Code that does not compile is not an error; it is
// not cached.
func Compile(ctx context.Context, root string, env Env) error {
	modules, err := checks.GoModulesIn(root)
	if err != nil {
		return fault.Wrap(err, contract.ClassInfra, contract.CodeRepository, "the checkout cannot be read")
	}
	for _, m := range modules {
		commands := [][]string{
			{"go", "vet"},
			// Each test program is passed to true instead of being started. go test
			// vets packages in its own way and cannot use the results of go vet.
			{"go", "test", "-count=1", "-exec=true"},
		}
		if env.Settings.Coverage.On() {
			commands = append(commands, append([]string{"go", "test", "-count=1", "-exec=true"}, m.CoverOptions()...))
		}
		for _, args := range commands {
			c := sandbox.Command{
				Args: append(args, m.Patterns...), Root: root, Dir: workDir(m.Dir), Env: checks.WithEnv(env.Vars, m.Env),
				Limits: env.Limits, Mounts: env.Mounts, GoCache: env.GoCache,
			}
			env.outfit(&c)
			result, err := env.Runner.Run(ctx, c)
			switch {
			case err != nil:
				return runnerError(ctx, err)
			case result.TimedOut, result.LimitExceeded != "":
				return errors.New("verify: compile a checkout: " + ended(result))
			case bytes.Contains(result.Stderr, []byte("GOCACHEPROG")):
				return fmt.Errorf("verify: %s has no build cache: %s", strings.Join(args, " "), fault.Clip(output.ErrorLine(result.Stderr), 300))
			}
		}
	}
	return nil
}
