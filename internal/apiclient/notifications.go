package apiclient

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/rocketgpt/orchestrator/internal/notify"
	"github.com/rocketgpt/orchestrator/internal/store/notifications"
)

// Notifications returns of what people were notified or are to be, newest first.
func (c *Client) Notifications(ctx context.Context, f notifications.Filter) ([]notifications.Notification, error) {
	r := read("api", "notifications")
	r.query = url.Values{}
	if f.Channel != "" {
		r.query.Set("channel", f.Channel)
	}
	if f.State != "" {
		r.query.Set("state", string(f.State))
	}
	if f.Before > 0 {
		r.query.Set("before", fmt.Sprint(f.Before))
	}
	if f.Limit > 0 {
		r.query.Set("limit", fmt.Sprint(f.Limit))
	}
	out, err := ask[struct {
		Notifications []notifications.Notification
	}](ctx, c, r)
	return out.Notifications, err
}

// TestNotification sends a test message on a channel once and returns the result.
func (c *Client) TestNotification(ctx context.Context, channel string) (notify.Tested, error) {
	return ask[notify.Tested](ctx, c, command(nil, "api", "notifications", "channels", channel, "test"))
}

// Browsers returns the browsers that are notified, oldest first.
func (c *Client) Browsers(ctx context.Context) ([]notifications.Browser, error) {
	out, err := ask[struct {
		Browsers []notifications.Browser
	}](ctx, c, read("api", "browsers"))
	return out.Browsers, err
}

// RemoveBrowser ends the notification of a browser.
func (c *Client) RemoveBrowser(ctx context.Context, id, by string) error {
	_, err := ask[struct{}](ctx, c, call{method: http.MethodDelete, path: []string{"api", "browsers", id}, query: parameters("by", by), silent: true})
	return err
}

// ResendNotification sends a notification that failed or was dropped again.
func (c *Client) ResendNotification(ctx context.Context, id int64, by string) (notifications.Notification, error) {
	return ask[notifications.Notification](ctx, c, command(map[string]string{"by": by}, "api", "notifications", fmt.Sprint(id), "resend"))
}
