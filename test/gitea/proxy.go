package gitea

import (
	"bytes"
	"context"
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync"
	"testing"
)

// Proxy stands between a client and a server, loses answers, and lets a test act while a request is under
// way.
type Proxy struct {
	URL         string
	Certificate *x509.Certificate // of NewTLSProxy

	mu    sync.Mutex
	to    *url.URL // nil: nothing is there yet
	lose  func(*http.Request) bool
	lost  int
	meets []*Meeting
}

// Meeting is a request during which a test acts.
type Meeting struct {
	Match func(*http.Request) bool
	// Before is called before the server gets the request.
	Before func()
	// After is called when the server has done what the request asks for, before the client gets the answer,
	// which is lost if After returns true. Nil: the answer is passed on.
	After func() (lose bool)
}

// Proxy starts a proxy in front of the server. It stops at the end of the test.
func (s *Server) Proxy(tb testing.TB) *Proxy {
	tb.Helper()
	p := NewProxy(tb)
	p.Forward(tb, s.URL)
	return p
}

// TLSProxy starts a proxy in front of the server that clients reach by TLS. It stops at the end of the test.
func (s *Server) TLSProxy(tb testing.TB) *Proxy {
	tb.Helper()
	p := start(tb, httptest.NewTLSServer)
	p.Forward(tb, s.URL)
	return p
}

// NewProxy starts a proxy, which breaks all connections until Forward says what it is in front of. It stops at
// the end of the test.
func NewProxy(tb testing.TB) *Proxy {
	tb.Helper()
	return start(tb, httptest.NewServer)
}

func start(tb testing.TB, serve func(http.Handler) *httptest.Server) *Proxy {
	tb.Helper()
	p := &Proxy{}
	transport := &http.Transport{}
	forward := &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(p.target()) },
		Transport:      transport,
		FlushInterval:  -1,
		ModifyResponse: p.answer,
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) {
			panic(http.ErrAbortHandler) //nolint:forbidigo // net/http's way to close a connection without an answer
		},
	}
	server := serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if m := p.meeting(r); m != nil {
			r = r.WithContext(context.WithValue(r.Context(), meetingKey{}, m))
			if m.Before != nil {
				m.Before()
			}
		}
		if p.target() == nil {
			panic(http.ErrAbortHandler) //nolint:forbidigo // see above
		}
		forward.ServeHTTP(w, r)
	}))
	tb.Cleanup(func() {
		server.Close()
		transport.CloseIdleConnections()
	})
	p.URL, p.Certificate = server.URL, server.Certificate()
	return p
}

// meetingKey is the key of a request's meeting in its context.
type meetingKey struct{}

// Forward sets the address of the server that the proxy is in front of.
func (p *Proxy) Forward(tb testing.TB, address string) {
	tb.Helper()
	to, err := url.Parse(address)
	if err != nil {
		tb.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.to = to
}

func (p *Proxy) target() *url.URL {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.to
}

// Lose makes the proxy lose the answers to the requests that match: the server has done what they
// ask for, but the client only sees that the connection breaks. Nil loses no more.
func (p *Proxy) Lose(match func(*http.Request) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lose = match
}

// Lost returns how many answers were lost.
func (p *Proxy) Lost() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost
}

// Meet lets a test act during the next request that matches. Of several meetings that match a request, the
// first one takes place.
func (p *Proxy) Meet(m *Meeting) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.meets = append(p.meets, m)
}

// meeting returns the meeting that takes place during a request, nil if there is none.
func (p *Proxy) meeting(r *http.Request) *Meeting {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.meets, func(m *Meeting) bool { return m.Match(r) })
	if i < 0 {
		return nil
	}
	m := p.meets[i]
	p.meets = slices.Delete(p.meets, i, i+1)
	return m
}

// answer decides whether the client gets an answer.
func (p *Proxy) answer(r *http.Response) error {
	lose := false
	if m, met := r.Request.Context().Value(meetingKey{}).(*Meeting); met && m.After != nil {
		// Git's answer begins before its end: only with the whole answer, everything is done.
		body, err := io.ReadAll(io.LimitReader(r.Body, maxAnswer))
		if err != nil {
			return err
		}
		if err := r.Body.Close(); err != nil {
			return err
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		lose = m.After()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if lose || p.lose != nil && p.lose(r.Request) {
		p.lost++
		return http.ErrAbortHandler
	}
	return nil
}
