package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/rocketgpt/orchestrator/contract"
)

// newRunCheck tells a run what a CI or a reviewer says about its branch.
func newRunCheck(a *app) *cobra.Command {
	var m contract.CheckMessage
	var failed, passed, comment bool
	var log string
	cmd := &cobra.Command{
		Use: "check RUN --name NAME --failed|--passed|--comment", Short: "Tell a run that stays with its branch what a check or a review says", Args: oneRun,
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
				return usageError{errors.New("say what the check came to: --failed, --passed, or --comment for what a reviewer says")}
			}
			return a.check(cmd.Context(), args[0], log, m)
		},
	}
	f := cmd.Flags()
	f.StringVar(&m.Name, "name", "", "the check's name; of a comment, where it was made")
	f.BoolVar(&failed, "failed", false, "the check failed")
	f.BoolVar(&passed, "passed", false, "the check passed")
	f.BoolVar(&comment, "comment", false, "it is a review comment")
	f.StringVar(&m.Summary, "summary", "", "what happened, in a line")
	f.StringVar(&log, "log", "", "file with the check's output or the comment's text; - reads it from the standard input")
	f.StringVar(&m.Commit, "commit", "", "the commit that it is about (default: the one that is released)")
	f.StringVar(&m.ID, "id", "", "the same id counts once (default: a new one each time)")
	f.StringVar(&m.URL, "url", "", "where people can read more")
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
	return a.command(ctx, arg, func(h house, id int64) (contract.Ack, error) { return h.Check(ctx, id, m) })
}

// readEnd reads the end of a log, which may be long: twice what is sent of it.
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
