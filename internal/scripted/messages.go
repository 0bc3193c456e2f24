package scripted

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"
)

// messages answers POST /v1/messages, Anthropic's API. It rejects what that API rejects.
func (s *Server) messages(w http.ResponseWriter, r *http.Request) {
	req := &chatRequest{caller: callerOf(r.Header), key: keyOf(r.Header), form: messagesForm{}}
	var doc messagesRequest
	problem := s.readBody(w, r, &doc)
	if problem == nil {
		if mistake := doc.check(r.Header); mistake != "" {
			problem = &apiError{status: http.StatusBadRequest, kind: "invalid_request_error", message: mistake}
		}
	}
	doc.translate(req)
	s.answer(w, r, req, problem)
}

// messagesRequest has the fields of a request that are used here.
type messagesRequest struct {
	Model     string            `json:"model"`
	MaxTokens int64             `json:"max_tokens"`
	System    json.RawMessage   `json:"system"`
	Tools     []json.RawMessage `json:"tools"`
	Messages  []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	} `json:"messages"`
	Stream       bool     `json:"stream"`
	Temperature  *float64 `json:"temperature"`
	OutputConfig struct {
		Effort *string `json:"effort"`
		Format struct {
			Type   string         `json:"type"`
			Schema map[string]any `json:"schema"`
		} `json:"format"`
	} `json:"output_config"`

	ToolChoice json.RawMessage `json:"tool_choice"`
	Thinking   struct {
		Type    string `json:"type"`
		Budget  int64  `json:"budget_tokens"`
		Display string `json:"display"`
	} `json:"thinking"`
	Metadata json.RawMessage `json:"metadata"`
	TopP     json.RawMessage `json:"top_p"`
	TopK     json.RawMessage `json:"top_k"`
	Stop     json.RawMessage `json:"stop_sequences"`
	Tier     json.RawMessage `json:"service_tier"`
	Version  string          `json:"anthropic_version"` // at clouds

	wantVersion string
	system      []messagesBlock
	tools       []messagesTool
	turns       [][]messagesBlock
	extra       string // a field that the API does not have
}

// UnmarshalJSON notes fields that the API does not have, which it rejects.
func (r *messagesRequest) UnmarshalJSON(data []byte) error {
	type plain messagesRequest
	strict := json.NewDecoder(bytes.NewReader(data))
	strict.DisallowUnknownFields()
	err := strict.Decode((*plain)(r))
	if err != nil && strings.Contains(err.Error(), "unknown field") {
		r.extra = err.Error()
		return json.Unmarshal(data, (*plain)(r))
	}
	return err
}

// messagesBlock is a block of content.
type messagesBlock struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	Signature string          `json:"signature"`
	Data      string          `json:"data"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
	Source    struct {
		Type      string `json:"type"`
		MediaType string `json:"media_type"`
		Data      string `json:"data"`
	} `json:"source"`
	CacheControl *struct {
		Type string `json:"type"`
		TTL  string `json:"ttl"`
	} `json:"cache_control"`

	raw []byte // without its breakpoint, which is not part of what is cached
}

// messagesTool is the definition of a tool.
type messagesTool struct {
	Name         string          `json:"name"`
	Description  string          `json:"description"`
	InputSchema  map[string]any  `json:"input_schema"`
	Strict       bool            `json:"strict"`
	CacheControl json.RawMessage `json:"cache_control"`
}

// blocksOf reads content: a text, or a list of blocks.
func blocksOf(raw json.RawMessage) ([]messagesBlock, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return []messagesBlock{{Type: "text", Text: text, raw: raw}}, nil
	}
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, err
	}
	blocks := make([]messagesBlock, len(list))
	for i, item := range list {
		if err := json.Unmarshal(item, &blocks[i]); err != nil {
			return nil, err
		}
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(item, &fields); err != nil {
			return nil, err
		}
		delete(fields, "cache_control")
		blocks[i].raw = encode(fields)
	}
	return blocks, nil
}

// said returns the text of a block that rules search.
func (b messagesBlock) said() string {
	if b.Type != "tool_result" {
		return b.Text
	}
	inner, err := blocksOf(b.Content)
	if err != nil {
		return string(b.Content)
	}
	var out strings.Builder
	for _, i := range inner {
		out.WriteString(i.Text)
	}
	return out.String()
}

// check returns what the API rejects in a request, or "".
func (r *messagesRequest) check(h http.Header) string {
	var err error
	if r.system, err = blocksOf(r.System); err != nil {
		return "system: " + err.Error()
	}
	for i, raw := range r.Tools {
		var t messagesTool
		if err := json.Unmarshal(raw, &t); err != nil {
			return fmt.Sprintf("tools.%d: %v", i, err)
		}
		r.tools = append(r.tools, t)
	}
	for i, m := range r.Messages {
		blocks, err := blocksOf(m.Content)
		if err != nil {
			return fmt.Sprintf("messages.%d.content: %v", i, err)
		}
		r.turns = append(r.turns, blocks)
	}
	for _, check := range []func() string{r.checkFields, r.checkTurns, r.checkThinking, r.checkTools, r.checkMarks} {
		if mistake := check(); mistake != "" {
			return mistake
		}
	}
	if h.Get("Anthropic-Version") == "" {
		return "anthropic-version: header is required"
	}
	return ""
}

func (r *messagesRequest) checkFields() string {
	switch {
	case r.extra != "":
		return r.extra + ": Extra inputs are not permitted"
	case r.Version != r.wantVersion:
		return "anthropic_version: Input should be " + quote(r.wantVersion)
	case r.Model == "":
		return "model: Field required"
	case r.MaxTokens < 1:
		return "max_tokens: Input should be greater than or equal to 1"
	case len(r.Messages) == 0:
		return "messages: at least one message is required"
	case r.Messages[0].Role != "user":
		return "messages: first message must use the \"user\" role"
	case r.Temperature != nil && (*r.Temperature < 0 || *r.Temperature > 1):
		return "temperature: range: 0..1"
	}
	if e := r.OutputConfig.Effort; e != nil && !slices.Contains(messagesEfforts, *e) {
		return "output_config.effort: Input should be '" + strings.Join(messagesEfforts, "', '") + "'"
	}
	if r.OutputConfig.Format.Type == "json_schema" {
		return unenforceable("output_config.format.schema", r.OutputConfig.Format.Schema)
	}
	return ""
}

// checkThinking checks a request with a budget for thinking.
func (r *messagesRequest) checkThinking() string {
	if r.Thinking.Type != "enabled" {
		return ""
	}
	var choice struct {
		Type string `json:"type"`
	}
	_ = json.Unmarshal(r.ToolChoice, &choice) // absent: the model chooses
	switch {
	case r.Thinking.Budget < leastBudget:
		return fmt.Sprintf("thinking.enabled.budget_tokens: Input should be greater than or equal to %d", leastBudget)
	case r.Thinking.Budget >= r.MaxTokens:
		return "`max_tokens` must be greater than `thinking.budget_tokens`"
	case r.Temperature != nil && *r.Temperature != 1:
		return "`temperature` may only be set to 1 when thinking is enabled"
	case choice.Type == "any" || choice.Type == "tool":
		return "Thinking may not be enabled when tool_choice forces tool use."
	}
	first := -1 // message of the model's turn in progress
	for i := len(r.turns) - 1; i >= 0 && (r.Messages[i].Role == "assistant" || r.turns[i][0].Type == "tool_result"); i-- {
		if r.Messages[i].Role == "assistant" {
			first = i
		}
	}
	if first >= 0 && r.turns[first][0].Type != "thinking" && r.turns[first][0].Type != "redacted_thinking" {
		return fmt.Sprintf("messages.%d.content.0.type: Expected `thinking` or `redacted_thinking`, but found `%s`", first, r.turns[first][0].Type)
	}
	return ""
}

// leastBudget is the smallest budget for thinking.
const leastBudget = 1024

var messagesEfforts = []string{"low", "medium", "high", "xhigh", "max"}

// checkTurns checks the blocks of each message, and that each call has its result.
func (r *messagesRequest) checkTurns() string {
	var open []string // calls of the turn before
	all := map[string]bool{}
	for i, blocks := range r.turns {
		at := fmt.Sprintf("messages.%d", i)
		role := r.Messages[i].Role
		switch {
		case role != "user" && role != "assistant":
			return at + ".role: Input should be 'user' or 'assistant'"
		case i > 0 && role == r.Messages[i-1].Role:
			return at + ": roles must alternate"
		case len(blocks) == 0:
			return at + ": all messages must have non-empty content"
		}
		var calls []string
		for j, b := range blocks {
			if mistake := b.check(role, j, blocks, &open, &calls); mistake != "" {
				return fmt.Sprintf("%s.content.%d: %s", at, j, mistake)
			}
		}
		if len(open) > 0 {
			return at + ": `tool_use` ids were found without `tool_result` blocks immediately after: " + strings.Join(open, ", ")
		}
		for _, id := range calls {
			if all[id] {
				return at + ": `tool_use` ids must be unique"
			}
			all[id] = true
		}
		open = calls
	}
	if len(open) > 0 {
		return "messages: `tool_use` ids were found without `tool_result` blocks: " + strings.Join(open, ", ")
	}
	return ""
}

// check checks one block. Results remove their calls from open; calls are added to calls.
func (b messagesBlock) check(role string, at int, all []messagesBlock, open, calls *[]string) string {
	switch b.Type {
	case "text":
		if strings.TrimSpace(b.Text) == "" {
			return "text content blocks must contain non-whitespace text"
		}
	case "tool_result":
		n := slices.Index(*open, b.ToolUseID)
		if n < 0 || role != "user" {
			return "unexpected `tool_use_id` found in `tool_result` blocks: " + b.ToolUseID
		}
		if at > 0 && all[at-1].Type != "tool_result" {
			return "`tool_result` blocks must come first in the message"
		}
		*open = slices.Delete(*open, n, n+1)
		return b.checkResult()
	case "image":
		if role != "user" || !b.validPicture() {
			return "image.source: a picture in base64 and its media type are required, in a message of the user"
		}
	case "tool_use":
		if role != "assistant" || !b.validCall() {
			return "tool_use: id, name and an object as input are required"
		}
		return b.addTo(calls)
	case "thinking":
		if role != "assistant" || b.Signature != signatureOf(b.Thinking) {
			return "Invalid `signature` in `thinking` block"
		}
		if at > 0 && !slices.Contains([]string{"thinking", "redacted_thinking"}, all[at-1].Type) {
			return "`thinking` blocks must come first in the message"
		}
	case "redacted_thinking":
		if role != "assistant" || b.Data == "" {
			return "redacted_thinking: data is required"
		}
	default:
		return "type: unexpected value " + quote(b.Type)
	}
	return ""
}

// addTo adds a call to those of its message.
func (b *messagesBlock) addTo(calls *[]string) string {
	if slices.Contains(*calls, b.ID) {
		return "`tool_use` ids must be unique"
	}
	*calls = append(*calls, b.ID)
	return ""
}

// validCall reports whether a block is a complete call of a tool.
func (b *messagesBlock) validCall() bool {
	var input map[string]any
	return b.ID != "" && !notIDCharacter(b.ID) && b.Name != "" && json.Unmarshal(b.Input, &input) == nil && input != nil
}

// checkResult checks what a tool's result contains.
func (b messagesBlock) checkResult() string {
	inner, err := blocksOf(b.Content)
	if err != nil {
		return "content: " + err.Error()
	}
	for _, i := range inner {
		switch {
		case i.Type == "text":
		case i.Type != "image":
			return "content: unexpected value " + quote(i.Type)
		case !i.validPicture():
			return "content: image.source: a picture in base64 and its media type are required"
		}
	}
	return ""
}

func (b messagesBlock) validPicture() bool {
	return b.Source.Type == "base64" && validPicture("data:"+b.Source.MediaType+";base64,"+b.Source.Data)
}

// pictures returns the number of pictures in a block.
func (b messagesBlock) pictures() int {
	if b.Type != "tool_result" {
		return map[bool]int{true: 1}[b.Type == "image"]
	}
	n := 0
	inner, _ := blocksOf(b.Content) // checked before
	for _, i := range inner {
		n += i.pictures()
	}
	return n
}

func notIDCharacter(id string) bool {
	return strings.ContainsFunc(id, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-'
	})
}

func (r *messagesRequest) checkTools() string {
	for i, t := range r.tools {
		at := fmt.Sprintf("tools.%d", i)
		if t.Name == "" || t.InputSchema["type"] != "object" {
			return at + ": name and an input_schema of type object are required"
		}
		if t.Strict {
			if mistake := unenforceable(at+".input_schema", t.InputSchema); mistake != "" {
				return mistake
			}
		}
	}
	return ""
}

// unenforceable returns what the API rejects in a schema that it enforces, or "".
func unenforceable(at string, schema any) string {
	switch s := schema.(type) {
	case []any:
		return firstOf(slices.Values(s), func(e any) string { return unenforceable(at, e) })
	case map[string]any:
		if s["type"] == "object" && s["additionalProperties"] != false {
			return at + ": For 'object' type, 'additionalProperties' must be explicitly set to false"
		}
		return firstOf(maps.Keys(s), func(k string) string {
			switch named, ok := s[k].(map[string]any); {
			case slices.Contains(rejectedKeywords, k):
				return fmt.Sprintf("%s: For '%v' type, property '%s' is not supported", at, s["type"], k)
			case ok && k == "properties": // whose keys are names
				return firstOf(maps.Keys(named), func(name string) string { return unenforceable(at+"."+name, named[name]) })
			}
			return unenforceable(at, s[k])
		})
	}
	return ""
}

// firstOf returns the first mistake.
func firstOf[T any](all iter.Seq[T], check func(T) string) string {
	for e := range all {
		if mistake := check(e); mistake != "" {
			return mistake
		}
	}
	return ""
}

var rejectedKeywords = []string{
	"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "maxItems", "uniqueItems",
	"minProperties", "maxProperties",
}

// maxMarks is the number of breakpoints that a request may have.
const maxMarks = 4

func (r *messagesRequest) checkMarks() string {
	n := 0
	for _, t := range r.tools {
		if len(t.CacheControl) > 0 {
			n++
		}
	}
	for _, blocks := range append([][]messagesBlock{r.system}, r.turns...) {
		for _, b := range blocks {
			if b.CacheControl == nil {
				continue
			}
			if n++; b.CacheControl.Type != "ephemeral" || b.Type == "thinking" || b.Type == "redacted_thinking" {
				return "cache_control: must be ephemeral, and not in a thinking block"
			}
		}
	}
	if n > maxMarks {
		return fmt.Sprintf("A maximum of %d blocks with cache_control may be provided. Found %d.", maxMarks, n)
	}
	return ""
}

// translate fills in what rules match, and what the cache may hold.
func (r *messagesRequest) translate(req *chatRequest) {
	req.Model, req.Stream, req.Temperature = r.Model, r.Stream, r.Temperature
	req.thinks, req.budgeted = r.OutputConfig.Effort != nil, r.Thinking.Type == "enabled"
	if r.OutputConfig.Format.Type == "json_schema" {
		req.ResponseFormat.JSONSchema.Name = "answer" // the API has no names
	}
	for _, t := range r.tools {
		mark := len(t.CacheControl) > 0
		t.CacheControl = nil
		raw := encode(t)
		req.Tools = append(req.Tools, chatTool{strict: t.Strict, raw: raw})
		req.prefix = append(req.prefix, segment{text: raw, chars: len(raw), mark: mark})
	}
	for i, blocks := range append([][]messagesBlock{r.system}, r.turns...) {
		for _, b := range blocks {
			said := b.said()
			req.pictures += b.pictures()
			req.Messages = append(req.Messages, chatMessage{Content: content{said}})
			chars := utf8.RuneCountInString(said) + utf8.RuneCountInString(b.Thinking) + len(b.Input) + b.pictures()*pictureChars
			req.prefix = append(req.prefix, segment{text: append([]byte{byte(min(i, 255))}, b.raw...), chars: chars, mark: b.CacheControl != nil})
		}
	}
}

// signatureOf signs what the model thought, so that a changed block is found.
func signatureOf(thinking string) string {
	sum := sha256.Sum256([]byte("scripted thinking: " + thinking))
	return hex.EncodeToString(sum[:])
}

// messagesForm is the JSON of Anthropic's API.
type messagesForm struct{}

var messagesStop = map[string]string{"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens"}

// messagesErrors are the types of errors by their status.
var messagesErrors = map[int]string{
	http.StatusBadRequest: "invalid_request_error", http.StatusUnauthorized: "authentication_error", http.StatusPaymentRequired: "billing_error",
	http.StatusForbidden: "permission_error", http.StatusNotFound: "not_found_error", http.StatusRequestEntityTooLarge: "request_too_large",
	http.StatusTooManyRequests: "rate_limit_error", http.StatusGatewayTimeout: "timeout_error", statusOverloaded: "overloaded_error",
}

// statusOverloaded is Anthropic's own status.
const statusOverloaded = 529

func (messagesForm) problem(e apiError) []byte {
	kind, known := messagesErrors[e.status]
	if !known {
		kind = "api_error"
	}
	message := e.message
	switch {
	case e.code == "no_rule" || e.kind == "insufficient_quota":
		message = e.code + ": " + message
	case e.code != "" && e.kind == e.code: // by the scenario
		kind = e.code
	}
	return encode(map[string]any{"type": "error", "error": map[string]any{"type": kind, "message": message}})
}

func (messagesForm) usage(u usage) map[string]any {
	return map[string]any{
		"input_tokens": u.prompt - u.cached - u.written, "cache_read_input_tokens": u.cached, "cache_creation_input_tokens": u.written,
		"output_tokens": u.completion,
	}
}

// content returns the blocks of a completion.
func (messagesForm) content(c *completion) []map[string]any {
	blocks := []map[string]any{}
	if c.reasoning != "" {
		blocks = append(blocks, map[string]any{"type": "thinking", "thinking": c.reasoning, "signature": signatureOf(c.reasoning)})
	}
	if c.text != "" || len(c.calls) == 0 {
		blocks = append(blocks, map[string]any{"type": "text", "text": c.text})
	}
	for i, call := range c.calls {
		blocks = append(blocks, map[string]any{"type": "tool_use", "id": "toolu_" + c.callID(i), "name": call.name, "input": json.RawMessage(call.arguments)})
	}
	return blocks
}

func (f messagesForm) message(c *completion, content any, stop any, u usage) map[string]any {
	return map[string]any{
		"id": "msg_" + c.id, "type": "message", "role": "assistant", "model": c.req.Model, "content": content,
		"stop_reason": stop, "stop_sequence": nil, "usage": f.usage(u),
	}
}

func (f messagesForm) document(c *completion) []byte {
	blocks := f.content(c)
	for _, b := range blocks {
		if raw, ok := b["input"].(json.RawMessage); ok && !json.Valid(raw) { // a scenario may break it
			b["input"] = string(raw)
		}
	}
	return encode(f.message(c, blocks, messagesStop[c.finish], c.usage))
}

// named frames one server-sent event with its name.
func named(v map[string]any) []byte {
	return append(fmt.Appendf(nil, "event: %s\n", v["type"]), event(v)...)
}

func (messagesForm) started(c *completion) usage {
	u := c.usage
	u.completion = min(u.completion, 1)
	return u
}

func (f messagesForm) start(c *completion) []byte {
	return named(map[string]any{"type": "message_start", "message": f.message(c, []any{}, nil, f.started(c))})
}

func (f messagesForm) opening(c *completion) []byte {
	return slices.Concat(f.start(c),
		named(map[string]any{"type": "content_block_start", "index": 0, "content_block": map[string]any{"type": "text", "text": ""}}),
	)
}

func (messagesForm) piece(_ *completion, text string) []byte {
	return named(map[string]any{"type": "content_block_delta", "index": 0, "delta": map[string]any{"type": "text_delta", "text": text}})
}

func (messagesForm) final(*completion) []byte { return named(map[string]any{"type": "message_stop"}) }

func (f messagesForm) events(c *completion) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		if !yield(f.start(c)) || !yield(named(map[string]any{"type": "ping"})) {
			return
		}
		for i, b := range f.content(c) {
			for e := range blockEvents(i, b) {
				if !yield(e) {
					return
				}
			}
		}
		yield(named(map[string]any{
			"type": "message_delta", "delta": map[string]any{"stop_reason": messagesStop[c.finish], "stop_sequence": nil}, "usage": f.usage(c.usage),
		}))
	}
}

// blockEvents sends one block: its frame first, then its text in pieces.
func blockEvents(i int, b map[string]any) iter.Seq[[]byte] {
	start, text, delta, field := map[string]any{"type": b["type"]}, "", "text_delta", "text"
	switch b["type"] {
	case "thinking":
		start["thinking"], start["signature"] = "", ""
		text, delta, field = b["thinking"].(string), "thinking_delta", "thinking"
	case "tool_use":
		start["id"], start["name"], start["input"] = b["id"], b["name"], map[string]any{}
		text, delta, field = string(b["input"].(json.RawMessage)), "input_json_delta", "partial_json"
	default:
		start["text"] = ""
		text, _ = b["text"].(string)
	}
	return func(yield func([]byte) bool) {
		piece := func(kind, field, text string) bool {
			return yield(named(map[string]any{"type": "content_block_delta", "index": i, "delta": map[string]any{"type": kind, field: text}}))
		}
		if !yield(named(map[string]any{"type": "content_block_start", "index": i, "content_block": start})) {
			return
		}
		for part := range chunks(text) {
			if !piece(delta, field, part) {
				return
			}
		}
		if s, ok := b["signature"].(string); ok && !piece("signature_delta", "signature", s) {
			return
		}
		yield(named(map[string]any{"type": "content_block_stop", "index": i}))
	}
}
