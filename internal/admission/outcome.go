package admission

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// observed is what a call's HTTP responses showed.
type observed struct {
	mu     sync.Mutex
	status int
	paused time.Duration // that the provider reported
	limit  string        // of what nothing is left
}

func (o *observed) observe(status int, header http.Header) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.status = status
	if pause, what := pauseOf(header, time.Now()); pause > o.paused {
		o.paused, o.limit = pause, what
	}
}

func (o *observed) pause() (time.Duration, string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.paused, "no " + o.limit + " left"
}

// last returns the status of the last response; 0: there was none.
func (o *observed) last() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.status
}

// scope is what the outcome of a call shows about its model and its provider.
type scope int

const (
	succeeds      scope = iota // the provider responds, whatever it says
	fails                      // the model is out
	failsProvider              // the provider as a whole is out
	unknown                    // nothing
)

// statusOverloaded is how some providers report that a model has too many requests of all customers.
const statusOverloaded = 529

// scopeOf returns what the outcome of a call shows. Only an outage counts as a failure: the provider
// cannot be reached, it responds with a server error, or it exceeds a time limit. A provider that
// rejects a request or limits its rate works, and so does a model with an unusable response.
func scopeOf(status int, err error) scope {
	f := fault.Of(err)
	switch {
	case f == nil:
		return succeeds
	case f.Code == contract.CodeCancelled, errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return unknown // ended by the caller, perhaps while it waited for a slot
	case f.Class == contract.ClassInfra && (f.Code == contract.CodeUnavailable || f.Code == contract.CodeTimeout):
		return outage(status, f.Code)
	case status == 0: // it was not sent: the key is missing, or the like
		return unknown
	}
	return succeeds
}

// outage returns the scope of a failed call: the model, its provider, or neither.
func outage(status int, code contract.Code) scope {
	switch {
	case status >= http.StatusBadRequest && status < http.StatusInternalServerError:
		return succeeds
	case code == contract.CodeTimeout, status == http.StatusServiceUnavailable, status == statusOverloaded:
		return fails
	case status == 0, status >= http.StatusInternalServerError:
		return failsProvider
	}
	return fails // the response broke off, or an error came in place of it
}
