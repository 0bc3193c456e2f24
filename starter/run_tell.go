package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/backend"
	"github.com/rocketgpt/orchestrator/internal/store/messages"
	"github.com/rocketgpt/orchestrator/internal/terminal"
	"github.com/rocketgpt/orchestrator/server/ui"
)

func newRunTell(a *app) *cobra.Command {
	var step string
	cmd := &cobra.Command{
		Use: "tell RUN TEXT", Short: "Send a message to a run's agents, who get it with their next turn",
		Long: `Send a message to the agents of a run. The planner, the builder and the Repair agent get it with
their next turn, including agents that start later. An agent that is about to finish reads it first.

A message takes precedence over the plan, but does not change what agents may do.`,
		Example: `  rgpt run tell 42 "keep the old flag as an alias"
  rgpt run tell 42 --step step-002 "use the existing parser in internal/csv"`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 || strings.TrimSpace(args[1]) == "" {
				return usageError{fmt.Errorf("expected a run and a message in quotes, got %d arguments", len(args))}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.command(cmd.Context(), args[0], func(h backend.Backend, id int64) (contract.Ack, error) {
				return h.Tell(cmd.Context(), id, contract.Command{By: caller(), Text: args[1], Step: step})
			})
		},
	}
	cmd.Flags().StringVar(&step, "step", "", "only the agents of this step get the message")
	return cmd
}

func newRunMessages(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "messages RUN", Short: "List the messages to a run's agents, and which agents got them", Args: oneRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := runID(args[0])
			if err != nil {
				return err
			}
			return a.with(cmd.Context(), 0, func(h backend.Backend) error {
				all, err := h.Messages(cmd.Context(), id)
				if err == nil {
					a.printMessages(id, all)
				}
				return err
			})
		},
	}
}

func (a *app) printMessages(run int64, all []messages.Message) {
	none := fmt.Sprintf(`No messages. Send one: rgpt run tell %d "…"`, run)
	printList(a, "messages", all, none, "AGE\tFROM\tSTATE\tMESSAGE", func(w io.Writer, m messages.Message) {
		fmt.Fprintf(w, "%s\t%s\t%s\t%.200s\n", age(m.CreatedAt), terminal.Clean(m.By), terminal.Clean(ui.MessageState(m)), terminal.Clean(m.Text))
	})
}
