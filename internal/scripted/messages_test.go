package scripted

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// serveFine serves a scripted model that always replies "fine".
func serveFine(t *testing.T) (url string) {
	t.Helper()
	sc, err := Parse("s.yaml", []byte("rules:\n  - reply: {text: fine}\n"))
	require.NoError(t, err)
	s, err := New(sc, Options{})
	require.NoError(t, err)
	web := httptest.NewServer(s)
	t.Cleanup(func() { require.NoError(t, s.Close()); web.Close() })
	return web.URL
}

// postMessages sends a request of Anthropic's API and returns status and body.
func postMessages(t *testing.T, url, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/messages", strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Anthropic-Version", "2023-06-01")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(data)
}

func TestTheScriptedModelRejectsWhatAnthropicRejects(t *testing.T) {
	t.Parallel()
	url := serveFine(t)

	const mark = `"cache_control":{"type":"ephemeral"}`
	user := `{"role":"user","content":"hi"}`
	call := `{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}},{"type":"tool_use","id":"b","name":"f","input":{}}]}`
	result := func(ids ...string) string {
		var blocks []string
		for _, id := range ids {
			blocks = append(blocks, `{"type":"tool_result","tool_use_id":"`+id+`","content":"x"}`)
		}
		return `{"role":"user","content":[` + strings.Join(blocks, ",") + `]}`
	}
	picture := func(kind, data string) string {
		return `{"type":"image","source":{"type":"base64","media_type":"` + kind + `","data":"` + data + `"}}`
	}
	request := func(more string, messages ...string) string {
		return `{"model":"m","max_tokens":5` + more + `,"messages":[` + strings.Join(messages, ",") + `]}`
	}
	marked := strings.Repeat(`{"type":"text","text":"x",`+mark+`},`, 5)
	for name, c := range map[string]struct{ body, says string }{
		"fine":                           {request(`,"system":"be good"`, user, call, result("a", "b")), ""},
		"no limit":                       {`{"model":"m","messages":[` + user + `]}`, "max_tokens"},
		"no model":                       {`{"max_tokens":1,"messages":[` + user + `]}`, "model: Field required"},
		"no messages":                    {request(""), "at least one message"},
		"an unknown field":               {request(`,"response_format":{}`, user), "Extra inputs are not permitted"},
		"the model first":                {request("", `{"role":"assistant","content":"hi"}`), "first message must use"},
		"a system message":               {request("", user, `{"role":"system","content":"hi"}`), "Input should be 'user' or 'assistant'"},
		"one side twice":                 {request("", user, user), "roles must alternate"},
		"nothing said":                   {request("", `{"role":"user","content":[]}`), "non-empty content"},
		"white space":                    {request("", `{"role":"user","content":[{"type":"text","text":" "}]}`), "non-whitespace"},
		"a call without its result":      {request("", user, call, result("a")), "without `tool_result`"},
		"a call at the end":              {request("", user, call), "without `tool_result`"},
		"a result without its call":      {request("", user, call, result("a", "b", "c")), "unexpected `tool_use_id`"},
		"results after a text":           {request("", user, call, strings.Replace(result("a", "b"), "[", `[{"type":"text","text":"x"},`, 1)), "must come first"},
		"an id of other characters":      {request("", user, strings.Replace(call, `"a"`, `"a:1"`, 1), result("a:1", "b")), "tool_use"},
		"an input that is not an object": {request("", user, strings.Replace(call, `{}`, `"x"`, 1), result("a", "b")), "tool_use"},
		"a forged thought":               {request("", user, `{"role":"assistant","content":[{"type":"thinking","thinking":"x","signature":"y"}]}`), "Invalid `signature`"},
		"a block of another API":         {request("", `{"role":"user","content":[{"type":"input_text","text":"x"}]}`), "unexpected value"},
		"five breakpoints":               {request("", `{"role":"user","content":[`+strings.TrimSuffix(marked, ",")+`]}`), "A maximum of 4 blocks"},
		"a hot model":                    {request(`,"temperature":1.5`, user), "temperature"},
		"a bound in a schema":            {request(`,"output_config":{"format":{"type":"json_schema","schema":{"type":"object","additionalProperties":false,"properties":{"n":{"type":"integer","minimum":1}}}}}`, user), "property 'minimum' is not supported"},
		"an open object in a schema":     {request(`,"output_config":{"format":{"type":"json_schema","schema":{"type":"object","properties":{}}}}`, user), "additionalProperties"},
		"an effort":                      {request(`,"output_config":{"effort":"low"}`, user), ""},
		"a bad effort":                   {request(`,"output_config":{"effort":"minimal"}`, user), "output_config.effort"},
		"a picture":                      {request("", `{"role":"user","content":[`+picture("image/png", "AAAA")+`]}`), ""},
		"a picture as a result":          {request("", user, call, strings.Replace(result("a", "b"), `"x"`, `[{"type":"text","text":"x"},`+picture("image/gif", "AAAA")+`]`, 1)), ""},
		"a picture of an unknown kind":   {request("", `{"role":"user","content":[`+picture("image/tiff", "AAAA")+`]}`), "image.source"},
		"a picture that is not base64":   {request("", user, call, strings.Replace(result("a", "b"), `"x"`, `[`+picture("image/png", "!")+`]`, 1)), "image.source"},
		"a model's picture":              {request("", user, `{"role":"assistant","content":[`+picture("image/png", "AAAA")+`]}`), "image.source"},
		"a call as a result":             {request("", user, call, strings.Replace(result("a", "b"), `"x"`, `[{"type":"tool_use"}]`, 1)), "unexpected value"},
		"a tool without a schema":        {request(`,"tools":[{"name":"f"}]`, user), "input_schema"},
		"an open strict tool":            {request(`,"tools":[{"name":"f","strict":true,"input_schema":{"type":"object"}}]`, user), "additionalProperties"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status, body := postMessages(t, url, c.body)
			if c.says == "" {
				require.Equal(t, http.StatusOK, status, body)
				require.Contains(t, body, `"stop_reason":"end_turn"`)
				return
			}
			require.Equal(t, http.StatusBadRequest, status, body)
			require.Contains(t, body, `"type":"invalid_request_error"`)
			require.Contains(t, body, c.says)
		})
	}
}

func TestARequestIsCachedUpToItsBreakpoints(t *testing.T) {
	t.Parallel()
	url := serveFine(t)
	usage := func(system, mark, question string) string {
		_, body := postMessages(t, url, `{"model":"m","max_tokens":5,"system":[{"type":"text","text":"`+system+`"`+mark+`}],"messages":[{"role":"user","content":"`+question+`"}]}`)
		_, after, _ := strings.Cut(body, `"usage":`)
		return after
	}
	const mark = `,"cache_control":{"type":"ephemeral"}`
	long, short := strings.Repeat("abcd", 2000), strings.Repeat("abcd", 1000)
	require.Contains(t, usage(long, "", "one1"), `"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"input_tokens":2001`)
	require.Contains(t, usage(long, mark, "one1"), `"cache_creation_input_tokens":2000,"cache_read_input_tokens":0,"input_tokens":1`)
	require.Contains(t, usage(long, mark, "two2"), `"cache_creation_input_tokens":0,"cache_read_input_tokens":2000,"input_tokens":1`)
	require.Contains(t, usage(short, mark, "one1"), `"cache_creation_input_tokens":0`, "too short")
	require.Contains(t, usage(short, mark, "one1"), `"cache_read_input_tokens":0`, "too short")
	require.Contains(t, usage("x"+long, mark, "two2"), `"cache_read_input_tokens":0`, "another prefix")
}
