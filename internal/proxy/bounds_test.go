package proxy

import (
	"bufio"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// unicodeHost is a host name of many different letters.
func unicodeHost(bytes int) string {
	var s strings.Builder
	for r := rune(0x4e00); s.Len() < bytes; r++ {
		s.WriteRune(r)
	}
	return s.String()
}

func TestANameThatIsTooLongIsNotConverted(t *testing.T) {
	t.Parallel()
	_, err := asciiName(unicodeHost(60_000))
	require.ErrorContains(t, err, "expected 1 to 253 characters", "the conversion of such a name takes a second")
	_, err = asciiName(unicodeHost(90) + ".example.com")
	require.NoError(t, err)
}

func TestRecordedRequestsAreBounded(t *testing.T) {
	t.Parallel()
	b := newProxyFixture(t, "example.com")
	b.start()
	for _, target := range []string{strings.Repeat("9", 40_000) + ":" + strings.Repeat("9", 10_000), unicodeHost(40_000) + ":443"} {
		conn := b.conn()
		_, err := io.WriteString(conn, "CONNECT "+target+" HTTP/1.1\r\nHost: x\r\n\r\n")
		require.NoError(t, err)
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
	}
	for _, r := range b.stop() {
		require.LessOrEqual(t, len(r.Reason), maxReason, r.Reason)
		require.LessOrEqual(t, len(r.Host), 253)
	}
}

func TestAnAddressThatDoesNotAnswerLeavesTimeForTheOthers(t *testing.T) {
	t.Parallel()
	registry := echoServer(t)
	p, err := New(Options{
		Limits:   Limits{Dial: 5 * time.Second},
		Resolver: addresses{"203.0.114.1", "203.0.114.2"},
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			if address == "203.0.114.1:443" {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return new(net.Dialer).DialContext(ctx, network, registry)
		},
	})
	require.NoError(t, err)
	conn, err := p.dial(t.Context(), "example.com", 443)
	require.NoError(t, err)
	require.NoError(t, conn.Close())
}

// addresses are those of all names.
type addresses []string

// LookupNetIP implements Resolver.
func (a addresses) LookupNetIP(context.Context, string, string) (out []netip.Addr, err error) {
	for _, text := range a {
		out = append(out, netip.MustParseAddr(text))
	}
	return out, nil
}

func TestCredentialsOnlyRead(t *testing.T) {
	t.Parallel()
	var asked []string
	b, client := credentialFixture(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+r.Header.Get("X-Http-Method-Override")+" "+r.URL.Path)
		http.SetCookie(w, &http.Cookie{Name: "session", Value: "of the owner"})
	})
	kind := "application/x-git-upload-pack-request"
	do := func(method, path string) (status, cookies int) {
		request, err := http.NewRequestWithContext(t.Context(), method, "https://example.com"+path, nil)
		require.NoError(t, err)
		request.Header.Set("Content-Type", kind)
		request.Header.Set("X-HTTP-Method-Override", "DELETE")
		response, err := client.Do(request)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		return response.StatusCode, len(response.Cookies())
	}
	status, cookies := do("GET", "/package")
	require.Equal(t, []int{http.StatusOK, 0}, []int{status, cookies})
	status, _ = do("POST", "/group/repo.git/git-upload-pack")
	require.Equal(t, http.StatusOK, status)
	for _, request := range [][2]string{
		{"PUT", "/package"}, {"POST", "/package"}, {"DELETE", "/package"}, {"PATCH", "/package"}, {"TRACE", "/package"},
		{"POST", "/group/repo.git/git-receive-pack"}, {"POST", "/x?/git-upload-pack"},
	} {
		status, _ := do(request[0], request[1])
		require.Equal(t, http.StatusForbidden, status, request)
	}
	kind = "application/json" // like an API's that creates a file of that name
	status, _ = do("POST", "/api/v1/repos/o/r/contents/.github/workflows/git-upload-pack")
	require.Equal(t, http.StatusForbidden, status)
	b.stop()
	require.Equal(t, []string{"GET /package", "POST /group/repo.git/git-upload-pack"}, asked)
}

func TestAPrivateHostIsNamedNotNumbered(t *testing.T) {
	t.Parallel()
	_, err := New(Options{AllowPrivate: []string{"10.0.0.5"}})
	require.ErrorContains(t, err, "expected a name that resolves to it")
}

func TestOnlyWhatMayPassIsCalledPassing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err     error
		passing bool
	}{
		{&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, true},
		{fmt.Errorf("connect: %w", errors.Join(&net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded})), true},
		{&net.DNSError{Err: "server misbehaving", IsTemporary: true}, true},
		{&net.DNSError{Err: "no such host", IsNotFound: true}, false},
		{context.DeadlineExceeded, true},
		{context.Canceled, false},
		{io.ErrUnexpectedEOF, true},
		{fmt.Errorf("no tunnel: %w", upstreamAnswer(http.StatusBadGateway)), true},
		{fmt.Errorf("no tunnel: %w", upstreamAnswer(http.StatusForbidden)), false},
		{x509.UnknownAuthorityError{}, false},
		{&net.OpError{Op: "remote error", Err: errors.New("tls: handshake failure")}, false},
	} {
		require.Equal(t, c.passing, isTemporary(c.err), "%v", c.err)
	}
}
