package scripted

import (
	"bytes"
	"encoding/base64"
	"iter"
	"net/http"
	"regexp"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream/eventstreamapi"
)

// Versions of Anthropic's API that the clouds require in the body.
const (
	bedrockVersion = "bedrock-2023-05-31"
	vertexVersion  = "vertex-2023-10-16"
)

// bedrock answers POST /model/ID/invoke and /invoke-with-response-stream, as Amazon Bedrock does.
func (s *Server) bedrock(w http.ResponseWriter, r *http.Request) {
	stream := r.PathValue("method") == "invoke-with-response-stream"
	if !stream && r.PathValue("method") != "invoke" {
		s.nothing(w, r)
		return
	}
	var problem *apiError
	if auth := r.Header.Get("Authorization"); !strings.HasPrefix(auth, "Bearer ") && (!signedByAWS.MatchString(auth) || r.Header.Get("X-Amz-Date") == "") {
		problem = &apiError{status: http.StatusForbidden, message: "Missing Authentication Token"}
	}
	s.cloud(w, r, &chatRequest{Model: r.PathValue("id"), Stream: stream, form: bedrockForm{}}, bedrockVersion, problem)
}

// signedByAWS matches a signature of AWS.
var signedByAWS = regexp.MustCompile(`^AWS4-HMAC-SHA256 Credential=\w+/\d{8}/[a-z0-9-]+/bedrock/aws4_request, SignedHeaders=[a-z0-9;-]+, Signature=[0-9a-f]{64}$`)

// vertex answers POST /v1/projects/…/publishers/anthropic/models/MODEL:rawPredict and :streamRawPredict,
// as Google's Vertex AI does.
func (s *Server) vertex(w http.ResponseWriter, r *http.Request) {
	name, method, _ := strings.Cut(r.PathValue("call"), ":")
	if method != "rawPredict" && method != "streamRawPredict" {
		s.nothing(w, r)
		return
	}
	var problem *apiError
	if !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer ") {
		problem = &apiError{status: http.StatusUnauthorized, message: "Request is missing required authentication credential. Expected OAuth 2 access token."}
	}
	s.cloud(w, r, &chatRequest{Model: name, Stream: method == "streamRawPredict", form: messagesForm{}}, vertexVersion, problem)
}

// cloud answers a request of Anthropic's API whose model is in its path.
func (s *Server) cloud(w http.ResponseWriter, r *http.Request, req *chatRequest, version string, problem *apiError) {
	req.caller, req.key = callerOf(r.Header), keyOf(r.Header)
	doc := messagesRequest{wantVersion: version}
	if problem == nil {
		problem = s.readBody(w, r, &doc)
	}
	mistake := ""
	switch {
	case doc.Model != "":
		mistake = "model: Extra inputs are not permitted"
	case doc.Stream && version == bedrockVersion:
		mistake = "stream: Extra inputs are not permitted"
	case problem == nil:
		doc.Model, doc.Stream = req.Model, req.Stream
		mistake = doc.check(r.Header)
	}
	if problem == nil && mistake != "" {
		problem = &apiError{status: http.StatusBadRequest, kind: "invalid_request_error", message: mistake}
	}
	doc.Model, doc.Stream = req.Model, req.Stream
	doc.translate(req)
	s.answer(w, r, req, problem)
}

// bedrockForm is the JSON of Anthropic's API in the frames of AWS.
type bedrockForm struct{ messagesForm }

var frameHeader = http.Header{"Content-Type": {"application/vnd.amazon.eventstream"}}

func (bedrockForm) problem(e apiError) []byte {
	message := e.message
	if e.code != "" {
		message = e.code + ": " + message
	}
	return encode(map[string]any{"message": message})
}

func (f bedrockForm) opening(c *completion) []byte { return framed(f.messagesForm.opening(c)) }

func (f bedrockForm) piece(c *completion, text string) []byte {
	return framed(f.messagesForm.piece(c, text))
}

func (f bedrockForm) final(c *completion) []byte { return framed(f.messagesForm.final(c)) }

func (f bedrockForm) events(c *completion) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for e := range f.messagesForm.events(c) {
			if !yield(framed(e)) {
				return
			}
		}
	}
}

// framed puts server-sent events into frames.
func framed(events []byte) []byte {
	var out bytes.Buffer
	for event := range bytes.SplitSeq(events, []byte("\n\n")) {
		_, data, ok := bytes.Cut(event, []byte("data: "))
		if !ok {
			continue
		}
		out.Write(frame(encode(map[string]string{"bytes": base64.StdEncoding.EncodeToString(data)})))
	}
	return out.Bytes()
}

// frame puts a payload into a frame.
func frame(payload []byte) []byte {
	m := eventstream.Message{Payload: payload}
	m.Headers.Set(eventstreamapi.MessageTypeHeader, eventstream.StringValue(eventstreamapi.EventMessageType))
	m.Headers.Set(eventstreamapi.EventTypeHeader, eventstream.StringValue("chunk"))
	m.Headers.Set(eventstreamapi.ContentTypeHeader, eventstream.StringValue("application/json"))
	var out bytes.Buffer
	if err := eventstream.NewEncoder().Encode(&out, m); err != nil {
		panic("scripted: " + err.Error()) //nolint:forbidigo // a bug in the lines above
	}
	return out.Bytes()
}
