package tool

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
)

//go:embed run_command.md
var runCommandDescription string

type runCommandParams struct {
	Command        string `json:"command" jsonschema:"minLength=1" jsonschema_description:"Shell command to run."`
	TimeoutSeconds int    `json:"timeout_seconds,omitempty" jsonschema:"minimum=1" jsonschema_description:"Time limit in seconds. Default: the maximum allowed."`
}

func runCommand() Tool {
	return define(Definition{Name: RunCommand, Description: runCommandDescription, Long: true}, run)
}

func run(ctx context.Context, env Env, p runCommandParams) (Result, error) {
	if env.Runner == nil {
		return failed(contract.CodeForbidden, "Commands cannot be run here."), nil
	}
	if strings.ContainsRune(p.Command, 0) {
		return failed(contract.CodeInvalidOutput, "The command contains a NUL byte."), nil
	}
	c := env.Command
	c.Shell, c.Args, c.Root, c.OnOutput = p.Command, nil, env.Root, env.OnOutput
	c.Limits.Timeout = timeout(env.Limits, p.TimeoutSeconds)
	result, err := env.Runner.Run(ctx, c)
	if err != nil {
		return Result{}, runFault(ctx, err)
	}
	return Result{
		OK: result.OK(), Code: commandCode(result), Changed: true,
		Text: commandText(result, c.Limits.Timeout, env.Limits.OutputBytes),
	}, nil
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

func commandText(r sandbox.Result, timeout time.Duration, outputBytes int) string {
	var b strings.Builder
	switch {
	case r.TimedOut:
		fmt.Fprintf(&b, "The command was stopped: it ran longer than %s.\n", timeout)
	case r.LimitExceeded != "":
		fmt.Fprintf(&b, "The command was stopped: it exceeded its limit of %s.\n", r.LimitExceeded)
	case r.Signal != "":
		fmt.Fprintf(&b, "The command was terminated by a signal (%s).\n", r.Signal)
	default:
		fmt.Fprintf(&b, "exit code: %d\n", r.ExitCode)
	}
	output(&b, "stdout", r.Stdout, outputBytes)
	output(&b, "stderr", r.Stderr, outputBytes)
	if len(r.Stdout)+len(r.Stderr) == 0 {
		b.WriteString("(no output)\n")
	}
	refusedText(&b, r.Refused)
	return b.String()
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

// output writes a text or, if it is too long, its beginning and a larger part of its end, where
// builds and tests report errors.
func output(b *strings.Builder, name string, content []byte, limit int) {
	if len(content) == 0 {
		return
	}
	text := ansi.Strip(strings.ToValidUTF8(string(content), "\uFFFD")) // colours cost tokens and contain no information
	if len(text) > limit {
		head, tail := text[:limit/4], text[len(text)-(limit-limit/4):]
		text = strings.ToValidUTF8(head, "") + fmt.Sprintf("\n[… %d bytes omitted …]\n", len(text)-limit) + strings.ToValidUTF8(tail, "")
	}
	fmt.Fprintf(b, "--- %s ---\n%s", name, text)
	if !strings.HasSuffix(text, "\n") {
		b.WriteByte('\n')
	}
}
