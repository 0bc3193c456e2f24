package scripted

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"unicode/utf8"
)

// gemini answers POST /v1beta/models/MODEL:METHOD, Google's Gemini API. It rejects what that API
// rejects.
func (s *Server) gemini(w http.ResponseWriter, r *http.Request) {
	at := strings.LastIndexByte(r.PathValue("call"), ':')
	if at < 0 {
		s.nothing(w, r)
		return
	}
	name, method := r.PathValue("call")[:at], r.PathValue("call")[at+1:]
	req := &chatRequest{Model: name, caller: callerOf(r.Header), key: keyOf(r.Header), form: geminiForm{}}
	switch method {
	case "generateContent", "streamGenerateContent":
		req.Stream = method == "streamGenerateContent"
		s.answer(w, r, req, s.readGemini(w, r, req))
	case "embedContent", "batchEmbedContents":
		s.geminiEmbeddings(w, r, req, method == "batchEmbedContents")
	default:
		s.nothing(w, r)
	}
}

// readGemini reads and checks a request, and fills in what rules match and what the cache may hold.
func (s *Server) readGemini(w http.ResponseWriter, r *http.Request, req *chatRequest) *apiError {
	if problem := keyless(r); problem != nil {
		return problem
	}
	if req.Stream && r.URL.Query().Get("alt") != "sse" {
		return &apiError{status: http.StatusBadRequest, message: "the scripted model streams events only: add ?alt=sse"}
	}
	doc := geminiRequest{model: req.Model}
	if problem := s.readBody(w, r, &doc); problem != nil {
		return problem
	}
	doc.translate(req)
	if mistake := doc.check(); mistake != "" {
		return &apiError{status: http.StatusBadRequest, message: mistake}
	}
	return nil
}

// keyless rejects a request without a key.
func keyless(r *http.Request) *apiError {
	if r.Header.Get("X-Goog-Api-Key") != "" || r.URL.Query().Get("key") != "" {
		return nil
	}
	return &apiError{status: http.StatusForbidden,
		message: "Method doesn't allow unregistered callers (callers without established identity). Please use API Key or other form of API consumer identity to call this API."}
}

// geminiRequest is a request. A field that is not here is one that the API does not have, or that is
// not used.
type geminiRequest struct {
	Contents   []geminiContent `json:"contents"`
	System     *geminiContent  `json:"systemInstruction"`
	Tools      []geminiTool    `json:"tools"`
	ToolConfig struct {
		FunctionCalling struct {
			Mode    string   `json:"mode"`
			Allowed []string `json:"allowedFunctionNames"`
		} `json:"functionCallingConfig"`
	} `json:"toolConfig"`
	Generation struct {
		Temperature     *float64        `json:"temperature"`
		TopP            *float64        `json:"topP"`
		TopK            *float64        `json:"topK"`
		Seed            *int64          `json:"seed"`
		CandidateCount  int64           `json:"candidateCount"`
		MaxOutputTokens *int64          `json:"maxOutputTokens"`
		StopSequences   []string        `json:"stopSequences"`
		MIMEType        string          `json:"responseMimeType"`
		Schema          json.RawMessage `json:"responseSchema"`
		JSONSchema      any             `json:"responseJsonSchema"`
		Thinking        struct {
			Include bool   `json:"includeThoughts"`
			Budget  *int64 `json:"thinkingBudget"`
			Level   string `json:"thinkingLevel"`
		} `json:"thinkingConfig"`
	} `json:"generationConfig"`
	Safety        json.RawMessage `json:"safetySettings"`
	CachedContent string          `json:"cachedContent"`

	model string
	extra string // a field that the API does not have
}

type (
	geminiContent struct {
		Role  string       `json:"role,omitempty"`
		Parts []geminiPart `json:"parts"`
	}
	geminiPart struct {
		Text             *string         `json:"text,omitempty"`
		Thought          bool            `json:"thought,omitempty"`
		ThoughtSignature string          `json:"thoughtSignature,omitempty"`
		InlineData       *geminiBlob     `json:"inlineData,omitempty"`
		FunctionCall     *geminiCall     `json:"functionCall,omitempty"`
		FunctionResponse *geminiResponse `json:"functionResponse,omitempty"`
	}
	geminiBlob struct {
		MIMEType    string `json:"mimeType"`
		Data        []byte `json:"data"`
		DisplayName string `json:"displayName,omitempty"`
	}
	geminiCall struct {
		ID   string          `json:"id,omitempty"`
		Name string          `json:"name"`
		Args json.RawMessage `json:"args,omitempty"`
	}
	geminiResponse struct {
		ID       string          `json:"id,omitempty"`
		Name     string          `json:"name"`
		Response json.RawMessage `json:"response,omitempty"`
		Parts    []geminiPart    `json:"parts,omitempty"`
	}
	geminiTool struct {
		Functions []geminiFunction `json:"functionDeclarations"`
	}
	geminiFunction struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Parameters  json.RawMessage `json:"parameters,omitempty"`
		JSONSchema  any             `json:"parametersJsonSchema,omitempty"`
	}
)

// UnmarshalJSON notes fields that the API does not have, which it rejects.
func (r *geminiRequest) UnmarshalJSON(data []byte) error {
	type plain geminiRequest
	strict := json.NewDecoder(bytes.NewReader(data))
	strict.DisallowUnknownFields()
	err := strict.Decode((*plain)(r))
	if err != nil && strings.Contains(err.Error(), "unknown field") {
		r.extra = err.Error()
		return json.Unmarshal(data, (*plain)(r))
	}
	return err
}

// said returns what a part says, for rules and to count it.
func (p geminiPart) said() (text string, chars int) {
	switch {
	case p.Text != nil:
		text = *p.Text
	case p.FunctionResponse != nil:
		text = string(p.FunctionResponse.Response)
		var doc struct {
			Output *string `json:"output"`
		}
		if json.Unmarshal(p.FunctionResponse.Response, &doc) == nil && doc.Output != nil {
			text = *doc.Output
		}
		chars = pictureChars * len(p.FunctionResponse.Parts)
	case p.FunctionCall != nil:
		return "", len(p.FunctionCall.Name) + len(p.FunctionCall.Args)
	case p.InlineData != nil:
		return "", pictureChars
	}
	return text, chars + utf8.RuneCountInString(text)
}

// pictures returns the number of pictures in a part.
func (p geminiPart) pictures() int {
	switch {
	case p.InlineData != nil:
		return 1
	case p.FunctionResponse != nil:
		return len(p.FunctionResponse.Parts)
	}
	return 0
}

// translate fills in what rules match, and what the cache may hold.
func (r *geminiRequest) translate(req *chatRequest) {
	req.form = geminiForm{thoughts: r.Generation.Thinking.Include}
	req.Temperature = r.Generation.Temperature
	req.thinks = r.Generation.Thinking.Level != "" || r.Generation.Thinking.Budget != nil
	if r.Generation.JSONSchema != nil {
		req.ResponseFormat.JSONSchema.Name = "answer" // the API has no names
	}
	strict := r.ToolConfig.FunctionCalling.Mode == "ANY"
	for _, t := range r.Tools {
		for _, f := range t.Functions {
			raw := encode(f)
			req.Tools = append(req.Tools, chatTool{strict: strict, raw: raw})
			req.prefix = append(req.prefix, segment{text: raw, chars: len(raw)})
		}
	}
	contents := r.Contents
	if r.System != nil {
		contents = append([]geminiContent{{Role: "system", Parts: r.System.Parts}}, contents...)
	}
	for _, c := range contents {
		for _, p := range c.Parts {
			said, chars := p.said()
			req.pictures += p.pictures()
			req.Messages = append(req.Messages, chatMessage{Content: content{said}})
			req.prefix = append(req.prefix, segment{text: append([]byte(c.Role+" "), encode(p)...), chars: chars})
		}
	}
}

var oldGemini = regexp.MustCompile(`^(gemini-[12]|gemma)([.-]|$)`)

// beforeGemini3 reports whether a model has none of the features of Gemini 3.
func beforeGemini3(name string) bool { return oldGemini.MatchString(name) }

// Signatures that the API accepts in place of its own.
var anySignature = []string{"skip_thought_signature_validator", "context_engineering_is_the_way_to_go"}

// geminiSignature signs a part of a model, so that a changed one is found.
func geminiSignature(model string, call *geminiCall) string {
	said := "text"
	if call != nil {
		var args bytes.Buffer
		_ = json.Compact(&args, call.Args) // of a call that is not JSON, nothing is signed
		said = "call " + call.Name + " " + args.String()
	}
	sum := sha256.Sum256([]byte("scripted Gemini: " + model + " " + said))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// geminiEmbeddings answers a request for one embedding, or for several.
func (s *Server) geminiEmbeddings(w http.ResponseWriter, r *http.Request, req *chatRequest, batch bool) {
	type one struct {
		Content    geminiContent `json:"content"`
		Dimensions int           `json:"outputDimensionality"`
	}
	var doc struct {
		one
		Requests []one `json:"requests"`
	}
	a := answer{server: s, w: w, r: r, form: req.form, entry: entryOf(req)}
	problem := keyless(r)
	if problem == nil {
		problem = s.readBody(w, r, &doc)
	}
	if !batch {
		doc.Requests = []one{doc.one}
	}
	type vector struct {
		Values []float32 `json:"values"`
	}
	vectors, chars := []vector{}, 0
	for _, o := range doc.Requests {
		text := ""
		for _, p := range o.Content.Parts {
			said, n := p.said()
			text, chars = text+said, chars+n
		}
		if o.Dimensions == 0 {
			o.Dimensions = defaultDimensions
		}
		if problem == nil && (len(o.Content.Parts) == 0 || o.Dimensions < 1 || o.Dimensions > maxDimensions) {
			problem = &apiError{status: http.StatusBadRequest, message: "content.parts must not be empty, and output_dimensionality must be between 1 and " + itoa(maxDimensions)}
		}
		if problem == nil {
			vectors = append(vectors, vector{embed(text, o.Dimensions)})
		}
	}
	if problem == nil {
		problem = s.unable(req, Embeddings)
	}
	switch {
	case problem != nil:
		a.fail(*problem)
	case len(vectors) == 0:
		a.fail(apiError{status: http.StatusBadRequest, message: "requests must not be empty"})
	case batch:
		a.send(http.StatusOK, jsonHeader(), encode(map[string]any{"embeddings": vectors}), usage{prompt: tokens(chars)})
	default:
		a.send(http.StatusOK, jsonHeader(), encode(map[string]any{"embedding": vectors[0]}), usage{prompt: tokens(chars)})
	}
}

func jsonHeader() http.Header { return http.Header{"Content-Type": {"application/json"}} }
