package wire

import (
	"bytes"
	"encoding/json"
	"sync"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/model"
)

// maxToolSchemas is the number of schemas that toolSchemas remembers, far more than there are tools.
const maxToolSchemas = 512

// toolSchemas remembers the schemas of tools in the form of an API: nearly all requests have the same
// tools. The forms are shared by all requests, so nobody may modify them.
type toolSchemas[T any] struct {
	convert func(t model.Tool, strict bool) (T, error)

	mu    sync.Mutex
	known map[schemaKey]T
}

type schemaKey struct {
	parameters string
	strict     bool
}

// of returns the schema of a tool.
func (s *toolSchemas[T]) of(t model.Tool, strict bool) (T, error) {
	s.mu.Lock()
	form, ok := s.known[schemaKey{string(t.Parameters), strict}]
	s.mu.Unlock()
	if ok {
		return form, nil
	}
	form, err := s.convert(t, strict)
	if err != nil {
		return form, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil || len(s.known) >= maxToolSchemas {
		s.known = map[schemaKey]T{}
	}
	s.known[schemaKey{string(t.Parameters), strict}] = form
	return form, nil
}

// encoded returns the JSON of a part of a tool's schema for an SDK, which copies it into its request. The SDK decides
// whether < and its like are escaped.
func encoded(t model.Tool, value any) (json.RawMessage, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, fault.Wrap(err, contract.ClassRuntime, contract.CodeUnknown, "the schema of tool %q cannot be encoded", t.Name)
	}
	return bytes.TrimSpace(text.Bytes()), nil
}

// openAITools has the schemas of tools for both of OpenAI's APIs. Their keywords are encoded.
var openAITools = toolSchemas[map[string]any]{convert: func(t model.Tool, strict bool) (map[string]any, error) {
	schema, err := t.Schema(strict)
	for keyword, value := range schema {
		if err == nil {
			schema[keyword], err = encoded(t, value)
		}
	}
	return schema, err
}}
