package modelclient

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/model"
)

const geminiAnswer = `{"candidates":[{"content":{"role":"model","parts":[{"text":"ok"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":1,"candidatesTokenCount":1},"modelVersion":"m"}`

func geminiClient(t *testing.T, url string, entry model.CatalogueEntry, opts Options) *Client {
	t.Helper()
	entry.Provider, entry.Model = "p", "*"
	opts.Getenv = func(string) string { return "the-key" }
	c, err := New([]model.Provider{{Name: "p", Kind: model.KindGemini, BaseURL: strings.TrimSuffix(url, "/v1"), APIKeyEnv: "KEY", Headers: map[string]string{"X-Title": "rocket"}}},
		model.Catalogue{entry}, opts)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// sentGemini returns the request that a client of Gemini's API makes.
func sentGemini(t *testing.T, entry model.CatalogueEntry, req model.Request) recorded {
	t.Helper()
	var got recorded
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got.path, got.header = r.URL.Path+"?"+r.URL.RawQuery, r.Header.Clone()
		_ = json.NewDecoder(r.Body).Decode(&got.body)
		answer(http.StatusOK, geminiAnswer)(w, r)
	})
	_, err := geminiClient(t, url, entry, Options{}).Complete(t.Context(), req)
	require.NoError(t, err)
	return got
}

// in returns what is at a place in a document: names of members, and positions in lists.
func in(t *testing.T, doc any, place ...any) any {
	t.Helper()
	for _, at := range place {
		switch at := at.(type) {
		case string:
			require.IsType(t, map[string]any{}, doc, "%v", place)
			doc = doc.(map[string]any)[at]
		case int:
			require.IsType(t, []any{}, doc, "%v", place)
			require.Greater(t, len(doc.([]any)), at, "%v", place)
			doc = doc.([]any)[at]
		}
	}
	return doc
}

func TestGeminiGetsItsOwnHeadersAndLimits(t *testing.T) {
	t.Parallel()
	req := question()
	req.IdempotencyKey = "run-42/turn-1"
	temperature := 1.7
	req.Choice.Temperature = &temperature
	req.MaxOutput = 900
	got := sentGemini(t, model.CatalogueEntry{MaxOutput: 700}, req)
	require.Equal(t, "/v1beta/models/m:streamGenerateContent?alt=sse", got.path)
	for name, want := range map[string]string{
		"X-Goog-Api-Key": "the-key", "Authorization": "", "X-Title": "rocket", "X-RGPT-Run": "42", "X-RGPT-Agent": "planner",
		"Idempotency-Key": "run-42/turn-1", "User-Agent": "rocketgpt-orchestrator",
	} {
		require.Equal(t, want, got.header.Get(name), name)
	}
	generation := in(t, got.body, "generationConfig").(map[string]any)
	require.EqualValues(t, 700, generation["maxOutputTokens"])
	require.InDelta(t, 1.7, generation["temperature"], 1e-6)
	require.NotContains(t, generation, "thinkingConfig")
	require.Equal(t, []any{map[string]any{"text": "You are a planner."}}, in(t, got.body, "systemInstruction", "parts"))
	require.Equal(t, []any{map[string]any{"role": "user", "parts": []any{map[string]any{"text": "Add a dark mode."}}}}, got.body["contents"])

	req.MaxOutput = 0
	generation = in(t, sentGemini(t, model.CatalogueEntry{Capabilities: []model.Capability{model.CapabilityFixedTemperature}}, req).body, "generationConfig").(map[string]any)
	require.NotContains(t, generation, "temperature")
	require.NotContains(t, generation, "maxOutputTokens")
}

func TestGeminiIsFoundWithAndWithoutTheVersionInItsAddress(t *testing.T) {
	t.Parallel()
	for base, path := range map[string]string{
		"": "/v1beta/", "/": "/v1beta/", "/v1beta": "/v1beta/", "/v1beta/": "/v1beta/", "/v1alpha": "/v1alpha/", "/v1": "/v1/",
		"/proxy": "/proxy/v1beta/", "/proxy/v1beta": "/proxy/v1beta/",
	} {
		t.Run(base, func(t *testing.T) {
			t.Parallel()
			var paths []string
			url := strings.TrimSuffix(serve(t, func(w http.ResponseWriter, r *http.Request) {
				paths = append(paths, r.URL.Path)
				answer(http.StatusOK, geminiAnswer)(w, r)
			}), "/v1")
			c := newClient(t, model.Provider{Kind: model.KindGemini, BaseURL: url + base, APIKeyEnv: "KEY"}, Options{Getenv: func(string) string { return "k" }})
			_, err := c.Complete(t.Context(), question())
			require.NoError(t, err)
			require.NoError(t, c.Probe(t.Context(), "p"))
			require.Equal(t, []string{path + "models/m:streamGenerateContent", path + "models"}, paths)
		})
	}
}

func TestOnlyTheConfiguredKeyGoesToGemini(t *testing.T) {
	// Not parallel: it sets the process's environment.
	for _, name := range []string{"GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION"} {
		t.Setenv(name, canaryKey)
	}
	t.Setenv("GOOGLE_GENAI_USE_VERTEXAI", "true")
	t.Setenv("GOOGLE_GEMINI_BASE_URL", "http://127.0.0.1:1/never")
	got := sentGemini(t, model.CatalogueEntry{}, question())
	require.Equal(t, "/v1beta/models/m:streamGenerateContent?alt=sse", got.path)
	require.NotContains(t, fmt.Sprint(got), canaryKey)
	require.Equal(t, []string{"the-key"}, got.header.Values("X-Goog-Api-Key"))
}

func TestAModelWhoseNameIsNoNameIsRefused(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"../files/x", "m?key=x", "a&b"} {
		req := question()
		req.Choice.Model = name
		url := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") })
		_, err := geminiClient(t, url, model.CatalogueEntry{}, Options{}).Complete(t.Context(), req)
		_ = requireFault(t, err, contract.ClassConfig, contract.CodeBadRequest)
	}
}

func TestGeminiGetsSchemasInTheFormThatItSupports(t *testing.T) {
	t.Parallel()
	schema := model.SchemaOf[struct {
		Reason string `json:"reason" jsonschema:"maxLength=5,description=a word"`
		Count  int    `json:"count" jsonschema:"minimum=1"`
		Kind   string `json:"kind" jsonschema:"enum=b,enum=a"`
	}]()
	withSchema := model.CatalogueEntry{Capabilities: []model.Capability{model.CapabilityJSONSchema}}
	req := question()
	req.Schema = &schema
	generation := in(t, sentGemini(t, withSchema, req).body, "generationConfig")
	require.Equal(t, "application/json", in(t, generation, "responseMimeType"))
	sent := in(t, generation, "responseJsonSchema")
	require.Equal(t, map[string]any{"type": "string", "description": "a word (maxLength: 5)"}, in(t, sent, "properties", "reason"))
	require.Equal(t, map[string]any{"type": "integer", "minimum": 1.0}, in(t, sent, "properties", "count"))
	require.Equal(t, map[string]any{"type": "string", "enum": []any{"b", "a"}}, in(t, sent, "properties", "kind"))
	require.Equal(t, []any{"reason", "count", "kind"}, in(t, sent, "propertyOrdering"), "the model reasons first")
	require.Equal(t, false, in(t, sent, "additionalProperties"))

	body := sentGemini(t, model.CatalogueEntry{}, req).body
	require.NotContains(t, in(t, body, "generationConfig"), "responseJsonSchema")
	require.Contains(t, in(t, body, "systemInstruction", "parts", 0, "text"), "Respond with one JSON document")

	req.Tools = []model.Tool{{Name: "read"}}
	require.Contains(t, in(t, sentGemini(t, withSchema, req).body, "generationConfig"), "responseJsonSchema")
	req.Choice.Model = "gemini-2.5-flash"
	body = sentGemini(t, withSchema, req).body
	require.NotContains(t, in(t, body, "generationConfig"), "responseMimeType", "this model rejects it together with tools")
	require.Contains(t, in(t, body, "systemInstruction", "parts", 0, "text"), "Respond with one JSON document")
}

func TestGeminiGetsToolsAndIsHeldToThem(t *testing.T) {
	t.Parallel()
	req := question()
	req.Tools = []model.Tool{
		{Name: "finish", Description: "ends"},
		{Name: "read", Parameters: json.RawMessage(`{"$schema":"https://json-schema.org/draft-07/schema","type":"object","required":["pattern"],
			"properties":{"pattern":{"type":"string","pattern":"^a","format":"uri"},"at":{"$ref":"#/definitions/at","description":"x"},"exact":{"const":"yes"},"when":{"type":["string","null"],"format":"date"},"any":true},
			"allOf":[{"required":["at"]}],"definitions":{"at":{"anyOf":[{"type":"integer","exclusiveMinimum":0},{"type":"array","items":{"type":"integer","multipleOf":2}}]}}}`)},
	}
	body := sentGemini(t, model.CatalogueEntry{}, req).body
	require.NotContains(t, body, "toolConfig")
	require.Equal(t, map[string]any{"name": "finish", "description": "ends"}, in(t, body, "tools", 0, "functionDeclarations", 0))
	schema := in(t, body, "tools", 0, "functionDeclarations", 1, "parametersJsonSchema").(map[string]any)
	require.Equal(t, []any{"pattern"}, schema["required"], "optional properties stay optional")
	require.Equal(t, `(allOf: [{"required":["at"]}])`, schema["description"])
	require.NotContains(t, schema, "$schema")
	require.Equal(t, map[string]any{
		"pattern": map[string]any{"type": "string", "description": `(pattern: "^a", format: "uri")`},
		"at":      map[string]any{"$ref": "#/$defs/at"}, "exact": map[string]any{"enum": []any{"yes"}},
		"when": map[string]any{"type": []any{"string", "null"}, "format": "date"}, "any": true,
	}, schema["properties"], "whatever a property is called")
	require.Equal(t, map[string]any{"at": map[string]any{"anyOf": []any{
		map[string]any{"type": "integer", "description": "(exclusiveMinimum: 0)"},
		map[string]any{"type": "array", "items": map[string]any{"type": "integer", "description": "(multipleOf: 2)"}},
	}}}, schema["$defs"])

	req.Strict = true
	require.Equal(t, "ANY", in(t, sentGemini(t, model.CatalogueEntry{}, req).body, "toolConfig", "functionCallingConfig", "mode"))
}

func TestAConversationTakesTheFormThatGeminiRequires(t *testing.T) {
	t.Parallel()
	req := question()
	req.Messages = append(req.Messages,
		model.Message{Role: model.RoleAssistant, Text: " ", ToolCalls: []model.ToolCall{
			{ID: "functions.read:0", Name: "read", Arguments: `{"n":12345678901234567890}`}, {ID: "rgpt_1", Name: "list", Arguments: `{"z":1,"a":2}`}, {ID: "b", Name: "read", Arguments: "{"},
		}},
		model.Message{Role: model.RoleTool, ToolCallID: "functions.read:0", Text: "one"}, model.Message{Role: model.RoleTool, ToolCallID: "rgpt_1"},
		model.Message{Role: model.RoleTool, ToolCallID: "b", Text: "no JSON"}, model.Message{Role: model.RoleTool, ToolCallID: "unknown", Text: "late"},
		model.Message{Role: model.RoleUser, Text: ""}, model.Message{Role: model.RoleUser, Text: "go on"}, model.Message{Role: model.RoleSystem, Text: "a later rule"})
	var raw struct {
		Contents []struct {
			Role  string
			Parts []json.RawMessage
		}
	}
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewDecoder(r.Body).Decode(&raw)
		answer(http.StatusOK, geminiAnswer)(w, r)
	})
	send := func(name string) [][]string {
		req.Choice.Model = name
		_, err := geminiClient(t, url, model.CatalogueEntry{}, Options{}).Complete(t.Context(), req)
		require.NoError(t, err)
		var all [][]string
		for i, c := range raw.Contents {
			require.Equal(t, []string{"user", "model"}[i%2], c.Role, "both sides in turn")
			parts := []string{}
			for _, p := range c.Parts {
				parts = append(parts, string(p))
			}
			all = append(all, parts)
		}
		return all
	}
	results := []string{
		`{"functionResponse":{"id":"functions.read:0","name":"read","response":{"output":"one"}}}`, `{"functionResponse":{"name":"list","response":{"output":""}}}`,
		`{"functionResponse":{"id":"b","name":"read","response":{"output":"no JSON"}}}`, `{"text":"late"}`, `{"text":"go on"}`, `{"text":"a later rule"}`,
	}
	require.Equal(t, [][]string{{`{"text":"Add a dark mode."}`}, {
		`{"functionCall":{"id":"functions.read:0","name":"read","args":{"n":12345678901234567890}}}`, `{"functionCall":{"name":"list","args":{"z":1,"a":2}}}`, `{"functionCall":{"id":"b","name":"read","args":{}}}`,
	}, results}, send("gemini-2.5-pro"), "as the models wrote it, and no texts of white space")
	require.Equal(t, []string{
		`{"functionCall":{"id":"functions.read:0","name":"read","args":{"n":12345678901234567890}},"thoughtSignature":"skip_thought_signature_validator"}`,
	}, send("gemini-3-pro-preview")[1][:1], "this model requires a signature, and has none for the call of another")
}

func TestWhatGeminiSignedIsKeptForItselfOnly(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"gemini-3-flash", "gemini-2.5-flash", "m"} {
		for form, stream := range map[string]bool{"streamed": true, "in one piece": false} {
			t.Run(name+" "+form, func(t *testing.T) {
				t.Parallel()
				c, _ := wireClient(t, geminiWire, readsOn)
				if !stream {
					c.providers["p"].complete.Store(name, true)
				}
				req := question()
				req.Choice.Model = name
				for range 3 { // turns of tools
					r, err := c.Complete(t.Context(), req)
					require.NoError(t, err)
					require.Len(t, r.ToolCalls, 2)
					require.NotEqual(t, r.ToolCalls[0].ID, r.ToolCalls[1].ID)
					require.Equal(t, "next", r.Text)
					req.Messages = append(req.Messages, r.Message(), model.Message{Role: model.RoleTool, ToolCallID: r.ToolCalls[0].ID, Text: "a"}, model.Message{Role: model.RoleTool, ToolCallID: r.ToolCalls[1].ID, Text: "b"})
					stored, err := json.Marshal(req.Messages) // as the database keeps it
					require.NoError(t, err)
					req.Messages = nil
					require.NoError(t, json.Unmarshal(stored, &req.Messages))
				}
				_, err := c.Complete(t.Context(), req)
				require.NoError(t, err, "the provider checks the signatures")

				kept := req.Messages[2].Reasoning
				signature := in(t, decoded(t, kept.Items), 1, "signature").(string)
				forged := *kept
				forged.Items = json.RawMessage(strings.Replace(string(kept.Items), signature[:8], "AAAAAAAA", 1))
				req.Messages[2].Reasoning = &forged
				_, err = c.Complete(t.Context(), req)
				f := requireFault(t, err, contract.ClassConfig, contract.CodeBadRequest)
				require.Contains(t, f.Message, "Corrupted thought signature")
				req.Messages[2].Reasoning = kept

				req.Choice.Model = "gemini-3-other"
				_, err = c.Complete(t.Context(), req)
				require.NoError(t, err, "another model gets none of it")
				other, _ := wireClient(t, chatWire, readsOn)
				_, err = other.Complete(t.Context(), req)
				require.NoError(t, err)
			})
		}
	}
}

func decoded(t *testing.T, raw json.RawMessage) any {
	t.Helper()
	var doc any
	require.NoError(t, json.Unmarshal(raw, &doc))
	return doc
}

func TestSignedPartsOfGeminiGoBackAsTheyCame(t *testing.T) {
	t.Parallel()
	parts := []string{
		`{"text":"hm","thought":true}`, `{"text":"","thought":true,"thoughtSignature":"VA=="}`, `{"text":"let "}`, `{"text":"me"}`, `{"text":"","thoughtSignature":"Vg=="}`,
		`{"functionCall":{"id":"x","name":"read","args":{"b":1.0,"a":"<é>"}},"thoughtSignature":"Yw=="}`, `{"functionCall":{"id":"y","name":"read"}}`, `{"text":"after","thoughtSignature":"ZA=="}`,
	}
	var chunks []string
	for _, p := range parts {
		chunks = append(chunks, `{"candidates":[{"content":{"parts":[`+p+`]}}]}`)
	}
	chunks = append(chunks, `{"candidates":[{"finishReason":"STOP"}]}`)
	var body struct {
		Contents []struct{ Parts []json.RawMessage }
	}
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewDecoder(r.Body).Decode(&body)
		events(chunks...)(w, r)
	})
	c := geminiClient(t, url, model.CatalogueEntry{}, Options{})
	req := question()
	r, err := c.Complete(t.Context(), req)
	require.NoError(t, err)
	require.Equal(t, "let meafter", r.Text)
	require.Equal(t, []model.ToolCall{{ID: "x", Name: "read", Arguments: `{"b":1.0,"a":"<é>"}`}, {ID: "y", Name: "read", Arguments: "{}"}}, r.ToolCalls)
	turn := func(m model.Message) (all []string) {
		req.Messages = append(question().Messages, m)
		_, err := c.Complete(t.Context(), req)
		require.NoError(t, err)
		for _, p := range body.Contents[1].Parts {
			all = append(all, string(p))
		}
		return all
	}
	require.Equal(t, []string{
		parts[1], `{"text":"let me"}`, parts[4], parts[5], `{"functionCall":{"id":"y","name":"read","args":{}}}`, parts[7],
	}, ordered(turn(r.Message())))
	for _, text := range []string{"shorter", "a text that is longer than the one before"} {
		changed := r.Message()
		changed.Text = text
		require.Equal(t, []string{
			`{"text":"` + text + `"}`, strings.Replace(parts[5], "Yw==", "skip_thought_signature_validator", 1), `{"functionCall":{"id":"y","name":"read","args":{}}}`,
		}, ordered(turn(changed)), "a turn that changed since has no signatures")
	}
	fewer := r.Message()
	fewer.ToolCalls = fewer.ToolCalls[:1]
	require.NotContains(t, strings.Join(turn(fewer), " "), "Yw==")
	fewer.ToolCalls = append(r.Message().ToolCalls, model.ToolCall{ID: "z", Name: "read", Arguments: "{}"})
	require.NotContains(t, strings.Join(turn(fewer), " "), "Yw==")
}

// ordered writes escapes of HTML as they were received.
func ordered(parts []string) []string {
	for i := range parts {
		parts[i] = strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(parts[i])
	}
	return parts
}

func TestEffortIsExpressedAsEachGeminiModelExpectsIt(t *testing.T) {
	t.Parallel()
	able := []model.Capability{model.CapabilityEffort}
	for name, c := range map[string]struct {
		model  string
		effort contract.Effort
		entry  model.CatalogueEntry
		want   any
	}{
		"2.5, low":             {"gemini-2.5-flash", contract.EffortLow, model.CatalogueEntry{Capabilities: able}, map[string]any{"thinkingBudget": 1024.0}},
		"2.5, medium":          {"gemini-2.5-pro", contract.EffortMedium, model.CatalogueEntry{Capabilities: able}, map[string]any{"thinkingBudget": 8192.0}},
		"2.5, high":            {"models/gemini-2.5-flash-lite", contract.EffortHigh, model.CatalogueEntry{Capabilities: able}, map[string]any{"thinkingBudget": 24576.0}},
		"2.5, little output":   {"gemini-2.5-pro", contract.EffortHigh, model.CatalogueEntry{Capabilities: able, MaxOutput: 8000}, map[string]any{"thinkingBudget": 4000.0}},
		"3, low":               {"gemini-3-pro-preview", contract.EffortLow, model.CatalogueEntry{Capabilities: able}, map[string]any{"thinkingLevel": "LOW"}},
		"3 Pro, medium":        {"gemini-3-pro-preview", contract.EffortMedium, model.CatalogueEntry{Capabilities: able}, map[string]any{"thinkingLevel": "HIGH"}},
		"3.1 Pro, medium":      {"gemini-3.1-pro-preview", contract.EffortMedium, model.CatalogueEntry{Capabilities: able}, map[string]any{"thinkingLevel": "MEDIUM"}},
		"3 Flash, high":        {"gemini-3-flash", contract.EffortHigh, model.CatalogueEntry{Capabilities: able}, map[string]any{"thinkingLevel": "HIGH"}},
		"a later one":          {"gemini-4-x", contract.EffortMedium, model.CatalogueEntry{Capabilities: able}, map[string]any{"thinkingLevel": "MEDIUM"}},
		"the default":          {"gemini-3-flash", "", model.CatalogueEntry{Capabilities: able}, nil},
		"none to set":          {"gemini-3-flash", contract.EffortHigh, model.CatalogueEntry{}, nil},
		"none to set, old one": {"gemini-2.0-flash", contract.EffortHigh, model.CatalogueEntry{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := question()
			req.Choice.Model, req.Choice.Effort, req.MaxOutput = c.model, c.effort, c.entry.MaxOutput
			require.Equal(t, c.want, in(t, sentGemini(t, c.entry, req).body, "generationConfig", "thinkingConfig"))

			s, _ := wireClient(t, geminiWire, "rules:\n  - reply: {text: fine}\n")
			s.SetCatalogue(model.Catalogue{{Provider: "p", Model: "*", MaxOutput: c.entry.MaxOutput, Capabilities: c.entry.Capabilities}})
			_, err := s.Complete(t.Context(), req)
			require.NoError(t, err, "the provider accepts it")
		})
	}
}

func TestPicturesReachTheGeminiModelsThatSeeThem(t *testing.T) {
	t.Parallel()
	sees := model.CatalogueEntry{Capabilities: []model.Capability{model.CapabilityVision}}
	req := question()
	req.Messages[1].Images = []model.Image{{MediaType: "image/png", Data: []byte("one")}, {MediaType: "image/gif", Data: []byte("four")}}
	req.Messages = append(req.Messages,
		model.Message{Role: model.RoleAssistant, ToolCalls: []model.ToolCall{{ID: "a", Name: "look", Arguments: "{}"}, {ID: "b", Name: "look", Arguments: "{}"}}},
		model.Message{Role: model.RoleTool, ToolCallID: "a", Text: "a shot", Images: []model.Image{{MediaType: "image/jpeg", Data: []byte("two")}}},
		model.Message{Role: model.RoleTool, ToolCallID: "b", Text: "none"})
	one, two := map[string]any{"mimeType": "image/png", "data": "b25l"}, map[string]any{"mimeType": "image/jpeg", "data": "dHdv"}

	body := sentGemini(t, sees, req).body
	require.Equal(t, []any{
		map[string]any{"text": "Add a dark mode.\n\n[a picture is left out: you cannot see GIF]"}, map[string]any{"inlineData": one},
	}, in(t, body, "contents", 0, "parts"))
	require.Equal(t, []any{map[string]any{"inlineData": two}}, in(t, body, "contents", 2, "parts", 0, "functionResponse", "parts"))

	req.Choice.Model = "gemini-2.5-flash"
	body = sentGemini(t, sees, req).body
	require.NotContains(t, in(t, body, "contents", 2, "parts", 0, "functionResponse"), "parts")
	require.Equal(t, map[string]any{"inlineData": two}, in(t, body, "contents", 2, "parts", 1), "next to the result")
	require.Equal(t, "none", in(t, body, "contents", 2, "parts", 2, "functionResponse", "response", "output"))

	body = sentGemini(t, model.CatalogueEntry{}, req).body
	require.NotContains(t, fmt.Sprint(body), "inlineData")
	require.Equal(t, "a shot\n\n[a picture is left out, because you cannot see pictures: JPEG, 3 bytes]", in(t, body, "contents", 2, "parts", 0, "functionResponse", "response", "output"))

	for _, name := range []string{"gemini-3-flash", "gemini-2.5-flash"} {
		req.Choice.Model = name
		s, _ := wireClient(t, geminiWire, "rules:\n  - when: {contains: a shot}\n    reply: {text: fine}\n")
		s.SetCatalogue(model.Catalogue{{Provider: "p", Model: "*", Capabilities: sees.Capabilities}})
		_, err := s.Complete(t.Context(), req)
		require.NoError(t, err, "the provider accepts them")
	}
}

// geminiStream is a response with every kind of part.
var geminiStream = []string{
	`{"candidates":[{"content":{"role":"model","parts":[{"text":"thinking","thought":true}]},"index":0}],"usageMetadata":{"promptTokenCount":30,"totalTokenCount":30},"modelVersion":"m-1","responseId":"r1"}`,
	`{"candidates":[{"content":{"role":"model","parts":[{"text":"Hel"}]},"index":0}],"usageMetadata":{"promptTokenCount":30,"candidatesTokenCount":1,"thoughtsTokenCount":12}}`,
	`{"candidates":[{"content":{"role":"model","parts":[{"text":"lo"}]},"index":0},{"content":{"parts":[{"text":"another"}]},"index":1}]}`,
	`{"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"name":"read","args":{"p":1}},"thoughtSignature":"YWJj"}]},"index":0}]}`,
	`{"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"name":"read","args":{"p":2}}}]},"index":0}]}`,
	`{"somethingNew":{"x":1}}`,
	`{"candidates":[{"content":{"role":"model","parts":[{"text":""}]},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":30,"cachedContentTokenCount":20,"candidatesTokenCount":18,"thoughtsTokenCount":12,"toolUsePromptTokenCount":5,"totalTokenCount":65}}`,
}

func TestAStreamOfGeminiIsReadEventByEvent(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]http.HandlerFunc{
		"events": events(geminiStream...),
		"a list": answer(http.StatusOK, "["+strings.Join(geminiStream, ",\n")+"]"),
		"with comments": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = w.Write([]byte(": wait\r\n\r\ndata: " + strings.Join(geminiStream, "\r\n\r\n: wait\r\n\r\ndata: ") + "\r\n\r\n"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := geminiClient(t, serve(t, h), model.CatalogueEntry{}, Options{}).Complete(t.Context(), question())
			require.NoError(t, err)
			require.Equal(t, "Hello", r.Text)
			require.Equal(t, "m-1", r.Model)
			require.Len(t, r.ToolCalls, 2)
			for i, call := range r.ToolCalls {
				require.Equal(t, fmt.Sprintf(`{"p":%d}`, i+1), call.Arguments)
				require.Regexp(t, "^rgpt_[0-9a-f]{20}$", call.ID)
			}
			require.NotEqual(t, r.ToolCalls[0].ID, r.ToolCalls[1].ID)
			require.Equal(t, "tool_calls", r.FinishReason)
			require.JSONEq(t, `[{"text":5},{"call":true,"signature":"YWJj"},{"call":true}]`, string(r.Reasoning.Items))
			require.Equal(t, contract.Usage{Calls: 1, PromptTokens: 35, CachedTokens: 20, CompletionTokens: 30, ReasoningTokens: 12}, r.Usage)
		})
	}
}

func TestAStreamOfGeminiThatBreaksIsNeverAnAnswer(t *testing.T) {
	t.Parallel()
	for n := range geminiStream {
		for name, c := range map[string]struct {
			rest  []string
			class contract.Class
			code  contract.Code
		}{
			"ends":          {nil, contract.ClassInfra, contract.CodeUnavailable},
			"is overloaded": {[]string{`{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}`}, contract.ClassInfra, contract.CodeUnavailable},
			"is limited":    {[]string{`{"error":{"code":429,"message":"Resource has been exhausted","status":"RESOURCE_EXHAUSTED"}}`}, contract.ClassInfra, contract.CodeRateLimited},
			"is garbage":    {[]string{`{"candidates":[{"content":`}, contract.ClassLLM, contract.CodeInvalidOutput},
			"is blocked":    {[]string{`{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"}}`}, contract.ClassLLM, contract.CodeRefusal},
		} {
			t.Run(fmt.Sprintf("after %d events it %s", n, name), func(t *testing.T) {
				t.Parallel()
				url := serve(t, events(append(append([]string{}, geminiStream[:n]...), c.rest...)...))
				_, err := geminiClient(t, url, model.CatalogueEntry{}, Options{}).Complete(t.Context(), question())
				_ = requireFault(t, err, c.class, c.code)
			})
		}
	}
}

func TestWhyGeminiEndedDecidesWhatTheAnswerIs(t *testing.T) {
	t.Parallel()
	for reason, code := range map[string]contract.Code{
		"STOP": "", "MAX_TOKENS": contract.CodeTruncated, "CONTINUATION": contract.CodeTruncated,
		"SAFETY": contract.CodeRefusal, "RECITATION": contract.CodeRefusal, "PROHIBITED_CONTENT": contract.CodeRefusal, "BLOCKLIST": contract.CodeRefusal, "SPII": contract.CodeRefusal, "LANGUAGE": contract.CodeRefusal,
		"MALFORMED_FUNCTION_CALL": contract.CodeInvalidOutput, "UNEXPECTED_TOOL_CALL": contract.CodeInvalidOutput, "OTHER": contract.CodeInvalidOutput, "SOMETHING_NEW": contract.CodeInvalidOutput,
	} {
		for form, h := range map[string]func(...string) http.HandlerFunc{
			"streamed": events, "in one piece": func(all ...string) http.HandlerFunc { return answer(http.StatusOK, all[0]) },
		} {
			t.Run(reason+" "+form, func(t *testing.T) {
				t.Parallel()
				url := serve(t, h(`{"candidates":[{"content":{"parts":[{"text":"so far"}]},"finishReason":"`+reason+`"}],"usageMetadata":{"promptTokenCount":7,"candidatesTokenCount":3}}`))
				r, err := geminiClient(t, url, model.CatalogueEntry{PriceIn: 1, PriceOut: 2}, Options{}).Complete(t.Context(), question())
				if code == "" {
					require.NoError(t, err)
				} else {
					_ = requireFault(t, err, contract.ClassLLM, code)
				}
				require.Equal(t, "so far", r.Text)
				require.Equal(t, contract.Usage{Calls: 1, PromptTokens: 7, CompletionTokens: 3, MicroUSD: 13}, r.Usage, "it costs as much")
			})
		}
	}
	_, err := geminiClient(t, serve(t, answer(http.StatusOK, `{"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":7}}`)), model.CatalogueEntry{}, Options{}).Complete(t.Context(), question())
	_ = requireFault(t, err, contract.ClassLLM, contract.CodeRefusal)
	for _, empty := range []string{`{}`, `[]`, `{"candidates":[]}`, `"text"`, `[1]`, `{"usageMetadata":{"promptTokenCount":7}}`} {
		_, err = geminiClient(t, serve(t, answer(http.StatusOK, empty)), model.CatalogueEntry{}, Options{}).Complete(t.Context(), question())
		_ = requireFault(t, err, contract.ClassLLM, contract.CodeInvalidOutput)
	}
}

func TestHostileAnswersOfGeminiAreBounded(t *testing.T) {
	t.Parallel()
	const part = `{"candidates":[{"content":{"parts":[%s]}}]}`
	long := strings.Repeat("x", 9000)
	repeated := func(s string) (all []string) {
		for range 200 {
			all = append(all, fmt.Sprintf(part, s))
		}
		return all
	}
	for name, all := range map[string][]string{
		"endless empty parts":  repeated(`{"text":""}`),
		"endless calls":        repeated(`{"functionCall":{"name":""}}`),
		"endless signatures":   repeated(`{"text":"","thoughtSignature":"eA=="}`),
		"a long text":          {fmt.Sprintf(part, `{"text":"`+long+`"}`)},
		"a long thought":       {fmt.Sprintf(part, `{"thought":true,"text":"`+long+`"}`)},
		"a long signature":     {fmt.Sprintf(part, `{"text":"x","thoughtSignature":"`+long+`"}`)},
		"long arguments":       {fmt.Sprintf(part, `{"functionCall":{"name":"f","args":{"a":"`+long+`"}}}`)},
		"a long name":          {fmt.Sprintf(part, `{"functionCall":{"name":"`+long+`"}}`)},
		"a text in many parts": {fmt.Sprintf(part, strings.TrimSuffix(strings.Repeat(`{"text":"yyyyyyyyyy"},`, 900), ","))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := geminiClient(t, serve(t, events(all...)), model.CatalogueEntry{}, Options{MaxResponse: 8000}).Complete(t.Context(), question())
			_ = requireFault(t, err, contract.ClassLLM, contract.CodeTruncated)
		})
	}
	absurd := `{"candidates":[{"content":{"parts":[{"text":"ok"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":-4,"cachedContentTokenCount":9223372036854775807,"candidatesTokenCount":9223372036854775807,"thoughtsTokenCount":9223372036854775807,"toolUsePromptTokenCount":9}}`
	r, err := geminiClient(t, serve(t, answer(http.StatusOK, absurd)), model.CatalogueEntry{PriceOut: 1}, Options{}).Complete(t.Context(), question())
	require.NoError(t, err)
	require.Equal(t, []int64{9, 9}, []int64{r.Usage.PromptTokens, r.Usage.CachedTokens})
	require.Equal(t, int64(1)<<40, r.Usage.CompletionTokens)
	require.Positive(t, r.Usage.MicroUSD)
}

func TestErrorsInGooglesFormAreUnderstood(t *testing.T) {
	t.Parallel()
	failure := func(code int, status, message, details string) string {
		return fmt.Sprintf(`{"error":{"code":%d,"message":%q,"status":%q,"details":[%s]}}`, code, message, status, details)
	}
	quota := func(id string) string {
		return `{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"` + id + `"}]}`
	}
	const exceeded = "You exceeded your current quota, please check your plan and billing details."
	const retry = `,{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"%s"}`
	for name, c := range map[string]struct {
		status int
		body   string
		class  contract.Class
		code   contract.Code
		after  time.Duration
	}{
		"a limit per minute": {429, failure(429, "RESOURCE_EXHAUSTED", exceeded, quota("GenerateRequestsPerMinutePerProjectPerModel")+fmt.Sprintf(retry, "20.5s")), contract.ClassInfra, contract.CodeRateLimited, 20500 * time.Millisecond},
		"a list":             {429, "[" + failure(429, "RESOURCE_EXHAUSTED", exceeded, quota("GenerateRequestsPerMinutePerProjectPerModel")+fmt.Sprintf(retry, "3s")) + "]", contract.ClassInfra, contract.CodeRateLimited, 3 * time.Second},
		"an absurd delay":    {429, failure(429, "RESOURCE_EXHAUSTED", exceeded, quota("GenerateRequestsPerMinutePerProjectPerModel")+fmt.Sprintf(retry, "900000s")), contract.ClassInfra, contract.CodeRateLimited, MaxRetryAfter},
		"no delay":           {429, failure(429, "RESOURCE_EXHAUSTED", "Resource has been exhausted (e.g. check quota).", ""), contract.ClassInfra, contract.CodeRateLimited, 0},
		"a broken delay":     {429, failure(429, "RESOURCE_EXHAUSTED", exceeded, quota("GenerateRequestsPerMinutePerProjectPerModel")+fmt.Sprintf(retry, "soon")), contract.ClassInfra, contract.CodeRateLimited, 0},
		"the day's quota":    {429, failure(429, "RESOURCE_EXHAUSTED", exceeded, quota("GenerateRequestsPerDayPerProjectPerModel-FreeTier")+fmt.Sprintf(retry, "41s")), contract.ClassInfra, contract.CodeQuotaExhausted, 0},
		"no free tier":       {429, failure(429, "RESOURCE_EXHAUSTED", exceeded+"\n* Quota exceeded for metric: x, limit: 0, model: m", strings.TrimPrefix(fmt.Sprintf(retry, "41s"), ",")), contract.ClassInfra, contract.CodeQuotaExhausted, 0},
		"overloaded":         {503, failure(503, "UNAVAILABLE", "The model is overloaded.", strings.TrimPrefix(fmt.Sprintf(retry, "2s"), ",")), contract.ClassInfra, contract.CodeUnavailable, 2 * time.Second},
		"too many tokens":    {400, failure(400, "INVALID_ARGUMENT", "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).", ""), contract.ClassLLM, contract.CodeContextOverflow, 0},
		"a wrong key":        {400, failure(400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.", `{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID"}`), contract.ClassConfig, contract.CodeUnauthorized, 0},
		"an expired key":     {400, failure(400, "INVALID_ARGUMENT", "API key expired. Please renew the API key.", `{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID"}`), contract.ClassConfig, contract.CodeUnauthorized, 0},
		"no permission":      {403, failure(403, "PERMISSION_DENIED", "denied", ""), contract.ClassConfig, contract.CodeUnauthorized, 0},
		"no such model":      {404, failure(404, "NOT_FOUND", "models/m is not found for API version v1beta, or is not supported for generateContent.", ""), contract.ClassConfig, contract.CodeModelNotFound, 0},
		"a bad argument":     {400, failure(400, "INVALID_ARGUMENT", "Please use a valid role: user, model.", ""), contract.ClassConfig, contract.CodeBadRequest, 0},
		"too slow":           {504, failure(504, "DEADLINE_EXCEEDED", "Deadline expired before operation could complete.", ""), contract.ClassInfra, contract.CodeTimeout, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requests := 0
			url := serve(t, func(w http.ResponseWriter, r *http.Request) {
				requests++
				answer(c.status, c.body)(w, r)
			})
			_, err := geminiClient(t, url, model.CatalogueEntry{}, Options{}).Complete(t.Context(), question())
			f := requireFault(t, err, c.class, c.code)
			require.Equal(t, c.after, f.RetryAfter)
			require.Zero(t, f.Wait)
			require.Equal(t, 1, requests, "the client never tries again")
		})
	}
}

func TestGeminiErrorsHoldNoKey(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]http.HandlerFunc{
		"echoed": func(w http.ResponseWriter, r *http.Request) {
			answer(400, `{"error":{"code":400,"message":"bad key `+r.Header.Get("X-Goog-Api-Key")+`"}}`)(w, r)
		},
		"as broken JSON": func(w http.ResponseWriter, r *http.Request) {
			events(`{"candidates": `+r.Header.Get("X-Goog-Api-Key"))(w, r)
		},
		"no answer": breakConnection,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := strings.TrimSuffix(strings.Replace(serve(t, h), "http://", "http://"+canaryUser+":canary@", 1), "/v1")
			c := newClient(t, model.Provider{Kind: model.KindGemini, BaseURL: url, APIKeyEnv: "KEY"}, Options{Getenv: func(string) string { return canaryKey }})
			_, err := c.Complete(t.Context(), question())
			require.Error(t, err)
			requireNoCanary(t, everywhere(t, err))
		})
	}
}
