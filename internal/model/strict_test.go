package model

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAStrictFormRequiresEverythingAndKeepsEveryBound(t *testing.T) {
	t.Parallel()
	var loose any
	require.NoError(t, json.Unmarshal([]byte(`{"type":"object","required":["path"],"additionalProperties":true,"properties":{
		"path":{"type":"string","minLength":1,"description":"File."},
		"word":{"type":"string","minLength":2,"maxLength":5},
		"start":{"type":"integer","minimum":1},
		"list":{"type":"array","maxItems":3,"items":{"type":"object","properties":{"required":{"type":"string","pattern":"^a$","maxLength":9}}}}}}`), &loose))
	text, err := json.Marshal(stricter(loose))
	require.NoError(t, err)
	require.JSONEq(t, `{"type":"object","required":["list","path","start","word"],"additionalProperties":false,"properties":{
		"path":{"type":"string","pattern":"^[\\s\\S]{1,}$","description":"File."},
		"word":{"anyOf":[{"type":"string","pattern":"^[\\s\\S]{2,5}$"},{"type":"null"}]},
		"start":{"anyOf":[{"type":"integer","minimum":1},{"type":"null"}]},
		"list":{"anyOf":[{"type":"array","maxItems":3,"items":{"type":"object","required":["required"],"additionalProperties":false,
			"properties":{"required":{"anyOf":[{"type":"string","pattern":"^a$","maxLength":9},{"type":"null"}]}}}},{"type":"null"}]}}}`, string(text))
}

func TestBoundsAreAddedWhereTheyBelongAndNowhereElse(t *testing.T) {
	t.Parallel()
	type entry struct {
		ID string `json:"id"`
	}
	type answer struct {
		List []entry `json:"list"`
		ID   string  `json:"id"`
	}
	was := SchemaOf[answer]()
	s := was.Bounded("more", Bounds{"list": {"maxItems": 2}, "list.[].id": {"pattern": "^a+$"}})
	require.True(t, s.Strict)
	require.Equal(t, "more", s.Name)
	_, err := CheckJSON(s, `{"id":"b","list":[{"id":"aa"}]}`)
	require.NoError(t, err)
	for _, text := range []string{`{"id":"b","list":[{"id":"b"}]}`, `{"id":"b","list":[{"id":"a"},{"id":"a"},{"id":"a"}]}`} {
		_, err = CheckJSON(s, text)
		require.Error(t, err, text)
		_, err = CheckJSON(was, text)
		require.NoError(t, err, text)
	}
	require.Panics(t, func() { was.Bounded("more", Bounds{"list.id": {"pattern": "x"}}) })
}
