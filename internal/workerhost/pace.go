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

// pace limits how many activities work at the same time. If many runs begin or get responses together, their
// activities would keep the machine busy for seconds, and the workflow tasks, which carry out people's commands,
// would wait with them. Workflow tasks and local activities are not limited.
//
// An activity gives its place up while a model responds and, whatever it does, after paceTime: it may wait for
// something else. A nil *pace limits nothing.
type pace struct {
	places  *cores.Queue
	project func(ctx context.Context, run int64) (string, error)

	mu       sync.Mutex
	projects map[int64]string // of runs
}

// paceTime is how long an activity counts as working if it does not say that it waits.
const paceTime = 250 * time.Millisecond

// paceWait is how long an activity waits for a place at most: the wait counts as its time, and it must not fail
// because of it.
const paceWait = 5 * time.Second

// knownProjects is the number of runs whose projects are remembered.
const knownProjects = 10_000

// newPace returns a pace for so many working activities; 0: as many as checks and commands by default. project
// looks up the project of a run.
func newPace(most int, project func(ctx context.Context, run int64) (string, error)) *pace {
	if most == 0 {
		most = cores.PerCore * runtime.GOMAXPROCS(0)
	}
	return &pace{places: cores.NewQueue(most, telemetry.Activities{}), project: project, projects: map[int64]string{}}
}

// claim returns the claim of a workflow's activity. Its owner is the project of the run. All other workflows, such as
// deliberations and merge queues, and runs whose project cannot be looked up, have one owner together.
func (p *pace) claim(ctx context.Context, workflowID string) cores.Claim {
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

// paced is an activity that has a place while it works.
type paced struct {
	pace       *pace
	workflowID string

	mu    sync.Mutex
	place *place // nil: none
}

// place is one that an activity has.
type place struct{ leave func() }

// work waits for a place unless the activity has one, for at most paceWait, or until ctx ends.
func (a *paced) work(ctx context.Context) {
	if a.pace == nil || ctx.Err() != nil || a.works() {
		return
	}
	// People can do nothing about this wait, so nobody is notified.
	limited, cancel := context.WithTimeout(notice.With(ctx, notice.Receiver{}), paceWait)
	defer cancel()
	leave, err := a.pace.places.Acquire(limited, a.pace.claim(ctx, a.workflowID))
	if err != nil {
		return
	}
	now := &place{leave: leave}
	a.mu.Lock()
	before := a.place
	a.place = now
	a.mu.Unlock()
	if before != nil {
		before.leave() // two parts of the activity went on at the same time
	}
	time.AfterFunc(paceTime, func() { a.end(now) })
}

// works reports whether the activity has a place.
func (a *paced) works() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.place != nil
}

// end gives a place up that the activity may have had for long enough.
func (a *paced) end(p *place) {
	p.leave()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.place == p {
		a.place = nil
	}
}

// rest gives the activity's place up.
func (a *paced) rest() {
	a.mu.Lock()
	p := a.place
	a.mu.Unlock()
	if p != nil {
		a.end(p)
	}
}
