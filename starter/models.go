package main

import (
	"context"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/terminal"
)

func newModels(a *app) *cobra.Command {
	var check bool
	cmd := &cobra.Command{
		Use: "models", Short: "Show model providers, known models, and each agent's model", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			known, err := a.models(cmd.Context(), check)
			if err != nil {
				return err
			}
			if a.json {
				a.printJSON(known)
				return nil
			}
			w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "PROVIDER\tKIND\tADDRESS\tKEY FROM\tSTATE")
			for _, p := range known.Providers {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", p.Name, p.Kind, p.Address, p.Key, p.State)
			}
			_ = w.Flush()
			fmt.Fprintln(a.out)
			w = tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "AGENT\tMODEL\tSET BY")
			for _, agent := range contract.Agents() {
				if c, ok := known.Agents[agent]; ok {
					fmt.Fprintf(w, "%s\t%s/%s\t%s\n", agent, c.Provider, c.Model, known.Settings[agent])
				}
			}
			_ = w.Flush()
			if known.Unset != "" {
				fmt.Fprintln(a.out, "\n"+terminal.CleanLines(known.Unset))
			}
			fmt.Fprintln(a.out)
			w = tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "PROVIDER\tMODEL\tCONTEXT\tOUTPUT\tUSD/M IN\tUSD/M OUT")
			for _, e := range known.Catalogue {
				fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%g\t%g\n", e.Provider, e.Model, e.ContextWindow, e.MaxOutput, e.PriceIn, e.PriceOut)
			}
			return w.Flush()
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "check that each provider responds and accepts its key")
	return cmd
}

// models returns the known models. No component of the stack needs to be running.
func (a *app) models(ctx context.Context, check bool) (control.Models, error) {
	if a.server() == "" {
		cfg, err := a.config()
		if err != nil {
			return control.Models{}, err
		}
		return (&control.Runs{Config: cfg}).Models(ctx, check), nil
	}
	h, err := a.open(ctx, 0)
	if err != nil {
		return control.Models{}, err
	}
	defer h.Close()
	return h.Models(ctx, check)
}

// modelFlags are the flags that select another model.
type modelFlags struct {
	model       string
	temperature float64
	cmd         *cobra.Command
}

// add adds the flags to a command; model and temperature are their usage texts.
func (m *modelFlags) add(cmd *cobra.Command, model, temperature string) {
	m.cmd = cmd
	cmd.Flags().StringVar(&m.model, "model", "", model)
	cmd.Flags().Float64Var(&m.temperature, "temperature", 0, temperature)
}

// temperatureFlag returns the value of --temperature, nil if the flag was not set.
func (m *modelFlags) temperatureFlag() *float64 {
	if !m.cmd.Flags().Changed("temperature") {
		return nil
	}
	return &m.temperature
}

// check rejects a malformed model name.
func (m *modelFlags) check() error {
	if m.model == "" {
		return nil
	}
	return control.CheckModel(m.model)
}
