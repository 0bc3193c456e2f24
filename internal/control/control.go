// Package control implements the operations on runs that the command line, the HTTP API and
// webhooks provide. It creates, controls and repeats runs; it prints nothing.
package control

import (
	"errors"
	"log/slog"
	"sync"

	"go.temporal.io/sdk/client"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/artifact"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/feed"
	"github.com/rocketgpt/orchestrator/internal/store/views"
)

// Runs controls the runs of one installation.
type Runs struct {
	Store     *store.Store
	Views     *views.Views
	Feed      *feed.Feed
	Temporal  client.Client
	Artifacts *artifact.Store
	Config    *config.Config // the operator's; each run freezes its own settings from it
	// Reload, if set, reads the configuration again, for the settings that apply to new runs without a
	// restart: those of the gate.
	Reload  func() (*config.Config, error)
	DataDir string       // directory that contains mirrors of repositories
	Log     *slog.Logger // nil: the caller sees the results

	index *index // of repositories; use own. Close closes it
}

// indexes guards the field index of all Runs. A mutex in Runs would prevent copying it.
var indexes sync.Mutex

// own returns the index of repositories that belongs to r.
func (r *Runs) own() *index {
	indexes.Lock()
	defer indexes.Unlock()
	if r.index == nil {
		r.index = &index{}
	}
	return r.index
}

// apart returns a copy that has no index of repositories open.
func (r *Runs) apart() *Runs {
	indexes.Lock()
	defer indexes.Unlock()
	out := *r
	out.index = nil
	return &out
}

// WithTemporal returns the runs with a connection to Temporal. Close only r.
func (r *Runs) WithTemporal(c client.Client) *Runs {
	out := r.apart()
	out.Temporal = c
	return out
}

// wrong returns the error for invalid input, before anything was changed.
func wrong(format string, args ...any) error {
	return fault.New(contract.ClassHuman, contract.CodeInvalidConfig, format, args...)
}

// refused returns the error for a command that has no effect in the run's current state.
func refused(format string, args ...any) error {
	return fault.New(contract.ClassHuman, contract.CodeRejected, format, args...)
}

// Names of inputs that a FieldError can be about. They are the names of the fields of the API.
const (
	FieldRepo        = "repo"
	FieldBase        = "base"
	FieldGoal        = "goal"
	FieldIssue       = "issue"
	FieldModel       = "model"
	FieldEffort      = "effort"
	FieldAttempts    = "attempts"
	FieldLabels      = "labels"
	FieldPullRequest = "pull_request"
	FieldPlanOnly    = "plan_only"
	FieldObjective   = "objective"
	FieldMode        = "mode"
	FieldModels      = "models"
	FieldTimeout     = "timeout"
	FieldBy          = "by"
)

// FieldOfMember returns the name of the input for the model of a member of a pipeline.
func FieldOfMember(agent contract.Agent) string { return FieldModels + "." + string(agent) }

// FieldError is an error about one input of a request, so that a form can show it there. Its text and
// its failure (fault.Of) are those of the error in it.
type FieldError struct {
	Field string
	err   error
}

// Error returns the text of the error in it.
func (e *FieldError) Error() string { return e.err.Error() }

// Unwrap returns the error in it.
func (e *FieldError) Unwrap() error { return e.err }

// about says which input an error is about. No error stays none.
func about(field string, err error) error {
	if err == nil {
		return nil
	}
	return &FieldError{Field: field, err: err}
}

// WrongInput returns the error for one input of a request that is invalid.
func WrongInput(field, format string, args ...any) error { return about(field, wrong(format, args...)) }

// FieldOf returns the name of the input that an error is about, and what is wrong with it: one of the
// constants, or the dotted key of a setting of the request. The name is empty if the error is about
// none of them, or about several.
func FieldOf(err error) (field, problem string) {
	var known *FieldError
	if errors.As(err, &known) {
		return known.Field, fault.Of(err).Message
	}
	var settings *config.Error
	if errors.As(err, &settings) && len(settings.Mistakes) == 1 && settings.Mistakes[0].Origin.Source == config.SourceRequest {
		return settings.Mistakes[0].Key, settings.Mistakes[0].Text
	}
	return "", ""
}
