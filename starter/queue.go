package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/backend"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/store/mergequeues"
	"github.com/rocketgpt/orchestrator/internal/terminal"
)

func newQueue(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use: "queue", Short: "Merge pull requests by a merge queue",
		Long: `A merge queue tests pull requests together, on top of their base, and merges those that pass. Each base
of a repository on a forge has one. docs/FORGES.md describes it.`,
	}
	onPullRequest := func(action contract.QueueAction, use, short string) *cobra.Command {
		var reason string
		cmd := &cobra.Command{
			Use: use, Short: short, Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				return a.commandQueue(cmd, control.QueueRequest{Action: action, PullRequest: args[0], Reason: reason})
			},
		}
		cmd.Flags().StringVar(&reason, "reason", "", "reason to record")
		return cmd
	}
	cmd.AddCommand(newQueueList(a),
		onPullRequest(contract.QueueAdd, "add URL", "Add a pull request to the merge queue of its base"),
		onPullRequest(contract.QueueRemove, "remove URL", "Remove a pull request from its merge queue"),
		onPullRequest(contract.QueueSkip, "skip URL", "Move a pull request to the end of its merge queue"),
		newQueuePause(a, contract.QueuePause, "Stop testing and merging, also what is tested at the moment"),
		newQueuePause(a, contract.QueueResume, "Continue a paused merge queue"),
	)
	return cmd
}

// queueFlags adds the flags that name a queue.
func queueFlags(cmd *cobra.Command, q *contract.QueueRef) {
	cmd.Flags().StringVar(&q.Forge, "forge", "", "name of the forge in the configuration")
	cmd.Flags().StringVar(&q.Repo, "repository", "", "repository on the forge, such as team/app")
	cmd.Flags().StringVar(&q.Base, "base", "", "branch into which pull requests are merged")
}

func newQueuePause(a *app, action contract.QueueAction, short string) *cobra.Command {
	r := control.QueueRequest{Action: action}
	cmd := &cobra.Command{
		Use: string(action), Short: short, Args: noArgs,
		Example: fmt.Sprintf("  rgpt queue %s --repository team/app --reason \"a release\"", action),
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.commandQueue(cmd, r) },
	}
	queueFlags(cmd, &r.Queue)
	cmd.Flags().StringVar(&r.Reason, "reason", "", "reason to record")
	return cmd
}

// commandQueue carries out a command to a merge queue, and prints the answer.
func (a *app) commandQueue(cmd *cobra.Command, r control.QueueRequest) error {
	r.By = caller()
	return a.with(cmd.Context(), backend.NeedTemporal, func(h backend.Backend) error {
		ack, err := h.CommandQueue(cmd.Context(), r)
		switch {
		case err != nil:
			return err
		case a.json:
			a.printJSON(ack)
		case ack.Position > 0:
			fmt.Fprintf(a.out, "%s; its position is %d\n", terminal.Clean(ack.Message), ack.Position)
		default:
			fmt.Fprintln(a.out, terminal.Clean(ack.Message))
		}
		return nil
	})
}

func newQueueList(a *app) *cobra.Command {
	f := mergequeues.Filter{}
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"show"}, Short: "Show merge queues and the pull requests in them", Args: noArgs,
		Example: `  rgpt queue list
  rgpt queue list --repository team/app --ended 50`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd.Context(), 0, func(h backend.Backend) error {
				queues, err := h.MergeQueues(cmd.Context(), f)
				switch {
				case err != nil:
					return err
				case a.json:
					a.printJSON(map[string]any{"merge_queues": queues})
				case len(queues) == 0:
					fmt.Fprintln(a.out, "No merge queues.")
				}
				if !a.json {
					for _, q := range queues {
						a.printQueue(q)
					}
				}
				return nil
			})
		},
	}
	queueFlags(cmd, &f.QueueRef)
	cmd.Flags().IntVar(&f.Ended, "ended", 10, "maximum number of pull requests of each queue that have left it, up to 200")
	return cmd
}

// printQueue prints a merge queue: what is in it, and what left it last.
func (a *app) printQueue(q mergequeues.MergeQueue) {
	fmt.Fprintf(a.out, "%s: %d waiting, %d decided by %d check runs\n", terminal.Clean(q.String()), len(q.Entries), q.Decided, q.CheckRuns)
	if q.PausedAt != nil {
		fmt.Fprintf(a.out, "  paused by %s: %s\n", terminal.Clean(q.PausedBy), terminal.Clean(q.PauseReason))
	}
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	for _, e := range append(q.Entries, q.Ended...) {
		position := "-"
		if e.Position > 0 {
			position = fmt.Sprint(e.Position)
		}
		fmt.Fprintf(w, "  %s\t#%d\t%s\t%s\t%s\n", position, e.Number, e.State, terminal.Clean(e.Title), terminal.Clean(e.Reason))
	}
	_ = w.Flush()
}
