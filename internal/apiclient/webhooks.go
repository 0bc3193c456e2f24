package apiclient

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/webhook"
)

func webhookPath(id int64, rest ...string) []string {
	return append([]string{"api", "webhooks", fmt.Sprint(id)}, rest...)
}

// Webhooks returns the registered webhooks.
func (c *Client) Webhooks(ctx context.Context) ([]store.Webhook, error) {
	out, err := ask[struct{ Webhooks []store.Webhook }](ctx, c, read("api", "webhooks"))
	return out.Webhooks, err
}

// RegisterWebhook registers a URL for future events. A request without a key gets one, so that a
// lost response does not lead to a second webhook.
func (c *Client) RegisterWebhook(ctx context.Context, r webhook.Registration) (webhook.Created, error) {
	var known bool
	order := command(struct {
		URL         string   `json:"url"`
		Events      []string `json:"events,omitempty"`
		Project     string   `json:"project,omitempty"`
		Description string   `json:"description,omitempty"`
		Name        string   `json:"name,omitempty"`
		Secret      string   `json:"secret,omitempty"`
		Enabled     bool     `json:"enabled"`
		By          string   `json:"by,omitempty"`
	}{r.URL, r.Events, r.Project, r.Description, r.Name, r.Secret.Reveal(), !r.Disabled, r.By}, "api", "webhooks")
	order.key, order.known = cmp.Or(r.Key, order.key), &known
	out, err := ask[struct {
		store.Webhook
		Secret string `json:"secret"`
	}](ctx, c, order)
	return webhook.Created{Webhook: out.Webhook, Secret: store.Secret(out.Secret), Fresh: !known}, err
}

// TestWebhook sends a test event once and returns the result.
func (c *Client) TestWebhook(ctx context.Context, id int64) (store.Delivery, error) {
	return ask[store.Delivery](ctx, c, command(nil, webhookPath(id, "test")...))
}

// Deliveries returns the deliveries to a webhook, newest first.
func (c *Client) Deliveries(ctx context.Context, id int64, f store.DeliveryFilter) ([]store.Delivery, error) {
	r := read(webhookPath(id, "deliveries")...)
	r.query = url.Values{}
	if f.Status != "" {
		r.query.Set("status", string(f.Status))
	}
	if f.Before > 0 {
		r.query.Set("before", fmt.Sprint(f.Before))
	}
	if f.Limit > 0 {
		r.query.Set("limit", fmt.Sprint(f.Limit))
	}
	out, err := ask[struct{ Deliveries []store.Delivery }](ctx, c, r)
	return out.Deliveries, err
}

// RemoveWebhook removes a webhook and the log of its deliveries.
func (c *Client) RemoveWebhook(ctx context.Context, id int64, by string) error {
	order := command(nil, webhookPath(id)...)
	order.method, order.silent, order.query = http.MethodDelete, true, parameters("by", by)
	_, err := ask[struct{}](ctx, c, order)
	return err
}
