package notify

import (
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/outbound"
	"github.com/rocketgpt/orchestrator/internal/store/notifications"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

const (
	// GiveUp is how long a message is tried, from the first attempt on.
	GiveUp = 24 * time.Hour
	// MaxAge is the age of an event from which on nobody is notified of it, for example after the server
	// was down.
	MaxAge = 72 * time.Hour
	// longestWait is the longest wait between two attempts, even if a receiver requests a longer one.
	longestWait = time.Hour
	// abandonedAfter is the age of a notification that waits although every server that had its channel
	// would have sent it or given up: the longest digest, quiet hours and GiveUp take less.
	abandonedAfter = 96 * time.Hour
	// again is the pause after the database did not respond.
	again = time.Second
	// sweepEvery is the interval at which old entries are removed.
	sweepEvery = time.Hour
	// idle is the longest time for which a channel that waits, for example for the end of its quiet
	// hours, is not looked at.
	idle = 15 * time.Second
)

// Run finds what people are notified of and sends it until the context ends, then waits for the attempts
// in progress. Any number of servers may do this at the same time; if one dies, the others take over.
// Each channel has its own loop, so that one that hangs does not delay others.
func (n *Notifier) Run(ctx context.Context) {
	defer n.Close()
	var all errgroup.Group
	for _, c := range n.channels {
		all.Go(func() error {
			if p, ok := c.transport.(*pushSender); ok {
				n.serveBrowsers(ctx, c, p)
			} else {
				n.serve(ctx, c)
			}
			return nil
		})
	}
	if len(n.channels) > 0 {
		all.Go(func() error { n.queue(ctx); return nil })
		all.Go(func() error { n.sweep(ctx); return nil })
	}
	_ = all.Wait() // they only log
}

// pause waits for the given time, or returns false if the context ends first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// queue finds what the channels are notified of.
func (n *Notifier) queue(ctx context.Context) {
	known := false
	for ctx.Err() == nil {
		err := n.Feed.Watch(ctx, func() (bool, error) {
			if !known {
				if err := n.addChannels(ctx); err != nil {
					return false, err
				}
				known = true
			}
			return n.queuePage(ctx)
		})
		if err != nil && ctx.Err() == nil {
			n.Log.ErrorContext(ctx, "Events could not be queued for notifications; trying again", "error", err)
		}
		if !pause(ctx, again) {
			return
		}
	}
}

// queuePage finds what the channels are notified of among their next events. It reports whether there
// may be more events.
func (n *Notifier) queuePage(ctx context.Context) (more bool, err error) {
	for _, c := range n.channels {
		now := n.Now()
		rest, added, err := notifications.Queue(ctx, n.Store, notifications.Channel{
			Name: c.name, Kinds: c.settings.Wants(), Projects: c.settings.Projects, Creators: c.settings.Creators, Browsers: c.settings.Kind == config.ChannelPush,
		}, now, now.Add(-MaxAge))
		if err != nil {
			return false, err
		}
		if added > 0 {
			c.ring()
		}
		more = more || rest
	}
	return more, nil
}

func (n *Notifier) addChannels(ctx context.Context) error {
	for _, name := range n.Names() {
		if err := notifications.Add(ctx, n.Store, name); err != nil {
			return err
		}
	}
	return nil
}

func (c *channel) ring() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// serve sends the messages of a channel, one after another.
func (n *Notifier) serve(ctx context.Context, c *channel) {
	tick := time.NewTicker(n.Poll)
	defer tick.Stop()
	var until time.Time // when there is something to do, unless something happens
	for ctx.Err() == nil {
		worked, later, err := n.work(ctx, c)
		if err != nil && ctx.Err() == nil {
			n.Log.ErrorContext(ctx, "Notifications could not be sent; trying again", "channel", c.name, "error", err)
			pause(ctx, again)
			continue
		}
		if worked {
			continue
		}
		until = later
		for waiting := true; waiting; {
			select {
			case <-ctx.Done():
				return
			case <-c.wake:
				waiting = false
			case <-tick.C:
				waiting = n.Now().Before(until)
			}
		}
	}
}

// work does the next step on a channel, if this server may. It reports whether it sent or tried to send
// a message, and until when the channel needs no look.
func (n *Notifier) work(ctx context.Context, c *channel) (worked bool, until time.Time, err error) {
	now := n.Now()
	if due, err := notifications.Due(ctx, n.Store, c.name, now); err != nil || !due {
		return false, time.Time{}, err
	}
	lease := c.settings.Timeout + n.Margin
	if mine, err := notifications.Claim(ctx, n.Store, c.name, n.holder, lease); err != nil || !mine {
		return false, time.Time{}, err
	}
	held, cancel := context.WithTimeout(context.WithoutCancel(ctx), lease) // a started attempt is completed
	defer cancel()
	var wait time.Duration
	s, err := n.next(held, c, now)
	if err == nil && s.message != 0 {
		worked = true
		wait, err = n.attempt(held, c, s.message)
	}
	if freed := notifications.Free(held, n.Store, c.name, n.holder, wait); err == nil {
		err = freed
	}
	if !s.until.IsZero() && s.until.After(now.Add(idle)) {
		s.until = now.Add(idle) // another server may add something until then
	}
	return worked, s.until, err
}

// next returns the next step on a channel, with a message that consists of what was to be put into one.
func (n *Notifier) next(ctx context.Context, c *channel, now time.Time) (step, error) {
	waiting, err := notifications.List(ctx, n.Store, c.name, first(c.settings, now))
	if err != nil {
		return step{}, err
	}
	sent, err := notifications.SentSince(ctx, n.Store, c.name, now.Add(-limitWindow))
	if err != nil {
		return step{}, err
	}
	s := next(c.settings, waiting, sent, now)
	if len(s.compose) > 0 {
		s.message = s.compose[0]
		err = notifications.Compose(ctx, n.Store, s.compose, now)
	}
	return s, err
}

// attempt makes one attempt to send a message, and stores the outcome. It returns how long the receiver
// asked to wait.
func (n *Notifier) attempt(ctx context.Context, c *channel, id int64) (time.Duration, error) {
	m, err := notifications.Begin(ctx, n.Store, id)
	if err != nil {
		return 0, err
	}
	if len(m.Entries) == 0 {
		if m.Ended > 0 {
			telemetry.CountNotification(c.settings.Kind, string(notifications.Dropped))
		}
		return 0, nil
	}
	out := notifications.Outcome{Message: id, Attempt: m.Attempt, State: notifications.Dropped, Reason: "the event was deleted"}
	var r result
	m.Entries = slices.DeleteFunc(m.Entries, func(e notifications.Entry) bool { return e.Payload == nil })
	if len(m.Entries) > 0 {
		sending, cancel := context.WithTimeout(ctx, c.settings.Timeout)
		r = c.send(sending, compose(m, n.Dashboard))
		cancel()
		out.State, out.Reason = n.outcome(m, r), r.problem
	}
	out.At = n.Now()
	out.Next = out.At.Add(outbound.Wait(n.FirstWait, longestWait, m.Attempt, r.retryAfter))
	telemetry.CountNotification(c.settings.Kind, string(out.State))
	switch out.State {
	case notifications.Failed:
		n.Log.WarnContext(ctx, "A notification was not sent", "channel", c.name, "message", id, "attempts", m.Attempt, "reason", r.problem)
	case notifications.Pending:
		n.Log.InfoContext(ctx, "A notification will be sent again", "channel", c.name, "message", id, "attempt", m.Attempt, "reason", r.problem)
	case notifications.Sent, notifications.Dropped:
	}
	for {
		if err = notifications.End(ctx, n.Store, out); err == nil && r.gone {
			err = n.forget(ctx, c)
		}
		if err == nil {
			return min(r.retryAfter, longestWait), nil
		}
		if !pause(ctx, again) { // when the lease has expired, the message may be sent twice
			return 0, err
		}
	}
}

// outcome derives the state of a message from the result of an attempt.
func (n *Notifier) outcome(m notifications.Message, r result) notifications.State {
	switch {
	case r.problem == "":
		return notifications.Sent
	case r.permanent, n.Now().Sub(m.Composed) >= GiveUp:
		return notifications.Failed
	default:
		return notifications.Pending
	}
}

// sweep removes old entries of the log.
func (n *Notifier) sweep(ctx context.Context) {
	for {
		now := n.Now()
		deleted, err := notifications.Sweep(ctx, n.Store, now.Add(-n.Webhooks.Retention), now.Add(-abandonedAfter))
		if err != nil && ctx.Err() == nil {
			n.Log.WarnContext(ctx, "Old notifications could not be removed; trying again later", "error", err)
		} else if deleted > 0 {
			n.Log.InfoContext(ctx, "Removed old notifications", "notifications", deleted)
		}
		if !pause(ctx, sweepEvery) {
			return
		}
	}
}

// ExpectMetrics exports the metrics of notifications as 0 from the start, in a process that serves them.
func ExpectMetrics() {
	for _, kind := range []string{config.ChannelSlack, config.ChannelEmail, config.ChannelPush} {
		for _, state := range notifications.States() {
			telemetry.ExpectNotification(kind, string(state))
		}
	}
}
