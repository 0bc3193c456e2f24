// Package proxy is the only way out of a sandbox. It is an HTTP proxy inside
// the worker that lets a sandboxed command reach the hosts that the operator
// named, and nothing else.
//
// What it promises:
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
// A tunnel is identified by the requested name. If one server, such as that of a
// large content network, answers for many names, a command that may reach one of
// them can ask it for another inside the tunnel.
//
// It is built on net/http and httputil.ReverseProxy: existing proxy libraries
// leave tunnels to goroutines that nobody can wait for, and dial by name again
// after a check.
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

// Port is the port on which a sandbox has its proxy, at 127.0.0.1 there.
const Port = 3128

// DefaultSetting is the line of configuration that a refusal names.
const DefaultSetting = "execution.sandbox.network"

// RefusedHeader is in each answer with which the proxy refuses a request; its value is
// RefusedValue.
const (
	RefusedHeader = "X-RGPT-Proxy"
	RefusedValue  = "refused"
)

// Options configure New. The zero value reaches public addresses and has no
// credentials.
type Options struct {
	// AllowPrivate are patterns of hosts, as for ParseHosts, that may have private
	// addresses (RFC 1918, fc00::/7, 100.64.0.0/10): registries inside a company. The
	// session must still allow them.
	AllowPrivate []string
	// Credentials are added to requests to the hosts that they name.
	Credentials []Credential
	Limits      Limits
	// Upstream is the proxy through which this machine itself reaches the internet; nil
	// if it needs none. The upstream resolves what goes through it, so it checks
	// addresses, not this proxy. Names, ports and literal addresses are still checked
	// here.
	Upstream *httpproxy.Config
	// Resolver finds addresses; nil means net.DefaultResolver.
	Resolver Resolver
	// Dial connects to a checked address, "203.0.113.7:443"; nil means a net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// RootCAs verify the servers of intercepted hosts; nil means those of the system.
	RootCAs *x509.CertPool
}

// Limits restrict one session, which is one command. Zero means the value of
// DefaultLimits.
type Limits struct {
	// Connections is how many connections of the command may be open at once; more are
	// refused.
	Connections int
	// Bytes is how many bytes may move in both directions together. A session that
	// exceeds it is cut off.
	Bytes int64
	// Idle is the time without a byte after which a connection is closed.
	Idle time.Duration
	// Header is the time in which a client must have sent the header of a
	// request, or its part of the TLS handshake.
	Header time.Duration
	// Dial is the time for resolving a name and connecting to it.
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

// headerBytes bounds the header of a request.
const headerBytes = 64 << 10

// Credential is a header added to the requests to a host, inside TLS only: on plain
// HTTP anybody on the way could read it.
type Credential struct {
	// Host is a pattern as for ParseHosts, without a wildcard.
	Host string
	// Header is its name, such as Authorization. One that the command sent is
	// replaced.
	Header string
	// Value is the secret.
	Value string
}

// Record says what a session did: one request, or one tunnel, that has ended. It
// contains no header, path, body or credential.
type Record struct {
	At       time.Time `json:"at"` // when it began
	Host     string    `json:"host"`
	Port     uint16    `json:"port"`
	Method   string    `json:"method"`   // CONNECT for a tunnel
	Sent     int64     `json:"sent"`     // bytes to the host: all of a tunnel, the body of a request
	Received int64     `json:"received"` // bytes from the host, likewise
	Verdict  Verdict   `json:"verdict"`
	Reason   string    `json:"reason,omitempty"` // why it was not allowed, or failed
	// Unlisted says that the host of a refused request is not in Session.Hosts.
	Unlisted bool `json:"unlisted,omitempty"`
	// Temporary says that a failed request may succeed later: the failure was in the
	// network or the host. A name that does not exist is not such a failure.
	Temporary bool   `json:"passing,omitempty"`
	Who       string `json:"who,omitempty"` // Session.Who
}

// Verdict is the outcome of a request.
type Verdict string

// The verdicts.
const (
	Allowed Verdict = "allowed" // it reached the host
	Refused Verdict = "refused" // it was not let out, or was cut off by a limit
	Failed  Verdict = "failed"  // it was allowed but the host could not be reached
)

// Session is one sandboxed command.
type Session struct {
	// Hosts are the patterns of what it may reach; see ParseHosts.
	Hosts []string
	// Who names it in records.
	Who string
	// Setting is the line of configuration that would allow one more host; empty means
	// DefaultSetting.
	Setting string
	// OnRequest is called for each request and tunnel when it has ended. Calls do not
	// overlap, and none comes after Serve has returned. May be nil.
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

// secret is a Credential that was checked.
type secret struct {
	hosts         Hosts
	header, value string
}

// New checks the options and makes a proxy, with its own certificate authority that
// exists only in memory.
func New(options Options) (*Proxy, error) {
	private, err := parsePrivate(options.AllowPrivate)
	if err != nil {
		return nil, fmt.Errorf("proxy: hosts with private addresses: %w", err)
	}
	p := &Proxy{options: options, private: private}
	for _, c := range options.Credentials {
		s, err := parseCredential(c)
		if err != nil {
			return nil, fmt.Errorf("proxy: credential of %q: %w", c.Host, err)
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

// parseCredential never puts the value into an error.
func parseCredential(c Credential) (s secret, err error) {
	host, err := parsePattern(c.Host)
	if err != nil {
		return s, err
	}
	if s.hosts = (Hosts{host}); host.wild {
		return s, fmt.Errorf("expected one host; otherwise, the owners of other subdomains would also receive the credential")
	}
	s.header, s.value = http.CanonicalHeaderKey(c.Header), strings.TrimSpace(c.Value)
	switch {
	case !headerName(s.header):
		return s, fmt.Errorf("header %q is not a valid header name; expected one such as Authorization", c.Header)
	case s.value == "":
		return s, fmt.Errorf("header %s has no value; check that the variable is set or that the file is not empty", s.header)
	case strings.ContainsFunc(s.value, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return s, fmt.Errorf("header %s has a value with line breaks or control characters", s.header)
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

// hopByHop headers are about one connection; a credential in one of them would
// never arrive.
var hopByHop = map[string]bool{
	"Connection": true, "Proxy-Connection": true, "Keep-Alive": true, "Proxy-Authenticate": true, "Proxy-Authorization": true,
	"Te": true, "Trailer": true, "Transfer-Encoding": true, "Upgrade": true,
}

// credentials are those of a host.
func (p *Proxy) credentials(host string, port uint16) []secret {
	var out []secret
	for _, s := range p.secrets {
		if s.hosts.Allows(host, port) {
			out = append(out, s)
		}
	}
	return out
}

// CACertificate returns, as PEM, the certificate of the authority that signs for hosts
// with credentials. Commands must trust it to reach those.
func (p *Proxy) CACertificate() []byte { return p.ca.pem }
