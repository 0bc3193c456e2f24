package wire

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/openai/openai-go/v3"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/model"
)

// chatCollector assembles a response and stops it if it exceeds a limit.
type chatCollector struct {
	limit, size int64
	delta       func(model.DeltaKind, string) // gets the pieces of a stream

	asked         string          // name of the model in the request
	details       []*detailPieces // what the model thought
	text, refusal strings.Builder
	calls         []*callBuilder
	byIndex       map[int64]*callBuilder
	finish, model string
	usage         contract.Usage
}

type callBuilder struct {
	id, name  string
	arguments strings.Builder
}

// stream collects server-sent events.
func (c *chatCollector) stream(r *http.Response) error {
	return readEvents(r, reportedBody, func(chunk *openai.ChatCompletionChunk) (bool, error) {
		return false, c.add(chunk) // a last event has the usage
	})
}

// reportedBody returns the error that a body describes.
func reportedBody(body []byte) error { return &ReportedError{Body: body} }

func (c *chatCollector) add(chunk *openai.ChatCompletionChunk) error {
	if chunk.Model != "" {
		c.model = chunk.Model
	}
	if chunk.JSON.Usage.Valid() {
		c.use(chunk.Usage)
	}
	for i := range chunk.Choices {
		choice := &chunk.Choices[i]
		if choice.Index != 0 {
			continue // only one choice was requested
		}
		if choice.FinishReason != "" {
			if err := c.end(choice.FinishReason, choice.RawJSON()); err != nil {
				return err
			}
		}
		thought := inParts(&choice.Delta.Content, choice.Delta.JSON.Content.Raw())
		c.text.WriteString(choice.Delta.Content)
		c.refusal.WriteString(choice.Delta.Refusal)
		c.size += int64(len(choice.Delta.Content) + len(choice.Delta.Refusal) + thought)
		c.addDetails(choice.Delta.JSON.ExtraFields[reasoningDetails].Raw(), true)
		c.show(&choice.Delta, thought > 0)
		for j := range choice.Delta.ToolCalls {
			c.addCall(&choice.Delta.ToolCalls[j])
		}
	}
	return c.checkSize()
}

// show passes on what a piece adds to the text, and that the model thinks: the providers that stream
// its thoughts do so in fields of their own.
func (c *chatCollector) show(d *openai.ChatCompletionChunkChoiceDelta, thinks bool) {
	if text := d.Content + d.Refusal; text != "" {
		c.delta(model.DeltaText, text)
		return
	}
	if thinks {
		c.delta(model.DeltaReasoning, "")
		return
	}
	for _, name := range []string{"reasoning_content", "reasoning", reasoningDetails} {
		if raw := d.JSON.ExtraFields[name].Raw(); raw != "" && raw != "null" && raw != `""` && raw != "[]" {
			c.delta(model.DeltaReasoning, "")
			return
		}
	}
}

// inParts reads a content that a server sends as a list of parts instead of a text, as Mistral's do for
// models that reason: it sets the text, and returns the size of what is not text.
func inParts(text *string, raw string) (other int) {
	if !strings.HasPrefix(strings.TrimSpace(raw), "[") {
		return 0
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if json.Unmarshal([]byte(raw), &parts) != nil {
		return 0 // not that form: the client takes it as the text
	}
	var b strings.Builder
	for _, p := range parts {
		if p.Type == "" || p.Type == "text" || p.Type == "output_text" {
			b.WriteString(p.Text)
		}
	}
	*text = b.String()
	return len(raw) - b.Len()
}

// addCall adds a piece of a tool call. Pieces with the same index belong together, but a new id
// with an old index is a new call, because some providers number all calls 0.
func (c *chatCollector) addCall(d *openai.ChatCompletionChunkChoiceDeltaToolCall) {
	b := c.byIndex[d.Index]
	if b == nil || (d.ID != "" && b.id != "" && d.ID != b.id) {
		b = &callBuilder{}
		if c.byIndex == nil {
			c.byIndex = map[int64]*callBuilder{}
		}
		c.byIndex[d.Index] = b
		c.calls = append(c.calls, b)
		c.size += callOverhead
	}
	if d.ID != "" {
		b.id = d.ID
	}
	if b.name == "" && d.Function.Name != "" {
		c.delta(model.DeltaTool, d.Function.Name)
	}
	b.name = cmp.Or(b.name, d.Function.Name)
	if d.Function.Arguments != "" {
		c.delta(model.DeltaArguments, d.Function.Arguments)
	}
	b.arguments.WriteString(d.Function.Arguments)
	c.size += int64(len(d.ID) + len(d.Function.Name) + len(d.Function.Arguments))
}

// callOverhead is the size that counts for an empty tool call, so that endless empty calls also
// reach the limit.
const callOverhead = 64

func (c *chatCollector) checkSize() error {
	if c.size > c.limit {
		return ErrTooLarge
	}
	return nil
}

// complete collects a response in one piece.
func (c *chatCollector) complete(body io.Reader) error {
	data, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	var answer openai.ChatCompletion
	if err := unmarshal(data, &answer); err != nil {
		return err
	}
	if len(answer.Choices) == 0 {
		if hasError(data) {
			return &ReportedError{Body: data}
		}
		return &MalformedError{errors.New("it contains no choices")}
	}
	c.model = answer.Model
	if answer.JSON.Usage.Valid() {
		c.use(answer.Usage)
	}
	c.take(&answer.Choices[0])
	if err := c.end(answer.Choices[0].FinishReason, answer.Choices[0].RawJSON()); err != nil {
		return err
	}
	return c.checkSize()
}

// chatFinish has the reasons why servers end a response, in lower case. Any other is a normal end.
var chatFinish = map[string]string{
	"": "", "tool_calls": "tool_calls", "function_call": "tool_calls", "tool_use": "tool_calls",
	"length": "length", "model_length": "length", "max_tokens": "length", "max_output_tokens": "length",
	"content_filter": "content_filter", "safety": "content_filter", "sensitive": "content_filter", "refusal": "content_filter",
	"recitation": "content_filter", "blocklist": "content_filter", "prohibited_content": "content_filter",
	"malformed_function_call": FinishUnusable,
	"error":                   chatFailed, "network_error": chatFailed, "insufficient_system_resource": chatFailed,
}

// chatFailed marks a response that its server could not complete.
const chatFailed = "failed"

// end records why a choice ended. Some servers report an error in the choice that it cut short.
func (c *chatCollector) end(reason, choice string) error {
	finish, known := chatFinish[strings.ToLower(reason)]
	if !known {
		finish = "stop"
	}
	switch {
	case hasError([]byte(choice)):
		return &ReportedError{Body: []byte(choice)}
	case finish == chatFailed:
		return &ReportedError{Status: http.StatusServiceUnavailable}
	}
	c.finish = finish
	return nil
}

func (c *chatCollector) take(choice *openai.ChatCompletionChoice) {
	c.addDetails(choice.Message.JSON.ExtraFields[reasoningDetails].Raw(), false)
	thought := inParts(&choice.Message.Content, choice.Message.JSON.Content.Raw())
	c.text.WriteString(choice.Message.Content)
	c.refusal.WriteString(choice.Message.Refusal)
	c.size += int64(len(choice.Message.Content) + len(choice.Message.Refusal) + thought)
	for _, tc := range choice.Message.ToolCalls {
		b := &callBuilder{id: tc.ID, name: tc.Function.Name}
		b.arguments.WriteString(tc.Function.Arguments)
		c.calls = append(c.calls, b)
		c.size += callOverhead + int64(len(tc.ID)+len(tc.Function.Name)+len(tc.Function.Arguments))
	}
}

func (c *chatCollector) use(u openai.CompletionUsage) {
	// Some servers leave what the model thought out of all but the total.
	thought := model.PlausibleTokens(u.TotalTokens) - model.PlausibleTokens(u.PromptTokens)
	c.usage.PromptTokens, c.usage.CompletionTokens = u.PromptTokens, max(u.CompletionTokens, thought)
	c.usage.CachedTokens, c.usage.CacheWriteTokens = u.PromptTokensDetails.CachedTokens, u.PromptTokensDetails.CacheWriteTokens
	c.usage.ReasoningTokens = u.CompletionTokensDetails.ReasoningTokens
}

// response returns the collected response, which may be incomplete.
func (c *chatCollector) response() model.Response {
	r := model.Response{Text: c.text.String(), FinishReason: c.finish, Usage: c.usage, Model: c.model}
	if c.refusal.Len() > 0 {
		r.FinishReason = "content_filter"
		r.Text += c.refusal.String()
	}
	for _, b := range c.calls {
		r.ToolCalls = append(r.ToolCalls, model.ToolCall{ID: b.id, Name: b.name, Arguments: b.arguments.String()})
	}
	r.Reasoning = c.reasoning()
	return r
}
