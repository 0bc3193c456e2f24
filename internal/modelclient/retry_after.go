package modelclient

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// MaxRetryAfter limits the wait that a provider may request; a longer one is shortened, because
// switching providers is a better response to a lasting limit.
const MaxRetryAfter = 60 * time.Second

// Limits of the time that a run waits if a provider reports when an exhausted quota becomes
// available again. After MaxQuotaWait, the run queries the provider again.
const (
	MinQuotaWait = time.Second
	MaxQuotaWait = 24 * time.Hour
)

// retryAfter reads the wait that a provider requests, at most MaxQuotaWait. The start of the next
// window matters only if the limit was reached: some providers always send it.
func retryAfter(h http.Header, now time.Time, limited bool) time.Duration {
	limit := func(d time.Duration) time.Duration { return min(max(d, 0), MaxQuotaWait) }
	number := func(name string) (float64, bool) {
		n, err := strconv.ParseFloat(strings.TrimSpace(h.Get(name)), 64)
		return n, err == nil && n == n
	}
	lasting := func(n float64, unit time.Duration) time.Duration {
		return limit(time.Duration(min(max(n, 0), float64(MaxQuotaWait/unit)) * float64(unit)))
	}
	if n, ok := number("Retry-After-Ms"); ok {
		return lasting(n, time.Millisecond)
	}
	if n, ok := number("Retry-After"); ok {
		return lasting(n, time.Second)
	}
	if t, err := http.ParseTime(h.Get("Retry-After")); err == nil {
		return limit(t.Sub(now))
	}
	if !limited {
		return 0
	}
	// Start of the next window: seconds since 1970, or milliseconds for some providers.
	if n, ok := number("X-RateLimit-Reset"); ok && n > millisecondsFrom {
		return lasting(n-float64(now.UnixMilli()), time.Millisecond)
	} else if ok && n > secondsFrom {
		return lasting(n-float64(now.Unix()), time.Second)
	}
	return 0
}

// retryDelay reads the wait that Google's APIs request in the body of an error, at most MaxQuotaWait.
// It is not for an exhausted quota: Gemini also requests seconds if the quota is that of the day.
func retryDelay(body []byte) time.Duration {
	var doc struct {
		Error struct {
			Details []struct {
				Type  string `json:"@type"`
				Delay string `json:"retryDelay"`
			} `json:"details"`
		} `json:"error"`
	}
	var list []json.RawMessage
	if json.Unmarshal(body, &list) == nil && len(list) > 0 {
		body = list[0]
	}
	if json.Unmarshal(body, &doc) != nil {
		return 0
	}
	for _, d := range doc.Error.Details {
		if !strings.HasSuffix(d.Type, "google.rpc.RetryInfo") {
			continue
		}
		if wait, err := time.ParseDuration(d.Delay); err == nil {
			return min(max(wait, 0), MaxQuotaWait)
		}
	}
	return 0
}

// The lowest numbers interpreted as a time since 1970, in seconds and in milliseconds: the year
// 2001, which would be absurd as a wait in seconds.
const (
	secondsFrom      = 1e9
	millisecondsFrom = 1e12
)
