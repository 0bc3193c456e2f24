package admission

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestProvidersReportUntilWhenTheyAcceptNoCalls(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		headers map[string]string
		pause   time.Duration
		what    string
	}{
		"nothing said":          {nil, 0, ""},
		"something left":        {map[string]string{"x-ratelimit-remaining-requests": "1", "x-ratelimit-reset-requests": "6s"}, 0, ""},
		"no requests":           {map[string]string{"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "120ms"}, 120 * time.Millisecond, "requests"},
		"no tokens":             {map[string]string{"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "6s"}, 6 * time.Second, "tokens"},
		"the longer one counts": {map[string]string{"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "6s", "x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "7s"}, 7 * time.Second, "requests"},
		"for hours":             {map[string]string{"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "6h0m0s"}, maxPause, "tokens"},
		"Anthropic":             {map[string]string{"anthropic-ratelimit-output-tokens-remaining": "0", "anthropic-ratelimit-output-tokens-reset": "2026-05-04T12:00:20Z"}, 20 * time.Second, "output tokens"},
		"in the past":           {map[string]string{"anthropic-ratelimit-requests-remaining": "0", "anthropic-ratelimit-requests-reset": "2026-05-04T11:00:20Z"}, 0, ""},
		"not a time":            {map[string]string{"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "soon"}, 0, ""},
		"negative":              {map[string]string{"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "-5s"}, 0, ""},
	} {
		h := http.Header{}
		for k, v := range c.headers {
			h.Set(k, v)
		}
		pause, what := pauseOf(h, now)
		require.Equal(t, c.pause, pause, name)
		require.Equal(t, c.what, what, name)
	}
}
