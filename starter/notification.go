package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/rocketgpt/orchestrator/internal/backend"
	"github.com/rocketgpt/orchestrator/internal/store/notifications"
	"github.com/rocketgpt/orchestrator/internal/terminal"
)

func newNotification(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use: "notification", Short: "Show and test how people are notified of runs",
		Long: `The server notifies people by chat and e-mail, on the channels of the section notifications of the
configuration; docs/NOTIFICATIONS.md describes how to configure them.`,
	}
	cmd.AddCommand(newNotificationList(a), newNotificationTest(a))
	return cmd
}

func newNotificationList(a *app) *cobra.Command {
	var f notifications.Filter
	cmd := &cobra.Command{
		Use: "list", Short: "List notifications with their states, newest first", Args: noArgs,
		Example: `  rgpt notification list --state failed
  rgpt notification list --channel team --json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := oneOf("state", f.State, notifications.States()); err != nil {
				return err
			}
			return a.with(cmd.Context(), 0, func(h backend.Backend) error {
				list, err := h.Notifications(cmd.Context(), f)
				if err == nil {
					a.printNotifications(list)
				}
				return err
			})
		},
	}
	cmd.Flags().StringVar(&f.Channel, "channel", "", "only those of this channel")
	cmd.Flags().StringVar((*string)(&f.State), "state", "", "only those in this state: pending, sent, failed or dropped")
	cmd.Flags().IntVar(&f.Limit, "limit", 50, "maximum number of results")
	cmd.Flags().Int64Var(&f.Before, "before", 0, "only notifications with an ID lower than this")
	complete(cmd, "state", notifications.States())
	return cmd
}

func (a *app) printNotifications(list []notifications.Notification) {
	printList(a, "notifications", list, "No notifications.", "ID\tCHANNEL\tEVENT\tTYPE\tSTATE\tMESSAGE\tATTEMPTS\tCREATED\tREASON", func(w io.Writer, n notifications.Notification) {
		message := "-"
		if n.Message != 0 {
			message = fmt.Sprint(n.Message)
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\n", n.ID, terminal.Clean(n.Channel), n.Event, terminal.Clean(n.EventType), n.State, message, n.Attempts, n.CreatedAt.UTC().Format(time.RFC3339), terminal.Clean(n.Reason))
	})
}

func newNotificationTest(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "test CHANNEL", Short: "Send a test message and show the result", Args: cobra.ExactArgs(1),
		Long: `Sends a test message on a channel, whatever its quiet hours and limits. Without RGPT_SERVER, this
machine sends it, with its own environment variables and files.

Exit codes: 0 the message was sent, 1 it was not.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd.Context(), 0, func(h backend.Backend) error {
				tested, err := h.TestNotification(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				switch {
				case a.json:
					a.printJSON(tested)
				case tested.Sent:
					fmt.Fprintf(a.out, "Sent after %s\n", time.Duration(tested.Took)*time.Millisecond)
				default:
					fmt.Fprintf(a.out, "Not sent: %s\n", terminal.Clean(tested.Problem))
				}
				if !tested.Sent {
					return ended{exitError}
				}
				return nil
			})
		},
	}
}
