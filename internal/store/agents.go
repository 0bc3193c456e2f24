package store

import (
	"context"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
	"github.com/rocketgpt/orchestrator/internal/store/internal/rowconv"
)

// Beat is a worker's heartbeat: the state of its agents, and the intervals that determine when they
// are offline.
type Beat struct {
	Worker       string // its identity
	Version      string
	CPUUsage     float64
	MemoryUsage  int64
	StartedAt    time.Time
	Every        time.Duration // time until the next beat
	OfflineAfter time.Duration // silence after which its agents count as offline
	Agents       []AgentBeat
}

// AgentBeat is what one agent reports about itself.
type AgentBeat struct {
	Name         string          `json:"name"`
	Type         string          `json:"type"`
	HealthStatus contract.Health `json:"health_status"`
	Detail       string          `json:"detail"`
	Work         []contract.Work `json:"work"`
	TasksDone    int64           `json:"tasks_done"`
	TasksFailed  int64           `json:"tasks_failed"`
}

// Heartbeat stores the state of a worker's agents, timed by the database's clock: all
// of them, or none.
func (s *Store) Heartbeat(ctx context.Context, b Beat) error {
	for i := range b.Agents {
		a := &b.Agents[i]
		a.Detail, a.Work = rowconv.Text(a.Detail), NotNil(a.Work)
	}
	agents, err := rowconv.Encode(NotNil(b.Agents))
	if err != nil {
		return err
	}
	return dberr.Explain(s.q.Heartbeats(ctx, db.HeartbeatsParams{
		Worker: b.Worker, Version: b.Version, CpuUsage: b.CPUUsage, MemoryUsage: b.MemoryUsage, StartedAt: b.StartedAt,
		BeatSeconds: b.Every.Seconds(), OfflineAfter: b.OfflineAfter.Seconds(), Agents: agents,
	}), "store the heartbeat of worker %s", b.Worker)
}

// maxOfflineAgents is the maximum number of offline agents that are kept.
const maxOfflineAgents = 500

// ForgetAgents removes agents that have been silent for longer than the retention, and all but the
// newest offline ones. It returns the number removed.
func (s *Store) ForgetAgents(ctx context.Context, retention time.Duration) (int64, error) {
	n, err := s.q.ForgetAgents(ctx, db.ForgetAgentsParams{Retention: retention.Seconds(), Missed: contract.MissedHeartbeats, Most: maxOfflineAgents})
	return n, dberr.Explain(err, "remove agents that have been offline for a long time")
}
