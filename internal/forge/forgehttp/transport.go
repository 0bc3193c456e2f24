package forgehttp

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// transport sits between the library of a forge and the network.
type transport struct {
	*Client
	plain bool // requests have their own credentials
}

// RoundTrip sends a request with the forge's credentials. A response that is neither a success nor a
// redirect is a *StatusError.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context()) // a RoundTripper must not change the request
	req.Header.Set("User-Agent", userAgent)
	own := t.owns(req.URL)
	if !own || !t.plain { // the libraries have no credentials
		for _, name := range []string{"Authorization", "Private-Token", "Job-Token", "Cookie"} {
			req.Header.Del(name)
		}
	}
	if own && !t.plain {
		if err := t.authorize(req); err != nil {
			closeBody(req)
			return nil, err
		}
	}
	log := req.Context().Value(elsewhere{}) != nil
	var kept *cached
	var key cacheKey
	conditional := own && !log && !t.plain && req.Method == http.MethodGet
	if conditional {
		key = keyOf(req)
		if kept = t.cache.get(key); kept != nil {
			req.Header.Set("If-None-Match", kept.header.Get("Etag"))
		}
	}
	resp, err := t.opts.Transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if kept != nil && resp.StatusCode == http.StatusNotModified {
		_ = resp.Body.Close()
		return kept.response(resp), nil
	}
	if resp.StatusCode == http.StatusUnauthorized && own && !t.plain && t.opts.Rejected != nil {
		t.opts.Rejected(req)
	}
	if err := t.check(resp, log); err != nil {
		_ = resp.Body.Close()
		return nil, err
	}
	if conditional && resp.StatusCode == http.StatusOK && resp.Header.Get("Etag") != "" && !strings.Contains(resp.Header.Get("Cache-Control"), "no-store") {
		header := resp.Header.Clone()
		resp.Body = &keeping{ReadCloser: resp.Body, store: func(body []byte) { t.cache.put(&cached{key: key, header: header, body: body}) }}
	}
	return resp, nil
}

// check limits a response, and rejects one that is not a success.
func (t *transport) check(resp *http.Response, log bool) error {
	limit := int64(MaxBody)
	if log {
		limit = MaxLog
	}
	resp.Body = &limited{ReadCloser: resp.Body, left: limit}
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch {
	case resp.StatusCode >= 300 && resp.StatusCode < 400 && resp.StatusCode != http.StatusNotModified:
		return nil // the client decides whether to follow
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody)) // what arrived may explain the status
		return &StatusError{Status: resp.StatusCode, Header: resp.Header, Message: messageOf(body)}
	case !log && media == "text/html":
		return fault.New(contract.ClassConfig, contract.CodeInvalidConfig, "it responded with a web page; check that url is the address of a forge of kind %s", t.opts.Kind)
	}
	return nil
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
}

// errTooLarge is the error of a body over its limit.
var errTooLarge = errors.New("the response is too large")

// limited rejects a body over its limit.
type limited struct {
	io.ReadCloser
	left int64
}

// Read reads from the body.
func (l *limited) Read(p []byte) (int, error) {
	if l.left < 0 {
		return 0, errTooLarge
	}
	if int64(len(p)) > l.left+1 {
		p = p[:l.left+1] // one more byte shows that there is more
	}
	n, err := l.ReadCloser.Read(p)
	if l.left -= int64(n); l.left < 0 {
		return max(n-1, 0), errTooLarge
	}
	return n, err
}
