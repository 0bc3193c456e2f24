package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/setup"
)

func newModels(a *app) *cobra.Command {
	var check bool
	cmd := &cobra.Command{
		Use: "models", Short: "Show model providers, what is known of models, and which agent uses which", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.config()
			if err != nil {
				return err
			}
			type provider struct {
				Name    string `json:"name"`
				Kind    string `json:"kind"`
				Address string `json:"address"`
				Key     string `json:"key"` // where it comes from
				State   string `json:"state,omitempty"`
			}
			var providers []provider
			for _, p := range setup.Providers(cfg) {
				row := provider{Name: p.Name, Kind: string(p.Kind), Address: p.Address(), Key: p.KeySource()}
				if check {
					row.State = "ok"
					if err := model.Probe(cmd.Context(), p); err != nil {
						row.State = fault.Of(err).Message
					}
				}
				providers = append(providers, row)
			}
			choices, unset := setup.Models(cfg)
			if a.json {
				a.printJSON(map[string]any{"providers": providers, "agents": choices, "catalogue": setup.Catalogue(cfg)})
				return nil
			}
			w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "PROVIDER\tKIND\tADDRESS\tKEY FROM\tSTATE")
			for _, p := range providers {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", p.Name, p.Kind, p.Address, p.Key, p.State)
			}
			fmt.Fprintln(w, "\nAGENT\tMODEL")
			for _, agent := range []contract.Agent{contract.AgentPlanner, contract.AgentBuilder, contract.AgentTester, contract.AgentReleaser, contract.AgentAnalyzer, contract.AgentRepair} {
				if c, ok := choices[agent]; ok {
					fmt.Fprintf(w, "%s\t%s/%s\n", agent, c.Provider, c.Model)
				}
			}
			_ = w.Flush()
			if unset != nil {
				fmt.Fprintln(a.out, "\n"+fault.Of(unset).Message)
			}
			fmt.Fprintln(a.out)
			w = tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "PROVIDER\tMODEL\tCONTEXT\tOUTPUT\tUSD/M IN\tUSD/M OUT")
			for _, e := range setup.Catalogue(cfg) {
				fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%g\t%g\n", e.Provider, e.Model, e.ContextWindow, e.MaxOutput, e.PriceIn, e.PriceOut)
			}
			return w.Flush()
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "see whether each provider answers and accepts its key")
	return cmd
}
