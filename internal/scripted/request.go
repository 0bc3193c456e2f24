package scripted

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// caller identifies the caller of a request by its headers.
type caller struct {
	run                int64
	agent, phase, step string
	attempt, turn      int
}

func callerOf(h http.Header) caller {
	number := func(name string) int {
		n, _ := strconv.Atoi(h.Get(name))
		return n
	}
	run, _ := strconv.ParseInt(h.Get("X-RGPT-Run"), 10, 64)
	return caller{
		run: run, agent: h.Get("X-RGPT-Agent"), phase: h.Get("X-RGPT-Phase"), step: h.Get("X-RGPT-Step"),
		attempt: number("X-RGPT-Attempt"), turn: number("X-RGPT-Turn"),
	}
}

func (c caller) String() string {
	return fmt.Sprintf("run %d, agent %q, phase %q, step %q, attempt %d, turn %d",
		c.run, c.agent, c.phase, c.step, c.attempt, c.turn)
}

// chatRequest has the fields of a chat-completions request that are used here.
type chatRequest struct {
	Model         string        `json:"model"`
	Messages      []chatMessage `json:"messages"`
	Stream        bool          `json:"stream"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`

	ResponseFormat struct {
		JSONSchema struct {
			Name string `json:"name"`
		} `json:"json_schema"`
	} `json:"response_format"`
	Tools    []chatTool `json:"tools"`
	CacheKey string     `json:"prompt_cache_key"`
	Effort   *string    `json:"reasoning_effort"`

	Temperature *float64 `json:"temperature"`

	caller caller
	key    string // digest of the Idempotency-Key; empty without one
	form   form
	prefix []segment // what the provider's cache may hold

	thinks   bool // how much the model shall think is set
	budgeted bool // as a budget of tokens
	pictures int

	encrypted bool // Responses: what the model thinks is returned encrypted
}

// schema returns the name of the schema that the response must match.
func (r *chatRequest) schema() string {
	if name := r.ResponseFormat.JSONSchema.Name; name != "" {
		return name
	}
	if len(r.Tools) == 0 {
		return ""
	}
	for _, t := range r.Tools {
		if !t.strict {
			return ""
		}
	}
	return StrictTools
}

// chatMessage is a message, with its JSON.
type chatMessage struct {
	Content  content `json:"content"`
	raw      []byte
	pictures int
	details  []detail // what the model thought
}

// UnmarshalJSON keeps the JSON besides what is read from it.
func (m *chatMessage) UnmarshalJSON(data []byte) error {
	type plain chatMessage
	m.raw = bytes.Clone(data)
	if bytes.Contains(data, []byte(`"reasoning_details"`)) {
		var doc struct {
			Details []detail `json:"reasoning_details"`
		}
		if json.Unmarshal(data, &doc) == nil {
			m.details = doc.Details
		}
	}
	if bytes.Contains(data, []byte(`"image_url"`)) {
		if err := m.readPictures(data); err != nil {
			return err
		}
	}
	return json.Unmarshal(data, (*plain)(m))
}

// readPictures counts the pictures of a message. Only a user may show some.
func (m *chatMessage) readPictures(data []byte) error {
	var doc struct {
		Role    string `json:"role"`
		Content []struct {
			Type     string `json:"type"`
			ImageURL struct {
				URL string `json:"url"`
			} `json:"image_url"`
		} `json:"content"`
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		return nil //nolint:nilerr // the name of the part in a text: no parts
	}
	for _, part := range doc.Content {
		switch {
		case part.Type != "image_url":
			continue
		case doc.Role != "user":
			return errors.New("image_url is supported only in messages of the role user")
		case !validPicture(part.ImageURL.URL):
			return errors.New("image_url: expected a data URL with a base64-encoded image")
		}
		m.pictures++
	}
	return nil
}

// chatTool is a tool, with its JSON.
type chatTool struct {
	name   string
	strict bool
	raw    []byte
}

// UnmarshalJSON keeps the JSON besides what is read from it.
func (t *chatTool) UnmarshalJSON(data []byte) error {
	var doc struct {
		Function struct {
			Name   string `json:"name"`
			Strict bool   `json:"strict"`
		} `json:"function"`
	}
	t.raw = bytes.Clone(data)
	err := json.Unmarshal(data, &doc)
	t.name, t.strict = doc.Function.Name, doc.Function.Strict
	return err
}

// segments returns the parts of the request in the order in which the provider caches them.
func (r *chatRequest) segments() []segment {
	parts := make([]segment, 0, len(r.Tools)+len(r.Messages))
	for _, t := range r.Tools {
		parts = append(parts, segment{text: t.raw})
	}
	for _, m := range r.Messages {
		chars := 0
		for _, text := range m.Content {
			chars += utf8.RuneCountInString(text)
		}
		parts = append(parts, segment{text: m.raw, chars: chars + m.pictures*pictureChars})
	}
	return parts
}

// content is a message's text: a string, null, or a list of parts.
type content []string

// UnmarshalJSON accepts every form that the protocol allows.
func (c *content) UnmarshalJSON(data []byte) error {
	switch {
	case bytes.Equal(data, []byte("null")):
		return nil
	case len(data) > 0 && data[0] == '"':
		var s string
		if err := json.Unmarshal(data, &s); err != nil {
			return err
		}
		*c = content{s}
		return nil
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if err := json.Unmarshal(data, &parts); err != nil {
		return errors.New("content is neither a string nor a list of parts")
	}
	for _, p := range parts {
		*c = append(*c, p.Text)
	}
	return nil
}

// contains searches all message texts.
func (r *chatRequest) contains(s string) bool {
	for i := range r.Messages {
		for _, text := range r.Messages[i].Content {
			if strings.Contains(text, s) {
				return true
			}
		}
	}
	return false
}

// promptTokens estimates the request's size for rules without usage.
func (r *chatRequest) promptTokens() int64 {
	chars := 0
	for _, part := range r.prefix {
		chars += part.chars
	}
	return tokens(chars)
}

// tokens counts four characters as one token, and a non-empty text as at least one.
func tokens(chars int) int64 {
	if chars == 0 {
		return 0
	}
	return int64(max(1, chars/4))
}

// readChat reads and parses a request.
func (s *Server) readChat(w http.ResponseWriter, r *http.Request) (*chatRequest, *apiError) {
	req := &chatRequest{caller: callerOf(r.Header), key: keyOf(r.Header), form: chatForm{}}
	if problem := s.readBody(w, r, req); problem != nil {
		return req, problem
	}
	if len(req.Messages) == 0 {
		return req, &apiError{status: http.StatusBadRequest, kind: "invalid_request_error", message: "messages is missing or empty"}
	}
	if e := req.Effort; e != nil && !slices.Contains(efforts, *e) {
		return req, &apiError{status: http.StatusBadRequest, kind: "invalid_request_error", message: badEffort(*e)}
	}
	req.prefix, req.thinks = req.segments(), req.Effort != nil
	for i, m := range req.Messages {
		req.pictures += m.pictures
		for _, d := range m.details {
			if d.Type != reasoningText || d.Signature != chatSignature(req.Model, d.Text) {
				return req, &apiError{status: http.StatusBadRequest, kind: "invalid_request_error", message: fmt.Sprintf("messages.%d: Invalid `signature` in `reasoning_details`", i)}
			}
		}
	}
	return req, nil
}

// readBody decodes a JSON body of limited size into v.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request, v any) *apiError {
	var body bytes.Buffer
	if n := r.ContentLength; n > 0 && n <= s.opts.MaxBody {
		body.Grow(int(n) + bytes.MinRead)
	}
	_, err := io.Copy(&body, http.MaxBytesReader(w, r.Body, s.opts.MaxBody))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return &apiError{status: http.StatusRequestEntityTooLarge, kind: "invalid_request_error", code: "context_length_exceeded",
			message: fmt.Sprintf("the request exceeds %d bytes", s.opts.MaxBody)}
	case err != nil:
		return &apiError{status: http.StatusBadRequest, kind: "invalid_request_error", message: "the request body is incomplete"}
	}
	if err := json.Unmarshal(body.Bytes(), v); err != nil {
		return &apiError{status: http.StatusBadRequest, kind: "invalid_request_error", message: "the request body is not valid JSON for this endpoint: " + err.Error()}
	}
	return nil
}

// keyOf shortens an idempotency key to a digest, because keys are kept for the lifetime of the
// server.
func keyOf(h http.Header) string {
	key := h.Get("Idempotency-Key")
	if key == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:16])
}
