package scripted

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Features that a model of a scenario may lack.
const (
	Tools       = "tools"
	JSONSchema  = "json_schema"
	Vision      = "vision"
	Streaming   = "streaming"
	Effort      = "effort"
	Thinking    = "thinking" // a budget of tokens, Anthropic's older form of an effort
	Temperature = "temperature"
	Embeddings  = "embeddings"
)

var features = []string{Tools, JSONSchema, Vision, Streaming, Effort, Thinking, Temperature, Embeddings}

// lacks has the features that a model does not have.
type lacks []string

// models reads the models of a scenario.
func (c *checker) models(docs []modelDoc) map[string]lacks {
	all := map[string]lacks{}
	for i, d := range docs {
		key := fmt.Sprintf("models[%d]", i)
		if d.Name == "" {
			c.add(key+".name", "is missing")
		}
		if _, twice := all[d.Name]; twice {
			c.add(key+".name", "%q is there twice", firstLine(d.Name))
		}
		for j, l := range d.Lacks {
			if !slices.Contains(features, l) {
				c.add(fmt.Sprintf("%s.lacks[%d]", key, j), "%q is not a feature; expected one of %s", firstLine(l), strings.Join(features, ", "))
			}
		}
		all[d.Name] = d.Lacks
	}
	return all
}

// has reports whether a scenario has a model.
func (s *Scenario) has(model string) bool {
	_, named := s.models[model]
	return named || len(s.models) == 0
}

// uses returns the features that a request uses.
func (r *chatRequest) uses() []string {
	var used []string
	for _, f := range []struct {
		name string
		used bool
	}{
		{Streaming, r.Stream},
		{Tools, len(r.Tools) > 0},
		{JSONSchema, r.ResponseFormat.JSONSchema.Name != ""},
		{Vision, r.pictures > 0},
		{Effort, r.thinks},
		{Thinking, r.budgeted},
		{Temperature, r.Temperature != nil},
	} {
		if f.used {
			used = append(used, f.name)
		}
	}
	return used
}

// refusals are what providers say of a feature that a model lacks.
var refusals = map[string]string{
	Tools:       "This model does not support tools.",
	JSONSchema:  "Invalid parameter: a response format of type 'json_schema' is not supported with this model.",
	Vision:      "This model does not support image inputs.",
	Streaming:   "Streaming is not supported for this model.",
	Effort:      "Unsupported parameter: the reasoning effort cannot be set for this model.",
	Thinking:    "Unsupported parameter: thinking cannot be enabled for this model.",
	Temperature: "Unsupported value: 'temperature' does not support a value other than the default with this model.",
	Embeddings:  "This model does not support embeddings.",
}

// unable returns why a model cannot answer a request that uses some features; nil if it can.
func (s *Server) unable(r *chatRequest, used ...string) *apiError {
	if !s.scenario.has(r.Model) {
		e := notFound(r.Model)
		return &e
	}
	for _, f := range used {
		if slices.Contains(s.scenario.models[r.Model], f) {
			return &apiError{status: http.StatusBadRequest, kind: "invalid_request_error", code: "unsupported_value", message: refusals[f]}
		}
	}
	return nil
}

func notFound(model string) apiError {
	return apiError{status: http.StatusNotFound, kind: "invalid_request_error", code: "model_not_found",
		message: "The model " + strconv.Quote(firstLine(model)) + " does not exist in the scenario."}
}
