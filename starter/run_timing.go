package main

import (
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/timing"
)

func newRunTiming(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "timing RUN", Short: "Tell where a run's time went: model, tools, tests, git, queue, orchestration", Args: oneRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := runID(args[0])
			if err != nil {
				return err
			}
			p, err := a.open(cmd.Context(), needTemporal)
			if err != nil {
				return err
			}
			defer p.Close()
			run, err := p.Store.Run(cmd.Context(), id)
			if err != nil {
				return err
			}
			rows, err := p.Store.Timing(cmd.Context(), id)
			if err != nil {
				return err
			}
			plan, err := p.Store.Plan(cmd.Context(), id)
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				return err
			}
			history, err := timing.ReadHistory(cmd.Context(), p.Temporal, id, plan)
			if err != nil {
				return err
			}
			t := timing.Of(run, plan, rows, history.Git, history.Queue)
			if a.json {
				a.printJSON(t)
				return nil
			}
			w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "WHERE\tCALLS\tBUSY\tOF THE WALL TIME\t")
			for _, part := range t.Parts {
				fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%.0f %%\n", part.Name, part.Count, ms(part.BusyMS), ms(part.WallMS), 100*float64(part.WallMS)/float64(max(t.WallMS, 1)))
			}
			fmt.Fprintf(w, "wall\t\t\t%s\t\n", ms(t.WallMS))
			fmt.Fprintf(w, "critical path of agents\t\t\t%s\tratio %.2f\n", ms(t.CriticalMS), t.Ratio)
			return w.Flush()
		},
	}
}

func ms(n int64) string { return (time.Duration(n) * time.Millisecond).String() }
