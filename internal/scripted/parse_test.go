package scripted

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

func TestMistakesAreNamedByFileLineAndKey(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		yaml string
		says []string
	}{
		"unknown key":            {"rules:\n  - when: {}\n    replly: {text: a}\n", []string{"s.yaml:3: rules[0].replly: unknown field"}},
		"unknown key in when":    {"rules:\n  - when:\n      agent: planner\n      agnt: x\n    reply: {text: a}\n", []string{"s.yaml:4: rules[0].when.agnt"}},
		"unknown key in a call":  {"rules:\n  - reply: {tool_calls: [{name: f, argumentz: {}}]}\n", []string{"s.yaml:2: rules[0].reply.tool_calls[0].argumentz"}},
		"unknown key on top":     {"rulez: []\n", []string{"s.yaml:1: rulez"}},
		"a key twice":            {"rules:\n  - reply: {text: a}\n    reply: {text: b}\n", []string{"s.yaml:3: reply"}},
		"no YAML":                {"rules:\n  - reply: {text: a\n", []string{"s.yaml:2"}},
		"nothing":                {"# only a comment\n", []string{"s.yaml:1: rules"}},
		"no rules":               {"{}\n", []string{"rules: is missing"}},
		"two documents":          {"rules: []\n---\nrules: []\n", []string{"one YAML document"}},
		"a list on top":          {"- a\n", []string{"s.yaml:1"}},
		"rules no list":          {"rules: 5\n", []string{"s.yaml:1: rules"}},
		"an empty rule":          {"rules:\n  -\n", []string{"rules[0]: requires a reply or a fault"}},
		"no answer":              {"rules:\n  - times: 1\n", []string{"s.yaml:2: rules[0]: requires a reply or a fault"}},
		"wrong agent":            {"rules:\n  - when: {agent: plannr}\n    reply: {text: a}\n", []string{`s.yaml:2: rules[0].when.agent: "plannr" is not an agent; expected one of planner`}},
		"wrong phase":            {"rules:\n  - when: {phase: planing}\n    reply: {text: a}\n", []string{"s.yaml:2: rules[0].when.phase"}},
		"attempt 0":              {"rules:\n  - when: {attempt: 0}\n    reply: {text: a}\n", []string{"rules[0].when.attempt: is 0; expected at least 1"}},
		"turn as text":           {"rules:\n  - when: {turn: first}\n    reply: {text: a}\n", []string{`rules[0].when.turn: "first" is not a whole number`}},
		"times 0":                {"rules:\n  - times: 0\n    reply: {text: a}\n", []string{"rules[0].times: is 0"}},
		"times 1.5":              {"rules:\n  - times: 1.5\n    reply: {text: a}\n", []string{`rules[0].times: "1.5" is not a whole number`}},
		"latency without unit":   {"rules:\n  - latency: 200\n    reply: {text: a}\n", []string{"s.yaml:2: rules[0].latency", "such as 200ms"}},
		"pace without unit":      {"rules:\n  - pace: 200\n    reply: {text: a}\n", []string{"s.yaml:2: rules[0].pace", "such as 200ms"}},
		"latency less than 0":    {"rules:\n  - latency: -1s\n    reply: {text: a}\n", []string{"rules[0].latency"}},
		"tokens less than 0":     {"rules:\n  - reply: {text: a}\n    usage: {prompt_tokens: -1}\n", []string{"s.yaml:3: rules[0].usage.prompt_tokens"}},
		"cached over prompt":     {"rules:\n  - reply: {text: a}\n    usage: {prompt_tokens: 1, cached_tokens: 2}\n", []string{"s.yaml:3: rules[0].usage.cached_tokens: is 2"}},
		"a nameless model":       {"models:\n  - {lacks: [tools]}\nrules: []\n", []string{"s.yaml:2: models[0].name: is missing"}},
		"a model twice":          {"models:\n  - {name: a}\n  - {name: a}\nrules: []\n", []string{`models[1].name: "a" is there twice`}},
		"an unknown feature":     {"models:\n  - {name: a, lacks: [taste]}\nrules: []\n", []string{`s.yaml:2: models[0].lacks[0]: "taste" is not a feature; expected one of tools, json_schema`}},
		"two replies":            {"rules:\n  - reply: {text: a, json: {}}\n", []string{"rules[0].reply: requires exactly one"}},
		"no reply":               {"rules:\n  - reply: {}\n", []string{"rules[0].reply: requires exactly one"}},
		"no calls":               {"rules:\n  - reply: {tool_calls: []}\n", []string{"rules[0].reply.tool_calls: is empty"}},
		"a call without a name":  {"rules:\n  - reply: {tool_calls: [{arguments: {}}]}\n", []string{"rules[0].reply.tool_calls[0].name: is missing"}},
		"JSON cannot say it":     {"rules:\n  - reply: {json: {x: .nan}}\n", []string{"rules[0].reply.json"}},
		"two faults":             {"rules:\n  - fault: {timeout: true, truncate: true}\n", []string{"rules[0].fault: requires exactly one"}},
		"no fault":               {"rules:\n  - fault: {timeout: false}\n", []string{"rules[0].fault: requires exactly one"}},
		"status of success":      {"rules:\n  - fault: {status: 200}\n", []string{"rules[0].fault.status: is 200"}},
		"status too high":        {"rules:\n  - fault: {status: 700}\n", []string{"rules[0].fault.status: is 700"}},
		"a wait without status":  {"rules:\n  - fault: {timeout: true, retry_after: 1s}\n", []string{"rules[0].fault.retry_after: is allowed only with status"}},
		"a code without status":  {"rules:\n  - fault: {timeout: true, code: insufficient_quota}\n", []string{"rules[0].fault.code: is allowed only with status"}},
		"a code of words":        {"rules:\n  - fault: {status: 429, code: no money}\n", []string{"rules[0].fault.code: is \"no money\""}},
		"a wait without unit":    {"rules:\n  - fault: {status: 429, retry_after: 1}\n", []string{"rules[0].fault.retry_after"}},
		"a flag as text":         {"rules:\n  - fault: {timeout: often}\n", []string{"s.yaml:2: rules[0].fault.timeout: expected true or false, got a string"}},
		"a reply with a status":  {"rules:\n  - fault: {status: 500}\n    reply: {text: a}\n", []string{"rules[0].reply"}},
		"several mistakes":       {"rules:\n  - when: {agent: x}\n    times: 0\n    reply: {text: a}\n  - fault: {status: 1}\n", []string{"s.yaml:2: rules[0].when.agent", "s.yaml:3: rules[0].times", "s.yaml:5: rules[1].fault.status"}},
		"more than can be shown": {"rules:\n" + strings.Repeat("  - times: 1\n", 30), []string{"rules[9]", "and more"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Parse("s.yaml", []byte(tc.yaml))
			f := fault.Of(err)
			require.NotNil(t, f)
			require.Equal(t, contract.ClassConfig, f.Class)
			require.Equal(t, contract.CodeInvalidConfig, f.Code)
			for _, s := range tc.says {
				require.Contains(t, f.Message, s)
			}
		})
	}
}

func TestTheExampleOfTheDesignIsAccepted(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "scenario.yaml")
	require.NoError(t, os.WriteFile(path, []byte(`
rules:                                  # from top to bottom
  - when: {agent: planner, phase: planner_running, step: "", attempt: 1, turn: 1, contains: "dark mode", model: "x"}
    times: 1
    latency: 200ms
    reply: {json: {summary: s, steps: []}}
    usage: {prompt_tokens: 1200, completion_tokens: 300}
  - when: {agent: builder, step: step-002, attempt: 1}
    fault: {status: 429, retry_after: 1s}
  - {when: {agent: gamma}, fault: {timeout: true}}
  - {fault: {truncate: true}}
  - {fault: {malformed: true}}
  - {fault: {disconnect: true}, reply: {text: broken}}
  - {fault: {status: 500}}
`), 0o600))
	s, err := Load(path)
	require.NoError(t, err)
	require.Equal(t, 7, s.Rules())
	require.Len(t, s.Digest(), 64)
}

func TestLoadNamesAFileThatCannotBeRead(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for _, path := range []string{filepath.Join(folder, "gone.yaml"), folder} {
		_, err := Load(path)
		f := fault.Of(err)
		require.NotNil(t, f)
		require.Equal(t, contract.CodeInvalidConfig, f.Code)
		require.Contains(t, f.Message, path)
	}
}

func TestJSONRepliesKeepTheFilesOrderAndTypes(t *testing.T) {
	t.Parallel()
	s, err := Parse("s", []byte(`
rules:
  - reply:
      json: {z: 1, a: [1.5, true, null, "1", 2024-01-01], big: 12345678901234567890, "<&>": é, nested: {b: {}, a: []}}
`))
	require.NoError(t, err)
	require.Equal(t, []string{`{"z":1,"a":[1.5,true,null,"1","2024-01-01"],"big":12345678901234567890,"<&>":"é","nested":{"b":{},"a":[]}}`}, []string{s.rules[0].reply.text}) // to the byte
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"rules:\n  - when: {agent: planner, phase: planner, step: a, attempt: 1, turn: 1, contains: x, model: y}\n    times: 1\n    latency: 1ms\n    reply: {json: {a: [1, 2.5, null]}}\n    usage: {prompt_tokens: 1}\n",
		"rules:\n  - fault: {status: 429, retry_after: 1s}\n  - fault: {disconnect: true}\n",
		"rules:\n  - &a {reply: {tool_calls: [{name: f, arguments: {x: y}}]}}\n  - *a\n", "{}", "rules: [", "- - -", "\x00", "a: &a [*a]", "rules: {<<: *x}",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Parse("s.yaml", data)
		if err != nil {
			require.Equal(t, contract.CodeInvalidConfig, fault.Of(err).Code)
			require.Contains(t, err.Error(), "s.yaml")
			return
		}
		for i := range s.rules {
			r := &s.rules[i]
			require.GreaterOrEqual(t, r.times, int64(0))
			require.GreaterOrEqual(t, r.latency.Nanoseconds(), int64(0))
			c := (&Server{}).newCompletion(&chatRequest{}, i+1, r)
			_ = chatForm{}.document(c)
			_ = messagesForm{}.document(c)
			_ = responsesForm{}.document(c)
			for range (responsesForm{}).events(c) {
			}
			for range (messagesForm{}).events(c) {
			}
			for range (chatForm{}).events(c) {
			}
		}
	})
}
