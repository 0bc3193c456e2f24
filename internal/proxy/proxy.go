// Package proxy provides the only network access of a sandbox. It is an HTTP proxy inside the
// worker that lets a sandboxed command reach only the hosts that the operator listed.
//
// guarantees:
//
//   - a host is allowed by its name and port, before anything is looked up;
//   - the proxy resolves names itself, once, and connects to the address that
//     it has checked: loopback, link-local, multicast and reserved addresses,
//     those of cloud metadata and of this machine are never reached, private
//     ones only for hosts that the operator named (Options.AllowPrivate);
//   - encrypted traffic stays encrypted: a tunnel is passed on unread. Only for hosts
//     with a Credential does the proxy terminate TLS itself, to add the credential,
//     which no command ever sees;
//   - when Serve returns, no connection and no goroutine of it is left.
//
// A tunnel is identified by the requested name. If one server, for example of a large content
// network, serves many names, a command that may reach one of them can request another inside the
// tunnel.
//
// It is built on net/http and httputil.ReverseProxy: existing proxy libraries run tunnels in
// goroutines that a caller cannot wait for, and resolve the name again after a check.
package proxy

import (
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/net/http/httpproxy"
)

// Port is the port of the proxy inside a sandbox, at 127.0.0.1.
const Port = 3128

// DefaultSetting is the setting that a refusal names.
const DefaultSetting = "execution.sandbox.network"

// RefusedHeader is in each response that refuses a request; its value is RefusedValue.
const (
	RefusedHeader = "X-RGPT-Proxy"
	RefusedValue  = "refused"
)

// Options configure New. The zero value reaches public addresses and has no credentials.
type Options struct {
	// AllowPrivate are patterns of hosts, as for ParseHosts, that may have private addresses (RFC
	// 1918, fc00::/7, 100.64.0.0/10): internal registries, for example. The session must also allow
	// them.
	AllowPrivate []string
	// Credentials are added to requests to their hosts.
	Credentials []Credential
	Limits      Limits
	// Upstream is the proxy through which this machine itself reaches the internet; nil if it needs
	// none. The upstream resolves names itself, so it must check addresses instead of this proxy.
	// Names, ports and literal addresses are still checked here.
	Upstream *httpproxy.Config
	// Resolver finds addresses; nil means net.DefaultResolver.
	Resolver Resolver
	// Dial connects to a checked address, "203.0.113.7:443"; nil means a net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// RootCAs verify the servers of intercepted hosts; nil means the system's.
	RootCAs *x509.CertPool
}

// Limits restrict one session, which is one command. Zero means the value of DefaultLimits.
type Limits struct {
	// Connections is the maximum number of open connections of the command; more are refused.
	Connections int
	// Bytes is the maximum number of bytes in both directions together. A session that exceeds it
	// is cut off.
	Bytes int64
	// Idle is the time without a byte after which a connection is closed.
	Idle time.Duration
	// Header is the time limit for a client to send the header of a request, or its part of the TLS
	// handshake.
	Header time.Duration
	// Dial is the time limit for resolving a name and connecting to it.
	Dial time.Duration
}

// DefaultLimits are enough for the dependencies of large projects.
var DefaultLimits = Limits{
	Connections: 256,
	Bytes:       8 << 30,
	Idle:        5 * time.Minute,
	Header:      20 * time.Second,
	Dial:        30 * time.Second,
}

// headerBytes limits the header of a request.
const headerBytes = 64 << 10

// Credential is a header added to the requests to a host, only inside TLS: on plain HTTP, anyone on
// the network path could read it.
type Credential struct {
	// Host is a pattern as for ParseHosts, without a wildcard.
	Host string
	// Header is its name, such as Authorization. It replaces a header of that name from the
	// command.
	Header string
	// Value is the secret.
	Value string
}

// Record describes one finished request or tunnel of a session. It contains no header, path, body
// or credential.
type Record struct {
	At       time.Time `json:"at"` // when it began
	Host     string    `json:"host"`
	Port     uint16    `json:"port"`
	Method   string    `json:"method"`   // CONNECT for a tunnel
	Sent     int64     `json:"sent"`     // bytes to the host: all of a tunnel, the body of a request
	Received int64     `json:"received"` // bytes from the host, likewise
	Verdict  Verdict   `json:"verdict"`
	Reason   string    `json:"reason,omitempty"` // reason for a refusal or failure
	// Unlisted reports that the host of a refused request is not in Session.Hosts.
	Unlisted bool `json:"unlisted,omitempty"`
	// Temporary reports that a failed request may succeed later because the network or the host
	// failed. A name that does not exist is not a temporary failure.
	Temporary bool   `json:"passing,omitempty"`
	Who       string `json:"who,omitempty"` // Session.Who
}

// Verdict is the outcome of a request.
type Verdict string

// The verdicts.
const (
	Allowed Verdict = "allowed" // it reached the host
	Refused Verdict = "refused" // it was not allowed, or was cut off by a limit
	Failed  Verdict = "failed"  // it was allowed but the host could not be reached
)

// Session is one sandboxed command.
type Session struct {
	// Hosts are the patterns of the hosts that it may reach; see ParseHosts.
	Hosts []string
	// Who identifies it in records.
	Who string
	// Setting is the setting that can allow another host; empty means DefaultSetting.
	Setting string
	// OnRequest is called for each finished request and tunnel. Calls do not overlap, and there are
	// no calls after Serve has returned. It may be nil.
	OnRequest func(Record)
}

// Proxy serves any number of sessions at once.
type Proxy struct {
	options  Options
	private  Hosts
	secrets  []secret
	ca       *authority
	upstream func(*url.URL) (*url.URL, error)
}

// secret is a checked Credential.
type secret struct {
	hosts         Hosts
	header, value string
}

// New checks the options and creates a proxy with its own certificate authority, which exists only
// in memory.
func New(options Options) (*Proxy, error) {
	private, err := parsePrivate(options.AllowPrivate)
	if err != nil {
		return nil, fmt.Errorf("proxy: hosts with private addresses: %w", err)
	}
	p := &Proxy{options: options, private: private}
	for _, c := range options.Credentials {
		s, err := parseCredential(c)
		if err != nil {
			return nil, fmt.Errorf("proxy: credential for %q: %w", c.Host, err)
		}
		p.secrets = append(p.secrets, s)
	}
	if p.ca, err = newAuthority(); err != nil {
		return nil, fmt.Errorf("proxy: create a certificate authority: %w", err)
	}
	if options.Upstream != nil {
		p.upstream = options.Upstream.ProxyFunc()
	}
	p.options.Limits = options.Limits.withDefaults()
	if p.options.Resolver == nil {
		p.options.Resolver = net.DefaultResolver
	}
	if p.options.Dial == nil {
		p.options.Dial = (&net.Dialer{}).DialContext
	}
	return p, nil
}

func (l Limits) withDefaults() Limits {
	d := DefaultLimits
	return Limits{
		Connections: positive(l.Connections, d.Connections),
		Bytes:       positive(l.Bytes, d.Bytes),
		Idle:        positive(l.Idle, d.Idle),
		Header:      positive(l.Header, d.Header),
		Dial:        positive(l.Dial, d.Dial),
	}
}

func positive[T ~int | ~int64](value, fallback T) T {
	if value > 0 {
		return value
	}
	return fallback
}

// parseCredential never includes the value in an error.
func parseCredential(c Credential) (s secret, err error) {
	host, err := parsePattern(c.Host)
	if err != nil {
		return s, err
	}
	if s.hosts = (Hosts{host}); host.wild {
		return s, fmt.Errorf("expected one host; with a wildcard, the owner of any matching subdomain would receive the credential")
	}
	s.header, s.value = http.CanonicalHeaderKey(c.Header), strings.TrimSpace(c.Value)
	switch {
	case !headerName(s.header):
		return s, fmt.Errorf("header %q is not a valid header name; expected one such as Authorization", c.Header)
	case s.value == "":
		return s, fmt.Errorf("header %s has no value; check that the variable is set or that the file is not empty", s.header)
	case strings.ContainsFunc(s.value, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return s, fmt.Errorf("the value of header %s contains line breaks or control characters", s.header)
	}
	return s, nil
}

func headerName(name string) bool {
	const marks = "!#$%&'*+-.^_`|~"
	if strings.EqualFold(name, "Host") || strings.EqualFold(name, "Content-Length") || hopByHop[http.CanonicalHeaderKey(name)] {
		return false
	}
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune(marks, r)
	})
}

// hopByHop headers apply to one connection; a credential in one of them would never reach the host.
var hopByHop = map[string]bool{
	"Connection": true, "Proxy-Connection": true, "Keep-Alive": true, "Proxy-Authenticate": true, "Proxy-Authorization": true,
	"Te": true, "Trailer": true, "Transfer-Encoding": true, "Upgrade": true,
}

// credentials returns the credentials of a host.
func (p *Proxy) credentials(host string, port uint16) []secret {
	var out []secret
	for _, s := range p.secrets {
		if s.hosts.Allows(host, port) {
			out = append(out, s)
		}
	}
	return out
}

// CACertificate returns, in PEM, the certificate of the authority that signs for hosts with
// credentials. Commands must trust it to reach these hosts.
func (p *Proxy) CACertificate() []byte { return p.ca.pem }
