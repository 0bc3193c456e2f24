package store

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// PostgreSQL stores neither NUL nor invalid UTF-8 nor half a surrogate pair,
// all of which come out of repositories, commands and models. What it cannot
// store is replaced by U+FFFD rather than losing the whole text.

// text makes a string fit for a TEXT column.
func text(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// encode makes JSON of a value, fit for a JSONB column.
func encode(v any) (json.RawMessage, error) {
	raw, err := marshal(v)
	if err != nil {
		return nil, err
	}
	return document(raw)
}

// document makes JSON fit for a JSONB column; empty becomes NULL.
func document(raw json.RawMessage) (json.RawMessage, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	if !json.Valid(raw) {
		return nil, fault.New(contract.ClassRuntime, contract.CodeUnknown, "cannot store what should be JSON and is none")
	}
	if utf8.Valid(raw) && !suspicious(raw) {
		return raw, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(raw)) // replaces invalid UTF-8 and half pairs
	decoder.UseNumber()
	var v any
	if err := decoder.Decode(&v); err != nil {
		return nil, fault.Wrap(err, contract.ClassRuntime, contract.CodeUnknown, "cannot store what should be JSON")
	}
	return marshal(storable(v))
}

// suspicious reports whether JSON may hold NUL or a surrogate.
func suspicious(raw []byte) bool {
	return bytes.Contains(raw, []byte(`\u0000`)) || bytes.Contains(raw, []byte(`\ud`)) || bytes.Contains(raw, []byte(`\uD`))
}

func marshal(v any) (json.RawMessage, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return nil, fault.Wrap(err, contract.ClassRuntime, contract.CodeUnknown, "cannot make JSON of a %T", v)
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// storable applies text to all strings of a decoded JSON value.
func storable(v any) any {
	switch v := v.(type) {
	case string:
		return text(v)
	case []any:
		for i := range v {
			v[i] = storable(v[i])
		}
		return v
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, value := range v {
			out[text(key)] = storable(value)
		}
		return out
	}
	return v
}

// decode reads JSON that the store has written.
func decode[T any](raw json.RawMessage) (T, error) {
	var v T
	if len(raw) == 0 {
		return v, nil
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return v, fault.Wrap(err, contract.ClassRuntime, contract.CodeUnknown, "cannot read a stored %T", v)
	}
	return v, nil
}
