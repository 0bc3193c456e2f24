// Package wire has the adapters for the APIs of model providers. An adapter makes one request through
// the SDK of its API and collects the response, streamed or in one piece. It never retries, reads no
// environment, and does not judge what it received.
package wire

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/model"
)

// Call is one call of a model.
type Call struct {
	Request  model.Request
	Provider model.Provider // with its defaults
	Entry    model.CatalogueEntry
	Key      string       // empty: none
	HTTP     *http.Client // fails for any status other than success
	// MaxResponse limits the response, in bytes of its text and tool arguments.
	MaxResponse int64
}

// delta passes on a piece of a streamed response.
func (c *Call) delta(kind model.DeltaKind, text string) {
	if c.Request.Delta != nil {
		c.Request.Delta(kind, text)
	}
}

// Adapter speaks the API of a provider.
type Adapter interface {
	// Send makes one request and collects its response. With an error, the response has what was
	// received before it. Errors are those of the HTTP client, ErrTooLarge, a *ReportedError, a
	// *MalformedError, or a fault for a request that cannot be expressed.
	Send(ctx context.Context, c *Call, stream bool) (model.Response, error)
}

// For returns the adapter for a model of a provider with its defaults. A model that the catalogue knows
// to be served by one API only is called by that one.
func For(p model.Provider, e model.CatalogueEntry) Adapter {
	switch {
	case p.Kind.ChoosesAPI() && e.API == string(model.APIResponses):
		return openAIResponses{}
	case p.Kind == model.KindAnthropic:
		return messages{}
	case p.Kind == model.KindBedrock:
		return bedrockMessages{}
	case p.Kind == model.KindVertex:
		return vertexMessages{}
	case p.Kind == model.KindGemini:
		return gemini{}
	case p.API == model.APIResponses:
		return openAIResponses{}
	default:
		return chat{}
	}
}

// FinishUnusable is the finish reason of a response that its provider calls unusable, such as one with
// a malformed tool call.
const FinishUnusable = "unusable"

// ErrTooLarge marks a response over the limit.
var ErrTooLarge = errors.New("the response is too large")

// ReportedError is an error that a provider reports inside a response. Status is the HTTP status that
// it usually has; 0 means unknown.
type ReportedError struct {
	Body   []byte
	Status int
}

// Error does not repeat the body, which may quote secrets.
func (e *ReportedError) Error() string { return "the provider reported an error in its response" }

// MalformedError is a response that does not match the API's JSON format.
type MalformedError struct{ Err error }

// Error describes the mismatch.
func (e *MalformedError) Error() string { return e.Err.Error() }

// isStream reports whether a response is a stream of events; some servers respond in one piece even
// if streaming was requested.
func isStream(r *http.Response) bool {
	t, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return t == "text/event-stream"
}

// UserAgent is sent with each request.
const UserAgent = "rocketgpt-orchestrator"

// headers returns what attributes a request, and the provider's own headers; empty values are omitted.
func (c *Call) headers() [][2]string {
	r := c.Request
	number := func(n int64) string {
		if n == 0 {
			return ""
		}
		return strconv.FormatInt(n, 10)
	}
	out := [][2]string{{"User-Agent", UserAgent}}
	for name, value := range c.Provider.Headers {
		out = append(out, [2]string{name, value})
	}
	for _, h := range [][2]string{
		{"X-RGPT-Run", number(r.Headers.Run)},
		{"X-RGPT-Agent", r.Headers.Agent},
		{"X-RGPT-Phase", r.Headers.Phase},
		{"X-RGPT-Step", r.Headers.Step},
		{"X-RGPT-Attempt", number(int64(r.Headers.Attempt))},
		{"X-RGPT-Turn", number(int64(r.Headers.Turn))},
		{"Idempotency-Key", r.IdempotencyKey},
	} {
		if h[1] != "" {
			out = append(out, [2]string{h[0], printable(h[1])})
		}
	}
	return out
}

// printable replaces characters that a header cannot contain.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, s)
}

// maxOutput returns the output limit that is sent, 0 for none.
func (c *Call) maxOutput() int64 {
	n, most := c.Request.MaxOutput, c.Entry.MaxOutput
	if most > 0 {
		n = min(n, most)
	}
	return n
}

// byOpenAI reports whether OpenAI's own implementation of its APIs is called.
func (c *Call) byOpenAI() bool {
	return c.Provider.Kind == model.KindOpenAI || c.Provider.Kind == model.KindAzure
}

// reasons reports whether the model is known to think before it responds.
func (c *Call) reasons() bool {
	return c.Entry.Reasons(c.Request.Choice.Effort)
}

// effort returns how much the model shall think; empty means the provider's default.
func (c *Call) effort() string {
	if !c.Entry.Can(model.CapabilityEffort) {
		return ""
	}
	return string(c.Request.Choice.Effort)
}

// conversationKey is the same for all turns of a conversation, so that the provider sends them to the
// same cache; empty if nothing is known about the caller.
func (c *Call) conversationKey() string {
	h := c.Request.Headers
	h.Turn = 0
	if h == (model.Identity{}) {
		return ""
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %q %q %q %d", h.Run, h.Agent, h.Phase, h.Step, h.Attempt))
	return "rgpt-" + hex.EncodeToString(sum[:16])
}

// withSchemaInWords adds a schema to the conversation, for models that cannot enforce one.
func withSchemaInWords(messages []model.Message, s *model.Schema) []model.Message {
	text := "Respond with one JSON document that matches the JSON schema below, and with nothing else: no explanation, no Markdown.\n\n" + string(s.JSON)
	out := append([]model.Message(nil), messages...)
	if len(out) > 0 && out[0].Role == model.RoleSystem {
		out[0].Text += "\n\n" + text
		return out
	}
	return append([]model.Message{{Role: model.RoleSystem, Text: text}}, out...)
}
