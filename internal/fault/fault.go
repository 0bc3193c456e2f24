// Package fault defines the taxonomy of failures. It classifies any error by class and code, adds a
// message for users and a cause, defines how each class is retried, and converts failures to
// Temporal application errors whose type is the class.
package fault

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
)

// Error is a failure as a Go error: the contract's failure, the underlying error, and the delay
// before the next attempt that the remote service requested.
type Error struct {
	contract.Failure
	RetryAfter time.Duration
	err        error
}

// Error returns the message and, if it adds information, the underlying error.
func (e *Error) Error() string {
	if e.err == nil {
		return e.Failure.Error()
	}
	return e.Failure.Error() + ": " + e.err.Error()
}

// Unwrap returns the underlying error.
func (e *Error) Unwrap() error { return e.err }

// After sets how long to wait before the next attempt and returns e.
func (e *Error) After(d time.Duration) *Error {
	e.RetryAfter = d
	return e
}

// New returns a failure. The message states the operation, its object, why it failed and what to
// do; it must not contain secrets.
func New(class contract.Class, code contract.Code, format string, args ...any) *Error {
	return &Error{Failure: contract.Failure{Class: class, Code: code, Message: fmt.Sprintf(format, args...)}}
}

// Wrap returns a failure for an error. The error's text becomes the cause.
func Wrap(err error, class contract.Class, code contract.Code, format string, args ...any) *Error {
	e := New(class, code, format, args...)
	e.err = err
	e.Cause = shorten(err.Error())
	return e
}

// Restore returns an error for a stored or received failure.
func Restore(f contract.Failure) *Error { return &Error{Failure: f} }

// Of returns the failure for any error. An unrecognised error is a RUNTIME_ERROR. Of(nil) is nil.
func Of(err error) *contract.Failure {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) {
		f := e.Failure
		f.Message, f.Cause = shorten(f.Message), shorten(f.Cause)
		return &f
	}
	var f *contract.Failure
	if errors.As(err, &f) {
		return f
	}
	if f := fromTemporal(err); f != nil {
		return f
	}
	return classify(err)
}

// Is reports whether an error is a failure with this code.
func Is(err error, code contract.Code) bool {
	f := Of(err)
	return f != nil && f.Code == code
}

// maxText limits messages and causes: Temporal stores failures in mutable state and truncates them
// at 4 KiB.
const maxText = 2000

// shorten removes the middle of a long text, which is the least informative part. The text stays
// valid UTF-8, which Temporal requires.
func shorten(s string) string {
	s = strings.ToValidUTF8(s, "�")
	if len(s) <= maxText {
		return s
	}
	half := maxText / 2
	cut := s[:half] + fmt.Sprintf(" … %d bytes omitted … ", len(s)-2*half) + s[len(s)-half:]
	return strings.ToValidUTF8(cut, "")
}
