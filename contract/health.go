package contract

import "time"

// Health is the state of a worker's agent.
type Health string

// The states. An agent reports itself as unknown, healthy, degraded or offline; without heartbeats,
// it becomes unhealthy, then offline.
const (
	// HealthUnknown: it has just started, and has not checked yet whether it can run.
	HealthUnknown Health = "unknown"
	// HealthHealthy: it sends heartbeats, and has everything that it needs.
	HealthHealthy Health = "healthy"
	// HealthDegraded: it sends heartbeats, but lacks something that it needs.
	HealthDegraded Health = "degraded"
	// HealthUnhealthy: it has missed MissedHeartbeats heartbeats.
	HealthUnhealthy Health = "unhealthy"
	// HealthOffline: it has stopped, or has sent no heartbeats for a long time.
	HealthOffline Health = "offline"
)

// Healths returns all states, from healthy to offline.
func Healths() []Health {
	return []Health{HealthHealthy, HealthDegraded, HealthUnknown, HealthUnhealthy, HealthOffline}
}

// MissedHeartbeats is the number of missed heartbeats that makes an agent unhealthy.
const MissedHeartbeats = 3

// Work is a task that an agent is working on.
type Work struct {
	RunID    int64     `json:"runId,omitempty"`
	Phase    Phase     `json:"phase,omitempty"`
	Step     string    `json:"step,omitempty"`
	Activity string    `json:"activity"` // such as rgpt.model.Think
	Since    time.Time `json:"since"`
	Waits    bool      `json:"waits,omitempty"` // for a core of its host to be free
}

// WorkerRole is a part of a worker that can run on its own host, and the queue that it serves.
type WorkerRole struct {
	Name      string
	Queue     string
	Workflows bool // workflows run on it too
}

// WorkerRoles returns the roles that have work, with the roles of a run's phases in order.
func WorkerRoles() []WorkerRole {
	return []WorkerRole{
		{"run", QueueRun, true},
		{"planner", QueuePlanner, false},
		{"builder", QueueBuilder, true},
		{"tester", QueueTester, false},
		{"releaser", QueueReleaser, false},
		{"repair", QueueRepair, true},
	}
}
