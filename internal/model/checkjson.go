package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// CheckJSON checks that a model's text is one JSON document that matches a schema, and returns the
// document. A Markdown fence around the whole text is removed; a property that may be null may be
// omitted. For a document that does not match, it returns an LLM_ERROR with the code invalid_output
// that lists the first mismatches and can be shown to the model. An invalid schema is a
// RUNTIME_ERROR.
func CheckJSON(schema Schema, text string) (json.RawMessage, error) {
	doc := bytes.TrimSpace([]byte(unfence(text)))
	value, err := decodeOne(doc)
	if err != nil {
		return nil, fault.New(contract.ClassLLM, contract.CodeInvalidOutput, "the response is not a single JSON document: %v", err)
	}
	compiled, err := validatorOf(schema.JSON)
	if err != nil {
		return nil, fault.Wrap(err, contract.ClassRuntime, contract.CodeUnknown, "the JSON schema %q is invalid", schema.Name)
	}
	var invalid *jsonschema.ValidationError
	switch err := compiled.Validate(value); {
	case err == nil:
		return doc, nil
	case errors.As(err, &invalid):
		return nil, fault.New(contract.ClassLLM, contract.CodeInvalidOutput, "the response does not match its JSON schema: %s", places(invalid))
	default:
		return nil, fault.Wrap(err, contract.ClassLLM, contract.CodeInvalidOutput, "the response could not be checked against its JSON schema")
	}
}

// decodeOne reads exactly one JSON value, with numbers in their original notation.
func decodeOne(doc []byte) (any, error) {
	if len(doc) == 0 {
		return nil, errors.New("it is empty")
	}
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.UseNumber()
	var value any
	if err := dec.Decode(&value); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
			return nil, errors.New("it is incomplete")
		}
		return nil, fmt.Errorf("%w (byte %d)", err, dec.InputOffset())
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("unexpected text after the document at byte %d", dec.InputOffset())
	}
	return value, nil
}

// validators caches the validator of each schema that was used. All schemas are the program's own,
// so there are few; compiling one takes longer than most database calls.
var validators sync.Map // the schema's text → *jsonschema.Schema

// validatorOf returns the validator of a schema, which is compiled only once.
func validatorOf(schema json.RawMessage) (*jsonschema.Schema, error) {
	key := string(schema)
	if known, ok := validators.Load(key); ok {
		return known.(*jsonschema.Schema), nil //nolint:forcetypeassert // stored below
	}
	made, err := compile(schema)
	if err == nil {
		validators.Store(key, made)
	}
	return made, err
}

// compile compiles a validator for a schema in which everything that may be null is optional.
func compile(schema json.RawMessage) (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return nil, err
	}
	relax(doc)
	const name = "schema.json"
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	if err := c.AddResource(name, doc); err != nil {
		return nil, err
	}
	return c.Compile(name)
}

// noLoader prevents schemas from referring to files or addresses.
type noLoader struct{}

// Load rejects every reference outside the schema.
func (noLoader) Load(string) (any, error) {
	return nil, errors.New("a schema must not contain external references")
}

// relax makes properties that may be null optional, everywhere.
func relax(v any) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			relax(e)
		}
	case map[string]any:
		for _, e := range v {
			relax(e)
		}
		properties, _ := v["properties"].(map[string]any)
		required, _ := v["required"].([]any)
		kept := []any{}
		for _, name := range required {
			if key, ok := name.(string); !ok || !mayBeNull(properties[key]) {
				kept = append(kept, name)
			}
		}
		if len(required) > 0 {
			v["required"] = kept
		}
	}
}

func mayBeNull(schema any) bool {
	s, _ := schema.(map[string]any)
	switch t := s["type"].(type) {
	case string:
		return t == "null"
	case []any:
		for _, e := range t {
			if e == "null" {
				return true
			}
		}
	}
	for _, key := range []string{"anyOf", "oneOf"} {
		list, _ := s[key].([]any)
		if slices.ContainsFunc(list, mayBeNull) {
			return true
		}
	}
	return false
}

// Limits of the details in an error about a document that does not match.
const (
	maxPlaces = 5
	maxWords  = 200 // of one place, in bytes
)

// places lists the mismatches of a document.
func places(e *jsonschema.ValidationError) string {
	printer := message.NewPrinter(language.English)
	var all []string
	var visit func(*jsonschema.ValidationError)
	visit = func(e *jsonschema.ValidationError) {
		if len(e.Causes) == 0 {
			where := "/" + strings.Join(e.InstanceLocation, "/")
			all = append(all, fault.Clip("at "+where+": "+e.ErrorKind.LocalizedString(printer), maxWords))
		}
		for _, c := range e.Causes {
			visit(c)
		}
	}
	visit(e)
	if more := len(all) - maxPlaces; more > 0 {
		all = append(all[:maxPlaces], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(all, "; ")
}

// unfence removes a Markdown fence if the whole text is one fenced block.
func unfence(text string) string {
	s := strings.TrimSpace(text)
	ticks := len(s) - len(strings.TrimLeft(s, "`"))
	if ticks < 3 {
		return text
	}
	fence := s[:ticks]
	first, rest, ok := strings.Cut(s[ticks:], "\n")
	if !ok || strings.ContainsAny(strings.TrimSpace(first), " `{[") {
		return text
	}
	body, ok := strings.CutSuffix(rest, fence)
	if !ok || (body != "" && !strings.HasSuffix(body, "\n")) {
		return text
	}
	return body
}
