// Package doctor checks the parts that runs need and says how to fix what does not
// work. Checks run in parallel, each within a time limit, so that a part that hangs
// neither hides nor delays what is wrong with the others.
package doctor

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rocketgpt/orchestrator/internal/fault"
)

// Status is the state of a part.
type Status string

// The statuses, from good to bad. With a warning, everything that is needed now still
// works.
const (
	OK   Status = "ok"
	Warn Status = "warn"
	Fail Status = "fail"
)

// Result is what a check found.
type Result struct {
	Check   string `json:"check"`
	Status  Status `json:"status"`
	Message string `json:"message"`
	Remedy  string `json:"mend,omitempty"` // what to do about it
}

// Check looks at one part. Run may return several results; those without a
// name get the check's.
type Check struct {
	Name string
	Run  func(context.Context) []Result
}

// Limit is how long one check may take.
const Limit = 15 * time.Second

// Run carries out all checks in parallel and returns their results in the checks'
// order. A check that is not done within the limit fails, even if it ignores its
// context.
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
	done := make(chan []Result, 1) // a late answer has room here and is dropped
	go func() { done <- c.Run(ctx) }()
	var results []Result
	select {
	case results = <-done:
	case <-ctx.Done():
		select {
		case results = <-done: // its context has ended, and it says more than we can
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

// Passed is the result of a part that works.
func Passed(format string, args ...any) []Result {
	return []Result{{Status: OK, Message: fmt.Sprintf(format, args...)}}
}

// Warned is the result of a part that works, with a reservation.
func Warned(message, remedy string) []Result {
	return []Result{{Status: Warn, Message: message, Remedy: remedy}}
}

// Failed is the result of a part that does not work.
func Failed(message, remedy string) []Result {
	return []Result{{Status: Fail, Message: message, Remedy: remedy}}
}

// FailedBy is the result of a part that does not work because of an error.
func FailedBy(err error, remedy string) []Result {
	f := fault.Of(err)
	message := f.Message
	if f.Cause != "" && f.Cause != f.Message {
		message += " (" + f.Cause + ")"
	}
	return Failed(message, remedy)
}
