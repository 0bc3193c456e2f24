package api

import (
	"cmp"
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

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
		Channel string `path:"channel" maxLength:"63" doc:"name of the channel in the configuration"`
	}) (*body[notify.Tested], error) {
		return answered(s.Notifier.Test(ctx, in.Channel))
	})
}

func (s *Server) listNotifications(ctx context.Context, in *struct {
	Channel string `query:"channel" maxLength:"63" doc:"only those of this channel"`
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
