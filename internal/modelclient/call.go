package modelclient

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/modelclient/wire"
)

// call is one call in progress.
type call struct {
	client    *Client
	provider  *endpoint
	entry     model.CatalogueEntry
	priced    bool // the entry's prices are known
	req       model.Request
	key       string
	scrub     *scrubber
	watch     *watch
	streaming bool
	body      *countedBody // of a successful response
}

// run makes the call within its own deadline: streamed, or in one piece if the provider reports
// that it cannot stream.
func (x *call) run(ctx context.Context) (model.Response, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, x.timeout(), errDeadline)
	defer cancel()
	if _, known := x.provider.complete.Load(x.req.Choice.Model); !known && !x.entry.FoundNot(model.CapabilityStreaming) {
		resp, err := x.send(ctx, true)
		var status *statusError
		if !errors.As(err, &status) || !status.deniesStreaming() {
			return x.conclude(ctx, resp, err)
		}
		x.provider.complete.Store(x.req.Choice.Model, true)
	}
	resp, err := x.send(ctx, false)
	return x.conclude(ctx, resp, err)
}

func (x *call) timeout() time.Duration {
	if x.req.Timeout > 0 {
		return x.req.Timeout
	}
	return x.provider.Timeout
}

// send makes one HTTP request and collects its response.
func (x *call) send(ctx context.Context, stream bool) (model.Response, error) {
	x.streaming, x.body = stream, nil
	if stream {
		x.watch.touch()
	} else {
		x.watch.ignoreSilence()
	}
	start := time.Now()
	resp, err := wire.For(x.provider.Provider, x.entry).Send(ctx, x.wire(), stream)
	if err != nil && x.body != nil && x.body.err != nil {
		err = x.body.err // the reason, not the parser's interpretation of it
	}
	resp.Latency = time.Since(start)
	return resp, err
}

// wire returns the call as the adapters take it.
func (x *call) wire() *wire.Call {
	return &wire.Call{
		Request: x.req, Provider: x.provider.Provider, Entry: x.entry, Key: x.key, MaxResponse: x.client.opts.MaxResponse,
		HTTP: &http.Client{Transport: x, CheckRedirect: x.client.http.CheckRedirect},
	}
}

// maxModelName limits the name that a provider gives its model, in bytes.
const maxModelName = 200

// conclude converts the outcome of a call into the caller's result.
func (x *call) conclude(ctx context.Context, resp model.Response, err error) (model.Response, error) {
	if err == nil {
		err = check(&resp)
	}
	resp.Model = fault.Clip(cmp.Or(resp.Model, x.req.Choice.Model), maxModelName)
	if err == nil {
		x.account(&resp)
		return resp, nil
	}
	explained := x.explain(ctx, err)
	if explained.Class != contract.ClassLLM {
		return model.Response{}, explained
	}
	var status *statusError
	if !errors.As(err, &status) { // a rejected request costs nothing
		x.account(&resp)
	}
	return resp, explained
}

// account completes the usage of a response: it estimates the tokens if the provider did not report
// them, and adds the cost, which is marked as estimated if the price is unknown. A response that could not be read at all has no usage.
func (x *call) account(r *model.Response) {
	u := &r.Usage
	u.Calls = 1
	*u = model.Plausible(*u)
	if u.Tokens() == 0 {
		size := len(r.Text)
		for _, c := range r.ToolCalls {
			size += len(c.Name) + len(c.Arguments)
		}
		if size == 0 && r.FinishReason == "" {
			return
		}
		r.Estimated = true
		u.PromptTokens, u.CompletionTokens = model.EstimateTokens(x.req.Messages, x.req.Tools), int64(size+3)/4
	}
	u.MicroUSD, u.EstimatedPrice = model.Cost(*u, x.entry), !x.priced
}

// unusable is the reason why a response that arrived cannot be used.
type unusable struct {
	code   contract.Code
	reason string
}

func (e *unusable) Error() string { return e.reason }

// check checks that a response is complete and usable, and normalizes it.
func check(r *model.Response) error {
	switch r.FinishReason {
	case "":
		return io.ErrUnexpectedEOF
	case "length":
		return &unusable{contract.CodeTruncated, "the response was cut off at the output limit"}
	case "content_filter":
		return &unusable{contract.CodeRefusal, "the model declined, or a content filter stopped the response"}
	case wire.FinishUnusable:
		return &unusable{contract.CodeInvalidOutput, "the provider found the response unusable, such as a malformed tool call"}
	}
	used := map[string]bool{}
	for i := range r.ToolCalls {
		if err := checkCall(i, &r.ToolCalls[i], used); err != nil {
			return err
		}
	}
	if len(r.ToolCalls) > 0 {
		r.FinishReason = "tool_calls" // some providers report stop
	}
	return nil
}

// checkCall checks a call of a tool, and gives it an id that no other call of the response uses.
func checkCall(i int, c *model.ToolCall, used map[string]bool) error {
	c.ID = cmp.Or(c.ID, fmt.Sprintf("call_%d", i))
	if used[c.ID] {
		c.ID = fmt.Sprintf("%s_%d", c.ID, i)
	}
	for used[c.ID] {
		c.ID += "_"
	}
	used[c.ID] = true
	if len(bytes.TrimSpace([]byte(c.Arguments))) == 0 {
		c.Arguments = "{}"
	}
	if c.Name == "" {
		return &unusable{contract.CodeInvalidOutput, fmt.Sprintf("tool call %d has no tool name", i+1)}
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal([]byte(c.Arguments), &object); err != nil || object == nil {
		return &unusable{contract.CodeInvalidOutput, fmt.Sprintf("the arguments of tool call %d (%s) are not a JSON object", i+1, fault.Clip(c.Name, 64))}
	}
	return nil
}
