package main

import (
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

func newRunTiming(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "timing RUN", Short: "Tell where a run's time went: model, tools, tests, git, queue, orchestration", Args: oneRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := runID(args[0])
			if err != nil {
				return err
			}
			h, err := a.open(cmd.Context(), 0)
			if err != nil {
				return err
			}
			defer h.Close()
			t, err := h.Timing(cmd.Context(), id)
			if err != nil {
				return err
			}
			a.noteTiming(t)
			if a.json {
				a.printJSON(t.Timing)
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

// noteTiming says what is not known of a run's timing.
func (a *app) noteTiming(t control.Timing) {
	switch {
	case t.Note != "" && t.Unknown != nil:
		fmt.Fprintf(a.errs, "Note: %s: %s\n", t.Note, cleanLines(fault.Of(t.Unknown).Message))
	case t.Note != "":
		fmt.Fprintln(a.errs, "Note:", clean(t.Note))
	}
}

func ms(n int64) string { return (time.Duration(n) * time.Millisecond).String() }
