package workerhost

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/rocketgpt/orchestrator/contract"
)

// maxShownWork is how much of an agent's current work is shown, oldest first.
const maxShownWork = 20

// tasks is what the agents of this worker do, and how often they did it. A nil one
// records nothing.
type tasks struct {
	mu    sync.Mutex
	next  int64
	roles map[string]*roleTasks // by role
}

type roleTasks struct {
	done, failed int64
	under        map[int64]contract.Work // way
}

// begin records an activity with its input until the returned function is called with
// its result. Records are left out: they are short, and part of all work.
func (t *tasks) begin(info activity.Info, args []any) (end func(error)) {
	if t == nil || info.ActivityType.Name == contract.ActivityRecord {
		return func(error) {}
	}
	role, work := roleOf(info, args)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.roles == nil {
		t.roles = map[string]*roleTasks{}
	}
	r := t.roles[role]
	if r == nil {
		r = &roleTasks{under: map[int64]contract.Work{}}
		t.roles[role] = r
	}
	t.next++
	id := t.next
	r.under[id] = work
	return func(err error) {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(r.under, id)
		switch {
		case err == nil:
			r.done++
		case !errors.Is(err, context.Canceled): // which is nobody's failure
			r.failed++
		}
	}
}

// of returns what an agent does, and how often it succeeded and failed.
func (t *tasks) of(role string) (work []contract.Work, done, failed int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.roles[role]
	if r == nil {
		return nil, 0, 0
	}
	work = slices.SortedFunc(maps.Values(r.under), func(a, b contract.Work) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.RunID, b.RunID), cmp.Compare(a.Step, b.Step))
	})
	return work[:min(len(work), maxShownWork)], r.done, r.failed
}

// roleOf returns whose work an activity is, and what it is. The queue determines the
// role; the queue of this worker alone serves all roles, and there it is that of the
// execution's agent.
func roleOf(info activity.Info, args []any) (string, contract.Work) {
	execution := executionOf(args)
	work := contract.Work{
		RunID: execution.RunID, Phase: execution.Phase, Step: execution.Step, Activity: info.ActivityType.Name, Since: time.Now(),
	}
	if run, ok := contract.RunIDOfWorkflow(info.WorkflowExecution.ID); ok {
		work.RunID = run
	}
	if _, step, ok := strings.Cut(info.WorkflowExecution.ID, "/step/"); ok && work.Step == "" {
		work.Step = step
	}
	role := string(execution.Agent)
	for _, r := range contract.WorkerRoles() {
		if r.Queue == info.TaskQueue {
			role = r.Name
		}
	}
	return cmp.Or(role, "run"), work
}

// executionOf returns the execution that an activity's input names, if any: most have a
// field for it.
func executionOf(args []any) contract.ExecutionRef {
	if len(args) == 0 {
		return contract.ExecutionRef{}
	}
	in := reflect.ValueOf(args[0])
	if in.Kind() == reflect.Pointer {
		in = in.Elem()
	}
	if in.Kind() != reflect.Struct {
		return contract.ExecutionRef{}
	}
	if field := in.FieldByName("Execution"); field.IsValid() {
		if ref, ok := field.Interface().(contract.ExecutionRef); ok {
			return ref
		}
	}
	return contract.ExecutionRef{}
}
