package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/backend"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/model/modelsource"
	"github.com/rocketgpt/orchestrator/internal/modelcheck"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/modelchoices"
	"github.com/rocketgpt/orchestrator/internal/terminal"
)

func newModels(a *app) *cobra.Command {
	var check, all bool
	var deep deepCheck
	cmd := &cobra.Command{
		Use: "models [PROVIDER/MODEL]", Short: "Show model providers, known models, and each agent's model", Args: optionalModels,
		Long: `Shows the model providers, the catalogue of models, and the model of each agent.

--check asks each provider, without using tokens, whether it accepts its key and has the models
of the agents. --check --deep tries by small calls what models can do: a plain response,
streaming, a temperature, reasoning effort, enforced schemas, tools, several of them at once,
pictures, the prompt cache, and embeddings. By default, it tries the models of all agents and
those that take over for them. All calls together cost at most --max-cost; what could exceed it
is skipped. What was found out is stored over the catalogue: later calls use it.`,
		Example: `  rgpt models --check
  rgpt models --check --deep anthropic/claude-sonnet-5 --max-cost 0.05
  rgpt models --all
  rgpt models update --file api.json --dry-run`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if deep.models = append(deep.models, args...); deep.on {
				return a.checkModels(cmd.Context(), deep)
			}
			if len(deep.models) > 0 || cmd.Flags().Changed("max-cost") {
				return usageError{errors.New("a model and --max-cost are only for rgpt models --check --deep")}
			}
			known, err := a.models(cmd.Context(), check)
			if err != nil {
				return err
			}
			if a.json {
				a.printJSON(known)
				return nil
			}
			a.printModels(known, all)
			return nil
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "check that each provider responds, accepts its key, and has the models of the agents")
	deep.add(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "show all models of the catalogue, not only the newest of each configured provider")
	cmd.AddCommand(newModelsSet(a), newModelsUnset(a), newModelsHistory(a))
	cmd.AddCommand(local(newModelsUpdate(a))...)
	return cmd
}

// newestModels is the number of models of each provider that are shown without --all.
const newestModels = 12

func (a *app) printModels(known control.Models, all bool) {
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PROVIDER\tKIND\tADDRESS\tKEY FROM\tLIMITS\tBREAKER\tSTATE")
	for _, p := range known.Providers {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", p.Name, p.Kind, p.Address, p.Key, limitsOf(p), terminal.Clean(known.Breaker(p.Name)), p.State)
	}
	_ = w.Flush()
	fmt.Fprintln(a.out)
	w = tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "AGENT\tMODEL\tUSD/M IN, OUT\tSET BY\tSTATE")
	for _, agent := range contract.Agents() {
		if c, ok := known.Agents[agent]; ok {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", agent, terminal.Clean(choiceText(&c)), priceOf(known.Prices[agent]), terminal.Clean(known.Settings[agent]), terminal.Clean(known.States[agent]))
		}
	}
	_ = w.Flush()
	for _, p := range known.Problems {
		fmt.Fprintln(a.out, "\n"+terminal.CleanLines(p))
	}
	if known.Unset != "" {
		fmt.Fprintln(a.out, "\n"+terminal.CleanLines(known.Unset))
	}
	for i, b := range known.Budgets {
		if i == 0 {
			fmt.Fprintln(a.out)
		}
		a.printBudget(b)
	}
	fmt.Fprintln(a.out)
	shown, hidden := known.Catalogue, 0
	if !all {
		shown, hidden = newestOf(known.Catalogue, known.Providers)
	}
	w = tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PROVIDER\tMODEL\tCONTEXT\tOUTPUT\tUSD/M IN\tUSD/M OUT\tRELEASED\tUNTIL\tCHECKED\tSOURCE")
	for _, e := range shown {
		in, out := fmt.Sprintf("%g", e.PriceIn), fmt.Sprintf("%g", e.PriceOut)
		if e.Assumed {
			in, out = "unknown", "unknown"
		}
		for _, text := range []string{e.Provider, e.Model, fmt.Sprint(e.ContextWindow), fmt.Sprint(e.MaxOutput), in, out, e.Released, e.Deprecated, e.Checked} {
			fmt.Fprint(w, terminal.Clean(text), "\t")
		}
		fmt.Fprintln(w, terminal.Clean(strings.TrimSpace(e.Source+" "+e.SourceDate)))
	}
	_ = w.Flush()
	a.printScores(shown)
	if hidden > 0 {
		fmt.Fprintf(a.out, "%d older models, and those of other providers, are not shown; show them with --all.\n", hidden)
	}
	if known.Missing != "" {
		fmt.Fprintln(a.out, "Without what this installation has stored about models:", terminal.CleanLines(known.Missing))
	}
}

// deepCheck are the flags of a check of capabilities.
type deepCheck struct {
	on      bool
	models  []string
	maxCost float64
}

// defaultCheckCost is the most that a check of capabilities costs by default, in US dollars.
const defaultCheckCost = 0.01

func (d *deepCheck) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&d.on, "deep", false, "with --check: try by small calls what models can do; this costs money, at most --max-cost")
	cmd.Flags().StringArrayVar(&d.models, "model", nil, "with --check --deep: model to check, as provider/model; may be repeated (default: the models of all agents)")
	cmd.Flags().Float64Var(&d.maxCost, "max-cost", defaultCheckCost, "with --check --deep: the most that all calls together may cost, in US dollars")
}

func optionalModels(cmd *cobra.Command, args []string) error {
	if len(args) > 0 && !strings.Contains(args[0], "/") {
		return noArgs(cmd, args)
	}
	if len(args) > 1 {
		return fmt.Errorf("%s takes at most one model; give more with --model", cmd.CommandPath())
	}
	return nil
}

// checkModels tries the capabilities of models, and shows what was found.
func (a *app) checkModels(ctx context.Context, d deepCheck) error {
	if a.server() != "" {
		return usageError{errors.New("rgpt models --check --deep works only on this machine, not through a server")}
	}
	if !(d.maxCost >= 0 && d.maxCost <= 1000) {
		return usageError{fmt.Errorf("--max-cost %g is invalid; must be from 0 to 1000 US dollars", d.maxCost)}
	}
	cfg, err := a.config()
	if err != nil {
		return err
	}
	runs := &control.Runs{Config: cfg}
	if cfg.Database.URL != "" {
		h, err := a.open(ctx, 0)
		if err == nil {
			defer h.Close()
			if l, ok := h.(*backend.Local); ok {
				runs = l.Runs
			}
		} else {
			fmt.Fprintln(a.errs, "rgpt: warning: what is found is not stored, and models that people chose are unknown:", terminal.Clean(fault.Of(err).Message))
		}
	}
	checks, err := runs.CheckCapabilities(ctx, d.models, int64(math.Round(d.maxCost*1e6)), caller())
	if len(checks.Models) == 0 && err != nil {
		return err
	}
	if a.json {
		a.printJSON(checks)
	} else {
		a.printCapabilities(checks)
	}
	if err == nil && slices.ContainsFunc(checks.Models, func(m control.ModelCheck) bool { return !m.Responds() }) {
		return ended{exitError}
	}
	return err
}

// printCapabilities prints a table for each model.
func (a *app) printCapabilities(checks control.ModelChecks) {
	for _, m := range checks.Models {
		users := ""
		for i, agent := range m.Agents {
			users += map[bool]string{true: " (", false: ", "}[i == 0] + string(agent)
		}
		if users != "" {
			users += ")"
		}
		fmt.Fprintf(a.out, "%s%s\n", terminal.Clean(m.Provider+"/"+m.Model), users)
		w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
		if len(m.Findings) > 0 {
			fmt.Fprintln(w, "CAPABILITY\tCATALOGUE\tFOUND\tEVIDENCE")
		}
		for _, f := range m.Findings {
			says, found := "-", string(f.Found)
			if f.Catalogue != nil {
				says = map[bool]string{true: "yes", false: "no"}[*f.Catalogue]
			}
			if f.Differs() {
				found += " !"
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", f.Capability, says, found, terminal.Clean(f.Evidence))
		}
		_ = w.Flush()
		if m.Problem != "" {
			fmt.Fprintln(a.out, terminal.Clean(m.Problem))
		}
		stored := ""
		if m.Stored {
			stored = " What was found is stored; workers use it within a minute."
		}
		fmt.Fprintf(a.out, "%d calls, %d tokens in, %d out, %s.%s\n\n", m.Usage.Calls, m.Usage.PromptTokens, m.Usage.CompletionTokens, contract.MarkEstimated(modelcheck.Dollars(m.Usage.MicroUSD), m.Estimated), stored)
	}
	fmt.Fprintf(a.out, "Spent %s of at most %s.\n", contract.MarkEstimated(modelcheck.Dollars(checks.Usage.MicroUSD), checks.Usage.EstimatedPrice), modelcheck.Dollars(checks.MaxMicroUSD))
	if checks.Needed > 0 {
		fmt.Fprintf(a.out, "Some of it was skipped because of its cost; --max-cost %.2f covers it. Real costs are usually a fraction of that.\n", math.Ceil(float64(checks.Needed)/1e4)/100)
	}
}

// printScores prints the results of models in benchmarks, and where they come from.
func (a *app) printScores(shown model.Catalogue) {
	if !slices.ContainsFunc(shown, func(e model.CatalogueEntry) bool { return len(e.Scores) > 0 }) {
		return
	}
	fmt.Fprintln(a.out)
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PROVIDER\tMODEL\tSCORE\tVALUE\tDATE\tSOURCE")
	for _, e := range shown {
		for _, s := range e.Scores {
			fmt.Fprintf(w, "%s\t%s\t%s\t%.2f\t%s\t%s\n", e.Provider, terminal.Clean(e.Model), terminal.Clean(s.Name), s.Value, s.Date, terminal.OneLine(s.Source))
		}
	}
	_ = w.Flush()
	fmt.Fprintln(a.out)
}

// priceOf describes the price of an agent's model.
func priceOf(p control.ModelPrice) string {
	switch {
	case p.Estimated && p.In == 0 && p.Out == 0:
		return "unknown"
	case p.Estimated:
		return fmt.Sprintf("unknown (estimated: %g, %g)", p.In, p.Out)
	case p.In == 0 && p.Out == 0:
		return "free"
	default:
		return fmt.Sprintf("%g, %g", p.In, p.Out)
	}
}

// newestOf returns the newest models of each configured provider, and the number of the others. Models
// without a day of release count as new: they are few, and often a person's own.
func newestOf(c model.Catalogue, providers []control.ModelProvider) (shown model.Catalogue, hidden int) {
	configured := func(e model.CatalogueEntry) bool {
		return slices.ContainsFunc(providers, func(p control.ModelProvider) bool {
			return model.Provider{Name: p.Name, Kind: model.Kind(p.Kind)}.Serves(e)
		})
	}
	byAge := slices.Clone(c)
	slices.SortFunc(byAge, model.Newest)
	counts, newest := map[string]int{}, map[[2]string]bool{}
	for _, e := range byAge {
		if configured(e) && (e.Released == "" || counts[e.Provider] < newestModels) {
			newest[[2]string{e.Provider, e.Model}] = true
		}
		counts[e.Provider]++
	}
	for _, e := range c {
		if newest[[2]string{e.Provider, e.Model}] {
			shown = append(shown, e)
		}
	}
	return shown, len(c) - len(shown)
}

// limitsOf describes the limits of a provider, and the calls that wait for it.
func limitsOf(p control.ModelProvider) string {
	text := p.Limits.String()
	if q := p.Queue; q != nil && q.Waiting > 0 {
		text += fmt.Sprintf(" (%d waiting)", q.Waiting)
	}
	return text
}

// models returns the known models. No component of the stack needs to be running, but only its
// database knows what was chosen and stored.
func (a *app) models(ctx context.Context, check bool) (control.Models, error) {
	if a.server() == "" {
		cfg, err := a.config()
		if err != nil {
			return control.Models{}, err
		}
		if cfg.Database.URL == "" { // nothing was ever stored
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
// the models that people chose and what was stored about models, cannot be read.
func (a *app) configuredModels(ctx context.Context, check bool, why error) (control.Models, error) {
	cfg, err := a.config()
	if err != nil {
		return control.Models{}, err
	}
	out := (&control.Runs{Config: cfg}).Models(ctx, check)
	out.Missing = fault.Of(why).Message
	out.Problems = append(out.Problems, "The models that people chose are unknown, so only the configuration is shown: "+out.Missing)
	return out, nil
}

// modelsUpdate are the flags of an update of the catalogue.
type modelsUpdate struct {
	file, scores, categories, date string
	dryRun, reset                  bool
}

func newModelsUpdate(a *app) *cobra.Command {
	var u modelsUpdate
	cmd := &cobra.Command{
		Use: "update", Short: "Update the catalogue of models from a file", Args: noArgs,
		Long: `Update compares a file with the catalogue of models, shows what changes, and stores it in the
database. Workers and servers use it within a minute, without a restart; calls that were made keep
their costs. Entries of models.catalogue in the configuration stay in force.

The file of --file is LiteLLM's model_prices_and_context_window.json, the api.json of models.dev,
or a catalogue file like internal/model/catalogue.yaml. An entry counts until a later release of
rgpt has one of a newer source.

The files of --scores and --categories are the table of LiveBench's leaderboard and its
categories. Once scores are stored, those that makers published about their models, which the
catalogue of the release has, do not count any more: results of different benchmarks cannot be
compared.`,
		Example: `  rgpt models update --file api.json --dry-run
  rgpt models update --file model_prices_and_context_window.json --date 2026-11-20
  rgpt models update --scores table_2026_01_08.csv --categories categories_2026_01_08.json
  rgpt models update --reset`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := u.check(); err != nil {
				return usageError{err}
			}
			return a.with(cmd.Context(), 0, func(h backend.Backend) error {
				runs, ok := h.(*backend.Local)
				if !ok {
					return usageError{errors.New("rgpt models update works only on this machine, not through a server")}
				}
				switch {
				case u.reset:
					return a.resetModels(cmd.Context(), runs)
				case u.scores != "":
					return a.updateScores(cmd.Context(), runs, u)
				}
				return a.updateModels(cmd.Context(), runs, u)
			})
		},
	}
	cmd.Flags().StringVar(&u.file, "file", "", "file with the models")
	cmd.Flags().StringVar(&u.scores, "scores", "", "LiveBench's table of results (CSV)")
	cmd.Flags().StringVar(&u.categories, "categories", "", "with --scores: LiveBench's categories (JSON)")
	cmd.Flags().StringVar(&u.date, "date", "", "day of the file's data, such as 2026-11-20 (default: the day in the table's name, otherwise that on which the file was changed)")
	cmd.Flags().BoolVar(&u.dryRun, "dry-run", false, "show what would change, and store nothing")
	cmd.Flags().BoolVar(&u.reset, "reset", false, "remove what was stored by updates")
	return cmd
}

func (u modelsUpdate) check() error {
	given := 0
	for _, set := range []bool{u.file != "", u.scores != "", u.reset} {
		if set {
			given++
		}
	}
	switch {
	case given != 1:
		return errors.New("specify one of --file, --scores and --reset")
	case (u.scores == "") != (u.categories == ""):
		return errors.New("--scores and --categories must be specified together")
	}
	return nil
}

// updateModels shows what a file changes in the catalogue, and stores it unless it is a dry run.
func (a *app) updateModels(ctx context.Context, runs *backend.Local, u modelsUpdate) error {
	data, asOf, err := readSource(u.file, u.date)
	if err != nil {
		return usageError{fmt.Errorf("cannot read the models: %w", err)}
	}
	source, err := modelsource.Read(data, asOf)
	if err != nil {
		return usageError{fmt.Errorf("cannot read the models in %s: %w", u.file, err)}
	}
	changes, err := runs.UpdateCatalogue(ctx, source.Models, !u.dryRun, caller())
	if err == nil {
		a.printChanges(changes, string(source.Format), fmt.Sprintf("%d models in the file (%s)", len(source.Models), source.Format), u.dryRun)
	}
	return err
}

// tableDay matches the day of the questions in the name of LiveBench's tables.
var tableDay = regexp.MustCompile(`(20\d\d)_(\d\d)_(\d\d)\.csv$`)

// updateScores shows what results of a benchmark change in the catalogue, and stores it unless it is a
// dry run.
func (a *app) updateScores(ctx context.Context, runs *backend.Local, u modelsUpdate) error {
	if day := tableDay.FindStringSubmatch(u.scores); u.date == "" && day != nil {
		u.date = strings.Join(day[1:], "-")
	}
	table, asOf, err := readSource(u.scores, u.date)
	if err != nil {
		return usageError{fmt.Errorf("cannot read the scores: %w", err)}
	}
	categories, _, err := readSource(u.categories, "")
	if err != nil {
		return usageError{fmt.Errorf("cannot read the categories: %w", err)}
	}
	results, err := modelsource.LiveBench(bytes.NewReader(table), categories, asOf.UTC().Format(time.DateOnly))
	if err != nil {
		return usageError{fmt.Errorf("cannot read the scores in %s by the categories in %s: %w", u.scores, u.categories, err)}
	}
	changes, err := runs.UpdateScores(ctx, results, !u.dryRun, caller())
	if err == nil {
		a.printChanges(changes, "livebench", fmt.Sprintf("%d results in the table", len(results)), u.dryRun)
	}
	return err
}

// printChanges prints what an update changes in the catalogue.
func (a *app) printChanges(changes []modelsource.Change, format, read string, dryRun bool) {
	if a.json {
		a.printJSON(map[string]any{"format": format, "stored": !dryRun, "changes": store.NotNil(changes)})
		return
	}
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	for _, c := range changes {
		fmt.Fprintf(w, "%s\t%s\t%s\n", c.Kind, terminal.Clean(c.Provider+"/"+c.Model), terminal.Clean(c.Detail))
	}
	_ = w.Flush()
	stored := "Stored; workers use it within a minute."
	if dryRun {
		stored = "Nothing was stored, because of --dry-run."
	}
	if len(changes) == 0 {
		stored = "The catalogue has all of it already."
	}
	fmt.Fprintf(a.out, "%s, %d changes. %s\n", read, len(changes), stored)
}

// readSource reads a file with data about models, and the day of its data: the given one, or that on
// which the file was changed.
func readSource(file, date string) (data []byte, asOf time.Time, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, asOf, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, asOf, err
	}
	asOf = info.ModTime()
	if date != "" {
		if asOf, err = time.Parse(time.DateOnly, date); err != nil {
			return nil, asOf, fmt.Errorf("--date %s is not a day such as 2026-11-20", date)
		}
	}
	data, err = io.ReadAll(io.LimitReader(f, modelsource.MaxSize+1))
	if err == nil && len(data) > modelsource.MaxSize {
		err = fmt.Errorf("%s has more than the %d bytes allowed", file, modelsource.MaxSize)
	}
	return data, asOf, err
}

func (a *app) resetModels(ctx context.Context, runs *backend.Local) error {
	n, err := runs.ResetCatalogue(ctx, caller())
	if err != nil {
		return err
	}
	if a.json {
		a.printJSON(map[string]any{"removed": n})
		return nil
	}
	fmt.Fprintf(a.out, "Removed %d stored entries; the built-in catalogue applies again.\n", n)
	return nil
}

// modelFlags are the flags that select another model.
type modelFlags struct {
	model       string
	temperature float64
	effort      contract.Effort
	cmd         *cobra.Command
}

// add adds the flags to a command; model and temperature are their usage texts.
func (m *modelFlags) add(cmd *cobra.Command, model, temperature string) {
	m.cmd = cmd
	cmd.Flags().StringVar(&m.model, "model", "", model)
	cmd.Flags().Float64Var(&m.temperature, "temperature", 0, temperature)
}

// addEffort adds the flag that selects the amount of reasoning; otherwise is its default.
func (m *modelFlags) addEffort(cmd *cobra.Command, otherwise string) {
	effortFlag(cmd, &m.effort, otherwise)
}

// effortFlag adds the flag --effort to a command; otherwise is its default.
func effortFlag(cmd *cobra.Command, effort *contract.Effort, otherwise string) {
	cmd.Flags().StringVar((*string)(effort), "effort", "", "amount of reasoning: low, medium or high (default: "+otherwise+")")
	complete(cmd, "effort", contract.Efforts())
}

// override returns what the flags change.
func (m *modelFlags) override() control.ModelOverride {
	return control.ModelOverride{Model: m.model, Temperature: m.temperatureFlag(), Effort: m.effort}
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
	if err := control.CheckSampling(m.temperatureFlag(), m.effort); err != nil || m.model == "" {
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
			n := control.NewModelChoice{Model: model.model, Temperature: model.temperatureFlag(), Effort: model.effort, By: caller()}
			return a.chooseModel(cmd.Context(), func(h backend.Backend) (control.AgentModel, error) {
				return h.SetAgentModel(cmd.Context(), contract.Agent(args[0]), n)
			})
		},
	}
	model.add(cmd, "model to use, as provider/model", "sampling temperature")
	model.addEffort(cmd, "the provider's")
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
