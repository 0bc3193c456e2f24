package oracle

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/eval/commits"
	"github.com/rocketgpt/orchestrator/internal/store/views"
)

// Play plays a commit that the stack was started with, and returns the result. The clone is removed
// if there are no problems.
func (s *Stack) Play(ctx context.Context, script *Script) Result {
	s.played++
	clone := filepath.Join(s.options.Dir, fmt.Sprintf("clone-%d", s.played))
	fmt.Fprintf(s.options.Log, "%s %.12s %s\n", script.Repo, script.ID, script.Subject)
	r := Result{Commit: script.Commit, Status: StatusError, Clone: clone, DataDir: s.dataDir()}
	if err := script.Clone(ctx, clone); err != nil {
		r.wrong("the clone failed: %v", err)
		return r
	}
	s.once(ctx, script, clone, &r)
	if r.OK && s.options.Warm {
		again := Result{Commit: script.Commit, Clone: clone}
		s.once(ctx, script, clone, &again)
		r.WarmSeconds, r.OK = again.Seconds, again.OK
		for _, problem := range again.Problems {
			r.wrong("in the second run: %s", problem)
		}
	}
	if r.OK {
		r.Clone, r.DataDir = "", ""
		if err := os.RemoveAll(clone); err != nil {
			fmt.Fprintf(s.options.Log, "remove the clone %s: %v\n", clone, err)
		}
	}
	return r
}

// once creates one run in a clone and fills in the result.
func (s *Stack) once(ctx context.Context, script *Script, clone string, r *Result) {
	r.Status = StatusError
	run, took, err := s.create(ctx, script, clone)
	r.Seconds = took.Seconds()
	if err != nil {
		r.wrong("%v", err)
		return
	}
	raw := json.RawMessage{}
	if err := s.read(ctx, startTime, &raw, "run", "inspect", fmt.Sprint(run)); err != nil {
		r.wrong("run %d cannot be read: %v", run, err)
		return
	}
	if err := r.fill(raw); err != nil {
		r.wrong("%v", err)
		return
	}
	s.judge(ctx, script, clone, r)
	r.OK = len(r.Problems) == 0
}

// create creates a run, follows it to its end and returns its number. A run that fails is not an
// error here.
func (s *Stack) create(ctx context.Context, script *Script, clone string) (run int64, took time.Duration, err error) {
	args := []string{
		"run", "create", "--repo", clone, "--base", script.Parent, "--goal=" + script.Subject, "--description", Mark(script.Commit), "--plan-by", "planner",
		"--timeout", s.options.RunTime.String(), "--json",
	}
	// No person can help, so requests for help are rejected after a minimal wait.
	for _, setting := range append([]string{"execution.intervention.wait=1s"}, s.options.Settings...) {
		args = append(args, "--set", setting)
	}
	begun := time.Now()
	out, err := s.run(ctx, startTime, args...)
	if err != nil {
		return 0, time.Since(begun), fmt.Errorf("create the run: %w", err)
	}
	var made struct {
		RunID int64 `json:"runId"`
	}
	if err := json.Unmarshal(out, &made); err != nil || made.RunID == 0 {
		return 0, time.Since(begun), fmt.Errorf("rgpt run create did not print a run number: %.500q", out)
	}
	_, err = s.run(ctx, s.options.RunTime+runGrace, "run", "watch", fmt.Sprint(made.RunID), "--json")
	var exit *exited
	if errors.As(err, &exit) {
		err = nil // the outcome is read from the run
	}
	return made.RunID, time.Since(begun), err
}

// details are the fields that are read from a run. Fields that a version of the product does not
// report are empty.
type details struct {
	views.RunDetails
	Environment *struct {
		DurationMS *int64 `json:"duration_ms"`
	} `json:"environment"`
	Baseline *views.RunBaseline `json:"baseline"`
}

// fill sets the fields of a result from a run's details.
func (r *Result) fill(raw []byte) error {
	var d details
	if err := json.Unmarshal(raw, &d); err != nil {
		return fmt.Errorf("decode the details of the run: %w", err)
	}
	r.RunID, r.Status, r.Failure, r.Tokens, r.branch = d.ID, string(d.Status), d.Failure, d.Usage.Tokens(), d.ReleaseBranch
	if d.Environment != nil && d.Environment.DurationMS != nil {
		seconds := float64(*d.Environment.DurationMS) / 1000
		r.EnvironmentSeconds = &seconds
	}
	if d.Baseline != nil {
		r.known = d.Baseline.Failed
	}
	if err := r.tests(d.TesterOutput); err != nil {
		return err
	}
	for _, p := range d.Phases {
		phase := Phase{Phase: p.Phase, Attempt: p.Attempt, Status: string(p.Status)}
		if p.FinishedAt != nil {
			phase.Seconds = p.FinishedAt.Sub(p.StartedAt).Seconds()
		}
		r.Phases = append(r.Phases, phase)
	}
	for _, h := range d.SelfHealEvents {
		r.Heals = append(r.Heals, Heal{h.Phase, h.ErrorType, h.ErrorCode, h.HealAction, h.Status, h.RootCause})
	}
	for _, f := range d.Findings {
		if !f.Resolved {
			r.Findings = append(r.Findings, f.Finding)
		}
	}
	for _, a := range d.Artifacts {
		if strings.HasPrefix(a.Name, "tester/") && strings.HasSuffix(a.Name, "/output.log") {
			r.Commands++
		}
	}
	return nil
}

// tests reads the cases of the last execution of the tester, if there is one.
func (r *Result) tests(output json.RawMessage) error {
	if len(output) == 0 {
		return nil
	}
	var t contract.TestResult
	if err := json.Unmarshal(output, &t); err != nil {
		return fmt.Errorf("decode the output of the tester of run %d: %w", r.RunID, err)
	}
	r.Tests, r.cases = t.Summary, t.Results
	return nil
}

// judge adds the problems of a run to its result.
func (s *Stack) judge(ctx context.Context, script *Script, clone string, r *Result) {
	for _, h := range r.Heals {
		r.wrong("it healed itself in the phase %s: %s %s: %s", h.Phase, h.Class, h.Code, h.Cause)
	}
	if r.Status != string(contract.StatusDone) {
		r.wrong("the run ended as %s", r.Status)
		if r.Failure != nil {
			r.wrong("%s %s: %s", r.Failure.Class, r.Failure.Code, r.Failure.Message)
		}
		return
	}
	paths, err := script.Differences(ctx, clone, r.branch)
	if err != nil {
		r.wrong("the released branch %q cannot be compared with the commit: %v", r.branch, err)
		return
	}
	if len(paths) > 0 {
		slices.Sort(paths)
		r.Differs = paths[:min(len(paths), maxDiffers)]
		r.wrong("the released branch differs from the commit at %d paths: %s", len(paths), strings.Join(r.Differs, ", "))
	}
	if r.Tests.Failed > r.known {
		r.wrong("%d tests failed, %d of them also on the base commit, but the run is done", r.Tests.Failed, r.known)
	}
	if r.Tests.Passed+r.Tests.Flaky == 0 {
		r.wrong("no test passed, so the run proves nothing")
	}
	r.Own = commits.OwnTestsOf(script.Tests, r.cases)
	for _, t := range r.Own.Failed {
		r.wrong("the commit's own test %s in %s failed", t.Name, t.File)
	}
	for _, t := range r.Own.Missing {
		r.wrong("the commit's own test %s in %s did not run", t.Name, t.File)
	}
}

// BuildEnvironment clones a commit's parent and runs `rgpt env build` twice, which builds the
// environment and runs the checks in it. The first output is the result's Built.
func (s *Stack) BuildEnvironment(ctx context.Context, script *Script) Result {
	s.played++
	clone := filepath.Join(s.options.Dir, fmt.Sprintf("clone-%d", s.played))
	r := Result{Commit: script.Commit, Status: StatusError, Clone: clone, DataDir: s.dataDir()}
	if err := script.Clone(ctx, clone); err != nil {
		r.wrong("the clone failed: %v", err)
		return r
	}
	begun := time.Now()
	built, err := s.build(ctx, script, clone)
	r.Seconds = time.Since(begun).Seconds()
	if err != nil {
		r.wrong("%v", err)
		return r
	}
	r.RunID, r.Status, r.Failure, r.Built = built.RunID, string(built.Status), built.Failure, &built
	if built.Baseline != nil {
		r.Tests = contract.TestSummary{Passed: built.Baseline.Passed, Failed: built.Baseline.Failed, Skipped: built.Baseline.Skipped}
	}
	if built.Failure != nil {
		r.wrong("%s", built.Failure.Message)
		return r
	}
	begun = time.Now()
	if _, err := s.build(ctx, script, clone); err != nil {
		r.wrong("the second build: %v", err)
		return r
	}
	r.WarmSeconds, r.OK = time.Since(begun).Seconds(), true
	return r
}

// build runs `rgpt env build` on a clone. A failed setup is a result, not an error.
func (s *Stack) build(ctx context.Context, script *Script, clone string) (Built, error) {
	var b Built
	out, err := s.run(ctx, s.options.RunTime, "env", "build", "--repo", clone, "--base", script.Parent, "--json")
	var exit *exited
	if err != nil && !errors.As(err, &exit) {
		return b, err
	}
	if wrong := json.Unmarshal(out, &b); wrong != nil || b.RunID == 0 {
		return b, cmp.Or(err, fmt.Errorf("rgpt env build printed unexpected output"))
	}
	return b, nil
}
