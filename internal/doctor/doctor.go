// Package doctor checks the components that runs need and explains how to fix problems. Checks run
// in parallel, each within a time limit, so that a check that hangs neither hides nor delays the
// results of the others.
package doctor

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rocketgpt/orchestrator/internal/fault"
)

// Status is the state of a component.
type Status string

// The statuses, best first. With a warning, everything that is currently needed still works.
const (
	OK   Status = "ok"
	Warn Status = "warn"
	Fail Status = "fail"
)

// Result is a result of a check.
type Result struct {
	Check   string `json:"check"`
	Status  Status `json:"status"`
	Message string `json:"message"`
	Remedy  string `json:"mend,omitempty"` // how to fix it
}

// Check checks one component. Run may return several results; a result without a name gets the
// check's name.
type Check struct {
	Name string
	Run  func(context.Context) []Result
}

// Limit is the maximum duration of one check.
const Limit = 15 * time.Second

// Run runs all checks in parallel and returns their results in the checks' order. A check that does
// not finish within the limit fails, even if it ignores its context.
func Run(ctx context.Context, limit time.Duration, checks ...Check) []Result {
	found := make([][]Result, len(checks))
	var wait sync.WaitGroup
	for i, c := range checks {
		wait.Go(func() { found[i] = c.within(ctx, limit) })
	}
	wait.Wait()
	var all []Result
	for _, results := range found {
		all = append(all, results...)
	}
	return all
}

func (c Check) within(ctx context.Context, limit time.Duration) []Result {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	done := make(chan []Result, 1) // buffered, so that a late result does not block its sender
	go func() { done <- c.Run(ctx) }()
	var results []Result
	select {
	case results = <-done:
	case <-ctx.Done():
		select {
		case results = <-done: // the check's own result explains the timeout better
		case <-time.After(limit / 10):
			results = Failed("no result within "+limit.String(), "check whether the machine is overloaded, then try again")
		}
	}
	for i := range results {
		if results[i].Check == "" {
			results[i].Check = c.Name
		}
	}
	return results
}

// Failing reports whether any result is a failure.
func Failing(results []Result) bool {
	return slices.ContainsFunc(results, func(r Result) bool { return r.Status == Fail })
}

// Passed returns the result of a component that works.
func Passed(format string, args ...any) []Result {
	return []Result{{Status: OK, Message: fmt.Sprintf(format, args...)}}
}

// Warned returns the result of a component that works, but needs attention.
func Warned(message, remedy string) []Result {
	return []Result{{Status: Warn, Message: message, Remedy: remedy}}
}

// Failed returns the result of a component that does not work.
func Failed(message, remedy string) []Result {
	return []Result{{Status: Fail, Message: message, Remedy: remedy}}
}

// FailedBy returns the result of a component that does not work because of an error.
func FailedBy(err error, remedy string) []Result {
	f := fault.Of(err)
	message := f.Message
	if f.Cause != "" && f.Cause != f.Message {
		message += " (" + f.Cause + ")"
	}
	return Failed(message, remedy)
}
