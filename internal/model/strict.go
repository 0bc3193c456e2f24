package model

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// Bounds are JSON schema keywords by their place in a schema: names of properties and, for the
// entries of a list, [], joined with dots (steps.[].id).
type Bounds map[string]map[string]any

// Bounded returns the schema with another name and additional bounds. A place that is not in the
// schema is a bug in our own code.
func (s Schema) Bounded(name string, bounds Bounds) Schema {
	var root any
	if err := json.Unmarshal(s.JSON, &root); err != nil {
		panic("model: the schema " + s.Name + ": " + err.Error()) //nolint:forbidigo // made by SchemaOf
	}
	for _, place := range slices.Sorted(maps.Keys(bounds)) {
		at, _ := placeIn(root, place).(map[string]any)
		if at == nil {
			panic("model: the schema " + s.Name + " has no " + place) //nolint:forbidigo // an error in our own code, which its tests detect
		}
		maps.Copy(at, bounds[place])
	}
	text, err := json.Marshal(root)
	if err != nil {
		panic("model: the schema " + name + ": " + err.Error()) //nolint:forbidigo // an error in our own code, which its tests detect
	}
	return Schema{Name: name, JSON: text, Strict: s.Strict}
}

// Schema returns the JSON schema of the tool's arguments, in the strict form that providers can
// enforce if asked for.
func (t Tool) Schema(strict bool) (map[string]any, error) {
	parameters := map[string]any{"type": "object", "properties": map[string]any{}}
	if len(t.Parameters) > 0 {
		parameters = nil
		if err := json.Unmarshal(t.Parameters, &parameters); err != nil || parameters == nil {
			return nil, fault.New(contract.ClassRuntime, contract.CodeUnknown, "the parameters of tool %q are not a JSON schema", t.Name)
		}
	}
	if strict {
		parameters, _ = stricter(parameters).(map[string]any)
	}
	return parameters, nil
}

// placeIn finds a place in a schema, or returns nil if there is none.
func placeIn(schema any, place string) any {
	for _, part := range strings.Split(place, ".") {
		at, _ := schema.(map[string]any)
		if part == "[]" {
			schema = at["items"]
			continue
		}
		properties, _ := at["properties"].(map[string]any)
		schema = properties[part]
	}
	return schema
}

// stricter returns the form of a schema that providers can enforce: objects have all their
// properties, of which the optional ones may be null, and no others; text lengths are expressed as
// patterns, because providers support no other form.
func stricter(schema any) any {
	switch s := schema.(type) {
	case []any:
		out := make([]any, len(s))
		for i, e := range s {
			out[i] = stricter(e)
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for k, v := range s {
			if k != "properties" { // whose keys are names, not keywords
				out[k] = stricter(v)
			}
		}
		lengthsAsPattern(out)
		if properties, ok := s["properties"].(map[string]any); ok {
			strictObject(out, properties)
		}
		return out
	default:
		return schema
	}
}

func strictObject(out, properties map[string]any) {
	required, _ := out["required"].([]any)
	strict, all := map[string]any{}, []any{}
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		strict[name] = stricter(properties[name])
		if !slices.Contains(required, any(name)) {
			strict[name] = map[string]any{"anyOf": []any{strict[name], map[string]any{"type": "null"}}}
		}
		all = append(all, name)
	}
	out["properties"], out["required"], out["additionalProperties"] = strict, all, false
}

// lengthsAsPattern expresses the bounds of a text's length as a pattern.
func lengthsAsPattern(s map[string]any) {
	least, hasLeast := s["minLength"].(float64)
	most, hasMost := s["maxLength"].(float64)
	if _, taken := s["pattern"]; taken || !hasLeast && !hasMost {
		return
	}
	bounds := fmt.Sprintf("{%d,", int(least))
	if hasMost {
		bounds += fmt.Sprint(int(most))
	}
	s["pattern"] = `^[\s\S]` + bounds + `}$`
	delete(s, "minLength")
	delete(s, "maxLength")
}
