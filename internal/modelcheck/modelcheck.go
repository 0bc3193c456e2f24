// Package modelcheck tries at a provider what a model can do: each capability by a small call, within
// a limit of money that no call can exceed.
package modelcheck

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/budget"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/modelclient"
)

// CallTimeout is the longest time that one call of a check may take.
const CallTimeout = time.Minute

// Chat is what every model that responds can do: a plain call. It is not in the catalogue.
const Chat model.Capability = "chat"

// Verdict is what was found out about a capability.
type Verdict string

// The verdicts. Only Yes and No say anything about the model.
const (
	Yes     Verdict = "yes"
	No      Verdict = "no"
	Unknown Verdict = "unknown" // tried, but the provider was busy, unreachable, or did not say
	Skipped Verdict = "skipped" // not tried, such as because of its cost
)

// Finding is what was found out about one capability.
type Finding struct {
	Capability model.Capability `json:"capability"`
	Catalogue  *bool            `json:"catalogue,omitempty"` // what the catalogue says; nil: nothing
	Found      Verdict          `json:"found"`
	Evidence   string           `json:"evidence"` // may quote the model or its provider
}

// Differs reports whether the finding contradicts the catalogue.
func (f Finding) Differs() bool {
	return f.Catalogue != nil && (f.Found == Yes && !*f.Catalogue || f.Found == No && *f.Catalogue)
}

// Report is the check of one model.
type Report struct {
	Provider       string         `json:"provider"`
	Model          string         `json:"model"`
	Findings       []Finding      `json:"findings"`
	Usage          contract.Usage `json:"usage"`
	MaxMicroUSD    int64          `json:"max_micro_usd"`              // the limit
	NeededMicroUSD int64          `json:"needed_micro_usd,omitempty"` // a limit that covers what was skipped because of its cost; 0: nothing was
}

// Found returns what was found out for certain, for the catalogue.
func (r Report) Found() map[model.Capability]bool {
	out := map[model.Capability]bool{}
	for _, f := range r.Findings {
		if f.Capability != Chat && (f.Found == Yes || f.Found == No) {
			out[f.Capability] = f.Found == Yes
		}
	}
	return out
}

// Target is a model to check.
type Target struct {
	Provider  model.Provider
	Choice    contract.ModelChoice
	Catalogue model.Catalogue
	Client    modelclient.Options
	// MaxMicroUSD is the most that all calls may cost together, at the prices of the catalogue, in
	// millionths of a US dollar. A call is made only if the most that it can cost is left.
	MaxMicroUSD int64
}

// Run tries each capability of a model. It makes a handful of calls, one after another, and never
// more than two for the same question. Failures that say nothing about the model, such as a rate limit
// or a rejected key, make a capability unknown, not absent.
func Run(ctx context.Context, t Target) (Report, error) {
	client, err := modelclient.New([]model.Provider{t.Provider}, t.Catalogue, t.Client)
	if err != nil {
		return Report{}, err
	}
	defer client.Close()
	c := &checker{
		target: t, client: client, left: t.MaxMicroUSD,
		report: Report{Provider: t.Choice.Provider, Model: t.Choice.Model, Findings: []Finding{}, MaxMicroUSD: t.MaxMicroUSD},
	}
	c.known, _ = t.Catalogue.Find(t.Provider, t.Choice.Model)
	c.entry = c.known
	c.entry.Found = nil // everything is tried again
	c.run(ctx)
	if c.needs > 0 {
		c.report.NeededMicroUSD = c.report.Usage.MicroUSD + c.needs
	}
	return c.report, ctx.Err()
}

// checker checks one model.
type checker struct {
	target Target
	client *modelclient.Client
	known  model.CatalogueEntry // as the catalogue has it
	entry  model.CatalogueEntry // with what was found so far
	left   int64                // of the money
	needs  int64                // of what was skipped because of its cost
	plain  int64                // tokens of the plain call's prompt, as the provider counted them; 0: unknown
	effort contract.Effort      // of the calls, once the model is known to have it
	report Report
}

// trials are made in this order: what costs least comes first.
var trials = []struct {
	of  []model.Capability
	try func(*checker, context.Context)
}{
	{[]model.Capability{model.CapabilityFixedTemperature}, (*checker).temperature},
	{[]model.Capability{model.CapabilityEffort}, (*checker).tryEffort},
	{[]model.Capability{model.CapabilityJSONSchema}, (*checker).schema},
	{[]model.Capability{model.CapabilityTools, model.CapabilityParallelTools}, (*checker).tools},
	{[]model.Capability{model.CapabilityVision}, (*checker).vision},
	{[]model.Capability{model.CapabilityPromptCache}, (*checker).cache},
}

func (c *checker) run(ctx context.Context) {
	if c.known.Can(model.CapabilityEmbeddings) {
		c.embeddings(ctx)
		if !c.known.Can(model.CapabilityTools) && !c.known.Can(model.CapabilityJSONSchema) {
			return // it does nothing else
		}
	}
	responds := c.chat(ctx)
	for _, t := range trials {
		switch {
		case ctx.Err() != nil:
			c.skip("the check was interrupted", t.of...)
		case !responds:
			c.skip("the plain call did not succeed", t.of...)
		default:
			t.try(c, ctx)
		}
	}
}

// add records a finding. Later calls already use it.
func (c *checker) add(of model.Capability, v Verdict, evidence string) {
	f := Finding{Capability: of, Found: v, Evidence: evidence}
	if slices.Contains(model.Capabilities(), of) {
		says := c.known.Can(of)
		f.Catalogue = &says
		if v == Yes || v == No {
			c.entry = c.entry.WithCapability(of, v == Yes)
		}
	}
	c.report.Findings = append(c.report.Findings, f)
}

func (c *checker) skip(why string, all ...model.Capability) {
	for _, of := range all {
		c.add(of, Skipped, why)
	}
}

// system is the beginning of each conversation, the same for all, so that its tokens are known after
// the first call.
const system = "You take part in a test of a connection. Follow the instruction exactly, and write nothing else."

// request returns a request with an instruction.
func (c *checker) request(trial model.Capability, instruction string) model.Request {
	choice := c.target.Choice
	choice.Temperature, choice.Effort, choice.Timeout = nil, c.effort, 0
	return model.Request{
		Choice: choice, Timeout: CallTimeout,
		Messages: []model.Message{{Role: model.RoleSystem, Text: system}, {Role: model.RoleUser, Text: instruction}},
		Headers:  model.Identity{Agent: "check", Step: string(trial), Attempt: 1, Turn: 1},
	}
}

// knownPlain is what the plain call tells of the prompts of others that begin with the same text.
func (c *checker) knownPlain() budget.Known { return budget.Known{Messages: 1, Tokens: c.plain} }

// Output limits of a call. A model that reasons does so within them.
const (
	wantedOutput, leastOutput       = 256, 32
	wantedReasoning, leastReasoning = 1024, 256
	budgetedReasoning               = 1024 + 256 // the smallest budget for thinking, and the response
)

// tooDear is a call that is not made because of its cost.
type tooDear struct{ needs, left int64 }

func (e *tooDear) Error() string {
	return fmt.Sprintf("could cost up to %s, and %s is left of the limit (--max-cost)", Dollars(e.needs), Dollars(e.left))
}

// Dollars writes an amount of money, rounded up.
func Dollars(micros int64) string {
	return fmt.Sprintf("$%.4f", math.Ceil(float64(micros)/100)/1e4)
}

// ask makes a call of a model with these properties, if what is left covers the most that it can cost.
// If the call is rejected with an effort, it is made again without: some models take an effort, but not
// together with tools, and the rejection would be taken for that of the tools.
func (c *checker) ask(ctx context.Context, req model.Request, entry model.CatalogueEntry, known budget.Known) (model.Response, error) {
	resp, err := c.once(ctx, req, entry, known)
	if err == nil || req.Choice.Effort == "" || req.Headers.Step == string(model.CapabilityEffort) {
		return resp, err
	}
	if v, _ := failed(err); v == No {
		req.Choice.Effort = ""
		return c.once(ctx, req, entry, known)
	}
	return resp, err
}

// once makes one call.
func (c *checker) once(ctx context.Context, req model.Request, entry model.CatalogueEntry, known budget.Known) (model.Response, error) {
	wanted, least := int64(wantedOutput), int64(leastOutput)
	switch {
	case entry.Can(model.CapabilityThinkingBudget) && entry.Reasons(req.Choice.Effort):
		wanted, least = budgetedReasoning, budgetedReasoning
	case entry.Reasons(req.Choice.Effort):
		wanted, least = wantedReasoning, leastReasoning
	}
	prompt := c.prompt(req, known)
	cost := func(output int64) int64 { return budget.Cost(prompt, output, entry) }
	wanted = budget.Output(wanted, entry)
	least = min(least, wanted)
	if req.MaxOutput = budget.Affordable(c.left, wanted, cost); req.MaxOutput < least {
		c.needs += cost(least)
		return model.Response{}, &tooDear{cost(least), c.left}
	}
	c.client.SetCatalogue(c.target.Catalogue.With(entry))
	resp, err := c.client.Complete(ctx, req)
	c.spend(resp.Usage, err, cost(req.MaxOutput))
	return resp, err
}

// spend counts what a call used. Of a call whose response did not arrive, it is not known what it cost:
// the most that it can have cost is not spent again.
func (c *checker) spend(u contract.Usage, err error, most int64) {
	c.report.Usage = c.report.Usage.Add(u)
	c.left -= u.MicroUSD
	if f := fault.Of(err); f != nil && u.Calls == 0 && (f.Code == contract.CodeTimeout || f.Code == contract.CodeUnavailable || f.Code == contract.CodeCancelled) {
		c.left -= most
	}
}

// prompt returns the most tokens that the prompt of a request can have.
func (c *checker) prompt(req model.Request, known budget.Known) int64 {
	pictures := int64(0)
	messages := slices.Clone(req.Messages)
	for i := range messages {
		pictures += int64(len(messages[i].Images))
		messages[i].Images = nil
	}
	req.Messages = messages
	return budget.Prompt(req, known) + pictures*c.pictureTokens()
}

// pictureTokens is the most that the small picture of a check counts, as providers document it; budgets
// of runs allow for large ones.
func (c *checker) pictureTokens() int64 {
	const (
		anthropic = 1600 // one token for 750 pixels, and at most this
		gemini    = 2500
		miniature = 9000 // of gpt-4o-mini: 2,833, and 5,667 for each tile
		other     = 3000
	)
	switch name := c.target.Choice.Model; {
	case strings.Contains(name, "4o-mini"):
		return miniature
	case strings.Contains(name, "claude"):
		return anthropic
	case strings.Contains(name, "gemini"):
		return gemini
	}
	return other
}

// failed returns the verdict on a capability whose call failed. A provider that responds to the plain
// call and rejects this one rejects what this one adds.
func failed(err error) (Verdict, string) {
	var dear *tooDear
	if errors.As(err, &dear) {
		return Skipped, dear.Error()
	}
	f := fault.Of(err)
	said := f.Message
	if _, after, ok := strings.Cut(said, " responded with "); ok {
		said = after
	}
	if f.Class == contract.ClassConfig && (f.Code == contract.CodeBadRequest || f.Code == contract.CodeModelNotFound) && !strings.Contains(said, noRule) {
		return No, "rejected with " + said
	}
	return Unknown, said
}

// noRule is what the scripted model says of a request that its scenario does not have.
const noRule = "no rule in the scenario matches"

// quote shortens what a model wrote.
func quote(text string) string { return fmt.Sprintf("%q", fault.Clip(strings.TrimSpace(text), 60)) }
