package scripted

import (
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"time"
)

// geminiForm is the JSON of Google's Gemini API.
type geminiForm struct {
	thoughts bool // summaries of what was thought are wanted
}

// geminiErrors are the names of errors by their status.
var geminiErrors = map[int]string{
	http.StatusBadRequest: "INVALID_ARGUMENT", http.StatusUnauthorized: "UNAUTHENTICATED", http.StatusForbidden: "PERMISSION_DENIED",
	http.StatusNotFound: "NOT_FOUND", http.StatusConflict: "ABORTED", http.StatusRequestEntityTooLarge: "INVALID_ARGUMENT",
	http.StatusTooManyRequests: "RESOURCE_EXHAUSTED", http.StatusInternalServerError: "INTERNAL", http.StatusNotImplemented: "UNIMPLEMENTED",
	http.StatusServiceUnavailable: "UNAVAILABLE", http.StatusGatewayTimeout: "DEADLINE_EXCEEDED",
}

func (geminiForm) problem(e apiError) []byte {
	name, known := geminiErrors[e.status]
	if !known {
		name = "UNKNOWN"
	}
	message := e.message
	details := []map[string]any{}
	detail := func(kind string, fields map[string]any) {
		fields["@type"] = "type.googleapis.com/google.rpc." + kind
		details = append(details, fields)
	}
	switch {
	case e.status == http.StatusTooManyRequests:
		message = "You exceeded your current quota, please check your plan and billing details. " + message
		quota := "GenerateRequestsPerMinutePerProjectPerModel"
		if e.kind == "insufficient_quota" {
			quota = "GenerateRequestsPerDayPerProjectPerModel"
		}
		detail("QuotaFailure", map[string]any{"violations": []any{map[string]any{"quotaId": quota}}})
	case e.code == "context_length_exceeded":
		message = "The input token count exceeds the maximum number of tokens allowed: " + message
	case e.code != "":
		detail("ErrorInfo", map[string]any{"reason": e.code, "domain": "googleapis.com"})
	}
	if e.retryAfter > 0 {
		detail("RetryInfo", map[string]any{"retryDelay": protoDuration(e.retryAfter)})
	}
	return encode(map[string]any{"error": map[string]any{"code": e.status, "message": message, "status": name, "details": details}})
}

// protoDuration writes a duration as Google's APIs do: 0.25s.
func protoDuration(d time.Duration) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.9f", d.Seconds()), "0"), ".") + "s"
}

func (geminiForm) started(c *completion) usage {
	u := c.usage
	u.completion = 0
	return u
}

// usage returns the counts of a response. What was thought is not among the candidates' tokens.
func (geminiForm) usage(c *completion, u usage) map[string]any {
	thoughts := min(tokens(len([]rune(c.reasoning))), u.completion)
	doc := map[string]any{"promptTokenCount": u.prompt, "totalTokenCount": u.prompt + u.completion}
	for name, n := range map[string]int64{"cachedContentTokenCount": u.cached, "thoughtsTokenCount": thoughts, "candidatesTokenCount": u.completion - thoughts} {
		if n > 0 {
			doc[name] = n
		}
	}
	return doc
}

// parts returns the content of a completion. A call whose arguments are no object cannot be expressed;
// it ends the response, as in the real API.
func (f geminiForm) parts(c *completion) (parts []geminiPart, finish string) {
	finish = "STOP"
	if c.finish == "length" {
		finish = "MAX_TOKENS"
	}
	if c.reasoning != "" && f.thoughts {
		parts = append(parts, geminiPart{Text: &c.reasoning, Thought: true})
	}
	if c.text != "" || len(c.calls) == 0 {
		p := geminiPart{Text: &c.text}
		if len(c.calls) == 0 && c.reasoning != "" {
			p.ThoughtSignature = geminiSignature(c.req.Model, nil)
		}
		parts = append(parts, p)
	}
	for i, call := range c.calls {
		if !isObject(json.RawMessage(call.arguments)) {
			if finish == "STOP" {
				return nil, "MALFORMED_FUNCTION_CALL"
			}
			break
		}
		p := geminiPart{FunctionCall: &geminiCall{Name: call.name, Args: json.RawMessage(call.arguments)}}
		if !beforeGemini3(c.req.Model) {
			p.FunctionCall.ID = c.callID(i)
		}
		if i == 0 && (c.reasoning != "" || !beforeGemini3(c.req.Model)) {
			p.ThoughtSignature = geminiSignature(c.req.Model, p.FunctionCall)
		}
		parts = append(parts, p)
	}
	return parts, finish
}

func (f geminiForm) chunk(c *completion, u usage, finish string, parts ...geminiPart) map[string]any {
	content := map[string]any{"role": "model"}
	if len(parts) > 0 {
		content["parts"] = parts
	}
	candidate := map[string]any{"content": content, "index": 0}
	if finish != "" {
		candidate["finishReason"] = finish
	}
	return map[string]any{
		"candidates": []any{candidate}, "usageMetadata": f.usage(c, u), "modelVersion": c.req.Model, "responseId": c.id,
	}
}

func (f geminiForm) document(c *completion) []byte {
	parts, finish := f.parts(c)
	return encode(f.chunk(c, c.usage, finish, parts...))
}

func (f geminiForm) opening(c *completion) []byte { return f.piece(c, "") }

func (f geminiForm) piece(c *completion, text string) []byte {
	return event(f.chunk(c, f.started(c), "", geminiPart{Text: &text}))
}

func (f geminiForm) final(c *completion) []byte {
	_, finish := f.parts(c)
	return event(f.chunk(c, c.usage, finish))
}

func (f geminiForm) events(c *completion) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		parts, _ := f.parts(c)
		for _, p := range parts {
			if p.Text == nil {
				if !yield(event(f.chunk(c, f.started(c), "", p))) {
					return
				}
				continue
			}
			for piece := range chunks(*p.Text) {
				if !yield(event(f.chunk(c, f.started(c), "", geminiPart{Text: &piece, Thought: p.Thought}))) {
					return
				}
			}
			empty := ""
			if p.ThoughtSignature != "" && !yield(event(f.chunk(c, f.started(c), "", geminiPart{Text: &empty, ThoughtSignature: p.ThoughtSignature}))) {
				return
			}
		}
	}
}

// geminiModels lists the models as the API does.
func (s *Server) geminiModels(w http.ResponseWriter, r *http.Request) {
	if problem := keyless(r); problem != nil {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(problem.status)
		_, _ = w.Write(geminiForm{}.problem(*problem))
		return
	}
	list := []map[string]any{}
	for _, name := range s.modelNames() {
		list = append(list, map[string]any{"name": "models/" + name, "supportedGenerationMethods": []string{"generateContent", "embedContent"}})
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(encode(map[string]any{"models": list}))
}
