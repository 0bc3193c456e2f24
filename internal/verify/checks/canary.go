package checks

import (
	"crypto/rand"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/verify/output"
)

// Code under test runs in the process that reports on it. It can end that process
// with exit code 0 before the tests have run, and it can print what a runner prints.
// So exit code 0 and a list of results are not enough: where a runner allows it, a
// command must also show that its tests came to their end, in a way that cannot be
// known beforehand:
//
//   - a report has a random name (hideReports), and some runners must leave one;
//   - a test with a random name, the canary, runs after all others (Go, unittest).
//
// Code that searches its own process or the checkout for those names can still
// forge results. See "Results that nobody saw" in docs/ARCHITECTURE.md.

// CanaryName begins the names of tests that are added to a run.
const CanaryName = "rgpt_canary_"

// secret is a name that code written before it was made cannot know.
func secret() string { return strings.ToLower(rand.Text()) }

// MakeScratch makes ScratchDir.
func MakeScratch(root *os.Root) error {
	if info, err := root.Lstat(output.ScratchDir); err == nil && !info.IsDir() {
		if err := root.Remove(output.ScratchDir); err != nil {
			return err
		}
	}
	return root.MkdirAll(output.ScratchDir, 0o755)
}

// Guard makes the results of a command hard to forge.
func (i Invocation) Guard(root *os.Root) (Invocation, error) {
	i = hideReports(i, secret())
	if i.canary == nil {
		return i, nil
	}
	return i.canary(root, i, secret())
}

// hideReports gives the reports that a detected command writes another name each
// time, so that nothing can be put there beforehand.
func hideReports(inv Invocation, secret string) Invocation {
	if len(inv.typed) == 0 && inv.Shell == "" {
		inv.typed = inv.Args
	}
	inv.Args, inv.Reports = slices.Clone(inv.Args), slices.Clone(inv.Reports)
	for n, report := range inv.Reports {
		if path.Dir(report) != output.ScratchDir {
			continue
		}
		ext := path.Ext(report)
		hidden := strings.TrimSuffix(report, ext) + "-" + secret + ext
		inv.Reports[n] = hidden
		for i, arg := range inv.Args {
			inv.Args[i] = strings.ReplaceAll(arg, path.Base(report), path.Base(hidden))
		}
		env := WithEnv(inv.Env, nil)
		for key, value := range env {
			env[key] = strings.ReplaceAll(value, path.Base(report), path.Base(hidden))
		}
		inv.Env = env
	}
	return inv
}
