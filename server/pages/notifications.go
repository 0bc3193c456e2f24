package pages

import (
	"fmt"
	"net/http"

	"github.com/a-h/templ"

	"github.com/rocketgpt/orchestrator/internal/apitypes"
	"github.com/rocketgpt/orchestrator/internal/store/notifications"
	"github.com/rocketgpt/orchestrator/server/param"
	"github.com/rocketgpt/orchestrator/server/ui"
)

const (
	shownNotifications  = 50
	notificationRefresh = 10 // seconds after which the page is refreshed
)

// notificationsPage shows how people are notified, and of what they were. A browser can subscribe on it.
func (s *Server) notificationsPage(r *http.Request, shell ui.Shell) (templ.Component, error) {
	q, err := param.Query(r)
	if err != nil {
		return nil, err
	}
	before, err := param.Before(r)
	if err != nil {
		return nil, err
	}
	shell.Section, shell.Title, shell.Live, shell.Every = "notifications", "Notifications", "/api/stream", notificationRefresh
	p := ui.NotificationsPage{Shell: shell, Channel: q.Get("channel"), State: q.Get("state"), Channels: s.Notifier.Channels()}
	if !ui.KnownNotificationState(p.State) {
		return nil, apitypes.BadRequest(fmt.Sprintf("invalid filter: state %q", p.State))
	}
	if p.Push, p.Key, err = s.Notifier.PushKey(); err != nil {
		p.Problem = s.Problem(r.Context(), err).Detail
	}
	if p.Browsers, err = notifications.Browsers(r.Context(), s.Store); err != nil {
		return nil, err
	}
	p.List, err = notifications.Find(r.Context(), s.Store, notifications.Filter{Channel: p.Channel, State: notifications.State(p.State), Before: before, Limit: shownNotifications})
	if len(p.List) == shownNotifications {
		p.Older = ui.NotificationsHref(p.Channel, p.State, p.List[len(p.List)-1].ID)
	}
	return ui.Notifications(p), err
}
