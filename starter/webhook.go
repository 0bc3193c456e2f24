package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rocketgpt/orchestrator/internal/backend"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/terminal"
	"github.com/rocketgpt/orchestrator/internal/webhook"
)

func newWebhook(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use: "webhook", Short: "Send events to a URL",
		Long: `The server sends the events of runs as signed CloudEvents, each at least once; docs/API.md
describes how a receiver verifies the signature. Private addresses are rejected unless
server.webhooks.allow_private is set.`,
	}
	cmd.AddCommand(newWebhookAdd(a), newWebhookList(a), newWebhookTest(a), newWebhookDeliveries(a), newWebhookRemove(a))
	return cmd
}

// oneWebhook requires a webhook ID as the only argument.
func oneWebhook(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("%s needs the ID of one webhook; see rgpt webhook list", cmd.CommandPath())
	}
	_, err := webhookID(args[0])
	return err
}

func webhookID(arg string) (int64, error) {
	id, err := strconv.ParseInt(arg, 10, 64)
	if err != nil || id <= 0 {
		return 0, usageError{fmt.Errorf("%q is not a webhook ID; see rgpt webhook list", arg)}
	}
	return id, nil
}

func newWebhookAdd(a *app) *cobra.Command {
	var r webhook.Registration
	var secretFile string
	cmd := &cobra.Command{
		Use: "add URL", Short: "Register a URL for future events", Args: cobra.ExactArgs(1),
		Example: `  rgpt webhook add https://ci.example.com/hooks/rgpt
  rgpt webhook add https://chat.example.com/x --event run.failed --event 'approval.*' --project app`,
		RunE: func(cmd *cobra.Command, args []string) error {
			r.URL, r.By = args[0], caller()
			if secretFile != "" {
				content, err := os.ReadFile(secretFile)
				if err != nil {
					return usageError{fmt.Errorf("read the secret: %w", err)}
				}
				r.Secret = store.Secret(strings.TrimSpace(string(content)))
			}
			return a.with(cmd.Context(), 0, func(h backend.Backend) error {
				made, err := h.RegisterWebhook(cmd.Context(), r)
				if err != nil {
					return err
				}
				a.printMade(made)
				return nil
			})
		},
	}
	cmd.Flags().StringSliceVar(&r.Events, "event", nil, "event type or pattern such as run.*; repeatable (default: all)")
	cmd.Flags().StringVar(&r.Project, "project", "", "only events from this project's runs")
	cmd.Flags().StringVar(&r.Description, "description", "", "webhook description")
	cmd.Flags().StringVar(&r.Name, "name", "", "name by which reminders name it as a receiver (execution.approval.reminders)")
	cmd.Flags().StringVar(&secretFile, "secret-file", "", "file with the secret, whsec_… (default: generated)")
	cmd.Flags().StringVar(&r.Key, "idempotency-key", "", "requests with the same key create only one webhook")
	return cmd
}

// printMade prints a new webhook with its secret, which is shown only this once.
func (a *app) printMade(made webhook.Created) {
	if a.json {
		a.printJSON(struct {
			store.Webhook
			Secret string `json:"secret"`
		}{made.Webhook, made.Secret.Reveal()})
		return
	}
	fmt.Fprintf(a.out, "Webhook %d sends to %s\nSecret (shown only once): %s\n", made.Webhook.ID, terminal.Clean(made.Webhook.URL), made.Secret.Reveal())
}

func newWebhookList(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List webhooks and their status", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd.Context(), 0, func(h backend.Backend) error {
				list, err := h.Webhooks(cmd.Context())
				if err == nil {
					a.printWebhooks(list)
				}
				return err
			})
		},
	}
}

func (a *app) printWebhooks(list []store.Webhook) {
	printList(a, "webhooks", list, "No webhooks. Register one: rgpt webhook add URL", "WEBHOOK\tNAME\tSTATE\tPENDING\tEVENTS\tPROJECT\tURL", func(w io.Writer, h store.Webhook) {
		events := cmp.Or(strings.Join(h.Events, ","), "all")
		fmt.Fprintf(w, "%d\t%s\t%s\t%d\t%s\t%s\t%s\n", h.ID, terminal.Clean(cmp.Or(h.Name, "-")), terminal.Clean(webhookHealth(h)), h.Pending, terminal.Clean(events), terminal.Clean(h.Project), terminal.Clean(h.URL))
	})
}

// webhookHealth describes the state of a webhook.
func webhookHealth(h store.Webhook) string {
	switch {
	case !h.Enabled && h.DisabledReason != "":
		return "disabled: " + h.DisabledReason
	case !h.Enabled:
		return "disabled"
	case h.FailingSince != nil:
		return "failing for " + age(*h.FailingSince)
	default:
		return "ok"
	}
}

func newWebhookTest(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "test WEBHOOK", Short: "Send a test event and show the result", Args: oneWebhook,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := webhookID(args[0])
			if err != nil {
				return err
			}
			return a.with(cmd.Context(), 0, func(h backend.Backend) error {
				d, err := h.TestWebhook(cmd.Context(), id)
				if err != nil {
					return err
				}
				a.printTest(d)
				if d.Status != store.DeliveryDelivered {
					return ended{exitError}
				}
				return nil
			})
		},
	}
}

func (a *app) printTest(d store.Delivery) {
	switch {
	case a.json:
		a.printJSON(d)
	case d.Status == store.DeliveryDelivered:
		fmt.Fprintf(a.out, "Delivered: HTTP %d after %s\n", d.ResponseCode, time.Duration(d.DurationMS)*time.Millisecond)
	default:
		fmt.Fprintf(a.out, "Not delivered: %s\n", terminal.Clean(d.Error))
	}
}

func newWebhookDeliveries(a *app) *cobra.Command {
	var f store.DeliveryFilter
	var status string
	cmd := &cobra.Command{
		Use: "deliveries WEBHOOK", Short: "List deliveries, newest first", Args: oneWebhook,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := webhookID(args[0])
			if err != nil {
				return err
			}
			f.Status = store.DeliveryStatus(status)
			if err := oneOf("status", f.Status, store.DeliveryStatuses()); err != nil {
				return err
			}
			return a.with(cmd.Context(), 0, func(h backend.Backend) error {
				list, err := h.Deliveries(cmd.Context(), id, f)
				if err == nil {
					a.printDeliveries(list)
				}
				return err
			})
		},
	}
	cmd.Flags().StringVar(&status, "status", "", "only deliveries with this status: pending, sending, delivered or failed")
	cmd.Flags().IntVar(&f.Limit, "limit", 50, "maximum number of results")
	cmd.Flags().Int64Var(&f.Before, "before", 0, "only deliveries with an ID lower than this")
	complete(cmd, "status", store.DeliveryStatuses())
	return cmd
}

func (a *app) printDeliveries(list []store.Delivery) {
	printList(a, "deliveries", list, "", "DELIVERY\tMESSAGE\tEVENT\tSTATUS\tATTEMPTS\tRESPONSE\tNEXT TRY\tERROR", func(w io.Writer, d store.Delivery) {
		next := ""
		if d.NextTry != nil {
			next = d.NextTry.UTC().Format(time.RFC3339)
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%d\t%d\t%s\t%s\n", d.ID, d.Message, terminal.Clean(d.EventType), d.Status, d.Attempts, d.ResponseCode, next, terminal.Clean(d.Error))
	})
}

func newWebhookRemove(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "remove WEBHOOK", Short: "Remove a webhook and its delivery log", Args: oneWebhook,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := webhookID(args[0])
			if err != nil {
				return err
			}
			return a.with(cmd.Context(), 0, func(h backend.Backend) error {
				if err := h.RemoveWebhook(cmd.Context(), id, caller()); err != nil {
					return err
				}
				if a.json {
					a.printJSON(map[string]any{"removed": id})
				} else {
					fmt.Fprintf(a.out, "Removed webhook %d\n", id)
				}
				return nil
			})
		},
	}
}
