package main

import (
	"cmp"
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rocketgpt/orchestrator/internal/backend"
	"github.com/rocketgpt/orchestrator/internal/store/notifications"
	"github.com/rocketgpt/orchestrator/internal/terminal"
)

func newNotification(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use: "notification", Short: "Show and test how people are notified of runs",
		Long: `The server notifies people by chat, by e-mail and in browsers, on the channels of the section
notifications of the configuration; docs/NOTIFICATIONS.md describes how to configure them.`,
	}
	cmd.AddCommand(newNotificationList(a), newNotificationTest(a), newNotificationResend(a), newNotificationBrowsers(a), newNotificationRemoveBrowser(a), newNotificationKeys(a))
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

func newNotificationResend(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "resend NOTIFICATION", Short: "Send a notification that failed or was dropped again", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := strconv.ParseInt(args[0], 10, 64)
			if err != nil || id <= 0 {
				return usageError{fmt.Errorf("%q is not the ID of a notification; see rgpt notification list", args[0])}
			}
			return a.with(cmd.Context(), 0, func(h backend.Backend) error {
				n, err := h.ResendNotification(cmd.Context(), id, caller())
				if err != nil {
					return err
				}
				if a.json {
					a.printJSON(n)
				} else {
					fmt.Fprintf(a.out, "The notification %d will be sent again on the channel %s\n", n.ID, terminal.Clean(n.Channel))
				}
				return nil
			})
		},
	}
}

func newNotificationBrowsers(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "browsers", Short: "List the browsers that are notified, oldest first", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd.Context(), 0, func(h backend.Backend) error {
				list, err := h.Browsers(cmd.Context())
				if err != nil {
					return err
				}
				printList(a, "browsers", list, "No browser is notified.", "ID\tCHANNEL\tPERSON\tBROWSER\tSERVICE\tON\tPROJECTS\tSINCE", func(w io.Writer, b notifications.Browser) {
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", b.ID, terminal.Clean(b.Channel), cmp.Or(terminal.Clean(b.By), "-"), cmp.Or(terminal.Clean(b.Browser), "-"), terminal.Clean(b.Service),
						cmp.Or(strings.Join(b.On, ","), "all"), cmp.Or(terminal.Clean(strings.Join(b.Projects, ",")), "all"), b.CreatedAt.UTC().Format(time.RFC3339))
				})
				return nil
			})
		},
	}
}

func newNotificationRemoveBrowser(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "remove-browser ID", Short: "Stop notifying a browser", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd.Context(), 0, func(h backend.Backend) error {
				if err := h.RemoveBrowser(cmd.Context(), args[0], caller()); err != nil {
					return err
				}
				if a.json {
					a.printJSON(map[string]any{"removed": args[0]})
				} else {
					fmt.Fprintf(a.out, "Removed browser %s\n", terminal.Clean(args[0]))
				}
				return nil
			})
		},
	}
}

func newNotificationKeys(a *app) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use: "keys", Short: "Make a private key with which the server identifies itself to push services", Args: noArgs,
		Long: `Makes a private key (VAPID) for a notification channel of the kind push, and prints it, or writes it
to a new file that only you can read. The server derives the public key from it. With another key, all
browsers must subscribe again.`,
		Example: `  rgpt notification keys --out /etc/rgpt/push.key`,
		RunE: func(*cobra.Command, []string) error {
			key, err := ecdh.P256().GenerateKey(rand.Reader)
			if err != nil {
				return fmt.Errorf("make a key: %w", err)
			}
			text := base64.RawURLEncoding.EncodeToString(key.Bytes())
			if file != "" {
				return a.writeKey(file, text)
			}
			if a.json {
				a.printJSON(map[string]string{"private_key": text})
			} else {
				fmt.Fprintln(a.out, text)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&file, "out", "", "new file for the key")
	return cmd
}

// writeKey writes a key to a file that does not exist yet.
func (a *app) writeKey(file, key string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("create the file for the key: %w", err)
	}
	_, err = f.WriteString(key + "\n")
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write the key: %w", err)
	}
	if a.json {
		a.printJSON(map[string]string{"file": file})
	} else {
		fmt.Fprintf(a.out, "The key is in %s; set key_file of the channel to it\n", terminal.Clean(file))
	}
	return nil
}
