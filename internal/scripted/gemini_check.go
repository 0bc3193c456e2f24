package scripted

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// check returns what the API rejects in a request, or "".
func (r *geminiRequest) check() string {
	if r.extra != "" {
		return "Invalid JSON payload received. " + r.extra + ": Cannot find field."
	}
	for _, check := range []func() string{r.checkContents, r.checkTools, r.checkGeneration, r.checkThinking} {
		if mistake := check(); mistake != "" {
			return mistake
		}
	}
	return ""
}

// checkContents checks the turns, and that each call has its result.
func (r *geminiRequest) checkContents() string {
	if len(r.Contents) == 0 {
		return "* GenerateContentRequest.contents: contents is not specified"
	}
	started, open := r.turnStart(), []*geminiCall(nil)
	for i, c := range r.Contents {
		at := fmt.Sprintf("GenerateContentRequest.contents[%d]", i)
		switch {
		case c.Role != "user" && c.Role != "model":
			return "Please use a valid role: user, model."
		case len(c.Parts) == 0:
			return "* " + at + ".parts: contents.parts must not be empty."
		case i > 0 && c.Role == r.Contents[i-1].Role:
			return "Please ensure that multiturn requests alternate between user and model."
		case i == 0 && c.Role == "model":
			return "Please ensure that function call turn comes immediately after a user turn or after a function response turn."
		}
		calls, results, mistake := r.checkParts(at, c)
		if mistake == "" {
			mistake = paired(open, results)
		}
		if mistake == "" && i >= started && !beforeGemini3(r.model) {
			mistake = signed(i, c.Parts)
		}
		if mistake != "" {
			return mistake
		}
		open = calls
	}
	return paired(open, nil)
}

// turnStart returns where the current turn starts: the last content of the user that is not the
// result of tools.
func (r *geminiRequest) turnStart() int {
	for i, c := range slices.Backward(r.Contents) {
		if c.Role == "user" && !slices.ContainsFunc(c.Parts, func(p geminiPart) bool { return p.FunctionResponse != nil }) {
			return i
		}
	}
	return 0
}

// signed checks that the first call of a content has a signature.
func signed(at int, parts []geminiPart) string {
	for _, p := range parts {
		if p.FunctionCall == nil {
			continue
		}
		if p.ThoughtSignature == "" {
			return fmt.Sprintf("Function call `%s` in the `%d.` content block is missing a `thought_signature`.", p.FunctionCall.Name, at+1)
		}
		return ""
	}
	return ""
}

// paired checks that results belong to the calls of the turn before.
func paired(calls []*geminiCall, results []*geminiResponse) string {
	if len(calls) != len(results) {
		return "Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn."
	}
	for i, result := range results {
		if result.Name != calls[i].Name || result.ID != calls[i].ID {
			return fmt.Sprintf("Please ensure that function response parts match the function call parts of the function call turn: `%s`.", result.Name)
		}
	}
	return ""
}

// checkParts checks the parts of one content, and returns its calls and results.
func (r *geminiRequest) checkParts(at string, c geminiContent) (calls []*geminiCall, results []*geminiResponse, mistake string) {
	for i, p := range c.Parts {
		if mistake := r.checkPart(c.Role, p); mistake != "" {
			return nil, nil, fmt.Sprintf("* %s.parts[%d]: %s", at, i, mistake)
		}
		if p.FunctionCall != nil {
			calls = append(calls, p.FunctionCall)
		}
		if p.FunctionResponse != nil {
			results = append(results, p.FunctionResponse)
		}
	}
	return calls, results, ""
}

func (r *geminiRequest) checkPart(role string, p geminiPart) string {
	data := 0
	for _, given := range []bool{p.Text != nil, p.InlineData != nil, p.FunctionCall != nil, p.FunctionResponse != nil} {
		if given {
			data++
		}
	}
	switch {
	case data != 1 || (p.Text != nil && *p.Text == "" && p.ThoughtSignature == ""):
		return "required oneof field 'data' must have one initialized field"
	case p.FunctionCall != nil && (role != "model" || p.FunctionCall.Name == "" || !isObject(p.FunctionCall.Args)):
		return "function_call: a name and an object as args are required, in a turn of the model"
	case p.FunctionResponse != nil && (role != "user" || p.FunctionResponse.Name == "" || !isObject(p.FunctionResponse.Response)):
		return "function_response: a name and an object as response are required, in a turn of the user"
	case p.FunctionResponse != nil && len(p.FunctionResponse.Parts) > 0 && beforeGemini3(r.model):
		return "function_response.parts: multimodal function responses are not supported by this model"
	case p.ThoughtSignature != "" && (role != "model" || !slices.Contains(append([]string{geminiSignature(r.model, p.FunctionCall)}, anySignature...), p.ThoughtSignature)):
		return "Corrupted thought signature."
	}
	blobs := []geminiPart{p}
	if p.FunctionResponse != nil {
		blobs = p.FunctionResponse.Parts
	}
	for _, b := range blobs {
		if b.InlineData != nil && (!slices.Contains(pictureTypes, b.InlineData.MIMEType) || len(b.InlineData.Data) == 0) {
			return "Unsupported MIME type: " + b.InlineData.MIMEType
		}
	}
	return ""
}

var pictureTypes = []string{"image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"}

func isObject(raw json.RawMessage) bool {
	var object map[string]json.RawMessage
	return json.Unmarshal(raw, &object) == nil && object != nil
}

var functionName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.:-]{0,127}$`)

func (r *geminiRequest) checkTools() string {
	for i, t := range r.Tools {
		for j, f := range t.Functions {
			at := fmt.Sprintf("GenerateContentRequest.tools[%d].function_declarations[%d]", i, j)
			if !functionName.MatchString(f.Name) {
				return "* " + at + ".name: Invalid function name. Must start with a letter or an underscore."
			}
			if f.JSONSchema == nil {
				continue
			}
			if s, _ := f.JSONSchema.(map[string]any); s["type"] != "object" {
				return "* " + at + ".parameters_json_schema: schema must describe an object"
			}
			if mistake := unsupported(at+".parameters_json_schema", f.JSONSchema); mistake != "" {
				return mistake
			}
		}
	}
	if mode := r.ToolConfig.FunctionCalling.Mode; !slices.Contains([]string{"", "AUTO", "ANY", "NONE", "VALIDATED"}, mode) {
		return "Invalid value at 'tool_config.function_calling_config.mode': " + quote(mode)
	}
	return ""
}

func (r *geminiRequest) checkGeneration() string {
	g := r.Generation
	switch {
	case g.Temperature != nil && (*g.Temperature < 0 || *g.Temperature > 2):
		return "* GenerateContentRequest.generation_config.temperature: temperature must be in the range [0.0, 2.0]."
	case g.MaxOutputTokens != nil && *g.MaxOutputTokens < 1:
		return "* GenerateContentRequest.generation_config.max_output_tokens: max_output_tokens must be positive."
	case g.JSONSchema != nil && g.MIMEType != "application/json":
		return "* GenerateContentRequest.generation_config.response_json_schema: only allowed when response_mime_type is application/json."
	case g.MIMEType == "application/json" && len(r.Tools) > 0 && beforeGemini3(r.model):
		return "Function calling with a response mime type: 'application/json' is unsupported"
	}
	return unsupported("GenerateContentRequest.generation_config.response_json_schema", g.JSONSchema)
}

// thinkingRanges are the budgets that the models of Gemini 2.5 accept.
var thinkingRanges = []struct {
	model       string
	least, most int64
}{{"gemini-2.5-flash-lite", 512, 24576}, {"gemini-2.5-flash", 0, 24576}, {"gemini-2.5-pro", 128, 32768}}

func (r *geminiRequest) checkThinking() string {
	t := r.Generation.Thinking
	level := strings.ToLower(t.Level)
	switch {
	case t.Budget != nil && level != "":
		return "You can only set only one of thinking budget and thinking level."
	case level != "" && beforeGemini3(r.model):
		return "Thinking level is not supported for this model."
	case !slices.Contains([]string{"", "minimal", "low", "medium", "high"}, level),
		strings.HasPrefix(r.model, "gemini-3-pro") && (level == "minimal" || level == "medium"):
		return "Thinking level " + strings.ToUpper(level) + " is not supported for this model."
	}
	for _, allowed := range thinkingRanges {
		if !strings.HasPrefix(r.model, allowed.model) {
			continue
		}
		if b := t.Budget; b != nil && *b != -1 && (*b < allowed.least || *b > allowed.most) {
			return fmt.Sprintf("The thinking budget %d is invalid. Please choose a value between %d and %d.", *b, allowed.least, allowed.most)
		}
		return ""
	}
	return ""
}

// schemaKeywords are the keywords of a JSON schema that the API documents.
var schemaKeywords = []string{
	"$id", "$defs", "$ref", "$anchor", "type", "format", "title", "description", "enum", "items", "prefixItems", "minItems", "maxItems",
	"minimum", "maximum", "anyOf", "oneOf", "properties", "additionalProperties", "required", "propertyOrdering",
}

// unsupported returns what the API does not support in a schema, or "".
func unsupported(at string, schema any) string {
	switch s := schema.(type) {
	case []any:
		return firstOf(slices.Values(s), func(e any) string { return unsupported(at, e) })
	case map[string]any:
		if _, ok := s["$ref"]; ok && len(s) > 1 {
			return "Invalid JSON schema at " + at + ": no other properties may be set next to $ref"
		}
		return firstOf(maps.Keys(s), func(k string) string {
			switch nested, ok := s[k].(map[string]any); {
			case !slices.Contains(schemaKeywords, k):
				return fmt.Sprintf("Invalid JSON payload received. Unknown name %q at '%s': Cannot find field.", k, at)
			case ok && (k == "properties" || k == "$defs"): // whose keys are names
				return firstOf(maps.Keys(nested), func(name string) string { return unsupported(at+"."+name, nested[name]) })
			case k == "enum" || k == "required":
				return ""
			}
			return unsupported(at, s[k])
		})
	}
	return ""
}
