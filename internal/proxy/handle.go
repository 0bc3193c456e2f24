package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// handle processes one request of a client: CONNECT, or a request with an absolute URL.
func (s *session) handle(w http.ResponseWriter, r *http.Request) {
	if !s.enter() {
		return
	}
	defer s.busy.Done()
	if r.Method == http.MethodConnect {
		s.connect(w, r)
		return
	}
	if r.URL.Scheme != "http" || r.URL.Host == "" {
		x := s.begin(r.Method, printable(r.Host), 0)
		defer x.end()
		x.record.Verdict, x.record.Reason = Refused, "expected CONNECT, or a URL that begins with http://"
		w.Header().Set(RefusedHeader, RefusedValue)
		answer(w, http.StatusBadRequest, "This is the sandbox proxy. It accepts CONNECT and requests with a full http:// URL.\n")
		return
	}
	host, port, err := splitAuthority(r.URL.Host, 80)
	x := s.begin(r.Method, host, port)
	defer x.end()
	if err != nil {
		x.record.Host = printable(r.URL.Host)
		x.refuse(w, err.Error(), false)
		return
	}
	// net/http has replaced any Host header with the authority of the URL.
	if x.check(w) {
		x.forward(w, r, "http", nil)
	}
}

// forward passes a request to the host and the response back.
func (x *exchange) forward(w http.ResponseWriter, r *http.Request, scheme string, secrets []secret) {
	if r.Header.Get("Upgrade") != "" {
		x.refuse(w, "protocol upgrades (Upgrade) are supported only inside a tunnel; use CONNECT", false)
		return
	}
	var sent, received atomic.Int64
	defer func() { x.record.Sent, x.record.Received = sent.Load(), received.Load() }()
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = &countedBody{ReadCloser: r.Body, total: &sent}
	}
	proxy := &httputil.ReverseProxy{
		Transport:     x.session.transport,
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0),
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host, p.Out.URL.User = scheme, x.address(), nil
			p.Out.URL.RawQuery = p.In.URL.RawQuery // unchanged, even if malformed
			p.Out.Host = hostHeader(scheme, x.address())
			if len(secrets) > 0 {
				for _, name := range otherMethod {
					p.Out.Header.Del(name)
				}
			}
			for _, secret := range secrets {
				p.Out.Header.Set(secret.header, secret.value)
			}
		},
		ModifyResponse: func(response *http.Response) error {
			if len(secrets) > 0 {
				response.Header.Del("Set-Cookie") // a session of the credential's owner
			}
			response.Body = &countedBody{ReadCloser: response.Body, total: &received, onError: func(err error) {
				x.record.Verdict, x.record.Reason, x.record.Temporary = Failed, "the response was interrupted: "+publicMessage(err), isTemporary(err)
				if x.session.overByteLimit() {
					x.record.Verdict, x.record.Reason, x.record.Temporary = Refused, x.session.limitReached(), false
				}
			}}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) { x.fail(w, err) },
	}
	proxy.ServeHTTP(w, r)
}

// hostHeader omits the default port.
func hostHeader(scheme, address string) string {
	return strings.TrimSuffix(address, map[string]string{"http": ":80", "https": ":443"}[scheme])
}

// countedBody counts the bytes read from a body.
type countedBody struct {
	io.ReadCloser
	total   *atomic.Int64
	onError func(error)
}

// Read implements io.Reader.
func (c *countedBody) Read(b []byte) (int, error) {
	n, err := c.ReadCloser.Read(b)
	c.total.Add(int64(n))
	if err != nil && c.onError != nil && !errors.Is(err, io.EOF) {
		c.onError(err)
	}
	return n, err
}

// connect creates a tunnel, or intercepts it if a credential must be added.
func (s *session) connect(w http.ResponseWriter, r *http.Request) {
	host, port, err := splitAuthority(r.Host, 0)
	x := s.begin(http.MethodConnect, host, port)
	if err != nil {
		defer x.end()
		x.record.Host = printable(r.Host)
		x.refuse(w, err.Error(), false)
		return
	}
	if !x.check(w) {
		x.end()
		return
	}
	if secrets := s.proxy.credentials(host, port); len(secrets) > 0 {
		x.intercept(w, secrets)
		return
	}
	defer x.end()
	// Do not use the request's context, which ends when the client has sent everything.
	upstream, err := s.dial(s.ctx, host, port)
	if err != nil {
		x.fail(w, err)
		return
	}
	defer func() { _ = upstream.Close() }()
	client, err := accept(w)
	if err != nil {
		x.record.Verdict, x.record.Reason = Failed, "the client disconnected"
		return
	}
	defer client.Close()
	pipe(client, upstream, s.proxy.options.Limits.Idle)
	x.record.Sent, x.record.Received = upstream.sent.Load(), upstream.received.Load()
	if s.overByteLimit() {
		x.record.Verdict, x.record.Reason = Refused, s.limitReached()
	}
}

// accept responds to CONNECT and takes over the connection, including data that the client sent
// ahead.
func accept(w http.ResponseWriter) (net.Conn, error) {
	conn, buffer, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, err
	}
	if _, err := io.WriteString(conn, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		_ = conn.Close()
		return nil, err
	}
	if buffer.Reader.Buffered() == 0 {
		return conn, nil
	}
	return &bufferedConn{Conn: conn, reader: bufio.NewReader(io.MultiReader(io.LimitReader(buffer.Reader, int64(buffer.Reader.Buffered())), conn))}, nil
}

// pipe copies bytes in both directions until both have ended, one has failed, or no byte has moved
// for the idle time.
func pipe(client net.Conn, upstream *metered, idle time.Duration) {
	var both sync.WaitGroup
	move := func(to, from net.Conn) {
		buffer := make([]byte, 32<<10)
		for {
			n, err := from.Read(buffer)
			if n > 0 {
				// Activity in either direction keeps the other alive.
				deadline := time.Now().Add(idle)
				_, _ = client.SetDeadline(deadline), upstream.SetDeadline(deadline)
				if _, wrote := to.Write(buffer[:n]); wrote != nil {
					err = wrote
				}
			}
			if err == nil {
				continue
			}
			if errors.Is(err, io.EOF) && closeWrite(to) == nil {
				return
			}
			_, _ = client.Close(), upstream.Close()
			return
		}
	}
	_ = client.SetDeadline(time.Now().Add(idle))
	both.Go(func() { move(upstream, client) })
	move(client, upstream)
	both.Wait()
}

// intercept terminates TLS here and passes on the requests in it, with the host's
// credentials. Each request has its own record; the tunnel has one only if it failed.
func (x *exchange) intercept(w http.ResponseWriter, secrets []secret) {
	s := x.session
	certificate, err := s.proxy.ca.certificateFor(x.record.Host)
	if err != nil {
		defer x.end()
		x.fail(w, fmt.Errorf("cannot create a certificate for the host: %w", err))
		return
	}
	conn, err := accept(w)
	if err != nil {
		return
	}
	defer conn.Close()
	client := tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{*certificate}, NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12})
	ctx, cancel := context.WithTimeout(s.ctx, s.proxy.options.Limits.Header)
	err = client.HandshakeContext(ctx)
	cancel()
	if err != nil {
		defer x.end()
		x.record.Verdict = Failed
		x.record.Reason = "the client aborted the TLS handshake: it does not trust the sandbox proxy's certificates, or does not use TLS"
		return
	}
	one := &oneListener{conn: client, done: make(chan struct{})}
	server := s.server(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.inside(w, r, x.record.Host, x.record.Port, secrets)
	}))
	server.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed || state == http.StateHijacked {
			one.end()
		}
	}
	_ = server.Serve(one)
	_ = server.Close()
}

// inside processes a request from an intercepted tunnel.
func (s *session) inside(w http.ResponseWriter, r *http.Request, host string, port uint16, secrets []secret) {
	if !s.enter() {
		return
	}
	defer s.busy.Done()
	x := s.begin(r.Method, host, port)
	defer x.end()
	named, at, err := splitAuthority(r.Host, 443)
	switch {
	// The Host header selects the virtual host of a server; another name must not receive this
	// host's credential.
	case err != nil || named != host || at != port || r.URL.Host != "" || r.Method == http.MethodConnect:
		x.refuse(w, fmt.Sprintf("the request inside the tunnel is for another host, %q", printable(r.Host)), false)
	case !reads(r):
		x.refuse(w, "the operator's credentials allow only read requests: GET, HEAD, and git's POST to /git-upload-pack", false)
	case x.check(w):
		x.forward(w, r, "https", secrets)
	}
}

// otherMethod are headers that make some servers treat a request as if it had another method.
var otherMethod = []string{"X-Http-Method-Override", "X-Http-Method", "X-Method-Override"}

// reads reports whether a request only reads. A command must not publish with a credential intended
// for installing.
func reads(r *http.Request) bool {
	return r.Method == http.MethodGet || r.Method == http.MethodHead ||
		r.Method == http.MethodPost && strings.HasSuffix(r.URL.EscapedPath(), "/git-upload-pack") &&
			r.Header.Get("Content-Type") == "application/x-git-upload-pack-request" // not the form of any API
}

// upstreamTLS verifies hosts as usual.
func (p *Proxy) upstreamTLS() *tls.Config {
	return &tls.Config{RootCAs: p.options.RootCAs, MinVersion: tls.VersionTLS12}
}

// oneListener gives an http.Server one connection.
type oneListener struct {
	mu   sync.Mutex
	conn net.Conn
	once sync.Once
	done chan struct{}
}

func (l *oneListener) end() { l.once.Do(func() { close(l.done) }) }

// Accept implements net.Listener.
func (l *oneListener) Accept() (net.Conn, error) {
	l.mu.Lock()
	conn := l.conn
	l.conn = nil
	l.mu.Unlock()
	if conn != nil {
		return conn, nil
	}
	<-l.done
	return nil, net.ErrClosed
}

// Close implements net.Listener.
func (l *oneListener) Close() error {
	l.end()
	return nil
}

// Addr implements net.Listener.
func (*oneListener) Addr() net.Addr { return &net.TCPAddr{} }
