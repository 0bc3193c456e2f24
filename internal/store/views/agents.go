package views

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
)

// Agent is a worker's agent as last reported, with its health adjusted for the silence since then.
type Agent struct {
	Name          string          `json:"name" doc:"unique name, such as builder@host:1234:3f9a"`
	Type          string          `json:"type" doc:"role, such as builder"`
	Version       string          `json:"version"`
	HealthStatus  contract.Health `json:"health_status" doc:"healthy, degraded, unknown, unhealthy or offline"`
	Detail        string          `json:"detail,omitempty" doc:"why the agent is not healthy"`
	CPUUsage      float64         `json:"cpu_usage" doc:"processor cores used by the agent's whole process, including the other agents in it"`
	MemoryUsage   int64           `json:"memory_usage" doc:"bytes of memory used by the agent's whole process, including the other agents in it"`
	LastHeartbeat *time.Time      `json:"last_heartbeat"`
	Silent        float64         `json:"silent_seconds" doc:"seconds since the last heartbeat"`
	Worker        string          `json:"worker" doc:"the agent's process, such as host:1234:3f9a"`
	Work          []contract.Work `json:"work" doc:"current work; empty if the agent is not sending heartbeats"`
	TasksDone     int64           `json:"tasks_done" doc:"number of activities completed since the agent started"`
	TasksFailed   int64           `json:"tasks_failed" doc:"number of activities that have failed since the agent started"`
	StartedAt     *time.Time      `json:"started_at"`
}

// maxAgents is the maximum number of agents returned: online ones first, in equal numbers per role.
const maxAgents = 1000

// Agents returns the agents that have sent heartbeats, offline ones last. Their health is computed
// from the database's current time.
func (v *Views) Agents(ctx context.Context) ([]Agent, error) {
	rows, err := v.q.Agents(ctx, db.AgentsParams{Missed: contract.MissedHeartbeats, Most: maxAgents})
	if err != nil {
		return nil, dberr.Explain(err, "read the agents")
	}
	agents := make([]Agent, len(rows))
	for i, r := range rows {
		agents[i] = Agent{
			Name: r.Name, Type: r.Type, Version: r.Version, HealthStatus: contract.Health(r.Health), Detail: r.Detail, CPUUsage: r.CpuUsage,
			MemoryUsage: r.MemoryUsage, LastHeartbeat: r.LastHeartbeat, Silent: r.Silent, Worker: r.Worker,
			TasksDone: r.TasksDone, TasksFailed: r.TasksFailed, StartedAt: r.StartedAt,
		}
		if err := json.Unmarshal(r.Work, &agents[i].Work); err != nil {
			return nil, fmt.Errorf("read the current work of agent %s: %w", r.Name, err)
		}
	}
	return agents, nil
}

// Unfinished is unfinished work.
type Unfinished struct {
	Runs          map[contract.Status]int64 // by status; 0 for statuses without runs
	Interventions int64                     // that wait for a person

	Pipelines map[contract.PipelineStatus]int64 // by status; 0 for statuses without pipelines
	Waiting   int64                             // pipelines that wait for a person
}

// Unfinished counts unfinished work.
func (v *Views) Unfinished(ctx context.Context) (Unfinished, error) {
	out := Unfinished{Runs: map[contract.Status]int64{}}
	for _, status := range contract.Statuses() {
		if !status.Terminal() {
			out.Runs[status] = 0
		}
	}
	rows, err := v.q.UnfinishedRuns(ctx)
	if err != nil {
		return out, dberr.Explain(err, "count the unfinished runs")
	}
	for _, r := range rows {
		out.Runs[contract.Status(r.Status)] = r.Runs
	}
	if out.Interventions, err = v.q.CountInterventions(ctx); err != nil {
		return out, dberr.Explain(err, "count the requests that need a person's answer")
	}
	return out, v.unfinishedPipelines(ctx, &out)
}

func (v *Views) unfinishedPipelines(ctx context.Context, out *Unfinished) error {
	out.Pipelines = map[contract.PipelineStatus]int64{}
	for _, status := range contract.PipelineStatuses() {
		if !status.Terminal() {
			out.Pipelines[status] = 0
		}
	}
	rows, err := v.q.UnfinishedPipelines(ctx)
	for _, r := range rows {
		out.Pipelines[contract.PipelineStatus(r.Status)] = r.Pipelines
		out.Waiting += r.Waiting
	}
	return dberr.Explain(err, "count the unfinished pipelines")
}
