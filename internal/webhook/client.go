package webhook

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"code.dny.dev/ssrf"

	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/store"
)

// guardian rejects addresses that are not on the public internet, according to IANA's lists.
var guardian = ssrf.New(ssrf.WithAnyPort())

const (
	maxResponse       = 64 << 10 // bytes of a response that are read, so that its connection can be reused
	maxResponseHeader = 64 << 10
	idleTime          = 30 * time.Second // how long a connection to a receiver is kept
)

// newClient returns a client that follows no redirects and, unless configured, does not connect to
// private addresses. The address is checked on connection, after name resolution, so DNS rebinding
// has no effect. For the same reason it uses no proxy: a proxy would resolve the name itself.
func newClient(s config.Webhooks) *http.Client {
	dialer := &net.Dialer{Timeout: s.Timeout}
	if !s.AllowPrivate {
		dialer.Control = guardian.Safe
	}
	return &http.Client{
		Timeout:       s.Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext: dialer.DialContext, TLSHandshakeTimeout: s.Timeout, ForceAttemptHTTP2: true,
			MaxResponseHeaderBytes: maxResponseHeader, IdleConnTimeout: idleTime, MaxIdleConnsPerHost: s.MaxEach,
		},
	}
}

// response is a receiver's response to an attempt.
type response struct {
	code       int           // 0: none
	wrong      string        // the error in words; empty if the delivery succeeded
	retryAfter time.Duration // that the receiver requests
}

// post makes one attempt.
func (h *Hooks) post(ctx context.Context, d store.DueDelivery) response {
	req, err := h.request(ctx, d, time.Now())
	if err != nil {
		return response{wrong: "cannot create the message: " + err.Error()}
	}
	resp, err := h.client.Do(req)
	if err != nil {
		return response{wrong: inWords(err, h.settings.Timeout)}
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxResponse)) // the content is irrelevant
	out := response{code: resp.StatusCode}
	switch {
	case resp.StatusCode >= 200 && resp.StatusCode < 300:
		return out
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		out.wrong = "it responded with " + status(resp.StatusCode) + ", and redirects are not followed; register the new address"
	default:
		out.wrong = "it responded with " + status(resp.StatusCode)
	}
	out.retryAfter = retryAfter(resp.Header.Get("Retry-After"), time.Now())
	return out
}

func status(code int) string {
	return strings.TrimSpace(strconv.Itoa(code) + " " + http.StatusText(code))
}

// inWords describes why there was no response, without the URL.
func inWords(err error, timeout time.Duration) string {
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

// retryAfter parses the wait requested by a receiver, in seconds or as a time; 0 if there is none.
func retryAfter(text string, now time.Time) time.Duration {
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
