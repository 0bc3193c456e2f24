package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/backend"
	"github.com/rocketgpt/orchestrator/internal/health"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/internal/terminal"
)

// agentsEvery is the interval at which --watch refreshes.
const agentsEvery = 2 * time.Second

func newAgents(a *app) *cobra.Command {
	var all, watch bool
	cmd := &cobra.Command{
		Use: "agents", Short: "Show the workers' agents, their status and current work, and the task queues", Args: noArgs,
		Long: `Shows each role of each worker: its health (with the reason if it is unhealthy), its
current work, and the number of tasks waiting in its queue. Offline agents are counted;
--all lists them.`,
		Example: `  rgpt agents
  rgpt agents --watch
  rgpt agents --json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := a.open(cmd.Context(), backend.NeedTemporal)
			if err != nil {
				return err
			}
			defer p.Close()
			for {
				r, err := p.Agents(cmd.Context())
				if err != nil {
					return err
				}
				a.printAgents(r, all)
				if !watch || !pause(cmd.Context(), agentsEvery) {
					return nil
				}
				if !a.json {
					fmt.Fprintln(a.out)
				}
			}
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "include offline agents")
	cmd.Flags().BoolVar(&watch, "watch", false, "refresh until interrupted")
	return cmd
}

// pause waits, and reports whether to continue.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

func (a *app) printAgents(r health.Report, all bool) {
	if a.json {
		a.printJSON(r)
		return
	}
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ROLE\tHEALTH\tWORKER\tVERSION\tCPU\tMEMORY\tHEARTBEAT\tDONE\tFAILED\tWORKS ON")
	offline := 0
	for _, agent := range r.Agents {
		if agent.HealthStatus == contract.HealthOffline && !all {
			offline++
			continue
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%.2f\t%d MiB\t%s ago\t%d\t%d\t%s\n", terminal.Clean(agent.Type), agent.HealthStatus, terminal.Clean(agent.Worker), terminal.Clean(agent.Version),
			agent.CPUUsage, agent.MemoryUsage>>20, seconds(agent.Silent), agent.TasksDone, agent.TasksFailed, worksOn(agent))
	}
	_ = w.Flush()
	if offline > 0 {
		fmt.Fprintf(a.out, "%d more offline (--all shows them).\n", offline)
	}
	for _, agent := range r.Agents {
		if agent.Detail != "" && agent.HealthStatus == contract.HealthDegraded {
			fmt.Fprintf(a.out, "%s: %s\n", terminal.Clean(agent.Name), terminal.Clean(agent.Detail))
		}
	}
	for _, role := range contract.WorkerRoles() {
		if words := r.Roles[role.Name]; words != health.OK {
			fmt.Fprintf(a.out, "%s: %s\n", role.Name, words)
		}
	}
	fmt.Fprintln(a.out)
	if r.QueuesProblem != "" {
		fmt.Fprintln(a.out, "Queues: "+r.QueuesProblem)
	}
	fmt.Fprintln(w, "QUEUE\tWAITING\tOLDEST\tWORKERS\tADDED/s\tDISPATCHED/s")
	for _, q := range r.Queues {
		fmt.Fprintf(w, "%s\t%d\t%s\t%d\t%.1f\t%.1f\n", q.Name, q.Backlog, seconds(q.BacklogAge), q.Pollers, q.AddRate, q.DispatchRate)
	}
	_ = w.Flush()
}

func seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(time.Second).String()
}

// worksOn names the runs and steps that an agent is working on.
func worksOn(agent views.Agent) string {
	var names []string
	for _, work := range agent.Work {
		name := fmt.Sprintf("run %d", work.RunID)
		if work.Step != "" {
			name += " " + terminal.Clean(work.Step)
		}
		if work.Waits {
			name += " (waits for a core)"
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}
