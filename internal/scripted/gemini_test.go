package scripted

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// postGemini sends a request of Gemini's API and returns status and body.
func postGemini(t *testing.T, url, call, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1beta/models/"+call, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("X-Goog-Api-Key", "a-key")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(data)
}

func TestTheScriptedModelRejectsWhatGeminiRejects(t *testing.T) {
	t.Parallel()
	url := serveFine(t)
	part := func(role string, parts ...string) string {
		return `{"role":"` + role + `","parts":[` + strings.Join(parts, ",") + `]}`
	}
	call := func(name, more string) string {
		return `{"functionCall":{"name":"` + name + `","args":{}}` + more + `}`
	}
	result := func(name string) string {
		return `{"functionResponse":{"name":"` + name + `","response":{"output":"x"}}}`
	}
	text := func(s string) string { return `{"text":"` + s + `"}` }
	request := func(more string, contents ...string) string {
		return `{"contents":[` + strings.Join(contents, ",") + `]` + more + `}`
	}
	user := part("user", text("hi"))
	skip := `,"thoughtSignature":"skip_thought_signature_validator"`
	own := `,"thoughtSignature":"` + geminiSignature("gemini-3-x", &geminiCall{Name: "f", Args: json.RawMessage("{}")}) + `"`
	const count = "number of function response parts is equal"
	tool := func(schema string) string {
		return `,"tools":[{"functionDeclarations":[{"name":"f","parametersJsonSchema":` + schema + `}]}]`
	}
	const asJSON = `,"generationConfig":{"responseMimeType":"application/json","responseJsonSchema":`
	for name, c := range map[string]struct{ model, body, says string }{
		"fine":                                {"gemini-3-x", request(`,"systemInstruction":{"parts":[{"text":"be good"}]}`+tool(`{"type":"object","properties":{"maxLength":{"type":"string"}}}`), user, part("model", call("f", own), call("g", "")), part("user", result("f"), result("g"))), ""},
		"fine, without signatures":            {"gemini-2.5-pro", request("", user, part("model", call("f", "")), part("user", result("f"))), ""},
		"fine, signed by another":             {"gemini-3-x", request("", user, part("model", call("f", skip)), part("user", result("f"))), ""},
		"fine, unsigned in an earlier turn":   {"gemini-3-x", request("", user, part("model", call("f", "")), part("user", result("f")), part("model", text("done")), user), ""},
		"no contents":                         {"m", `{}`, "contents is not specified"},
		"an unknown field":                    {"m", request(`,"messages":[]`, user), "Cannot find field"},
		"an unknown field in a part":          {"m", request("", part("user", `{"text":"x","citation":1}`)), "Cannot find field"},
		"an unknown role":                     {"m", request("", part("assistant", text("hi"))), "valid role"},
		"the model first":                     {"m", request("", part("model", call("f", skip)), part("user", result("f"))), "immediately after a user turn"},
		"one side twice":                      {"m", request("", user, user), "alternate"},
		"nothing said":                        {"m", request("", part("user")), "parts must not be empty"},
		"an empty text":                       {"m", request("", part("user", text(""))), "must have one initialized field"},
		"two things in a part":                {"m", request("", part("user", `{"text":"x","inlineData":{"mimeType":"image/png","data":"eA=="}}`)), "must have one initialized field"},
		"a call without its result":           {"m", request("", user, part("model", call("f", skip), call("g", "")), part("user", result("f"))), count},
		"a call at the end":                   {"m", request("", user, part("model", call("f", skip))), count},
		"a result without its call":           {"m", request("", user, part("model", text("x")), part("user", result("f"))), count},
		"a result of another tool":            {"m", request("", user, part("model", call("f", skip)), part("user", result("g"))), "match the function call parts"},
		"results in another order":            {"m", request("", user, part("model", call("f", skip), call("g", "")), part("user", result("g"), result("f"))), "match the function call parts"},
		"another id":                          {"m", request("", user, part("model", `{"functionCall":{"id":"a","name":"f","args":{}}`+skip+`}`), part("user", `{"functionResponse":{"id":"b","name":"f","response":{}}}`)), "match the function call parts"},
		"a call by the user":                  {"m", request("", part("user", call("f", ""))), "in a turn of the model"},
		"arguments that are no object":        {"m", request("", user, part("model", `{"functionCall":{"name":"f","args":[1]}`+skip+`}`), part("user", result("f"))), "an object as args"},
		"a result that is no object":          {"m", request("", user, part("model", call("f", skip)), part("user", `{"functionResponse":{"name":"f","response":"x"}}`)), "an object as response"},
		"no signature":                        {"gemini-3-x", request("", user, part("model", call("f", "")), part("user", result("f"))), "is missing a `thought_signature`"},
		"no signature in an earlier step":     {"gemini-3-x", request("", user, part("model", call("f", "")), part("user", result("f")), part("model", call("f", own)), part("user", result("f"))), "is missing a `thought_signature`"},
		"a changed signature":                 {"gemini-3-x", request("", user, part("model", call("f", `,"thoughtSignature":"AAAA"`)), part("user", result("f"))), "Corrupted thought signature"},
		"a signature of another model":        {"gemini-3-y", request("", user, part("model", call("f", own)), part("user", result("f"))), "Corrupted thought signature"},
		"a signature on another call":         {"gemini-3-x", request("", user, part("model", call("g", own)), part("user", result("g"))), "Corrupted thought signature"},
		"a moving picture":                    {"m", request("", part("user", `{"inlineData":{"mimeType":"image/gif","data":"eA=="}}`)), "Unsupported MIME type"},
		"a picture in a result, of old":       {"gemini-2.5-pro", request("", user, part("model", call("f", "")), part("user", `{"functionResponse":{"name":"f","response":{},"parts":[{"inlineData":{"mimeType":"image/png","data":"eA=="}}]}}`)), "multimodal function responses"},
		"a hot model":                         {"m", request(`,"generationConfig":{"temperature":2.5}`, user), "temperature"},
		"no room":                             {"m", request(`,"generationConfig":{"maxOutputTokens":0}`, user), "max_output_tokens"},
		"a schema of text":                    {"m", request(`,"generationConfig":{"responseJsonSchema":{"type":"object"}}`, user), "response_mime_type"},
		"a bound in a schema":                 {"m", request(asJSON+`{"type":"object","properties":{"s":{"type":"string","maxLength":3}}}}`, user), "maxLength"},
		"a keyword in a list":                 {"m", request(asJSON+`{"anyOf":[{"not":{}}]}}`, user), "not"},
		"a reference and more":                {"m", request(asJSON+`{"$ref":"#/$defs/a","type":"object"}}`, user), "next to $ref"},
		"a schema and tools, of old":          {"gemini-2.5-pro", request(asJSON+`{"type":"object"}}`+tool(`{"type":"object"}`), user), "response mime type: 'application/json' is unsupported"},
		"a bound in a tool":                   {"m", request(tool(`{"type":"object","properties":{"s":{"type":"string","pattern":"x"}}}`), user), "pattern"},
		"a tool of no object":                 {"m", request(tool(`{"type":"string"}`), user), "must describe an object"},
		"a tool without a name":               {"m", request(`,"tools":[{"functionDeclarations":[{"name":"1"}]}]`, user), "Invalid function name"},
		"an unknown mode":                     {"m", request(`,"toolConfig":{"functionCallingConfig":{"mode":"required"}}`, user), "mode"},
		"a level, of old":                     {"gemini-2.5-pro", request(`,"generationConfig":{"thinkingConfig":{"thinkingLevel":"LOW"}}`, user), "not supported for this model"},
		"an unknown level":                    {"m", request(`,"generationConfig":{"thinkingConfig":{"thinkingLevel":"MAX"}}`, user), "not supported for this model"},
		"a level and a budget":                {"m", request(`,"generationConfig":{"thinkingConfig":{"thinkingLevel":"LOW","thinkingBudget":5}}`, user), "only one of"},
		"too small a budget":                  {"gemini-2.5-pro", request(`,"generationConfig":{"thinkingConfig":{"thinkingBudget":0}}`, user), "between 128 and 32768"},
		"a budget that only its sister takes": {"gemini-2.5-flash-lite", request(`,"generationConfig":{"thinkingConfig":{"thinkingBudget":100}}`, user), "between 512 and 24576"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status, body := postGemini(t, url, c.model+":generateContent", c.body)
			if c.says == "" {
				require.Equal(t, http.StatusOK, status, body)
				require.Contains(t, body, `"finishReason":"STOP"`)
				return
			}
			require.Equal(t, http.StatusBadRequest, status, body)
			require.Contains(t, body, `"status":"INVALID_ARGUMENT"`)
			require.Contains(t, body, c.says)
		})
	}
}

func TestGeminiAnswersOnlyCallersWithAKey(t *testing.T) {
	t.Parallel()
	url := serveFine(t)
	for _, path := range []string{"m:generateContent", "m:embedContent"} {
		resp, err := http.Post(url+"/v1beta/models/"+path, "application/json", strings.NewReader(`{}`))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusForbidden, resp.StatusCode)
	}
	for call, want := range map[string]int{"m:countTokens": http.StatusNotFound, "m": http.StatusNotFound, "m:streamGenerateContent": http.StatusBadRequest} {
		status, _ := postGemini(t, url, call, `{"contents":[{"role":"user","parts":[{"text":"x"}]}]}`)
		require.Equal(t, want, status, call)
	}
}

func TestALongPrefixIsCachedAsGeminiDocuments(t *testing.T) {
	t.Parallel()
	url := serveFine(t)
	cached := func(model, system, question string) int {
		_, body := postGemini(t, url, model+":generateContent", `{"systemInstruction":{"parts":[{"text":"`+system+`"}]},"contents":[{"role":"user","parts":[{"text":"`+question+`"}]}]}`)
		var doc struct {
			Usage map[string]int `json:"usageMetadata"`
		}
		require.NoError(t, json.Unmarshal([]byte(body), &doc))
		return doc.Usage["cachedContentTokenCount"]
	}
	const question = "what is in it?"
	for model, least := range map[string]int{"gemini-3-pro": 4096, "gemini-2.5-flash": 2048} {
		short, long := strings.Repeat("abcd", least-1), strings.Repeat("abcd", least)
		require.Zero(t, cached(model, long, question), "nothing is there yet")
		require.Equal(t, least, cached(model, long, "something else?"))
		require.Equal(t, least+3, cached(model, long, question), "the same request")
		require.Zero(t, cached(model+"-2", long, question), "of another model")
		require.Zero(t, cached(model, "x"+long, question), "another prefix")
		require.Zero(t, cached(model, short, "one"))
		require.Zero(t, cached(model, short, "two"), "too short")
	}
}

func TestGeminiEmbedsTextsAsTheOtherAPIDoes(t *testing.T) {
	t.Parallel()
	url := serveFine(t)
	const one = `{"content":{"parts":[{"text":"dark mode"}]},"outputDimensionality":8}`
	status, body := postGemini(t, url, "e:embedContent", one)
	require.Equal(t, http.StatusOK, status, body)
	values, err := json.Marshal(embed("dark mode", 8))
	require.NoError(t, err)
	require.JSONEq(t, `{"embedding":{"values":`+string(values)+`}}`, body)
	_, body = postGemini(t, url, "e:batchEmbedContents", `{"requests":[`+one+`,`+one+`]}`)
	require.JSONEq(t, `{"embeddings":[{"values":`+string(values)+`},{"values":`+string(values)+`}]}`, body)
	for call, body := range map[string]string{"e:embedContent": `{}`, "e:batchEmbedContents": `{}`} {
		status, _ = postGemini(t, url, call, body)
		require.Equal(t, http.StatusBadRequest, status)
	}
}

func TestGeminiListsTheModelsOfTheScenario(t *testing.T) {
	t.Parallel()
	s := start(t, "rules:\n  - when: {model: gemini-3-x}\n    reply: {text: fine}\n", t.TempDir())
	resp, err := http.Get(s.url + "/v1beta/models?key=k")
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	var doc struct{ Models []struct{ Name string } }
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&doc))
	require.Equal(t, []struct{ Name string }{{"models/scripted"}, {"models/gemini-3-x"}}, doc.Models)
}
