package model

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
)

type risk string

type sampleStep struct {
	ID    string   `json:"id" jsonschema:"description=a short id"`
	Risk  risk     `json:"risk_level" jsonschema:"enum=low,enum=medium,enum=high"`
	Files []string `json:"files"`
	Note  string   `json:"note,omitempty" jsonschema:"description=what else to know"`
}

type SamplePlan struct {
	Summary string       `json:"summary"`
	Score   float64      `json:"complexity_score" jsonschema:"minimum=0,maximum=1"`
	Steps   []sampleStep `json:"steps"`
	First   *sampleStep  `json:"first,omitempty"`
}

func TestSchemaOfIsStrict(t *testing.T) {
	t.Parallel()
	s := SchemaOf[SamplePlan]()
	require.Equal(t, "sample_plan", s.Name)
	require.True(t, s.Strict)
	var doc map[string]any
	require.NoError(t, json.Unmarshal(s.JSON, &doc))
	var visit func(v any)
	objects := 0
	visit = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				visit(e)
			}
		case map[string]any:
			if properties, ok := v["properties"].(map[string]any); ok {
				objects++
				require.Equal(t, false, v["additionalProperties"])
				require.Len(t, v["required"], len(properties))
			}
			for _, e := range v {
				visit(e)
			}
		}
	}
	visit(doc)
	require.Equal(t, 3, objects)
	require.Less(t, strings.Index(string(s.JSON), "summary"), strings.Index(string(s.JSON), "complexity_score"), "in the type's order")
	require.NotContains(t, string(s.JSON), "$")
}

func TestSchemaOfLooseTypesSaysThatItIsNotStrict(t *testing.T) {
	t.Parallel()
	require.False(t, SchemaOf[struct {
		M map[string]int `json:"m"`
	}]().Strict)
	require.False(t, SchemaOf[struct {
		A []any `json:"a"`
	}]().Strict)
	require.False(t, SchemaOf[struct {
		R json.RawMessage `json:"r"`
	}]().Strict)
	require.Equal(t, "answer", SchemaOf[struct{}]().Name)
}

func TestCheckJSONTakesWhatFitsAndNamesWhatDoesNot(t *testing.T) {
	t.Parallel()
	const good = `{"summary":"s","complexity_score":0.5,"steps":[{"id":"a","risk_level":"low","files":[],"note":null}],"first":null}`
	cases := map[string]struct {
		text string
		says []string // of the error; none: it fits
	}{
		"as it is":                 {text: good},
		"with space around":        {text: "\n " + good + "\n\n"},
		"fenced":                   {text: "```json\n" + good + "\n```"},
		"fenced, no language":      {text: "```\n" + good + "\n```\n"},
		"fenced with CRLF":         {text: "```json\r\n" + good + "\r\n```"},
		"long fence":               {text: "````json\n" + good + "\n````"},
		"nullable left out":        {text: `{"summary":"s","complexity_score":0,"steps":[]}`},
		"empty":                    {text: "  ", says: []string{"empty"}},
		"prose":                    {text: "Here is the plan:", says: []string{"not a single JSON document"}},
		"prose before the fence":   {text: "Sure!\n```json\n" + good + "\n```", says: []string{"not a single JSON document"}},
		"prose after it":           {text: good + " Done.", says: []string{"unexpected text after the document at byte"}},
		"two documents":            {text: good + good, says: []string{"unexpected text after the document"}},
		"cut off":                  {text: good[:60], says: []string{"it is incomplete"}},
		"fence not closed":         {text: "```json\n" + good, says: []string{"not a single JSON document"}},
		"only a fence":             {text: "```", says: []string{"not a single JSON document"}},
		"wrong type":               {text: `{"summary":1,"complexity_score":0,"steps":[]}`, says: []string{"at /summary"}},
		"several places":           {text: `{"complexity_score":2,"steps":[{"id":"a","risk_level":"huge","files":[]}],"extra":1}`, says: []string{"summary", "at /complexity_score", "at /steps/0/risk_level", "extra"}},
		"a list":                   {text: `[]`, says: []string{"at /"}},
		"deeply nested":            {text: strings.Repeat("[", 100000), says: []string{"not a single JSON document"}},
		"hostile long property":    {text: `{"` + strings.Repeat("x", 5000) + `":1}`, says: []string{"…"}},
		"null instead of anything": {text: "null", says: []string{"at /"}},
	}
	schema := SchemaOf[SamplePlan]()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			doc, err := CheckJSON(schema, tc.text)
			if tc.says == nil {
				require.NoError(t, err)
				require.True(t, json.Valid(doc))
				var p SamplePlan
				require.NoError(t, json.Unmarshal(doc, &p))
				return
			}
			f := requireFault(t, err, contract.ClassLLM, contract.CodeInvalidOutput)
			require.Less(t, len(f.Message), 2000)
			for _, s := range tc.says {
				require.Contains(t, f.Message, s)
			}
		})
	}
}

func TestEachAnswerIsCheckedAgainstItsOwnSchemaHoweverOften(t *testing.T) {
	t.Parallel()
	of := func(kind string) Schema {
		return Schema{Name: "same", JSON: json.RawMessage(`{"type": "` + kind + `"}`)}
	}
	for range 3 {
		_, err := CheckJSON(of("object"), `{}`)
		require.NoError(t, err)
		_, err = CheckJSON(of("array"), `{}`)
		require.ErrorContains(t, err, "does not match its JSON schema", "another schema of the same name")
		_, err = CheckJSON(of("array"), `[]`)
		require.NoError(t, err)
	}
}

func TestASchemaThatIsNoneIsOurMistake(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "{", `{"type": 5}`, `{"$ref": "file:///etc/passwd"}`, `{"$ref": "http://example.com/x.json"}`} {
		_, err := CheckJSON(Schema{Name: "x", JSON: json.RawMessage(s)}, `{}`)
		_ = requireFault(t, err, contract.ClassRuntime, contract.CodeUnknown)
	}
}

func FuzzCheckJSON(f *testing.F) {
	schema := SchemaOf[SamplePlan]()
	for _, s := range []string{`{"summary":"s","complexity_score":0.5,"steps":[]}`, "```json\n{}\n```", "```", "````\n```\n````", "null", `{"a":`, "\xff", "1e999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		doc, err := CheckJSON(schema, text)
		if err != nil {
			_ = requireFault(t, err, contract.ClassLLM, contract.CodeInvalidOutput)
			return
		}
		again, err := CheckJSON(schema, string(doc))
		require.NoError(t, err)
		require.Equal(t, doc, again)
	})
}
