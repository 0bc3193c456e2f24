package workerhost

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/cores"
	"github.com/rocketgpt/orchestrator/internal/notice"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

// limiter limits how many activities work at the same time. If many runs begin or get responses together, their
// activities would keep the machine busy for seconds, and the workflow tasks, which carry out people's commands,
// would wait with them. Workflow tasks and local activities are not limited.
//
// An activity releases its slot while a model responds and, whatever it does, after slotTime: it may wait for
// something else. A nil *limiter limits nothing.
type limiter struct {
	slots   *cores.Queue
	project func(ctx context.Context, run int64) (string, error)

	mu       sync.Mutex
	projects map[int64]string // of runs
}

// slotTime is how long an activity counts as working if it does not say that it waits.
const slotTime = 250 * time.Millisecond

// slotWait is how long an activity waits for a slot at most: the wait counts as its time, and it must not fail
// because of it.
const slotWait = 5 * time.Second

// knownProjects is the number of runs whose projects are remembered.
const knownProjects = 10_000

// newLimiter returns a limiter for so many working activities; 0: as many as checks and commands by default. project
// looks up the project of a run.
func newLimiter(most int, project func(ctx context.Context, run int64) (string, error)) *limiter {
	if most == 0 {
		most = cores.PerCore * runtime.GOMAXPROCS(0)
	}
	return &limiter{slots: cores.NewQueue(most, telemetry.Activities{}), project: project, projects: map[int64]string{}}
}

// claim returns the claim of a workflow's activity. Its owner is the project of the run. All other workflows, such as
// deliberations and merge queues, and runs whose project cannot be looked up, have one owner together.
func (p *limiter) claim(ctx context.Context, workflowID string) cores.Claim {
	run, ok := contract.RunIDOfWorkflow(workflowID)
	if !ok {
		return cores.Claim{}
	}
	p.mu.Lock()
	project, known := p.projects[run]
	p.mu.Unlock()
	if known {
		return cores.Claim{Owner: project, Run: run}
	}
	project, err := p.project(ctx, run)
	if err != nil {
		return cores.Claim{Run: run} // the activity reports it if it needs the database, too
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.projects) >= knownProjects {
		clear(p.projects)
	}
	p.projects[run] = project
	return cores.Claim{Owner: project, Run: run}
}

// limited is an activity that has a slot while it works.
type limited struct {
	limiter    *limiter
	workflowID string

	mu   sync.Mutex
	slot *slot // nil: none
}

// slot is the permission to work.
type slot struct{ release func() }

// begin waits for a slot unless the activity has one, for at most slotWait, or until ctx ends.
func (a *limited) begin(ctx context.Context) {
	if a.limiter == nil || ctx.Err() != nil || a.works() {
		return
	}
	// People can do nothing about this wait, so nobody is notified.
	bounded, cancel := context.WithTimeout(notice.With(ctx, notice.Receiver{}), slotWait)
	defer cancel()
	release, err := a.limiter.slots.Acquire(bounded, a.limiter.claim(ctx, a.workflowID))
	if err != nil {
		return
	}
	now := &slot{release: release}
	a.mu.Lock()
	before := a.slot
	a.slot = now
	a.mu.Unlock()
	if before != nil {
		before.release() // two parts of the activity went on at the same time
	}
	time.AfterFunc(slotTime, func() { a.end(now) })
}

// works reports whether the activity has a slot.
func (a *limited) works() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.slot != nil
}

// end releases a slot, which the activity may have lost already.
func (a *limited) end(p *slot) {
	p.release()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.slot == p {
		a.slot = nil
	}
}

// rest releases the activity's slot.
func (a *limited) rest() {
	a.mu.Lock()
	p := a.slot
	a.mu.Unlock()
	if p != nil {
		a.end(p)
	}
}
