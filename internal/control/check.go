package control

import (
	"context"
	"slices"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/modelcheck"
	"github.com/rocketgpt/orchestrator/internal/modelclient"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store/catalogue"
)

// ModelCheck is what a check of the capabilities of a model found.
type ModelCheck struct {
	modelcheck.Report
	Agents    []contract.Agent `json:"agents,omitempty"`          // that use the model
	Estimated bool             `json:"estimated_price,omitempty"` // the price is unknown, so the cost is an estimate
	Stored    bool             `json:"stored"`                    // whether later calls use what was found
	Problem   string           `json:"problem,omitempty"`         // why the model was not checked, or what was found not stored
}

// Responds reports whether the model responded to any call.
func (m ModelCheck) Responds() bool {
	return slices.ContainsFunc(m.Findings, func(f modelcheck.Finding) bool { return f.Found == modelcheck.Yes })
}

// ModelChecks are the checks of several models.
type ModelChecks struct {
	Models      []ModelCheck   `json:"models"`
	Usage       contract.Usage `json:"usage"`                      // of all calls
	MaxMicroUSD int64          `json:"max_micro_usd"`              // the limit
	Needed      int64          `json:"needed_micro_usd,omitempty"` // a limit that covers what was skipped because of its cost
}

// CheckCapabilities tries the capabilities of models at their providers, and stores what was found out
// for certain over the catalogue. Without names (provider/model), it checks the models that the
// configuration and people chose. All calls together cost at most so many millionths of a US dollar,
// at the prices of the catalogue; each model gets the same share of what is left.
func (r *Runs) CheckCapabilities(ctx context.Context, names []string, maxMicroUSD int64, by string) (ModelChecks, error) {
	out := ModelChecks{Models: []ModelCheck{}, MaxMicroUSD: maxMicroUSD}
	if maxMicroUSD < 0 {
		return out, wrong("the limit of the cost must not be negative")
	}
	chosen, err := r.toCheck(ctx, names)
	if err != nil {
		return out, err
	}
	known, unread := r.Catalogue(ctx)
	left := maxMicroUSD
	for i, m := range chosen {
		check := r.checkModel(ctx, m, known, left/int64(len(chosen)-i))
		switch {
		case len(check.Found()) == 0:
		case r.Store == nil:
			check.Problem = "nothing is stored: no database is connected"
		case unread != nil:
			check.Problem = "nothing is stored: " + fault.Of(unread).Message
		default:
			if err := r.storeCheck(ctx, check, by); err != nil {
				check.Problem = "nothing is stored: " + fault.Of(err).Message
			} else {
				check.Stored = true
			}
		}
		out.Models = append(out.Models, check)
		out.Usage = out.Usage.Add(check.Usage)
		out.Needed = max(out.Needed, check.NeededMicroUSD*int64(len(chosen)))
		left = max(0, left-check.Usage.MicroUSD)
	}
	return out, ctx.Err()
}

// modelToCheck is a model, and who uses it.
type modelToCheck struct {
	choice contract.ModelChoice
	agents []contract.Agent
}

// toCheck returns the models with these names; without names, the models of agents, and those that take
// over for them.
func (r *Runs) toCheck(ctx context.Context, names []string) ([]modelToCheck, error) {
	var out []modelToCheck
	add := func(choice contract.ModelChoice, agent contract.Agent) {
		i := slices.IndexFunc(out, func(m modelToCheck) bool {
			return m.choice.Provider == choice.Provider && m.choice.Model == choice.Model
		})
		if i < 0 {
			i, out = len(out), append(out, modelToCheck{choice: choice})
		}
		if agent != "" {
			out[i].agents = append(out[i].agents, agent)
		}
	}
	for _, name := range names {
		choice, err := Model(r.Config, name)
		if err != nil {
			return nil, err
		}
		add(choice, "")
	}
	if len(names) > 0 {
		return out, nil
	}
	known := r.Models(ctx, false)
	for _, agent := range setup.ModelAgents() {
		if choice, ok := known.Agents[agent]; ok {
			add(choice, agent)
		}
	}
	for _, other := range slices.Concat(r.Config.Models.Fallback, r.Config.Models.Routing.Candidates) {
		provider := other.Provider
		if provider == "" {
			provider = r.Config.Models.Default.Provider
		}
		add(contract.ModelChoice{Provider: provider, Model: other.Model}, "")
	}
	if len(out) == 0 {
		return nil, wrong("no model is chosen: %s; or name one, as in rgpt models --check --deep --model openai/gpt-6-luna", known.Unset)
	}
	return out, nil
}

// checkModel checks one model.
func (r *Runs) checkModel(ctx context.Context, m modelToCheck, known model.Catalogue, maxMicroUSD int64) ModelCheck {
	out := ModelCheck{Agents: m.agents, Report: modelcheck.Report{Provider: m.choice.Provider, Model: m.choice.Model, Findings: []modelcheck.Finding{}, MaxMicroUSD: maxMicroUSD}}
	all := setup.Providers(r.Config)
	i := slices.IndexFunc(all, func(p model.Provider) bool { return p.Name == m.choice.Provider })
	if i < 0 {
		out.Problem = "the provider is not configured under models.providers"
		return out
	}
	_, priced := known.Find(all[i], m.choice.Model)
	report, err := modelcheck.Run(ctx, modelcheck.Target{
		Provider: all[i], Choice: m.choice, Catalogue: known, MaxMicroUSD: maxMicroUSD,
		Client: modelclient.Options{IdleTimeout: r.Config.Models.IdleTimeout},
	})
	if len(report.Findings) > 0 {
		out.Report = report
	}
	// The checker gives a model without a known price the assumed one.
	out.Usage.EstimatedPrice = out.Usage.EstimatedPrice || !priced && out.Usage.Calls > 0
	if out.Estimated = !priced; err != nil {
		out.Problem = fault.Of(err).Message
	}
	return out
}

// storeTime limits the time for storing what was found, which was paid for.
const storeTime = 10 * time.Second

// storeCheck stores what was found out about a model, also if the check was interrupted.
func (r *Runs) storeCheck(ctx context.Context, check ModelCheck, by string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTime)
	defer cancel()
	stored := catalogue.New(r.Store)
	learned, err := stored.Read(ctx)
	if err != nil {
		return err
	}
	found := model.Checked{Provider: check.Provider, Model: check.Model, Found: check.Found(), At: time.Now().UTC()}
	return stored.Check(ctx, found.After(learned.Checks), by)
}
