package scripted

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// post sends a request of an API and returns status and body.
func post(t *testing.T, url, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(data)
}

func TestTheScriptedModelRejectsWhatResponsesRejects(t *testing.T) {
	t.Parallel()
	url := serveFine(t)
	const user = `{"role":"user","content":"hi"}`
	call := func(id string) string {
		return `{"type":"function_call","call_id":"` + id + `","name":"f","arguments":"{}"}`
	}
	output := func(id string) string {
		return `{"type":"function_call_output","call_id":"` + id + `","output":"x"}`
	}
	thought := func(id, led string) string {
		return `{"type":"reasoning","id":"` + id + `","summary":[],"encrypted_content":"` + encrypted("m", id, led, "hm") + `"}`
	}
	request := func(more string, items ...string) string {
		return `{"model":"m"` + more + `,"input":[` + strings.Join(items, ",") + `]}`
	}
	picture := func(url string) string {
		return `{"role":"user","content":[{"type":"input_text","text":"look"},{"type":"input_image","image_url":"` + url + `"}]}`
	}
	png := "data:image/png;base64," + base64.StdEncoding.EncodeToString([]byte("a picture"))
	schema := func(strict bool, s string) string {
		return fmt.Sprintf(`,"text":{"format":{"type":"json_schema","name":"plan","strict":%v,"schema":%s}}`, strict, s)
	}
	const closed = `{"type":"object","additionalProperties":false,"required":["a"],"properties":{"a":%s}}`
	for name, c := range map[string]struct{ body, says string }{
		"fine":                             {request(`,"instructions":"be good","store":false`, user, call("a"), call("b"), output("b"), output("a"), `{"role":"assistant","content":"done"}`), ""},
		"a text as input":                  {`{"model":"m","input":"hi"}`, ""},
		"thoughts":                         {request("", user, thought("rs_1", "a"), call("a"), output("a"), thought("rs_2", "message"), `{"role":"assistant","content":[{"type":"output_text","text":"x"}]}`), ""},
		"a picture":                        {request("", picture(png)), ""},
		"a picture as output":              {request("", user, call("a"), `{"type":"function_call_output","call_id":"a","output":[{"type":"input_image","image_url":"`+png+`"}]}`), ""},
		"a strict schema":                  {request(schema(true, fmt.Sprintf(closed, `{"type":"string","pattern":"^a$"}`)), user), ""},
		"a loose schema":                   {request(schema(false, `{"type":"object"}`), user), ""},
		"high effort":                      {request(`,"reasoning":{"effort":"high"}`, user), ""},
		"no model":                         {`{"input":"hi"}`, "'model'"},
		"no input":                         {`{"model":"m"}`, "'input'"},
		"no items":                         {request(""), "'input'"},
		"an unknown field":                 {request(`,"messages":[]`, user), "Unknown parameter"},
		"an earlier response":              {request(`,"previous_response_id":"resp_1"`, user), "not found"},
		"a hot model":                      {request(`,"temperature":2.5`, user), "temperature"},
		"a short response":                 {request(`,"max_output_tokens":5`, user), "max_output_tokens"},
		"a long cache key":                 {request(`,"prompt_cache_key":"`+strings.Repeat("x", 65)+`"`, user), "prompt_cache_key"},
		"a bad effort":                     {request(`,"reasoning":{"effort":"hard"}`, user), "Supported values are: 'none', 'minimal'"},
		"an unknown include":               {request(`,"include":["everything"]`, user), "include[0]"},
		"an unknown role":                  {request("", `{"role":"robot","content":"hi"}`), "Invalid value: 'robot'"},
		"an unknown item":                  {request("", `{"type":"tool_result"}`), "Invalid value: 'tool_result'"},
		"nothing said":                     {request("", `{"role":"user","content":[]}`), "'content'"},
		"what a model says, by a user":     {request("", `{"role":"user","content":[{"type":"output_text","text":"x"}]}`), "Invalid value: 'output_text'"},
		"what a user says, by a model":     {request("", `{"role":"assistant","content":[{"type":"input_text","text":"x"}]}`), "Invalid value: 'input_text'"},
		"a call without its output":        {request("", user, call("a"), call("b"), output("a")), "No tool output found for function call b"},
		"an output without its call":       {request("", user, output("a")), "No tool call found"},
		"an output before its call":        {request("", user, output("a"), call("a")), "No tool call found"},
		"two outputs of a call":            {request("", user, call("a"), output("a"), output("a")), "No tool call found"},
		"two calls with an id":             {request("", user, call("a"), output("a"), call("a"), output("a")), "Duplicate function call"},
		"a call with a long id":            {request("", user, call(strings.Repeat("x", 65))), "call_id"},
		"a call without arguments":         {request("", user, `{"type":"function_call","call_id":"a","name":"f"}`), "arguments"},
		"two items with an id":             {request("", user, thought("rs_1", "a"), call("a"), output("a"), thought("rs_1", "b"), call("b"), output("b")), "Duplicate item found with id rs_1"},
		"thoughts at the end":              {request("", user, thought("rs_1", "a")), "without its required following item"},
		"thoughts before another item":     {request("", user, thought("rs_1", "a"), call("b"), output("b"), call("a"), output("a")), "without its required following item"},
		"thoughts that are not stored":     {request("", user, `{"type":"reasoning","id":"rs_1","summary":[]}`, call("a"), output("a")), "Items are not persisted"},
		"changed thoughts":                 {request("", user, strings.Replace(thought("rs_1", "a"), "gAAAA", "gAAAAx", 1), call("a"), output("a")), "could not be verified"},
		"thoughts of another model":        {strings.Replace(request("", user, thought("rs_1", "a"), call("a"), output("a")), `"m"`, `"m2"`, 1), "could not be verified"},
		"thoughts without a summary":       {request("", user, `{"type":"reasoning","id":"rs_1"}`), "summary"},
		"a picture elsewhere":              {request("", picture("https://example.com/a.png")), "image_url"},
		"a picture of an unknown kind":     {request("", picture("data:image/tiff;base64,AAAA")), "image_url"},
		"a picture that is not base64":     {request("", picture("data:image/png;base64,!")), "image_url"},
		"a bad name of a schema":           {strings.Replace(request(schema(true, `{}`), user), `"plan"`, `"my plan"`, 1), "text.format.name"},
		"an open object in a schema":       {request(schema(true, `{"type":"object","properties":{}}`), user), "additionalProperties"},
		"an optional property":             {request(schema(true, `{"type":"object","additionalProperties":false,"properties":{"b":{"type":"string"}}}`), user), "Missing 'b'"},
		"a length in a schema":             {request(schema(true, fmt.Sprintf(closed, `{"type":"string","maxLength":3}`)), user), "'maxLength' is not permitted"},
		"an open object in a schema below": {request(schema(true, fmt.Sprintf(closed, `{"type":"array","items":{"type":"object"}}`)), user), "additionalProperties"},
		"a tool without a schema":          {request(`,"tools":[{"type":"function","name":"f"}]`, user), "Invalid schema for function 'f'"},
		"a tool of another API":            {request(`,"tools":[{"type":"function","function":{"name":"f"}}]`, user), "Unknown parameter"},
		"an open strict tool":              {request(`,"tools":[{"type":"function","name":"f","strict":true,"parameters":{"type":"object"}}]`, user), "additionalProperties"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status, body := post(t, url+"/v1/responses", c.body)
			if c.says == "" {
				require.Equal(t, http.StatusOK, status, body)
				require.Contains(t, body, `"status":"completed"`)
				return
			}
			require.Equal(t, http.StatusBadRequest, status, body)
			require.Contains(t, body, `"type":"invalid_request_error"`)
			require.Contains(t, body, c.says)
		})
	}
}

func TestThoughtsAreReturnedEncryptedOnlyIfAskedFor(t *testing.T) {
	t.Parallel()
	sc, err := Parse("s.yaml", []byte("rules:\n  - reply: {text: fine, reasoning: a secret}\n"))
	require.NoError(t, err)
	s, err := New(sc, Options{})
	require.NoError(t, err)
	web := httptest.NewServer(s)
	t.Cleanup(func() { require.NoError(t, s.Close()); web.Close() })
	for _, stream := range []string{"false", "true"} {
		_, with := post(t, web.URL+"/v1/responses", `{"model":"m","input":"hi","store":false,"include":["reasoning.encrypted_content"],"stream":`+stream+`}`)
		_, without := post(t, web.URL+"/v1/responses", `{"model":"m","input":"hi","stream":`+stream+`}`)
		require.Contains(t, with, `"encrypted_content":"gAAAA`)
		require.NotContains(t, without, `encrypted_content`)
		for _, body := range []string{with, without} {
			require.Contains(t, body, `"type":"reasoning"`)
			require.NotContains(t, body, "a secret")
			require.Contains(t, body, `"reasoning_tokens":2`)
		}
	}
}

func TestTheEventsOfAResponseAreNumbered(t *testing.T) {
	t.Parallel()
	_, body := post(t, serveFine(t)+"/v1/responses", `{"model":"m","input":"hi","stream":true}`)
	var kinds []string
	for line := range strings.Lines(body) {
		data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: ")
		if !ok {
			continue
		}
		var e struct {
			Type   string `json:"type"`
			Number int    `json:"sequence_number"`
		}
		require.NoError(t, json.Unmarshal([]byte(data), &e))
		require.Equal(t, len(kinds), e.Number)
		kinds = append(kinds, strings.TrimPrefix(e.Type, "response."))
	}
	require.Equal(t, []string{
		"created", "in_progress", "output_item.added", "content_part.added", "output_text.delta", "output_text.done", "output_item.done", "completed",
	}, kinds)
}

func TestALongPrefixOfAResponsesRequestIsReadFromTheCacheOfItsKey(t *testing.T) {
	t.Parallel()
	url := serveFine(t)
	usage := func(key, instructions, question string) string {
		_, body := post(t, url+"/v1/responses", `{"model":"m","prompt_cache_key":"`+key+`","instructions":"`+instructions+`","input":"`+question+`"}`)
		_, after, _ := strings.Cut(body, `"usage":`)
		return after
	}
	long, short := strings.Repeat("abcd", 2000), strings.Repeat("abcd", 1000)
	require.Contains(t, usage("k", long, "one1"), `"cached_tokens":0},"output_tokens"`)
	require.Contains(t, usage("k", long, "two2"), `"cached_tokens":1920}`, "in steps of 128")
	require.Contains(t, usage("k2", long, "two2"), `"cached_tokens":0}`, "another key")
	require.Contains(t, usage("k", "x"+long, "two2"), `"cached_tokens":0}`, "another prefix")
	require.Contains(t, usage("k", short, "one1"), `"cached_tokens":0}`)
	require.Contains(t, usage("k", short, "one1"), `"cached_tokens":0}`, "too short")
}

func TestTheScriptedModelRejectsWhatChatCompletionsReject(t *testing.T) {
	t.Parallel()
	url := serveFine(t) + "/v1/chat/completions"
	picture := func(role, url string) string {
		return `{"model":"m","messages":[{"role":"` + role + `","tool_call_id":"a","content":[{"type":"text","text":"look"},{"type":"image_url","image_url":{"url":"` + url + `"}}]}]}`
	}
	for name, c := range map[string]struct{ body, says string }{
		"a picture":                    {picture("user", "data:image/png;base64,AAAA"), ""},
		"a text about image_url":       {`{"model":"m","messages":[{"role":"tool","content":"\"image_url\""}]}`, ""},
		"a picture as a result":        {picture("tool", "data:image/png;base64,AAAA"), "only in messages of the role user"},
		"a picture elsewhere":          {picture("user", "https://example.com/a.png"), "image_url"},
		"a picture that is not base64": {picture("user", "data:image/png;base64,!"), "image_url"},
		"an effort":                    {`{"model":"m","reasoning_effort":"low","messages":[{"role":"user","content":"hi"}]}`, ""},
		"a bad effort":                 {`{"model":"m","reasoning_effort":"hard","messages":[{"role":"user","content":"hi"}]}`, "Supported values"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status, body := post(t, url, c.body)
			if c.says == "" {
				require.Equal(t, http.StatusOK, status, body)
				return
			}
			require.Equal(t, http.StatusBadRequest, status, body)
			require.Contains(t, body, c.says)
		})
	}
}
