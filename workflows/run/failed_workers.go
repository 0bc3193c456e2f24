package run

import (
	"strings"

	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/workflows/internal/affinity"
)

// excludeFailedWorker prevents the run from choosing the worker of its last failure
// again. One failure of a worker's machine is enough.
func (r *run) excludeFailedWorker() {
	if r.Failure != nil {
		r.Heals.Exclude(r.Failure.Worker)
	}
}

// affinityOf returns the affinity of a phase or step.
func (r *run) affinityOf(p contract.Phase, step string) *affinity.Affinity {
	key := affinity.WorkKey(p, step)
	if r.affinities[key] == nil {
		r.affinities[key] = r.newAffinity(key, "")
	}
	return r.affinities[key]
}

// newAffinity binds the work of a phase or step to one worker, "" for any worker of the role.
func (r *run) newAffinity(key, worker string) *affinity.Affinity {
	phase, _, _ := strings.Cut(key, "/")
	at := &affinity.Affinity{Queue: contract.QueueOf(contract.Phase(phase)), Worker: worker}
	at.OnLost = func(ctx workflow.Context, worker string) {
		r.Heals.Exclude(worker)
		r.log.Warn("The worker chosen for a phase did not accept it; any worker can run it now", "phase", phase, "worker", worker)
		if err := r.rows.Write(ctx, affinity.WorkerLostRecord(key, worker, at.Queue)); err != nil {
			r.log.Error("Could not record that a worker was lost", "worker", worker, "error", err)
		}
	}
	return at
}
