package modelclient

import (
	"bytes"
	"errors"
	"io"
	"math"
	"mime"
	"net"
	"net/http"
	"time"

	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/modelclient/wire"
)

// newHTTPClient creates the HTTP client for all calls. Redirects are not followed: they would send
// prompts and keys to an address that no one configured.
func newHTTPClient(transport http.RoundTripper) (*http.Client, func()) {
	closeIdle := func() {}
	if transport == nil {
		own := &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			DialContext:           (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
			ForceAttemptHTTP2:     true,
			MaxIdleConns:          256,
			MaxIdleConnsPerHost:   model.DefaultMaxConcurrent,
			IdleConnTimeout:       90 * time.Second,
			TLSHandshakeTimeout:   10 * time.Second,
			ExpectContinueTimeout: time.Second,
		}
		transport, closeIdle = own, own.CloseIdleConnections
	}
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, closeIdle
}

// statusError is a response with an HTTP status other than success.
type statusError struct {
	status int
	header http.Header
	body   []byte // its beginning
}

func (e *statusError) Error() string { return http.StatusText(e.status) }

// maxErrorBody limits how much of a failed response is read.
const maxErrorBody = 64 << 10

// RoundTrip sits between the SDK of an API and the network.
func (x *call) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context()) // a RoundTripper must not change the request
	hideFromRetry(req.Header)
	resp, err := x.client.http.Transport.RoundTrip(req)
	if err != nil {
		return resp, err
	}
	if x.req.Observe != nil {
		x.req.Observe(resp.StatusCode, resp.Header)
	}
	x.watch.touchIf(x.streaming)
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
		_ = resp.Body.Close()
		return nil, &statusError{status: resp.StatusCode, header: resp.Header, body: body}
	}
	x.body = &countedBody{body: resp.Body, seen: func() { x.watch.touchIf(x.streaming) }, limit: x.rawLimit(), events: isStream(resp)}
	if mediaType(resp) == "application/vnd.amazon.eventstream" {
		x.body.limit = math.MaxInt64 // frames, each of which the SDK limits to 16 MiB
	}
	resp.Body = x.body
	return resp, nil
}

// hideFromRetry writes the idempotency key's header name in a form that is equivalent for the
// server. In its usual form, net/http treats it as permission to repeat a request after a broken
// connection; only Temporal may retry.
func hideFromRetry(h http.Header) {
	if v, ok := h["Idempotency-Key"]; ok {
		delete(h, "Idempotency-Key")
		h["idempotency-key"] = v
	}
}

// touchIf records activity of a call that is watched for silence.
func (w *watch) touchIf(watched bool) {
	if watched {
		w.touch()
	}
}

// rawLimit limits the data held in memory at a time: a response in one piece, or one event of a
// stream. It allows for JSON escapes.
func (x *call) rawLimit() int64 { return 2*x.client.opts.MaxResponse + 64<<10 }

// countedBody reports arriving bytes, rejects more than a limit in one event (or in total, if there
// are no events), and records why reading failed.
type countedBody struct {
	body   io.ReadCloser
	seen   func()
	limit  int64
	events bool  // a blank line ends an event
	size   int64 // of the event
	line   int64 // since the last line break
	err    error
}

// Read counts the bytes that arrive.
func (b *countedBody) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.body.Read(p)
	if n > 0 {
		b.seen()
		b.count(p[:n])
	}
	switch {
	case b.size > b.limit:
		b.err = wire.ErrTooLarge
		return 0, b.err
	case err != nil && !errors.Is(err, io.EOF):
		b.err = err
	}
	return n, err
}

func (b *countedBody) count(p []byte) {
	if !b.events {
		b.size += int64(len(p))
		return
	}
	for {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			b.size, b.line = b.size+int64(len(p)), b.line+int64(len(p))
			return
		}
		blank := b.line+int64(i) == 0 || (b.line+int64(i) == 1 && (i == 0 || p[0] == '\r'))
		b.size, b.line = b.size+int64(i)+1, 0
		if blank {
			b.size = 0
		}
		p = p[i+1:]
	}
}

// Close closes the body.
func (b *countedBody) Close() error { return b.body.Close() }

// isStream reports whether a response is a stream of events.
func isStream(r *http.Response) bool {
	return mediaType(r) == "text/event-stream"
}

func mediaType(r *http.Response) string {
	t, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return t
}
