// Package wire has the adapters for the APIs of model providers. An adapter makes one request through
// the SDK of its API and collects the response, streamed or in one piece. It never retries, reads no
// environment, and does not judge what it received.
package wire

import (
	"context"
	"errors"
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

// Adapter speaks the API of a provider.
type Adapter interface {
	// Send makes one request and collects its response. With an error, the response has what was
	// received before it. Errors are those of the HTTP client, ErrTooLarge, a *ReportedError, a
	// *MalformedError, or a fault for a request that cannot be expressed.
	Send(ctx context.Context, c *Call, stream bool) (model.Response, error)
}

// For returns the adapter for a kind of provider.
func For(kind model.Kind) Adapter {
	if kind == model.KindAnthropic {
		return messages{}
	}
	return chat{}
}

// ErrTooLarge marks a response over the limit.
var ErrTooLarge = errors.New("the response is too large")

// ReportedError is an error that a provider reports inside a response.
type ReportedError struct{ Body []byte }

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
