package workerhost

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/shirou/gopsutil/v4/process"

	"github.com/rocketgpt/orchestrator/activities"
	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/temporal"
	"github.com/rocketgpt/orchestrator/internal/version"
)

const (
	// beatTime limits the time for storing a heartbeat, including the last one.
	beatTime = 5 * time.Second
	// forgetEvery is how often agents that have long been offline are removed.
	forgetEvery = time.Minute
)

// agents reports the state of this worker's agents: their current work and their health. It runs in
// parallel with the work and never blocks it.
type agents struct {
	store    *store.Store
	log      *slog.Logger
	settings config.Worker
	roles    []string
	tasks    *tasks
	probes   *prober
	process  *process.Process
	started  time.Time

	mu      sync.Mutex
	probed  bool
	lacking map[string]string // by role, from the last probes
	mute    bool              // the last heartbeat failed
}

func newAgents(parts *activities.Activities, o Options) *agents {
	self, err := process.NewProcess(int32(os.Getpid())) //nolint:gosec // a process id
	if err != nil {
		o.Log.Warn("Could not measure the resource usage of the worker process", "error", err)
	}
	return &agents{
		store: parts.Store, log: o.Log, settings: o.Config.Worker, roles: roleNames(o), tasks: o.tasks, process: self, started: time.Now(),
		probes: &prober{temporal: parts.Temporal, sandbox: parts.Sandbox, models: parts.Model, config: o.Config, dataDir: o.DataDir, log: o.Log},
	}
}

// run sends heartbeats until ctx ends, and then reports the agents as offline.
func (a *agents) run(ctx context.Context) error {
	var beside sync.WaitGroup
	defer beside.Wait()
	beside.Go(func() { _ = every(ctx, a.settings.ProbeInterval, func() { a.probe(ctx) }) })
	beside.Go(func() { _ = every(ctx, forgetEvery, func() { a.forget(ctx) }) })
	err := every(ctx, a.settings.Heartbeat, func() { a.report(ctx, a.status(ctx)) })
	// No other heartbeat is in progress that could overwrite this one.
	last := a.status(ctx)
	for i := range last.Agents {
		last.Agents[i].HealthStatus, last.Agents[i].Detail = contract.HealthOffline, "it was stopped"
	}
	a.report(ctx, last)
	return err
}

// report stores a heartbeat. It is not interrupted when the worker stops: an interrupted heartbeat
// might still arrive after the last one.
func (a *agents) report(ctx context.Context, b store.Beat) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), beatTime)
	defer cancel()
	err := a.store.Heartbeat(ctx, b)
	if err != nil && !a.mute {
		a.log.WarnContext(ctx, "A heartbeat failed; after three failures, this worker's agents are marked unhealthy", "error", err)
	} else if err == nil && a.mute {
		a.log.InfoContext(ctx, "Heartbeats are succeeding again")
	}
	a.mute = err != nil
}

// status returns the current state of the agents.
func (a *agents) status(ctx context.Context) store.Beat {
	b := store.Beat{
		Worker: temporal.Identity(), Version: version.Version, StartedAt: a.started, Every: a.settings.Heartbeat, OfflineAfter: a.settings.OfflineAfter,
	}
	b.CPUUsage, b.MemoryUsage = a.usage(ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, role := range a.roles {
		one := store.AgentBeat{Name: role + "@" + temporal.Identity(), Type: role, HealthStatus: contract.HealthHealthy, Detail: a.lacking[role]}
		if !a.probed {
			one.HealthStatus, one.Detail = contract.HealthUnknown, "just started"
		} else if one.Detail != "" {
			one.HealthStatus = contract.HealthDegraded
		}
		one.Work, one.TasksDone, one.TasksFailed = a.tasks.of(role)
		b.Agents = append(b.Agents, one)
	}
	return b
}

// usage returns the cores that this process has used since the last call, and its memory.
func (a *agents) usage(ctx context.Context) (cores float64, memory int64) {
	if a.process == nil {
		return 0, 0
	}
	const percent = 100
	cpu, err := a.process.PercentWithContext(ctx, 0)
	if err == nil {
		cores = max(cpu, 0) / percent
	}
	if m, err := a.process.MemoryInfoWithContext(ctx); err == nil {
		memory = int64(m.RSS) //nolint:gosec // less than there is
	}
	return cores, memory
}

// probe checks what the agents lack, and logs changes.
func (a *agents) probe(ctx context.Context) {
	lacking := a.probes.lacking(ctx, a.roles)
	if ctx.Err() != nil {
		return // the worker is stopping; the result of an interrupted probe is meaningless
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, role := range a.roles {
		switch was, is := a.lacking[role], lacking[role]; {
		case is != "" && is != was:
			a.log.WarnContext(ctx, "An agent's requirements are not met", "role", role, "lacks", is)
		case is == "" && was != "":
			a.log.InfoContext(ctx, "An agent's requirements are met again", "role", role)
		}
	}
	a.lacking, a.probed = lacking, true
}

func (a *agents) forget(ctx context.Context) {
	n, err := a.store.ForgetAgents(ctx, a.settings.AgentRetention)
	if err != nil && ctx.Err() == nil {
		a.log.WarnContext(ctx, "Could not remove agents that have been offline for a long time", "error", err)
	} else if n > 0 {
		a.log.InfoContext(ctx, "Removed agents that had been offline for a long time", "agents", n)
	}
}
