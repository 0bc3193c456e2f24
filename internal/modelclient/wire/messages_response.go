package wire

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/anthropics/anthropic-sdk-go"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/model"
)

// messagesCollector assembles a response and stops it if it exceeds a limit.
type messagesCollector struct {
	limit, size int64
	delta       func(model.DeltaKind, string) // gets the pieces of a stream

	blocks       []*block
	stop         anthropic.StopReason
	ended        bool // the stream's last event arrived
	model        string
	usage        contract.Usage
	fresh, reads int64 // input tokens outside the cache, and read from it
	writes       int64 // input tokens written to the cache
}

// block is one block of a response's content. Its text is that of a text, the input of a call, or
// what the model thought.
type block struct {
	kind, id, name      string
	text                strings.Builder
	signature, redacted string
}

// stream collects server-sent events.
func (c *messagesCollector) stream(r *http.Response) error {
	return readEvents(r, reportedMessage, func(e *anthropic.MessageStreamEventUnion) (bool, error) {
		err := c.add(e)
		return c.ended, err
	})
}

// reportedMessage returns the error of an event that reports one. Those of Bedrock have types with a
// status of their own.
func reportedMessage(body []byte) error {
	return &ReportedError{Body: body, Status: bedrockStatus(body)}
}

func (c *messagesCollector) add(e *anthropic.MessageStreamEventUnion) error {
	switch e.Type {
	case "message_start":
		c.model = e.Message.Model
		c.start(e.Message.Usage)
	case "content_block_start":
		return c.open(e)
	case "content_block_delta":
		return c.extend(e)
	case "message_delta":
		c.stop = e.Delta.StopReason
		c.finish(e.Usage)
	case "message_stop":
		c.ended = true
	}
	return nil
}

// blockOverhead is the size that counts for an empty block, so that endless empty blocks also reach
// the limit.
const blockOverhead = 64

func (c *messagesCollector) open(e *anthropic.MessageStreamEventUnion) error {
	if e.Index != int64(len(c.blocks)) {
		return &MalformedError{errors.New("the blocks of the response are not numbered in turn")}
	}
	start := e.ContentBlock
	b := &block{kind: start.Type, id: start.ID, name: start.Name, signature: start.Signature, redacted: start.Data}
	b.text.WriteString(start.Text + start.Thinking)
	c.blocks = append(c.blocks, b)
	if b.kind == "tool_use" {
		c.delta(model.DeltaTool, b.name)
	}
	c.show(b, b.text.String())
	return c.grow(blockOverhead + len(start.ID) + len(start.Name) + len(start.Data) + len(start.Signature) + b.text.Len())
}

func (c *messagesCollector) extend(e *anthropic.MessageStreamEventUnion) error {
	if e.Index < 0 || e.Index >= int64(len(c.blocks)) {
		return &MalformedError{errors.New("a piece of the response belongs to no block")}
	}
	b, d := c.blocks[e.Index], e.Delta
	b.text.WriteString(d.Text + d.Thinking + d.PartialJSON)
	b.signature += d.Signature
	c.show(b, d.Text+d.Thinking+d.PartialJSON)
	return c.grow(len(d.Text) + len(d.Thinking) + len(d.PartialJSON) + len(d.Signature))
}

// show passes on a piece of a block.
func (c *messagesCollector) show(b *block, piece string) {
	switch {
	case b.kind == "thinking" || b.kind == "redacted_thinking":
		c.delta(model.DeltaReasoning, piece)
	case piece == "":
	case b.kind == "tool_use":
		c.delta(model.DeltaArguments, piece)
	case b.kind == "text":
		c.delta(model.DeltaText, piece)
	}
}

func (c *messagesCollector) grow(n int) error {
	if c.size += int64(n); c.size > c.limit {
		return ErrTooLarge
	}
	return nil
}

// start records the usage that is known before the response.
func (c *messagesCollector) start(u anthropic.Usage) {
	c.fresh, c.reads, c.writes = u.InputTokens, u.CacheReadInputTokens, u.CacheCreationInputTokens
	c.usage.CompletionTokens, c.usage.ReasoningTokens = u.OutputTokens, u.OutputTokensDetails.ThinkingTokens
}

// finish records the usage at the end, which is cumulative. Compatible servers repeat only some of it.
func (c *messagesCollector) finish(u anthropic.MessageDeltaUsage) {
	for _, v := range []struct {
		to    *int64
		value int64
		given bool
	}{
		{&c.fresh, u.InputTokens, u.JSON.InputTokens.Valid()},
		{&c.reads, u.CacheReadInputTokens, u.JSON.CacheReadInputTokens.Valid()},
		{&c.writes, u.CacheCreationInputTokens, u.JSON.CacheCreationInputTokens.Valid()},
		{&c.usage.CompletionTokens, u.OutputTokens, u.JSON.OutputTokens.Valid()},
		{&c.usage.ReasoningTokens, u.OutputTokensDetails.ThinkingTokens, u.JSON.OutputTokensDetails.Valid()},
	} {
		if v.given {
			*v.to = v.value
		}
	}
}

// complete collects a response in one piece.
func (c *messagesCollector) complete(body io.Reader) error {
	data, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	var answer anthropic.Message
	if err := unmarshal(data, &answer); err != nil {
		return err
	}
	if answer.Type != "message" {
		if string(answer.Type) == "error" {
			return &ReportedError{Body: data}
		}
		return &MalformedError{errors.New("it is not a message")}
	}
	c.model, c.stop, c.ended = answer.Model, answer.StopReason, true
	c.start(answer.Usage)
	for _, from := range answer.Content {
		b := &block{kind: from.Type, id: from.ID, name: from.Name, signature: from.Signature, redacted: from.Data}
		b.text.WriteString(from.Text + from.Thinking + from.JSON.Input.Raw())
		c.blocks = append(c.blocks, b)
		if err := c.grow(blockOverhead + len(from.ID) + len(from.Name) + len(from.Data) + len(from.Signature) + b.text.Len()); err != nil {
			return err
		}
	}
	return nil
}

// response returns the collected response, which may be incomplete.
func (c *messagesCollector) response(modelName string) model.Response {
	r := model.Response{Usage: c.usage, Model: c.model}
	r.Usage.PromptTokens = plus(c.fresh, c.reads, c.writes)
	r.Usage.CachedTokens, r.Usage.CacheWriteTokens = c.reads, c.writes
	if c.ended {
		r.FinishReason = finishReasons[c.stop]
		if r.FinishReason == "" && c.stop != "" {
			r.FinishReason = FinishUnusable // a reason yet unknown
		}
	}
	for _, b := range c.blocks {
		switch b.kind {
		case "text":
			r.Text += b.text.String()
		case "tool_use":
			r.ToolCalls = append(r.ToolCalls, model.ToolCall{ID: b.id, Name: b.name, Arguments: b.text.String()})
		}
	}
	if thoughts := c.thoughts(); len(thoughts) > 0 {
		if items, err := json.Marshal(thoughts); err == nil {
			r.Reasoning = &model.Reasoning{API: messagesAPI, Model: modelName, Items: items}
		}
	}
	return r
}

// thoughts returns what the model thought, up to its last thought. The places of the texts and calls
// between are part of it if there are any.
func (c *messagesCollector) thoughts() []thought {
	var all []thought
	end := 0
	for _, b := range c.blocks {
		switch n := len(all); {
		case b.kind == "thinking":
			all = append(all, thought{Text: b.text.String(), Signature: b.signature})
			end = len(all)
		case b.kind == "redacted_thinking":
			all = append(all, thought{Redacted: b.redacted})
			end = len(all)
		case b.kind == "tool_use":
			all = append(all, thought{Call: true})
		case b.kind == "text" && n > 0 && all[n-1].Said > 0:
			all[n-1].Said += b.text.Len()
		case b.kind == "text" && b.text.Len() > 0:
			all = append(all, thought{Said: b.text.Len()})
		}
	}
	return all[:end]
}

// finishReasons maps the API's reasons to ours.
var finishReasons = map[anthropic.StopReason]string{
	anthropic.StopReasonEndTurn:                    "stop",
	anthropic.StopReasonStopSequence:               "stop",
	anthropic.StopReasonPauseTurn:                  "stop",
	anthropic.StopReasonToolUse:                    "tool_calls",
	anthropic.StopReasonMaxTokens:                  "length",
	anthropic.StopReasonModelContextWindowExceeded: "length",
	anthropic.StopReasonRefusal:                    "content_filter",
}

// plus adds token counts as reported, which may be absurd; the sum stays within what they may be.
func plus(counts ...int64) int64 {
	sum := int64(0)
	for _, n := range counts {
		sum += model.PlausibleTokens(n)
	}
	return sum
}
