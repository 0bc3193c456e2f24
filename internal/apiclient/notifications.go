package apiclient

import (
	"context"
	"fmt"
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
