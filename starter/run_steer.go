package main

import (
	"context"
	"errors"
	"fmt"
	"os/user"

	"github.com/spf13/cobra"

	"io"
	"os"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/backend"
	"github.com/rocketgpt/orchestrator/internal/store/retain"
	"github.com/rocketgpt/orchestrator/internal/terminal"
)

// steering returns the commands that send updates to a run.
func steering(a *app) []*cobra.Command {
	command := func(name, use, short string, flags func(*cobra.Command, *contract.Command)) *cobra.Command {
		var c contract.Command
		cmd := &cobra.Command{
			Use: use, Short: short, Args: oneRun,
		}
		steer := func(cmd *cobra.Command, args []string) error { return a.steer(cmd.Context(), args[0], name, c) }
		cmd.RunE = steer
		cmd.Flags().StringVar(&c.Reason, "reason", "", "reason to record")
		if name == contract.UpdatePause || name == contract.UpdateStop {
			a.allAttempts(cmd, name, &c, steer)
		}
		if flags != nil {
			flags(cmd, &c)
		}
		return cmd
	}
	approval := func(cmd *cobra.Command, c *contract.Command) {
		cmd.Flags().StringVar(&c.ApprovalID, "approval", "", "ID of the approval (default: the open one)")
	}
	return []*cobra.Command{
		newRunApprove(a),
		newRunAnswer(a),
		command(contract.UpdateReject, "reject RUN", "Reject a run's pending request", approval),
		command(contract.UpdatePause, "pause RUN", "Pause a run after its current work finishes", nil),
		command(contract.UpdateStop, "stop RUN", "Stop a run; its partial results are kept", nil),
		newRunAdvance(a),
		newRunSwitchModel(a),
		newRunTell(a),
		newRunLabel(a),
		newRunMessages(a),
		newRunHold(a),
		newRunReleaseHold(a),
	}
}

func newRunHold(a *app) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "hold RUN --reason TEXT", Short: "Keep a run's files, whatever the retention policy says", Args: oneRun,
		Example: `  rgpt run hold 42 --reason "evidence for the incident of May 3"`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.hold(cmd.Context(), args[0], func(h backend.Backend, id int64) (retain.Hold, error) {
				return h.Hold(cmd.Context(), id, reason, caller())
			})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why the files are needed (required)")
	return cmd
}

func newRunReleaseHold(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "release-hold RUN", Short: "Let retention delete a run's files again", Args: oneRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.hold(cmd.Context(), args[0], func(h backend.Backend, id int64) (retain.Hold, error) {
				return h.ReleaseHold(cmd.Context(), id, caller())
			})
		},
	}
}

// hold changes the hold of a run, and prints it.
func (a *app) hold(ctx context.Context, arg string, change func(backend.Backend, int64) (retain.Hold, error)) error {
	id, err := runID(arg)
	if err != nil {
		return err
	}
	return a.with(ctx, 0, func(h backend.Backend) error {
		hold, err := change(h, id)
		switch {
		case err != nil:
			return err
		case a.json:
			a.printJSON(hold)
		case hold.ReleasedAt != nil:
			fmt.Fprintf(a.out, "Run %d is no longer on hold; retention may delete its files.\n", id)
		default:
			fmt.Fprintf(a.out, "Run %d is on hold: %s keeps its files: %s\n", id, terminal.Clean(hold.By), terminal.Clean(hold.Reason))
		}
		return nil
	})
}

func newRunApprove(a *app) *cobra.Command {
	var c contract.Command
	var planFile string
	cmd := &cobra.Command{
		Use: "approve RUN", Short: "Approve a run's pending request", Args: oneRun,
		Example: `  rgpt run approve 42 --reason "looks right"
  rgpt run approve 42 --plan edited.yaml`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if planFile == "" {
				return a.steer(cmd.Context(), args[0], contract.UpdateApprove, c)
			}
			return a.approveEdited(cmd.Context(), args[0], planFile, c)
		},
	}
	cmd.Flags().StringVar(&c.Reason, "reason", "", "reason to record")
	cmd.Flags().StringVar(&c.ApprovalID, "approval", "", "ID of the approval (default: the open one)")
	cmd.Flags().StringVar(&c.Subject, "subject", "", "only if the request is still about this (as in rgpt run inspect)")
	cmd.Flags().StringVar(&planFile, "plan", "", "approve the plan as edited in this file (YAML or JSON)")
	return cmd
}

func newRunAnswer(a *app) *cobra.Command {
	var c contract.Command
	cmd := &cobra.Command{
		Use: "answer RUN OPTION", Short: "Answer the question of a run's planner with one of its options",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 { //nolint:mnd // the run and the option
				return usageError{fmt.Errorf("%s needs the ID of a run and one of the options; see rgpt run inspect", cmd.CommandPath())}
			}
			_, err := runID(args[0])
			return err
		},
		Example: `  rgpt run answer 42 2
  rgpt run answer 42 "only the command line" --reason "the page follows later"`,
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Answer = args[1]
			return a.steer(cmd.Context(), args[0], contract.UpdateAnswer, c)
		},
	}
	cmd.Flags().StringVar(&c.Reason, "reason", "", "words to pass on to the planner")
	cmd.Flags().StringVar(&c.ApprovalID, "input", "", "ID of the question (default: the open one)")
	return cmd
}

// approveEdited approves the plan in a file.
func (a *app) approveEdited(ctx context.Context, arg, file string, c contract.Command) error {
	plan, err := a.readPlan(file)
	if err != nil {
		return err
	}
	return a.command(ctx, arg, func(h backend.Backend, id int64) (contract.Ack, error) { return h.ApproveEdited(ctx, id, *plan, c) })
}

func newRunAdvance(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "advance RUN", Short: "Resume a paused run until its next phase, or start a run that has not started", Args: oneRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.command(cmd.Context(), args[0], func(h backend.Backend, id int64) (contract.Ack, error) {
				return h.Advance(cmd.Context(), id, contract.Command{By: caller()})
			})
		},
	}
}

func newRunSwitchModel(a *app) *cobra.Command {
	var agent string
	var model modelFlags
	cmd := &cobra.Command{
		Use: "switch-model RUN --model PROVIDER/MODEL", Short: "Switch a run's model, starting with the next call", Args: oneRun,
		Example: `  rgpt run switch-model 42 --model openai/gpt-5
  rgpt run switch-model 42 --model ollama/qwen3-coder --agent builder --temperature 0.2`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if model.model == "" {
				return usageError{errors.New("switch-model needs --model provider/model")}
			}
			if err := model.check(); err != nil {
				return err
			}
			c := contract.Command{Agent: contract.Agent(agent), By: caller()}
			return a.command(cmd.Context(), args[0], func(h backend.Backend, id int64) (contract.Ack, error) {
				return h.SwitchModel(cmd.Context(), id, model.model, model.temperatureFlag(), model.effort, c)
			})
		},
	}
	model.add(cmd, "model to use, as provider/model", "sampling temperature")
	model.addEffort(cmd, "the provider's")
	cmd.Flags().StringVar(&agent, "agent", "", "only for this agent: planner, builder, repair, …, or alpha, beta or gamma while they are deliberating on the plan")
	return cmd
}

// steer sends an update to a run and prints the response.
func (a *app) steer(ctx context.Context, arg, name string, c contract.Command) error {
	return a.command(ctx, arg, func(h backend.Backend, id int64) (contract.Ack, error) {
		c.By = caller()
		return h.Steer(ctx, id, name, c)
	})
}

// command sends a command to a run and prints the response.
func (a *app) command(ctx context.Context, arg string, give func(backend.Backend, int64) (contract.Ack, error)) error {
	id, err := runID(arg)
	if err != nil {
		return err
	}
	return a.with(ctx, backend.NeedTemporal, func(h backend.Backend) error {
		ack, err := give(h, id)
		if err != nil {
			return err
		}
		return a.acknowledge(id, ack)
	})
}

func (a *app) acknowledge(id int64, ack contract.Ack) error {
	if a.json {
		a.printJSON(ack)
		return nil
	}
	fmt.Fprintf(a.out, "Run %d: %s\n", id, terminal.Clean(ack.Message))
	return nil
}

// caller returns the name of the user who runs the command.
func caller() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return contract.ByCommandLine
}

// newRunCheck returns the command that reports to a run the result of a CI check or a review of its
// branch.
func newRunCheck(a *app) *cobra.Command {
	var m contract.CheckMessage
	var failed, passed, comment bool
	var log string
	cmd := &cobra.Command{
		Use: "check RUN --name NAME --failed|--passed|--comment", Short: "Report a check or review result to a run that is watching its branch", Args: oneRun,
		Example: `  rgpt run check 42 --name ci/unit --failed --log unit.log --commit "$SHA" --id "$CI_JOB_ID"
  rgpt run check 42 --name greet.go:12 --comment --log - < comment.txt`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case failed:
				m.Conclusion = contract.ConclusionFailure
			case passed:
				m.Conclusion = contract.ConclusionSuccess
			case comment:
				m.Kind = contract.CheckComment
			default:
				return usageError{errors.New("the result is missing: use --failed, --passed, or --comment for a review comment")}
			}
			return a.check(cmd.Context(), args[0], log, m)
		},
	}
	f := cmd.Flags()
	f.StringVar(&m.Name, "name", "", "name of the check, or the location of the comment")
	f.BoolVar(&failed, "failed", false, "the check failed")
	f.BoolVar(&passed, "passed", false, "the check passed")
	f.BoolVar(&comment, "comment", false, "the report is a review comment")
	f.StringVar(&m.Summary, "summary", "", "one-line summary of the result")
	f.StringVar(&log, "log", "", "file with the check's output or the comment's text; - is standard input")
	f.StringVar(&m.Commit, "commit", "", "commit that was checked (default: the released commit)")
	f.StringVar(&m.ID, "id", "", "reports with the same ID count once (default: a new ID each time)")
	f.StringVar(&m.URL, "url", "", "URL with more details")
	cmd.MarkFlagsMutuallyExclusive("failed", "passed", "comment")
	return cmd
}

// check sends a message about a run's branch.
func (a *app) check(ctx context.Context, arg, log string, m contract.CheckMessage) (err error) {
	if log != "" {
		if m.Details, err = a.readEnd(log); err != nil {
			return err
		}
	}
	m.By = caller()
	return a.command(ctx, arg, func(h backend.Backend, id int64) (contract.Ack, error) { return h.Check(ctx, id, m) })
}

// readEnd reads the end of a log that may be long: twice as much as is sent.
func (a *app) readEnd(file string) (string, error) {
	const most = 2 * contract.CheckText
	from := a.in
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return "", usageError{fmt.Errorf("cannot read %s: %w", file, err)}
		}
		defer f.Close()
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() && info.Size() > most {
			if _, err := f.Seek(-most, io.SeekEnd); err != nil {
				return "", usageError{fmt.Errorf("cannot read the end of %s: %w", file, err)}
			}
		}
		from = f
	}
	var end []byte
	part := make([]byte, most)
	for {
		n, err := from.Read(part)
		end = append(end, part[:n]...)
		end = end[max(0, len(end)-most):]
		if err == io.EOF {
			return string(end), nil
		}
		if err != nil {
			return "", usageError{fmt.Errorf("cannot read %s: %w", file, err)}
		}
	}
}
