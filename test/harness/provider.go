package harness

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Provider is a model provider: an address in front of a stack's scripted model that records the
// requests of each worker, and that a test can let fail or hang.
type Provider struct {
	*httptest.Server

	mu       sync.Mutex
	to       *url.URL
	respond  http.HandlerFunc // in place of the scripted model; nil: it responds
	whom     func(Arrival) bool
	out      atomic.Bool
	bodies   bool
	arrivals []Arrival
}

// Arrival is a request that a provider received.
type Arrival struct {
	Worker      string // as named by Provider.For
	Run         int64
	Agent, Step string
	Turn        int
	At          time.Time
	End         time.Time // when it was answered, or its connection broke; zero: neither yet
	Body        string    // with KeepBodies
}

// NewProvider starts a provider, whose address a stack's configuration can contain. It can respond
// once the stack runs; see Forward.
func NewProvider(tb testing.TB) *Provider {
	tb.Helper()
	p := &Provider{}
	p.Server = httptest.NewServer(http.HandlerFunc(p.serve))
	tb.Cleanup(func() {
		p.CloseClientConnections() // ends requests that hang
		p.Close()
	})
	return p
}

// For returns the base URL for the provider of one worker, by which its requests are recognized.
func (p *Provider) For(worker string) string { return p.URL + "/" + worker + "/v1" }

// Forward lets the scripted model of a stack answer the requests.
func (p *Provider) Forward(tb testing.TB, s *Stack) {
	tb.Helper()
	to, err := url.Parse(s.state(tb).Model)
	require.NoError(tb, err)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.to = to
}

// KeepBodies keeps the bodies of requests from now on.
func (p *Provider) KeepBodies() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bodies = true
}

// Serve lets requests from now on be answered normally.
func (p *Provider) Serve() { p.set(nil, nil) }

// Fail lets requests from now on fail with HTTP 500 after a while.
func (p *Provider) Fail(after time.Duration) {
	defer p.out.Store(true)
	p.set(everything, func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(after):
			http.Error(w, `{"error": {"message": "the provider is out", "type": "server_error"}}`, http.StatusInternalServerError)
		case <-r.Context().Done():
		}
	})
}

// Hold lets requests from now on hang until their clients give up, or until release is called, which
// lets the scripted model answer them. With whom, it concerns only some.
func (p *Provider) Hold(whom func(Arrival) bool) (release func()) {
	released := make(chan struct{})
	if whom == nil {
		whom = everything
	}
	p.set(whom, func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-released:
			p.forward(w, r)
		case <-r.Context().Done():
		}
	})
	return sync.OnceFunc(func() { p.Serve(); close(released) })
}

func everything(Arrival) bool { return true }

func (p *Provider) set(whom func(Arrival) bool, respond http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.out.Store(false)
	p.whom, p.respond = whom, respond
}

// Arrivals returns the requests that arrived since a time, oldest first.
func (p *Provider) Arrivals(since time.Time) []Arrival {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(p.arrivals), func(a Arrival) bool { return a.At.Before(since) })
}

func (p *Provider) serve(w http.ResponseWriter, r *http.Request) {
	at := time.Now()
	if r.Method == http.MethodGet { // asks whether the provider is there
		if p.out.Load() {
			http.Error(w, "out", http.StatusInternalServerError)
		}
		return
	}
	// Until the body is read, the server does not notice that the client is gone.
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	worker, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/v1")
	r.URL.Path = path
	number := func(name string) int64 {
		n, _ := strconv.ParseInt(r.Header.Get(name), 10, 64)
		return n
	}
	arrival := Arrival{
		Worker: worker, Run: number("X-RGPT-Run"), Agent: r.Header.Get("X-RGPT-Agent"), Step: r.Header.Get("X-RGPT-Step"), Turn: int(number("X-RGPT-Turn")), At: at,
	}
	p.mu.Lock()
	i, respond, whom := len(p.arrivals), p.respond, p.whom
	if p.bodies {
		arrival.Body = string(body)
	}
	p.arrivals = append(p.arrivals, arrival)
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.arrivals[i].End = time.Now()
	}()
	if respond != nil && whom(arrival) {
		respond(w, r)
		return
	}
	p.forward(w, r)
}

func (p *Provider) forward(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	to := p.to
	p.mu.Unlock()
	(&httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(to) },
		FlushInterval: -1,
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}).ServeHTTP(w, r)
}
