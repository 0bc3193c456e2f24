package showcase

import (
	"context"
	"fmt"

	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/notify"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/notifications"
)

// pushKey is the private key of the showcase for push services. It protects nothing: nothing is sent.
const pushKey = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE"

// channels are the notification channels of the showcase.
func channels() map[string]config.Notification {
	return map[string]config.Notification{
		"browsers": {Kind: config.ChannelPush, KeyEnv: "KEY", MaxBrowsers: 200, PerPerson: 10},
		"managers": {Kind: config.ChannelEmail, On: []string{config.NotifyWaits, config.NotifyBudget}, Projects: []string{"shop-*"}, Creators: []string{"ada"}},
		"team":     {Kind: config.ChannelSlack},
	}
}

// notifier returns the notifier of the showcase. It sends nothing.
func notifier(db *store.Store) *notify.Notifier {
	return notify.New(notify.Options{Store: db, Channels: channels(), Webhooks: config.Default().Server.Webhooks, Getenv: func(string) string { return pushKey }})
}

// notifications stores a browser and notifications in all states, whose every text of others is the given
// one, for the newest events of runs.
func (f *dataset) notifications(ctx context.Context, person, text string) error {
	one := notifications.Reachable{
		Browser: notifications.Browser{
			ID: "0f6c1d2e3b4a59687766554433221100", By: person, Browser: text, On: []string{config.NotifyWaits}, Projects: []string{"shop-*"},
			Quiet: &notifications.QuietHours{From: "22:00", To: "07:00", Zone: "Europe/Berlin"},
		},
		Endpoint: notifications.Endpoint{URL: "https://fcm.googleapis.com/fcm/send/showcase"},
	}
	if err := notifications.PutBrowser(ctx, f.store, "browsers", one, notifications.Limits{All: 1, PerPerson: 1}); err != nil {
		return err
	}
	_, err := f.sql.Exec(ctx, `
		INSERT INTO orchestrator_notifications (channel, event_id, run_id, seq, event_type, kind, state, message_id, composed_at, attempts, reason, created_at, next_at, sent_at)
		SELECT (ARRAY['team', 'managers', 'browsers.0f6c1d2e3b4a59687766554433221100'])[1 + n % 3], id, run_id, seq, event_type,
		       CASE event_type WHEN 'run.failed' THEN 'failed' WHEN 'releaser.completed' THEN 'done' WHEN 'budget.warning' THEN 'budget' ELSE 'waits' END,
		       s.state, CASE WHEN s.state <> 'dropped' THEN n END, CASE WHEN s.state <> 'dropped' THEN $1::timestamptz END, s.attempts,
		       CASE WHEN s.state <> 'sent' THEN $2 ELSE '' END, $1::timestamptz - n * interval '7 minutes', CASE WHEN s.state = 'pending' THEN now() + interval '3 minutes' END,
		       CASE WHEN s.state = 'sent' THEN $1::timestamptz - n * interval '7 minutes' END
		FROM (SELECT e.*, row_number() OVER (ORDER BY e.id DESC) AS n FROM orchestrator_events e
		      WHERE e.event_type IN ('run.failed', 'releaser.completed', 'budget.warning', 'approval.requested', 'intervention.requested', 'input.requested', 'change_set.waiting')
		      ORDER BY e.id DESC LIMIT 30) e
		CROSS JOIN LATERAL (SELECT (ARRAY['sent', 'sent', 'failed', 'pending', 'dropped'])[1 + n % 5] AS state, (ARRAY[1, 1, 9, 3, 0])[1 + n % 5] AS attempts) s
		ORDER BY n DESC`, f.now, text)
	if err == nil { // each is a message of its own
		_, err = f.sql.Exec(ctx, "UPDATE orchestrator_notifications SET message_id = id WHERE message_id IS NOT NULL")
	}
	if err != nil {
		return fmt.Errorf("store notifications: %w", err)
	}
	return nil
}
