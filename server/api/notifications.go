package api

import (
	"cmp"
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/notify"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/notifications"
	"github.com/rocketgpt/orchestrator/server/param"
)

// notificationPlace is a position in the list of notifications.
type notificationPlace struct {
	ID int64 `json:"notification"`
}

// Valid reports whether it can be the position of a notification.
func (p notificationPlace) Valid() bool { return p.ID > 0 }

type notificationList struct {
	Notifications []notifications.Notification `json:"notifications"`
	Next          string                       `json:"next,omitempty" doc:"cursor of the next page; absent on the last page"`
}

func (s *Server) notificationOperations(api huma.API) {
	list := operation(http.MethodGet, "/api/notifications", "list-notifications", "notifications", "List of what people were notified, or are to be, newest first")
	handle(s, api, list, s.listNotifications)
	test := operation(http.MethodPost, "/api/notifications/channels/{channel}/test", "test-notification-channel", "notifications", "Send a test message on a channel once and return the result", http.StatusConflict)
	handle(s, api, test, func(ctx context.Context, in *struct {
		Keyed
		Channel string `path:"channel" maxLength:"100" doc:"name of the channel in the configuration, or channel of a browser"`
	}) (*body[notify.Tested], error) {
		return answered(s.Notifier.Test(ctx, in.Channel))
	})
}

// browserList are the browsers that are notified, and what a browser needs to subscribe.
type browserList struct {
	Channel  string                  `json:"channel,omitempty" doc:"channel of the configuration for browsers; absent: there is none, and browsers cannot subscribe"`
	Key      string                  `json:"server_key,omitempty" doc:"the server's public key, the applicationServerKey of browsers"`
	Browsers []notifications.Browser `json:"browsers"`
}

// OfBrowser is a request about a browser.
type OfBrowser struct {
	ID string `path:"browser" maxLength:"32" doc:"ID of the browser: the first 32 hexadecimal digits of the SHA-256 of its endpoint"`
}

func (s *Server) browserOperations(api huma.API) {
	op := func(method, path, id, summary string, more ...int) huma.Operation {
		return operation(method, path, id, "notifications", summary, more...)
	}
	handle(s, api, op(http.MethodGet, "/api/browsers", "list-browsers", "List the browsers that are notified, and what a browser needs to subscribe"), func(ctx context.Context, _ *struct{}) (*body[browserList], error) {
		channel, key, err := s.Notifier.PushKey()
		if err != nil {
			return nil, err
		}
		list, err := notifications.Browsers(ctx, s.Store)
		return answered(browserList{Channel: channel, Key: key, Browsers: store.NotNil(list)}, err)
	})
	subscribe := op(http.MethodPost, "/api/browsers", "subscribe-browser", "Let a browser be notified, or change of what", http.StatusConflict, http.StatusUnprocessableEntity)
	handle(s, api, subscribe, func(ctx context.Context, in *struct {
		Keyed
		Body notify.Subscribing
	}) (*body[notifications.Browser], error) {
		return answered(s.Notifier.Subscribe(ctx, in.Body))
	})
	handle(s, api, op(http.MethodGet, "/api/browsers/{browser}", "get-browser", "Get a browser that is notified"), func(ctx context.Context, in *OfBrowser) (*body[notifications.Browser], error) {
		found, err := s.Notifier.Browser(ctx, in.ID)
		return answered(found, err)
	})
	remove := op(http.MethodDelete, "/api/browsers/{browser}", "remove-browser", "Stop notifying a browser")
	handle(s, api, remove, func(ctx context.Context, in *struct {
		OfBrowser
		RemovedBy
	}) (*struct{}, error) {
		return nil, s.Notifier.Unsubscribe(ctx, in.ID, cmp.Or(in.By, contract.ByAPI))
	})
	resend := op(http.MethodPost, "/api/notifications/{id}/resend", "resend-notification", "Send a notification that failed or was dropped again", http.StatusConflict)
	resend.DefaultStatus = http.StatusAccepted
	handle(s, api, resend, func(ctx context.Context, in *struct {
		Keyed
		ID   int64 `path:"id" minimum:"1" doc:"ID of the notification"`
		Body *Sender
	}) (*body[notifications.Notification], error) {
		return answered(s.Notifier.Resend(ctx, in.ID, cmp.Or(given(in.Body).By, contract.ByAPI)))
	})
}

func (s *Server) listNotifications(ctx context.Context, in *struct {
	Channel string `query:"channel" maxLength:"100" doc:"only those of this channel"`
	State   string `query:"state" enum:"pending,sent,failed,dropped" doc:"only those in this state"`
	Limit   int    `query:"limit" minimum:"1" maximum:"1000" default:"50" doc:"maximum number of results"`
	Before  int64  `query:"before" minimum:"0" doc:"only notifications with a lower ID than this; cursor takes precedence"`
	Cursor  string `query:"cursor" doc:"value of next from the previous page"`
}) (*body[notificationList], error) {
	from, err := param.ReadCursor[notificationPlace](in.Cursor)
	if err != nil {
		return nil, err
	}
	list, err := notifications.Find(ctx, s.Store, notifications.Filter{
		Channel: in.Channel, State: notifications.State(in.State), Before: cmp.Or(from.ID, in.Before), Limit: in.Limit,
	})
	page := notificationList{Notifications: store.NotNil(list)}
	if err == nil && len(list) == in.Limit {
		page.Next = param.WriteCursor(notificationPlace{list[len(list)-1].ID})
	}
	return answered(page, err)
}
