package runner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strconv"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/eval"
	"github.com/rocketgpt/orchestrator/internal/eval/commits"
	"github.com/rocketgpt/orchestrator/internal/eval/judge"
	"github.com/rocketgpt/orchestrator/internal/eval/oracle"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/evals"
)

const (
	// pollTime is how often the status of a run is read.
	pollTime = 300 * time.Millisecond
	// graceTime is how long a run may take beyond its own time limit, to release and to clean up.
	graceTime = 10 * time.Minute
)

// planByPlanner is the value of deliberation.plan_by with which only the planner plans.
const planByPlanner = "planner"

// pair is a task with a variant, in progress.
type pair struct {
	*evaluation
	evals.Started
	task    eval.Task
	variant eval.Variant
	key     string
}

// outcome makes the result of a pair.
func (p *pair) outcome(ctx context.Context) (evals.Outcome, error) {
	work, hidden, err := p.repositories(ctx)
	if err != nil {
		return evals.Outcome{}, err
	}
	commit, out, err := p.solve(ctx, work, hidden)
	if err != nil || commit == "" {
		return out, err
	}
	if err := commits.Fetch(ctx, work, hidden, commit, fileName(p.key)); err != nil {
		return out, err
	}
	verdict, err := p.Judge.Judge(ctx, p.task, hidden, commit)
	out.Solved, out.Reason, out.Detail, out.Tests = verdict.Solved, verdict.Reason, verdict.Detail, verdict.Tests
	return out, err
}

// repositories makes the repository for the agents, which ends at the base, and the one for the
// hidden tests, which no agent sees.
func (p *pair) repositories(ctx context.Context) (work, hidden string, err error) {
	lock := p.sources[p.task.ID]
	lock.Lock()
	defer lock.Unlock()
	dir, err := p.taskDir(p.task)
	if err != nil {
		return "", "", err
	}
	base := filepath.Join(dir, "base")
	source, err := p.Sources.Find(ctx, p.task.Repo)
	if err != nil {
		return "", "", err
	}
	if err := commits.Truncate(ctx, source, p.task.Base, base); err != nil {
		return "", "", err
	}
	hidden = filepath.Join(dir, "hidden")
	work = filepath.Join(p.Dir, "runs", strconv.FormatInt(p.id, 10), fileName(p.task.ID), fmt.Sprintf("%s-%d", fileName(p.variant.Name), p.Attempt))
	return work, hidden, errors.Join(commits.Copy(ctx, base, hidden), commits.Copy(ctx, base, work))
}

// solve lets the variant solve the task, and returns the commit to judge, empty if there is none.
func (p *pair) solve(ctx context.Context, work, hidden string) (commit string, out evals.Outcome, err error) {
	if p.variant.Driver != nil {
		if p.Drive == nil {
			return "", out, fault.New(contract.ClassConfig, contract.CodeInvalidConfig, "other agents cannot be run here")
		}
		d, err := p.Drive(ctx, Drive{Task: p.task, Variant: p.variant, Repo: work, CapMicros: p.CapMicros, Key: p.key})
		if err == nil && d.Commit == "" && d.Outcome.Reason == "" {
			d.Outcome.Reason, d.Outcome.Detail = ReasonNotReleased, "the agent changed nothing"
		}
		return d.Commit, d.Outcome, err
	}
	if p.RunID == 0 {
		created, err := p.create(ctx, work, hidden)
		var unplayable *commits.Unplayable
		if errors.As(err, &unplayable) {
			return "", evals.Outcome{Reason: ReasonUnplayable, Detail: err.Error(), CostKnown: true}, nil
		}
		if err != nil {
			return "", out, err
		}
		p.RunID = created
		if err := p.Evals.SetRun(ctx, p.id, p.task.ID, p.variant.Name, created); err != nil {
			return "", out, err
		}
	}
	return p.await(ctx)
}

// create creates the run of a pair, once.
func (p *pair) create(ctx context.Context, work, hidden string) (int64, error) {
	environment, err := judge.EnvironmentYAML(p.task)
	if err != nil {
		return 0, err
	}
	settings, err := p.settings()
	if err != nil {
		return 0, err
	}
	c := control.Creation{
		Repo: work, Base: p.task.Base, Goal: p.task.Goal.Title, Description: p.task.Goal.Description, Project: "eval-" + strconv.FormatInt(p.id, 10),
		Model: p.variant.Model, Effort: contract.Effort(p.variant.Effort), PlanBy: p.variant.PlanBy, Environment: environment, Settings: settings, Key: p.key, Attempts: 1,
	}
	if p.variant.Oracle != "" {
		s, err := oracle.Write(ctx, hidden, p.task, p.variant.Oracle)
		if err != nil {
			return 0, err
		}
		name, err := oracle.Store(oracle.Dir(p.Runs.DataDir), s)
		if err != nil {
			return 0, err
		}
		c.Model, c.PlanBy = setup.Scripted+"/"+name, planByPlanner
	}
	created, err := p.Runs.Create(ctx, c)
	return created.Run.ID, err
}

// settings returns the settings of the run: limits of the evaluation, then those of the task, then
// those of the variant. Nobody answers questions, so they are asked only for a moment. The mistake of
// a noisy oracle is to reach the tester, so that it is healed: with checks before an agent finishes,
// the agent would correct it within its step.
func (p *pair) settings() (map[string]string, error) {
	out := map[string]string{
		"execution.intervention.wait": "1s",
		"execution.run.time":          p.task.Timeout.Or(eval.DefaultTimeout).String(),
	}
	if p.variant.Oracle == eval.OracleNoisy {
		out["execution.step.finish_checks"] = "false"
	}
	if p.CapMicros > 0 {
		limit := p.CapMicros
		if own := int64(p.Runs.Config.Execution.Run.CostUSD); own > 0 {
			limit = min(limit, own)
		}
		out["execution.run.cost_usd"] = strconv.FormatFloat(float64(limit)/1e6, 'f', 6, 64)
	}
	maps.Copy(out, p.task.Settings)
	own, err := p.variant.Settings()
	maps.Copy(out, own)
	return out, err
}

// await waits for the end of the run, and returns its released commit.
func (p *pair) await(ctx context.Context) (string, evals.Outcome, error) {
	run, err := p.ended(ctx)
	if err != nil {
		return "", evals.Outcome{}, err
	}
	details, err := p.Runs.Views.RunDetails(ctx, run.ID)
	if err != nil {
		return "", evals.Outcome{}, err
	}
	u := details.Usage
	out := evals.Outcome{
		CostMicros: u.MicroUSD, CostKnown: !u.EstimatedPrice, FreshTokens: u.PromptTokens - u.CachedTokens, CachedTokens: u.CachedTokens,
		ReasoningTokens: u.ReasoningTokens, OutputTokens: u.CompletionTokens - u.ReasoningTokens, Turns: u.Calls, Heals: len(details.SelfHealEvents),
	}
	if run.FinishedAt != nil {
		out.Seconds = run.FinishedAt.Sub(run.CreatedAt).Seconds()
	}
	if run.Status == contract.StatusDone && run.ReleaseCommit != "" {
		return run.ReleaseCommit, out, nil
	}
	out.Reason, out.Detail = ReasonNotReleased, fmt.Sprintf("run %d ended as %s without a release", run.ID, run.Status)
	if f := run.Failure; f != nil {
		out.Detail = fmt.Sprintf("%s %s in the phase %s: %s", f.Class, f.Code, run.Phase, f.Message)
		out.Reason = reasonOf(*f, run.Phase)
	}
	return "", out, nil
}

// reasonOf returns why a run that failed in a phase did not solve its task. What the machine or the
// environment prevented does not count against the variant.
func reasonOf(f contract.Failure, phase contract.Phase) string {
	switch {
	case f.Code == contract.CodeTimeout:
		return ReasonTimeout
	case f.Class == contract.ClassInfra:
		return judge.ReasonError
	case f.Class == contract.ClassConfig && phase == contract.PhasePlanner:
		return judge.ReasonEnvironment
	}
	return ReasonNotReleased
}

// ended waits for the end of the run. A run that takes much longer than its time limit is stopped.
func (p *pair) ended(ctx context.Context) (store.Run, error) {
	limited, cancel := context.WithTimeout(ctx, p.task.Timeout.Or(eval.DefaultTimeout)+graceTime)
	defer cancel()
	tick := time.NewTicker(pollTime)
	defer tick.Stop()
	for {
		run, err := p.Runs.Store.Run(limited, p.RunID)
		switch {
		case err == nil && run.Status.Terminal():
			return run, nil
		case limited.Err() == nil && err != nil && fault.Of(err).Class != contract.ClassInfra:
			return run, err
		}
		select {
		case <-tick.C:
			continue
		case <-limited.Done():
		}
		if ctx.Err() != nil {
			return run, context.Cause(ctx)
		}
		_, err = p.Runs.Steer(ctx, p.RunID, contract.UpdateStop, contract.Command{By: "rgpt eval", Reason: "the time limit of the task has passed"})
		return run, errors.Join(fmt.Errorf("run %d did not end in time", p.RunID), err)
	}
}
