package store

import (
	"context"
	"time"

	"github.com/rocketgpt/orchestrator/internal/store/db"
)

// Agent is a worker's agent as it last reported itself.
type Agent struct {
	Name          string     `json:"name"` // unique, such as builder@host:1234
	Type          string     `json:"type"` // builder
	Version       string     `json:"version"`
	HealthStatus  string     `json:"health_status"`
	CPUUsage      float64    `json:"cpu_usage"`    // cores
	MemoryUsage   int64      `json:"memory_usage"` // bytes
	LastHeartbeat *time.Time `json:"last_heartbeat"`
}

// Heartbeat stores how an agent is, as of now by the database's clock.
func (s *Store) Heartbeat(ctx context.Context, a Agent) error {
	if a.HealthStatus == "" {
		a.HealthStatus = "unknown"
	}
	return explain(s.q.Heartbeat(ctx, db.HeartbeatParams{
		Name: a.Name, Type: a.Type, Version: a.Version, HealthStatus: a.HealthStatus, CpuUsage: a.CPUUsage, MemoryUsage: a.MemoryUsage,
	}), "store the heartbeat of %s", a.Name)
}

// Agents returns all agents that ever reported themselves, by type and name.
func (s *Store) Agents(ctx context.Context) ([]Agent, error) {
	rows, err := s.q.Agents(ctx)
	if err != nil {
		return nil, explain(err, "read the agents")
	}
	agents := make([]Agent, len(rows))
	for i, r := range rows {
		agents[i] = Agent{
			Name: r.Name, Type: r.Type, Version: r.Version, HealthStatus: r.HealthStatus,
			CPUUsage: r.CpuUsage, MemoryUsage: r.MemoryUsage, LastHeartbeat: r.LastHeartbeat,
		}
	}
	return agents, nil
}
