package modelclient

import (
	"context"
	"errors"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/model"
)

// Options configure a client. The zero value is usable.
type Options struct {
	// MaxResponse is the maximum size of a response, in bytes of its text and tool arguments; 0
	// means DefaultMaxResponse.
	MaxResponse int64
	// IdleTimeout is the longest time without data during a streamed call, counted from the
	// request; 0 means DefaultIdleTimeout.
	IdleTimeout time.Duration
	// Transport carries the requests, for telemetry and tests; nil means the client's own.
	Transport http.RoundTripper
	// Getenv reads the environment; nil means os.Getenv.
	Getenv func(string) string
}

// Defaults of a client.
const (
	DefaultMaxResponse = 8 << 20
	DefaultIdleTimeout = 3 * time.Minute // reasoning models may think for a long time without output
)

// Client calls models. It is safe for concurrent use.
type Client struct {
	providers map[string]*endpoint
	catalogue atomic.Pointer[model.Catalogue]
	opts      Options
	http      *http.Client
	close     func()
}

// endpoint is a provider in use.
type endpoint struct {
	model.Provider
	slots    chan struct{} // one token for each call in progress
	complete sync.Map      // models found unable to stream
}

// New creates a client. An unusable provider is a CONFIG_ERROR; missing keys are reported only when
// they are needed, because a run uses few of the providers.
func New(providers []model.Provider, catalogue model.Catalogue, opts Options) (*Client, error) {
	c := &Client{providers: map[string]*endpoint{}, opts: opts.withDefaults()}
	c.SetCatalogue(catalogue)
	for _, p := range providers {
		if err := p.Check(); err != nil {
			return nil, err
		}
		p = p.WithDefaults()
		if c.providers[p.Name] != nil {
			return nil, fault.New(contract.ClassConfig, contract.CodeInvalidConfig, "two model providers are named %s", p.Name)
		}
		c.providers[p.Name] = &endpoint{Provider: p, slots: make(chan struct{}, p.MaxConcurrent)}
	}
	c.http, c.close = newHTTPClient(c.opts.Transport)
	return c, nil
}

func (o Options) withDefaults() Options {
	if o.MaxResponse <= 0 {
		o.MaxResponse = DefaultMaxResponse
	}
	if o.IdleTimeout <= 0 {
		o.IdleTimeout = DefaultIdleTimeout
	}
	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}
	return o
}

// Close closes idle connections.
func (c *Client) Close() { c.close() }

// SetCatalogue replaces the catalogue. It counts from the next call on.
func (c *Client) SetCatalogue(catalogue model.Catalogue) { c.catalogue.Store(&catalogue) }

// Entry returns the catalogue's entry for a model; see Catalogue.Find. It also returns false if the
// provider is not configured.
func (c *Client) Entry(choice contract.ModelChoice) (model.CatalogueEntry, bool) {
	p, ok := c.providers[choice.Provider]
	if !ok {
		return model.CatalogueEntry{Provider: choice.Provider, Model: choice.Model}, false
	}
	return c.catalogue.Load().Find(p.Provider, choice.Model)
}

// Configured checks, without any request, that calls to a provider are possible: the provider is
// configured, and its key is set. A CONFIG_ERROR states what to set.
func (c *Client) Configured(provider string) error {
	p, ok := c.providers[provider]
	if !ok {
		return unknownProvider(provider)
	}
	_, err := p.Key(c.opts.Getenv)
	return err
}

// Complete makes one call and waits for the whole response.
//
// Every error is a *fault.Error. With an LLM_ERROR, the response contains the data received and its
// usage: a refusal, or a truncated or unusable response, costs as much as a good one. With any
// other error, the response is empty.
func (c *Client) Complete(ctx context.Context, req model.Request) (model.Response, error) {
	x, err := c.newCall(req)
	if err != nil {
		return model.Response{}, err
	}
	ctx, x.watch = startWatch(ctx, c.opts.IdleTimeout)
	defer x.watch.stop()
	if err := x.provider.acquire(ctx); err != nil {
		return model.Response{}, x.explain(ctx, err)
	}
	defer x.provider.release()
	return x.run(ctx)
}

// newCall prepares a call.
func (c *Client) newCall(req model.Request) (*call, error) {
	p, ok := c.providers[req.Choice.Provider]
	if !ok {
		return nil, unknownProvider(req.Choice.Provider)
	}
	if req.Choice.Model == "" {
		return nil, fault.New(contract.ClassConfig, contract.CodeInvalidConfig, "no model is selected for provider %s", p.Name)
	}
	key, err := p.Key(c.opts.Getenv)
	if err != nil {
		return nil, err
	}
	entry, priced := c.catalogue.Load().Find(p.Provider, req.Choice.Model)
	return &call{client: c, provider: p, entry: entry, priced: priced, req: req, key: key, scrub: newScrubber(p.Provider, key)}, nil
}

// errNoSlot marks a call that ended while it waited for a slot.
var errNoSlot = errors.New("all of the provider's slots were in use")

// acquire waits for one of the provider's slots.
func (p *endpoint) acquire(ctx context.Context) error {
	select {
	case p.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return errNoSlot
	}
}

func (p *endpoint) release() { <-p.slots }
