package wire

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/model"
)

// openAIResponses is OpenAI's Responses API. The provider stores nothing: each request has the whole
// conversation, with what the model thought as encrypted items.
type openAIResponses struct{}

// Send implements Adapter.
func (openAIResponses) Send(ctx context.Context, c *Call, stream bool) (model.Response, error) {
	params, err := responsesParams(c)
	if err != nil {
		return model.Response{}, err
	}
	opts := openAIOptions(c)
	if stream {
		opts = append(opts, option.WithJSONSet("stream", true), option.WithHeader("Accept", "text/event-stream"))
	}
	var raw *http.Response
	client := openai.Client{} // as for chat completions
	if err := client.Post(ctx, "responses", params, &raw, opts...); err != nil {
		return model.Response{}, err
	}
	defer func() { _ = raw.Body.Close() }()
	r := responsesCollector{limit: c.MaxResponse, delta: c.delta}
	if isStream(raw) {
		err = r.stream(raw)
	} else {
		err = r.complete(raw.Body)
	}
	resp := r.response(c)
	resp.Streamed = isStream(raw)
	return resp, err
}

// responsesParams returns the request's body.
func responsesParams(c *Call) (responses.ResponseNewParams, error) {
	p := responses.ResponseNewParams{Model: c.Request.Choice.Model, Store: param.NewOpt(false)}
	if c.reasons() { // other models reject this
		p.Include = []responses.ResponseIncludable{responses.ResponseIncludableReasoningEncryptedContent}
	}
	if key := c.conversationKey(); key != "" {
		p.PromptCacheKey = param.NewOpt(key)
	}
	conversation := c.Request.Messages
	if s := c.Request.Schema; s != nil {
		if c.Entry.Can(model.CapabilityJSONSchema) {
			format, err := responsesFormat(s)
			if err != nil {
				return p, err
			}
			p.Text.Format = format
		} else {
			conversation = withSchemaInWords(conversation, s)
		}
	}
	instructions, input := responsesInput(c, conversation)
	p.Input.OfInputItemList = input
	if instructions != "" {
		p.Instructions = param.NewOpt(instructions)
	}
	for _, t := range c.Request.Tools {
		tool, err := responsesTool(t, c.Request.Strict)
		if err != nil {
			return p, err
		}
		p.Tools = append(p.Tools, tool)
	}
	if c.Request.Strict && len(p.Tools) > 0 {
		p.ToolChoice.OfToolChoiceMode = param.NewOpt(responses.ToolChoiceOptionsRequired)
		if c.byOpenAI() { // it enforces schemas only for one call at a time
			p.ParallelToolCalls = param.NewOpt(false)
		}
	}
	p.Reasoning.Effort = shared.ReasoningEffort(c.effort())
	if t := c.Request.Choice.Temperature; t != nil && !c.Entry.Can(model.CapabilityFixedTemperature) {
		p.Temperature = param.NewOpt(*t)
	}
	if n := c.maxOutput(); n > 0 {
		p.MaxOutputTokens = param.NewOpt(n)
	}
	return p, nil
}

// responsesFormat keeps the order of the schema's properties, in which the model writes them.
func responsesFormat(s *model.Schema) (responses.ResponseFormatTextConfigUnionParam, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(s.JSON, &fields); err != nil {
		return responses.ResponseFormatTextConfigUnionParam{}, fault.Wrap(err, contract.ClassRuntime, contract.CodeUnknown, "the schema of a response is not a JSON object")
	}
	schema := make(map[string]any, len(fields))
	for name, value := range fields {
		schema[name] = value
	}
	format := responses.ResponseFormatTextJSONSchemaConfigParam{Name: cmp.Or(s.Name, "answer"), Schema: schema, Strict: param.NewOpt(s.Strict)}
	return responses.ResponseFormatTextConfigUnionParam{OfJSONSchema: &format}, nil
}

func responsesTool(t model.Tool, strict bool) (responses.ToolUnionParam, error) {
	parameters, err := openAITools.of(t, strict)
	if err != nil {
		return responses.ToolUnionParam{}, err
	}
	// Without a value, the API makes schemas strict by itself.
	tool := responses.FunctionToolParam{Name: t.Name, Parameters: parameters, Strict: param.NewOpt(strict)}
	if t.Description != "" {
		tool.Description = param.NewOpt(t.Description)
	}
	return responses.ToolUnionParam{OfFunction: &tool}, nil
}

// responsesInput splits off the system prompt and returns the other messages as items.
func responsesInput(c *Call, all []model.Message) (instructions string, items responses.ResponseInputParam) {
	ids := newCallIDs()
	for _, m := range all {
		switch {
		case m.Role == model.RoleSystem && len(items) == 0:
			instructions = joined(instructions, m.Text)
		case m.Role == model.RoleSystem:
			items = append(items, responses.ResponseInputItemParamOfMessage(m.Text, responses.EasyInputMessageRoleSystem))
		case m.Role == model.RoleTool:
			items = append(items, responsesResult(c, m, ids.current[m.ToolCallID]))
		case m.Role == model.RoleAssistant:
			items = append(items, responsesTurn(c, m, ids)...)
		default:
			items = append(items, responsesUser(c, m))
		}
	}
	return instructions, items
}

// betweenTexts separates texts that are separate items for the API, and one text for us.
const betweenTexts = "\n\n"

func joined(texts ...string) string {
	var out []string
	for _, t := range texts {
		if t != "" {
			out = append(out, t)
		}
	}
	return strings.Join(out, betweenTexts)
}

func responsesUser(c *Call, m model.Message) responses.ResponseInputItemUnionParam {
	text, pictures := c.shown(m)
	if len(pictures) == 0 {
		return responses.ResponseInputItemParamOfMessage(text, responses.EasyInputMessageRoleUser)
	}
	var parts responses.ResponseInputMessageContentListParam
	if text != "" {
		parts = append(parts, responses.ResponseInputContentParamOfInputText(text))
	}
	for _, p := range pictures {
		part := responses.ResponseInputContentParamOfInputImage(responses.ResponseInputImageDetailAuto)
		part.OfInputImage.ImageURL = param.NewOpt(dataURL(p))
		parts = append(parts, part)
	}
	return responses.ResponseInputItemParamOfMessage(parts, responses.EasyInputMessageRoleUser)
}

func responsesResult(c *Call, m model.Message, id string) responses.ResponseInputItemUnionParam {
	text, pictures := c.shown(m)
	item := responses.ResponseInputItemParamOfFunctionCallOutput(text)
	if len(pictures) > 0 {
		var parts responses.ResponseFunctionCallOutputItemListParam
		if text != "" {
			parts = append(parts, responses.ResponseFunctionCallOutputItemUnionParam{OfInputText: &responses.ResponseInputTextContentParam{Text: text}})
		}
		for _, p := range pictures {
			parts = append(parts, responses.ResponseFunctionCallOutputItemUnionParam{OfInputImage: &responses.ResponseInputImageContentParam{
				ImageURL: param.NewOpt(dataURL(p)), Detail: responses.ResponseInputImageContentDetailAuto,
			}})
		}
		item = responses.ResponseInputItemParamOfFunctionCallOutput(parts)
	}
	item.OfFunctionCallOutput.CallID = param.NewOpt(cmp.Or(id, m.ToolCallID))
	return item
}
