package scripted

import (
	"maps"
	"net/http"
	"time"
	"unicode/utf8"
)

// chat answers POST /v1/chat/completions.
func (s *Server) chat(w http.ResponseWriter, r *http.Request) {
	req, problem := s.readChat(w, r)
	s.answer(w, r, req, problem)
}

// answer answers a request for a completion by the first rule that matches it.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, req *chatRequest, problem *apiError) {
	a := answer{server: s, w: w, r: r, form: req.form, entry: entryOf(req)}
	if problem == nil {
		problem = s.unable(req, req.uses()...)
	}
	if problem != nil {
		a.fail(*problem)
		return
	}
	if a.play(req) {
		return
	}
	i, err := s.pick(req)
	if err != nil {
		a.fail(apiError{status: http.StatusInternalServerError, kind: "server_error", message: "cannot write the scripted model's state: " + err.Error()})
		return
	}
	if i < 0 {
		a.fail(apiError{status: http.StatusBadRequest, kind: "invalid_request_error", code: "no_rule",
			message: "no rule in the scenario matches this request: " + req.caller.String() + ", model " + quote(req.Model)})
		return
	}
	a.entry.Rule = i + 1
	rule := &s.scenario.rules[i]
	if !s.wait(r, rule.latency) {
		a.gone()
		return
	}
	if rule.fault != nil {
		a.injectFault(req, rule)
		return
	}
	a.complete(s.newCompletion(req, a.entry.Rule, rule))
}

// entryOf starts the log line of a request.
func entryOf(req *chatRequest) LogEntry {
	c := req.caller
	return LogEntry{Run: c.run, Agent: c.agent, Phase: c.phase, Step: c.step, Attempt: c.attempt, Turn: c.turn, Model: req.Model, Schema: req.schema()}
}

// answer is the response to one request. Exactly one line is logged for it, after all but its last
// bytes were sent. So the line exists once a client has its response, and records whether the
// client disconnected before.
type answer struct {
	server *Server
	w      http.ResponseWriter
	r      *http.Request
	form   form
	entry  LogEntry
}

// log writes the log line of the request.
func (a *answer) log(status int, u usage) {
	a.entry.Time = time.Now().UTC()
	a.entry.Status, a.entry.PromptTokens, a.entry.CompletionTokens = status, u.prompt, u.completion
	a.entry.CachedTokens, a.entry.CacheWriteTokens = u.cached, u.written
	if err := a.server.log.write(a.entry); err != nil {
		a.server.opts.Logger.Error("cannot write the scripted model's request log", "error", err.Error())
	}
}

// gone ends a request whose client disconnected, or whose server closed, before the response.
func (a *answer) gone() {
	status := StatusDropped
	if a.r.Context().Err() != nil {
		status = StatusClientGone
	}
	a.log(status, usage{})
	abort()
}

// abort breaks the connection, so the client does not mistake a partial response for a complete
// one.
func abort() {
	panic(http.ErrAbortHandler) //nolint:forbidigo // the way to break the connection in a handler
}

// fail responds with an error.
func (a *answer) fail(e apiError) {
	h := e.header()
	if _, ok := a.form.(geminiForm); ok { // it says in the body how long to wait
		h = jsonHeader()
	}
	a.send(e.status, h, a.form.problem(e), usage{})
}

// complete responds with a completion, streamed if requested.
func (a *answer) complete(c *completion) {
	if c.req.Stream {
		a.stream(c)
		return
	}
	a.send(http.StatusOK, http.Header{"Content-Type": {"application/json"}}, a.form.document(c), c.usage)
}

// send responds with a complete body.
func (a *answer) send(status int, h http.Header, body []byte, u usage) {
	a.start(status, h, len(body))
	last := len(body) - 1
	if !a.write(body[:last]) {
		a.gone()
	}
	a.log(status, u)
	_, _ = a.w.Write(body[last:])
}

// start sends status and headers; a negative length means unknown.
func (a *answer) start(status int, h http.Header, length int) {
	maps.Copy(a.w.Header(), h)
	if length >= 0 {
		a.w.Header().Set("Content-Length", itoa(length))
	}
	a.w.WriteHeader(status)
}

// write sends bytes immediately and reports whether the client is still connected.
func (a *answer) write(b []byte) bool {
	return a.put(b) && http.NewResponseController(a.w).Flush() == nil && a.r.Context().Err() == nil
}

// put sends bytes once enough of them have accumulated.
func (a *answer) put(b []byte) bool {
	_, err := a.w.Write(b)
	return err == nil
}

// stream responds with server-sent events. Small ones are sent together, because separate writes
// would be the largest cost.
func (a *answer) stream(c *completion) {
	a.start(http.StatusOK, a.streamHeader(), -1)
	for event := range a.form.events(c) {
		paced := c.pace == 0 || a.write(nil) && a.server.wait(a.r, c.pace)
		if !paced || !a.put(event) {
			a.gone()
		}
	}
	if !a.write(nil) {
		a.gone()
	}
	a.log(http.StatusOK, c.usage)
	_, _ = a.w.Write(a.form.final(c))
}

// streamHeader returns the header of a stream.
func (a *answer) streamHeader() http.Header {
	if _, ok := a.form.(bedrockForm); ok {
		return frameHeader
	}
	return streamHeader
}

var (
	streamHeader = http.Header{"Content-Type": {"text/event-stream"}, "Cache-Control": {"no-cache"}}
	doneEvent    = []byte("data: [DONE]\n\n")
)

// newCompletion creates a rule's response to a request.
func (s *Server) newCompletion(req *chatRequest, number int, r *rule) *completion {
	c := &completion{req: req, text: r.reply.text, reasoning: r.reply.reasoning, calls: r.reply.calls, finish: "stop", id: completionID(req, number), pace: r.pace}
	if len(c.calls) > 0 {
		c.finish = "tool_calls"
	}
	if r.usage != nil {
		c.usage = *r.usage
	} else {
		c.usage = usage{prompt: req.promptTokens(), completion: c.tokens()}
		c.usage.cached, c.usage.written = s.cache.account(req)
	}
	return c
}

// tokens estimates the number of tokens in a completion.
func (c *completion) tokens() int64 {
	chars := utf8.RuneCountInString(c.text) + utf8.RuneCountInString(c.reasoning)
	for _, call := range c.calls {
		chars += utf8.RuneCountInString(call.name) + utf8.RuneCountInString(call.arguments)
	}
	return tokens(chars)
}
