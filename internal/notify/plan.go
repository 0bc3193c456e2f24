package notify

import (
	"slices"
	"time"

	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/store/notifications"
)

const (
	// maxOpen is the number of messages of a channel that wait for another attempt. What happens
	// meanwhile is collected, so that a receiver that recovers is not flooded.
	maxOpen = 3
	// limitWindow is the time for which Notification.PerHour counts messages.
	limitWindow = time.Hour
)

// step is what is to be done next on a channel: send a message, put notifications into a new one, or
// nothing until a time.
type step struct {
	message int64
	compose []int64
	until   time.Time // zero: until something happens
}

// wait moves the time until which nothing is done forward to at.
func (s *step) wait(at time.Time) {
	if s.until.IsZero() || at.Before(s.until) {
		s.until = at
	}
}

// first returns the kinds of notifications that are looked at before the others: in the quiet hours those
// that are sent nevertheless, so that nothing that is held back hides them.
func first(c config.Notification, now time.Time) []string {
	if quiet, _ := quietAt(c.Quiet, now); quiet {
		return c.Quiet.Except
	}
	return nil
}

// next decides what is done next on a channel. waiting is what was not sent yet, oldest first, but what
// first returns before the rest; sent is the number of messages that were sent within limitWindow.
func next(c config.Notification, waiting []notifications.Waiting, sent int, now time.Time) step {
	var s step
	quiet, ends := quietAt(c.Quiet, now)
	held := func(w notifications.Waiting) bool { return quiet && !slices.Contains(c.Quiet.Except, w.Kind) }
	open := map[int64]time.Time{} // without messages in which everything is held back
	var ready []notifications.Waiting
	for _, w := range waiting {
		switch {
		case held(w):
			s.wait(ends)
		case w.Message != 0:
			open[w.Message] = w.Next
		default:
			ready = append(ready, w)
		}
	}
	allowed := c.PerHour - sent
	if allowed <= 0 {
		return step{until: now.Add(time.Minute)}
	}
	for id, at := range open {
		switch {
		case at.After(now):
			s.wait(at)
		case s.message == 0 || at.Before(open[s.message]) || at.Equal(open[s.message]) && id < s.message:
			s.message = id
		}
	}
	if s.message != 0 || len(open) >= maxOpen || len(ready) == 0 {
		return s
	}
	if collected := ready[0].Created.Add(c.Digest); collected.After(now) {
		s.wait(collected)
		return s
	}
	if c.Digest == 0 && len(ready) <= allowed && !slices.ContainsFunc(ready, func(w notifications.Waiting) bool {
		was, _ := quietAt(c.Quiet, w.Created)
		return was && !slices.Contains(c.Quiet.Except, w.Kind)
	}) {
		ready = ready[:1]
	}
	for _, w := range ready {
		s.compose = append(s.compose, w.ID)
	}
	return s
}

// quietAt reports whether a time is in the quiet hours, and when these end.
func quietAt(q config.Quiet, at time.Time) (quiet bool, ends time.Time) {
	from, to, ok := q.Minutes()
	zone, err := time.LoadLocation(q.Zone)
	if !ok || err != nil { // checked with the configuration
		return false, time.Time{}
	}
	local := at.In(zone)
	minute := local.Hour()*60 + local.Minute()
	day := local.Day()
	switch {
	case from < to && (minute < from || minute >= to):
		return false, time.Time{}
	case from > to && minute < from && minute >= to:
		return false, time.Time{}
	case from > to && minute >= from:
		day++
	}
	return true, time.Date(local.Year(), local.Month(), day, to/60, to%60, 0, 0, zone)
}
