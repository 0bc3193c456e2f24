package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// session is one call of Serve.
type session struct {
	proxy     *Proxy
	hosts     Hosts
	who       string
	setting   string
	ctx       context.Context
	transport *http.Transport // of this session only: connections are not shared between sessions
	moved     atomic.Int64    // bytes in both directions

	reporting sync.Mutex
	onRequest func(Record)

	mu     sync.Mutex
	closed bool
	conns  map[net.Conn]bool // open connections on both sides
	busy   sync.WaitGroup    // handlers, and connections of clients
}

// Serve handles the requests of one sandbox until l is closed. Then it closes all connections and
// returns; nothing of the session remains. An error means that a pattern in s.Hosts is invalid and
// nothing was served.
func (p *Proxy) Serve(l net.Listener, s Session) error {
	hosts, err := ParseHosts(s.Hosts)
	if err != nil {
		_ = l.Close()
		return fmt.Errorf("proxy: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	run := &session{
		proxy: p, hosts: hosts, who: s.Who, setting: s.Setting, ctx: ctx, onRequest: s.OnRequest, conns: map[net.Conn]bool{},
	}
	run.setting = cmp.Or(run.setting, DefaultSetting)
	limits := p.options.Limits
	run.transport = &http.Transport{
		DialContext:            run.dialAddress,
		DisableCompression:     true, // bytes pass as they are
		ForceAttemptHTTP2:      true,
		TLSClientConfig:        p.upstreamTLS(),
		TLSHandshakeTimeout:    limits.Dial,
		ResponseHeaderTimeout:  limits.Idle,
		IdleConnTimeout:        limits.Idle,
		MaxIdleConns:           idleConnections,
		MaxIdleConnsPerHost:    8,
		MaxResponseHeaderBytes: headerBytes,
	}
	server := run.server(http.HandlerFunc(run.handle))
	_ = server.Serve(&trackingListener{Listener: l, session: run, limit: limits.Connections})
	cancel()
	_ = server.Close()
	run.end()
	run.transport.CloseIdleConnections()
	run.busy.Wait()
	return nil
}

// idleConnections limits the idle connections to hosts that one session keeps for further requests.
// Limits.Connections limits the connections in use.
const idleConnections = 64

// server returns an HTTP server for the client's side. It logs nothing, because it could only log
// input of a hostile client.
func (s *session) server(handler http.Handler) *http.Server {
	limits := s.proxy.options.Limits
	return &http.Server{
		Handler: handler, ReadHeaderTimeout: limits.Header, IdleTimeout: limits.Idle, MaxHeaderBytes: headerBytes,
		ErrorLog: log.New(io.Discard, "", 0), BaseContext: func(net.Listener) context.Context { return s.ctx },
	}
}

// trackingListener lets the session close accepted connections, and refuses connections over the
// limit.
type trackingListener struct {
	net.Listener
	session *session
	limit   int
	open    atomic.Int64
}

// tooMany is the response to a client with too many open connections.
const tooMany = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n" +
	"The sandbox proxy has reached this command's connection limit.\n"

// Accept implements net.Listener.
func (l *trackingListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.open.Add(1) <= int64(l.limit) {
			return l.session.track(conn, func() { l.open.Add(-1) }), nil
		}
		l.open.Add(-1)
		_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
		_, _ = io.WriteString(conn, tooMany)
		_ = conn.Close()
	}
}

// tracked is a connection that the session tracks until it is closed.
type tracked struct {
	net.Conn
	session *session
	once    sync.Once
	closed  func()
}

// track adds a connection to the session; if the session has ended, the connection is closed.
// closed is called when the connection is closed.
func (s *session) track(conn net.Conn, closed func()) *tracked {
	t := &tracked{Conn: conn, session: s, closed: closed}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = conn.Close()
		return t
	}
	s.conns[t] = true
	s.busy.Add(1)
	return t
}

// Close implements net.Conn.
func (t *tracked) Close() error {
	err := t.Conn.Close()
	t.once.Do(func() {
		t.closed()
		t.session.mu.Lock()
		defer t.session.mu.Unlock()
		if t.session.conns[t] {
			delete(t.session.conns, t)
			t.session.busy.Done()
		}
	})
	return err
}

// CloseWrite ends one direction.
func (t *tracked) CloseWrite() error { return closeWrite(t.Conn) }

// enter counts a starting handler; no handler may start after the session ends.
func (s *session) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.busy.Add(1)
	return true
}

// overByteLimit reports whether the session has reached its byte limit.
func (s *session) overByteLimit() bool { return s.moved.Load() > s.proxy.options.Limits.Bytes }

// end closes all connections, including those of tunnels.
func (s *session) end() {
	s.mu.Lock()
	s.closed = true
	open := make([]net.Conn, 0, len(s.conns))
	for conn := range s.conns {
		open = append(open, conn)
	}
	s.mu.Unlock()
	for _, conn := range open {
		_ = conn.Close()
	}
}

// errBytes reports that the session has reached its byte limit.
var errBytes = errors.New("the command has reached its transfer limit")

func (s *session) limitReached() string {
	return fmt.Sprintf("the command has reached its transfer limit of %d bytes", s.proxy.options.Limits.Bytes)
}

// metered is a connection to a host. It counts bytes, enforces the session's limit, and closes if
// it is idle for too long.
type metered struct {
	*tracked
	sent, received atomic.Int64
	idle           time.Duration
}

func (m *metered) count(n int, total *atomic.Int64) error {
	total.Add(int64(n))
	if m.session.moved.Add(int64(n)) > m.session.proxy.options.Limits.Bytes {
		_ = m.Close()
		return errBytes
	}
	return nil
}

// Read implements net.Conn.
func (m *metered) Read(b []byte) (int, error) {
	_ = m.SetDeadline(time.Now().Add(m.idle)) // both directions: a long upload is not idle
	n, err := m.tracked.Read(b)
	if over := m.count(n, &m.received); over != nil {
		return n, over
	}
	return n, err
}

// Write implements net.Conn.
func (m *metered) Write(b []byte) (int, error) {
	_ = m.SetDeadline(time.Now().Add(m.idle))
	n, err := m.tracked.Write(b)
	if over := m.count(n, &m.sent); over != nil {
		return n, over
	}
	return n, err
}

// dial connects to an allowed host.
func (s *session) dial(ctx context.Context, host string, port uint16) (*metered, error) {
	if s.overByteLimit() {
		return nil, errBytes
	}
	conn, err := s.proxy.dial(ctx, host, port)
	if err != nil {
		return nil, err
	}
	return &metered{tracked: s.track(conn, func() {}), idle: s.proxy.options.Limits.Idle}, nil
}

// dialAddress is dial with the signature that http.Transport expects.
func (s *session) dialAddress(ctx context.Context, _, address string) (net.Conn, error) {
	host, port, err := splitAuthority(address, 0)
	if err != nil {
		return nil, err
	}
	return s.dial(ctx, host, port)
}

// splitAuthority splits a host and port, and converts the host to its canonical form.
func splitAuthority(authority string, fallback uint16) (string, uint16, error) {
	host, port := authority, fallback
	if h, text, err := net.SplitHostPort(authority); err == nil {
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil || n == 0 {
			return "", 0, fmt.Errorf("port %q is not a number from 1 to 65535", text)
		}
		host, port = h, uint16(n)
	} else if fallback == 0 {
		return "", 0, errors.New("expected a host and a port")
	}
	host, err := canonical(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
	return host, port, err
}

// exchange is one request or tunnel in progress.
type exchange struct {
	session *session
	record  Record
}

func (s *session) begin(method, host string, port uint16) *exchange {
	return &exchange{session: s, record: Record{
		At: time.Now(), Host: host, Port: port, Method: printable(method), Verdict: Allowed, Who: s.who,
	}}
}

func (x *exchange) end() {
	if x.session.onRequest == nil {
		return
	}
	x.session.reporting.Lock()
	defer x.session.reporting.Unlock()
	x.session.onRequest(x.record)
}

// address returns the host and port for messages.
func (x *exchange) address() string {
	return net.JoinHostPort(x.record.Host, strconv.Itoa(int(x.record.Port)))
}

// check reports whether the exchange may continue, and sends a refusal if not.
func (x *exchange) check(w http.ResponseWriter) bool {
	switch {
	case !x.session.hosts.Allows(x.record.Host, x.record.Port):
		x.refuse(w, "this command is not allowed to reach this host", true)
	case x.session.overByteLimit():
		x.refuse(w, x.session.limitReached(), false)
	default:
		return true
	}
	return false
}

// refuse sends the response to a request that is not allowed.
func (x *exchange) refuse(w http.ResponseWriter, reason string, byList bool) {
	reason = clip(reason)
	x.record.Verdict, x.record.Reason, x.record.Unlisted = Refused, reason, byList
	text := fmt.Sprintf("The sandbox proxy refuses this request to %s: %s.\n", x.address(), reason)
	if byList {
		text += fmt.Sprintf("Only the operator can allow it, with this setting:\n  %s: [%s]\n", x.session.setting, Suggestion(x.record.Host, x.record.Port))
	}
	w.Header().Set(RefusedHeader, RefusedValue)
	answer(w, http.StatusForbidden, text)
}

// fail responds that the host cannot be reached, or refuses the request, depending on err.
func (x *exchange) fail(w http.ResponseWriter, err error) {
	var refused *refusedError
	switch {
	case errors.As(err, &refused):
		x.refuse(w, refused.reason, false)
	case x.session.overByteLimit():
		x.refuse(w, x.session.limitReached(), false)
	default:
		x.record.Verdict, x.record.Reason, x.record.Temporary = Failed, publicMessage(err), isTemporary(err)
		answer(w, http.StatusBadGateway, fmt.Sprintf("The sandbox proxy cannot reach %s: %s.\n", x.address(), x.record.Reason))
	}
}

// isTemporary reports whether another attempt may succeed after the error of an upstream
// connection: the network or a server failed, rather than refused.
func isTemporary(err error) bool {
	var dns *net.DNSError
	var op *net.OpError
	var timeout net.Error
	var upstream upstreamAnswer
	switch {
	case errors.Is(err, context.Canceled):
		return false
	case errors.As(err, &dns):
		return !dns.IsNotFound
	case errors.As(err, &upstream):
		return upstream >= http.StatusInternalServerError || upstream == http.StatusTooManyRequests
	case errors.As(err, &op):
		return op.Op != "remote error" && op.Op != "local error" // of TLS
	}
	return errors.As(err, &timeout) && timeout.Timeout() || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// publicMessage removes confidential details from an error: addresses of this network and of its
// name servers.
func publicMessage(err error) string {
	var dns *net.DNSError
	var op *net.OpError
	var timeout net.Error
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return "the name does not resolve to an address"
	case errors.As(err, &dns):
		return "the name cannot be resolved"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "timed out"
	case errors.Is(err, context.Canceled):
		return "the command disconnected or exited"
	case errors.As(err, &op):
		return clip(op.Op + ": " + op.Err.Error())
	}
	return clip(err.Error())
}

// maxReason limits the bytes reported about a failed request, which may contain input from a
// client.
const maxReason = 300

func clip(reason string) string {
	return strings.ToValidUTF8(reason[:min(len(reason), maxReason)], "")
}

func answer(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Connection", "close")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, text)
}

// Suggestion returns the pattern that allows a host and port.
func Suggestion(host string, port uint16) string {
	if slices.Contains(defaultPorts, port) {
		return host
	}
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

// printable limits what a client sent for a record.
func printable(s string) string {
	const longest = 100
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, s)
	return s[:min(len(s), longest)]
}
