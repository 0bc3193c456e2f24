package activities

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"

	"go.temporal.io/sdk/activity"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/artifact"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/runs/verdict"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
	"github.com/rocketgpt/orchestrator/internal/temporal"
	"github.com/rocketgpt/orchestrator/internal/tester"
	"github.com/rocketgpt/orchestrator/internal/verify"
	"github.com/rocketgpt/orchestrator/internal/verify/checks"
)

// Limits of a local activity. More may take longer than a workflow task should wait.
const (
	maxLocalFiles = 2000 // files that it lays out in a directory
	maxLocalPins  = 100  // changed test files that it compares
)

// PlanTests returns the checks of a workspace's verification, and carries out the part that needs
// no command: the comparison of the change's tests with the previous ones.
func (a *Activities) PlanTests(ctx context.Context, in contract.TestPlanInput) (contract.TestPlanResult, error) {
	if in.LocalOnly {
		quick, err := a.fitsLocalActivity(ctx, in.Workspace)
		if err != nil || !quick {
			return contract.TestPlanResult{Cold: true}, err
		}
	}
	run, err := a.Store.Run(ctx, in.Execution.RunID)
	if err != nil {
		return contract.TestPlanResult{}, err
	}
	spec, err := specOf(run)
	if err != nil {
		return contract.TestPlanResult{}, err
	}
	dir, err := a.Workspaces.OpenShared(ctx, in.Workspace)
	if err != nil {
		return contract.TestPlanResult{}, err
	}
	defer dir.Close()
	pipeline, err := checks.Plan(dir.Path(), spec.Verification)
	if err != nil {
		return contract.TestPlanResult{}, err
	}
	return a.planOfTests(ctx, in, run, spec, pipeline)
}

// planOfTests adds the checks of the change's own tests to a plan, and stores the outcome of the one
// that needs no command.
func (a *Activities) planOfTests(ctx context.Context, in contract.TestPlanInput, run store.Run, spec setup.RunSpec, pipeline checks.Pipeline) (contract.TestPlanResult, error) {
	change := tester.Change{
		Base: comparedWith(run, in.Base), Workspace: in.Workspace, Pipeline: pipeline, Settings: spec.Verification,
		Baseline: func(ctx context.Context) (*verdict.Baseline, error) {
			b, err := a.baselineOf(ctx, run)
			return recorded(b), err
		},
	}
	var err error
	if change.Quarantine, err = a.currentQuarantine(ctx, run); err != nil {
		return contract.TestPlanResult{}, err
	}
	if in.LocalOnly {
		change.MostFiles = maxLocalPins
	}
	plan, err := a.host().PlanChange(ctx, change)
	if err != nil || plan.TooMany {
		return contract.TestPlanResult{Cold: plan.TooMany}, err
	}
	out := contract.TestPlanResult{Stages: plan.Stages}
	if in.Execution.Step == "" {
		if err := a.reuseChecks(ctx, in, run, &out); err != nil {
			return contract.TestPlanResult{}, err
		}
	}
	if out.Quarantined, err = a.useQuarantine(ctx, in.Execution, plan.Quarantine); err != nil {
		return contract.TestPlanResult{}, err
	}
	if p := plan.Pinned; p != nil {
		for _, f := range p.Findings {
			telemetry.CountFinding(f.Severity, f.Category)
		}
		out.Done = append(out.Done, p.Result)
		err = a.Store.SaveCheck(ctx, in.Execution, p.Result.Check.ID, p.Result, nil, p.Findings, "")
	}
	return out, err
}

// fitsLocalActivity reports whether a workspace can be laid out quickly: its repository is on this
// host, and small.
func (a *Activities) fitsLocalActivity(ctx context.Context, ws contract.Workspace) (bool, error) {
	if !a.Workspaces.Cached(ws.Repo, ws.Base) {
		return false, nil
	}
	files, err := a.Workspaces.Files(ctx, ws)
	return len(files) <= maxLocalFiles, err
}

// specOf reads the frozen inputs of a run.
func specOf(run store.Run) (setup.RunSpec, error) {
	var spec setup.RunSpec
	if err := json.Unmarshal(run.Spec, &spec); err != nil {
		return spec, fmt.Errorf("read the settings of run %d: %w", run.ID, err)
	}
	return spec, nil
}

// Verify carries out checks in parallel, each on its own clean checkout: the one of the input and, if the activity is
// not repeated, the others. It returns the results that it could get, and fails if there are none or if it was stopped.
func (a *Activities) Verify(ctx context.Context, in contract.VerifyInput) (contract.VerifyResult, error) {
	others := in.Others
	in.Others = nil
	if len(others) == 0 || activity.GetInfo(ctx).Attempt > 1 {
		result, err := a.verify(ctx, in)
		return contract.VerifyResult{CheckResult: result}, err
	}
	all := slices.Concat([]contract.Check{in.Check}, others)
	results, errs := make([]contract.CheckResult, len(all)), make([]error, len(all))
	var running sync.WaitGroup
	for i, check := range all {
		one := in
		one.Check = check
		running.Go(func() {
			defer a.recovered(ctx, "the check "+check.ID, &errs[i])
			results[i], errs[i] = a.verify(ctx, one)
		})
	}
	running.Wait()
	if err := cmp.Or(errs...); err != nil && (ctx.Err() != nil || !slices.Contains(errs, nil)) {
		return contract.VerifyResult{}, err
	}
	var out contract.VerifyResult
	for i, err := range errs {
		switch {
		case err != nil:
			a.Log.WarnContext(ctx, "A check failed to run beside others; it gets an activity of its own",
				"run", in.Execution.RunID, "execution", in.Execution.ID, "check", all[i].ID, "error", err)
		case i == 0:
			out.CheckResult = results[i]
		default:
			out.Others = append(out.Others, results[i])
		}
	}
	return fitting(out), nil
}

// fitting leaves the coverage out of results that do not fit into a history together: it is their only part that can be
// long, no workflow reads it, and it is stored with each check.
func fitting(r contract.VerifyResult) contract.VerifyResult {
	if temporal.CheckSize("the results of several checks", r) == nil {
		return r
	}
	r.Coverage = nil
	for i := range r.Others {
		r.Others[i].Coverage = nil
	}
	return r
}

// verify carries out one check on its own clean checkout. A failure that also occurs on the base commit is known, and
// does not count against the change.
func (a *Activities) verify(ctx context.Context, in contract.VerifyInput) (contract.CheckResult, error) {
	ofCommit := in.Check.ID != contract.CheckNewTests && in.Baseline == ""
	if ofCommit && in.Execution.Step != "" {
		if known, found, err := a.verified(ctx, in); found || err != nil {
			return known, err
		}
	}
	ctx, release, err := a.takeCore(ctx, in.Execution.RunID)
	if err != nil {
		return contract.CheckResult{}, err
	}
	defer release()
	switch {
	case in.Check.ID == contract.CheckNewTests:
		return a.prove(ctx, in)
	case !ofCommit:
		return a.verifyBaseline(ctx, in)
	}
	c, err := a.check(ctx, in)
	if err != nil {
		return contract.CheckResult{}, err
	}
	cases := c.outcome.Cases
	if err := a.compare(ctx, c.run, c.settings, in, &c); err != nil {
		a.saveFiles(ctx, in, &c) // they tell what happened, also if the check cannot be judged
		return contract.CheckResult{}, err
	}
	if in.Execution.Step != "" {
		c.result.Tree = in.Workspace.Tree
	}
	for _, f := range c.outcome.Findings {
		telemetry.CountFinding(f.Severity, f.Category)
	}
	telemetry.CountTests(c.result.Summary)
	if err := a.Store.SaveCheck(ctx, in.Execution, in.Check.ID, c.result, c.outcome.Cases, c.outcome.Findings, c.log, c.files...); err != nil {
		return contract.CheckResult{}, err
	}
	a.recordTests(ctx, in, c, cases)
	return c.result, nil
}

// saveFiles stores the artifacts of a check before its outcome, also if the check is stopped. If that fails, they are
// stored with the outcome.
func (a *Activities) saveFiles(ctx context.Context, in contract.VerifyInput, c *checked) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tester.KeepTime)
	defer cancel()
	if err := a.Store.AddArtifacts(ctx, in.Execution.RunID, c.files); err != nil {
		a.Log.WarnContext(ctx, "Could not store the files of a check before its outcome", "run", in.Execution.RunID, "check", in.Check.ID, "error", err)
		return
	}
	c.files = nil
}

// checked is a check that was carried out.
type checked struct {
	run      store.Run
	settings checks.Settings
	outcome  verify.Outcome
	result   contract.CheckResult
	log      string              // digest of the output of its commands
	files    []contract.Artifact // not stored yet
}

// check carries out a check in the environment of its workspace, and stores the content of its files.
func (a *Activities) check(ctx context.Context, in contract.VerifyInput) (checked, error) {
	run, err := a.Store.Run(ctx, in.Execution.RunID)
	if err != nil {
		return checked{}, err
	}
	spec, err := specOf(run)
	if err != nil {
		return checked{}, err
	}
	if in.Baseline != "" {
		spec.Verification = baselineSettings(spec.Verification)
	}
	c := checked{run: run, settings: spec.Verification}
	var kept keptFiles
	task := a.task(run, spec, in, &kept)
	task.Keep = func(ctx context.Context, f tester.Files) (err error) {
		kept, c.files, err = a.putFiles(ctx, in, f)
		return err
	}
	var shown *output
	task.Follow = func() (func([]byte), func()) {
		shown = a.output(ctx, in.Execution.RunID, in.Check.ID)
		return shown.write, shown.end
	}
	c.outcome, c.result, err = a.host().Check(ctx, task)
	if shown != nil {
		shown.wait() // until now, its end was published beside the work on the files
	}
	c.log, c.result.LeftOut = kept.log, kept.leftOut
	return c, err
}

// keptFiles are the stored files of a check.
type keptFiles struct {
	log     string // digest
	leftOut int    // files that were not stored
}

// task returns a check of a run. Once it was carried out, kept are its files.
func (a *Activities) task(run store.Run, spec setup.RunSpec, in contract.VerifyInput, kept *keptFiles) tester.Task {
	return tester.Task{
		Check: in.Check, Workspace: in.Workspace, Settings: spec.Verification, Timeout: in.Timeout,
		Key: directory(in.Execution), BaseKey: fmt.Sprintf("%d/base", in.Execution.RunID), Who: "run " + directory(in.Execution) + "/" + in.Check.ID,
		Run: in.Execution.RunID, Layer: checkLayer(in),
		Environment: func(ctx context.Context, ws contract.Workspace, checkout string) (*tester.CommandEnv, error) {
			cenv, err := a.commandEnv(ctx, run, spec, ws, checkout)
			if err == nil && cenv.Failed != nil && in.Baseline != "" {
				cenv.Close()
				return nil, fault.New(contract.ClassInfra, contract.CodeUnavailable,
					"the base commit's environment could not be rebuilt: `%s` failed (%s)", cenv.Failed.Command, cenv.Failed.Why)
			}
			return cenv, err
		},
		Keep: func(ctx context.Context, f tester.Files) (err error) {
			*kept, err = a.keepFiles(ctx, in, f)
			return err
		},
	}
}

// keepFiles stores the log of a check and the files that it produced as artifacts of the run.
func (a *Activities) keepFiles(ctx context.Context, in contract.VerifyInput, f tester.Files) (keptFiles, error) {
	kept, files, err := a.putFiles(ctx, in, f)
	if err != nil {
		return keptFiles{}, err
	}
	return kept, a.Store.AddArtifacts(ctx, in.Execution.RunID, files)
}

// putFiles stores the content of the log of a check and of the files that it produced. It returns their artifacts, which the
// caller must store soon.
func (a *Activities) putFiles(ctx context.Context, in contract.VerifyInput, f tester.Files) (keptFiles, []contract.Artifact, error) {
	prefix := checkPrefix(in)
	log, err := a.Artifacts.Put(ctx, f.Log)
	if err != nil {
		return keptFiles{}, nil, err
	}
	kept := []contract.Artifact{{
		ExecutionID: in.Execution.ID, Name: prefix + "output.log", Type: contract.ArtifactLog, Size: int64(len(f.Log)), Digest: log,
	}}
	files, err := os.OpenRoot(f.Root)
	if err != nil {
		return keptFiles{}, nil, fmt.Errorf("open the checkout: %w", err)
	}
	defer files.Close()
	requests, err := a.requestsArtifact(ctx, f.Egress, prefix+"network.jsonl")
	if err != nil {
		return keptFiles{}, nil, err
	}
	for i := range requests {
		requests[i].ExecutionID = in.Execution.ID
	}
	kept = append(kept, requests...)
	made, left, err := a.keepMade(ctx, in, f, files)
	if err != nil {
		return keptFiles{}, nil, err
	}
	for i := range made {
		made[i].ExecutionID, made[i].Name = in.Execution.ID, prefix+made[i].Name
	}
	return keptFiles{log, left}, append(kept, made...), nil
}

// shownLeftOut is how many of the files of a check that were not stored are listed one by one.
const shownLeftOut = 50

// keepMade stores the files that a check created, as far as the limits allow, in their order. It
// returns a row for each file, also for those that were left out; if these are many, the last row
// stands for the rest. left is the number of files that were left out.
func (a *Activities) keepMade(ctx context.Context, in contract.VerifyInput, f tester.Files, root *os.Root) (out []contract.Artifact, left int, err error) {
	if len(f.Artifacts)+f.Unlisted == 0 {
		return nil, 0, nil
	}
	room, err := a.roomFor(ctx, in.Execution.RunID)
	if err != nil {
		return nil, 0, err
	}
	more := contract.Artifact{Name: "more-files", Type: contract.ArtifactFile}
	for _, made := range f.Artifacts {
		kept := contract.Artifact{Type: made.Type, Size: made.Size}
		why := room.refuse(made.Size)
		if why == "" {
			if kept, err = a.keepFile(ctx, root, made); err != nil {
				a.Log.WarnContext(ctx, "Left out a file that a check created", "run", in.Execution.RunID, "check", in.Check.ID, "file", made.Path, "error", err)
				why, kept.Size = "it could not be stored", made.Size
				if errors.Is(err, artifact.ErrTooLarge) {
					why = "it exceeds artifacts.max_file"
				}
			}
		}
		if why == "" {
			room.take(kept.Size)
		} else if left++; left > shownLeftOut {
			more.Size += made.Size
			continue
		}
		kept.Name, kept.Type, kept.LeftOut = made.Name, made.Type, why
		if why != "" {
			kept.Digest = ""
		}
		out = append(out, kept)
	}
	if n := max(0, left-shownLeftOut) + f.Unlisted; n > 0 {
		more.LeftOut = fmt.Sprintf("%d more files were left out for such reasons", n)
		out = append(out, more)
	}
	return out, left + f.Unlisted, nil
}

// room is how much of the files that a check created can still be stored.
type room struct {
	limits   config.Artifacts
	files    int // of the check
	size     int64
	runFiles int
	runSize  int64
}

func (a *Activities) roomFor(ctx context.Context, runID int64) (room, error) {
	r := room{limits: a.Config.Artifacts}
	all, err := a.Store.Artifacts(ctx, runID)
	for _, f := range all {
		if f.Missing() == "" {
			r.runFiles++
			r.runSize += f.Size
		}
	}
	return r, err
}

// refuse returns why a file of a size may not be stored; empty if it may.
func (r *room) refuse(size int64) string {
	switch {
	case size > r.limits.MaxFile.Int64():
		return fmt.Sprintf("it exceeds artifacts.max_file (%s)", r.limits.MaxFile)
	case r.files >= r.limits.MaxCheckFiles:
		return fmt.Sprintf("the check has more than artifacts.max_check_files (%d) files", r.limits.MaxCheckFiles)
	case r.size+size > r.limits.MaxCheckSize.Int64():
		return fmt.Sprintf("the files of the check exceed artifacts.max_check_size (%s)", r.limits.MaxCheckSize)
	case r.runFiles >= r.limits.MaxRunFiles:
		return fmt.Sprintf("the run has artifacts.max_run_files (%d) files", r.limits.MaxRunFiles)
	case r.runSize+size > r.limits.MaxRunSize.Int64():
		return fmt.Sprintf("the files of the run exceed artifacts.max_run_size (%s)", r.limits.MaxRunSize)
	}
	return ""
}

// take counts a stored file.
func (r *room) take(size int64) {
	r.files++
	r.runFiles++
	r.size += size
	r.runSize += size
}

func (a *Activities) keepFile(ctx context.Context, root *os.Root, f verify.ArtifactFile) (contract.Artifact, error) {
	file, err := root.Open(f.Path)
	if err != nil {
		return contract.Artifact{}, err
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return contract.Artifact{}, fmt.Errorf("%s is no longer a regular file", f.Path)
	}
	digest, size, err := a.Artifacts.PutReader(ctx, io.Reader(file), a.Config.Artifacts.MaxFile.Int64())
	return contract.Artifact{Type: f.Type, Size: size, Digest: digest}, err
}

// TestReport summarizes an execution of the tester from its stored checks and decides whether the
// run may continue.
func (a *Activities) TestReport(ctx context.Context, in contract.TestReportInput) (contract.TestReportResult, error) {
	stored, err := a.Store.Checks(ctx, in.Execution.ID)
	if err != nil {
		return contract.TestReportResult{}, err
	}
	checks := make([]contract.CheckResult, len(stored))
	for i, c := range stored {
		checks[i] = c.Result
	}
	out := verdict.Of(checks, in.Thresholds)
	if out.Warning != "" {
		a.Log.WarnContext(ctx, "Verification passed with a warning", "run", in.Execution.RunID, "medium", out.Medium, "warning", out.Warning)
	}
	return out, nil
}
