package activities

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/buildcache"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
	"github.com/rocketgpt/orchestrator/internal/verify"
)

// quickFiles is how many files short work lays out in a directory. More may take
// longer than a workflow task should wait.
const quickFiles = 2000

// PlanTests says what the verification of a workspace consists of.
func (a *Activities) PlanTests(ctx context.Context, in contract.TestPlanInput) (contract.TestPlanResult, error) {
	if in.Quick {
		quick, err := a.quick(ctx, in.Workspace)
		if err != nil || !quick {
			return contract.TestPlanResult{Cold: true}, err
		}
	}
	spec, err := a.spec(ctx, in.Execution.RunID)
	if err != nil {
		return contract.TestPlanResult{}, err
	}
	dir, err := a.Workspaces.View(ctx, in.Workspace, directory(in.Execution)+"/plan")
	if err != nil {
		return contract.TestPlanResult{}, err
	}
	defer dir.Close()
	pipeline, err := verify.Plan(dir.Path(), spec.Verification)
	return contract.TestPlanResult{Stages: pipeline.Stages}, err
}

// quick reports whether a workspace can be laid out in a moment: its repository
// is on this host, and small.
func (a *Activities) quick(ctx context.Context, ws contract.Workspace) (bool, error) {
	if !a.Workspaces.Cached(ws.Repo, ws.Base) {
		return false, nil
	}
	files, err := a.Workspaces.Files(ctx, ws)
	return len(files) <= quickFiles, err
}

// spec reads the frozen inputs of a run.
func (a *Activities) spec(ctx context.Context, runID int64) (setup.RunSpec, error) {
	var spec setup.RunSpec
	run, err := a.Store.Run(ctx, runID)
	if err != nil {
		return spec, err
	}
	if err := json.Unmarshal(run.Spec, &spec); err != nil {
		return spec, fmt.Errorf("read the settings of run %d: %w", runID, err)
	}
	return spec, nil
}

// Verify carries out one check on a clean checkout of its own.
func (a *Activities) Verify(ctx context.Context, in contract.VerifyInput) (contract.CheckResult, error) {
	spec, err := a.spec(ctx, in.Execution.RunID)
	if err != nil {
		return contract.CheckResult{}, err
	}
	dir, err := a.Workspaces.Open(ctx, in.Workspace, directory(in.Execution)+"/"+in.Check.ID)
	if err != nil {
		return contract.CheckResult{}, err
	}
	defer dir.Close()
	cache, err := a.checkCache(in)
	if err != nil {
		return contract.CheckResult{}, err
	}
	defer func() {
		if err := cache.Discard(); err != nil {
			a.Log.WarnContext(ctx, "Could not remove the build cache of a check", "run", in.Execution.RunID, "check", in.Check.ID, "error", err)
		}
	}()
	env := a.verifyEnv(spec, cache)
	started := time.Now()
	a.fillBase(ctx, in, dir.Path(), env, cache)
	env.Limits.Timeout = timeLeft(in, started)
	outcome, err := verify.Run(ctx, dir.Path(), in.Check, env)
	if err != nil {
		return contract.CheckResult{}, err
	}
	log, err := a.keepFiles(ctx, in, dir.Path(), outcome)
	if err != nil {
		return contract.CheckResult{}, err
	}
	result := outcome.Result(in.Check)
	result.Code = outcome.Code
	for _, f := range outcome.Findings {
		telemetry.CountFinding(f.Severity, f.Category)
	}
	return result, a.Store.SaveCheck(ctx, in.Execution, in.Check.ID, result, outcome.Cases, outcome.Findings, log)
}

func (a *Activities) verifyEnv(spec setup.RunSpec, cache *buildcache.Cache) verify.Env {
	command := a.command(cache)
	for _, name := range []string{"RGPT_CHROMIUM", "PLAYWRIGHT_CHROMIUM_EXECUTABLE_PATH"} {
		if value := os.Getenv(name); value != "" {
			command.Env[name] = value
		}
	}
	return verify.Env{
		Runner: a.Sandbox, Settings: spec.Verification, Limits: command.Limits, Vars: command.Env, GoCache: command.GoCache,
		ReadOnly: command.ReadOnly, Writable: command.Writable, NodeModules: os.Getenv("RGPT_NODE_MODULES"),
	}
}

// keepFiles stores the log of a check and the files that it left behind, and
// returns the log's digest.
func (a *Activities) keepFiles(ctx context.Context, in contract.VerifyInput, root string, outcome verify.Outcome) (string, error) {
	prefix := fmt.Sprintf("tester/%d/%s/", in.Execution.Attempt, in.Check.ID)
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
	for _, f := range outcome.Artifacts {
		artifact, err := a.keepFile(ctx, files, f)
		if err != nil {
			a.Log.WarnContext(ctx, "Left out a file of a check", "run", in.Execution.RunID, "check", in.Check.ID, "file", f.Path, "error", err)
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
		return contract.Artifact{}, fmt.Errorf("%s is no regular file any more", f.Path)
	}
	digest, size, err := a.Artifacts.PutReader(ctx, io.Reader(file), a.Config.Artifacts.MaxFile.Int64())
	return contract.Artifact{Type: f.Type, Size: size, Digest: digest}, err
}

// TestReport sums up an execution of the tester from its stored checks and says
// whether the run may go on.
func (a *Activities) TestReport(ctx context.Context, in contract.TestReportInput) (contract.TestReportResult, error) {
	checks, err := a.Store.Checks(ctx, in.Execution.ID)
	if err != nil {
		return contract.TestReportResult{}, err
	}
	var out contract.TestReportResult
	var red []store.Check
	for _, c := range checks {
		out.Summary = out.Summary.Add(c.Result.Summary)
		out.Major += c.Result.Major
		out.Medium += c.Result.Medium
		out.Minor += c.Result.Minor
		if !c.Result.OK {
			red = append(red, c)
		}
	}
	out.Failure = judge(out, red, in.Thresholds)
	if most := in.Thresholds.MaxMedium; out.Medium > most {
		out.Warning = fmt.Sprintf("verification has %d medium findings, more than the %d after which it warns (findings.max_medium)", out.Medium, most)
		a.Log.WarnContext(ctx, "Verification has more medium findings than findings.max_medium", "run", in.Execution.RunID, "medium", out.Medium, "most", most)
	}
	return out, nil
}

// judge says why verification does not let a run go on, nil when it does. A red
// test or build always stops it; other checks count by their findings.
func judge(out contract.TestReportResult, red []store.Check, most contract.Thresholds) *contract.Failure {
	for _, c := range red {
		if k := c.Result.Check.Category; k == contract.CategoryTest || k == contract.CategoryBuild {
			return &redFailure(c, out).Failure
		}
	}
	if out.Major > most.MaxMajor {
		return &fault.New(contract.ClassAssertion, contract.CodeFindings,
			"verification has %d major findings, more than the %d allowed (findings.max_major)%s", out.Major, most.MaxMajor, firstRed(red)).Failure
	}
	return nil
}

// redFailure says what a red check stands for.
func redFailure(c store.Check, out contract.TestReportResult) *fault.Error {
	name, message := c.Result.Check.ID, c.Result.Message
	switch c.Result.Code {
	case contract.CodeTestsFailed:
		return fault.New(contract.ClassAssertion, contract.CodeTestsFailed, "%d of %d tests failed, in %s: %s",
			out.Summary.Failed, out.Summary.Failed+out.Summary.Passed+out.Summary.Flaky, name, message)
	case contract.CodeTimeout:
		return fault.New(contract.ClassRuntime, contract.CodeTimeout, "%s took longer than %s may (verification.timeout): %s", name, time.Duration(c.Result.DurationMS)*time.Millisecond, message)
	case contract.CodeCommandCrashed:
		return fault.New(contract.ClassRuntime, contract.CodeCommandCrashed, "%s crashed: %s", name, message)
	case contract.CodeNoTests:
		return fault.New(contract.ClassAssertion, contract.CodeNoTests, "%s found nothing to run: %s", name, message)
	default:
		return fault.New(contract.ClassAssertion, contract.CodeCheckFailed, "%s failed: %s", name, message)
	}
}

func firstRed(red []store.Check) string {
	if len(red) == 0 {
		return ""
	}
	return "; " + red[0].Result.Check.ID + ": " + strings.TrimSpace(red[0].Result.Message)
}
