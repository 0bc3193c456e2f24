package model

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
)

// Role is the role of a message's author.
type Role string

// Roles in a conversation.
const (
	RoleSystem    Role = "system"
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool" // the result of a tool call
)

// Message is one turn of a conversation. Its JSON form is stored in transcripts.
type Message struct {
	Role       Role       `json:"role"`
	Text       string     `json:"text,omitempty"`
	ToolCalls  []ToolCall `json:"tool_calls,omitempty"`   // of an assistant
	ToolCallID string     `json:"tool_call_id,omitempty"` // for a tool's result: the id of its call
	Reasoning  *Reasoning `json:"reasoning,omitempty"`    // of an assistant
	// Images accompany the text of a user or of a tool's result. A model without CapabilityVision gets
	// a note in their place.
	Images []Image `json:"images,omitempty"`
}

// Image is a picture for models with CapabilityVision. In a transcript it is a reference, with a digest
// and without data; requests have the data.
type Image struct {
	MediaType string `json:"media_type"` // image/png, image/jpeg, image/gif or image/webp
	Data      []byte `json:"data,omitempty"`
	Digest    string `json:"digest,omitempty"` // of the data in the artifact store
}

// Reasoning is what a model thought before its turn, in the form of its provider's API, which may be
// encrypted. The same model gets it back unchanged with later turns; other models do not.
type Reasoning struct {
	API   string          `json:"api"`
	Model string          `json:"model"`
	Items json.RawMessage `json:"items"`
}

// ToolCall is a model's request to call a tool. Arguments is the JSON object as the model wrote it.
type ToolCall struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// Tool is a tool that a model may call. Parameters is the JSON schema of its arguments; SchemaOf
// derives one from a Go type.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
}

// Identity specifies on whose behalf a call is made. It is sent with the request as X-RGPT-Run,
// -Agent, -Phase, -Step, -Attempt and -Turn; zero fields are omitted.
type Identity struct {
	Run     int64  `json:"run"`
	Agent   string `json:"agent"`
	Phase   string `json:"phase"` // planner_running
	Step    string `json:"step,omitempty"`
	Attempt int    `json:"attempt"`
	Turn    int    `json:"turn"`
}

// Request is one call of a model.
type Request struct {
	Choice   contract.ModelChoice
	Messages []Message
	Tools    []Tool
	// Schema, if set, requests one JSON document that matches it. The caller verifies this with
	// CheckJSON.
	Schema *Schema
	// Strict restricts the response to the tools' schemas: the provider enforces their strict
	// forms, and one of the tools is called.
	Strict  bool
	Headers Identity
	// MaxOutput limits the response in tokens, at most to the model's limit in the catalogue; 0
	// means the provider's default.
	MaxOutput int64
	// Timeout limits the call, excluding the wait for one of the provider's slots; 0 means the
	// provider's. The context limits both.
	Timeout time.Duration
	// Observe, if set, is called with the status and the headers of each HTTP response, whatever
	// becomes of it.
	Observe func(status int, header http.Header) `json:"-"`
	// IdempotencyKey is the same for the same request, so that a provider that supports the header
	// does not process, and charge for, it twice.
	IdempotencyKey string
	// Delta, if set, gets the pieces of a streamed response in order, while they arrive. It must
	// return quickly. A response in one piece has none.
	Delta func(kind DeltaKind, text string)
}

// DeltaKind is the kind of a piece of a streamed response.
type DeltaKind int

// The kinds of pieces.
const (
	DeltaText      DeltaKind = iota // of the text
	DeltaReasoning                  // of what the model thinks; may be empty
	DeltaTool                       // a tool call begins; the text is the tool's name
	DeltaArguments                  // of the arguments of the last tool call
)

// Response is a model's response.
type Response struct {
	Text         string         `json:"text"`
	ToolCalls    []ToolCall     `json:"tool_calls,omitempty"`
	Reasoning    *Reasoning     `json:"reasoning,omitempty"`
	FinishReason string         `json:"finish_reason"`       // stop, tool_calls, length, content_filter
	Usage        contract.Usage `json:"usage"`               // with the price from the catalogue
	Estimated    bool           `json:"estimated,omitempty"` // the provider did not report the usage
	Model        string         `json:"model"`               // as the provider named it
	Latency      time.Duration  `json:"latency"`             // from the request to the end of the response
	Streamed     bool           `json:"streamed"`
}

// Message returns the response as the assistant's turn of the conversation.
func (r Response) Message() Message {
	return Message{Role: RoleAssistant, Text: r.Text, ToolCalls: r.ToolCalls, Reasoning: r.Reasoning}
}
