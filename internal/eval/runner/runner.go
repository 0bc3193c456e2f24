// Package runner runs evaluations: each task with each variant, as ordinary runs of the product or
// with another agent, and then the hidden tests. An evaluation that was interrupted continues.
package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/eval"
	"github.com/rocketgpt/orchestrator/internal/eval/commits"
	"github.com/rocketgpt/orchestrator/internal/eval/judge"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/evals"
)

// DefaultParallel is the default number of tasks in progress at the same time.
const DefaultParallel = 1

// Reasons of results that are not solved, besides those of the hidden tests.
const (
	ReasonNotReleased = "not_released" // the run failed or changed nothing, so no change can be judged
	ReasonTimeout     = "timeout"      // it did not end in time
	ReasonUnplayable  = "unplayable"   // the oracle cannot make the solution with an agent's tools
)

// Runner runs evaluations on this host.
type Runner struct {
	Runs    *control.Runs // with Temporal and artifacts
	Evals   *evals.Store
	Judge   judge.Judge
	Sources commits.Repositories
	Dir     string // directory for the repositories of tasks
	Log     *slog.Logger
	// Progress is called when a result starts and ends. Calls may be concurrent.
	Progress func(Progress)
	// Drive runs another agent; nil: only runs of this program.
	Drive func(ctx context.Context, d Drive) (Driven, error)
}

// Drive is a task for another agent.
type Drive struct {
	Task      eval.Task
	Variant   eval.Variant
	Repo      string // repository that ends at the base
	CapMicros int64
	Key       string
}

// Driven is what another agent did.
type Driven struct {
	Commit  string // in the repository; empty: it changed nothing
	Outcome evals.Outcome
}

// Progress is the start or the end of a result.
type Progress struct {
	Task, Variant string
	RunID         int64
	Done          *evals.Outcome // nil: it started
	Finished, All int
}

// Options configure an evaluation.
type Options struct {
	Parallel      int   // tasks in progress at the same time; 0: DefaultParallel
	MaxCostMicros int64 // of the whole evaluation; 0: no limit
	Again         bool  // start a new evaluation even if one can be continued
	Retry         bool  // repeat the results that do not count; see report.Invalid
	By            string
}

// ErrBudget is the error of an evaluation whose budget was used up before its end.
var ErrBudget = errors.New("the budget of the evaluation is used up")

// evaluation is an evaluation in progress.
type evaluation struct {
	*Runner
	id       int64
	tasks    map[string]eval.Task
	variants map[string]eval.Variant
	parallel int
	all      int

	mu       sync.Mutex
	finished int
	budget   budget
	sources  map[string]*sync.Mutex // one for each task, while its repositories are made
}

// Run runs an evaluation, or continues it, and returns its ID. Errors of single tasks are results.
func (r *Runner) Run(ctx context.Context, set eval.Set, variants []eval.Variant, o Options) (int64, error) {
	e := &evaluation{
		Runner: r, tasks: map[string]eval.Task{}, variants: map[string]eval.Variant{}, parallel: cmp.Or(o.Parallel, DefaultParallel),
		sources: map[string]*sync.Mutex{},
	}
	for _, t := range set.Tasks {
		e.tasks[t.ID], e.sources[t.ID] = t, &sync.Mutex{}
	}
	for _, v := range variants {
		e.variants[v.Name] = v
	}
	if err := e.open(ctx, set, variants, o); err != nil {
		return e.id, err
	}
	results, err := r.Evals.Results(ctx, e.id)
	if err != nil {
		return e.id, err
	}
	e.all, e.budget = len(results), budget{limit: o.MaxCostMicros, slots: e.parallel}
	var left []evals.Result
	for _, result := range results {
		if result.Status == evals.Done {
			e.finished++
			e.budget.spent += result.CostMicros
			continue
		}
		left = append(left, result)
	}
	err = e.runAll(ctx, left)
	status, reason := evals.Done, ""
	if err != nil {
		status, reason = evals.Stopped, err.Error()
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return e.id, errors.Join(err, r.Evals.SetStatus(last, e.id, status, reason, o.MaxCostMicros))
}

// open continues the evaluation of the same tasks and variants, or creates one.
func (e *evaluation) open(ctx context.Context, set eval.Set, variants []eval.Variant, o Options) error {
	digest, err := eval.Digest(set.Tasks, variants)
	if err != nil {
		return err
	}
	if !o.Again {
		if e.id, err = e.Evals.Open(ctx, digest); err != nil {
			return err
		}
	}
	if e.id == 0 {
		e.id, err = e.Evals.Create(ctx, evals.Eval{
			Set: set.Name, Digest: digest, Variants: withoutSecrets(variants), MaxCostMicros: o.MaxCostMicros, CreatedBy: o.By,
		}, pairs(set.Tasks, variants))
		return err
	}
	var again []string
	if o.Retry {
		again = []string{judge.ReasonEnvironment, judge.ReasonError}
	}
	if _, err := e.Evals.Reopen(ctx, e.id, again); err != nil {
		return err
	}
	return e.Evals.SetStatus(ctx, e.id, evals.Running, "", o.MaxCostMicros)
}

// withoutSecrets removes the environment variables of drivers, which may contain keys.
func withoutSecrets(variants []eval.Variant) []eval.Variant {
	out := make([]eval.Variant, len(variants))
	for i, v := range variants {
		if v.Driver != nil {
			d := *v.Driver
			d.Environment, v.Driver = nil, &d
		}
		out[i] = v
	}
	return out
}

// pairs returns the results of an evaluation in their order: task by task, with another variant first
// each time, so that none profits from warm caches.
func pairs(tasks []eval.Task, variants []eval.Variant) []evals.Pair {
	var out []evals.Pair
	for i, t := range tasks {
		for k := range variants {
			v := variants[(i+k)%len(variants)]
			out = append(out, evals.Pair{Position: len(out), Task: t.ID, Variant: v.Name, Repo: t.Repo, Title: t.Goal.Title})
		}
	}
	return out
}

// runAll makes results, some at the same time. Once the budget is used up, it starts no more.
func (e *evaluation) runAll(ctx context.Context, left []evals.Result) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(e.parallel)
	for _, r := range left {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error {
			share, ok := e.budget.reserve()
			if !ok {
				return ErrBudget
			}
			spent, err := e.run(ctx, r, share)
			e.budget.release(share, spent)
			return err
		})
	}
	err := group.Wait()
	if errors.Is(err, ErrBudget) {
		return ErrBudget
	}
	return err
}

// run makes one result.
func (e *evaluation) run(ctx context.Context, r evals.Result, share int64) (spent int64, err error) {
	t, v := e.tasks[r.Task], e.variants[r.Variant]
	started, err := e.Evals.Start(ctx, e.id, t.ID, v.Name, share)
	if errors.Is(err, store.ErrNotFound) {
		return 0, nil // another process has made it
	}
	if err != nil {
		return 0, err
	}
	p := pair{evaluation: e, task: t, variant: v, Started: started, key: fmt.Sprintf("eval/%d/%s/%s/%d", e.id, t.ID, v.Name, started.Attempt)}
	e.tell(Progress{Task: t.ID, Variant: v.Name, RunID: started.RunID})
	outcome, err := p.outcome(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		verdict := judge.Why(err)
		outcome.Solved, outcome.Reason, outcome.Detail = false, verdict.Reason, verdict.Detail
	}
	if err := e.Evals.Finish(ctx, e.id, t.ID, v.Name, outcome); err != nil {
		return outcome.CostMicros, err
	}
	e.mu.Lock()
	e.finished++
	e.mu.Unlock()
	e.tell(Progress{Task: t.ID, Variant: v.Name, RunID: p.RunID, Done: &outcome})
	return outcome.CostMicros, nil
}

func (e *evaluation) tell(p Progress) {
	if e.Progress == nil {
		return
	}
	e.mu.Lock()
	p.Finished, p.All = e.finished, e.all
	e.mu.Unlock()
	e.Progress(p)
}

// budget divides the budget of an evaluation.
type budget struct {
	limit int64 // 0: none
	slots int   // results in progress at the same time

	mu       sync.Mutex
	spent    int64
	reserved int64
	active   int
}

// smallestShare is the smallest share of a budget with which a result is started, in millionths of a
// US dollar.
const smallestShare = 1000

// reserve returns the share of a result that is about to start: what is left, divided by the number
// of results that can be in progress. It reports false if too little is left.
func (b *budget) reserve() (share int64, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.limit == 0 {
		return 0, true
	}
	share = (b.limit - b.spent - b.reserved) / int64(max(1, b.slots-b.active))
	if share < smallestShare {
		return 0, false
	}
	b.reserved += share
	b.active++
	return share, true
}

func (b *budget) release(share, spent int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spent += spent
	if b.limit > 0 {
		b.reserved -= share
		b.active--
	}
}

// taskDir returns the directory of a task's repositories. It contains nothing of other states of the
// same task.
func (e *evaluation) taskDir(t eval.Task) (string, error) {
	digest, err := eval.Digest([]eval.Task{{Repo: t.Repo, Base: t.Base}}, nil)
	if err != nil {
		return "", err
	}
	return filepath.Join(e.Dir, "tasks", fileName(t.ID)+"-"+digest[:12]), nil
}

// fileName returns a name as the name of a file.
func fileName(name string) string {
	return strings.NewReplacer(":", "_", "/", "_").Replace(name)
}
