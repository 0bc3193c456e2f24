// Package embedding computes the embeddings of many texts for an execution, such as one that indexes a
// repository. As many texts as fit into one request are a model call like any other: reserved in all its
// budgets with the most that it can use, admitted together with the calls of all other workers, priced by
// the catalogue, and settled with what it used.
package embedding

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/admission"
	"github.com/rocketgpt/orchestrator/internal/budget"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/modelclient"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

const (
	// budgetWait is the pause between attempts of a call that waits for others to settle.
	budgetWait = 100 * time.Millisecond
	// storeTimeout limits one attempt to settle a call.
	storeTimeout = 10 * time.Second
)

// Embedder computes embeddings. It is safe for concurrent use.
type Embedder struct {
	Store     *store.Store
	Admission *admission.Gate // nil: all calls are admitted
	Model     *modelclient.Client
	Config    *config.Config
	Log       *slog.Logger
}

// Work lists the texts to embed, the model to use, and the execution that pays for the calls.
type Work struct {
	Execution  contract.ExecutionRef // of contract.AgentIndexer; it makes no other model calls
	Choice     contract.ModelChoice  // a model with model.CapabilityEmbeddings
	Dimensions int                   // of the vectors; 0: the model's default
	Budget     contract.RunBudget    // of the run, as it was frozen
	Texts      []string              // none of them empty
}

// Keep stores the vectors of Texts[first:]. It must be safe to repeat, and must refuse vectors of another
// length than those that it has: a model's default length may change between calls.
type Keep func(ctx context.Context, first int, vectors [][]float32) error

// Embed computes the embeddings of the texts in as few calls as the model allows, and passes the vectors
// of each call to keep before the call counts as done. It returns what the calls that it made used.
//
// A repeat with the same texts makes only the calls that are not done yet. If a worker dies between a
// response and the end of keep, that call is made, and paid for, again, and its first attempt counts in
// its budgets as used in full.
//
// Errors are those of the model client, of the store and of keep, so the caller retries them by their
// class. No other model takes the place of one that is out: its vectors could not be compared.
func (e *Embedder) Embed(ctx context.Context, w Work, keep Keep) (used contract.Usage, err error) {
	entry, _ := e.Model.Entry(w.Choice)
	if !entry.Can(model.CapabilityEmbeddings) {
		return used, fault.New(contract.ClassConfig, contract.CodeInvalidConfig,
			"model %s of provider %s computes no embeddings, as far as the catalogue knows; choose another model, or add the capability embeddings to it under models.catalogue",
			w.Choice.Model, w.Choice.Provider)
	}
	limits := entry.EmbeddingLimits(model.Kind(e.Config.Models.Providers[w.Choice.Provider].Kind))
	for first, turn := 0, 1; first < len(w.Texts); turn++ {
		b := batch{Embedder: e, Work: w, turn: turn, first: first, texts: limits.Batch(w.Texts[first:]), entry: entry, keep: keep}
		did, err := b.do(ctx)
		used = used.Add(did.Usage)
		if err != nil {
			return used, err
		}
		first += did.Texts
	}
	return used, nil
}

// batch is one call.
type batch struct {
	*Embedder
	Work
	turn  int
	first int // of its texts, in Work
	texts []string
	entry model.CatalogueEntry
	keep  Keep
}

// done is a call that is done, as the database stores it: it is a response without a text. The number of
// its texts does not depend on limits that change later.
type done struct {
	model.Response
	Texts int `json:"texts"`
}

// do makes the call unless it is done. Another live worker that makes it, because Temporal lost track of
// it, is waited for as long as the call may take: what it gets is paid for.
func (b batch) do(ctx context.Context) (done, error) {
	release, owned, err := b.Store.LeaseCall(ctx, b.Execution.ID, b.turn, cmp.Or(b.Choice.Timeout, model.DefaultTimeout)+storeTimeout)
	if err != nil {
		return done{}, err
	}
	defer release()
	if !owned {
		b.Log.WarnContext(ctx, "Another worker's model call timed out; making the call here", "execution", b.Execution.ID, "turn", b.turn)
	}
	for {
		did, err := b.call(ctx)
		if !admission.ShouldSwitch(err) { // else the model is back, or out: admission knows
			return did, err
		}
	}
}

// call reserves the budget of the call, makes it, and settles it once its vectors are kept.
func (b batch) call(ctx context.Context) (done, error) {
	request := b.request()
	pass := b.Admission.Choose(ctx, admission.Call{Execution: b.Execution, Choice: b.Choice})
	defer pass.Close()
	reserved, err := b.reserve(ctx, request.Request())
	if err != nil {
		return done{}, err
	}
	if reserved.Answer != nil {
		return b.earlier(reserved.Answer.Answer)
	}
	for _, w := range reserved.Warnings {
		telemetry.BudgetWarnings.WithLabelValues(string(w.Kind)).Inc()
		b.Log.WarnContext(ctx, "A budget is nearly used up", "warning", w.Text, "run", b.Execution.RunID)
	}
	var out model.Embeddings
	_, err = pass.Do(ctx, request.Request(), func(r model.Request) (model.Response, error) {
		request.Observe = r.Observe
		var err error
		out, err = b.embed(ctx, request)
		return model.Response{Usage: out.Usage}, err
	})
	telemetry.ObserveModelCall(b.Choice, out.Latency, out.Usage, fault.Of(err))
	b.reportExcess(ctx, reserved, out.Usage)
	if err == nil {
		err = b.keep(ctx, b.first, out.Vectors)
	}
	did := done{Texts: len(b.texts), Response: model.Response{
		FinishReason: "stop", Usage: out.Usage, Estimated: out.Estimated, Model: out.Model, Latency: out.Latency,
	}}
	return did, b.settle(ctx, reserved.ID, did, err)
}

func (b batch) request() model.EmbeddingRequest {
	e := b.Execution
	return model.EmbeddingRequest{
		Choice: b.Choice, Texts: b.texts, Dimensions: b.Dimensions, Timeout: b.Choice.Timeout,
		Headers: model.Identity{
			Run: e.RunID, Agent: string(e.Agent), Phase: string(e.Phase.Running()), Step: e.Step, Attempt: e.Attempt, Turn: b.turn,
		},
		IdempotencyKey: fmt.Sprintf("rgpt-%d-%d-%d", e.RunID, e.ID, b.turn),
	}
}

// earlier reads a call that is done. It costs nothing now.
func (b batch) earlier(raw json.RawMessage) (done, error) {
	var did done
	if err := json.Unmarshal(raw, &did); err != nil || did.Texts <= 0 {
		return done{}, fault.New(contract.ClassRuntime, contract.CodeUnknown,
			"model call %d of execution %d is done, but computed no embeddings; compute embeddings in an execution of their own", b.turn, b.Execution.ID)
	}
	did.Usage = contract.Usage{}
	return did, nil
}

// reserve reserves the most that the call can use in all its budgets. While running calls have reserved
// the rest of a budget, it waits for them to settle.
func (b batch) reserve(ctx context.Context, r model.Request) (store.Reserved, error) {
	basis, err := b.Store.CallBasis(ctx, b.Execution, b.turn)
	if err != nil {
		return store.Reserved{}, err
	}
	prompt := budget.Prompt(r, budget.Known{})
	for {
		reserved, err := b.Store.ReserveCall(ctx, store.Reservation{
			Execution: b.Execution, Turn: b.turn, Provider: b.Choice.Provider, Model: b.Choice.Model, Prompt: prompt,
			Cost:   func(output int64) int64 { return budget.Cost(prompt, output, b.entry) },
			WarnAt: b.Config.Models.Budgets.WarnAt,
			Scopes: setup.Scopes(b.Config, b.Execution.RunID, b.Execution.Agent, b.Budget, basis.Tenant, basis.Project, basis.Now()),
		})
		if !errors.Is(err, store.ErrBudgetBusy) {
			return reserved, err
		}
		select {
		case <-ctx.Done():
			return reserved, ctx.Err()
		case <-time.After(budgetWait):
		}
	}
}

// embed makes the call within its own span.
func (b batch) embed(ctx context.Context, r model.EmbeddingRequest) (model.Embeddings, error) {
	ctx, span := telemetry.Tracer().Start(ctx, "model.embed", trace.WithAttributes(
		attribute.Int64("rgpt.run", r.Headers.Run), attribute.String("rgpt.agent", r.Headers.Agent), attribute.Int("rgpt.turn", r.Headers.Turn),
		attribute.String("gen_ai.system", r.Choice.Provider), attribute.String("gen_ai.request.model", r.Choice.Model),
	))
	defer span.End()
	out, err := b.Model.Embed(ctx, r)
	span.SetAttributes(attribute.Int64("gen_ai.usage.input_tokens", out.Usage.PromptTokens))
	if err != nil {
		span.SetStatus(codes.Error, string(fault.Of(err).Class))
	}
	return out, err
}

// reportExcess reports a provider that charged more than was reserved. The excess is booked like any
// usage.
func (b batch) reportExcess(ctx context.Context, reserved store.Reserved, used contract.Usage) {
	if used.Tokens() <= reserved.Tokens && used.MicroUSD <= reserved.MicroUSD {
		return
	}
	telemetry.BudgetExcesses.WithLabelValues(b.Choice.Provider, b.Choice.Model).Inc()
	b.Log.WarnContext(ctx, "A provider charged more for a model call than was reserved", "run", b.Execution.RunID, "execution", b.Execution.ID, "turn", b.turn,
		"provider", b.Choice.Provider, "model", b.Choice.Model, "tokens", used.Tokens(), "reserved_tokens", reserved.Tokens)
}

// settle replaces the reservation with what the call has used, even if the caller is being cancelled.
func (b batch) settle(ctx context.Context, id store.CallID, did done, failed error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	if failed != nil {
		if err := b.Store.FailCall(ctx, id, fault.Of(failed), did.Usage); err != nil {
			b.Log.WarnContext(ctx, "Could not settle a failed model call; the next attempt will take over its reservation", "execution", b.Execution.ID, "turn", b.turn, "error", err)
		}
		return failed
	}
	raw, err := json.Marshal(did)
	if err != nil {
		return fmt.Errorf("store that call %d of execution %d is done: %w", b.turn, b.Execution.ID, err)
	}
	err = b.Store.CompleteCall(ctx, id, did.Usage, did.Latency, raw, nil)
	if errors.Is(err, store.ErrSuperseded) {
		return nil // another worker has kept the vectors of the same texts
	}
	return err
}
