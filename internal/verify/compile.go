package verify

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
)

// Dependencies names what a checkout is built of beside its own packages: two
// checkouts of one repository with the same answer profit from the same
// [Compile]. It is "" where Compile has nothing to do.
func Dependencies(root string) string {
	t, err := openTree(root)
	if err != nil {
		return ""
	}
	defer t.close()
	if len(goModules(t)) == 0 {
		return ""
	}
	sum := sha256.New()
	for _, f := range t.match(func(p string) bool {
		return slices.Contains([]string{"go.mod", "go.sum", "go.work", "go.work.sum", "modules.txt"}, path.Base(p))
	}) {
		fmt.Fprintf(sum, "%q %q\n", f, t.read(f))
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// Compile compiles what a checkout and its tests consist of into env.GoCache.Dir,
// and runs none of it: the go tool compiles by what it reads, generates
// nothing, and starts no program of the checkout. So what it leaves can be
// trusted as far as the compiler can. That something does not compile is no
// error; it stays out of the cache.
func Compile(ctx context.Context, root string, env Env) error {
	t, err := openTree(root)
	if err != nil {
		return fault.Wrap(err, contract.ClassInfra, contract.CodeRepository, "the checkout cannot be read")
	}
	modules := goModules(t)
	t.close()
	for _, m := range modules {
		for _, args := range [][]string{
			{"go", "vet"},
			// Each test program is handed to true instead of being started.
			// go test examines packages for faults in a way of its own, so
			// what go vet left is no use to it.
			{"go", "test", "-count=1", "-exec=true"},
		} {
			c := sandbox.Command{
				Args: append(args, m.patterns...), Root: root, Dir: workDir(m.dir), Env: withEnv(env.Vars, m.env),
				Limits: env.Limits, Mounts: env.Mounts, GoCache: env.GoCache,
			}
			env.outfit(&c)
			result, err := env.Runner.Run(ctx, c)
			switch {
			case err != nil:
				return runnerError(ctx, err)
			case result.TimedOut, result.LimitExceeded != "":
				return errors.New("verify: compiling a checkout " + ended(result))
			case bytes.Contains(result.Stderr, []byte("GOCACHEPROG")):
				return fmt.Errorf("verify: %s has no build cache: %s", strings.Join(args, " "), fault.Clip(tellingLine(result.Stderr), 300))
			}
		}
	}
	return nil
}
