package wire

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// bounds are the keywords of a JSON schema that Anthropic's API rejects in a schema that it enforces.
var bounds = []string{
	"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern",
	"minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties",
}

// enforceable returns a schema in the form that Anthropic's API can enforce.
func enforceable(schema json.RawMessage) (map[string]any, error) {
	var s map[string]any
	if err := json.Unmarshal(schema, &s); err != nil {
		return nil, fault.Wrap(err, contract.ClassRuntime, contract.CodeUnknown, "the schema of a response is not a JSON object")
	}
	s, _ = withoutBounds(s).(map[string]any)
	return s, nil
}

// withoutBounds moves the bounds of a schema to its descriptions, where the model reads them. Our own
// check of the response still applies them.
func withoutBounds(schema any) any {
	switch s := schema.(type) {
	case []any:
		out := make([]any, len(s))
		for i, e := range s {
			out[i] = withoutBounds(e)
		}
		return out
	case map[string]any:
		out := map[string]any{}
		var moved []string
		for _, k := range slices.Sorted(maps.Keys(s)) {
			switch {
			case k == "properties":
				out[k] = eachWithoutBounds(s[k])
			case slices.Contains(bounds, k):
				moved = append(moved, fmt.Sprintf("%s: %v", k, s[k]))
			default:
				out[k] = withoutBounds(s[k])
			}
		}
		if len(moved) > 0 {
			text, _ := out["description"].(string)
			out["description"] = strings.TrimSpace(text + " (" + strings.Join(moved, ", ") + ")")
		}
		return out
	default:
		return schema
	}
}

// eachWithoutBounds does so for properties, whose keys are names, not keywords.
func eachWithoutBounds(properties any) any {
	named, ok := properties.(map[string]any)
	if !ok {
		return properties
	}
	out := map[string]any{}
	for name, s := range named {
		out[name] = withoutBounds(s)
	}
	return out
}
