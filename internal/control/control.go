// Package control is what can be done with runs, whoever asks for it: the
// command line, the HTTP API, a webhook. It makes runs, steers them through
// their workflows and does them again; it prints nothing.
package control

import (
	"go.temporal.io/sdk/client"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/artifact"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/feed"
	"github.com/rocketgpt/orchestrator/internal/store/views"
)

// Runs does things with the runs of one installation.
type Runs struct {
	Store     *store.Store
	Views     *views.Views
	Feed      *feed.Feed
	Temporal  client.Client
	Artifacts *artifact.Store
	Config    *config.Config // the operator's; each run freezes its own from it
	DataDir   string         // where mirrors of repositories are kept
}

// wrong is input that cannot be used: nothing was done.
func wrong(format string, args ...any) error {
	return fault.New(contract.ClassHuman, contract.CodeInvalidConfig, format, args...)
}

// refused is a command that changes nothing as the run is now.
func refused(format string, args ...any) error {
	return fault.New(contract.ClassHuman, contract.CodeRejected, format, args...)
}
