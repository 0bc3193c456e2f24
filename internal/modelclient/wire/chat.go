package wire

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"regexp"
	"unicode/utf8"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/shared"

	"github.com/rocketgpt/orchestrator/internal/model"
)

// chat is the API of OpenAI's chat completions, which most providers offer.
type chat struct{}

// Send implements Adapter.
func (chat) Send(ctx context.Context, c *Call, stream bool) (model.Response, error) {
	params, err := chatParams(c)
	if err != nil {
		return model.Response{}, err
	}
	var raw *http.Response
	// Not openai.NewClient, which would send keys and headers from the OPENAI_
	// variables of the environment to any provider.
	client := openai.Client{}
	if err := client.Post(ctx, "chat/completions", params, &raw, chatOptions(c, stream)...); err != nil {
		return model.Response{}, err
	}
	defer func() { _ = raw.Body.Close() }()
	r := chatCollector{limit: c.MaxResponse, delta: c.delta, asked: c.Request.Choice.Model}
	if isStream(raw) {
		err = r.stream(raw)
	} else {
		err = r.complete(raw.Body)
	}
	resp := r.response()
	resp.Streamed = isStream(raw)
	return resp, err
}

// openAIOptions returns what is sent with a request of OpenAI's APIs besides its body.
func openAIOptions(c *Call) []option.RequestOption {
	opts := []option.RequestOption{
		option.WithBaseURL(c.Provider.BaseURL),
		option.WithHTTPClient(c.HTTP),
		option.WithMaxRetries(0),
	}
	switch {
	case c.Key == "":
	case c.Provider.Kind == model.KindAzure:
		opts = append(opts, option.WithHeader("Api-Key", c.Key))
	default:
		opts = append(opts, option.WithAPIKey(c.Key))
	}
	for _, h := range c.headers() {
		opts = append(opts, option.WithHeader(h[0], h[1]))
	}
	return opts
}

func chatOptions(c *Call, stream bool) []option.RequestOption {
	opts := openAIOptions(c)
	if key := c.conversationKey(); key != "" && c.Provider.Kind == model.KindOpenRouter {
		opts = append(opts, option.WithJSONSet("session_id", key)) // all turns go to the provider that has them in its cache
	}
	if stream {
		opts = append(opts, option.WithJSONSet("stream", true), option.WithJSONSet("stream_options.include_usage", true),
			option.WithHeader("Accept", "text/event-stream"))
	}
	return opts
}

// chatParams returns the request's body.
func chatParams(c *Call) (openai.ChatCompletionNewParams, error) {
	p := openai.ChatCompletionNewParams{Model: c.Request.Choice.Model}
	messages := c.Request.Messages
	if s := c.Request.Schema; s != nil {
		if c.Entry.Can(model.CapabilityJSONSchema) {
			p.ResponseFormat = chatFormat(s)
		} else {
			messages = withSchemaInWords(messages, s)
		}
	}
	p.Messages = chatConversation(c, messages)
	for _, t := range c.Request.Tools {
		tool, err := chatTool(t, c.Request.Strict)
		if err != nil {
			return p, err
		}
		p.Tools = append(p.Tools, tool)
	}
	if c.Request.Strict && len(p.Tools) > 0 {
		p.ToolChoice = openai.ChatCompletionToolChoiceOptionUnionParam{OfAuto: param.NewOpt(string(openai.ChatCompletionToolChoiceOptionAutoRequired))}
		if c.byOpenAI() { // it enforces schemas only for one call at a time
			p.ParallelToolCalls = param.NewOpt(false)
		}
	}
	p.ReasoningEffort = shared.ReasoningEffort(c.effort())
	if key := c.conversationKey(); key != "" && c.byOpenAI() {
		p.PromptCacheKey = param.NewOpt(key)
	}
	if t := c.Request.Choice.Temperature; t != nil && !c.Entry.Can(model.CapabilityFixedTemperature) {
		p.Temperature = param.NewOpt(*t)
	}
	if n := c.maxOutput(); n > 0 {
		if c.byOpenAI() { // its reasoning models reject the old name
			p.MaxCompletionTokens = param.NewOpt(n)
		} else {
			p.MaxTokens = param.NewOpt(n)
		}
	}
	if needsMarks(c) {
		markChatForCache(&p)
	}
	return p, nil
}

func chatFormat(s *model.Schema) openai.ChatCompletionNewParamsResponseFormatUnion {
	name := cmp.Or(s.Name, "answer")
	return openai.ChatCompletionNewParamsResponseFormatUnion{OfJSONSchema: &shared.ResponseFormatJSONSchemaParam{
		JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: name, Schema: s.JSON, Strict: param.NewOpt(s.Strict)},
	}}
}

// chatConversation returns the messages. A tool's result cannot have pictures: a message of the user
// shows them, after the results of all calls, because nothing may come between those.
func chatConversation(c *Call, all []model.Message) []openai.ChatCompletionMessageParamUnion {
	var out []openai.ChatCompletionMessageParamUnion
	var later []openai.ChatCompletionContentPartUnionParam
	ids := newChatIDs(c.Request.Choice.Model)
	for i, m := range all {
		text, pictures := c.shown(m)
		switch m.Role {
		case model.RoleSystem:
			out = append(out, openai.SystemMessage(text))
		case model.RoleAssistant:
			out = append(out, chatAssistant(m, c.Request.Choice.Model, ids))
		case model.RoleTool:
			if len(pictures) > 0 {
				text = joined(text, "[a picture is shown after the results of all calls]")
				later = append(later, chatParts("The picture in the result of call "+ids.of(m.ToolCallID)+":", pictures)...)
			}
			out = append(out, openai.ToolMessage(text, ids.of(m.ToolCallID)))
		default:
			if len(pictures) > 0 {
				out = append(out, openai.UserMessage(chatParts(text, pictures)))
			} else {
				out = append(out, openai.UserMessage(text))
			}
		}
		if len(later) > 0 && (i+1 == len(all) || all[i+1].Role != model.RoleTool) {
			out = append(out, openai.UserMessage(later))
			later = nil
		}
	}
	return out
}

// chatParts returns a text, if there is one, and pictures as parts of a message.
func chatParts(text string, pictures []model.Image) []openai.ChatCompletionContentPartUnionParam {
	var parts []openai.ChatCompletionContentPartUnionParam
	if text != "" {
		parts = append(parts, openai.TextContentPart(text))
	}
	for _, p := range pictures {
		parts = append(parts, openai.ImageContentPart(openai.ChatCompletionContentPartImageImageURLParam{URL: dataURL(p)}))
	}
	return parts
}

// maxChatID is the length of the longest id of a tool call that OpenAI accepts, in characters.
const maxChatID = 40

// mistralID is the only form of ids that Mistral accepts. A conversation that moves to one of its models
// contains those of other providers.
var mistralID = regexp.MustCompile(`^[a-zA-Z0-9]{9}$`)

// mistralModel matches the names of Mistral's models, also as resellers name them.
var mistralModel = regexp.MustCompile(`(?i)(mis|codes|devs|magis|minis)tral|(pix|vox)tral`)

// chatIDs maps the ids of tool calls to those that are sent.
type chatIDs struct {
	mistral bool
	sent    map[string]string
}

func newChatIDs(modelName string) *chatIDs {
	return &chatIDs{mistral: mistralModel.MatchString(modelName), sent: map[string]string{}}
}

// of returns the id that is sent for a call: always the same for the same id.
func (ids *chatIDs) of(id string) string {
	if sent, ok := ids.sent[id]; ok {
		return sent
	}
	sum := sha256.Sum256([]byte(id))
	switch {
	case ids.mistral && !mistralID.MatchString(id):
		return hex.EncodeToString(sum[:])[:9]
	case utf8.RuneCountInString(id) > maxChatID:
		return "call_" + hex.EncodeToString(sum[:16])
	}
	return id
}

// chatAssistant returns a turn of the model. What it thought, in OpenRouter's form, goes back unchanged
// and only to the same model, with the ids of its calls, to which it may refer. Other turns may be those
// of another provider, so ids that the model would reject are replaced.
func chatAssistant(m model.Message, modelName string, ids *chatIDs) openai.ChatCompletionMessageParamUnion {
	var a openai.ChatCompletionAssistantMessageParam
	if m.Text != "" || len(m.ToolCalls) == 0 {
		a.Content.OfString = param.NewOpt(m.Text)
	}
	r := m.Reasoning
	own := r != nil && r.API == chatAPI && r.Model == modelName
	for _, c := range m.ToolCalls {
		delete(ids.sent, c.ID)
		if own {
			ids.sent[c.ID] = c.ID
		}
		a.ToolCalls = append(a.ToolCalls, openai.ChatCompletionMessageToolCallUnionParam{
			OfFunction: &openai.ChatCompletionMessageFunctionToolCallParam{
				ID:       ids.of(c.ID),
				Function: openai.ChatCompletionMessageFunctionToolCallFunctionParam{Name: c.Name, Arguments: c.Arguments},
			},
		})
	}
	if own {
		a.SetExtraFields(map[string]any{reasoningDetails: r.Items})
	}
	return openai.ChatCompletionMessageParamUnion{OfAssistant: &a}
}

func chatTool(t model.Tool, strict bool) (openai.ChatCompletionToolUnionParam, error) {
	parameters, err := openAITools.of(t, strict)
	if err != nil {
		return openai.ChatCompletionToolUnionParam{}, err
	}
	f := shared.FunctionDefinitionParam{Name: t.Name, Parameters: parameters}
	if strict {
		f.Strict = param.NewOpt(true)
	}
	if t.Description != "" {
		f.Description = param.NewOpt(t.Description)
	}
	return openai.ChatCompletionFunctionTool(f), nil
}
