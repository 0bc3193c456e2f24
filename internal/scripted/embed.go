package scripted

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Dimensions of an embedding: the default, and the maximum.
const (
	defaultDimensions = 256
	maxDimensions     = 4096
)

// embeddingRequest is a request for embeddings.
type embeddingRequest struct {
	Model      string `json:"model"`
	Input      texts  `json:"input"`
	Dimensions int    `json:"dimensions"`
	Encoding   string `json:"encoding_format"`
}

// texts is a string, a list of strings, a list of token ids or a list of those.
type texts []string

// UnmarshalJSON accepts every form that the protocol allows.
func (t *texts) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*t = texts{one}
		return nil
	}
	var list []json.RawMessage
	if err := json.Unmarshal(data, &list); err != nil || len(list) == 0 {
		return errors.New("input is neither a string nor a list of strings")
	}
	if b := list[0]; b[0] != '"' && b[0] != '[' { // one text as token ids
		*t = texts{string(data)}
		return nil
	}
	for _, item := range list {
		if json.Unmarshal(item, &one) != nil {
			one = string(item)
		}
		*t = append(*t, one)
	}
	return nil
}

// embeddings handles POST /v1/embeddings: equal texts get equal vectors, and texts that share words
// get similar ones. Rules do not apply.
func (s *Server) embeddings(w http.ResponseWriter, r *http.Request) {
	var req embeddingRequest
	problem := s.readBody(w, r, &req)
	a := answer{server: s, w: w, r: r, form: chatForm{}, entry: entryOf(&chatRequest{Model: req.Model, caller: callerOf(r.Header)})}
	req.Dimensions = cmp.Or(req.Dimensions, defaultDimensions)
	switch {
	case problem != nil:
	case len(req.Input) == 0:
		problem = &apiError{status: http.StatusBadRequest, kind: "invalid_request_error", message: "input is missing or empty"}
	case req.Dimensions < 1 || req.Dimensions > maxDimensions:
		problem = &apiError{status: http.StatusBadRequest, kind: "invalid_request_error", message: fmt.Sprintf("dimensions is %d; expected 1 to %d", req.Dimensions, maxDimensions)}
	}
	if problem == nil {
		problem = s.unable(&chatRequest{Model: req.Model}, Embeddings)
	}
	if problem != nil {
		a.fail(*problem)
		return
	}
	body, u := req.answer()
	a.send(http.StatusOK, http.Header{"Content-Type": {"application/json"}}, body, u)
}

func (req *embeddingRequest) answer() ([]byte, usage) {
	type item struct {
		Object    string `json:"object"`
		Index     int    `json:"index"`
		Embedding any    `json:"embedding"`
	}
	chars := 0
	data := make([]item, 0, len(req.Input))
	for i, text := range req.Input {
		chars += utf8.RuneCountInString(text)
		var v any = embed(text, req.Dimensions)
		if req.Encoding == "base64" {
			v = packed(v.([]float32))
		}
		data = append(data, item{Object: "embedding", Index: i, Embedding: v})
	}
	u := usage{prompt: tokens(chars)}
	return encode(map[string]any{
		"object": "list", "model": req.Model, "data": data,
		"usage": map[string]int64{"prompt_tokens": u.prompt, "total_tokens": u.prompt},
	}), u
}

// embed hashes a text's words into a vector of length 1.
func embed(text string, dimensions int) []float32 {
	v := make([]float32, dimensions)
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	if len(words) == 0 {
		words = []string{text}
	}
	for _, word := range words {
		h := fnv.New64a()
		_, _ = h.Write([]byte(word))
		sum := h.Sum64()
		sign := float32(1)
		if sum>>63 == 1 {
			sign = -1
		}
		v[sum%uint64(dimensions)] += sign
	}
	return unit(v)
}

// unit scales a vector to length 1; if all components cancel out, it returns the first axis.
func unit(v []float32) []float32 {
	var sum float64
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	if sum == 0 {
		v[0] = 1
		return v
	}
	scale := float32(1 / math.Sqrt(sum))
	for i := range v {
		v[i] *= scale
	}
	return v
}

// packed encodes a vector in the protocol's base64 form: little-endian float32.
func packed(v []float32) string {
	b := make([]byte, 0, 4*len(v))
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return base64.StdEncoding.EncodeToString(b)
}
