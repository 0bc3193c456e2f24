// Package admission decides, together with all other workers, whether a model may be called now,
// and which one is called in its place while it is out.
//
// The state is in the database, so that a provider that one worker found to be out is not called by
// the others, and exactly one call of all workers finds out whether it is back. While nothing is
// wrong, a call costs no statement: each process reads the state at most once per Options.Refresh,
// and writes only failures, and the first success after them.
package admission

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/providers"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

// Options configure a gate.
type Options struct {
	// Failures is the number of failures in a row that open a breaker; 0: breakers never open.
	Failures int
	// Pause is how long a breaker stays open at first. It doubles with each failed probe, up to
	// LongestPause.
	Pause, LongestPause time.Duration
	// ProbeLease is how long a probe counts after its worker has died.
	ProbeLease time.Duration
	// Limits are those of providers, by name.
	Limits map[string]providers.Limits
	// Lease is how long the calls of a worker that has died count for limits; 0 means DefaultLease.
	Lease time.Duration
	// Poll is the mean time between two looks at a queue; 0 means DefaultPoll.
	Poll time.Duration
	// Announce is how long a call waits before an event of its run says so; 0 means DefaultAnnounce.
	Announce time.Duration
	// Refresh is the age at which the known state is read again; 0 means DefaultRefresh.
	Refresh time.Duration
	// Configured returns why this worker cannot call a provider, nil if it can.
	Configured func(provider string) error
	Log        *slog.Logger
}

const (
	// DefaultRefresh is the age at which a process reads the state of the providers again.
	DefaultRefresh = time.Second
	// storeTimeout limits one write of a call's outcome, and one refresh.
	storeTimeout = 10 * time.Second
	// renewals is the number of times that a lease is extended before it would expire.
	renewals = 3
	// maxAnnounced is the number of switches that a process remembers to have recorded.
	maxAnnounced = 1000
)

// Gate admits model calls. It is safe for concurrent use; a nil gate admits all calls.
type Gate struct {
	rows *providers.Store
	o    Options

	queues     queues
	refreshing chan struct{} // one refresh at a time

	mu        sync.Mutex
	known     state
	failed    time.Time       // the last refresh that failed
	announced map[string]bool // switches that are recorded, by outage
}

// New returns a gate that shares its state with all gates on the same database.
func New(st *store.Store, o Options) *Gate {
	if o.Refresh <= 0 {
		o.Refresh = DefaultRefresh
	}
	o.Lease, o.Poll, o.Announce = cmp.Or(o.Lease, DefaultLease), cmp.Or(o.Poll, DefaultPoll), cmp.Or(o.Announce, DefaultAnnounce)
	g := &Gate{rows: providers.New(st), o: o, refreshing: make(chan struct{}, 1), announced: map[string]bool{}}
	g.queues = queues{gate: g, of: map[string]*queue{}}
	return g
}

// state is what a process knows about the providers.
type state struct {
	at       time.Time // when it was read; zero: it must be read again
	breakers []providers.Breaker
	pauses   []providers.Pause
}

// of returns the breakers of a model and its provider, unless they are closed.
func (s state) of(c contract.ModelChoice, now time.Time) []providers.Breaker {
	var out []providers.Breaker
	for _, b := range s.breakers {
		if b.Provider != c.Provider || b.Model != "" && b.Model != c.Model || b.State == providers.Closed {
			continue
		}
		if b.RetryIn -= now.Sub(s.at); b.RetryIn <= 0 {
			b.RetryIn, b.State = 0, providers.HalfOpen
		}
		out = append(out, b)
	}
	return out
}

// failed reports whether a model or its provider has failed since their last success.
func (s state) failed(c contract.ModelChoice) bool {
	for _, b := range s.breakers {
		if b.Provider == c.Provider && (b.Model == "" || b.Model == c.Model) {
			return true
		}
	}
	return false
}

// state returns the known state, and reads it if it is too old. While the database does not
// respond, the last known state applies: calls cannot be reserved then anyway.
func (g *Gate) state(ctx context.Context) state {
	current := func() (state, bool) {
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.known, !g.known.at.IsZero() && time.Since(g.known.at) < g.o.Refresh || time.Since(g.failed) < g.o.Refresh
	}
	if s, fresh := current(); fresh {
		return s
	}
	select {
	case g.refreshing <- struct{}{}:
		defer func() { <-g.refreshing }()
	case <-ctx.Done():
	}
	s, fresh := current()
	if fresh || ctx.Err() != nil {
		return s
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	asked := time.Now()
	breakers, err := g.rows.Breakers(ctx)
	var pauses []providers.Pause
	if err == nil {
		pauses, err = g.rows.Pauses(ctx)
	}
	if err != nil {
		g.o.Log.WarnContext(ctx, "Could not read the state of the model providers; the last known state applies", "error", err)
		g.mu.Lock()
		defer g.mu.Unlock()
		g.failed = time.Now()
		return s
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.known = state{at: asked, breakers: breakers, pauses: pauses}
	return g.known
}

// forget makes the next call read the state.
func (g *Gate) forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.known.at = time.Time{}
}

// Call is a model call to be admitted.
type Call struct {
	Execution contract.ExecutionRef
	Choice    contract.ModelChoice   // the model that the run is configured to use
	Fallbacks []contract.ModelChoice // models to use while that one is out, in order
	// Fit returns which of the fallbacks that are not out takes the call, the zero choice if none can
	// make it, and why it is not one of the others; nil: the first does.
	Fit func(ctx context.Context, usable []contract.ModelChoice) (contract.ModelChoice, []contract.PassedOver, error)
}

// Pass is the permission to call one model once.
type Pass struct {
	// Choice is the model to call.
	Choice contract.ModelChoice
	// PassedOver says why fallbacks were not chosen while the configured model is out.
	PassedOver []contract.PassedOver

	gate    *Gate
	call    Call
	probe   string // the token of a probe; empty: the call is none
	release func() // ends the renewal of the probe's lease; nil: none
	refused error  // set if no model may be called now
}

// Choose returns the permission to call a model: the configured one, or the first usable fallback
// while that one's breaker is open that can make the call. If there is none, Do returns the reason. Close must be called in
// the end.
//
// Without a fallback, Choose waits for the outcome of another call that probes the model.
func (g *Gate) Choose(ctx context.Context, c Call) *Pass {
	p := &Pass{Choice: c.Choice, gate: g, call: c}
	if g == nil || g.o.Failures == 0 {
		return p
	}
	for {
		token, breaker := g.admit(ctx, c.Choice)
		if breaker == nil {
			if token != "" {
				// From now on: the call may still have to wait for its budget.
				p.probe, p.release = token, g.keep(ctx, c.Choice.Provider, token)
			}
			return p
		}
		to, passed, err := g.fallback(ctx, c)
		switch {
		case err != nil:
			p.refused = err
		case to.Model != "":
			g.announce(ctx, c, to, breaker)
			p.Choice, p.PassedOver = to, passed
		case breaker.State == providers.HalfOpen && g.wait(ctx):
			continue
		default:
			p.refused = g.refusal(breaker, passed)
		}
		return p
	}
}

// wait waits until the state is read again. It reports false if ctx ended.
func (g *Gate) wait(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(g.o.Refresh):
		return true
	}
}

// admit reports whether a model may be called now: the breaker that prevents it is nil. If the
// model is to be probed, the call becomes the probe with the returned token, unless another one is.
func (g *Gate) admit(ctx context.Context, c contract.ModelChoice) (token string, prevented *providers.Breaker) {
	const attempts = 2 // the known state may be outdated
	for range attempts {
		open := g.state(ctx).of(c, time.Now())
		if len(open) == 0 {
			return "", nil
		}
		prevented = &open[0]
		for i := range open {
			if open[i].State == providers.Open {
				return "", &open[i]
			}
		}
		token = rand.Text()
		taken, err := g.rows.TakeProbe(ctx, c.Provider, c.Model, token, g.o.ProbeLease)
		if err == nil && taken == len(open) {
			g.o.Log.InfoContext(ctx, "Trying whether a model is available again", "provider", c.Provider, "model", c.Model, "failures", prevented.Failures)
			return token, nil
		}
		if err == nil && taken > 0 {
			err = g.rows.ReleaseProbe(ctx, c.Provider, token)
		}
		if err != nil {
			g.o.Log.WarnContext(ctx, "Could not probe a model provider", "provider", c.Provider, "model", c.Model, "error", err)
			return "", prevented
		}
		g.forget()
	}
	return "", prevented
}

// fallback returns the other model that takes a call: one that this worker can call, whose breakers are
// closed, and that fits. It returns the zero choice if there is none, and why it is not one of the
// others.
func (g *Gate) fallback(ctx context.Context, c Call) (contract.ModelChoice, []contract.PassedOver, error) {
	known, now := g.state(ctx), time.Now()
	var usable []contract.ModelChoice
	var passed []contract.PassedOver
	for _, f := range c.Fallbacks {
		if f.Provider == c.Choice.Provider && f.Model == c.Choice.Model {
			continue
		}
		why := ""
		if len(known.of(f, now)) > 0 {
			why = "it is out as well"
		} else if g.o.Configured != nil {
			if err := g.o.Configured(f.Provider); err != nil {
				why = fault.Of(err).Message
			}
		}
		if why != "" {
			passed = append(passed, contract.PassedOver{Provider: f.Provider, Model: f.Model, Why: why})
			continue
		}
		usable = append(usable, f)
	}
	switch {
	case len(usable) == 0:
		return contract.ModelChoice{}, passed, nil
	case c.Fit == nil:
		return usable[0], passed, nil
	}
	to, unfit, err := c.Fit(ctx, usable)
	return to, append(passed, unfit...), err
}

// announce records once that an agent uses another model.
func (g *Gate) announce(ctx context.Context, c Call, to contract.ModelChoice, b *providers.Breaker) {
	key := fmt.Sprint(c.Execution.RunID, c.Execution.Agent, c.Choice.Provider, "/", c.Choice.Model, to.Provider, "/", to.Model, b.OpenedAt)
	g.mu.Lock()
	known := g.announced[key]
	g.mu.Unlock()
	if known {
		return
	}
	started, err := g.rows.StartFallback(ctx, providers.Fallback{
		RunID: c.Execution.RunID, Agent: c.Execution.Agent, From: c.Choice, To: to, Reason: b.Reason,
	})
	if err != nil {
		g.o.Log.WarnContext(ctx, "Could not record that a run uses another model", "run", c.Execution.RunID, "error", err)
		return
	}
	if started {
		telemetry.CountFallback(c.Choice, to)
		g.o.Log.WarnContext(ctx, "A model is out; using another one", "run", c.Execution.RunID, "agent", c.Execution.Agent,
			"provider", c.Choice.Provider, "model", c.Choice.Model, "to_provider", to.Provider, "to_model", to.Model)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.announced) >= maxAnnounced {
		clear(g.announced)
	}
	g.announced[key] = true
}

// Out returns why a model cannot be called now: its breaker is open, or its provider has no key; "" if
// it can be called. The wait is the time until its breaker lets a call try; 0 if waiting does not help.
func (g *Gate) Out(ctx context.Context, c contract.ModelChoice) (why string, wait time.Duration) {
	if g == nil {
		return "", 0
	}
	if g.o.Configured != nil {
		if err := g.o.Configured(c.Provider); err != nil {
			return fault.Of(err).Message, 0
		}
	}
	if g.o.Failures == 0 {
		return "", 0
	}
	for _, b := range g.state(ctx).of(c, time.Now()) {
		if b.State == providers.Open && b.RetryIn > wait {
			wait = b.RetryIn
			why = fmt.Sprintf("it failed %d times in a row, so it is not called for another %s", b.Failures, wait.Round(time.Second/10))
		}
	}
	return why, wait
}

// refusal is the failure of a call that cannot be made now, and why no other model makes it. It is
// retried when the pause is over.
func (g *Gate) refusal(b *providers.Breaker, others []contract.PassedOver) *fault.Error {
	what := "provider " + b.Provider
	if b.Model != "" {
		what = fmt.Sprintf("model %s of provider %s", fault.Clip(b.Model, 80), b.Provider)
	}
	instead := "none of the run's other models can be used instead"
	for i, o := range others {
		instead += map[bool]string{true: ": ", false: "; "}[i == 0] + fmt.Sprintf("%s/%s: %s", o.Provider, fault.Clip(o.Model, 80), fault.Clip(o.Why, 200))
	}
	wait := cmp.Or(b.RetryIn, g.o.Refresh)
	return fault.New(contract.ClassInfra, contract.CodeUnavailable,
		"%s is out and is not called for another %s: it failed %d times in a row, most recently: %s. At the moment, %s. Add one that can to models.fallback",
		what, wait.Round(time.Second/10), b.Failures, fault.Clip(b.Reason, 400), instead).After(wait)
}

// Do waits for the turn of a call at its provider, makes it with the model of the pass, and records
// what it shows about the provider. If the failure leaves another model to use, ShouldSwitch reports
// true for the error.
func (p *Pass) Do(ctx context.Context, r model.Request, call func(model.Request) (model.Response, error)) (model.Response, error) {
	if p.gate == nil {
		return call(r)
	}
	if p.refused != nil {
		return model.Response{}, p.refused
	}
	turn, err := p.gate.enter(ctx, providers.QueuedCall{
		Provider: p.Choice.Provider, Model: p.Choice.Model, RunID: p.call.Execution.RunID, Agent: p.call.Execution.Agent, Step: p.call.Execution.Step,
		Tokens: tokensOf(r),
	})
	if err != nil {
		return model.Response{}, err
	}
	written, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	if open := p.gate.state(ctx).of(p.Choice, time.Now()); turn.queue != nil && p.probe == "" && len(open) > 0 {
		turn.unused(written)
		return model.Response{}, &switchError{p.gate.refusal(&open[0], nil)} // choose again
	}
	var seen observed
	r.Observe = seen.observe
	response, err := call(r)
	written, cancel = context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	turn.done(written, response.Usage.Tokens())
	p.pause(written, &seen, err)
	return response, p.conclude(written, &seen, err)
}

// pause records that the provider accepts no calls for a while, if it reported that.
func (p *Pass) pause(ctx context.Context, seen *observed, failure error) {
	pause, what := seen.pause()
	var limited *fault.Error
	if errors.As(failure, &limited) && limited.Code == contract.CodeRateLimited && limited.RetryAfter > pause {
		pause, what = limited.RetryAfter, limited.Message
	}
	if pause <= 0 {
		return
	}
	g := p.gate
	g.o.Log.InfoContext(ctx, "A model provider accepts no calls for a while", "provider", p.Choice.Provider, "pause", pause, "limit", what)
	if err := g.rows.Pause(ctx, providers.Pause{Provider: p.Choice.Provider, For: pause, Reason: what}); err != nil {
		g.o.Log.WarnContext(ctx, "Could not record the pause of a model provider", "provider", p.Choice.Provider, "error", err)
		return
	}
	g.forget()
}

// keep extends the lease of a probe until the returned function is called.
func (g *Gate) keep(ctx context.Context, provider, token string) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() {
		tick := time.NewTicker(g.o.ProbeLease / renewals)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if err := g.rows.RenewProbe(ctx, provider, token, g.o.ProbeLease); err != nil && ctx.Err() == nil {
				g.o.Log.WarnContext(ctx, "Could not extend the lease of a probe", "error", err)
			}
		}
	})
	return func() { cancel(); done.Wait() }
}

// conclude records the outcome of a call, and returns its error.
func (p *Pass) conclude(ctx context.Context, seen *observed, err error) error {
	if p.gate.o.Failures == 0 {
		return err
	}
	switch scope := scopeOf(seen.last(), err); scope {
	case fails, failsProvider:
		return p.failed(ctx, scope, err)
	case succeeds:
		p.succeeded(ctx)
	case unknown: // Close releases the probe
	}
	return err
}

func (p *Pass) succeeded(ctx context.Context) {
	g := p.gate
	if p.probe == "" && !g.state(ctx).failed(p.Choice) {
		return
	}
	closed, err := g.rows.Succeed(ctx, p.Choice.Provider, p.Choice.Model, p.probe)
	if err == nil {
		p.probe = ""
		g.forget()
		if closed {
			g.o.Log.InfoContext(ctx, "A model is available again", "provider", p.Choice.Provider, "model", p.Choice.Model)
			err = g.rows.EndFallbacks(ctx, p.Choice.Provider)
		}
	}
	if err != nil {
		g.o.Log.WarnContext(ctx, "Could not record that a model responds", "provider", p.Choice.Provider, "model", p.Choice.Model, "error", err)
	}
}

// failed counts a failure. If the model is out now, the returned error says when it is tried again,
// or that another one can be used at once.
func (p *Pass) failed(ctx context.Context, scope scope, failure error) error {
	g := p.gate
	named := p.Choice.Model
	if scope == failsProvider {
		named = ""
	}
	b, opened, err := g.rows.Fail(ctx, providers.Failure{
		Provider: p.Choice.Provider, Model: named, Probe: p.probe, Reason: fault.Of(failure).Message,
		Threshold: g.o.Failures, Pause: g.o.Pause, Longest: g.o.LongestPause,
	})
	if err != nil {
		g.o.Log.WarnContext(ctx, "Could not record the failure of a model", "provider", p.Choice.Provider, "model", p.Choice.Model, "error", err)
		return failure
	}
	g.forget()
	for _, name := range opened {
		telemetry.CountBreaker(b.Provider, name)
		g.o.Log.WarnContext(ctx, "A model is out and is not called for a while", "provider", b.Provider, "model", name, "failures", b.Failures, "error", failure)
	}
	if b.State == providers.Closed && len(opened) == 0 {
		return failure
	}
	known := g.state(ctx)
	if open := known.of(p.Choice, time.Now()); b.State == providers.Closed && len(open) > 0 {
		b = open[0] // the call was the probe of another breaker than the one that its failure counts for
	}
	// Another model, or the configured one if a fallback failed.
	if to, _, err := g.fallback(ctx, p.call); err == nil && to.Model != "" || len(known.of(p.call.Choice, time.Now())) == 0 {
		return &switchError{failure}
	}
	var typed *fault.Error
	if errors.As(failure, &typed) {
		typed.RetryAfter = max(typed.RetryAfter, b.RetryIn)
	}
	return failure
}

// Close ends the permission. It lets another call be the probe if this one showed nothing about the
// provider.
func (p *Pass) Close() {
	if p.release != nil {
		p.release()
	}
	if p.gate == nil || p.probe == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	if err := p.gate.rows.ReleaseProbe(ctx, p.Choice.Provider, p.probe); err != nil {
		p.gate.o.Log.Warn("Could not release a probe; its lease will expire", "error", err)
	}
}

// switchError is the failure of a call of a model that is out now, while another one is usable.
type switchError struct{ error }

func (e *switchError) Unwrap() error { return e.error }

// ShouldSwitch reports whether a failed call can be repeated at once, with another model.
func ShouldSwitch(err error) bool {
	var e *switchError
	return errors.As(err, &e)
}
