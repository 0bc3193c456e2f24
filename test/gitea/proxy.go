package gitea

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"
)

// Proxy stands between a client and a server and loses answers.
type Proxy struct {
	URL string

	mu   sync.Mutex
	lose func(*http.Request) bool
	lost int
}

// Proxy starts a proxy in front of the server. It stops at the end of the test.
func (s *Server) Proxy(tb testing.TB) *Proxy {
	tb.Helper()
	to, err := url.Parse(s.URL)
	if err != nil {
		tb.Fatal(err)
	}
	p := &Proxy{}
	transport := &http.Transport{}
	forward := &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(to) },
		Transport:      transport,
		ModifyResponse: p.drop,
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) {
			panic(http.ErrAbortHandler) //nolint:forbidigo // net/http's way to close a connection without an answer
		},
	}
	server := httptest.NewServer(forward)
	tb.Cleanup(func() {
		server.Close()
		transport.CloseIdleConnections()
	})
	p.URL = server.URL
	return p
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

func (p *Proxy) drop(r *http.Response) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lose == nil || !p.lose(r.Request) {
		return nil
	}
	p.lost++
	return http.ErrAbortHandler
}
