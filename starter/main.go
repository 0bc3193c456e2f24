// rgpt is the command-line interface of RocketGPT: it starts, follows and controls runs, and can
// start everything that they need on one machine.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/gate/policy"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
	"github.com/rocketgpt/orchestrator/internal/terminal"
	"github.com/rocketgpt/orchestrator/internal/tester/standalone"
	"github.com/rocketgpt/orchestrator/internal/version"
)

// Exit codes, for scripts.
const (
	exitDone    = 0 // success; the run is done
	exitError   = 1 // something other than the run failed
	exitFailed  = 2 // the run or a check failed
	exitStopped = 3 // the run was stopped or timed out; the command was interrupted
	exitInput   = 4 // invalid input; nothing was done
)

func main() {
	sandbox.MaybeRunHelper()
	policy.MaybeRunHelper()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	code := execute(ctx, newApp(os.Stdin, os.Stdout, os.Stderr), os.Args[1:])
	stop()
	os.Exit(code)
}

// execute runs one command and returns its exit code.
func execute(ctx context.Context, a *app, args []string) int {
	root := newRoot(a)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitDone
	}
	// A parse error ends parsing before all flags are read.
	a.json = a.json || wantsJSON(args)
	code, silent := codeOf(err)
	if !silent {
		a.reportError(err)
	}
	return exitIn(cmd, code)
}

// wantsJSON reports whether a command line requests JSON, even if the rest is invalid.
func wantsJSON(args []string) bool {
	for _, arg := range args {
		switch arg {
		case "--":
			return false
		case "--json", "--json=true":
			return true
		}
	}
	return false
}

// ended is the result of a command that worked but has its own exit code, because its run failed or
// was stopped. The outcome was already reported.
type ended struct{ code int }

func (e ended) Error() string { return fmt.Sprintf("exit code %d", e.code) }

// usageError is an invalid command line.
type usageError struct{ error }

// Unwrap returns the underlying error.
func (e usageError) Unwrap() error { return e.error }

// codeOf returns the exit code of an error, and whether the error was already reported.
func codeOf(err error) (code int, silent bool) {
	var e ended
	if errors.As(err, &e) {
		return e.code, true
	}
	var usage usageError
	if errors.As(err, &usage) {
		return exitInput, false
	}
	var unjudged *standalone.Unjudged
	if errors.As(err, &unjudged) {
		return exitError, false
	}
	f := fault.Of(err)
	if f.Code == contract.CodeDiskFull { // only the caller can free space
		return exitInput, false
	}
	switch f.Class {
	case contract.ClassHuman, contract.ClassConfig, contract.ClassLogic:
		return exitInput, false
	default:
		return exitError, false
	}
}

func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "rgpt",
		Short: "Turn a goal into a tested branch",
		Long: `rgpt turns a goal and a git repository into a tested change: agents plan it,
write it, test it and release it as a branch. Each run is a Temporal workflow:
it survives crashes, and you can pause, approve, stop and inspect it.

Start with:
  rgpt dev --detach                                      start everything on this machine
  rgpt run create --repo . --goal "…" --wait             start a run and follow it until it ends

With --server URL (or RGPT_SERVER), the run, env, pipeline, agents, models, clean and
webhook commands, eval list and eval report use that server's HTTP API and print the same
output. Repository paths then refer to directories on the server's host.

Exit codes: 0 done, 1 error, 2 run failed, 3 run stopped or timed out,
4 invalid input (nothing was done). rgpt pipeline has its own exit codes, rgpt
verify uses them for checks, and rgpt policy check for verdicts: see their help.`,
		Args:              noArgs,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		Version:           version.Long(),
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: false},
	}
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.errs)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w; see %s --help", err, c.CommandPath())}
	})
	flags := root.PersistentFlags()
	flags.StringVar(&a.dataDirFlag, "data-dir", "", "data folder (default: RGPT_DATA_DIR, else .rgpt in the current directory, else .rgpt in the home directory)")
	flags.StringVar(&a.configFile, "config", "", "configuration file (default: rgpt.yaml in the current directory, if trusted; see rgpt trust)")
	flags.StringVar(&a.serverFlag, "server", "", "use the HTTP API of the server at this address (default: RGPT_SERVER, else the services on this machine)")
	flags.BoolVar(&a.json, "json", false, "print JSON")
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return a.refuseServer(cmd) }
	root.AddCommand(newRun(a), newPipeline(a), newAgents(a), newModels(a), newEnv(a), newBrain(a), newFlaky(a), newQuarantine(a), newEval(a), newPolicy(a), newLedger(a), newPR(a), newSet(a), newQueue(a), newTrigger(a), newWebhook(a), newNotification(a), newClean(a))
	root.AddCommand(local(newVerify(a), newDev(a), newTrust(a), newDoctor(a), newServer(a), newScripted(), newMigrate(a))...)
	root.InitDefaultCompletionCmd()
	refuseArgs(root)
	return root
}

// refuseArgs reports unexpected arguments, including unknown subcommands, as usage errors.
func refuseArgs(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		refuseArgs(sub)
	}
	if !cmd.Runnable() {
		cmd.Args, cmd.RunE = noArgs, func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return usageError{err}
			}
			return nil
		}
	}
}

// noArgs accepts no arguments. For a command with subcommands, an argument is an unknown
// subcommand.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if !cmd.HasAvailableSubCommands() {
		return fmt.Errorf("%s takes no arguments, got %q; see %s --help", cmd.CommandPath(), args[0], cmd.CommandPath())
	}
	text := fmt.Sprintf("%s has no command %q", cmd.CommandPath(), args[0])
	cmd.SuggestionsMinimumDistance = 2 // cobra's own default, which it sets too late here
	if like := cmd.SuggestionsFor(args[0]); len(like) > 0 {
		text += "; did you mean " + strings.Join(like, " or ") + "?"
	}
	return fmt.Errorf("%s; see %s --help", text, cmd.CommandPath())
}

// faultOf returns the failure that the JSON output reports for an error. An invalid command line is
// a HUMAN_ERROR.
func faultOf(err error) *contract.Failure {
	var usage usageError
	if _, known := errors.AsType[*fault.Error](err); !known && errors.As(err, &usage) {
		return &contract.Failure{Class: contract.ClassHuman, Code: contract.CodeInvalidConfig, Message: err.Error()}
	}
	return fault.Of(err)
}

// reportError prints an error without secrets.
func (a *app) reportError(err error) {
	text := telemetry.Redact(err.Error())
	if a.json {
		f := faultOf(err)
		f.Message = telemetry.Redact(f.Message)
		f.Cause = telemetry.Redact(f.Cause)
		a.printJSON(map[string]any{"error": f})
		return
	}
	fmt.Fprintln(a.errs, "rgpt:", terminal.CleanLines(text))
}
