package scripted

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"iter"
	"strings"
	"time"
	"unicode/utf8"
)

// responsesForm is the JSON of OpenAI's Responses API.
type responsesForm struct{}

func (responsesForm) problem(e apiError) []byte { return chatForm{}.problem(e) }

func (responsesForm) usage(c *completion) map[string]any {
	u := c.usage
	thought := min(tokens(utf8.RuneCountInString(c.reasoning)), u.completion)
	return map[string]any{
		"input_tokens": u.prompt, "input_tokens_details": map[string]any{"cached_tokens": u.cached, "cache_write_tokens": 0},
		"output_tokens": u.completion, "output_tokens_details": map[string]any{"reasoning_tokens": thought},
		"total_tokens": u.prompt + u.completion,
	}
}

// output returns the items of a completion.
func (responsesForm) output(c *completion) []map[string]any {
	items := []map[string]any{}
	led := "message"
	if c.text != "" || len(c.calls) == 0 {
		items = append(items, map[string]any{
			"type": "message", "id": "msg_" + c.id, "status": "completed", "role": "assistant",
			"content": []map[string]any{{"type": "output_text", "text": c.text, "annotations": []any{}}},
		})
	} else {
		led = c.callID(0)
	}
	for i, call := range c.calls {
		items = append(items, map[string]any{
			"type": "function_call", "id": "fc_" + c.id + "_" + itoa(i), "status": "completed",
			"call_id": c.callID(i), "name": call.name, "arguments": call.arguments,
		})
	}
	if c.finish == "length" {
		items[len(items)-1]["status"] = "incomplete"
	}
	if c.reasoning == "" {
		return items
	}
	thought := map[string]any{"type": "reasoning", "id": "rs_" + c.id, "summary": []any{}}
	if c.req.encrypted {
		thought["encrypted_content"] = encrypted(c.req.Model, "rs_"+c.id, led, c.reasoning)
	}
	return append([]map[string]any{thought}, items...)
}

// encrypted hides what a model thought, so that it is found if it is changed, given to another model,
// or moved before another item.
func encrypted(model, id, led, thought string) string {
	hidden := base64.RawURLEncoding.EncodeToString([]byte(led + "\n" + thought))
	return "gAAAA" + hidden + "." + thoughtSignature(model, id, hidden)
}

// decrypted returns which item thoughts led to.
func decrypted(model, id, content string) (led string, ok bool) {
	hidden, signature, found := strings.Cut(strings.TrimPrefix(content, "gAAAA"), ".")
	if !found || signature != thoughtSignature(model, id, hidden) {
		return "", false
	}
	plain, err := base64.RawURLEncoding.DecodeString(hidden)
	led, _, _ = strings.Cut(string(plain), "\n")
	return led, err == nil
}

func thoughtSignature(model, id, hidden string) string {
	sum := sha256.Sum256([]byte("scripted thought\n" + model + "\n" + id + "\n" + hidden))
	return hex.EncodeToString(sum[:16])
}

// response returns a response object; without output, one in progress.
func (f responsesForm) response(c *completion, output []map[string]any) map[string]any {
	r := map[string]any{
		"id": "resp_" + c.id, "object": "response", "created_at": time.Now().Unix(), "model": c.req.Model, "status": "in_progress", "error": nil,
		"incomplete_details": nil, "output": output, "usage": nil, "store": false,
	}
	if output == nil {
		r["output"] = []any{}
		return r
	}
	r["usage"], r["status"] = f.usage(c), "completed"
	if c.finish == "length" {
		r["status"], r["incomplete_details"] = "incomplete", map[string]any{"reason": "max_output_tokens"}
	}
	return r
}

func (f responsesForm) document(c *completion) []byte { return encode(f.response(c, f.output(c))) }

// event frames one server-sent event of a completion, which are numbered.
func (responsesForm) event(c *completion, kind string, fields map[string]any) []byte {
	fields["type"], fields["sequence_number"] = kind, c.sequence
	c.sequence++
	return named(fields)
}

func (responsesForm) started(*completion) usage { return usage{} }

func (f responsesForm) begin(c *completion) []byte {
	return append(
		f.event(c, "response.created", map[string]any{"response": f.response(c, nil)}),
		f.event(c, "response.in_progress", map[string]any{"response": f.response(c, nil)})...,
	)
}

func (f responsesForm) opening(c *completion) []byte {
	return append(f.begin(c), f.event(c, "response.output_item.added", map[string]any{
		"output_index": 0, "item": map[string]any{"type": "message", "id": "msg_" + c.id, "status": "in_progress", "role": "assistant", "content": []any{}},
	})...)
}

func (f responsesForm) piece(c *completion, text string) []byte {
	return f.event(c, "response.output_text.delta", map[string]any{"item_id": "msg_" + c.id, "output_index": 0, "content_index": 0, "delta": text})
}

func (f responsesForm) final(c *completion) []byte {
	kind := "response.completed"
	if c.finish == "length" {
		kind = "response.incomplete"
	}
	return f.event(c, kind, map[string]any{"response": f.response(c, f.output(c))})
}

func (f responsesForm) events(c *completion) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		if !yield(f.begin(c)) {
			return
		}
		for i, item := range f.output(c) {
			for e := range f.itemEvents(c, i, item) {
				if !yield(e) {
					return
				}
			}
		}
	}
}

// itemEvents sends one item: its frame first, then its text in pieces.
func (f responsesForm) itemEvents(c *completion, at int, item map[string]any) iter.Seq[[]byte] {
	start := map[string]any{"type": item["type"], "id": item["id"], "status": "in_progress"}
	kind, text := "", ""
	switch item["type"] {
	case "message":
		start["role"], start["content"] = "assistant", []any{}
		kind, text = "response.output_text", c.text
	case "function_call":
		start["call_id"], start["name"], start["arguments"] = item["call_id"], item["name"], ""
		kind, text = "response.function_call_arguments", item["arguments"].(string)
	default:
		start["summary"] = []any{}
	}
	return func(yield func([]byte) bool) {
		send := func(kind string, fields map[string]any) bool {
			fields["output_index"] = at
			return yield(f.event(c, kind, fields))
		}
		if !send("response.output_item.added", map[string]any{"item": start}) {
			return
		}
		if item["type"] == "message" && !send("response.content_part.added", map[string]any{
			"item_id": item["id"], "content_index": 0, "part": map[string]any{"type": "output_text", "text": "", "annotations": []any{}},
		}) {
			return
		}
		for part := range chunks(text) {
			if !send(kind+".delta", map[string]any{"item_id": item["id"], "content_index": 0, "delta": part}) {
				return
			}
		}
		switch item["type"] {
		case "message":
			if !send(kind+".done", map[string]any{"item_id": item["id"], "content_index": 0, "text": text}) {
				return
			}
		case "function_call":
			if !send(kind+".done", map[string]any{"item_id": item["id"], "name": item["name"], "arguments": text}) {
				return
			}
		}
		send("response.output_item.done", map[string]any{"item": item})
	}
}
