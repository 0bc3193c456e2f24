package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/backend"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store/modelchoices"
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
					fmt.Fprintf(w, "%s\t%s\t%s\n", agent, terminal.Clean(choiceText(&c)), terminal.Clean(known.Settings[agent]))
				}
			}
			_ = w.Flush()
			for _, p := range known.Problems {
				fmt.Fprintln(a.out, "\n"+terminal.CleanLines(p))
			}
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
	cmd.AddCommand(newModelsSet(a), newModelsUnset(a), newModelsHistory(a))
	return cmd
}

// models returns the known models. No component of the stack needs to be running.
func (a *app) models(ctx context.Context, check bool) (control.Models, error) {
	if a.server() == "" {
		cfg, err := a.config()
		if err != nil {
			return control.Models{}, err
		}
		if cfg.Database.URL == "" {
			return (&control.Runs{Config: cfg}).Models(ctx, check), nil
		}
	}
	h, err := a.open(ctx, 0)
	if err != nil && a.server() == "" {
		return a.configuredModels(ctx, check, err)
	}
	if err != nil {
		return control.Models{}, err
	}
	defer h.Close()
	return h.Models(ctx, check)
}

// configuredModels returns the models according to the configuration alone, because the database, with
// the models that people chose, cannot be read.
func (a *app) configuredModels(ctx context.Context, check bool, why error) (control.Models, error) {
	cfg, err := a.config()
	if err != nil {
		return control.Models{}, err
	}
	out := (&control.Runs{Config: cfg}).Models(ctx, check)
	out.Problems = append(out.Problems, "The models that people chose are unknown, so only the configuration is shown: "+fault.Of(why).Message)
	return out, nil
}

// modelFlags are the flags that select another model.
type modelFlags struct {
	model       string
	temperature float64
	effort      string
	cmd         *cobra.Command
}

// add adds the flags to a command; model and temperature are their usage texts.
func (m *modelFlags) add(cmd *cobra.Command, model, temperature string) {
	m.cmd = cmd
	cmd.Flags().StringVar(&m.model, "model", "", model)
	cmd.Flags().Float64Var(&m.temperature, "temperature", 0, temperature)
}

// addEffort adds the flag that selects the amount of reasoning.
func (m *modelFlags) addEffort(cmd *cobra.Command) {
	cmd.Flags().StringVar(&m.effort, "effort", "", "amount of reasoning: low, medium or high (default: the provider's)")
}

// temperatureFlag returns the value of --temperature, nil if the flag was not set.
func (m *modelFlags) temperatureFlag() *float64 {
	if !m.cmd.Flags().Changed("temperature") {
		return nil
	}
	return &m.temperature
}

// check rejects a malformed model name, and values that no model accepts.
func (m *modelFlags) check() error {
	if err := control.CheckSampling(m.temperatureFlag(), contract.Effort(m.effort)); err != nil || m.model == "" {
		return err
	}
	return control.CheckModel(m.model)
}

func newModelsSet(a *app) *cobra.Command {
	var model modelFlags
	cmd := &cobra.Command{
		Use: "set AGENT --model PROVIDER/MODEL", Short: "Choose an agent's model for new runs and pipelines",
		Long: `Chooses the model of an agent (planner, builder, repair, alpha, beta or gamma) for new runs
and pipelines, as the page Settings does. The choice overrides rgpt.yaml, but not a
repository's own rgpt.yaml or the options of a run. Existing runs keep their models; to
switch one: rgpt run switch-model.`,
		Example: `  rgpt models set builder --model anthropic/claude-sonnet-4-5
  rgpt models set planner --model openai/gpt-5 --effort high`,
		Args: oneAgent,
		RunE: func(cmd *cobra.Command, args []string) error {
			if model.model == "" {
				return usageError{errors.New("models set needs --model provider/model")}
			}
			if err := model.check(); err != nil {
				return err
			}
			n := control.NewModelChoice{Model: model.model, Temperature: model.temperatureFlag(), Effort: contract.Effort(model.effort), By: caller()}
			return a.chooseModel(cmd.Context(), func(h backend.Backend) (control.AgentModel, error) {
				return h.SetAgentModel(cmd.Context(), contract.Agent(args[0]), n)
			})
		},
	}
	model.add(cmd, "model to use, as provider/model", "sampling temperature")
	model.addEffort(cmd)
	return cmd
}

func newModelsUnset(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "unset AGENT", Short: "Remove the choice for an agent, so that the configuration applies", Args: oneAgent,
		Example: "  rgpt models unset builder",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.chooseModel(cmd.Context(), func(h backend.Backend) (control.AgentModel, error) {
				return h.UnsetAgentModel(cmd.Context(), contract.Agent(args[0]), nil, caller())
			})
		},
	}
}

// chooseModel changes the choice for an agent, and prints the result.
func (a *app) chooseModel(ctx context.Context, change func(backend.Backend) (control.AgentModel, error)) error {
	return a.with(ctx, 0, func(h backend.Backend) error {
		m, err := change(h)
		switch {
		case err != nil:
			return err
		case a.json:
			a.printJSON(m)
		default:
			fmt.Fprintln(a.out, terminal.Clean(m.Message))
		}
		return nil
	})
}

func newModelsHistory(a *app) *cobra.Command {
	var agent string
	var limit int
	cmd := &cobra.Command{
		Use: "history", Short: "Show who changed the agents' models, newest first", Args: noArgs,
		Example: `  rgpt models history
  rgpt models history --agent builder --json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 {
				return usageError{fmt.Errorf("--limit %d is too small; must be at least 1", limit)}
			}
			return a.with(cmd.Context(), 0, func(h backend.Backend) error {
				list, err := h.ModelChanges(cmd.Context(), contract.Agent(agent), limit)
				if err == nil {
					printList(a, "changes", list, "Nobody has chosen a model; the configuration applies.", "TIME\tBY\tAGENT\tFROM\tTO", func(w io.Writer, c modelchoices.Change) {
						fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", c.At.UTC().Format(time.RFC3339), terminal.Clean(c.By), c.Agent, terminal.Clean(choiceText(c.From)), terminal.Clean(choiceText(c.To)))
					})
				}
				return err
			})
		},
	}
	cmd.Flags().StringVar(&agent, "agent", "", "only this agent")
	cmd.Flags().IntVar(&limit, "limit", 50, "maximum number of results")
	return cmd
}

// choiceText describes a model with its temperature and effort; nil: as configured.
func choiceText(m *contract.ModelChoice) string {
	if m == nil {
		return "as configured"
	}
	return control.DescribeModel(*m)
}

func oneAgent(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("%s needs the name of one agent: planner, builder, repair, alpha, beta or gamma", cmd.CommandPath())
	}
	return nil
}
