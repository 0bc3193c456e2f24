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
	"github.com/rocketgpt/orchestrator/internal/notice"
)

// maxShownWork is the maximum number of an agent's current activities that are shown, oldest first.
const maxShownWork = 20

// tasks records the current and completed work of this worker's agents. A nil *tasks records
// nothing.
type tasks struct {
	mu    sync.Mutex
	next  int64
	roles map[string]*roleTasks // by role
}

type roleTasks struct {
	done, failed int64
	under        map[int64]contract.Work // in progress
}

// begin records an activity with its input until end is called with its result. The notices change what it is
// recorded to do. ActivityRecord is not recorded: it is short, and part of all work.
func (t *tasks) begin(info activity.Info, args []any) (end func(error), notices notice.Receiver) {
	if t == nil || info.ActivityType.Name == contract.ActivityRecord {
		return func(error) {}, notice.Receiver{}
	}
	role, now := roleOf(info, args)
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
	r.under[id] = now
	waiting := 0
	change := func(how func()) {
		t.mu.Lock()
		defer t.mu.Unlock()
		how()
		if _, goesOn := r.under[id]; goesOn {
			r.under[id] = now
		}
	}
	notices = notice.Receiver{
		Waits: func(begins bool) {
			change(func() {
				if begins {
					waiting++
				} else {
					waiting--
				}
				now.Waits = waiting > 0
			})
		},
		Does: func(activity string) { change(func() { now.Activity, now.Since = activity, time.Now() }) },
	}
	end = func(err error) {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(r.under, id)
		switch {
		case err == nil:
			r.done++
		case !errors.Is(err, context.Canceled): // a cancellation is not a failure
			r.failed++
		}
	}
	return end, notices
}

// of returns an agent's current work, and the number of its successes and failures.
func (t *tasks) of(role string) (under []contract.Work, done, failed int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.roles[role]
	if r == nil {
		return nil, 0, 0
	}
	under = slices.SortedFunc(maps.Values(r.under), func(a, b contract.Work) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.RunID, b.RunID), cmp.Compare(a.Step, b.Step))
	})
	return under[:min(len(under), maxShownWork)], r.done, r.failed
}

// roleOf returns the role of an activity, and its description as work. The queue determines the
// role; on the worker's own queue, which serves all roles, it is the role of the execution's agent.
func roleOf(info activity.Info, args []any) (string, contract.Work) {
	execution := executionOf(args)
	now := contract.Work{
		RunID: execution.RunID, Phase: execution.Phase, Step: execution.Step, Activity: info.ActivityType.Name, Since: time.Now(),
	}
	if run, ok := contract.RunIDOfWorkflow(info.WorkflowExecution.ID); ok {
		now.RunID = run
	}
	if _, step, ok := strings.Cut(info.WorkflowExecution.ID, "/step/"); ok && now.Step == "" {
		now.Step = step
	}
	role := string(execution.Agent)
	for _, r := range contract.WorkerRoles() {
		if r.Queue == info.TaskQueue && !ofStep(info, execution) {
			role = r.Name
		}
	}
	return cmp.Or(role, "run"), now
}

// ofStep reports whether an activity is the short work of a step, which the run's workflow does where it is.
func ofStep(info activity.Info, execution contract.ExecutionRef) bool {
	return info.TaskQueue == contract.QueueRun && execution.Step != ""
}

// executionOf returns the execution that an activity's input names, if any: most have a
// field for it, or for the record that begins it.
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
	if field := in.FieldByName("Record"); field.IsValid() {
		if rec, ok := field.Interface().(contract.Record); ok && rec.Begin != nil {
			return contract.ExecutionRef{RunID: rec.RunID, Phase: rec.Begin.Phase, Step: rec.Begin.Step, Agent: rec.Begin.Agent}
		}
	}
	return contract.ExecutionRef{}
}
