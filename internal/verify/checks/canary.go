package checks

import (
	"crypto/rand"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
	"github.com/rocketgpt/orchestrator/internal/verify/output"
)

// Code under test runs in the process that reports on it. It can end that process with exit code 0
// before the tests have run, and it can imitate the output of a runner. So exit code 0 and a list
// of results are not enough: where a runner allows it, a command must also prove, in an
// unpredictable way, that its tests finished:
//
//   - a report has a random name (hideReports), and some runners must leave one;
//   - a test with a random name, the canary, runs after all others (Go, unittest).
//
// Code that searches its own process or the checkout for those names can still forge results. See
// "Forged and incomplete results" in docs/ARCHITECTURE.md.

// CanaryName is the name prefix of the tests added to a run.
const CanaryName = "rgpt_canary_"

// secret returns a random name that existing code cannot know.
func secret() string { return strings.ToLower(rand.Text()) }

// MakeScratch creates ScratchDir.
func MakeScratch(root *os.Root) error {
	if info, err := root.Lstat(output.ScratchDir); err == nil && !info.IsDir() {
		if err := root.Remove(output.ScratchDir); err != nil {
			return err
		}
	}
	return root.MkdirAll(output.ScratchDir, 0o755)
}

// writeScratch writes a file into ScratchDir, in place of whatever the repository has there.
func writeScratch(root *os.Root, name, text string) error {
	if err := MakeScratch(root); err != nil {
		return err
	}
	file := path.Join(output.ScratchDir, name)
	if err := root.RemoveAll(file); err != nil {
		return err
	}
	return root.WriteFile(file, []byte(text), 0o644)
}

// Guard writes the files that a command needs, and makes its results hard to forge.
func (i Invocation) Guard(root *os.Root) (Invocation, error) {
	for name, text := range i.files {
		if err := writeScratch(root, name, text); err != nil {
			return i, err
		}
	}
	i = hideReports(i, secret())
	if i.canary == nil {
		return i, nil
	}
	return i.canary(root, i, secret())
}

// hideReports gives the reports of a detected command a random name each time, so that nothing can
// be planted there beforehand.
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

// Finished is a command that has exited.
type Finished struct {
	Invocation Invocation
	Result     sandbox.Result
	Parsed     output.Results
	// HasReport is true if the command wrote a report.
	HasReport bool
}

// DropUnseen records that there is no sign that the tests of a command, or of the package in dir,
// finished. Their passes are not counted.
func (f *Finished) DropUnseen(l output.Level, dir, text string, of func(output.Case) bool) {
	f.Parsed.Cases = slices.DeleteFunc(f.Parsed.Cases, func(c output.Case) bool { return c.Status == contract.TestPassed && of(c) })
	f.Parsed.Reported = nil
	f.Parsed.Problems = append(f.Parsed.Problems, output.Problem{Level: l, Path: dir, Rule: RuleCutShort, Message: text})
}

// RuleCutShort marks the finding that a test command exited with code 0 but gave no sign that its
// tests finished.
const RuleCutShort = "tests-cut-short"

func anyCase(output.Case) bool { return true }

// unseenMessage names the missing sign of a command that exited with code 0. It contains no counts,
// because the same finding on the base commit is recognized by its message.
func unseenMessage(f *Finished, missing, causes string) string {
	return fmt.Sprintf("`%s` exited with code 0, but there is no sign that its tests finished: %s. Tests that it reports as passed do not count. "+
		"Code under test ended the process early, or printed its own results; look for %s in the imported and tested code",
		fault.Clip(output.Clean(f.Invocation.String()), 200), missing, causes)
}

// mustReport fails a command that exits with code 0 without a report, although its runner always
// writes one.
func mustReport(causes string) func(*Finished, output.Paths) {
	return func(f *Finished, _ output.Paths) {
		if f.Result.OK() && !f.HasReport {
			f.DropUnseen(output.Error, "", unseenMessage(f, "the runner's final report is missing", causes), anyCase)
		}
	}
}
