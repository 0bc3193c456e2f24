package tester

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/environment"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/proxy"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
	"github.com/rocketgpt/orchestrator/internal/verify/output"
	"github.com/rocketgpt/orchestrator/internal/workspace"
)

// KeepTime limits the time for storing a command's output and network requests after the command
// was cancelled: nothing waits for a store that is down.
const KeepTime = 30 * time.Second

// Creation describes an environment to create.
type Creation struct {
	Requirement
	Key     string        // of the working directory, such as "42/environment"
	Who     string        // user of the network access, such as "environment of run 42"
	RunID   int64         // for the manifest; 0: no run
	Timeout time.Duration // of all commands together
	// Follow is called before the first command. It returns the receiver of the commands' output,
	// and a function that is called once when they have ended, for whatever reason. Its context is
	// valid for KeepTime.
	Follow func() (write func(chunk []byte), ended func(ctx context.Context, way *Egress) error)
	// Again reports whether the creation is attempted again after an error. Otherwise the failure
	// of the command is the result.
	Again func(err *fault.Error) bool
	// Sealed receives the complete environment before it is stored on this host. May be nil.
	Sealed func(ctx context.Context, draft *environment.Draft, m environment.Manifest) error
}

// Create carries out a recipe and stores the result on this host. A command that fails is a result;
// then nothing is stored.
func (h *Host) Create(ctx context.Context, c Creation) (*environment.Environment, *environment.Failed, error) {
	dir, err := h.Workspaces.Open(ctx, c.Workspace, c.Key)
	if err != nil {
		return nil, nil, err
	}
	defer dir.Close()
	draft, err := setup.Environments(h.DataDir).New()
	if err != nil {
		return nil, nil, EnvironmentFault(err)
	}
	defer draft.Discard()
	failed, err := h.setUpWithDownloads(ctx, c, dir.Path(), draft)
	if failed != nil || err != nil {
		return nil, failed, err
	}
	all, unignored, err := dir.Untracked(ctx)
	if err != nil {
		return nil, nil, err
	}
	if err := environment.Keep(dir.Path(), all, c.Recipe, draft); err != nil {
		return nil, nil, EnvironmentFault(err)
	}
	manifest, err := draft.Seal(ctx, environment.Manifest{Digest: c.Digest, RunID: c.RunID, Recipe: c.Recipe, Unignored: patterns(unignored), MadeAt: time.Now()})
	if err != nil {
		return nil, nil, EnvironmentFault(err)
	}
	if most := h.Config.Environment.Disk.Int64(); manifest.Bytes > most {
		return nil, nil, fault.New(contract.ClassConfig, contract.CodeTooLarge,
			"the environment takes up %d bytes on disk, more than the %d allowed on this host for all environments (environment.disk)", manifest.Bytes, most)
	}
	if c.Sealed != nil {
		if err := c.Sealed(ctx, draft, manifest); err != nil {
			return nil, nil, err
		}
	}
	env, err := draft.Commit(c.Digest)
	if err != nil {
		return nil, nil, EnvironmentFault(err)
	}
	return env, nil, nil
}

// EnvironmentFault reports that the environments on this host cannot be used.
func EnvironmentFault(err error) error {
	return fault.Wrap(err, contract.ClassInfra, fault.Of(err).Code, "cannot use this host's environments")
}

// downloadShare limits the downloads of one repository to a tenth of environment.disk.
const downloadShare = 10

// setUpWithDownloads carries out a recipe with the downloads of the repository's last setup, and
// saves its own. The setup of a change, or an unproven proposed setup, neither uses nor saves any:
// its packages must not reach others.
func (h *Host) setUpWithDownloads(ctx context.Context, c Creation, checkout string, draft *environment.Draft) (*environment.Failed, error) {
	if c.Private || c.Unproven || len(c.Recipe.Cache) == 0 {
		return h.setUp(ctx, c, checkout, draft)
	}
	downloads, key := setup.Downloads(h.DataDir), DigestOf("downloads", c.Scope)
	warn := func(err error) {
		if err != nil {
			h.Log.WarnContext(ctx, "Could not reuse downloads from earlier setups", "key", c.Key, "error", err)
		}
	}
	warn(downloads.Take(key, c.Recipe.Cache, draft))
	failed, err := h.setUp(ctx, c, checkout, draft)
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), KeepTime)
	defer cancel()
	warn(downloads.Put(last, key, c.Recipe.Cache, draft, h.Config.Environment.Disk.Int64()/downloadShare))
	return failed, err
}

// setUp runs a recipe's commands.
func (h *Host) setUp(ctx context.Context, c Creation, checkout string, draft *environment.Draft) (*environment.Failed, error) {
	write, ended := c.Follow()
	way := h.Egress(c.Who, "environment.network.hosts")
	command := h.Limited()
	command.Root = checkout
	command.CACertificates = h.Proxy.CACertificate()
	var optional *environment.Failed // the first one
	failed, err := environment.SetUp(ctx, environment.Site{
		Runner: h.Sandbox, Command: command, Proxy: way.Serve, OnOutput: write, Timeout: c.Timeout,
		OnOptional: func(f *environment.Failed) { optional = cmp.Or(optional, f) },
	}, c.Recipe, draft)
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), KeepTime)
	defer cancel()
	kept := ended(last, way)
	if err != nil {
		return nil, setupError(ctx, err)
	}
	if kept != nil {
		return nil, kept
	}
	if f := cmp.Or(failed, optional); f != nil {
		f.Output = telemetry.Redact(f.Output)
		if r, ok := way.networkFailure(); ok {
			return failed, unreachable(c, f, r)
		}
	}
	return failed, nil
}

// unreachable adds to a failure that a host could not be reached. If that may be temporary, it
// returns an error that causes another attempt, unless there is none: then the failure is a result,
// because it may have nothing to do with that host.
func unreachable(c Creation, failed *environment.Failed, r proxy.Record) error {
	unreached := fmt.Sprintf("%s could not be reached: %s", r.Host, r.Reason)
	err := fault.New(contract.ClassInfra, contract.CodeUnreachable, "`%s` failed (%s), and %s", Clipped(failed.Command.String(), 300), failed.Why, unreached)
	if r.Temporary && c.Again(err) {
		return err
	}
	failed.Why += "; " + unreached
	return nil
}

// setupError classifies an error of the sandbox.
func setupError(ctx context.Context, err error) error {
	var isolation *sandbox.IsolationError
	switch {
	case ctx.Err() != nil:
		return errors.Join(context.Cause(ctx), err)
	case errors.Is(err, sandbox.ErrInvalid):
		return fault.Wrap(err, contract.ClassConfig, contract.CodeInvalidConfig, "the sandbox rejected a setup command")
	case errors.As(err, &isolation):
		return fault.Wrap(err, contract.ClassConfig, contract.CodeIsolation, "the repository cannot be set up: this machine cannot isolate commands")
	}
	return fault.Wrap(err, contract.ClassInfra, fault.Of(err).Code, "the sandbox could not run a setup command")
}

func patterns(paths []string) []string {
	var out []string
	for _, p := range paths {
		out = append(out, workspace.IgnorePattern(p))
	}
	return out
}

// shownOutput limits the output of a failed command in a failure.
const shownOutput = 1500

// commandFailure says which setup command failed and why, with the line of its output that says most.
func commandFailure(f environment.Failed) string {
	text := fmt.Sprintf("`%s` failed (%s)", Clipped(f.Command.String(), 300), f.Why)
	if line := output.ErrorLine([]byte(f.Output)); line != "" {
		text += ": " + Clipped(line, 300)
	}
	return text
}

// SetupFailure describes a failed setup to users.
func SetupFailure(f environment.Failed, r environment.Recipe) *contract.Failure {
	code := contract.CodeCheckFailed
	if f.Missing || len(r.Missing) > 0 {
		code = contract.CodeMissing
	}
	text := "the repository could not be set up: " + commandFailure(f)
	if len(f.Refused) > 0 {
		text += "; it tried to reach " + strings.Join(f.Refused, ", ") + ", which is not allowed"
	}
	if missing := r.Absent(); len(missing) > 0 {
		text += "; the repository requires " + strings.Join(missing, ", ")
	}
	shown := f.Output
	if over := len(shown) - shownOutput; over > 0 {
		shown = "…" + strings.ToValidUTF8(shown[over:], "")
	}
	return &contract.Failure{Class: contract.ClassConfig, Code: code, Message: Clipped(text, 1000), Cause: shown}
}
