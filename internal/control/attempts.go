package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/attempts"
)

// The values of execution.attempts.judge that are not a model.
const (
	judgePlanner = "planner"
	judgeNone    = "none"
)

// checkAttempts returns the errors in a request for attempts that can be found without access to other
// systems.
func (c Creation) checkAttempts() error {
	if c.Attempts < 0 {
		return wrong("%d attempts are not possible; specify 1 or more (--attempts)", c.Attempts)
	}
	if c.Attempts > 1 && (c.PlanOnly || c.PrepareOnly) {
		return wrong("several attempts are only possible for a run that is released; omit --attempts, --plan-only and prepare_only, as needed")
	}
	if len(c.AttemptModels) > 0 && c.Model != "" {
		return wrong("the models of attempts and one model for all agents cannot be combined; use --attempt-model or --model")
	}
	if c.Attempts == 1 && len(c.AttemptModels) > 0 {
		return wrong("there is only one attempt, so it has no other models; use --model, or raise --attempts")
	}
	for _, m := range c.AttemptModels {
		if err := CheckModel(m); err != nil {
			return err
		}
	}
	return nil
}

// attemptsOf returns the number of attempts of a request.
func (r *Runs) attemptsOf(c Creation) (int, error) {
	a := r.Config.Execution.Attempts
	n := c.Attempts
	if n == 0 {
		n = max(a.Count, len(c.AttemptModels))
		if c.PlanOnly || c.PrepareOnly {
			return 1, nil
		}
	}
	most := max(a.Max, a.Count)
	if n > most {
		return 0, about(FieldAttempts, wrong("%d attempts were requested, but only %d are allowed (execution.attempts.max)", n, most))
	}
	if len(c.AttemptModels) > n {
		return 0, wrong("%d models were named for %d attempts; name at most one for each", len(c.AttemptModels), n)
	}
	return n, nil
}

// createAttempts creates and starts several attempts at the same goal.
func (r *Runs) createAttempts(ctx context.Context, c Creation, count int, goal store.NewRun, operator *config.Config, out *Created) error {
	n, cfg, err := r.draft(ctx, c, count, operator, out)
	if err != nil {
		return err
	}
	if err := r.noteGate(ctx, operator, n.Runs[0].Settings.Gate); err != nil {
		return err
	}
	pictures, err := r.storePictures(ctx, c.Pictures)
	if err != nil {
		return err
	}
	for i := range n.Runs {
		run := &n.Runs[i]
		run.Settings.Pictures = pictures
		run.GoalTitle, run.GoalDescription, run.RequestDigest = goal.GoalTitle, goal.GoalDescription, goal.RequestDigest
		if i > 0 {
			run.IdempotencyKey = ""
		}
	}
	group, fresh, err := attempts.Create(ctx, r.Store, n)
	if err != nil {
		return err
	}
	out.Fresh = fresh
	out.Notes = append(out.Notes, estimateText(n, cfg))
	return r.startAttempts(ctx, group.ID, out)
}

// draft resolves and freezes all inputs of several attempts, or of one, and estimates what they will
// cost. It creates nothing.
func (r *Runs) draft(ctx context.Context, c Creation, count int, operator *config.Config, out *Created) (attempts.New, *config.Config, error) {
	n := attempts.New{Tenant: store.DefaultTenant}
	repo, cfg, err := r.resolve(ctx, c, out) // once, so that all of them start from the same commit
	if err != nil {
		return n, nil, err
	}
	models := c.AttemptModels
	if len(models) == 0 && c.Model == "" && count > 1 {
		models = cfg.Execution.Attempts.Models
	}
	for i := range count {
		one := c
		if len(models) > 0 {
			one.Model = models[i%len(models)]
		}
		run, err := r.freeze(ctx, one, resolved{repo, cfg, operator})
		if err != nil {
			return n, nil, err
		}
		n.Runs, n.Project = append(n.Runs, run), run.Project
	}
	if note := sameAttempts(n.Runs); note != "" {
		out.Notes = append(out.Notes, note)
	}
	if count > 1 {
		if n.Settings, err = attemptsSettings(cfg, n.Runs[0].Settings); err != nil {
			return n, nil, err
		}
	}
	n.Estimate, err = r.estimate(ctx, n)
	return n, cfg, err
}

// sameAttempts returns a note if attempts may all produce the same change.
func sameAttempts(runs []store.NewRun) string {
	var seen []contract.ModelChoice
	for _, run := range runs {
		m := run.Settings.Models[contract.AgentBuilder]
		cold := m.Temperature != nil && *m.Temperature == 0
		if cold && slices.ContainsFunc(seen, func(o contract.ModelChoice) bool { return o.Provider == m.Provider && o.Model == m.Model }) {
			return fmt.Sprintf("several attempts use %s/%s at temperature 0, so they may produce the same change; use different models (--attempt-model) or a higher temperature", m.Provider, m.Model)
		}
		seen = append(seen, m)
	}
	return ""
}

// attemptsSettings freezes how the attempts of a run with these settings are decided.
func attemptsSettings(cfg *config.Config, s contract.Settings) (contract.AttemptsSettings, error) {
	a := cfg.Execution.Attempts
	out := contract.AttemptsSettings{SizeMargin: a.SizeMargin, StopAtFirst: a.StopAtFirst, Budget: s.RunBudget, Timeout: s.ModelTimeout}
	switch a.Judge {
	case judgeNone:
		return out, nil
	case judgePlanner:
		m := s.Models[contract.AgentPlanner]
		out.Judge = &m
	default:
		m, err := Model(cfg, a.Judge)
		if err != nil {
			return out, fault.Wrap(err, contract.ClassConfig, contract.CodeInvalidConfig, "execution.attempts.judge: %s", fault.Of(err).Message)
		}
		out.Judge = &m
	}
	return out, nil
}

// startAttempts starts the attempts of a group that have not started, or queues them.
func (r *Runs) startAttempts(ctx context.Context, group int64, out *Created) error {
	g, err := attempts.Read(ctx, r.Store, group)
	if err != nil {
		return err
	}
	for _, a := range g.Attempts {
		one := Created{}
		if one.Run, err = r.Store.Run(ctx, a.RunID); err != nil {
			return err
		}
		if one.Run.WorkflowID == "" {
			r.start(ctx, &one)
		}
		out.Waiting = cmp.Or(out.Waiting, one.Waiting)
		for _, note := range one.Notes {
			if !slices.Contains(out.Notes, note) {
				out.Notes = append(out.Notes, note)
			}
		}
		if a.Number == 1 {
			out.Run = one.Run
		}
	}
	out.Attempts = &g
	return nil
}

// AttemptsOf returns the group of attempts that a run belongs to.
func (r *Runs) AttemptsOf(ctx context.Context, run int64) (attempts.Group, error) {
	one, err := r.Store.Run(ctx, run)
	if err != nil {
		return attempts.Group{}, err
	}
	if one.Settings.Attempt == nil {
		return attempts.Group{}, fault.Wrap(store.ErrNotFound, contract.ClassHuman, store.CodeNotFound, "run %d is the only attempt at its goal", run)
	}
	return attempts.Read(ctx, r.Store, one.Settings.Attempt.Group)
}

// Stop stops a run; if it is one of several attempts at a goal, all of them.
func (r *Runs) Stop(ctx context.Context, run int64, c contract.Command) error {
	_, err := r.SteerAttempts(ctx, run, contract.UpdateStop, c)
	if errors.Is(err, store.ErrNotFound) { // it is the only one
		_, err = r.Steer(ctx, run, contract.UpdateStop, c)
	}
	return err
}

// SteerAttempts sends a command to all attempts of a run's group that have not ended: stop, pause or
// resume. It returns the group as it is then, and an error if an attempt refused.
func (r *Runs) SteerAttempts(ctx context.Context, run int64, name string, c contract.Command) (attempts.Group, error) {
	g, err := r.AttemptsOf(ctx, run)
	if err != nil {
		return g, err
	}
	if name != contract.UpdateStop && name != contract.UpdatePause && name != contract.UpdateResume {
		return g, wrong("attempts cannot be commanded to %s together; send it to one of them", name)
	}
	if name == contract.UpdateStop { // before the first of them ends: otherwise, another one could win
		if _, err := attempts.Stop(ctx, r.Store, g.ID, c.By); err != nil {
			return g, err
		}
	}
	sent, failed := 0, error(nil)
	for _, a := range g.Attempts {
		paused := a.Status == contract.StatusPaused
		if a.Status.Terminal() || name == contract.UpdatePause && paused || name == contract.UpdateResume && !paused {
			continue
		}
		one := c
		if c.ID != "" {
			one.ID = fmt.Sprintf("%s/%d", c.ID, a.Number)
		}
		if _, err := r.Steer(ctx, a.RunID, name, one); err != nil {
			failed = cmp.Or(failed, err)
			continue
		}
		sent++
	}
	if sent == 0 && failed == nil {
		failed = refused("no attempt of group %d can be commanded to %s now", g.ID, name)
	}
	if failed != nil {
		return g, failed
	}
	return attempts.Read(ctx, r.Store, g.ID)
}
