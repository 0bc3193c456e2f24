package wire

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/openai/openai-go/v3/packages/ssestream"
	"google.golang.org/genai"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/model"
)

// geminiChunk is a response, or a part of a streamed one.
type geminiChunk struct {
	Candidates []struct {
		Index        int64              `json:"index"`
		Content      geminiContent      `json:"content"`
		FinishReason genai.FinishReason `json:"finishReason"`
	} `json:"candidates"`
	PromptFeedback struct {
		BlockReason genai.BlockedReason `json:"blockReason"`
	} `json:"promptFeedback"`
	Usage *struct {
		Prompt     int64 `json:"promptTokenCount"`
		Cached     int64 `json:"cachedContentTokenCount"`
		Candidates int64 `json:"candidatesTokenCount"`
		Thoughts   int64 `json:"thoughtsTokenCount"`
		ToolUse    int64 `json:"toolUsePromptTokenCount"`
	} `json:"usageMetadata"`
	Model      string          `json:"modelVersion"`
	ResponseID string          `json:"responseId"`
	Error      json.RawMessage `json:"error"`
}

// geminiCollector assembles a response and stops it if it exceeds a limit.
type geminiCollector struct {
	limit, size int64
	delta       func(model.DeltaKind, string) // gets the pieces of a stream

	parts      []*geminiPiece
	finish     string
	model, id  string
	usage      contract.Usage
	candidates bool // or the reason why there are none
}

// geminiPiece is one part of the response: a text, which may arrive in pieces, or a call.
type geminiPiece struct {
	text      bytes.Buffer
	thought   bool
	call      *geminiCall
	signature string
}

// stream collects server-sent events. It needs no last event: without a finish reason, a response is
// incomplete.
func (c *geminiCollector) stream(r *http.Response) error {
	events := ssestream.NewDecoder(r)
	for events.Next() {
		if err := c.add(events.Event().Data); err != nil {
			return err
		}
	}
	if err := events.Err(); err != nil {
		return &MalformedError{err}
	}
	return nil
}

// complete collects a response in one piece: one document, or the list of what would be streamed,
// which proxies send that ignore the request for events.
func (c *geminiCollector) complete(body io.Reader) error {
	data, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	c.delta = func(model.DeltaKind, string) {}
	list := []json.RawMessage{data}
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("[")) {
		if err := unmarshal(data, &list); err != nil {
			return err
		}
	}
	for _, doc := range list {
		if err := c.add(doc); err != nil {
			return err
		}
	}
	if !c.candidates {
		return &MalformedError{errors.New("it contains no candidates")}
	}
	return nil
}

func (c *geminiCollector) add(data []byte) error {
	var chunk geminiChunk
	if err := unmarshal(data, &chunk); err != nil {
		return err
	}
	if isSet(chunk.Error) {
		return &ReportedError{Body: bytes.Clone(data)}
	}
	if chunk.Model != "" {
		c.model = chunk.Model
	}
	if chunk.ResponseID != "" {
		c.id = chunk.ResponseID
	}
	if u := chunk.Usage; u != nil { // of the whole response so far
		c.usage = contract.Usage{
			PromptTokens: plus(u.Prompt, u.ToolUse), CachedTokens: u.Cached, CompletionTokens: plus(u.Candidates, u.Thoughts), ReasoningTokens: u.Thoughts,
		}
	}
	if b := chunk.PromptFeedback.BlockReason; b != "" && b != genai.BlockedReasonUnspecified {
		c.finish, c.candidates = "content_filter", true
	}
	for i := range chunk.Candidates {
		from := &chunk.Candidates[i]
		if from.Index != 0 {
			continue // only one was requested
		}
		c.candidates = true
		if f := from.FinishReason; f != "" && f != genai.FinishReasonUnspecified {
			c.finish = geminiFinish(f)
		}
		for _, p := range from.Content.Parts {
			if err := c.take(p); err != nil {
				return err
			}
		}
	}
	return nil
}

// partOverhead is the size that counts for an empty part, so that endless empty parts also reach the
// limit.
const partOverhead = 64

// take adds a part. Pieces of a text become one part, except that a signature stays with its own.
func (c *geminiCollector) take(p geminiPart) error {
	text := ""
	if p.Text != nil {
		text = *p.Text
	}
	c.show(p, text)
	n := len(c.parts)
	goesOn := p.FunctionCall == nil && p.ThoughtSignature == "" && text != "" &&
		n > 0 && c.parts[n-1].call == nil && c.parts[n-1].signature == "" && c.parts[n-1].thought == p.Thought
	switch {
	case goesOn:
		c.parts[n-1].text.WriteString(text)
		c.size += int64(len(text))
	case p.FunctionCall == nil && text == "" && p.ThoughtSignature == "":
		c.size += partOverhead
	default:
		piece := &geminiPiece{thought: p.Thought, call: p.FunctionCall, signature: p.ThoughtSignature}
		piece.text.WriteString(text)
		c.parts = append(c.parts, piece)
		c.size += partOverhead + int64(len(text)+len(p.ThoughtSignature))
		if call := p.FunctionCall; call != nil {
			c.size += int64(len(call.ID) + len(call.Name) + len(call.Args))
		}
	}
	if c.size > c.limit {
		return ErrTooLarge
	}
	return nil
}

// show passes on a part.
func (c *geminiCollector) show(p geminiPart, text string) {
	switch {
	case p.FunctionCall != nil:
		c.delta(model.DeltaTool, p.FunctionCall.Name)
		c.delta(model.DeltaArguments, p.FunctionCall.arguments())
	case text == "":
	case p.Thought:
		c.delta(model.DeltaReasoning, text)
	default:
		c.delta(model.DeltaText, text)
	}
}

// arguments returns the arguments of a call as the model wrote them, without white space between them.
func (c *geminiCall) arguments() string {
	var out bytes.Buffer
	if json.Compact(&out, c.Args) != nil {
		return "" // there are none
	}
	return out.String()
}

// response returns the collected response, which may be incomplete.
func (c *geminiCollector) response(req model.Request) model.Response {
	r := model.Response{FinishReason: c.finish, Usage: c.usage, Model: c.model}
	var traces []trace
	keep := false
	for _, p := range c.parts {
		t := trace{Signature: p.signature}
		switch {
		case p.call != nil:
			t.Call = true
			r.ToolCalls = append(r.ToolCalls, p.toolCall(c.id, req, len(r.ToolCalls)))
		case p.thought && p.signature == "":
			continue // a summary, which only people read
		case p.thought:
			thought := p.text.String()
			t.Thought = &thought
		default:
			t.Text = p.text.Len()
			r.Text += p.text.String()
		}
		keep = keep || p.signature != ""
		traces = append(traces, t)
	}
	if keep {
		if items, err := json.Marshal(traces); err == nil {
			r.Reasoning = &model.Reasoning{API: geminiAPI, Model: req.Choice.Model, Items: items}
		}
	}
	return r
}

// toolCall returns a call. Older models give it no id: then it gets one that no other turn of the
// conversation has.
func (p *geminiPiece) toolCall(response string, req model.Request, i int) model.ToolCall {
	call := model.ToolCall{ID: p.call.ID, Name: p.call.Name, Arguments: p.call.arguments()}
	if call.ID == "" {
		sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %d %d", response, req.IdempotencyKey, len(req.Messages), i))
		call.ID = ownCallID + hex.EncodeToString(sum[:10])
	}
	return call
}

// geminiFinish maps the API's reasons to ours.
func geminiFinish(reason genai.FinishReason) string {
	switch reason {
	case genai.FinishReasonStop:
		return "stop"
	case genai.FinishReasonMaxTokens, genai.FinishReasonContinuation:
		return "length"
	case genai.FinishReasonSafety, genai.FinishReasonRecitation, genai.FinishReasonLanguage, genai.FinishReasonBlocklist,
		genai.FinishReasonProhibitedContent, genai.FinishReasonSPII, genai.FinishReasonImageSafety,
		genai.FinishReasonImageProhibitedContent, genai.FinishReasonImageRecitation:
		return "content_filter"
	default: // MALFORMED_FUNCTION_CALL, UNEXPECTED_TOOL_CALL, OTHER and reasons yet unknown
		return FinishUnusable
	}
}
