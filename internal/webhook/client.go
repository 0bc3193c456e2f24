package webhook

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/outbound"
	"github.com/rocketgpt/orchestrator/internal/store"
)

// newClient returns a client that follows no redirects and, unless configured, does not connect to
// private addresses.
func newClient(s config.Webhooks) *http.Client {
	return outbound.NewClient(outbound.Options{Timeout: s.Timeout, AllowPrivate: s.AllowPrivate, Idle: s.MaxEach})
}

// response is a receiver's response to an attempt.
type response struct {
	code       int           // 0: none
	wrong      string        // the error in words; empty if the delivery succeeded
	retryAfter time.Duration // that the receiver requests
}

// post makes one attempt.
func (h *Hooks) post(ctx context.Context, d store.DueDelivery) response {
	req, err := h.request(ctx, d, time.Now())
	if err != nil {
		return response{wrong: "cannot create the message: " + err.Error()}
	}
	resp, err := h.client.Do(req)
	if err != nil {
		return response{wrong: outbound.Unanswered(err, h.settings.Timeout)}
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, outbound.MaxResponse)) // the content is irrelevant
	out := response{code: resp.StatusCode, wrong: outbound.Problem(resp.StatusCode)}
	if out.wrong != "" {
		out.retryAfter = outbound.RetryAfter(resp.Header.Get("Retry-After"), time.Now())
	}
	return out
}
