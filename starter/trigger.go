package main

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/rocketgpt/orchestrator/internal/backend"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/store/triggers"
	"github.com/rocketgpt/orchestrator/internal/terminal"
)

func newTrigger(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use: "trigger", Short: "Create runs for what happens elsewhere",
		Long: `Triggers are configured in the section triggers of rgpt.yaml. What fires one is a delivery, which
creates a run, waits, or is skipped, as the settings of the trigger say. A server (rgpt server)
decides about deliveries. docs/TRIGGERS.md describes how to configure triggers.`,
	}
	cmd.AddCommand(newTriggerList(a), newTriggerShow(a), newTriggerFire(a), newTriggerPause(a), newTriggerResume(a), newTriggerDeliveries(a), newTriggerRedeliver(a))
	return cmd
}

// oneName checks that a command gets the name of one trigger.
func oneName(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("%s needs the name of one trigger; see rgpt trigger list", cmd.CommandPath())
	}
	return nil
}

func newTriggerList(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the configured triggers and their status", Args: noArgs,
		Example: `  rgpt trigger list
  rgpt trigger list --json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd.Context(), 0, func(h backend.Backend) error {
				list, err := h.Triggers(cmd.Context())
				if err != nil {
					return err
				}
				printList(a, "triggers", list, "No triggers are configured (triggers). docs/TRIGGERS.md describes how.", "TRIGGER\tON\tREPOSITORY\tSTATE\tRUNNING\tWAITING\tLAST RUN", func(w io.Writer, t control.Trigger) {
					last := ""
					if t.FiredAt != nil {
						last = age(*t.FiredAt) + " ago"
					}
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%d\t%s\n", t.Name, triggerEvent(t), terminal.Clean(cmp.Or(t.Repository, t.Repo)), triggerState(t), t.Running, t.Waiting, last)
				})
				return nil
			})
		},
	}
}

// triggerEvent says what fires a trigger.
func triggerEvent(t control.Trigger) string {
	switch t.On {
	case config.OnIssue:
		return "issue labelled " + terminal.Clean(t.Label)
	case config.OnSchedule:
		return "schedule " + t.Cron + " " + t.Zone
	}
	return t.On
}

// triggerState says whether a trigger works.
func triggerState(t control.Trigger) string {
	switch {
	case t.PausedAt != nil:
		return "paused by " + terminal.Clean(t.PausedBy)
	case t.Problem != "":
		return "forge fails"
	}
	return "active"
}

func newTriggerShow(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Short: "Show a trigger and its last deliveries", Args: oneName,
		Example: "  rgpt trigger show nightly",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd.Context(), 0, func(h backend.Backend) error {
				t, err := h.Trigger(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				page, err := h.TriggerDeliveries(cmd.Context(), triggers.Filter{Trigger: t.Name, Limit: 10})
				if err != nil {
					return err
				}
				if a.json {
					a.printJSON(struct {
						control.Trigger
						Deliveries []triggers.Firing `json:"deliveries"`
					}{t, page.Deliveries})
					return nil
				}
				a.printTrigger(t)
				fmt.Fprintln(a.out)
				a.printTriggerDeliveries(page.Deliveries)
				return nil
			})
		},
	}
}

func (a *app) printTrigger(t control.Trigger) {
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(w, "%s\t%s\n", name, terminal.Clean(value))
		}
	}
	line("trigger", t.Name)
	line("fires on", triggerEvent(t))
	for _, at := range t.Next {
		line("next", at.Format("2006-01-02 15:04 MST"))
	}
	line("state", triggerState(t))
	line("paused because", t.Reason)
	line("problem", t.Problem)
	line("forge", t.Forge)
	line("repository", cmp.Or(t.Repo, t.Repository))
	line("base", t.Base)
	line("goal", t.Goal)
	line("release", t.Release)
	line("overlap", fmt.Sprintf("%s, at most %d at the same time, at most %d waiting", t.Overlap, t.Concurrent, t.MaxWaiting))
	limit := fmt.Sprintf("%d runs", t.PerDay)
	if t.CostPerDay > 0 {
		limit += " or $" + config.MicroUSD(t.CostPerDay).String()
	}
	line("within 24 hours", limit)
	line("catch up", (time.Duration(t.CatchUp) * time.Second).String())
	line("in progress", fmt.Sprintf("%d runs, %d deliveries waiting", t.Running, t.Waiting))
	_ = w.Flush()
}

func newTriggerFire(a *app) *cobra.Command {
	var f control.TriggerFire
	cmd := &cobra.Command{
		Use: "fire NAME", Short: "Fire a trigger", Args: oneName,
		Long: `Adds a delivery to a trigger, whatever usually fires it. The settings of the trigger decide
whether and when a run follows: rgpt trigger deliveries shows the outcome.`,
		Example: `  rgpt trigger fire nightly
  rgpt trigger fire fix --text "The login page shows an empty error." --key ticket-1234`,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.By = caller()
			return a.with(cmd.Context(), 0, func(h backend.Backend) error {
				d, err := h.FireTrigger(cmd.Context(), args[0], f)
				if err != nil {
					return err
				}
				a.printTriggerDelivery(d)
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&f.Text, "text", "", "what the run gets besides the goal of the trigger, as data")
	cmd.Flags().StringVar(&f.Key, "key", "", "fire the trigger only once for this key (default: a new one)")
	return cmd
}

func (a *app) printTriggerDelivery(d triggers.Firing) {
	if a.json {
		a.printJSON(d)
		return
	}
	fmt.Fprintf(a.out, "Delivery %d of the trigger %s: %s\n", d.ID, d.Trigger, deliveryState(d))
}

// deliveryState describes the outcome of a delivery.
func deliveryState(d triggers.Firing) string {
	switch {
	case d.State == triggers.Waiting:
		return fmt.Sprintf("%s, place %d", d.State, d.Position)
	case d.RunID != 0:
		return fmt.Sprintf("%s, run %d", d.State, d.RunID)
	}
	return string(d.State)
}

func newTriggerPause(a *app) *cobra.Command {
	var p control.TriggerPause
	cmd := &cobra.Command{
		Use: "pause NAME --reason TEXT", Short: "Pause a trigger: its deliveries wait", Args: oneName,
		Long: `Pauses a trigger. Its deliveries wait until it is resumed; those that are too old by then
(catch_up) are skipped. Runs in progress continue.`,
		Example: `  rgpt trigger pause nightly --reason "release week"`,
		RunE: func(cmd *cobra.Command, args []string) error {
			p.By = caller()
			return a.with(cmd.Context(), 0, func(h backend.Backend) error {
				t, err := h.PauseTrigger(cmd.Context(), args[0], p)
				if err == nil {
					a.printTriggerState(t, "Paused the trigger %s\n")
				}
				return err
			})
		},
	}
	cmd.Flags().StringVar(&p.Reason, "reason", "", "reason to record")
	return cmd
}

func newTriggerResume(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "resume NAME", Short: "End the pause of a trigger", Example: "  rgpt trigger resume nightly", Args: oneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd.Context(), 0, func(h backend.Backend) error {
				t, err := h.ResumeTrigger(cmd.Context(), args[0], caller())
				if err == nil {
					a.printTriggerState(t, "Resumed the trigger %s\n")
				}
				return err
			})
		},
	}
}

func (a *app) printTriggerState(t control.Trigger, format string) {
	if a.json {
		a.printJSON(t)
		return
	}
	fmt.Fprintf(a.out, format, t.Name)
}

func newTriggerDeliveries(a *app) *cobra.Command {
	var f triggers.Filter
	cmd := &cobra.Command{
		Use: "deliveries [NAME]", Short: "List deliveries and their outcomes, newest first", Args: cobra.MaximumNArgs(1),
		Example: `  rgpt trigger deliveries
  rgpt trigger deliveries nightly --state skipped --json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				f.Trigger = args[0]
			}
			if f.Limit < 1 {
				return usageError{fmt.Errorf("--limit %d is too small; must be at least 1", f.Limit)}
			}
			return a.with(cmd.Context(), 0, func(h backend.Backend) error {
				page, err := h.TriggerDeliveries(cmd.Context(), f)
				if err != nil {
					return err
				}
				if a.json {
					a.printJSON(page)
					return nil
				}
				a.printTriggerDeliveries(page.Deliveries)
				return nil
			})
		},
	}
	cmd.Flags().StringVar((*string)(&f.State), "state", "", "only those that are waiting, fired, skipped or failed")
	cmd.Flags().Int64Var(&f.Before, "before", 0, "show the next page: the number that the JSON of this page has as next")
	cmd.Flags().IntVar(&f.Limit, "limit", 50, "maximum number of deliveries, up to 200")
	complete(cmd, "state", []string{string(triggers.Waiting), string(triggers.Fired), string(triggers.Skipped), string(triggers.Failed)})
	return cmd
}

func (a *app) printTriggerDeliveries(list []triggers.Firing) {
	printList(a, "deliveries", list, "No deliveries.", "DELIVERY\tTRIGGER\tKEY\tRECEIVED\tSTATE\tREASON", func(w io.Writer, d triggers.Firing) {
		fmt.Fprintf(w, "%d\t%s\t%s\t%s ago\t%s\t%s\n", d.ID, terminal.Clean(d.Trigger), terminal.Clean(d.Delivery), age(d.ReceivedAt), deliveryState(d), terminal.Clean(d.Reason))
	})
}

func newTriggerRedeliver(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "redeliver DELIVERY", Short: "Let a delivery that was skipped or failed wait again", Example: "  rgpt trigger redeliver 12",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("%s needs the ID of one delivery; see rgpt trigger deliveries", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := strconv.ParseInt(args[0], 10, 64)
			if err != nil || id <= 0 {
				return usageError{fmt.Errorf("%q is not the ID of a delivery; see rgpt trigger deliveries", args[0])}
			}
			return a.with(cmd.Context(), 0, func(h backend.Backend) error {
				d, err := h.RedeliverTrigger(cmd.Context(), id, caller())
				if err == nil {
					a.printTriggerDelivery(d)
				}
				return err
			})
		},
	}
}
