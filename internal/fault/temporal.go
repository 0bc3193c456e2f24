package fault

import (
	"errors"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"

	"github.com/rocketgpt/orchestrator/contract"
)

// ToTemporal converts the error of an activity's given attempt (from 1) to a Temporal application
// error. Its type is the class and its details are the failure; it contains the delay of the next
// retry or is non-retryable. Only Temporal retries, by the policy set here.
func ToTemporal(err error, attempt int) error {
	if err == nil {
		return nil
	}
	var canceled *temporal.CanceledError
	if errors.As(err, &canceled) {
		return err
	}
	var e *Error
	if !errors.As(err, &e) {
		e = &Error{Failure: *Of(err)}
	}
	f := *Of(e)
	delay, again := e.RetryDelay(attempt)
	return temporal.NewApplicationErrorWithOptions(f.Message, string(f.Class), temporal.ApplicationErrorOptions{
		NonRetryable:   !again,
		NextRetryDelay: delay,
		Details:        []any{f},
	})
}

// fromTemporal extracts the failure from an error that a workflow received from an activity or
// child workflow, nil if the error is not one of Temporal's.
func fromTemporal(err error) *contract.Failure {
	var app *temporal.ApplicationError
	if errors.As(err, &app) {
		var f contract.Failure
		if app.HasDetails() && app.Details(&f) == nil && f.Class != "" {
			return &f
		}
		return &contract.Failure{Class: contract.ClassRuntime, Code: contract.CodeUnknown, Message: shorten(app.Error())}
	}
	if temporal.IsCanceledError(err) {
		return &contract.Failure{Class: contract.ClassInfra, Code: contract.CodeCancelled, Message: "the operation was cancelled"}
	}
	var timeout *temporal.TimeoutError
	if errors.As(err, &timeout) {
		if timeout.TimeoutType() == enumspb.TIMEOUT_TYPE_HEARTBEAT {
			return &contract.Failure{Class: contract.ClassInfra, Code: contract.CodeWorkerLost, Message: "the worker stopped responding and retries failed; check that workers are running (rgpt doctor)"}
		}
		return &contract.Failure{Class: contract.ClassInfra, Code: contract.CodeTimeout, Message: shorten("the operation exceeded its time limit: " + timeout.Error())}
	}
	var panicked *temporal.PanicError
	if errors.As(err, &panicked) {
		return &contract.Failure{Class: contract.ClassRuntime, Code: contract.CodeUnknown, Message: shorten("the code panicked: " + panicked.Error())}
	}
	return nil
}
