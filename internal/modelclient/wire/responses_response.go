package wire

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/openai/openai-go/v3/responses"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/model"
)

// responsesCollector assembles a response and stops it if it exceeds a limit.
type responsesCollector struct {
	limit, size int64
	delta       func(model.DeltaKind, string) // gets the pieces of a stream

	items  map[int64]*outputItem // by their place in the response
	status responses.ResponseStatus
	reason string // why the response is incomplete
	model  string
	usage  contract.Usage
}

// outputItem is one item of a response. Its text is that of a message, or the arguments of a call.
type outputItem struct {
	kind, id, name, phase string
	text, refusal         strings.Builder
	raw                   string // of what the model thought
	size                  int64
	ended                 bool
}

// itemOverhead is the size that counts for an empty item, so that endless empty items also reach the
// limit.
const itemOverhead = 64

// stream collects server-sent events.
func (c *responsesCollector) stream(r *http.Response) error {
	return readEvents(r, reportedEvent, func(e *responses.ResponseStreamEventUnion) (bool, error) {
		err := c.add(e)
		return c.status != "", err
	})
}

func (c *responsesCollector) add(e *responses.ResponseStreamEventUnion) error {
	switch e.Type {
	case "response.created":
		c.model = e.Response.Model
	case "response.output_item.added":
		if e.Item.Type == "function_call" {
			c.delta(model.DeltaTool, e.Item.Name)
		}
		return c.put(e.OutputIndex, newItem(&e.Item, false))
	case "response.output_item.done":
		return c.put(e.OutputIndex, newItem(&e.Item, true))
	case "response.output_text.delta":
		c.delta(model.DeltaText, e.Delta)
		return c.extend(e, func(i *outputItem) { i.text.WriteString(e.Delta) })
	case "response.function_call_arguments.delta":
		c.delta(model.DeltaArguments, e.Delta)
		return c.extend(e, func(i *outputItem) { i.text.WriteString(e.Delta) })
	case "response.refusal.delta":
		return c.extend(e, func(i *outputItem) { i.refusal.WriteString(e.Delta) })
	case "response.reasoning_text.delta", "response.reasoning_summary_text.delta":
		c.delta(model.DeltaReasoning, e.Delta)
		return c.extend(e, func(*outputItem) {}) // the item's end repeats it
	case "response.completed", "response.incomplete", "response.failed":
		return c.end(&e.Response)
	case "error":
		return reportedError(e.Code, e.Message, []byte(e.RawJSON()))
	}
	return nil
}

// newItem returns an item as the API describes it, at its begin or its end.
func newItem(from *responses.ResponseOutputItemUnion, ended bool) *outputItem {
	i := &outputItem{kind: from.Type, id: from.CallID, name: from.Name, phase: string(from.Phase), ended: ended}
	switch from.Type {
	case "message":
		for _, part := range from.Content {
			i.text.WriteString(part.Text)
			i.refusal.WriteString(part.Refusal)
		}
	case "function_call":
		i.text.WriteString(from.Arguments.OfString)
	case "reasoning":
		// Without its content, the provider would look the item up, but it stores none.
		if from.EncryptedContent != "" || len(from.Content) > 0 {
			i.raw = from.RawJSON()
		}
	}
	i.size = itemOverhead + int64(len(i.id)+len(i.name)+len(i.phase)+len(i.raw)+i.text.Len()+i.refusal.Len())
	return i
}

func (c *responsesCollector) put(at int64, i *outputItem) error {
	if c.items == nil {
		c.items = map[int64]*outputItem{}
	}
	switch before := c.items[at]; {
	case before != nil && (before.ended || before.kind != i.kind):
		return &MalformedError{errors.New("two items of the response are at the same place")}
	case before != nil:
		c.size -= before.size
	}
	c.items[at] = i
	return c.grow(i.size)
}

func (c *responsesCollector) extend(e *responses.ResponseStreamEventUnion, by func(*outputItem)) error {
	i := c.items[e.OutputIndex]
	if i == nil || i.ended {
		return &MalformedError{errors.New("a piece of the response belongs to no item")}
	}
	by(i)
	i.size += int64(len(e.Delta))
	return c.grow(int64(len(e.Delta)))
}

func (c *responsesCollector) grow(n int64) error {
	if c.size += n; c.size > c.limit {
		return ErrTooLarge
	}
	return nil
}

// complete collects a response in one piece.
func (c *responsesCollector) complete(body io.Reader) error {
	data, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	var answer responses.Response
	if err := unmarshal(data, &answer); err != nil {
		return err
	}
	if answer.Status == "" {
		if hasError(data) {
			return reportedEvent(data)
		}
		return &MalformedError{errors.New("it is not a response")}
	}
	return c.end(&answer)
}

// end records the end of a response.
func (c *responsesCollector) end(r *responses.Response) error {
	if r.Model != "" {
		c.model = r.Model
	}
	if r.JSON.Usage.Valid() {
		c.use(r.Usage)
	}
	switch r.Status {
	case responses.ResponseStatusCompleted, responses.ResponseStatusIncomplete:
	case responses.ResponseStatusFailed:
		return reportedError(string(r.Error.Code), r.Error.Message, []byte(r.Error.RawJSON()))
	default:
		return &MalformedError{errors.New("the response ended without a result")}
	}
	if err := c.settle(r.Output); err != nil && r.Status == responses.ResponseStatusCompleted {
		return err
	}
	if c.size > c.limit {
		return ErrTooLarge
	}
	c.status, c.reason = r.Status, r.IncompleteDetails.Reason
	return nil
}

// settle takes the items of the final response if not all of them ended before.
func (c *responsesCollector) settle(final []responses.ResponseOutputItemUnion) error {
	ended := 0
	for _, i := range c.items {
		if i.ended {
			ended++
		}
	}
	switch {
	case ended == len(c.items) && ended >= len(final):
		return nil
	case len(final) < len(c.items):
		return &MalformedError{errors.New("an item of the response has no end")}
	}
	c.items, c.size = map[int64]*outputItem{}, 0
	for at := range final {
		i := newItem(&final[at], true)
		c.items[int64(at)] = i
		c.size += i.size
	}
	return nil
}

func (c *responsesCollector) use(u responses.ResponseUsage) {
	c.usage.PromptTokens, c.usage.CompletionTokens = u.InputTokens, u.OutputTokens
	c.usage.CachedTokens, c.usage.CacheWriteTokens = u.InputTokensDetails.CachedTokens, u.InputTokensDetails.CacheWriteTokens
	c.usage.ReasoningTokens = u.OutputTokensDetails.ReasoningTokens
}

// response returns the collected response, which may be incomplete.
func (c *responsesCollector) response(from *Call) model.Response {
	r := model.Response{Usage: c.usage, Model: c.model}
	switch {
	case c.status == responses.ResponseStatusCompleted:
		r.FinishReason = "stop"
	case c.status == responses.ResponseStatusIncomplete && c.reason == "content_filter":
		r.FinishReason = "content_filter"
	case c.status == responses.ResponseStatusIncomplete:
		r.FinishReason = "length"
	}
	var texts []string
	var stored []storedItem
	worth := false // what is stored says more than the rest of the message
	for _, at := range slices.Sorted(maps.Keys(c.items)) {
		switch i := c.items[at]; i.kind {
		case "message":
			text := i.text.String() + i.refusal.String()
			texts = append(texts, text)
			stored = append(stored, storedItem{Text: ptr(len(text)), Phase: i.phase})
			worth = worth || i.phase != ""
			if i.refusal.Len() > 0 && c.status != "" {
				r.FinishReason = "content_filter"
			}
		case "function_call":
			r.ToolCalls = append(r.ToolCalls, model.ToolCall{ID: i.id, Name: i.name, Arguments: i.text.String()})
			stored = append(stored, storedItem{Call: i.id})
		case "reasoning":
			if i.raw != "" {
				stored, worth = append(stored, storedItem{Thought: json.RawMessage(i.raw)}), true
			}
		}
	}
	r.Text = strings.Join(texts, betweenTexts)
	if items, err := json.Marshal(stored); err == nil && worth {
		r.Reasoning = &model.Reasoning{API: from.responsesReasoning(), Model: from.Request.Choice.Model, Items: items}
	}
	return r
}

func ptr[T any](v T) *T { return &v }

// statusOfCode has the HTTP statuses of the errors that the API reports inside a response.
var statusOfCode = map[string]int{
	"rate_limit_exceeded": http.StatusTooManyRequests, "insufficient_quota": http.StatusTooManyRequests,
	"server_error": http.StatusInternalServerError, "server_is_overloaded": http.StatusServiceUnavailable, "slow_down": http.StatusServiceUnavailable,
	"vector_store_timeout": http.StatusInternalServerError,
	"invalid_prompt":       http.StatusBadRequest, "bio_policy": http.StatusBadRequest, "misalignment_policy_violation": http.StatusBadRequest,
	"context_length_exceeded": http.StatusBadRequest, "invalid_encrypted_content": http.StatusBadRequest, "model_not_found": http.StatusNotFound,
}

// reportedEvent returns the error in a document {"error": …}.
func reportedEvent(data []byte) error {
	var doc struct {
		Error struct {
			Code any `json:"code"`
		} `json:"error"`
	}
	_ = json.Unmarshal(data, &doc) // of any form: then its status is unknown
	code, _ := doc.Error.Code.(string)
	return &ReportedError{Body: data, Status: statusOf(code)}
}

// reportedError returns an error that is described by its parts.
func reportedError(code, message string, raw []byte) error {
	body, err := json.Marshal(map[string]any{"error": map[string]any{"code": code, "message": message}})
	if err != nil {
		body = raw
	}
	return &ReportedError{Body: body, Status: statusOf(code)}
}

func statusOf(code string) int {
	switch {
	case statusOfCode[code] != 0:
		return statusOfCode[code]
	case strings.Contains(code, "image"):
		return http.StatusBadRequest
	}
	return 0
}
