package tool

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
)

//go:embed run_command.md
var runCommandDescription string

type runCommandParams struct {
	Command        string `json:"command" jsonschema:"minLength=1" jsonschema_description:"Shell command."`
	TimeoutSeconds int    `json:"timeout_seconds,omitempty" jsonschema:"minimum=1" jsonschema_description:"Default: the maximum."`
}

func runCommand() Tool {
	return define(Definition{Name: RunCommand, Description: runCommandDescription, Long: true, Commands: true}, run)
}

func run(ctx context.Context, env Env, p runCommandParams) (Result, error) {
	if env.Runner == nil {
		return failed(contract.CodeForbidden, "Commands cannot be run here."), nil
	}
	if strings.ContainsRune(p.Command, 0) {
		return failed(contract.CodeInvalidOutput, "The command contains a NUL byte."), nil
	}
	c := env.Command
	c.Shell, c.Args, c.Root, c.OnOutput = pipefail+p.Command, nil, env.Root, env.OnOutput
	c.Limits.Timeout = timeout(env.Limits, p.TimeoutSeconds)
	result, err := env.Runner.Run(ctx, c)
	if err != nil {
		return Result{}, runFault(ctx, err)
	}
	text, err := commandText(ctx, env, c.Limits.Timeout, result)
	if err != nil {
		return Result{}, err
	}
	return Result{OK: result.OK() || readerStopped(result), Code: commandCode(result), Changed: true, Text: text}, nil
}

// pipefail makes a pipeline fail if any of its commands does, such as go test in "go test | tail".
// It is on the first line of the command, so that line numbers in messages stay correct. bash and
// newer versions of other shells have it.
const pipefail = `if [ "$BASH_VERSION" ] || (set -o pipefail) 2>/dev/null; then set -o pipefail; ` +
	`else echo 'This shell has no pipefail: the exit code of a pipeline is that of its last command.' >&2; fi; `

// brokenPipe is the exit code of a pipeline in which a command wrote after its reader had stopped.
const brokenPipe = 128 + int(syscall.SIGPIPE)

// readerStopped reports whether a pipeline failed only because a command such as head did not read
// all of its input.
func readerStopped(r sandbox.Result) bool {
	return r.ExitCode == brokenPipe && r.Signal == "" && !r.TimedOut && r.LimitExceeded == ""
}

func timeout(l Limits, seconds int) time.Duration {
	if seconds <= 0 {
		return min(l.CommandTimeout, l.MaxTimeout)
	}
	if int64(seconds) > int64(l.MaxTimeout/time.Second) {
		return l.MaxTimeout
	}
	return time.Duration(seconds) * time.Second
}

// runFault explains that a command could not be run in isolation.
func runFault(ctx context.Context, err error) error {
	if errors.Is(err, sandbox.ErrInvalid) {
		return fault.Wrap(err, contract.ClassConfig, contract.CodeInvalidConfig, "the sandbox rejected the command configuration")
	}
	f := fault.Of(err)
	if ctx.Err() == nil && f.Code == contract.CodeUnknown {
		return fault.Wrap(err, contract.ClassConfig, contract.CodeIsolation, "could not run the command in isolation; rgpt doctor shows what the sandbox requires")
	}
	return fault.Wrap(err, f.Class, f.Code, "could not run the command to completion")
}

func commandCode(r sandbox.Result) contract.Code {
	switch {
	case r.TimedOut:
		return contract.CodeTimeout
	case r.LimitExceeded != "" || r.Signal != "":
		return contract.CodeCommandCrashed
	}
	return ""
}

func commandText(ctx context.Context, env Env, timeout time.Duration, r sandbox.Result) (string, error) {
	var b strings.Builder
	switch {
	case r.TimedOut:
		fmt.Fprintf(&b, "The command was stopped: it ran longer than %s.\n", timeout)
	case r.LimitExceeded != "":
		fmt.Fprintf(&b, "The command was stopped: it exceeded its limit of %s.\n", r.LimitExceeded)
	case r.Signal != "":
		fmt.Fprintf(&b, "The command was terminated by a signal (%s).\n", r.Signal)
	case readerStopped(r):
		fmt.Fprintf(&b, "exit code: %d (the reader of a pipeline, such as head, stopped before its input ended)\n", r.ExitCode)
	default:
		fmt.Fprintf(&b, "exit code: %d\n", r.ExitCode)
	}
	err := env.show(ctx, &b, []section{{"stdout", cleanOutput(r.Stdout)}, {"stderr", cleanOutput(r.Stderr)}})
	if len(r.Stdout)+len(r.Stderr) == 0 {
		b.WriteString("(no output)\n")
	}
	refusedText(&b, r.Refused)
	return b.String(), err
}

// maxRefused limits the hosts listed in a result.
const maxRefused = 10

// refusedText lists the hosts that a command may not reach, and explains that retrying does not
// help.
func refusedText(b *strings.Builder, refused []string) {
	hosts := slices.Compact(slices.Sorted(slices.Values(refused)))
	if len(hosts) == 0 {
		return
	}
	b.WriteString("--- network ---\n")
	for _, host := range hosts[:min(len(hosts), maxRefused)] {
		fmt.Fprintf(b, "refused: %q\n", host)
	}
	if more := len(hosts) - maxRefused; more > 0 {
		fmt.Fprintf(b, "refused: %d more\n", more)
	}
	b.WriteString("Commands are not allowed to reach these hosts. Only the operator can allow a host, with a configuration line such as\n" +
		"  execution.sandbox.network: [" + usual(hosts[0]) + "]\nRetrying will not help; work without these hosts.\n")
}

// usual omits the default port.
func usual(host string) string {
	return strings.TrimSuffix(strings.TrimSuffix(host, ":443"), ":80")
}
