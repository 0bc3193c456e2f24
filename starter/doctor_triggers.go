package main

import (
	"context"
	"log/slog"
	"maps"
	"slices"

	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/doctor"
	"github.com/rocketgpt/orchestrator/internal/forge/connect"
	"github.com/rocketgpt/orchestrator/internal/temporal"
	"github.com/rocketgpt/orchestrator/internal/trigger"
)

// triggerChecks check what triggers need outside of this installation; none without triggers.
func (a *app) triggerChecks(cfg *config.Config) []doctor.Check {
	var checks []doctor.Check
	if repositories := triggerRepositories(cfg.Triggers); len(repositories) > 0 {
		set, err := connect.New(cfg.Forges, a.getenv)
		if err != nil {
			return []doctor.Check{broken("triggers", err, "correct the section forges")}
		}
		check := doctor.TriggerRepositories(set, repositories)
		checks = append(checks, doctor.Check{Name: check.Name, Run: func(ctx context.Context) []doctor.Result {
			defer set.Close()
			return check.Run(ctx)
		}})
	}
	for _, t := range cfg.Triggers {
		if t.On == config.OnSchedule {
			return append(checks, doctor.TriggerSchedules(func(ctx context.Context) ([]string, error) { return scheduleProblems(ctx, cfg) }))
		}
	}
	return checks
}

// triggerRepositories returns the repositories on forges that triggers watch.
func triggerRepositories(all map[string]config.Trigger) (out []doctor.TriggerRepository) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t := all[name]
		if t.Forge == "" || t.Repository == "" {
			continue
		}
		i := slices.IndexFunc(out, func(r doctor.TriggerRepository) bool { return r.Forge == t.Forge && r.Repository == t.Repository })
		if i < 0 {
			i, out = len(out), append(out, doctor.TriggerRepository{Forge: t.Forge, Repository: t.Repository})
		}
		out[i].Triggers = append(out[i].Triggers, name)
		if t.Repo == "" {
			out[i].Cloned = append(out[i].Cloned, name)
		}
	}
	return out
}

// scheduleProblems returns what is wrong with the schedules of triggers.
func scheduleProblems(ctx context.Context, cfg *config.Config) ([]string, error) {
	log := slog.New(slog.DiscardHandler)
	c, err := temporal.Connect(ctx, cfg.Temporal, log)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return (&trigger.Schedules{Client: c.ScheduleClient(), Triggers: cfg.Triggers, Log: log}).Problems(ctx)
}
