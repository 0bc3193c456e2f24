package main

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/timing"
	"github.com/rocketgpt/orchestrator/internal/workerhost"
)

func newRunTiming(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "timing RUN", Short: "Tell where a run's time went: model, tools, tests, git, queue, orchestration", Args: oneRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := runID(args[0])
			if err != nil {
				return err
			}
			p, err := a.open(cmd.Context(), 0)
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
			history := a.history(cmd.Context(), p, id, plan)
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

// historyTime is how long to wait for Temporal, without which a run's timing is
// still worth reading.
const historyTime = 10 * time.Second

// history reads what only the run's history knows: work on git and waiting in
// queues. Where Temporal does not answer, or has forgotten the run, both count
// as orchestration.
func (a *app) history(ctx context.Context, p *parts, id int64, plan contract.Plan) timing.History {
	ctx, cancel := context.WithTimeout(ctx, historyTime)
	defer cancel()
	none := timing.History{Git: timing.Group{Name: timing.Git}, Queue: timing.Group{Name: timing.Queue}}
	c, err := workerhost.Connect(ctx, p.Config.Temporal, quiet())
	if err == nil {
		defer c.Close()
		var h timing.History
		if h, err = timing.ReadHistory(ctx, c, id, plan); err == nil {
			return h
		}
	}
	fmt.Fprintln(a.errs, "Note: git and queue are counted as orchestration, because the run's history could not be read:", cleanLines(fault.Of(err).Message))
	return none
}

func ms(n int64) string { return (time.Duration(n) * time.Millisecond).String() }
