// Package rerank asks a model for the order of what a search in a repository found. The call is a model
// call like any other: reserved in all its budgets with the most that it can use, admitted together with
// the calls of all other workers, priced by the catalogue, and settled with what it used.
package rerank

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/admission"
	"github.com/rocketgpt/orchestrator/internal/brain"
	"github.com/rocketgpt/orchestrator/internal/budget"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/modelcall"
	"github.com/rocketgpt/orchestrator/internal/modelclient"
	"github.com/rocketgpt/orchestrator/internal/prompt"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

const (
	// outputBase and outputPerFile limit a response, in tokens: a list of numbers needs less, even if it
	// is formatted generously.
	outputBase, outputPerFile = 256, 16
)

// ForBrain returns what orders the results of searches again; nil if brain.rerank names no model. The
// projects of the repositories pay for the calls, also for those of runs, as for embeddings.
func ForBrain(cfg *config.Config, db *store.Store, models *modelclient.Client, gate *admission.Gate, log *slog.Logger) (*brain.Reranking, error) {
	choice, ok, err := setup.RerankModel(cfg)
	if !ok || err != nil {
		return nil, err
	}
	c := cfg.Brain.Rerank
	r := &reranker{store: db, admission: gate, model: models, config: cfg, choice: choice, log: log}
	return &brain.Reranking{
		Model: choice.Provider + "/" + choice.Model, Files: c.Files, Excerpt: int(c.Excerpt.Int64()), Wait: c.Wait, Order: r.order,
	}, nil
}

type reranker struct {
	store     *store.Store
	admission *admission.Gate
	model     *modelclient.Client
	config    *config.Config
	choice    contract.ModelChoice
	log       *slog.Logger
}

// answer is the model's response.
type answer struct {
	Order []int `json:"order" jsonschema_description:"The numbers of all files, each once, the file that matters most first."`
}

// order asks the model for the order of files. Apart from numbers, nothing of its response is used.
func (r *reranker) order(ctx context.Context, repo, question string, files []brain.Candidate) (order []int, used contract.Usage, err error) {
	task := prompt.RerankTask{Question: question}
	for _, f := range files {
		task.Files = append(task.Files, prompt.Excerpt{Name: f.Path, Text: f.Text})
	}
	p, err := prompt.Rerank(task)
	if err != nil {
		return nil, used, err
	}
	schema := model.SchemaOf[answer]()
	response, err := modelcall.Switching(func() (model.Response, error) { return r.call(ctx, repo, r.request(p, schema, len(files))) })
	if err != nil {
		return nil, response.Usage, err
	}
	order, err = read(schema, response.Text)
	return order, response.Usage, err
}

// read returns the positions that a response names. Its text does not become part of an error.
func read(schema model.Schema, text string) ([]int, error) {
	var a answer
	doc, err := model.CheckJSON(schema, text)
	if err == nil {
		err = json.Unmarshal(doc, &a)
	}
	if err != nil {
		return nil, fault.Wrap(err, contract.ClassLLM, contract.CodeInvalidOutput, "its response is not a list of the files' numbers in JSON")
	}
	for i := range a.Order {
		a.Order[i]--
	}
	return a.Order, nil
}

// request returns the request for the order of n files.
func (r *reranker) request(p prompt.Prompt, schema model.Schema, n int) model.Request {
	entry, _ := r.model.Entry(r.choice)
	output := int64(outputBase + n*outputPerFile)
	choice := r.choice
	if entry.Reasons(choice.Effort) {
		output = max(output, int64(r.config.Models.Budgets.MinReasoningTokens))
		choice.Effort = contract.EffortLow // the search waits
	}
	return model.Request{
		Choice: choice, Messages: []model.Message{{Role: model.RoleSystem, Text: p.System}, {Role: model.RoleUser, Text: p.Task}},
		Schema: &schema, MaxOutput: budget.Output(output, entry),
		Headers:        model.Identity{Agent: string(contract.AgentIndexer), Attempt: 1, Turn: 1},
		IdempotencyKey: "rgpt-rerank-" + rand.Text(), // nothing identifies the call but its texts
	}
}

// call reserves the budget of the call, makes it, and settles it. The response has its usage even if it
// cannot be used.
func (r *reranker) call(ctx context.Context, repo string, request model.Request) (model.Response, error) {
	ledger := modelcall.Ledger{Store: r.store, Log: r.log}
	id := modelcall.Call{Turn: 1, Choice: request.Choice}
	pass := r.admission.Choose(ctx, admission.Call{Execution: contract.ExecutionRef{Agent: contract.AgentIndexer}, Choice: request.Choice})
	defer pass.Close()
	reserved, err := r.reserve(ctx, ledger, repo, request)
	if err != nil {
		return model.Response{}, err
	}
	response, err := pass.Do(ctx, request, func(m model.Request) (model.Response, error) { return r.complete(ctx, m) })
	telemetry.ObserveModelCall(request.Choice, response.Latency, response.Usage, fault.Of(err))
	ledger.ReportExcess(ctx, id, reserved, response.Usage)
	ledger.SettleHold(ctx, id, reserved.ID, response.Usage)
	return response, err
}

// reserve reserves the most that the call can use in the budgets of the repository's project, of the
// tenant and of the day, unless that exceeds the limit of one search.
func (r *reranker) reserve(ctx context.Context, ledger modelcall.Ledger, repo string, request model.Request) (store.Reserved, error) {
	entry, _ := r.model.Entry(r.choice)
	bound := budget.Prompt(request, budget.Known{})
	cost := func(output int64) int64 { return budget.Cost(bound, output, entry) }
	if most, limit := cost(request.MaxOutput), r.config.Brain.Rerank.MaxCostUSD.Int64(); limit > 0 && most > limit {
		return store.Reserved{}, fault.New(contract.ClassConfig, contract.CodeBudgetExceeded,
			"the call could cost $%s, but a search may cost $%s (brain.rerank.max_cost_usd); raise this limit, or lower brain.rerank.files or brain.rerank.excerpt", dollars(most), dollars(limit))
	}
	return ledger.Reserve(ctx, store.Reservation{
		Provider: r.choice.Provider, Model: r.choice.Model, Prompt: bound, Output: request.MaxOutput, MinOutput: request.MaxOutput, Cost: cost,
		WarnAt: r.config.Models.Budgets.WarnAt,
		Scopes: setup.SharedScopes(r.config.Models.Budgets, store.DefaultTenant, setup.ProjectOf(repo), time.Now()),
	})
}

// complete makes the call within its own span.
func (r *reranker) complete(ctx context.Context, request model.Request) (model.Response, error) {
	ctx, span := telemetry.Tracer().Start(ctx, "model.rerank", trace.WithAttributes(
		attribute.String("rgpt.agent", request.Headers.Agent),
		attribute.String("gen_ai.system", request.Choice.Provider), attribute.String("gen_ai.request.model", request.Choice.Model),
	))
	defer span.End()
	response, err := r.model.Complete(ctx, request)
	span.SetAttributes(attribute.Int64("gen_ai.usage.input_tokens", response.Usage.PromptTokens), attribute.Int64("gen_ai.usage.output_tokens", response.Usage.CompletionTokens))
	if err != nil {
		span.SetStatus(codes.Error, string(fault.Of(err).Class))
	}
	return response, err
}

// dollars writes millionths of US dollars without rounding.
func dollars(micros int64) string { return fmt.Sprintf("%.6g", float64(micros)/1e6) }
