package respond

import (
	"context"
	"errors"
	"net/http"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/apitypes"
	"github.com/rocketgpt/orchestrator/internal/artifact"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/server/middleware"
)

// Problem returns the problem to send to a client for an error, and logs the details that it omits.
// If the context ended because of a problem (middleware.Timeout), it returns that problem.
func (res *Responder) Problem(ctx context.Context, err error) apitypes.Problem {
	var p apitypes.Problem
	if !errors.As(err, &p) && !errors.As(context.Cause(ctx), &p) {
		p = problemOf(err)
	}
	p.Instance = middleware.RequestID(ctx)
	if p.Status >= http.StatusInternalServerError && ctx.Err() == nil {
		res.Log.ErrorContext(ctx, "A request failed", "request", p.Instance, "error", err)
	}
	return p
}

// problemOf translates an error for a client.
func problemOf(err error) apitypes.Problem {
	f := fault.Of(err)
	switch {
	case errors.Is(err, store.ErrNotFound), f.Code == store.CodeNotFound:
		return apitypes.Problem{Title: "Not found", Status: http.StatusNotFound, Detail: missing(f), Class: contract.ClassHuman, Code: store.CodeNotFound}
	case errors.Is(err, artifact.ErrNotFound):
		return apitypes.Problem{Title: "The file is no longer stored", Status: http.StatusGone, Class: contract.ClassHuman, Code: store.CodeNotFound}
	case f.Code == store.CodeConflict:
		return apitypes.Problem{Title: "The idempotency key was used for another request", Status: http.StatusConflict, Detail: f.Message, Class: f.Class, Code: f.Code}
	case f.Code == contract.CodeRejected, f.Code == contract.CodeForbidden:
		return apitypes.Problem{Title: "Not possible in the current state", Status: http.StatusConflict, Detail: f.Message, Class: f.Class, Code: f.Code}
	case f.Class == contract.ClassHuman, f.Class == contract.ClassConfig, f.Class == contract.ClassLogic, f.Class == contract.ClassSafety:
		return apitypes.Problem{Title: "The request cannot be processed", Status: http.StatusUnprocessableEntity, Detail: f.Message, Class: f.Class, Code: f.Code}
	case errors.Is(err, control.ErrNoAnswer):
		return apitypes.Problem{Title: "No response in time", Status: http.StatusServiceUnavailable, Detail: f.Message, Class: f.Class, Code: f.Code}
	case f.Class == contract.ClassInfra:
		return apitypes.Problem{Title: "A component is unavailable", Status: http.StatusServiceUnavailable, Detail: "Nothing is lost; try again shortly.", Class: f.Class}
	default:
		return apitypes.Problem{Title: "Internal server error", Status: http.StatusInternalServerError, Detail: "See the server's log for details."}
	}
}

// missing describes the object that was not found, if known.
func missing(f *contract.Failure) string {
	if f.Code == store.CodeNotFound {
		return f.Message
	}
	return ""
}
