package modelclient

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/model"
)

// wireAt returns a client of a test's own server, called by the API of a provider.
func wireAt(t *testing.T, p model.Provider, h http.HandlerFunc, opts Options) *Client {
	t.Helper()
	p.BaseURL, p.APIKeyEnv = serve(t, h), "KEY"
	opts.Getenv = func(string) string { return "a-key" }
	return newClient(t, p, opts)
}

func TestAnAnswerOfMillionsOfEmptyItemsDoesNotFillTheMemory(t *testing.T) {
	// Not parallel: it measures the process's memory.
	const many = 100_000
	list := strings.Repeat("{},", many) + "{}"
	numbers := strings.Repeat("1,", many) + "1"
	for name, c := range map[string]struct {
		wire model.Provider
		h    http.HandlerFunc
	}{
		"chat, streamed":           {chatWire, events(`{"choices":[` + list + `]}`)},
		"chat, calls":              {chatWire, events(`{"choices":[{"index":0,"delta":{"tool_calls":[` + numbers + `]}}]}`)},
		"chat, in one piece":       {chatWire, answer(http.StatusOK, `{"choices":[`+list+`]}`)},
		"responses, streamed":      {responsesWire, events(`{"type":"response.completed","response":{"status":"completed","output":[` + list + `]}}`)},
		"responses, in one piece":  {responsesWire, answer(http.StatusOK, `{"status":"completed","output":[`+list+`]}`)},
		"anthropic, streamed":      {anthropicWire, namedEvents(`{"type":"message_start","message":{"type":"message","content":[` + list + `]}}`)},
		"anthropic, in one piece":  {anthropicWire, answer(http.StatusOK, `{"type":"message","content":[`+list+`]}`)},
		"gemini, streamed":         {geminiWire, events(`{"candidates":[{"index":0,"content":{"parts":[` + list + `]}}]}`)},
		"gemini, in one piece":     {geminiWire, answer(http.StatusOK, `{"candidates":[`+list+`]}`)},
		"gemini, a list of events": {geminiWire, answer(http.StatusOK, `[`+list+`]`)},
	} {
		t.Run(name, func(t *testing.T) {
			client := wireAt(t, c.wire, c.h, Options{})
			peak := peakHeap(t)
			_, err := client.Complete(t.Context(), question())
			f := requireFault(t, err, contract.ClassLLM, contract.CodeInvalidOutput)
			require.Contains(t, f.Cause, "JSON values")
			require.Less(t, peak(), uint64(20<<20), "bytes of heap at the most")
		})
	}
}

func TestAnAnswerThatIsLongButPlainIsRead(t *testing.T) {
	t.Parallel()
	text := strings.Repeat(`{[\"a\\\",`, 50_000) // JSON inside a text
	for _, c := range []struct {
		wire model.Provider
		h    http.HandlerFunc
	}{
		{chatWire, answer(http.StatusOK, `{"choices":[{"finish_reason":"stop","message":{"content":"`+text+`"}}]}`)},
		{geminiWire, answer(http.StatusOK, `{"candidates":[{"finishReason":"STOP","content":{"parts":[{"text":"`+text+`"}]}}]}`)},
	} {
		r, err := wireAt(t, c.wire, c.h, Options{}).Complete(t.Context(), question())
		require.NoError(t, err)
		require.Len(t, r.Text, 50_000*len(`{["a\",`))
	}
}

func TestAnErrorOfNullInAnEventIsNone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		wire model.Provider
		h    http.HandlerFunc
	}{
		"chat":      {chatWire, events(`{"error":null,"choices":[{"index":0,"delta":{"content":"ok"},"finish_reason":"stop"}]}`, `[DONE]`)},
		"responses": {responsesWire, events(`{"type":"response.completed","error":null,"response":` + fineResponse + `}`)},
		"gemini":    {geminiWire, events(`{"error":null,"candidates":[{"content":{"parts":[{"text":"ok"}]},"finishReason":"STOP"}]}`)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := wireAt(t, c.wire, c.h, Options{}).Complete(t.Context(), question())
			require.NoError(t, err)
			require.Equal(t, "ok", r.Text)
		})
	}
}

func TestAConnectionThatBreaksAfterTheLastEventLosesNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		wire model.Provider
		h    http.HandlerFunc
	}{
		"chat":      {chatWire, events(`{"choices":[{"index":0,"delta":{"content":"Hello"},"finish_reason":"stop"}]}`, `[DONE]`)},
		"responses": {responsesWire, events(fmt.Sprintf(`{"type":"response.completed","response":%s}`, strings.Replace(fineResponse, `"ok"`, `"Hello"`, 1)))},
		"anthropic": {anthropicWire, namedEvents(anthropicStream...)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ended := make(chan struct{})
			for _, after := range []http.HandlerFunc{
				breakConnection,
				func(http.ResponseWriter, *http.Request) { <-ended }, // never ends
			} {
				client := wireAt(t, c.wire, func(w http.ResponseWriter, r *http.Request) {
					c.h(w, r)
					_ = http.NewResponseController(w).Flush()
					after(w, r)
				}, Options{})
				t.Cleanup(func() { // before the server is closed, which waits for it
					select {
					case <-ended:
					default:
						close(ended)
					}
				})
				r, err := client.Complete(t.Context(), question())
				require.NoError(t, err)
				require.Equal(t, "Hello", r.Text)
			}
		})
	}
}
