// Package fault is the one taxonomy of failures: it turns any error into a class, a
// code, a message for users and a cause, defines how each class is retried, and carries
// failures across Temporal as application errors whose type is the class.
package fault

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
)

// Error is a failure on its way up: the contract's failure, the Go error behind it, and
// how long the other side asked us to wait before the next attempt.
type Error struct {
	contract.Failure
	RetryAfter time.Duration
	err        error
}

// Error returns the message and, if it adds something, the error behind it.
func (e *Error) Error() string {
	if e.err == nil {
		return e.Failure.Error()
	}
	return e.Failure.Error() + ": " + e.err.Error()
}

// Unwrap returns the error behind the failure.
func (e *Error) Unwrap() error { return e.err }

// After sets how long to wait before the next attempt and returns e.
func (e *Error) After(d time.Duration) *Error {
	e.RetryAfter = d
	return e
}

// New returns a failure. The message says what was tried, on what, why it failed and
// what to do; it must not contain secrets.
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

// Restore returns an error for a failure that was stored or came from elsewhere.
func Restore(f contract.Failure) *Error { return &Error{Failure: f} }

// Of returns the failure that an error stands for. It never fails: an error
// that nothing explains is a RUNTIME_ERROR. Of(nil) is nil.
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

// maxText limits messages and causes: Temporal keeps failures in mutable state and cuts
// them at 4 KiB.
const maxText = 2000

// shorten cuts a text in its middle, which is the least informative part. The text
// stays valid UTF-8, which Temporal requires.
func shorten(s string) string {
	s = strings.ToValidUTF8(s, "�")
	if len(s) <= maxText {
		return s
	}
	half := maxText / 2
	cut := s[:half] + fmt.Sprintf(" … %d bytes omitted … ", len(s)-2*half) + s[len(s)-half:]
	return strings.ToValidUTF8(cut, "")
}
