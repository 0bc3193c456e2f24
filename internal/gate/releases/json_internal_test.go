package releases

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAKeyIsFoundOnlyInTheOutermostObject(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]any{
		`{"time":1}`: 1.0, ` { "a" : [ {"time":2} , "time" ] , "time" : {"x":[3]} , "b":4}`: map[string]any{"x": []any{3.0}},
		`{"a":"\"time\":5","a\\":{"time":6},"time":7}`: 7.0, `{"timely":8,"tim":9,"time":10}`: 10.0, `{"a":{"b":","},"time":11}`: 11.0,
		`{"a":"time","time":12}`: 12.0, `[{"time":13}]`: nil, `{"a":["x","time"]}`: nil, `"time"`: nil, `{"time"}`: nil, `{"a":"`: nil, ``: nil,
	} {
		var got any
		err := decodeKey(strings.NewReader(text), "time", &got)
		require.Equal(t, want == nil, err != nil, text)
		require.Equal(t, want, got, text)
	}
}

func FuzzAKeyIsFoundAsByTheStandardLibrary(f *testing.F) {
	f.Add(`{"a":"\"time\":5","time":[7]}`)
	f.Add(`{"time":{"time":1}}`)
	f.Fuzz(func(t *testing.T, text string) {
		var got, whole any
		err := decodeKey(strings.NewReader(text), "time", &got)
		if strings.ContainsRune(text, '\\') || json.Unmarshal([]byte(text), &whole) != nil {
			return // it must only end
		}
		object, _ := whole.(map[string]any)
		want, ok := object["time"]
		if ok != (err == nil) || ok && strings.Count(text, `"time"`) == 1 && !equal(got, want) {
			t.Fatalf("%q: %v, %v", text, got, err)
		}
	})
}

func equal(a, b any) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return string(x) == string(y)
}
