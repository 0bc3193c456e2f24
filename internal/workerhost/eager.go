package workerhost

import (
	"context"
	"math"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/rocketgpt/orchestrator/activities"
	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/eager"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/temporal"
)

// eagerPolls is how many activities of a role one workflow task can start on this worker, such as the steps or the
// checks of a run that begin together.
const eagerPolls = 8

// minSlots is the smallest number of slots of which some are for activities that start here.
const minSlots = 8

// newStarter returns the starter of activities on the worker that has their workflow. Checks and setups do not start
// here while all cores are taken: another worker may have one. Those that have yet to take theirs do not count, and
// checks that share an activity count once.
func newStarter(parts *activities.Activities) *eager.Starter {
	return eager.New(func(queue string) int {
		if queue == contract.QueueTester {
			return parts.Cores.Free()
		}
		return math.MaxInt
	})
}

// startsHere reports whether activities of a role can start on this worker without a queue. Those of the role run
// have the queue of their workflow, so the SDK starts them itself.
func startsHere(o Options, role string) bool {
	return o.Config.Worker.EagerActivities && role != "run" && has(o, "run") && has(o, role) && slots(o, role) >= minSlots
}

// slots returns how many activities of a role may be in progress at the same time.
func slots(o Options, role string) int {
	if mostlyWaits(role) {
		return o.Config.Worker.MaxConcurrentTurns
	}
	return o.Config.Worker.MaxConcurrentActivities
}

// eagerSlots returns how many of a role's slots are for activities that start here. The others are for those from
// the role's queue, which may belong to the runs of other workers.
func eagerSlots(o Options, role string) int {
	if !startsHere(o, role) {
		return 0
	}
	return slots(o, role) / 2
}

// startEager starts a worker for the activities of each role that start here, with a connection of its own.
func startEager(ctx context.Context, starter *eager.Starter, parts *activities.Activities, o Options) (client.Client, []worker.Worker, error) {
	c, err := temporal.Connect(ctx, o.Config.Temporal, o.Log, starter.Poll)
	if err != nil {
		return nil, nil, err
	}
	var started []worker.Worker
	for _, role := range activities.Roles() {
		if !startsHere(o, role.Name) {
			continue
		}
		options := workerOptions(o)
		options.DisableWorkflowWorker, options.MaxConcurrentActivityTaskPollers = true, eagerPolls
		options.MaxConcurrentActivityExecutionSize = eagerSlots(o, role.Name)
		w := worker.New(c, role.Queue, options)
		role.Register(parts, w)
		if err := w.Start(); err != nil {
			stop(started)
			c.Close()
			return nil, nil, fault.Wrap(err, contract.ClassInfra, contract.CodeUnavailable, "cannot start the worker for eager activities of the %s role", role.Name)
		}
		started = append(started, w)
	}
	return c, started, nil
}
