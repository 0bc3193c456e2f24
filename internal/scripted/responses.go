package scripted

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// responses answers POST /v1/responses, OpenAI's Responses API. It rejects what that API rejects, and
// stores no responses.
func (s *Server) responses(w http.ResponseWriter, r *http.Request) {
	req := &chatRequest{caller: callerOf(r.Header), key: keyOf(r.Header), form: responsesForm{}}
	var doc responsesRequest
	problem := s.readBody(w, r, &doc)
	if problem == nil {
		if mistake := doc.check(); mistake != "" {
			problem = &apiError{status: http.StatusBadRequest, kind: "invalid_request_error", code: doc.code, message: mistake}
		}
	}
	doc.translate(req)
	s.answer(w, r, req, problem)
}

// responsesRequest has the fields of a request that are used here.
type responsesRequest struct {
	Model           string          `json:"model"`
	Instructions    string          `json:"instructions"`
	Input           json.RawMessage `json:"input"`
	Tools           []responsesTool `json:"tools"`
	Store           *bool           `json:"store"`
	Include         []string        `json:"include"`
	Stream          bool            `json:"stream"`
	Temperature     *float64        `json:"temperature"`
	MaxOutputTokens *int64          `json:"max_output_tokens"`
	PromptCacheKey  string          `json:"prompt_cache_key"`
	Reasoning       struct {
		Effort  *string         `json:"effort"`
		Summary json.RawMessage `json:"summary"`
		Context json.RawMessage `json:"context"`
	} `json:"reasoning"`
	Text struct {
		Format struct {
			Type        string         `json:"type"`
			Name        string         `json:"name"`
			Description string         `json:"description"`
			Schema      map[string]any `json:"schema"`
			Strict      bool           `json:"strict"`
		} `json:"format"`
		Verbosity json.RawMessage `json:"verbosity"`
	} `json:"text"`
	PreviousResponseID string `json:"previous_response_id"`

	ToolChoice    json.RawMessage `json:"tool_choice"`
	Parallel      json.RawMessage `json:"parallel_tool_calls"`
	Metadata      json.RawMessage `json:"metadata"`
	TopP          json.RawMessage `json:"top_p"`
	Truncation    json.RawMessage `json:"truncation"`
	Tier          json.RawMessage `json:"service_tier"`
	User          json.RawMessage `json:"user"`
	Safety        json.RawMessage `json:"safety_identifier"`
	StreamOptions json.RawMessage `json:"stream_options"`
	MaxToolCalls  json.RawMessage `json:"max_tool_calls"`
	CacheOptions  json.RawMessage `json:"prompt_cache_options"`

	items []responsesItem
	extra string // a field that the API does not have
	code  string // of the mistake, if it has one
}

// UnmarshalJSON notes fields that the API does not have, which it rejects.
func (r *responsesRequest) UnmarshalJSON(data []byte) error {
	type plain responsesRequest
	strict := json.NewDecoder(bytes.NewReader(data))
	strict.DisallowUnknownFields()
	err := strict.Decode((*plain)(r))
	if err != nil && strings.Contains(err.Error(), "unknown field") {
		_, r.extra, _ = strings.Cut(err.Error(), "unknown field ")
		return json.Unmarshal(data, (*plain)(r))
	}
	return err
}

// responsesTool is the definition of a tool.
type responsesTool struct {
	Type        string         `json:"type"`
	Name        string         `json:"name"`
	Description string         `json:"description"`
	Parameters  map[string]any `json:"parameters"`
	Strict      bool           `json:"strict"`
}

// responsesItem is an item of the input.
type responsesItem struct {
	Type      string          `json:"type"`
	Role      string          `json:"role"`
	ID        string          `json:"id"`
	Content   json.RawMessage `json:"content"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Arguments *string         `json:"arguments"`
	Output    json.RawMessage `json:"output"`
	Summary   json.RawMessage `json:"summary"`
	Encrypted string          `json:"encrypted_content"`

	raw   []byte
	parts []responsesPart
}

// responsesPart is a part of the content of an item.
type responsesPart struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Refusal  string `json:"refusal"`
	ImageURL string `json:"image_url"`
}

// partsOf reads content: a text, or a list of parts.
func partsOf(raw json.RawMessage, kind string) ([]responsesPart, error) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return []responsesPart{{Type: kind, Text: text}}, nil
	}
	var parts []responsesPart
	err := json.Unmarshal(raw, &parts)
	return parts, err
}

// check returns what the API rejects in a request, or "".
func (r *responsesRequest) check() string {
	if mistake := r.readInput(); mistake != "" {
		return mistake
	}
	for _, check := range []func() string{r.checkFields, r.checkFormat, r.checkItems, r.checkCalls, r.checkThoughts} {
		if mistake := check(); mistake != "" {
			return mistake
		}
	}
	return ""
}

func (r *responsesRequest) readInput() string {
	var text string
	if json.Unmarshal(r.Input, &text) == nil && text != "" {
		r.items = []responsesItem{{Type: "message", Role: "user", raw: r.Input, parts: []responsesPart{{Type: "input_text", Text: text}}}}
		return ""
	}
	var list []json.RawMessage
	if err := json.Unmarshal(r.Input, &list); err != nil || len(list) == 0 {
		return "Missing required parameter: 'input'."
	}
	r.items = make([]responsesItem, len(list))
	for i, raw := range list {
		item := &r.items[i]
		if err := json.Unmarshal(raw, item); err != nil {
			return fmt.Sprintf("Invalid type for 'input[%d]': %v", i, err)
		}
		item.raw = raw
		if item.Type == "" && item.Role != "" {
			item.Type = "message"
		}
		var err error
		switch item.Type {
		case "message":
			item.parts, err = partsOf(item.Content, map[bool]string{true: "output_text", false: "input_text"}[item.Role == "assistant"])
		case "function_call_output":
			item.parts, err = partsOf(item.Output, "input_text")
		}
		if err != nil {
			return fmt.Sprintf("Invalid type for 'input[%d].content': expected a string or a list of parts.", i)
		}
	}
	return ""
}

var (
	efforts  = []string{"none", "minimal", "low", "medium", "high", "xhigh", "max"}
	includes = []string{
		"web_search_call.action.sources", "code_interpreter_call.outputs", "computer_call_output.output.image_url", "file_search_call.results",
		"message.input_image.image_url", "message.output_text.logprobs", includeEncrypted,
	}
	apiName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
)

const (
	includeEncrypted = "reasoning.encrypted_content"
	maxCacheKey      = 64
	leastOutput      = 16
)

func (r *responsesRequest) checkFields() string {
	switch {
	case r.extra != "":
		return "Unknown parameter: " + r.extra + "."
	case r.Model == "":
		return "Missing required parameter: 'model'."
	case r.PreviousResponseID != "":
		return "Previous response with id '" + firstLine(r.PreviousResponseID) + "' not found."
	case r.Temperature != nil && (*r.Temperature < 0 || *r.Temperature > 2):
		return "Invalid 'temperature': expected a value between 0 and 2."
	case r.MaxOutputTokens != nil && *r.MaxOutputTokens < leastOutput:
		return fmt.Sprintf("Invalid 'max_output_tokens': integer below minimum value. Expected a value >= %d, but got %d instead.", leastOutput, *r.MaxOutputTokens)
	case len(r.PromptCacheKey) > maxCacheKey:
		return fmt.Sprintf("Invalid 'prompt_cache_key': string too long. Expected a string with maximum length %d, but got a string with length %d instead.", maxCacheKey, len(r.PromptCacheKey))
	case r.Reasoning.Effort != nil && !slices.Contains(efforts, *r.Reasoning.Effort):
		return badEffort(*r.Reasoning.Effort)
	}
	for i, name := range r.Include {
		if !slices.Contains(includes, name) {
			return fmt.Sprintf("Invalid value for 'include[%d]': '%s'.", i, firstLine(name))
		}
	}
	for i, t := range r.Tools {
		switch {
		case t.Type != "function":
			return fmt.Sprintf("Invalid value for 'tools[%d].type': expected 'function'.", i)
		case !apiName.MatchString(t.Name):
			return fmt.Sprintf("Invalid 'tools[%d].name': expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.", i)
		case t.Parameters["type"] != "object":
			return fmt.Sprintf("Invalid schema for function '%s': schema must be a JSON Schema of 'type: \"object\"'.", t.Name)
		}
		if mistake := notStrict(t.Parameters, "()"); t.Strict && mistake != "" {
			return fmt.Sprintf("Invalid schema for function '%s': %s", t.Name, mistake)
		}
	}
	return ""
}

func badEffort(effort string) string {
	return "Invalid value: '" + firstLine(effort) + "'. Supported values are: '" + strings.Join(efforts, "', '") + "'."
}

func (r *responsesRequest) checkFormat() string {
	f := r.Text.Format
	switch {
	case f.Type == "" || f.Type == "text" || f.Type == "json_object":
		return ""
	case f.Type != "json_schema":
		return "Invalid value: '" + firstLine(f.Type) + "'. Supported values are: 'json_object', 'json_schema', and 'text'."
	case !apiName.MatchString(f.Name):
		return "Invalid 'text.format.name': expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'."
	case f.Schema == nil:
		return "Missing required parameter: 'text.format.schema'."
	}
	if mistake := notStrict(f.Schema, "()"); f.Strict && mistake != "" {
		return fmt.Sprintf("Invalid schema for response_format '%s': %s", f.Name, mistake)
	}
	return ""
}

// notPermitted are the keywords that OpenAI rejects in a strict schema.
var notPermitted = []string{
	"allOf", "not", "if", "then", "else", "dependentRequired", "dependentSchemas", "minLength", "maxLength", "patternProperties", "propertyNames",
	"minProperties", "maxProperties", "uniqueItems", "contains", "minContains", "maxContains", "unevaluatedProperties", "unevaluatedItems",
}

// notStrict returns what OpenAI rejects in a schema that it enforces, or "".
func notStrict(schema any, at string) string {
	switch s := schema.(type) {
	case []any:
		return firstOf(slices.Values(s), func(e any) string { return notStrict(e, at) })
	case map[string]any:
		properties, _ := s["properties"].(map[string]any)
		if mistake := notStrictObject(s, properties, at); mistake != "" {
			return mistake
		}
		for k, v := range s {
			if slices.Contains(notPermitted, k) {
				return fmt.Sprintf("In context=%s, '%s' is not permitted.", at, k)
			}
			if k == "properties" { // whose keys are names
				continue
			}
			if mistake := notStrict(v, at); mistake != "" {
				return mistake
			}
		}
		for name, v := range properties {
			if mistake := notStrict(v, "('properties', '"+name+"')"); mistake != "" {
				return mistake
			}
		}
	}
	return ""
}

func notStrictObject(s, properties map[string]any, at string) string {
	if s["type"] != "object" {
		return ""
	}
	if s["additionalProperties"] != false {
		return "In context=" + at + ", 'additionalProperties' is required to be supplied and to be false."
	}
	required, _ := s["required"].([]any)
	for name := range properties {
		if !slices.Contains(required, any(name)) {
			return "In context=" + at + ", 'required' is required to be supplied and to be an array including every key in properties. Missing '" + name + "'."
		}
	}
	return ""
}

// checkItems checks each item by itself.
func (r *responsesRequest) checkItems() string {
	seen := map[string]bool{}
	for i := range r.items {
		item := &r.items[i]
		if mistake := item.check(); mistake != "" {
			return fmt.Sprintf("input[%d]: %s", i, mistake)
		}
		if item.ID != "" && seen[item.ID] {
			return "Duplicate item found with id " + firstLine(item.ID) + ". Remove duplicate items from your input and try again."
		}
		seen[item.ID] = true
	}
	return ""
}

func (i *responsesItem) check() string {
	allowed := []string{"input_text", "input_image"}
	switch i.Type {
	case "message":
		if !slices.Contains([]string{"user", "assistant", "system", "developer"}, i.Role) {
			return "Invalid value: '" + firstLine(i.Role) + "'. Supported values are: 'assistant', 'system', 'developer', and 'user'."
		}
		if i.Role == "assistant" {
			allowed = []string{"output_text", "refusal"}
		}
		if len(i.parts) == 0 {
			return "Missing required parameter: 'content'."
		}
	case "function_call":
		if !apiName.MatchString(i.Name) || i.Arguments == nil {
			return "name and arguments are required"
		}
		fallthrough
	case "function_call_output":
		if i.CallID == "" || len(i.CallID) > 64 {
			return "Invalid 'call_id': expected a string of 1 to 64 characters."
		}
		if i.Type == "function_call_output" && len(i.parts) == 0 {
			return "Missing required parameter: 'output'."
		}
	case "reasoning":
		var summary []json.RawMessage
		if i.ID == "" || json.Unmarshal(i.Summary, &summary) != nil || summary == nil {
			return "id and summary are required"
		}
	default:
		return "Invalid value: '" + firstLine(i.Type) + "'. Supported values are: 'message', 'function_call', 'function_call_output', and 'reasoning'."
	}
	for _, p := range i.parts {
		if !slices.Contains(allowed, p.Type) {
			return "Invalid value: '" + firstLine(p.Type) + "'. Supported values are: '" + strings.Join(allowed, "' and '") + "'."
		}
		if p.Type == "input_image" && !validPicture(p.ImageURL) {
			return "Invalid 'image_url'. Expected a data URL with a base64-encoded image (e.g. 'data:image/png;base64,aW1nIGJ5dGVzIGhlcmU=')."
		}
	}
	return ""
}

var pictureURL = regexp.MustCompile(`^data:image/(png|jpeg|gif|webp);base64,(.+)$`)

// validPicture reports whether a URL contains a picture in a form that providers accept.
func validPicture(url string) bool {
	m := pictureURL.FindStringSubmatch(url)
	if m == nil {
		return false
	}
	_, err := base64.StdEncoding.DecodeString(m[2])
	return err == nil
}

// checkCalls checks that each call has one output after it.
func (r *responsesRequest) checkCalls() string {
	open, known := []string{}, map[string]bool{}
	for _, i := range r.items {
		switch i.Type {
		case "function_call":
			if known[i.CallID] {
				return "Duplicate function call with call_id " + firstLine(i.CallID) + "."
			}
			open, known[i.CallID] = append(open, i.CallID), true
		case "function_call_output":
			n := slices.Index(open, i.CallID)
			if n < 0 {
				return "No tool call found for function call output with call_id " + firstLine(i.CallID) + "."
			}
			open = slices.Delete(open, n, n+1)
		}
	}
	if len(open) > 0 {
		return "No tool output found for function call " + firstLine(open[0]) + "."
	}
	return ""
}

// checkThoughts checks that what the model thought came back unchanged, to the same model, and before
// the item that it led to.
func (r *responsesRequest) checkThoughts() string {
	for n, i := range r.items {
		if i.Type != "reasoning" {
			continue
		}
		if i.Encrypted == "" {
			return "Item with id '" + firstLine(i.ID) + "' not found. Items are not persisted when `store` is set to false. Try again with `store` set to true, or remove this item from your input."
		}
		led, ok := decrypted(r.Model, i.ID, i.Encrypted)
		if !ok {
			r.code = "invalid_encrypted_content"
			return "The encrypted content for item " + firstLine(i.ID) + " could not be verified."
		}
		if n+1 == len(r.items) || r.items[n+1].leads() != led {
			return "Item '" + firstLine(i.ID) + "' of type 'reasoning' was provided without its required following item."
		}
	}
	return ""
}

// leads names an item that thoughts led to.
func (i responsesItem) leads() string {
	switch {
	case i.Type == "function_call":
		return i.CallID
	case i.Type == "message" && i.Role == "assistant":
		return "message"
	}
	return ""
}

// pictureChars is the size of a picture, as that of a text.
const pictureChars = 4 * 765

// translate fills in what rules match, and what the cache may hold.
func (r *responsesRequest) translate(req *chatRequest) {
	req.Model, req.Stream, req.CacheKey = r.Model, r.Stream, r.PromptCacheKey
	req.encrypted = slices.Contains(r.Include, includeEncrypted)
	req.Temperature, req.thinks = r.Temperature, r.Reasoning.Effort != nil
	if r.Text.Format.Type == "json_schema" {
		req.ResponseFormat.JSONSchema.Name = r.Text.Format.Name
	}
	add := func(raw []byte, said string, chars int) {
		req.Messages = append(req.Messages, chatMessage{Content: content{said}})
		req.prefix = append(req.prefix, segment{text: raw, chars: chars})
	}
	for _, t := range r.Tools {
		raw := encode(t)
		req.Tools = append(req.Tools, chatTool{strict: t.Strict, raw: raw})
		req.prefix = append(req.prefix, segment{text: raw, chars: len(raw)})
	}
	if r.Instructions != "" {
		add([]byte(r.Instructions), r.Instructions, utf8.RuneCountInString(r.Instructions))
	}
	for _, i := range r.items {
		said, pictures := "", 0
		for _, p := range i.parts {
			said += p.Text + p.Refusal
			if p.ImageURL != "" {
				pictures++
			}
		}
		req.pictures += pictures
		chars := utf8.RuneCountInString(said) + pictures*pictureChars + len(i.Encrypted)
		if i.Arguments != nil {
			chars += len(*i.Arguments)
		}
		add(i.raw, said, chars)
	}
}
