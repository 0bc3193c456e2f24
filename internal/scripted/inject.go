package scripted

import (
	"maps"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"
)

// injectFault carries out a rule's fault.
func (a *answer) injectFault(req *chatRequest, r *rule) {
	f := r.fault
	switch {
	case f.status != 0:
		a.fail(statusError(f))
	case f.timeout:
		a.hang()
	case f.truncate:
		a.complete(truncated(a.server.newCompletion(req, a.entry.Rule, r), r))
	case f.malformed:
		a.malformed(a.server.newCompletion(req, a.entry.Rule, r))
	default:
		a.disconnect(a.server.newCompletion(req, a.entry.Rule, r))
	}
}

// hang never answers.
func (a *answer) hang() {
	select {
	case <-a.r.Context().Done():
	case <-a.server.closing:
	}
	a.gone()
}

// truncated returns a completion that reached the output limit in the middle.
func truncated(c *completion, r *rule) *completion {
	c.text = firstHalf(c.text)
	if n := len(c.calls); n > 0 {
		calls := append([]toolCall(nil), c.calls...)
		calls[n-1].arguments = firstHalf(calls[n-1].arguments)
		c.calls = calls
	}
	c.finish = "length"
	if r.usage == nil {
		c.usage.completion = c.tokens()
	}
	return c
}

// malformed responds with HTTP 200 and invalid JSON.
func (a *answer) malformed(c *completion) {
	if !c.req.Stream {
		doc := c.req.form.document(c)
		a.send(http.StatusOK, http.Header{"Content-Type": {"application/json"}}, doc[:len(doc)/2], usage{})
		return
	}
	a.start(http.StatusOK, a.streamHeader(), -1)
	f := c.req.form
	part := f.piece(c, c.text)
	broken := append(append([]byte(nil), part[:len(part)/2]...), "\n\n"...)
	if _, framed := f.(bedrockForm); framed {
		broken = frame(broken)
	}
	if !a.write(f.opening(c)) {
		a.gone()
	}
	a.log(http.StatusOK, f.started(c)) // before the data that makes the client give up
	_, _ = a.w.Write(append(broken, f.final(c)...))
}

// disconnect breaks the connection after half of the response was sent.
func (a *answer) disconnect(c *completion) {
	if c.req.Stream {
		a.start(http.StatusOK, a.streamHeader(), -1)
		a.write(c.req.form.opening(c))
		a.write(c.req.form.piece(c, firstHalf(c.text)))
	} else {
		doc := c.req.form.document(c)
		a.start(http.StatusOK, http.Header{"Content-Type": {"application/json"}}, len(doc))
		a.write(doc[:len(doc)/2])
	}
	a.log(StatusDropped, usage{})
	abort()
}

// firstHalf returns the first half of a text, cut between characters.
func firstHalf(s string) string {
	n := len(s) / 2
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// apiError is an error in the protocol's form.
type apiError struct {
	status     int
	kind, code string
	message    string
	retryAfter time.Duration
}

// statusError returns the error that providers send for a status, so clients can distinguish an
// exhausted quota from a rate limit.
func statusError(f *faultSpec) apiError {
	e := apiError{status: f.status, retryAfter: f.retryAfter, kind: "invalid_request_error", message: "simulated by the scenario: " + strconv.Itoa(f.status) + " " + http.StatusText(f.status)}
	switch f.status {
	case http.StatusUnauthorized:
		e.code = "invalid_api_key"
	case http.StatusPaymentRequired:
		e.kind, e.code = "insufficient_quota", "insufficient_quota"
	case http.StatusForbidden:
		e.kind, e.code = "permission_error", "forbidden"
	case http.StatusNotFound:
		e.code = "model_not_found"
	case http.StatusRequestEntityTooLarge:
		e.code = "context_length_exceeded"
	case http.StatusTooManyRequests:
		e.kind, e.code = "requests", "rate_limit_exceeded"
	default:
		if f.status >= http.StatusInternalServerError {
			e.kind, e.code = "server_error", "server_error"
		}
	}
	if f.code != "" {
		e.kind, e.code = f.code, f.code
	}
	return e
}

// header returns the wait in the two forms that providers use: whole seconds, and milliseconds for
// shorter waits.
func (e apiError) header() http.Header {
	h := http.Header{"Content-Type": {"application/json"}}
	if e.retryAfter > 0 {
		seconds := (e.retryAfter + time.Second - 1) / time.Second
		h["Retry-After"] = []string{strconv.FormatInt(int64(seconds), 10)}
		h["Retry-After-Ms"] = []string{strconv.FormatInt(e.retryAfter.Milliseconds(), 10)}
	}
	return h
}

// writeError responds to a request that is not for the model.
func writeError(w http.ResponseWriter, e apiError) {
	maps.Copy(w.Header(), e.header())
	w.WriteHeader(e.status)
	_, _ = w.Write(chatForm{}.problem(e))
}
