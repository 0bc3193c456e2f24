// Package embedding computes the embeddings of many texts, such as the chunks of a repository, for an
// execution of a run or for a command outside runs. As many texts as fit into one request are a model call
// like any other: reserved in all its budgets with the most that it can use, admitted together with the
// calls of all other workers, priced by the catalogue, and settled with what it used.
package embedding

import (
	"context"
	"crypto/rand"
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
	"github.com/rocketgpt/orchestrator/internal/inflight"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/modelcall"
	"github.com/rocketgpt/orchestrator/internal/modelclient"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

// Embedder computes embeddings. It is safe for concurrent use.
type Embedder struct {
	Store     *store.Store
	Admission *admission.Gate // nil: all calls are admitted
	Model     *modelclient.Client
	Config    *config.Config
	Log       *slog.Logger

	calls inflight.Group[modelcall.Key, done]
}

// Work lists the texts to embed, the model to use, and who pays for the calls: a run, or, if it has none,
// a project of a tenant.
type Work struct {
	// Execution is that of a run's agent contract.AgentIndexer; it makes no other model calls. Budget is
	// that of the run, as it was frozen. Without a run, both are zero.
	Execution contract.ExecutionRef
	Budget    contract.RunBudget
	// Tenant and Project pay for calls outside runs, together with the day of the installation.
	Tenant, Project string

	Choice     contract.ModelChoice // a model with model.CapabilityEmbeddings
	Dimensions int                  // of the vectors; 0: the model's default
	Texts      []string             // none of them empty
}

// runless reports whether no run pays.
func (w Work) runless() bool { return w.Execution.RunID == 0 }

// Keep stores the vectors of Texts[first:]. It must be safe to repeat, and must refuse vectors of another
// length than those that it has: a model's default length may change between calls.
type Keep func(ctx context.Context, first int, vectors [][]float32) error

// Embed computes the embeddings of the texts in as few calls as the model allows, and passes the vectors
// of each call to keep before the call counts as done. It returns what the calls that it made used.
//
// For a run, a repeat with the same texts makes only the calls that are not done yet, and joins the one
// that another attempt in this process is making: that attempt keeps its vectors. If a worker dies between
// a response and the end of keep, that call is made, and paid for, again, and its first attempt counts in
// its budgets as used in full. Without a run, nothing is known about earlier calls: the caller leaves out
// the texts whose vectors it has.
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
	if w.runless() && (w.Tenant == "" || w.Project == "") {
		return used, fault.New(contract.ClassRuntime, contract.CodeUnknown, "embeddings outside runs need a tenant and a project that pay for them")
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

// do makes the call unless it is done.
func (b batch) do(ctx context.Context) (done, error) {
	if b.runless() {
		return modelcall.Switching(func() (done, error) { return b.call(ctx, func() {}) })
	}
	return modelcall.Once(ctx, b.ledger(), &b.calls, b.id(), b.Choice.Timeout, b.call)
}

func (b batch) ledger() modelcall.Ledger { return modelcall.Ledger{Store: b.Store, Log: b.Log} }

func (b batch) id() modelcall.Call {
	return modelcall.Call{Execution: b.Execution, Turn: b.turn, Choice: b.Choice}
}

// call reserves the budget of the call, makes it, and settles it once its vectors are kept.
func (b batch) call(ctx context.Context, paid func()) (done, error) {
	request := b.request()
	by := b.Execution
	by.Agent = contract.AgentIndexer
	pass := b.Admission.Choose(ctx, admission.Call{Execution: by, Choice: b.Choice})
	defer pass.Close()
	reserved, err := b.reserve(ctx, request.Request())
	if err != nil {
		return done{}, err
	}
	if reserved.Answer != nil {
		return b.earlier(reserved.Answer.Answer)
	}
	var out model.Embeddings
	_, err = pass.Do(ctx, request.Request(), func(r model.Request) (model.Response, error) {
		paid()
		request.Observe = r.Observe
		var err error
		out, err = b.embed(ctx, request)
		return model.Response{Usage: out.Usage}, err
	})
	telemetry.ObserveModelCall(b.Choice, out.Latency, out.Usage, fault.Of(err))
	b.ledger().ReportExcess(ctx, b.id(), reserved, out.Usage)
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
	r := model.EmbeddingRequest{Choice: b.Choice, Texts: b.texts, Dimensions: b.Dimensions, Timeout: b.Choice.Timeout}
	if b.runless() {
		r.Headers = model.Identity{Agent: string(contract.AgentIndexer), Attempt: 1, Turn: b.turn}
		r.IdempotencyKey = "rgpt-index-" + rand.Text() // nothing identifies the call but its texts
		return r
	}
	r.Headers = model.Identity{
		Run: e.RunID, Agent: string(e.Agent), Phase: string(e.Phase.Running()), Step: e.Step, Attempt: e.Attempt, Turn: b.turn,
	}
	r.IdempotencyKey = fmt.Sprintf("rgpt-%d-%d-%d", e.RunID, e.ID, b.turn)
	return r
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

// reserve reserves the most that the call can use in all its budgets.
func (b batch) reserve(ctx context.Context, r model.Request) (store.Reserved, error) {
	prompt := budget.Prompt(r, budget.Known{})
	reservation := store.Reservation{
		Execution: b.Execution, Turn: b.turn, Provider: b.Choice.Provider, Model: b.Choice.Model, Prompt: prompt,
		Cost:   func(output int64) int64 { return budget.Cost(prompt, output, b.entry) },
		WarnAt: b.Config.Models.Budgets.WarnAt,
	}
	if b.runless() {
		reservation.Scopes = setup.SharedScopes(b.Config.Models.Budgets, b.Tenant, b.Project, time.Now())
		return b.ledger().Reserve(ctx, reservation)
	}
	basis, err := b.Store.CallBasis(ctx, b.Execution, b.turn)
	if err != nil {
		return store.Reserved{}, err
	}
	reservation.Scopes = setup.Scopes(b.Config, b.Execution.RunID, b.Execution.Agent, b.Budget, basis.Tenant, basis.Project, basis.Now())
	return b.ledger().Reserve(ctx, reservation)
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

// settle replaces the reservation with what the call has used, even if the caller is being cancelled.
func (b batch) settle(ctx context.Context, id store.CallID, did done, failed error) error {
	switch {
	case b.runless():
		b.ledger().SettleHold(ctx, b.id(), id, did.Usage)
		return failed
	case failed != nil:
		b.ledger().Fail(ctx, b.id(), id, fault.Of(failed), did.Usage)
		return failed
	}
	raw, err := json.Marshal(did)
	if err != nil {
		return fmt.Errorf("store that call %d of execution %d is done: %w", b.turn, b.Execution.ID, err)
	}
	err = b.ledger().Settle(ctx, b.id(), func(ctx context.Context) error {
		return b.Store.CompleteCall(ctx, id, did.Usage, did.Latency, raw, nil)
	})
	if errors.Is(err, store.ErrSuperseded) {
		return nil // another worker has kept the vectors of the same texts
	}
	return err
}
