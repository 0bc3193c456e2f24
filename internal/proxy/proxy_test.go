package proxy

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http/httpproxy"
)

func TestAllowedHostsAreReachedAndRecorded(t *testing.T) {
	t.Parallel()
	var got *http.Request
	plain := plainServer(t, func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ := io.ReadAll(r.Body)
		_, _ = w.Write(append([]byte("seen "), body...))
	})
	secure := secureServer(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("sealed")) })
	b := newProxyFixture(t, "plain.example.com", "example.com")
	b.route("plain.example.com", "203.0.113.1:80", address(plain))
	b.route("example.com", "203.0.113.2:443", address(secure))
	b.start()
	client := b.client(secure)

	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://plain.example.com/path?a=%zz;b", strings.NewReader("hello"))
	require.NoError(t, err)
	request.Header.Set("Proxy-Authorization", "Basic c2VjcmV0")
	request.Header.Set("Proxy-Connection", "keep-alive")
	request.Header.Set("Connection", "X-Private")
	request.Header.Set("X-Private", "for this hop")
	response, err := client.Do(request)
	require.NoError(t, err)
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, "seen hello", string(body))
	require.Equal(t, "/path?a=%zz;b", got.RequestURI, "nothing of the request is changed")
	require.Equal(t, "plain.example.com", got.Host)
	for _, name := range []string{"Proxy-Authorization", "Proxy-Connection", "X-Private", "X-Forwarded-For"} {
		require.Empty(t, got.Header.Get(name), name)
	}

	code, text := get(t, client, "https://example.com/", nil)
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, "sealed", text)

	client.CloseIdleConnections()
	records := b.stop()
	require.Len(t, records, 2)
	require.Equal(t, Record{At: records[0].At, Host: "plain.example.com", Port: 80, Method: "POST", Sent: 5, Received: 10, Verdict: Allowed, Who: "test"}, records[0])
	require.WithinDuration(t, time.Now(), records[0].At, time.Minute)
	r := records[1]
	require.Equal(t, "CONNECT example.com 443 allowed", strings.Join([]string{r.Method, r.Host, "443", string(r.Verdict)}, " "))
	require.Positive(t, r.Sent)
	require.Greater(t, r.Received, int64(500), "a handshake with a certificate")
	data, err := json.Marshal(r)
	require.NoError(t, err)
	require.Contains(t, string(data), `"host":"example.com","port":443,"method":"CONNECT"`)
}

func TestWhatIsNotAllowedIsRefusedWithTheLineThatAllowsIt(t *testing.T) {
	t.Parallel()
	b := newProxyFixture(t, "example.com")
	b.session.Setting = "verification.test.network"
	b.start()
	for target, line := range map[string]string{
		"evil.org:443":     "verification.test.network: [evil.org]",
		"example.com:22":   "verification.test.network: [example.com:22]",
		"evil.org:8080":    "verification.test.network: [evil.org:8080]",
		"a.example.com:80": "verification.test.network: [a.example.com]",
	} {
		response, body := b.raw("CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\n\r\n")
		require.Equal(t, http.StatusForbidden, response.StatusCode)
		require.Equal(t, RefusedValue, response.Header.Get(RefusedHeader))
		require.Equal(t, "text/plain; charset=utf-8", response.Header.Get("Content-Type"))
		require.Contains(t, body, target)
		require.Contains(t, body, line)
	}
	response, body := b.raw("GET http://evil.org/ HTTP/1.1\r\nHost: example.com\r\n\r\n")
	require.Equal(t, http.StatusForbidden, response.StatusCode, "the URL counts, not a Host header")
	require.Contains(t, body, "evil.org:80")
	response, _ = b.raw("GET / HTTP/1.1\r\nHost: example.com\r\n\r\n")
	require.Equal(t, http.StatusBadRequest, response.StatusCode)
	response, _ = b.raw("GET ftp://example.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n")
	require.Equal(t, http.StatusBadRequest, response.StatusCode)
	records := b.stop()
	require.Len(t, records, 7)
	for _, r := range records {
		require.Equal(t, Refused, r.Verdict)
		require.NotEmpty(t, r.Reason)
	}
	require.Empty(t, b.dialled)
	require.Empty(t, b.names.asked, "names that are not allowed are not looked up: a look-up can carry data out")
}

func TestTheHostHeaderCannotDifferFromTheURL(t *testing.T) {
	t.Parallel()
	server := plainServer(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Host) })
	b := newProxyFixture(t, "example.com")
	b.route("example.com", "203.0.113.1:80", address(server))
	b.start()
	_, body := b.raw("GET http://example.com/ HTTP/1.1\r\nHost: other.org\r\nConnection: close\r\n\r\n")
	require.Equal(t, "example.com", body)
}

func TestARedirectIsCheckedAgain(t *testing.T) {
	t.Parallel()
	server := plainServer(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, r.URL.Query().Get("to"), http.StatusFound)
	})
	b := newProxyFixture(t, "example.com", "inside.example.org")
	b.route("example.com", "203.0.113.1:80", address(server))
	b.names.answers["inside.example.org"] = []string{"10.0.0.1"}
	b.start()
	for _, to := range []string{"http://169.254.169.254/latest/meta-data", "http://127.0.0.1:8080/", "http://inside.example.org/", "http://evil.org/"} {
		code, body := get(t, b.client(), "http://example.com/?to="+url.QueryEscape(to), nil)
		require.Equal(t, http.StatusForbidden, code)
		require.Contains(t, body, "refuses")
	}
	require.Equal(t, []string{"203.0.113.1:80"}, unique(b.dialled))
}

func unique(list []string) (out []string) {
	seen := map[string]bool{}
	for _, s := range list {
		if !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	return out
}

func TestOneConnectionOfAClientCarriesManyRequests(t *testing.T) {
	t.Parallel()
	server := plainServer(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.URL.Path) })
	b := newProxyFixture(t, "example.com")
	b.route("example.com", "203.0.113.1:80", address(server))
	b.start()
	conn := b.conn()
	reader := bufio.NewReader(conn)
	for _, path := range []string{"/a", "/b", "/c"} {
		_, err := io.WriteString(conn, "GET http://example.com"+path+" HTTP/1.1\r\nHost: example.com\r\n\r\n")
		require.NoError(t, err)
		response, err := http.ReadResponse(reader, nil)
		require.NoError(t, err)
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, path, string(body))
	}
	require.Len(t, b.stop(), 3)
	require.Len(t, b.dialled, 1, "and so does that to the host")
}

func TestWebsocketsGoThroughTunnelsOnly(t *testing.T) {
	t.Parallel()
	b := newProxyFixture(t, "example.com")
	b.route("example.com", "203.0.113.1:443", echoServer(t))
	b.start()
	response, body := b.raw("GET http://example.com/ws HTTP/1.1\r\nHost: example.com\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	require.Equal(t, http.StatusForbidden, response.StatusCode)
	require.Contains(t, body, "use CONNECT")
	conn, reader, answer := b.tunnel("example.com:443")
	require.Equal(t, http.StatusOK, answer.StatusCode)
	_, err := io.WriteString(conn, "GET /ws HTTP/1.1\r\nUpgrade: websocket\r\n\r\n")
	require.NoError(t, err)
	line, err := reader.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "GET /ws HTTP/1.1\r\n", line, "what is in a tunnel is not looked at")
}

func TestATunnelKeepsWhatWasSentAheadAndEndsHalfByHalf(t *testing.T) {
	t.Parallel()
	b := newProxyFixture(t, "example.com")
	b.route("example.com", "203.0.113.1:443", echoServer(t))
	b.start()
	conn := b.conn()
	_, err := io.WriteString(conn, "CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\nahead ")
	require.NoError(t, err)
	_, err = io.WriteString(conn, "and after")
	require.NoError(t, err)
	require.NoError(t, conn.(*net.TCPConn).CloseWrite())
	all, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Equal(t, "HTTP/1.1 200 Connection established\r\n\r\nahead and after", string(all))
	records := b.stop()
	require.Len(t, records, 1)
	require.Equal(t, []int64{15, 15}, []int64{records[0].Sent, records[0].Received})
}

func TestHostsThatCannotBeReachedAreFailures(t *testing.T) {
	t.Parallel()
	b := newProxyFixture(t, "gone.example.com", "down.example.com", "unknown.example.com")
	b.names.answers["down.example.com"] = []string{"203.0.113.9"}
	b.start()
	response, body := b.raw("CONNECT unknown.example.com:443 HTTP/1.1\r\nHost: unknown.example.com:443\r\n\r\n")
	require.Equal(t, http.StatusBadGateway, response.StatusCode)
	require.Contains(t, body, "the name does not resolve to an address")
	require.NotContains(t, body, "10.9.8.7", "the name server is of this network")
	response, body = b.raw("GET http://down.example.com/ HTTP/1.1\r\nHost: down.example.com\r\n\r\n")
	require.Equal(t, http.StatusBadGateway, response.StatusCode)
	require.Contains(t, body, "refused")
	for _, r := range b.stop() {
		require.Equal(t, Failed, r.Verdict)
	}
}

const token = "canary-credential-3f77"

// credentialFixture has a host with a credential and one without.
func credentialFixture(t *testing.T, handler http.HandlerFunc) (*proxyFixture, *http.Client) {
	t.Helper()
	server := secureServer(t, handler)
	b := newProxyFixture(t, "example.com", "other.example.com")
	b.options.Credentials = []Credential{{Host: "example.com", Header: "authorization", Value: "Bearer " + token}}
	b.options.RootCAs = x509.NewCertPool()
	b.options.RootCAs.AddCert(server.Certificate())
	b.route("example.com", "203.0.113.1:443", address(server))
	b.route("other.example.com", "203.0.113.2:443", address(server))
	b.routes["203.0.113.1:80"] = address(server)
	b.start()
	return b, b.client(server)
}

func TestCredentialsAreAddedForTheirHostOnlyAndNeverShown(t *testing.T) {
	t.Parallel()
	b, client := credentialFixture(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Host+" "+r.Header.Get("Authorization")+" "+r.Header.Get("X-Own"))
	})
	_, body := get(t, client, "https://example.com/a", http.Header{"Authorization": {"Bearer forged"}, "X-Own": {"kept"}})
	require.Equal(t, "example.com Bearer "+token+" kept", body)
	_, body = get(t, client, "https://example.com/b", nil)
	require.Equal(t, "example.com Bearer "+token+" ", body)
	_, body = get(t, client, "https://other.example.com/", http.Header{"Authorization": {"Bearer own"}})
	require.Equal(t, "other.example.com Bearer own ", body)

	code, body := get(t, client, "http://example.com/", nil)
	require.NotContains(t, body, token, "without TLS it would be readable on the way")
	require.NotEqual(t, http.StatusOK, code)

	client.CloseIdleConnections()
	records := b.stop()
	data, err := json.Marshal(records)
	require.NoError(t, err)
	require.NotContains(t, string(data), token)
	var methods []string
	for _, r := range records {
		methods = append(methods, r.Method+" "+r.Host)
	}
	require.ElementsMatch(t, []string{"GET example.com", "GET example.com", "CONNECT other.example.com", "GET example.com"}, methods)
}

func TestInsideATunnelWithACredentialNoOtherHostIsAsked(t *testing.T) {
	t.Parallel()
	b, client := credentialFixture(t, func(http.ResponseWriter, *http.Request) {})
	for _, host := range []string{"other.example.com", "example.com:8443", "evil.org"} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://example.com/", nil)
		require.NoError(t, err)
		request.Host = host
		response, err := client.Do(request)
		require.NoError(t, err)
		require.Equal(t, http.StatusForbidden, response.StatusCode, host)
		require.NoError(t, response.Body.Close())
	}
	require.Empty(t, b.dialled)
}

func TestAnInterceptedHostIsVerifiedAsUsual(t *testing.T) {
	t.Parallel()
	server := secureServer(t, func(http.ResponseWriter, *http.Request) {})
	b := newProxyFixture(t, "example.com")
	b.options.Credentials = []Credential{{Host: "example.com", Header: "Authorization", Value: token}}
	b.options.RootCAs = x509.NewCertPool() // trusts nobody
	b.route("example.com", "203.0.113.1:443", address(server))
	b.start()
	code, body := get(t, b.client(), "https://example.com/", nil)
	require.Equal(t, http.StatusBadGateway, code)
	require.Contains(t, body, "certificate signed by unknown authority")
	require.NotContains(t, body, token)
}

func TestAClientThatDoesNotTrustTheProxyIsRecorded(t *testing.T) {
	t.Parallel()
	b, _ := credentialFixture(t, func(http.ResponseWriter, *http.Request) {})
	conn, _, response := b.tunnel("example.com:443")
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.Error(t, tls.Client(conn, &tls.Config{ServerName: "example.com", RootCAs: x509.NewCertPool()}).Handshake())
	require.NoError(t, conn.Close())
	records := b.stop()
	require.Len(t, records, 1)
	require.Equal(t, Failed, records[0].Verdict)
	require.Contains(t, records[0].Reason, "does not trust")
}

func TestCredentialsThatCannotWorkAreRefusedWithoutTheirValue(t *testing.T) {
	t.Parallel()
	for says, c := range map[string]Credential{
		"expected one host":          {Host: "*.example.com", Header: "Authorization", Value: token},
		"is not a valid header name": {Host: "example.com", Header: "Proxy-Authorization", Value: token},
		"is not a host":              {Host: "exam ple", Header: "Authorization", Value: token},
		"contains line breaks":       {Host: "example.com", Header: "Authorization", Value: token + "\r\nX: y"},
		"check that the variable is": {Host: "example.com", Header: "Authorization", Value: " "},
		`"Au th" is not a valid hea`: {Host: "example.com", Header: "Au th", Value: token},
	} {
		_, err := New(Options{Credentials: []Credential{c}})
		require.ErrorContains(t, err, says)
		require.NotContains(t, err.Error(), token)
	}
}

func TestASessionThatMovesTooMuchIsCutOff(t *testing.T) {
	t.Parallel()
	b := newProxyFixture(t, "example.com")
	b.options.Limits.Bytes = 100_000
	b.route("example.com", "203.0.113.1:443", echoServer(t))
	b.start()
	conn, reader, _ := b.tunnel("example.com:443")
	go func() { _, _ = conn.Write(make([]byte, 1<<20)) }()
	got, _ := io.Copy(io.Discard, reader)
	require.Less(t, got, int64(100_000))
	response, body := b.raw("CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n")
	require.Equal(t, http.StatusForbidden, response.StatusCode)
	require.Contains(t, body, "100000 bytes")
	records := b.stop()
	require.Len(t, records, 2)
	for _, r := range records {
		require.Equal(t, Refused, r.Verdict)
		require.Contains(t, r.Reason, "100000 bytes")
	}
}

func TestIdleConnectionsAreClosed(t *testing.T) {
	t.Parallel()
	b := newProxyFixture(t, "example.com")
	b.options.Limits.Idle, b.options.Limits.Header = 50*time.Millisecond, 50*time.Millisecond
	b.route("example.com", "203.0.113.1:443", echoServer(t))
	b.start()
	_, reader, response := b.tunnel("example.com:443")
	require.Equal(t, http.StatusOK, response.StatusCode)
	_, err := reader.ReadByte()
	require.ErrorIs(t, err, io.EOF, "a tunnel in which nothing moves")
	silent := b.conn()
	_, err = io.Copy(io.Discard, silent)
	require.NoError(t, err, "a client that never asks")
}

func TestTooManyConnectionsAreTurnedAway(t *testing.T) {
	t.Parallel()
	b := newProxyFixture(t, "example.com")
	b.options.Limits.Connections = 2
	b.route("example.com", "203.0.113.1:443", echoServer(t))
	b.start()
	readers := make([]*bufio.Reader, 2)
	first, one, _ := b.tunnel("example.com:443")
	second, two, _ := b.tunnel("example.com:443")
	readers[0], readers[1] = one, two
	response, err := http.ReadResponse(bufio.NewReader(b.conn()), nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusServiceUnavailable, response.StatusCode)
	require.NoError(t, response.Body.Close())
	for n, conn := range []net.Conn{first, second} {
		_, err = conn.Write([]byte("x"))
		require.NoError(t, err)
		echo, err := readers[n].ReadByte()
		require.NoError(t, err, "those that are open stay")
		require.Equal(t, byte('x'), echo)
	}
}

func TestManyTunnelsRunSideBySideAndDieWithTheListener(t *testing.T) {
	t.Parallel()
	b := newProxyFixture(t, "example.com")
	b.route("example.com", "203.0.113.1:443", echoServer(t))
	b.start()
	const tunnels = 64
	payload := bytes.Repeat([]byte("0123456789abcdef"), 4096)
	var all sync.WaitGroup
	conns := make([]net.Conn, tunnels)
	for n := range tunnels {
		conn, reader, response := b.tunnel("example.com:443")
		require.Equal(t, http.StatusOK, response.StatusCode)
		conns[n] = conn
		all.Go(func() { _, _ = conn.Write(payload) })
		all.Go(func() {
			got := make([]byte, len(payload))
			if _, err := io.ReadFull(reader, got); err != nil || !bytes.Equal(got, payload) {
				t.Errorf("tunnel %d: %v", n, err)
			}
		})
	}
	all.Wait()
	records := b.stop()
	require.Len(t, records, tunnels)
	for _, r := range records {
		require.Equal(t, []int64{int64(len(payload)), int64(len(payload))}, []int64{r.Sent, r.Received})
	}
	for _, conn := range conns {
		_, err := conn.Read(make([]byte, 1))
		require.Error(t, err, "no tunnel outlives its session")
	}
}

func TestARequestInFlightEndsWithTheListener(t *testing.T) {
	t.Parallel()
	reached := make(chan struct{})
	server := plainServer(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		close(reached)
		<-r.Context().Done()
	})
	b := newProxyFixture(t, "example.com")
	b.route("example.com", "203.0.113.1:80", address(server))
	b.start()
	conn := b.conn()
	_, err := io.WriteString(conn, "GET http://example.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n")
	require.NoError(t, err)
	<-reached
	require.Len(t, b.stop(), 1)
}

func TestASessionWithABadPatternServesNothing(t *testing.T) {
	t.Parallel()
	p, err := New(Options{})
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.ErrorContains(t, p.Serve(l, Session{Hosts: []string{"*"}}), `host "*"`)
	_, err = l.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
}

func TestTheWorkersOwnProxyIsUsed(t *testing.T) {
	t.Parallel()
	secure := secureServer(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("through two")) })
	var mu sync.Mutex
	var asked []string
	company := plainServer(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked = append(asked, r.Method+" "+r.Host+" "+r.Header.Get("Proxy-Authorization"))
		mu.Unlock()
		if r.Host != "example.com:443" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		to, err := net.Dial("tcp", address(secure))
		if err != nil {
			return
		}
		defer to.Close()
		from, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer from.Close()
		_, _ = io.WriteString(from, "HTTP/1.1 200 OK\r\n\r\n")
		go func() { _, _ = io.Copy(to, from); _ = to.Close() }()
		_, _ = io.Copy(from, to)
	})
	b := newProxyFixture(t, "example.com", "forbidden.example.com")
	b.options.Upstream = &httpproxy.Config{HTTPSProxy: "http://user:" + token + "@proxy.company:3128"}
	b.routes["proxy.company:3128"] = address(company)
	b.start()
	client := b.client(secure)
	_, body := get(t, client, "https://example.com/", nil)
	require.Equal(t, "through two", body)
	_, _, response := b.tunnel("forbidden.example.com:443")
	require.Equal(t, http.StatusBadGateway, response.StatusCode)
	_, _, response = b.tunnel("evil.org:443")
	require.Equal(t, http.StatusForbidden, response.StatusCode)
	client.CloseIdleConnections()
	data, err := json.Marshal(b.stop())
	require.NoError(t, err)
	require.NotContains(t, string(data), token)
	require.Equal(t, "CONNECT example.com:443 Basic dXNlcjpjYW5hcnktY3JlZGVudGlhbC0zZjc3", asked[0])
	require.Len(t, asked, 2)
	require.Empty(t, b.names.asked, "names are the other proxy's to resolve")
}
