package wire

import (
	"context"
	"io"
	"math"
	"net/http"
	"regexp"
	"strings"
	"sync"

	"google.golang.org/genai"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/model"
)

// gemini is Google's Gemini API.
//
// Its SDK builds and sends the request. The response is read here, because the SDK reads the
// arguments of a call into a map, which changes their numbers and their order, takes a comment in a
// stream for an error, and hides the body of an error.
type gemini struct{}

// geminiAPI identifies the reasoning of this API in stored conversations.
const geminiAPI = "google-gemini"

// Send implements Adapter.
func (gemini) Send(ctx context.Context, c *Call, stream bool) (model.Response, error) {
	config, contents, err := geminiRequest(c)
	if err != nil {
		return model.Response{}, err
	}
	config.HTTPOptions = geminiOptions(c, contents, stream)
	x := &exchange{call: c}
	if err := x.do(ctx, config, stream); err != nil {
		return model.Response{}, err
	}
	defer func() { _ = x.response.Body.Close() }()
	r := geminiCollector{limit: c.MaxResponse, delta: c.delta}
	if isStream(x.response) {
		err = r.stream(x.response)
	} else {
		err = r.complete(x.response.Body)
	}
	resp := r.response(c.Request)
	resp.Streamed = isStream(x.response)
	return resp, err
}

// apiVersion matches the version of the API at the end of an address.
var apiVersion = regexp.MustCompile(`^(.*)/(v\d+(?:alpha|beta)?\d*)$`)

// GeminiAddress splits a provider's base URL into the address and the version of the API, v1beta
// unless the URL ends in another one.
func GeminiAddress(baseURL string) (address, version string) {
	baseURL = strings.TrimRight(baseURL, "/")
	if m := apiVersion.FindStringSubmatch(baseURL); m != nil {
		return m[1], m[2]
	}
	return baseURL, "v1beta"
}

// geminiOptions returns how a request is sent, and the conversation, which the SDK would change.
func geminiOptions(c *Call, contents []geminiContent, stream bool) *genai.HTTPOptions {
	o := &genai.HTTPOptions{Headers: http.Header{}}
	o.BaseURL, o.APIVersion = GeminiAddress(c.Provider.BaseURL)
	for _, h := range c.headers() {
		o.Headers.Set(h[0], h[1])
	}
	if stream {
		o.Headers.Set("Accept", "text/event-stream")
	}
	o.ExtrasRequestProvider = func(body map[string]any) map[string]any {
		body["contents"] = contents
		return body
	}
	return o
}

// exchange is one request of the SDK and its response.
type exchange struct {
	call     *Call
	sent     bool
	response *http.Response
}

type exchangeKey struct{}

// sdk is the SDK's client for all calls: what differs between them, the key too, goes with the
// request, so that nothing of the environment, which the SDK reads when it creates a client, is ever
// sent.
var sdk = sync.OnceValues(func() (*genai.Client, error) {
	return genai.NewClient(context.Background(), &genai.ClientConfig{
		Backend: genai.BackendGeminiAPI, APIKey: "set for each request",
		HTTPClient:  &http.Client{Transport: exchanges{}},
		HTTPOptions: genai.HTTPOptions{BaseURL: "https://generativelanguage.googleapis.com"},
	})
})

// do sends a request.
func (x *exchange) do(ctx context.Context, config *genai.GenerateContentConfig, stream bool) error {
	client, err := sdk()
	if err != nil {
		return fault.Wrap(err, contract.ClassRuntime, contract.CodeUnknown, "cannot create Google's client for models")
	}
	name, with := x.call.Request.Choice.Model, context.WithValue(ctx, exchangeKey{}, x)
	if stream {
		for _, err = range client.Models.GenerateContentStream(with, name, nil, config) {
			if err != nil {
				break
			}
		}
	} else {
		_, err = client.Models.GenerateContent(with, name, nil, config)
	}
	if err != nil && !x.sent && ctx.Err() == nil {
		return fault.Wrap(err, contract.ClassConfig, contract.CodeBadRequest, "the request for model %q cannot be expressed in Gemini's API", name)
	}
	return err
}

// exchanges is the transport of the SDK's client.
type exchanges struct{}

// RoundTrip sends a request by the client of its call and keeps the response. The SDK gets an empty
// one in its place.
func (exchanges) RoundTrip(req *http.Request) (*http.Response, error) {
	x, _ := req.Context().Value(exchangeKey{}).(*exchange)
	x.sent = true
	req = req.Clone(req.Context()) // a RoundTripper must not change the request
	req.Header.Del("X-Goog-Api-Key")
	if x.call.Key != "" {
		req.Header.Set("X-Goog-Api-Key", x.call.Key)
	}
	resp, err := x.call.HTTP.Transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	x.response = resp
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("")), Request: req}, nil
}

// geminiRequest returns the request's body: the conversation, and everything else.
func geminiRequest(c *Call) (*genai.GenerateContentConfig, []geminiContent, error) {
	r := c.Request
	thinking, err := geminiThinking(c)
	if err != nil {
		return nil, nil, err
	}
	off := false
	config := &genai.GenerateContentConfig{
		MaxOutputTokens: int32(min(c.maxOutput(), math.MaxInt32)), //nolint:gosec // bounded
		ThinkingConfig:  thinking, AutomaticContinuation: &off,    // it would be a second request
	}
	messages := r.Messages
	if s := r.Schema; s != nil {
		if s.Strict && c.Entry.Can(model.CapabilityJSONSchema) && (len(r.Tools) == 0 || !beforeGemini3(r.Choice.Model)) {
			config.ResponseMIMEType, config.ResponseJsonSchema = "application/json", geminiSchema(s.JSON)
		} else {
			messages = withSchemaInWords(messages, s)
		}
	}
	if t := r.Choice.Temperature; t != nil && !c.Entry.Can(model.CapabilityFixedTemperature) {
		temperature := float32(*t)
		config.Temperature = &temperature
	}
	if len(r.Tools) > 0 {
		tool := &genai.Tool{}
		for _, t := range r.Tools {
			f, err := geminiFunction(t)
			if err != nil {
				return nil, nil, err
			}
			tool.FunctionDeclarations = append(tool.FunctionDeclarations, f)
		}
		config.Tools = []*genai.Tool{tool}
		if r.Strict { // in this mode, the API also enforces the schemas
			config.ToolConfig = &genai.ToolConfig{FunctionCallingConfig: &genai.FunctionCallingConfig{Mode: genai.FunctionCallingConfigModeAny}}
		}
	}
	conversation := geminiConversation{call: c}
	for _, m := range messages {
		conversation.add(m)
	}
	config.SystemInstruction = conversation.system
	return config, conversation.contents, nil
}

// before3 matches the models that lack what Gemini 3 introduced: levels of thinking, signatures that
// are required, tools together with a schema, and pictures inside the results of tools.
var before3 = regexp.MustCompile(`(^|/)(gemini-[12]|gemma)([.-]|$)`)

func beforeGemini3(name string) bool { return before3.MatchString(name) }

// thinkingBudgets are the tokens that Google's own endpoint for OpenAI clients sets for each effort.
var thinkingBudgets = map[contract.Effort]int32{contract.EffortLow: 1024, contract.EffortMedium: 8192, contract.EffortHigh: 24576}

// geminiThinking returns how much the model thinks, nil for its default.
func geminiThinking(c *Call) (*genai.ThinkingConfig, error) {
	effort, name := contract.Effort(c.effort()), c.Request.Choice.Model
	if effort == "" {
		return nil, nil //nolint:nilnil // no setting
	}
	budget, known := thinkingBudgets[effort]
	if !known {
		return nil, fault.New(contract.ClassConfig, contract.CodeBadRequest, "effort %q for model %q is not low, medium or high", effort, name)
	}
	if !beforeGemini3(name) {
		if effort == contract.EffortMedium && strings.Contains(name, "gemini-3-pro") { // it has only two levels
			effort = contract.EffortHigh
		}
		return &genai.ThinkingConfig{ThinkingLevel: genai.ThinkingLevel(strings.ToUpper(string(effort)))}, nil
	}
	if n := c.maxOutput(); n > 0 { // which includes what is thought
		budget = int32(min(int64(budget), max(n/2, int64(thinkingBudgets[contract.EffortLow])))) //nolint:gosec // bounded
	}
	return &genai.ThinkingConfig{ThinkingBudget: &budget}, nil
}

// geminiFunction describes a tool. In its strict mode too, the API accepts optional properties.
func geminiFunction(t model.Tool) (*genai.FunctionDeclaration, error) {
	parameters, err := geminiTools.of(t, false)
	if err != nil {
		return nil, err
	}
	return &genai.FunctionDeclaration{Name: t.Name, Description: t.Description, ParametersJsonSchema: parameters}, nil
}

// geminiTools has the schemas of tools for Gemini's API, encoded; nil for a tool without arguments.
var geminiTools = toolSchemas[any]{convert: func(t model.Tool, strict bool) (any, error) {
	schema, err := t.Schema(strict)
	if err != nil {
		return nil, err
	}
	if properties, _ := schema["properties"].(map[string]any); len(properties) == 0 {
		return nil, nil
	}
	return encoded(t, geminiSchema(t.Parameters))
}}
