package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rocketgpt/orchestrator/internal/backend"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/terminal"
)

func newRunLabel(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use: "label", Short: "Add and remove labels of a run",
		Long: `The policy gate reads the labels of a run when it judges a change: rgpt:blocked, rgpt:needs-approval and
rgpt:automerge, and those of the setting gate.labels. If labels change after the gate judged what a
run will release, it judges the release again.`,
	}
	cmd.AddCommand(newRunLabelChange(a, "add", "Add labels to a run", func(c *store.LabelChange, labels []string) { c.Add = labels }),
		newRunLabelChange(a, "remove", "Remove labels from a run", func(c *store.LabelChange, labels []string) { c.Remove = labels }))
	return cmd
}

func newRunLabelChange(a *app, name, short string, set func(*store.LabelChange, []string)) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: name + " RUN LABEL...", Short: short, Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return usageError{fmt.Errorf("expected a run and at least one label, got %d arguments", len(args))}
			}
			return nil
		},
		Example: "  rgpt run label " + name + " 42 rgpt:needs-approval",
		RunE: func(cmd *cobra.Command, args []string) error {
			c := store.LabelChange{By: caller(), Reason: reason}
			set(&c, args[1:])
			id, err := runID(args[0])
			if err != nil {
				return err
			}
			return a.with(cmd.Context(), backend.NeedTemporal, func(h backend.Backend) error {
				out, err := h.Label(cmd.Context(), id, c)
				if err != nil {
					return err
				}
				if a.json {
					a.printJSON(out)
					return nil
				}
				labels := "none"
				if len(out.Labels) > 0 {
					labels = terminal.Clean(strings.Join(out.Labels, ", "))
				}
				fmt.Fprintf(a.out, "Labels of run %d: %s\n", id, labels)
				if out.Note != "" {
					fmt.Fprintln(a.out, terminal.Clean(out.Note))
				}
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the run's events and the audit ledger")
	return cmd
}
