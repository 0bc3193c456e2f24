package admission

import (
	"net/http"
	"strings"
	"time"
)

// maxPause limits the pause that a provider's headers cause. If the limit lasts longer, the next
// call finds that out.
const maxPause = time.Minute

// windows are the headers with which providers report what is left of a limit, and when it is
// available again.
var windows = []struct{ left, reset, what string }{
	{"X-Ratelimit-Remaining-Requests", "X-Ratelimit-Reset-Requests", "requests"},
	{"X-Ratelimit-Remaining-Tokens", "X-Ratelimit-Reset-Tokens", "tokens"},
	{"Anthropic-Ratelimit-Requests-Remaining", "Anthropic-Ratelimit-Requests-Reset", "requests"},
	{"Anthropic-Ratelimit-Tokens-Remaining", "Anthropic-Ratelimit-Tokens-Reset", "tokens"},
	{"Anthropic-Ratelimit-Input-Tokens-Remaining", "Anthropic-Ratelimit-Input-Tokens-Reset", "input tokens"},
	{"Anthropic-Ratelimit-Output-Tokens-Remaining", "Anthropic-Ratelimit-Output-Tokens-Reset", "output tokens"},
}

// pauseOf returns how long a provider accepts no calls according to the headers of a response, and
// of what nothing is left; 0 means that it accepts calls.
func pauseOf(h http.Header, now time.Time) (pause time.Duration, what string) {
	for _, w := range windows {
		if strings.TrimSpace(h.Get(w.left)) != "0" {
			continue
		}
		if d := resetIn(strings.TrimSpace(h.Get(w.reset)), now); d > pause {
			pause, what = d, w.what
		}
	}
	return min(pause, maxPause), what
}

// resetIn reads a duration, as OpenAI sends it, or a time, as Anthropic does; 0 if it is neither.
func resetIn(text string, now time.Time) time.Duration {
	if d, err := time.ParseDuration(text); err == nil {
		return max(d, 0)
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return max(t.Sub(now), 0)
	}
	return 0
}
