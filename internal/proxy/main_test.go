package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// names is a resolver for tests; a name returns its answers one after the other, and
// then repeats the last one.
type names struct {
	mu      sync.Mutex
	answers map[string][]string
	asked   map[string]int
}

func (n *names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.asked == nil {
		n.asked = map[string]int{}
	}
	answers := n.answers[host]
	if len(answers) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: host, Server: "10.9.8.7:53", IsNotFound: true}
	}
	answer := answers[min(n.asked[host], len(answers)-1)]
	n.asked[host]++
	var out []netip.Addr
	for text := range strings.SplitSeq(answer, ",") {
		out = append(out, netip.MustParseAddr(text))
	}
	return out, nil
}

// proxyFixture is a proxy that serves one session, and the servers behind it. Connections to
// checked addresses go to a server of the test; only those passed to route exist.
type proxyFixture struct {
	t       *testing.T
	names   *names
	options Options
	session Session
	proxy   *Proxy

	mu      sync.Mutex
	routes  map[string]string // checked address → listener of the test
	dialled []string
	records []Record

	address string
	stop    func() []Record
}

func newProxyFixture(t *testing.T, hosts ...string) *proxyFixture {
	t.Helper()
	b := &proxyFixture{t: t, names: &names{answers: map[string][]string{}}, routes: map[string]string{}, session: Session{Hosts: hosts, Who: "test"}}
	b.options = Options{Resolver: b.names, Dial: b.dial}
	return b
}

func (b *proxyFixture) dial(ctx context.Context, network, address string) (net.Conn, error) {
	b.mu.Lock()
	b.dialled = append(b.dialled, address)
	to, ok := b.routes[address]
	b.mu.Unlock()
	if !ok {
		return nil, &net.OpError{Op: "dial", Net: network, Err: &net.AddrError{Err: "connection refused", Addr: address}}
	}
	return (&net.Dialer{}).DialContext(ctx, network, to)
}

// route gives a name a public address and leads that to a server.
func (b *proxyFixture) route(name, address, to string) {
	addr := netip.MustParseAddrPort(address)
	b.names.answers[name] = []string{addr.Addr().String()}
	b.routes[address] = to
}

// start serves on a listener of the loopback.
func (b *proxyFixture) start() *proxyFixture {
	b.t.Helper()
	var err error
	b.proxy, err = New(b.options)
	require.NoError(b.t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b.t, err)
	b.address = l.Addr().String()
	b.session.OnRequest = func(r Record) { b.records = append(b.records, r) }
	done := make(chan error, 1)
	go func() { done <- b.proxy.Serve(l, b.session) }()
	b.stop = sync.OnceValue(func() []Record {
		_ = l.Close()
		select {
		case err := <-done:
			require.NoError(b.t, err)
		case <-time.After(10 * time.Second):
			require.FailNow(b.t, "the session did not end with its listener")
		}
		return b.records
	})
	b.t.Cleanup(func() { b.stop() })
	return b
}

// client uses the proxy and trusts its authority and that of the servers.
func (b *proxyFixture) client(servers ...*httptest.Server) *http.Client {
	roots := x509.NewCertPool()
	require.True(b.t, roots.AppendCertsFromPEM(b.proxy.CACertificate()))
	for _, s := range servers {
		roots.AddCert(s.Certificate())
	}
	transport := &http.Transport{
		Proxy:           http.ProxyURL(&url.URL{Scheme: "http", Host: b.address}),
		TLSClientConfig: &tls.Config{RootCAs: roots},
	}
	b.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 10 * time.Second}
}

// raw sends bytes to the proxy and returns the first answer with its body.
func (b *proxyFixture) raw(text string) (reply, string) {
	b.t.Helper()
	conn := b.conn()
	_, err := io.WriteString(conn, text)
	require.NoError(b.t, err)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(b.t, err)
	body, err := io.ReadAll(response.Body)
	require.NoError(b.t, err)
	require.NoError(b.t, response.Body.Close())
	return reply{response.StatusCode, response.Header}, string(body)
}

func (b *proxyFixture) conn() net.Conn {
	b.t.Helper()
	conn, err := net.Dial("tcp", b.address)
	require.NoError(b.t, err)
	b.t.Cleanup(func() { _ = conn.Close() })
	require.NoError(b.t, conn.SetDeadline(time.Now().Add(10*time.Second)))
	return conn
}

// reply is the head of an answer to CONNECT.
type reply struct {
	StatusCode int
	Header     http.Header
}

// tunnel requests one and returns it with the answer.
func (b *proxyFixture) tunnel(target string) (net.Conn, *bufio.Reader, reply) {
	b.t.Helper()
	conn := b.conn()
	_, err := io.WriteString(conn, "CONNECT "+target+" HTTP/1.1\r\nHost: "+target+"\r\n\r\n")
	require.NoError(b.t, err)
	reader := bufio.NewReader(conn)
	response, err := http.ReadResponse(reader, &http.Request{Method: http.MethodConnect})
	require.NoError(b.t, err)
	require.NoError(b.t, response.Body.Close())
	return conn, reader, reply{response.StatusCode, response.Header}
}

func get(t *testing.T, c *http.Client, address string, header http.Header) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	require.NoError(t, err)
	for name, values := range header {
		request.Header[name] = values
	}
	response, err := c.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(body)
}

// plainServer answers with what it was asked.
func plainServer(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return s
}

func secureServer(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewTLSServer(handler)
	t.Cleanup(s.Close)
	return s
}

func address(s *httptest.Server) string { return s.Listener.Addr().String() }

// echoServer sends back what it gets, and ends when its client does.
func echoServer(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var busy sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); busy.Wait() })
	busy.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			busy.Go(func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
			})
		}
	})
	return l.Addr().String()
}
