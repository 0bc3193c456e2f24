package activities

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/buildcache"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/runs/verdict"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
	"github.com/rocketgpt/orchestrator/internal/verify"
	"github.com/rocketgpt/orchestrator/internal/verify/checks"
)

// maxLocalFiles is how many files a local activity lays out in a directory. More may take
// longer than a workflow task should wait.
const maxLocalFiles = 2000

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
	dir, err := a.Workspaces.View(ctx, in.Workspace, directory(in.Execution)+"/plan")
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

// planOfTests adds the checks of the change's own tests to a plan.
func (a *Activities) planOfTests(ctx context.Context, in contract.TestPlanInput, run store.Run, spec setup.RunSpec, pipeline checks.Pipeline) (contract.TestPlanResult, error) {
	base := run.Settings.Repo.Workspace()
	out := contract.TestPlanResult{Stages: pipeline.Stages}
	if !spec.Verification.PinnedTests.On() && !spec.Verification.NewTests.On() {
		return out, nil
	}
	started := time.Now()
	files, err := a.pinned(ctx, base, in.Workspace)
	if err != nil || in.LocalOnly && len(files) > maxLocalPins {
		return contract.TestPlanResult{Cold: true}, err
	}
	if spec.Verification.NewTests.On() && hasTests(pipeline.Stages) {
		tests, err := a.toProve(ctx, base, in.Workspace, files)
		if err != nil {
			return contract.TestPlanResult{}, err
		}
		if len(tests) > 0 {
			out.Stages = append(out.Stages, []contract.Check{verdict.ProofCheck()})
		}
	}
	if spec.Verification.PinnedTests.On() {
		lost, err := a.lostChecks(ctx, run, pipeline)
		if err != nil {
			return contract.TestPlanResult{}, err
		}
		if out.Done, err = a.comparePins(ctx, in, files, lost, spec.Verification.PinnedTests, started); err != nil {
			return contract.TestPlanResult{}, err
		}
	}
	return out, nil
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

// Verify carries out one check on its own clean checkout. A failure that also occurs on the base
// commit is known, and does not count against the change.
func (a *Activities) Verify(ctx context.Context, in contract.VerifyInput) (contract.CheckResult, error) {
	switch {
	case in.Check.ID == contract.CheckNewTests:
		return a.prove(ctx, in)
	case in.Baseline != "":
		return a.verifyBaseline(ctx, in)
	}
	c, err := a.check(ctx, in)
	if err != nil {
		return contract.CheckResult{}, err
	}
	if err := a.compare(ctx, in, &c); err != nil {
		return contract.CheckResult{}, err
	}
	for _, f := range c.outcome.Findings {
		telemetry.CountFinding(f.Severity, f.Category)
	}
	return c.result, a.Store.SaveCheck(ctx, in.Execution, in.Check.ID, c.result, c.outcome.Cases, c.outcome.Findings, c.log)
}

// checked is a check that was carried out.
type checked struct {
	outcome verify.Outcome
	result  contract.CheckResult
	log     string // digest of the output of its commands
}

// check carries out a check in the environment of its workspace, and stores its files as artifacts
// of the run.
func (a *Activities) check(ctx context.Context, in contract.VerifyInput) (checked, error) {
	run, err := a.Store.Run(ctx, in.Execution.RunID)
	if err != nil {
		return checked{}, err
	}
	spec, err := specOf(run)
	if err != nil {
		return checked{}, err
	}
	dir, err := a.Workspaces.Open(ctx, in.Workspace, directory(in.Execution)+"/"+in.Check.ID)
	if err != nil {
		return checked{}, err
	}
	defer dir.Close()
	cache, err := a.checkCache(in)
	if err != nil {
		return checked{}, err
	}
	defer a.discard(ctx, in, cache)
	cenv, err := a.checkCommandEnv(ctx, run, spec, in, dir.Path(), cache)
	if err != nil {
		return checked{}, err
	}
	defer cenv.Close()
	if cenv.failed != nil && in.Baseline != "" {
		return checked{}, fault.New(contract.ClassInfra, contract.CodeUnavailable,
			"the base commit's environment could not be rebuilt: `%s` failed (%s)", cenv.failed.Command, cenv.failed.Why)
	}
	outcome := brokenSetup(cenv)
	way := a.checkEgress(in)
	if outcome == nil {
		env := a.verifyEnv(spec, cache, cenv, way)
		if outcome, err = a.runCheck(ctx, in, dir.Path(), env, cache, cenv.ofBase); err != nil {
			return checked{}, err
		}
	}
	redact(outcome)
	log, err := a.keepFiles(ctx, in, dir.Path(), *outcome, way)
	if err != nil {
		return checked{}, err
	}
	result := outcome.Result(in.Check)
	result.Code = outcome.Code
	return checked{outcome: *outcome, result: result, log: log}, nil
}

func (a *Activities) checkCommandEnv(
	ctx context.Context, run store.Run, spec setup.RunSpec, in contract.VerifyInput, checkout string, cache *buildcache.Cache,
) (*commandEnv, error) {
	cenv, err := a.commandEnv(ctx, run, spec, in.Workspace, checkout)
	if err != nil {
		return nil, err
	}
	if cenv.home, cenv.tmp, err = cache.Home("check"); err != nil {
		cenv.Close()
		return nil, err
	}
	return cenv, nil
}

// brokenSetup returns the outcome of each check of a change whose environment cannot be
// created, nil if it can.
func brokenSetup(cenv *commandEnv) *verify.Outcome {
	f := cenv.failed
	if f == nil {
		return nil
	}
	text := fmt.Sprintf("the environment that the change needs could not be set up: `%s` failed (%s)", clipped(f.Command.String(), 300), f.Why)
	return &verify.Outcome{
		Code: contract.CodeCheckFailed, Message: text, Log: []byte(text + "\n\n" + f.Output + "\n"),
		Findings: []contract.Finding{{Severity: contract.SeverityMajor, Category: contract.CategoryBuild, Rule: "environment", Message: text + ": " + clipped(f.Output, 1000)}},
	}
}

func (a *Activities) runCheck(
	ctx context.Context, in contract.VerifyInput, checkout string, env verify.Env, cache *buildcache.Cache, ofBase bool,
) (*verify.Outcome, error) {
	started := time.Now()
	if ofBase {
		a.fillBase(ctx, in, checkout, env, cache)
	}
	env.Limits.Timeout = timeLeft(in, started)
	if in.Check.Retest > 0 {
		env.Settings.RerunFailed = 0 // a second attempt would hide the failures that re-tests look for
	}
	out := a.output(ctx, in.Execution.RunID, in.Check.ID)
	defer out.close()
	env.OnOutput = func(_ sandbox.Stream, chunk []byte) { out.write(chunk) }
	outcome, err := verify.Run(ctx, checkout, in.Check.Original(), env)
	return &outcome, err
}

// checkEgress returns the network access for the commands of one check, limited by its
// own settings.
func (a *Activities) checkEgress(in contract.VerifyInput) *egress {
	return a.egress("run "+directory(in.Execution)+"/"+in.Check.ID, checks.NetworkSetting(in.Check.Category))
}

// discard removes a check's build cache. Any remains are swept later.
func (a *Activities) discard(ctx context.Context, in contract.VerifyInput, cache *buildcache.Cache) {
	if err := cache.Discard(); err != nil {
		a.Log.WarnContext(ctx, "Could not remove a check's build cache", "run", in.Execution.RunID, "check", in.Check.ID, "error", err)
	}
}

func (a *Activities) verifyEnv(spec setup.RunSpec, cache *buildcache.Cache, cenv *commandEnv, way *egress) verify.Env {
	command := a.command(cache)
	for _, name := range []string{"RGPT_CHROMIUM", "PLAYWRIGHT_CHROMIUM_EXECUTABLE_PATH"} {
		if value := os.Getenv(name); value != "" {
			command.Env[name] = value
		}
	}
	env := verify.Env{
		Runner: a.Sandbox, Settings: spec.Verification, Limits: command.Limits, Vars: command.Env, GoCache: command.GoCache,
		Mounts: command.Mounts, NodeModules: os.Getenv("RGPT_NODE_MODULES"), Outfit: cenv.outfit,
	}
	if a.Proxy != nil {
		env.CACertificates = a.Proxy.CACertificate()
		env.Proxy = way.serve
	}
	return env
}

// redact removes secrets from the output of tests and tools, which is stored, shown in events, and
// included in prompts.
func redact(o *verify.Outcome) {
	o.Message = telemetry.Redact(o.Message)
	for i := range o.Cases {
		o.Cases[i].Message = telemetry.Redact(o.Cases[i].Message)
	}
	for i := range o.Findings {
		o.Findings[i].Message = telemetry.Redact(o.Findings[i].Message)
	}
}

// keepFiles stores the log of a check and the files that it produced, and returns the log's digest.
func (a *Activities) keepFiles(ctx context.Context, in contract.VerifyInput, root string, outcome verify.Outcome, way *egress) (string, error) {
	prefix := fmt.Sprintf("tester/%d/%s/", in.Execution.Attempt, in.Check.ID)
	if in.Baseline != "" {
		prefix = contract.StepBaseline + "/" + in.Check.ID + "/"
	}
	text := []byte(telemetry.Redact(string(outcome.Log)))
	log, err := a.Artifacts.Put(ctx, text)
	if err != nil {
		return "", err
	}
	kept := []contract.Artifact{{
		ExecutionID: in.Execution.ID, Name: prefix + "output.log", Type: contract.ArtifactLog, Size: int64(len(text)), Digest: log,
	}}
	files, err := os.OpenRoot(root)
	if err != nil {
		return "", fmt.Errorf("open the checkout: %w", err)
	}
	defer files.Close()
	requests, err := way.artifact(ctx, prefix+"network.jsonl")
	if err != nil {
		return "", err
	}
	for i := range requests {
		requests[i].ExecutionID = in.Execution.ID
	}
	kept = append(kept, requests...)
	for _, f := range outcome.Artifacts {
		artifact, err := a.keepFile(ctx, files, f)
		if err != nil {
			a.Log.WarnContext(ctx, "Skipped a file that a check produced", "run", in.Execution.RunID, "check", in.Check.ID, "file", f.Path, "error", err)
			continue
		}
		artifact.ExecutionID, artifact.Name = in.Execution.ID, prefix+f.Name
		kept = append(kept, artifact)
	}
	return log, a.Store.AddArtifacts(ctx, in.Execution.RunID, kept)
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
