package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"time"
)

// dial connects to an allowed host at a checked address.
func (p *Proxy) dial(ctx context.Context, host string, port uint16) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, p.options.Limits.Dial)
	defer cancel()
	through, err := p.upstreamFor(host, port)
	if err != nil {
		return nil, err
	}
	if through != nil {
		return p.dialUpstream(ctx, through, host, port)
	}
	addresses, err := p.addresses(ctx, host, port)
	if err != nil {
		return nil, err
	}
	var all []error
	for n, addr := range addresses {
		conn, err := p.dialOne(ctx, netip.AddrPortFrom(addr, port), len(addresses)-n)
		if err == nil {
			return conn, nil
		}
		all = append(all, err)
	}
	return nil, fmt.Errorf("connect: %w", errors.Join(all...))
}

// minDialTimeout is the minimum time for each address of a host, as a share of Limits.Dial.
const minDialTimeout = 2 * time.Second

// dialOne connects to one of the remaining addresses within its share of the remaining time: an
// unresponsive address must not use up the time of the others.
func (p *Proxy) dialOne(ctx context.Context, addr netip.AddrPort, left int) (net.Conn, error) {
	if until, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, max(minDialTimeout, time.Until(until)/time.Duration(left)))
		defer cancel()
	}
	return p.options.Dial(ctx, "tcp", addr.String())
}

// upstreamFor returns the proxy that this machine uses for a host, or nil if there is none.
func (p *Proxy) upstreamFor(host string, port uint16) (*url.URL, error) {
	if p.upstream == nil {
		return nil, nil //nolint:nilnil // no proxy is an answer
	}
	// A literal address is not resolved, so it is checked here.
	if addr, err := netip.ParseAddr(host); err == nil {
		if class := classify(addr); class != public {
			return nil, &refusedError{fmt.Sprintf("it is %s", class)}
		}
	}
	scheme := "https"
	if port == 80 {
		scheme = "http"
	}
	through, err := p.upstream(&url.URL{Scheme: scheme, Host: net.JoinHostPort(host, strconv.Itoa(int(port)))})
	if err != nil {
		// The error could contain the URL of the proxy with a password.
		return nil, errors.New("the worker's own proxy settings (HTTPS_PROXY, HTTP_PROXY) are invalid")
	}
	return through, nil
}

// dialUpstream opens a tunnel through the worker's own proxy.
func (p *Proxy) dialUpstream(ctx context.Context, through *url.URL, host string, port uint16) (net.Conn, error) {
	address, secure := through.Host, through.Scheme == "https"
	if through.Scheme != "http" && !secure {
		return nil, fmt.Errorf("the worker's own proxy has the unsupported scheme %q; use http or https", through.Scheme)
	}
	if through.Port() == "" {
		address = net.JoinHostPort(through.Hostname(), map[bool]string{false: "80", true: "443"}[secure])
	}
	conn, err := p.options.Dial(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("cannot reach the worker's own proxy: %w", err)
	}
	// The handshake and the response stop when ctx ends.
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if secure {
		conn = tls.Client(conn, &tls.Config{ServerName: through.Hostname(), RootCAs: p.options.RootCAs, MinVersion: tls.VersionTLS12})
	}
	tunnel, err := askForTunnel(conn, through.User, net.JoinHostPort(host, strconv.Itoa(int(port))))
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("the worker's own proxy did not open a tunnel: %w", err)
	}
	return tunnel, nil
}

// upstreamAnswer is the status with which the worker's own proxy refused a tunnel.
type upstreamAnswer int

// Error implements error.
func (a upstreamAnswer) Error() string { return fmt.Sprintf("it responded with %d", int(a)) }

func askForTunnel(conn net.Conn, user *url.Userinfo, target string) (net.Conn, error) {
	request := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: target}, Host: target, Header: http.Header{}}
	if user != nil {
		password, _ := user.Password()
		request.Header.Set("Proxy-Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(user.Username()+":"+password)))
	}
	if err := request.Write(conn); err != nil {
		return nil, err
	}
	reader := bufio.NewReader(conn)
	response, err := http.ReadResponse(reader, request)
	if err != nil {
		return nil, err
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, upstreamAnswer(response.StatusCode)
	}
	return &bufferedConn{Conn: conn, reader: reader}, nil
}

// bufferedConn first returns the bytes that were read ahead.
type bufferedConn struct {
	net.Conn
	reader *bufio.Reader
}

func (c *bufferedConn) Read(b []byte) (int, error) { return c.reader.Read(b) }

// CloseWrite closes the write direction if the connection supports it.
func (c *bufferedConn) CloseWrite() error { return closeWrite(c.Conn) }

func closeWrite(conn net.Conn) error {
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return conn.Close()
}
