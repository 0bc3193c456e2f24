package model

import (
	"cmp"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/shared"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// options returns everything that is sent with the request besides its body.
func (x *call) options(stream bool) []option.RequestOption {
	opts := []option.RequestOption{
		option.WithBaseURL(x.provider.BaseURL),
		option.WithHTTPClient(x.client.http),
		option.WithMaxRetries(0),
		option.WithMiddleware(x.middleware),
		option.WithHeader("User-Agent", userAgent),
	}
	if x.key != "" {
		opts = append(opts, option.WithAPIKey(x.key))
	}
	for name, value := range x.provider.Headers {
		opts = append(opts, option.WithHeader(name, value))
	}
	for _, h := range x.req.headers() {
		opts = append(opts, option.WithHeader(h[0], h[1]))
	}
	if stream {
		opts = append(opts, option.WithJSONSet("stream", true), option.WithJSONSet("stream_options.include_usage", true),
			option.WithHeader("Accept", "text/event-stream"))
	}
	return opts
}

const userAgent = "rocketgpt-orchestrator"

// headers attribute a request; empty values are omitted.
func (r *Request) headers() [][2]string {
	number := func(n int64) string {
		if n == 0 {
			return ""
		}
		return strconv.FormatInt(n, 10)
	}
	var out [][2]string
	for _, h := range [][2]string{
		{"X-RGPT-Run", number(r.Headers.Run)},
		{"X-RGPT-Agent", r.Headers.Agent},
		{"X-RGPT-Phase", r.Headers.Phase},
		{"X-RGPT-Step", r.Headers.Step},
		{"X-RGPT-Attempt", number(int64(r.Headers.Attempt))},
		{"X-RGPT-Turn", number(int64(r.Headers.Turn))},
		{"Idempotency-Key", r.IdempotencyKey},
	} {
		if h[1] != "" {
			out = append(out, [2]string{h[0], printable(h[1])})
		}
	}
	return out
}

// printable replaces characters that a header cannot contain.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, s)
}

// params returns the request's body.
func (x *call) params() (openai.ChatCompletionNewParams, error) {
	p := openai.ChatCompletionNewParams{Model: x.req.Choice.Model}
	messages := x.req.Messages
	if s := x.req.Schema; s != nil {
		if x.entry.Can(CapabilityJSONSchema) {
			p.ResponseFormat = s.format()
		} else {
			messages = withSchemaInWords(messages, s)
		}
	}
	for _, m := range messages {
		p.Messages = append(p.Messages, m.param())
	}
	for _, t := range x.req.Tools {
		tool, err := t.param(x.req.Strict)
		if err != nil {
			return p, err
		}
		p.Tools = append(p.Tools, tool)
	}
	if x.req.Strict && len(p.Tools) > 0 {
		p.ToolChoice = openai.ChatCompletionToolChoiceOptionUnionParam{OfAuto: param.NewOpt(string(openai.ChatCompletionToolChoiceOptionAutoRequired))}
		if x.provider.Kind == KindOpenAI { // it enforces schemas only for one call at a time
			p.ParallelToolCalls = param.NewOpt(false)
		}
	}
	if t := x.req.Choice.Temperature; t != nil && !x.entry.Can(CapabilityFixedTemperature) {
		p.Temperature = param.NewOpt(*t)
	}
	if n := x.maxOutput(); n > 0 {
		if x.provider.Kind == KindOpenAI { // its reasoning models reject the old name
			p.MaxCompletionTokens = param.NewOpt(n)
		} else {
			p.MaxTokens = param.NewOpt(n)
		}
	}
	return p, nil
}

// maxOutput returns the output limit that is sent, 0 for none. Anthropic's own default is too small
// for code.
func (x *call) maxOutput() int64 {
	n, most := x.req.MaxOutput, x.entry.MaxOutput
	if n <= 0 && x.provider.Kind == KindAnthropic {
		return most
	}
	if most > 0 {
		n = min(n, most)
	}
	return n
}

func (s *Schema) format() openai.ChatCompletionNewParamsResponseFormatUnion {
	name := cmp.Or(s.Name, "answer")
	return openai.ChatCompletionNewParamsResponseFormatUnion{OfJSONSchema: &shared.ResponseFormatJSONSchemaParam{
		JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: name, Schema: s.JSON, Strict: param.NewOpt(s.Strict)},
	}}
}

// withSchemaInWords adds a schema to the conversation, for models that cannot enforce one.
func withSchemaInWords(messages []Message, s *Schema) []Message {
	text := "Respond with one JSON document that matches the JSON schema below, and with nothing else: no explanation, no Markdown.\n\n" + string(s.JSON)
	out := append([]Message(nil), messages...)
	if len(out) > 0 && out[0].Role == RoleSystem {
		out[0].Text += "\n\n" + text
		return out
	}
	return append([]Message{{Role: RoleSystem, Text: text}}, out...)
}

func (m Message) param() openai.ChatCompletionMessageParamUnion {
	switch m.Role {
	case RoleSystem:
		return openai.SystemMessage(m.Text)
	case RoleTool:
		return openai.ToolMessage(m.Text, m.ToolCallID)
	case RoleAssistant:
		return m.assistant()
	default:
		return openai.UserMessage(m.Text)
	}
}

func (m Message) assistant() openai.ChatCompletionMessageParamUnion {
	var a openai.ChatCompletionAssistantMessageParam
	if m.Text != "" || len(m.ToolCalls) == 0 {
		a.Content.OfString = param.NewOpt(m.Text)
	}
	for _, c := range m.ToolCalls {
		a.ToolCalls = append(a.ToolCalls, openai.ChatCompletionMessageToolCallUnionParam{
			OfFunction: &openai.ChatCompletionMessageFunctionToolCallParam{
				ID:       c.ID,
				Function: openai.ChatCompletionMessageFunctionToolCallFunctionParam{Name: c.Name, Arguments: c.Arguments},
			},
		})
	}
	return openai.ChatCompletionMessageParamUnion{OfAssistant: &a}
}

func (t Tool) param(strict bool) (openai.ChatCompletionToolUnionParam, error) {
	parameters := shared.FunctionParameters{"type": "object", "properties": map[string]any{}}
	if len(t.Parameters) > 0 {
		parameters = nil
		if err := json.Unmarshal(t.Parameters, &parameters); err != nil || parameters == nil {
			return openai.ChatCompletionToolUnionParam{}, fault.New(contract.ClassRuntime, contract.CodeUnknown, "the parameters of tool %q are not a JSON schema", t.Name)
		}
	}
	f := shared.FunctionDefinitionParam{Name: t.Name, Parameters: parameters}
	if strict {
		f.Parameters, _ = stricter(map[string]any(parameters)).(map[string]any)
		f.Strict = param.NewOpt(true)
	}
	if t.Description != "" {
		f.Description = param.NewOpt(t.Description)
	}
	return openai.ChatCompletionFunctionTool(f), nil
}
