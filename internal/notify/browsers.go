package notify

import (
	"context"
	"errors"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/notifications"
)

// browser returns the channel of a browser, with the settings that its user chose.
func (c *channel) browser(p *pushSender, b notifications.Reachable) *channel {
	settings := c.settings
	if b.Quiet != nil {
		settings.Quiet = config.Quiet{From: b.Quiet.From, To: b.Quiet.To, Zone: b.Quiet.Zone, Except: b.Quiet.Except}
	}
	return &channel{name: b.Channel, settings: settings, transport: &browser{p, b}}
}

// worked is the result of a look at a browser's channel.
type worked struct {
	name  string
	until time.Time // the channel needs no look until then; zero: unknown
}

// serveBrowsers sends to the browsers of a channel until the context ends, then waits for the attempts in
// progress. Each browser is served by itself, so that a push service that hangs delays no others; their
// number is limited by the setting max_browsers.
func (n *Notifier) serveBrowsers(ctx context.Context, c *channel, p *pushSender) {
	tick := time.NewTicker(n.Poll)
	defer tick.Stop()
	busy := map[string]bool{}
	until := map[string]time.Time{}
	done := make(chan worked)
	for {
		for _, b := range n.browsersDue(ctx, c) {
			if busy[b.Channel] || n.Now().Before(until[b.Channel]) {
				continue
			}
			busy[b.Channel] = true
			go func() { done <- worked{b.Channel, n.workOn(ctx, c.browser(p, b))} }()
		}
		var stop <-chan struct{}
		if len(busy) == 0 || ctx.Err() == nil {
			stop = ctx.Done()
		}
		select {
		case <-stop:
			if len(busy) == 0 {
				return
			}
		case w := <-done:
			delete(busy, w.name)
			delete(until, w.name)
			if !w.until.IsZero() {
				until[w.name] = w.until
			}
		case <-c.wake:
			clear(until)
		case <-tick.C:
		}
	}
}

// browsersDue returns the browsers of a channel that have something to be sent.
func (n *Notifier) browsersDue(ctx context.Context, c *channel) []notifications.Reachable {
	if ctx.Err() != nil {
		return nil
	}
	due, err := notifications.BrowsersDue(ctx, n.Store, c.name, n.Now())
	if err != nil && ctx.Err() == nil {
		n.Log.ErrorContext(ctx, "Notifications of browsers could not be read; trying again", "channel", c.name, "error", err)
		pause(ctx, again)
	}
	return due
}

// workOn does the next step on a browser's channel. It returns until when the channel needs no look.
func (n *Notifier) workOn(ctx context.Context, c *channel) time.Time {
	did, until, err := n.work(ctx, c)
	if err != nil && ctx.Err() == nil {
		n.Log.ErrorContext(ctx, "Notifications could not be sent; trying again", "channel", c.name, "error", err)
		return n.Now().Add(again)
	}
	if !did && until.IsZero() { // another server works on it, or its push service asked to wait
		return n.Now().Add(n.Poll)
	}
	return until
}

// forget removes a browser that its push service does not know any more.
func (n *Notifier) forget(ctx context.Context, c *channel) error {
	err := notifications.RemoveBrowser(ctx, n.Store, c.name, "")
	if errors.Is(err, store.ErrNotFound) {
		return nil // its user removed it meanwhile
	}
	if err == nil {
		n.Log.InfoContext(ctx, "A browser was removed, because its subscription has ended", "channel", c.name)
	}
	return err
}

// Browser returns a browser that is notified, or ErrNotFound.
func (n *Notifier) Browser(ctx context.Context, id string) (notifications.Browser, error) {
	b, err := notifications.FindBrowser(ctx, n.Store, n.channelOf(id))
	return b.Browser, err
}

// Unsubscribe ends the notification of a browser, for a person or a client. It returns ErrNotFound if the
// browser is not known.
func (n *Notifier) Unsubscribe(ctx context.Context, id, by string) error {
	return notifications.RemoveBrowser(ctx, n.Store, n.channelOf(id), by)
}

// channelOf returns the channel of a browser.
func (n *Notifier) channelOf(id string) string {
	c, _, ok := n.push()
	if !ok || id == "" {
		return ""
	}
	return c.name + "." + id
}

// Resend sends a notification that failed or was dropped again, in a new message, for a person or a client.
func (n *Notifier) Resend(ctx context.Context, id int64, by string) (notifications.Notification, error) {
	done, err := notifications.Resend(ctx, n.Store, id, time.Now(), by)
	if err != nil {
		return notifications.Notification{}, err
	}
	found, err := notifications.Get(ctx, n.Store, id)
	if err == nil && !done {
		err = fault.New(contract.ClassHuman, contract.CodeRejected, "the notification %d is %s; only one that failed or was dropped can be sent again", id, found.State)
	}
	return found, err
}
