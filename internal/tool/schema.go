package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	reflector "github.com/invopop/jsonschema"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// typed is a tool whose arguments are the struct P.
type typed[P any] struct {
	definition Definition
	call       func(ctx context.Context, env Env, params P) (Result, error)
}

// Definition implements Tool.
func (t typed[P]) Definition() Definition { return t.definition }

// Call implements Tool.
func (t typed[P]) Call(ctx context.Context, env Env, args json.RawMessage) (Result, error) {
	var params P
	if err := json.Unmarshal(args, &params); err != nil {
		// A number such as 1.0 or 1e9 is an integer for a schema but does not decode into an int.
		return badArguments(t.definition, err.Error()), nil
	}
	return t.call(ctx, env, params)
}

// define creates a tool from a function. The schema is derived from P and its tags; every field
// without omitempty is required.
func define[P any](d Definition, call func(ctx context.Context, env Env, params P) (Result, error)) Tool {
	d.Parameters = schemaOf[P]()
	d.Description = strings.TrimSpace(d.Description)
	return typed[P]{definition: d, call: call}
}

func schemaOf[P any]() json.RawMessage {
	r := reflector.Reflector{Anonymous: true, DoNotReference: true, ExpandedStruct: true}
	s := r.Reflect(new(P))
	s.Version = ""
	raw, err := json.Marshal(s)
	if err != nil {
		panic(fmt.Sprintf("schema of %T: %v", *new(P), err)) //nolint:forbidigo // an error in this package, which its tests detect
	}
	return raw
}

// schema checks arguments.
type schema struct {
	compiled *jsonschema.Schema
	shape    shape
}

// shape is the part of a schema that says what may be left out.
type shape struct {
	Properties map[string]shape `json:"properties"`
	Required   []string         `json:"required"`
	Items      *shape           `json:"items"`
}

// withoutNulls removes optional arguments that are null: a strict schema allows no omissions, so
// null represents an omitted value.
func (s *schema) withoutNulls(args json.RawMessage) json.RawMessage {
	decoder := json.NewDecoder(bytes.NewReader(args))
	decoder.UseNumber()
	var given any
	if decoder.Decode(&given) != nil || decoder.More() || !s.shape.dropNulls(given) {
		return args // the schema also detects what is wrong
	}
	kept, err := json.Marshal(given)
	if err != nil {
		return args
	}
	return kept
}

// dropNulls removes optional properties that are null from a value, and reports whether there were
// any.
func (s shape) dropNulls(value any) (found bool) {
	switch v := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			property, known := s.Properties[name]
			if v[name] == nil && known && !slices.Contains(s.Required, name) {
				delete(v, name)
				found = true
			} else if property.dropNulls(v[name]) {
				found = true
			}
		}
	case []any:
		for _, item := range v {
			if s.Items != nil && s.Items.dropNulls(item) {
				found = true
			}
		}
	}
	return found
}

func compile(raw json.RawMessage) (*schema, error) {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	const name = "arguments.json"
	c := jsonschema.NewCompiler()
	if err := c.AddResource(name, document); err != nil {
		return nil, err
	}
	compiled, err := c.Compile(name)
	if err != nil {
		return nil, err
	}
	out := &schema{compiled: compiled}
	return out, json.Unmarshal(raw, &out.shape)
}

// check returns the problem with the arguments, or "" if they are valid.
func (s *schema) check(args json.RawMessage) string {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(args))
	if err != nil {
		return "they are not JSON (" + err.Error() + ")"
	}
	var invalid *jsonschema.ValidationError
	if err := s.compiled.Validate(value); errors.As(err, &invalid) {
		return strings.Join(problems(invalid), "; ")
	} else if err != nil {
		return err.Error()
	}
	return ""
}

// problems flattens a validation error to its leaves.
func problems(e *jsonschema.ValidationError) []string {
	if len(e.Causes) == 0 {
		text := strings.TrimSpace(e.Error())
		if i := strings.LastIndex(text, "at '"); i >= 0 {
			text = text[i:]
		}
		return []string{fault.Clip(text, 300)}
	}
	var all []string
	for _, cause := range e.Causes {
		all = append(all, problems(cause)...)
	}
	return all
}

// failed returns a failed result with a reason for the model.
func failed(code contract.Code, format string, args ...any) Result {
	return Result{Code: code, Text: fmt.Sprintf(format, args...)}
}
