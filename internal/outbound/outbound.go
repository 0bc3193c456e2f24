// Package outbound makes HTTP requests to receivers outside, such as webhooks: it connects only to
// addresses that are allowed, describes failures without revealing URLs, and computes the waits
// between attempts.
package outbound

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"code.dny.dev/ssrf"
)

// guardian rejects addresses that are not on the public internet, according to IANA's lists.
var guardian = ssrf.New(ssrf.WithAnyPort())

const (
	// MaxResponse is the number of bytes of a response that are read, so that its connection can be
	// reused.
	MaxResponse       = 64 << 10
	maxResponseHeader = 64 << 10
	idleTime          = 30 * time.Second // how long a connection to a receiver is kept
)

// Options configure a client.
type Options struct {
	Timeout      time.Duration  // of a request
	AllowPrivate bool           // also private, loopback and otherwise reserved addresses
	Idle         int            // connections to a receiver that are kept
	RootCAs      *x509.CertPool // trusted authorities; nil: those of the system
}

// Dialer returns a dialer that connects only to allowed addresses. The address is checked on
// connection, after name resolution, so DNS rebinding has no effect.
func Dialer(o Options) *net.Dialer {
	dialer := &net.Dialer{Timeout: o.Timeout}
	if !o.AllowPrivate {
		dialer.Control = guardian.Safe
	}
	return dialer
}

// NewClient returns a client that follows no redirects and connects only to allowed addresses. It uses
// no proxy: a proxy would resolve the name itself.
func NewClient(o Options) *http.Client {
	return &http.Client{
		Timeout:       o.Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: o.RootCAs, MinVersion: tls.VersionTLS12},
			DialContext:     Dialer(o).DialContext, TLSHandshakeTimeout: o.Timeout, ForceAttemptHTTP2: true,
			MaxResponseHeaderBytes: maxResponseHeader, IdleConnTimeout: idleTime, MaxIdleConnsPerHost: o.Idle,
		},
	}
}

// Public reports whether an address is on the public internet.
func Public(ip netip.Addr) bool { return guardian.SafeAddr(ip) == nil }

// Status is a status code in words.
func Status(code int) string {
	return strings.TrimSpace(strconv.Itoa(code) + " " + http.StatusText(code))
}

// Problem describes why a status code is a failure; empty if it is none.
func Problem(code int) string {
	switch {
	case code >= 200 && code < 300:
		return ""
	case code >= 300 && code < 400:
		return "it responded with " + Status(code) + ", and redirects are not followed; register the new address"
	default:
		return "it responded with " + Status(code)
	}
}

// Unanswered describes why there was no response, without the URL.
func Unanswered(err error, timeout time.Duration) string {
	var failed *url.Error
	if errors.As(err, &failed) {
		err = failed.Err
	}
	var dns *net.DNSError
	var to interface{ Timeout() bool }
	switch {
	case errors.Is(err, ssrf.ErrProhibitedIP):
		return "its name resolves to a private, loopback or otherwise reserved address, which is not allowed (server.webhooks.allow_private)"
	case errors.As(err, &to) && to.Timeout():
		return "no response within " + timeout.String()
	case errors.As(err, &dns):
		return "its name could not be resolved"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "it closed the connection without a response"
	default:
		return "cannot reach it: " + err.Error()
	}
}

// RetryAfter parses the wait requested by a receiver, in seconds or as a time; 0 if there is none.
func RetryAfter(text string, now time.Time) time.Duration {
	if seconds, err := strconv.Atoi(text); err == nil {
		const most = 1 << 30 // seconds: more would overflow
		return time.Duration(max(0, min(seconds, most))) * time.Second
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	return max(0, at.Sub(now))
}

const (
	// growth is the factor between one wait and the next.
	growth = 3
	// jitter is the random part of a wait, so that attempts that failed together are not repeated
	// together.
	jitter = 0.2
)

// Wait returns the wait after a number of attempts: it increases with each attempt, is at least as long
// as the receiver requested, and never exceeds the longest.
func Wait(first, longest time.Duration, attempts int, asked time.Duration) time.Duration {
	wait := first
	for range attempts - 1 {
		wait = min(wait*growth, longest)
	}
	wait = time.Duration(float64(wait) * (1 - jitter + 2*jitter*rand.Float64())) //nolint:gosec // chance, no secret
	return min(max(wait, asked), longest)
}
