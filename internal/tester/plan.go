package tester

import (
	"context"
	"slices"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/pin"
	"github.com/rocketgpt/orchestrator/internal/runs/verdict"
	"github.com/rocketgpt/orchestrator/internal/verify/checks"
)

// Change is a workspace with the plan of its checks, and the base that it is compared with.
type Change struct {
	Base, Workspace contract.Workspace
	Pipeline        checks.Pipeline
	Settings        checks.Settings // which the checks were planned with
	// Quarantine are the quarantined tests of the project.
	Quarantine []contract.QuarantinedTest
	// MostFiles is how many changed test files may be compared. 0: any number.
	MostFiles int
	// Baseline returns the outcome of the checks on the base; nil if there is none.
	Baseline func(ctx context.Context) (*verdict.Baseline, error)
}

// ChangePlan lists the checks of a change, including those of its own tests.
type ChangePlan struct {
	Stages [][]contract.Check
	// Pinned is the outcome of the comparison of the change's tests with those of the base, which
	// needs no command. Nil: they are not compared.
	Pinned *verdict.Recorded
	// Quarantine are the quarantined tests of the project. Those that the change adds or edits are
	// ignored.
	Quarantine []contract.QuarantinedTest
	// TooMany means that the change has more test files than MostFiles, so there is no plan.
	TooMany bool
}

// PlanChange adds the checks of a change's own tests to a plan, and carries out the part that needs
// no command. It removes the scans that cannot judge the base because no scanner is installed.
func (h *Host) PlanChange(ctx context.Context, c Change) (ChangePlan, error) {
	baseline, err := c.Baseline(ctx)
	if err != nil {
		return ChangePlan{}, err
	}
	out := ChangePlan{Stages: withoutMissingScans(baseline, c.Pipeline.Stages)}
	if !c.Settings.PinnedTests.On() && !c.Settings.NewTests.On() && len(c.Quarantine) == 0 {
		return out, nil
	}
	started := time.Now()
	files, err := h.TestFiles(ctx, c.Base, c.Workspace)
	if err != nil || c.MostFiles > 0 && len(files) > c.MostFiles {
		return ChangePlan{TooMany: true}, err
	}
	if out.Quarantine, err = untouched(ctx, c.Quarantine, files); err != nil {
		return ChangePlan{}, err
	}
	if c.Settings.NewTests.On() && hasTests(c.Pipeline.Stages) {
		tests, err := h.toProve(ctx, c.Base, c.Workspace, files)
		if err != nil {
			return ChangePlan{}, err
		}
		if len(tests) > 0 {
			out.Stages = append(out.Stages, []contract.Check{verdict.ProofCheck()})
		}
	}
	if c.Settings.PinnedTests.On() {
		if out.Pinned, err = comparePins(ctx, c, baseline, files); err != nil {
			return ChangePlan{}, err
		}
		out.Pinned.Result.DurationMS = time.Since(started).Milliseconds()
	}
	return out, nil
}

// withoutMissingScans removes the scans from a plan whose scanners are not installed, according to
// the baseline.
func withoutMissingScans(b *verdict.Baseline, stages [][]contract.Check) [][]contract.Check {
	if b == nil {
		return stages
	}
	var out [][]contract.Check
	for _, stage := range stages {
		stage = slices.DeleteFunc(slices.Clone(stage), func(c contract.Check) bool {
			base, ok := b.Check(c.ID)
			return ok && base.Result.Skipped && base.Result.Code == contract.CodeMissing
		})
		if len(stage) > 0 {
			out = append(out, stage)
		}
	}
	return out
}

// untouched ignores the quarantined tests that a change adds or edits, because their failures may be
// caused by it.
func untouched(ctx context.Context, quarantine []contract.QuarantinedTest, files []pin.File) ([]contract.QuarantinedTest, error) {
	if len(quarantine) == 0 || len(files) == 0 {
		return quarantine, nil
	}
	problems, err := pin.Check(ctx, files)
	if err != nil {
		return nil, err
	}
	tests, err := pin.NewTests(ctx, files)
	if err != nil {
		return nil, err
	}
	var edited, added []string
	for _, p := range problems {
		edited = append(edited, p.Test, p.Was)
		edited = append(edited, p.Leaning...)
	}
	for _, t := range tests {
		added = append(added, t.Name)
	}
	return verdict.TouchedTests(quarantine, edited, added), nil
}

// comparePins compares the tests of a change with those of its base, using the changed files and
// the checks that are lost: those that ran tests on the base, and no longer run.
func comparePins(ctx context.Context, c Change, baseline *verdict.Baseline, files []pin.File) (*verdict.Recorded, error) {
	var lost []contract.Finding
	if baseline != nil {
		lost = verdict.LostChecks(baseline.Results(), baseline.Commands, c.Pipeline.Stages, c.Pipeline.Command)
	}
	problems, err := pin.Check(ctx, files)
	if err != nil {
		return nil, err
	}
	var out verdict.Recorded
	out.Result, out.Findings = verdict.Pinned(slices.Concat(pin.Findings(problems), lost), c.Settings.PinnedTests)
	return &out, nil
}

// TestFiles returns the changes in tests, and in the files that determine which tests run.
func (h *Host) TestFiles(ctx context.Context, from, to contract.Workspace) ([]pin.File, error) {
	changed, err := h.Workspaces.Changed(ctx, from, to, pin.Watches, pin.MaxFileBytes+1)
	if err != nil {
		return nil, err
	}
	files := make([]pin.File, len(changed))
	for i, c := range changed {
		files[i] = pin.File{Path: c.Path, Before: c.Before, After: c.After, Existed: c.Existed, Exists: c.Exists}
	}
	return files, nil
}

// hasTests reports whether a plan runs tests at all.
func hasTests(stages [][]contract.Check) bool {
	return slices.ContainsFunc(stages, func(stage []contract.Check) bool {
		return slices.ContainsFunc(stage, func(c contract.Check) bool { return c.Category == contract.CategoryTest })
	})
}

// Commands returns the command of each check of a plan by the check's identifier.
func Commands(p checks.Pipeline) map[string]string {
	commands := map[string]string{}
	for _, stage := range p.Stages {
		for _, c := range stage {
			commands[c.ID] = p.Command(c.ID)
		}
	}
	return commands
}
