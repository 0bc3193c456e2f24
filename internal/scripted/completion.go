package scripted

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"iter"
	"strconv"
	"time"
	"unicode/utf8"
)

// completion is a response that can be sent on any wire, streamed or as one document.
type completion struct {
	req       *chatRequest
	id        string
	text      string
	reasoning string
	calls     []toolCall
	finish    string // stop, tool_calls or length
	usage     usage
	sequence  int           // number of the next event, on the wires that number them
	pace      time.Duration // between the pieces of a stream
}

// form is the JSON of one wire.
type form interface {
	// document returns a completion as a single document.
	document(c *completion) []byte
	// events returns a completion as server-sent events, without the final ones.
	events(c *completion) iter.Seq[[]byte]
	// final returns the events that end a stream.
	final(c *completion) []byte
	// started returns the usage that the first event of a stream reports.
	started(c *completion) usage
	// opening returns the events before the text of a completion, and piece those of a part of it.
	opening(c *completion) []byte
	piece(c *completion, text string) []byte
	// problem returns the document of an error.
	problem(e apiError) []byte
}

// chatForm is that of OpenAI's chat completions.
type chatForm struct{}

func (chatForm) final(*completion) []byte { return doneEvent }

func (chatForm) started(*completion) usage { return usage{} }

func (chatForm) opening(c *completion) []byte { return c.delta(wireMessage{Role: "assistant"}, nil) }

func (chatForm) piece(c *completion, text string) []byte {
	return c.delta(wireMessage{Content: &text}, nil)
}

func (chatForm) problem(e apiError) []byte {
	detail := map[string]any{"message": e.message, "type": e.kind, "param": nil, "code": nil}
	if e.code != "" {
		detail["code"] = e.code
	}
	return encode(map[string]any{"error": detail})
}

// completionID returns the same ID for the same request, so a repeated request gets the same tool
// call IDs.
func completionID(req *chatRequest, rule int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s rule %d", req.caller, rule))
	return hex.EncodeToString(sum[:10])
}

// The wire forms, as far as clients read them.
type (
	wireCompletion struct {
		ID      string       `json:"id"`
		Object  string       `json:"object"`
		Created int64        `json:"created"`
		Model   string       `json:"model"`
		Choices []wireChoice `json:"choices"`
		Usage   *wireUsage   `json:"usage,omitempty"`
	}
	wireChoice struct {
		Index        int          `json:"index"`
		Message      *wireMessage `json:"message,omitempty"`
		Delta        *wireMessage `json:"delta,omitempty"`
		FinishReason *string      `json:"finish_reason"`
	}
	wireMessage struct {
		Role      string     `json:"role,omitempty"`
		Content   *string    `json:"content,omitempty"`
		Reasoning string     `json:"reasoning,omitempty"` // OpenRouter's, as the next one
		Details   []detail   `json:"reasoning_details,omitempty"`
		ToolCalls []wireCall `json:"tool_calls,omitempty"`
	}
	wireCall struct {
		Index    *int         `json:"index,omitempty"`
		ID       string       `json:"id,omitempty"`
		Type     string       `json:"type,omitempty"`
		Function wireFunction `json:"function"`
	}
	wireFunction struct {
		Name      string `json:"name,omitempty"`
		Arguments string `json:"arguments"`
	}
	detail struct {
		Type      string `json:"type"`
		Text      string `json:"text,omitempty"`
		Signature string `json:"signature,omitempty"`
		Format    string `json:"format"`
		Index     int    `json:"index"`
	}
	wireUsage struct {
		PromptTokens     int64 `json:"prompt_tokens"`
		CompletionTokens int64 `json:"completion_tokens"`
		TotalTokens      int64 `json:"total_tokens"`

		PromptTokensDetails *wirePromptTokens `json:"prompt_tokens_details,omitempty"`
	}
	wirePromptTokens struct {
		CachedTokens int64 `json:"cached_tokens"`
	}
)

func (u usage) wire() *wireUsage {
	w := &wireUsage{PromptTokens: u.prompt, CompletionTokens: u.completion, TotalTokens: u.prompt + u.completion}
	if u.cached > 0 {
		w.PromptTokensDetails = &wirePromptTokens{CachedTokens: u.cached}
	}
	return w
}

func (chatForm) document(c *completion) []byte {
	message := &wireMessage{Role: "assistant", Reasoning: c.reasoning}
	if c.reasoning != "" {
		message.Details = []detail{{Type: reasoningText, Text: c.reasoning, Signature: chatSignature(c.req.Model, c.reasoning), Format: reasoningFormat}}
	}
	if c.text != "" || len(c.calls) == 0 {
		message.Content = &c.text
	}
	for i, call := range c.calls {
		message.ToolCalls = append(message.ToolCalls, wireCall{
			ID: c.callID(i), Type: "function", Function: wireFunction{Name: call.name, Arguments: call.arguments},
		})
	}
	return encode(wireCompletion{
		ID: "chatcmpl-" + c.id, Object: "chat.completion", Created: time.Now().Unix(), Model: c.req.Model,
		Choices: []wireChoice{{Message: message, FinishReason: &c.finish}}, Usage: c.usage.wire(),
	})
}

func (chatForm) events(c *completion) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		empty := ""
		if !yield(c.delta(wireMessage{Role: "assistant", Content: &empty}, nil)) {
			return
		}
		for part := range chunks(c.reasoning) {
			if !yield(c.delta(wireMessage{Reasoning: part, Details: []detail{{Type: reasoningText, Text: part, Format: reasoningFormat}}}, nil)) {
				return
			}
		}
		if c.reasoning != "" && !yield(c.delta(wireMessage{Details: []detail{{Type: reasoningText, Signature: chatSignature(c.req.Model, c.reasoning), Format: reasoningFormat}}}, nil)) {
			return
		}
		for part := range chunks(c.text) {
			if !yield(c.delta(wireMessage{Content: &part}, nil)) {
				return
			}
		}
		for i := range c.calls {
			if !c.callEvents(i, yield) {
				return
			}
		}
		if !yield(c.delta(wireMessage{}, &c.finish)) {
			return
		}
		if c.req.StreamOptions.IncludeUsage {
			yield(event(c.chunk([]wireChoice{}, c.usage.wire())))
		}
	}
}

// The type and the format of what the model thought.
const (
	reasoningText   = "reasoning.text"
	reasoningFormat = "anthropic-claude-v1"
)

// chatSignature signs what a model thought, so that changed reasoning, and that of another model, is
// found.
func chatSignature(model, reasoning string) string { return signatureOf(model + ": " + reasoning) }

// callEvents sends a tool call as providers do: the name first, the arguments in pieces.
func (c *completion) callEvents(i int, yield func([]byte) bool) bool {
	call := c.calls[i]
	if !yield(c.delta(wireMessage{ToolCalls: []wireCall{{Index: &i, ID: c.callID(i), Type: "function", Function: wireFunction{Name: call.name}}}}, nil)) {
		return false
	}
	for part := range chunks(call.arguments) {
		if !yield(c.delta(wireMessage{ToolCalls: []wireCall{{Index: &i, Function: wireFunction{Arguments: part}}}}, nil)) {
			return false
		}
	}
	return true
}

func (c *completion) delta(m wireMessage, finish *string) []byte {
	return event(c.chunk([]wireChoice{{Delta: &m, FinishReason: finish}}, nil))
}

func (c *completion) chunk(choices []wireChoice, u *wireUsage) wireCompletion {
	return wireCompletion{ID: "chatcmpl-" + c.id, Object: "chat.completion.chunk", Created: time.Now().Unix(), Model: c.req.Model, Choices: choices, Usage: u}
}

func (c *completion) callID(i int) string { return "call_" + c.id + "_" + strconv.Itoa(i) }

// Sizes of the pieces in which a text is streamed: a short text has a few, and none is so large
// that a client would not see the text grow.
const (
	fewPieces     = 4
	smallestPiece = 16
	largestPiece  = 64 << 10
)

// chunks splits a text between characters.
func chunks(s string) iter.Seq[string] {
	size := min(max(len(s)/fewPieces+1, smallestPiece), largestPiece)
	return func(yield func(string) bool) {
		for len(s) > 0 {
			n := min(size, len(s))
			for n < len(s) && !utf8.RuneStart(s[n]) {
				n++
			}
			if !yield(s[:n]) {
				return
			}
			s = s[n:]
		}
	}
}

// event frames one server-sent event.
func event(v any) []byte {
	return append(append([]byte("data: "), encode(v)...), "\n\n"...)
}

// encode writes JSON of the types above, which cannot fail.
func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("scripted: " + err.Error()) //nolint:forbidigo // a bug in the types above
	}
	return b
}

func itoa(n int) string     { return strconv.Itoa(n) }
func quote(s string) string { return strconv.Quote(firstLine(s)) }
