package wire

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	"github.com/rocketgpt/orchestrator/internal/model"
)

// messages is Anthropic's Messages API.
type messages struct{}

// messagesAPI identifies the reasoning of this API in stored conversations.
const messagesAPI = "anthropic-messages"

// defaultMessagesOutput is the output limit of models that the catalogue does not know: the API
// requires one, and all models that it still offers accept this.
const defaultMessagesOutput = 8192

// Send implements Adapter.
func (messages) Send(ctx context.Context, c *Call, stream bool) (model.Response, error) {
	at := []option.RequestOption{option.WithBaseURL(c.Provider.BaseURL)}
	if c.Key != "" {
		at = append(at, option.WithAPIKey(c.Key))
	}
	return sendMessages(ctx, c, stream, "messages", at...)
}

// sendMessages makes a request at a path, with options that say where and with which credentials.
func sendMessages(ctx context.Context, c *Call, stream bool, path string, at ...option.RequestOption) (model.Response, error) {
	params, err := messagesParams(c)
	if err != nil {
		return model.Response{}, err
	}
	opts := []option.RequestOption{
		option.WithHTTPClient(c.HTTP),
		option.WithMaxRetries(0),
	}
	for _, h := range c.headers() {
		opts = append(opts, option.WithHeader(h[0], h[1]))
	}
	if stream {
		opts = append(opts, option.WithJSONSet("stream", true), option.WithHeader("Accept", "text/event-stream"))
	}
	opts = append(opts, thinkingOptions(c, &params)...)
	opts = append(opts, at...) // last: those of the clouds rewrite and sign the request
	var raw *http.Response
	// Not anthropic.NewClient, which would read keys and addresses from the environment and from files.
	client := anthropic.Client{}
	if err := client.Post(ctx, path, params, &raw, opts...); err != nil {
		return model.Response{}, err
	}
	defer func() { _ = raw.Body.Close() }()
	r := messagesCollector{limit: c.MaxResponse, delta: c.delta}
	if isStream(raw) {
		err = r.stream(raw)
	} else {
		err = r.complete(raw.Body)
	}
	resp := r.response(c.Request.Choice.Model)
	resp.Streamed = isStream(raw)
	return resp, err
}

// messagesParams returns the request's body.
func messagesParams(c *Call) (anthropic.MessageNewParams, error) {
	p := anthropic.MessageNewParams{
		Model:     c.Request.Choice.Model,
		MaxTokens: cmp.Or(c.maxOutput(), c.Entry.MaxOutput, defaultMessagesOutput),
	}
	conversation := c.Request.Messages
	if s := c.Request.Schema; s != nil {
		switch schema, err := enforceable(s.JSON); {
		case err != nil:
			return p, err
		case s.Strict && c.Entry.Can(model.CapabilityJSONSchema):
			p.OutputConfig = anthropic.OutputConfigParam{Format: anthropic.JSONOutputFormatParam{Schema: schema}}
		default:
			conversation = withSchemaInWords(conversation, s)
		}
	}
	p.System, p.Messages = messagesConversation(c, conversation)
	if err := setEffort(c, &p); err != nil {
		return p, err
	}
	for _, t := range c.Request.Tools {
		tool, err := messagesTool(t, c.Request.Strict)
		if err != nil {
			return p, err
		}
		p.Tools = append(p.Tools, anthropic.ToolUnionParam{OfTool: tool})
	}
	if c.Request.Strict && len(p.Tools) > 0 {
		p.ToolChoice = anthropic.ToolChoiceUnionParam{OfAny: &anthropic.ToolChoiceAnyParam{}}
	}
	if t := c.Request.Choice.Temperature; t != nil && !c.Entry.Can(model.CapabilityFixedTemperature) && p.Thinking.OfEnabled == nil {
		p.Temperature = param.NewOpt(min(*t, 1)) // other providers allow up to 2
	}
	markForCache(&p)
	return p, nil
}

// markForCache sets breakpoints up to which the provider caches the request, at most the four that
// it allows: after the tools, after the system prompt, and at the end of the last two messages of
// the user, so that a turn finds the prefix that the turn before it wrote.
func markForCache(p *anthropic.MessageNewParams) {
	mark := anthropic.NewCacheControlEphemeralParam()
	if n := len(p.Tools); n > 0 {
		p.Tools[n-1].OfTool.CacheControl = mark
	}
	if n := len(p.System); n > 0 {
		p.System[n-1].CacheControl = mark
	}
	left := 2
	for i := len(p.Messages) - 1; i >= 0 && left > 0; i-- {
		content := p.Messages[i].Content
		if p.Messages[i].Role != anthropic.MessageParamRoleUser || len(content) == 0 {
			continue
		}
		if control := content[len(content)-1].GetCacheControl(); control != nil {
			*control = mark
			left--
		}
	}
}

// messagesConversation splits off the system prompt. Messages of one side that follow each other
// become one, because the API wants both sides in turn, and all results of a turn's tools together.
func messagesConversation(c *Call, all []model.Message) (system []anthropic.TextBlockParam, turns []anthropic.MessageParam) {
	ids := newCallIDs()
	for _, m := range all {
		var blocks []anthropic.ContentBlockParamUnion
		role := anthropic.MessageParamRoleUser
		switch {
		case m.Role == model.RoleSystem && len(turns) == 0:
			if m.Text != "" {
				system = append(system, anthropic.TextBlockParam{Text: m.Text})
			}
			continue
		case m.Role == model.RoleTool:
			blocks = append(blocks, resultBlock(c, m, ids.current[m.ToolCallID]))
		case m.Role == model.RoleAssistant:
			role, blocks = anthropic.MessageParamRoleAssistant, assistantBlocks(m, c.Request.Choice.Model, ids)
		default:
			blocks = userBlocks(c, m)
		}
		switch n := len(turns); {
		case len(blocks) == 0:
		case n > 0 && turns[n-1].Role == role:
			turns[n-1].Content = append(turns[n-1].Content, blocks...)
		default:
			turns = append(turns, anthropic.MessageParam{Role: role, Content: blocks})
		}
	}
	return system, turns
}

// assistantBlocks returns the content of a turn of the model: what it thought, unchanged, in its places
// and only for the same model, its text and its calls.
func assistantBlocks(m model.Message, modelName string, ids *callIDs) []anthropic.ContentBlockParamUnion {
	var blocks []anthropic.ContentBlockParamUnion
	var thoughts []thought
	if r := m.Reasoning; r != nil && r.API == messagesAPI && r.Model == modelName {
		_ = json.Unmarshal(r.Items, &thoughts) // written by messagesCollector
	}
	text, calls := m.Text, m.ToolCalls
	say := func(n int) {
		if strings.TrimSpace(text[:n]) != "" { // the API rejects texts of white space alone
			blocks = append(blocks, anthropic.NewTextBlock(text[:n]))
		}
		text = text[n:]
	}
	call := func() {
		blocks = append(blocks, anthropic.NewToolUseBlock(ids.next(calls[0].ID), json.RawMessage(calls[0].Arguments), calls[0].Name))
		calls = calls[1:]
	}
	said := 0
	for _, t := range thoughts {
		said += max(t.Said, 0)
	}
	for _, t := range thoughts {
		switch {
		case t.Said > 0 && said > len(m.Text): // it was cut since
			say(len(text))
		case t.Said > 0:
			say(t.Said)
		case t.Call && len(calls) > 0:
			call()
		case t.Call:
		case t.Redacted != "":
			blocks = append(blocks, anthropic.NewRedactedThinkingBlock(t.Redacted))
		default:
			blocks = append(blocks, anthropic.NewThinkingBlock(t.Signature, t.Text))
		}
	}
	say(len(text))
	for len(calls) > 0 {
		call()
	}
	return blocks
}

func userBlocks(c *Call, m model.Message) []anthropic.ContentBlockParamUnion {
	var blocks []anthropic.ContentBlockParamUnion
	text, pictures := c.shown(m)
	if strings.TrimSpace(text) != "" { // the API rejects texts of white space alone
		blocks = append(blocks, anthropic.NewTextBlock(text))
	}
	for _, p := range pictures {
		blocks = append(blocks, anthropic.NewImageBlockBase64(p.MediaType, base64.StdEncoding.EncodeToString(p.Data)))
	}
	return blocks
}

func resultBlock(c *Call, m model.Message, id string) anthropic.ContentBlockParamUnion {
	text, pictures := c.shown(m)
	block := anthropic.NewToolResultBlock(cmp.Or(id, m.ToolCallID), text, false)
	result := block.OfToolResult
	if strings.TrimSpace(text) == "" {
		result.Content = nil
	}
	for _, p := range pictures {
		picture := anthropic.NewImageBlockBase64(p.MediaType, base64.StdEncoding.EncodeToString(p.Data))
		result.Content = append(result.Content, anthropic.ToolResultBlockParamContentUnion{OfImage: picture.OfImage})
	}
	return block
}

// thought is a thinking block, or a redacted one. If thoughts are between texts and calls, Said and Call
// stand for those, of which the message has the content.
type thought struct {
	Text      string `json:"text,omitempty"`
	Signature string `json:"signature,omitempty"`
	Redacted  string `json:"redacted,omitempty"`
	Said      int    `json:"said,omitempty"` // the next bytes of the message's text
	Call      bool   `json:"call,omitempty"` // the next call
}

func messagesTool(t model.Tool, strict bool) (*anthropic.ToolParam, error) {
	schema, err := messagesTools.of(t, strict)
	if err != nil {
		return nil, err
	}
	tool := &anthropic.ToolParam{Name: t.Name, InputSchema: schema}
	if t.Description != "" {
		tool.Description = param.NewOpt(t.Description)
	}
	if strict {
		tool.Strict = param.NewOpt(true)
	}
	return tool, nil
}

// messagesTools has the schemas of tools for Anthropic's API, encoded.
var messagesTools = toolSchemas[anthropic.ToolInputSchemaParam]{convert: func(t model.Tool, strict bool) (anthropic.ToolInputSchemaParam, error) {
	schema, err := t.Schema(strict)
	if err != nil {
		return anthropic.ToolInputSchemaParam{}, err
	}
	if strict {
		schema, _ = withoutBounds(schema).(map[string]any)
	}
	form := anthropic.ToolInputSchemaParam{ExtraFields: map[string]any{}}
	for k, v := range schema {
		switch k {
		case "type":
		case "properties":
			form.Properties = v
		case "required":
			for _, name := range asList(v) {
				if s, ok := name.(string); ok {
					form.Required = append(form.Required, s)
				}
			}
		default:
			form.ExtraFields[k] = v
		}
	}
	text, err := encoded(t, form)
	return param.Override[anthropic.ToolInputSchemaParam](text), err
}}

func asList(v any) []any {
	list, _ := v.([]any)
	return list
}
