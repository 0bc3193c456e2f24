package webhook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/version"
)

// TestEvent is the type of test events.
const TestEvent = "webhook.test"

// typePrefix distinguishes our event types from the event types of other senders.
const typePrefix = "rgpt."

// ContentType is the content type of a CloudEvent in structured mode.
const ContentType = "application/cloudevents+json"

// Envelope is a CloudEvent, version 1.0, in structured mode. The CloudEvents library would be out
// of proportion for these few fields.
type Envelope struct {
	SpecVersion     string    `json:"specversion"`
	ID              string    `json:"id"`
	Source          string    `json:"source"`
	Type            string    `json:"type"`
	Subject         string    `json:"subject"`
	Time            time.Time `json:"time"`
	DataContentType string    `json:"datacontenttype"`
	Data            any       `json:"data"`
}

// envelope returns the message of a delivery. It is the same in every attempt.
func envelope(source string, d store.DueDelivery) Envelope {
	e := Envelope{
		SpecVersion: "1.0", ID: d.Message(), Source: source, Type: typePrefix + d.EventType,
		Subject: fmt.Sprintf("webhook-%d", d.WebhookID), Time: d.CreatedAt, DataContentType: "application/json",
		Data: map[string]any{"webhook_id": d.WebhookID, "text": "This is a test."},
	}
	if d.Notice != nil {
		e.Subject, e.Data = d.Notice.Subject, d.Notice.Payload
	}
	if d.Event != nil {
		e.Subject, e.Time, e.Data = contract.RunWorkflowID(d.RunID), d.Event.CreatedAt, d.Event
	}
	return e
}

// request returns the request for a delivery, signed according to Standard Webhooks.
func (h *Hooks) request(ctx context.Context, d store.DueDelivery, at time.Time) (*http.Request, error) {
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	message := envelope(h.settings.Source, d)
	if err := enc.Encode(message); err != nil {
		return nil, fmt.Errorf("write the message: %w", err)
	}
	key, err := keyOf(d.Secret)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.URL, bytes.NewReader(body.Bytes()))
	if err != nil {
		return nil, fmt.Errorf("create the request: %w", err)
	}
	timestamp := strconv.FormatInt(at.Unix(), 10)
	req.Header.Set("Content-Type", ContentType)
	req.Header.Set("User-Agent", "rgpt/"+version.Version)
	req.Header.Set("webhook-id", message.ID)
	req.Header.Set("webhook-timestamp", timestamp)
	req.Header.Set("webhook-signature", sign(key, message.ID, timestamp, body.Bytes()))
	return req, nil
}

// sign signs the id, time and body of a message, so that none of them can be replaced.
func sign(key []byte, id, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.", id, timestamp)
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
