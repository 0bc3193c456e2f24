package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// geminiKeywords are the keywords of a JSON schema that Gemini's API supports with a value that is
// not itself a schema.
var geminiKeywords = []string{
	"$id", "$anchor", "type", "title", "enum", "minItems", "maxItems", "minimum", "maximum", "required",
}

// geminiFormats are the formats that the API supports.
var geminiFormats = []string{`"date-time"`, `"date"`, `"time"`, `"int32"`, `"int64"`, `"float"`, `"double"`}

// geminiSchema returns a JSON schema in the form that Gemini's API supports. Other keywords move to
// the descriptions, where the model reads them; our own check of the response still applies them.
// The model writes properties in the order of the schema.
func geminiSchema(raw json.RawMessage) any {
	names, values := members(raw)
	if names == nil {
		var list []json.RawMessage
		if json.Unmarshal(raw, &list) != nil || list == nil {
			return raw // true or false
		}
		return each(list, geminiSchema)
	}
	out := map[string]any{}
	if ref, ok := values["$ref"]; ok { // nothing else may be next to it
		out["$ref"] = json.RawMessage(bytes.Replace(ref, []byte("#/definitions/"), []byte("#/$defs/"), 1))
		names = nil
	}
	var moved []string
	for _, name := range names {
		if words := geminiKeyword(out, name, values[name]); words != "" {
			moved = append(moved, words)
		}
	}
	for _, name := range []string{"$defs", "definitions"} {
		if definitions, ok := values[name]; ok {
			out["$defs"], _ = named(definitions)
		}
	}
	if len(moved) > 0 {
		text, _ := out["description"].(string)
		out["description"] = strings.TrimSpace(text + " (" + strings.Join(moved, ", ") + ")")
	}
	return out
}

// geminiKeyword adds a keyword to a schema, or returns it in words.
func geminiKeyword(out map[string]any, name string, value json.RawMessage) string {
	switch name {
	case "$schema", "$comment", "$defs", "definitions", "propertyOrdering":
	case "properties":
		out[name], out["propertyOrdering"] = named(value)
	case "items", "prefixItems", "anyOf", "oneOf", "additionalProperties":
		out[name] = geminiSchema(value)
	case "const":
		out["enum"] = []any{value}
	case "description":
		var text string
		_ = json.Unmarshal(value, &text) // of a tool, which may have anything here
		out[name] = text
	default:
		if !slices.Contains(geminiKeywords, name) && (name != "format" || !slices.Contains(geminiFormats, string(value))) {
			return fmt.Sprintf("%s: %s", name, value)
		}
		out[name] = value
	}
	return ""
}

// named returns schemas by their names, and the names in their order.
func named(raw json.RawMessage) (map[string]any, []string) {
	names, values := members(raw)
	out := map[string]any{}
	for _, name := range names {
		out[name] = geminiSchema(values[name])
	}
	return out, names
}

// members returns the members of a JSON object, and their names in their order: nil if it is none.
func members(raw json.RawMessage) (names []string, values map[string]json.RawMessage) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, nil
	}
	names, values = []string{}, map[string]json.RawMessage{}
	for d.More() {
		name, _ := d.Token()
		var value json.RawMessage
		if d.Decode(&value) != nil {
			return nil, nil
		}
		text, _ := name.(string)
		if _, twice := values[text]; !twice {
			names = append(names, text)
		}
		values[text] = value
	}
	return names, values
}

func each[T any](list []T, f func(T) any) []any {
	out := make([]any, len(list))
	for i, e := range list {
		out[i] = f(e)
	}
	return out
}
