package control

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/planning"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store/attempts"
)

// Estimate is what a request will probably cost and take, before its runs are created.
type Estimate struct {
	Attempts int    `json:"attempts" doc:"number of attempts at the goal; 1: a single run"`
	Project  string `json:"project" doc:"project whose earlier runs the estimate is based on"`
	attempts.Estimate
	LimitMicroUSD int64    `json:"limit_micro_usd,omitempty" doc:"most that all attempts can cost together, in millionths of a US dollar (execution.run.cost_usd); absent: not limited"`
	LimitMS       int64    `json:"limit_ms,omitempty" doc:"most milliseconds that each attempt can take (execution.run.time); absent: not limited"`
	Text          string   `json:"text" doc:"the estimate and the limits for people"`
	Notes         []string `json:"notes,omitempty" doc:"what is worth knowing before the runs are created"`
}

// Estimate returns what a request will probably cost and take. It checks the request like Create, but
// creates nothing.
func (r *Runs) Estimate(ctx context.Context, c Creation) (Estimate, error) {
	var out Created
	r, err := r.current()
	if err != nil {
		return Estimate{}, err
	}
	operator := r.Config
	if r, err = r.accept(&c); err != nil {
		return Estimate{}, err
	}
	if c.PlanOnly || c.PrepareOnly {
		return Estimate{}, about(FieldPlanOnly, wrong("estimates are based on earlier runs that were released, so none is possible for a run that only makes a plan or an environment; omit plan_only and prepare_only"))
	}
	if c.several() {
		return Estimate{}, about(FieldRepo, wrong("an estimate is for one repository; ask for one for each, without the others"))
	}
	count, err := r.attemptsOf(c)
	if err != nil {
		return Estimate{}, err
	}
	if _, _, err := r.wholeGoal(ctx, &c, &out); err != nil {
		return Estimate{}, err
	}
	n, cfg, err := r.draft(ctx, c, count, operator, &out)
	if err != nil {
		return Estimate{}, err
	}
	return Estimate{
		Attempts: count, Project: n.Project, Estimate: *n.Estimate, LimitMicroUSD: cfg.Execution.Run.CostUSD.Int64(),
		LimitMS: cfg.Execution.Run.Time.Milliseconds(), Text: estimateText(n, cfg), Notes: out.Notes,
	}, nil
}

// estimate returns what attempts will probably cost together, and how long they will take: as much as
// earlier runs of the project did, with the same model, else with any: its tokens at the prices of this
// one. What too little is known about is left out.
func (r *Runs) estimate(ctx context.Context, n attempts.New) (*attempts.Estimate, error) {
	catalogue, err := r.Catalogue(ctx)
	if err != nil {
		catalogue = setup.Catalogue(r.Config)
	}
	out := &attempts.Estimate{}
	var sum int64
	var times []float64
	for _, run := range n.Runs {
		builder := run.Settings.Models[contract.AgentBuilder]
		same, every, err := attempts.Earlier(ctx, r.Store, n.Tenant, n.Project, builder)
		if err != nil {
			return nil, err
		}
		if seconds, samples := timeOf(same, every); samples > 0 {
			times = append(times, seconds)
			out.TimeSamples = fewer(out.TimeSamples, samples)
		}
		entry, known := entryOf(r.Config, catalogue, builder)
		if !known || entry.Assumed {
			out.Unpriced++
			continue
		}
		micro, samples := costOf(same, every, entry)
		if samples > 0 {
			sum += micro
			out.Known++
			out.Samples = fewer(out.Samples, samples)
		}
	}
	if out.Known > 0 {
		out.MicroUSD = &sum
	}
	if len(times) < len(n.Runs) {
		out.TimeSamples = 0
		return out, nil
	}
	took := int64(planning.SideBySide(times, r.Config.Execution.ConcurrentRuns) * float64(time.Second/time.Millisecond))
	out.DurationMS = &took
	return out, nil
}

// fewer returns the smaller of two numbers of samples, of which the first may not be known yet (0).
func fewer(known, samples int) int {
	if known == 0 {
		return samples
	}
	return min(known, samples)
}

// costOf returns what a run will probably cost with a model, and the number of earlier runs that show
// it, 0 if they are too few.
func costOf(same, every attempts.Past, entry model.CatalogueEntry) (micro int64, samples int) {
	whole := func(p attempts.Past, same bool) planning.Past {
		return planning.Past{Same: same, Steps: p.Runs, MicroUSD: p.MicroUSD, PromptTokens: p.PromptTokens, CompletionTokens: p.CompletionTokens}
	}
	// A whole run counts as a plan of one step: what matters here is its total.
	e := planning.Estimate(contract.Plan{Steps: []contract.Step{{ID: "run"}}}, planning.Basis{
		Steps:  []planning.Past{whole(same, true), whole(every, false)},
		Priced: true, Cost: func(u contract.Usage) int64 { return model.Cost(u, entry) },
	})
	if e.MicroUSD == nil {
		return 0, 0
	}
	return *e.MicroUSD, e.CostSamples
}

// timeOf returns how long a run will probably take, and the number of earlier runs that show it, 0 if
// they are too few.
func timeOf(same, every attempts.Past) (seconds float64, samples int) {
	for _, p := range []attempts.Past{same, every} {
		if p.Timed >= planning.Fewest {
			return p.Seconds, p.Timed
		}
	}
	return 0, 0
}

// entryOf returns what the catalogue knows about a model.
func entryOf(cfg *config.Config, catalogue model.Catalogue, m contract.ModelChoice) (model.CatalogueEntry, bool) {
	for _, p := range setup.Providers(cfg) {
		if p.Name == m.Provider {
			return catalogue.Find(p, m.Model)
		}
	}
	return model.CatalogueEntry{}, false
}

// estimateText says what attempts, or a single run, will probably cost and take, and how much they can
// cost at most.
func estimateText(n attempts.New, cfg *config.Config) string {
	count := len(n.Runs)
	what, together := fmt.Sprintf("%d attempts", count), "together, they can cost at most"
	if count == 1 {
		what, together = "this run", "it can cost at most"
	}
	parts := []string{costText(n, what)}
	switch e := n.Estimate; {
	case e.DurationMS != nil:
		took := time.Duration(*e.DurationMS) * time.Millisecond
		if took >= time.Second {
			took = took.Round(time.Second)
		}
		parts = append(parts, fmt.Sprintf("they will probably take about %s without waits (from at least %d earlier runs)", took, e.TimeSamples))
		if count == 1 {
			parts[1] = strings.Replace(parts[1], "they", "it", 1)
		}
	case e.MicroUSD != nil:
		parts = append(parts, "too little is known to estimate the time")
	}
	if most := cfg.Execution.Run.CostUSD.Int64(); most > 0 {
		return strings.Join(append(parts, fmt.Sprintf("%s %.2f USD (execution.run.cost_usd)", together, dollars(most))), "; ")
	}
	return strings.Join(append(parts, "the cost is not limited (execution.run.cost_usd is 0)"), "; ")
}

// costText says what attempts, or a single run, will probably cost.
func costText(n attempts.New, what string) string {
	switch e := n.Estimate; {
	case e.MicroUSD == nil && e.Unpriced == len(n.Runs):
		return fmt.Sprintf("the cost of %s cannot be estimated, because the price of the model is unknown (rgpt models)", what)
	case e.MicroUSD == nil && e.DurationMS == nil:
		return fmt.Sprintf("cost and time of %s cannot be estimated, because fewer than %d earlier runs of the project %s were released", what, planning.Fewest, n.Project)
	case e.MicroUSD == nil:
		return fmt.Sprintf("too little is known to estimate the cost of %s", what)
	case e.Known < len(n.Runs):
		return fmt.Sprintf("%d of %s will probably cost about %.4f USD together (from at least %d earlier runs), and too little is known about the others", e.Known, what, dollars(*e.MicroUSD), e.Samples)
	case len(n.Runs) == 1:
		return fmt.Sprintf("this run will probably cost about %.4f USD (from at least %d earlier runs)", dollars(*e.MicroUSD), e.Samples)
	default:
		return fmt.Sprintf("%s will probably cost about %.4f USD: %.4f USD each (from at least %d earlier runs)", what, dollars(*e.MicroUSD), dollars(*e.MicroUSD)/float64(len(n.Runs)), e.Samples)
	}
}

// dollars converts millionths of a US dollar.
func dollars(micro int64) float64 { return float64(micro) / 1e6 }
