package notify

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/store/notifications"
)

var berlin = func() *time.Location {
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		panic(err) //nolint:forbidigo // not in a test binary
	}
	return zone
}()

func at(day, hour, minute int) time.Time { return time.Date(2026, 3, day, hour, minute, 0, 0, berlin) }

func waiting(id int64, kind string, created time.Time) notifications.Waiting {
	return notifications.Waiting{ID: id, Kind: kind, Created: created}
}

func TestQuietHoursEndOnTheSameOrTheNextDayAlsoWhenClocksChange(t *testing.T) {
	t.Parallel()
	night := config.Quiet{From: "22:00", To: "07:00", Zone: "Europe/Berlin"}
	noon := config.Quiet{From: "12:00", To: "13:30", Zone: "Europe/Berlin"}
	for _, c := range []struct {
		quiet config.Quiet
		at    time.Time
		ends  time.Time // zero: not quiet
	}{
		{night, at(2, 21, 59), time.Time{}},
		{night, at(2, 22, 0), at(3, 7, 0)},
		{night, at(3, 0, 0), at(3, 7, 0)},
		{night, at(3, 6, 59), at(3, 7, 0)},
		{night, at(3, 7, 0), time.Time{}},
		{night, at(28, 23, 0), at(29, 7, 0)}, // one hour less
		{night, at(31, 23, 0), time.Date(2026, 4, 1, 7, 0, 0, 0, berlin)},
		{noon, at(2, 11, 59), time.Time{}},
		{noon, at(2, 12, 0), at(2, 13, 30)},
		{noon, at(2, 13, 30), time.Time{}},
		{config.Quiet{}, at(2, 23, 0), time.Time{}},
	} {
		quiet, ends := quietAt(c.quiet, c.at.UTC())
		require.Equal(t, !c.ends.IsZero(), quiet, c.at)
		require.True(t, ends.Equal(c.ends), "%s: %s", c.at, ends)
	}
	_, ends := quietAt(night, at(28, 23, 0))
	require.Equal(t, 7*time.Hour, ends.Sub(at(28, 23, 0)))
}

func TestNotificationsAreSentAtOnceInOrder(t *testing.T) {
	t.Parallel()
	c := config.Notification{PerHour: 20}
	now := at(2, 12, 0)
	require.Equal(t, step{}, next(c, nil, 0, now))
	require.Equal(t, step{compose: []int64{1}}, next(c, []notifications.Waiting{waiting(1, "failed", now), waiting(2, "done", now)}, 0, now))
}

func TestADigestBeginsWithItsFirstNotification(t *testing.T) {
	t.Parallel()
	c := config.Notification{PerHour: 20, Digest: 15 * time.Minute}
	two := []notifications.Waiting{waiting(1, "failed", at(2, 12, 0)), waiting(2, "done", at(2, 12, 14))}
	require.Equal(t, step{until: at(2, 12, 15)}, next(c, two, 0, at(2, 12, 14)))
	require.Equal(t, step{compose: []int64{1, 2}}, next(c, two, 0, at(2, 12, 15)))
}

func TestWhatHappensInQuietHoursIsSentAfterwardsAsOneMessage(t *testing.T) {
	t.Parallel()
	c := config.Notification{PerHour: 20, Quiet: config.Quiet{From: "22:00", To: "07:00", Zone: "Europe/Berlin", Except: []string{"waits"}}}
	all := []notifications.Waiting{waiting(1, "failed", at(2, 23, 0)), waiting(2, "waits", at(2, 23, 1)), waiting(3, "done", at(3, 2, 0))}
	got := next(c, all, 0, at(3, 2, 0))
	require.Equal(t, []int64{2}, got.compose, "except")
	got = next(c, append(all[:1:1], all[2]), 0, at(3, 6, 59))
	require.Equal(t, step{until: at(3, 7, 0)}, step{got.message, got.compose, got.until.In(berlin)})
	got = next(c, append(all[:1:1], all[2], waiting(4, "failed", at(3, 7, 1))), 0, at(3, 7, 1))
	require.Equal(t, []int64{1, 3, 4}, got.compose)

	// A message that failed before they began waits as well.
	failing := notifications.Waiting{ID: 5, Kind: "failed", Message: 5, Created: at(2, 21, 0), Next: at(2, 22, 1)}
	require.Zero(t, next(c, []notifications.Waiting{failing}, 0, at(3, 1, 0)).message)
	require.Equal(t, int64(5), next(c, []notifications.Waiting{failing}, 0, at(3, 7, 0)).message)
}

func TestMoreThanTheLimitAreCollected(t *testing.T) {
	t.Parallel()
	c := config.Notification{PerHour: 3}
	now := at(2, 12, 0)
	four := []notifications.Waiting{waiting(1, "failed", now), waiting(2, "done", now), waiting(3, "done", now), waiting(4, "done", now)}
	require.Equal(t, []int64{1}, next(c, four[:3], 0, now).compose)
	require.Equal(t, []int64{1, 2, 3, 4}, next(c, four, 0, now).compose)
	require.Equal(t, []int64{1, 2}, next(c, four[:2], 2, now).compose)
	require.Equal(t, step{until: now.Add(time.Minute)}, next(c, four, 3, now))
}

func TestWhileMessagesFailOthersAreCollected(t *testing.T) {
	t.Parallel()
	c := config.Notification{PerHour: 20}
	now := at(2, 12, 0)
	var all []notifications.Waiting
	for id := range int64(maxOpen) {
		all = append(all, notifications.Waiting{ID: id + 1, Kind: "failed", Message: id + 1, Next: now.Add(time.Duration(id+1) * time.Minute)})
	}
	all = append(all, waiting(10, "done", now))
	require.Equal(t, step{until: now.Add(time.Minute)}, next(c, all, 0, now))
	require.Equal(t, int64(1), next(c, all, 0, now.Add(3*time.Minute)).message, "the one that waits longest")
	require.Equal(t, []int64{10}, next(c, all[1:], 0, now).compose)
}

func TestWhatIsHeldBackInQuietHoursStopsNoException(t *testing.T) {
	t.Parallel()
	c := config.Notification{PerHour: 20, Quiet: config.Quiet{From: "22:00", To: "07:00", Zone: "Europe/Berlin", Except: []string{"waits"}}}
	night := at(3, 1, 0)
	var all []notifications.Waiting
	for id := range int64(maxOpen) {
		all = append(all, notifications.Waiting{ID: id + 1, Kind: "failed", Message: id + 1, Created: at(2, 21, 0), Next: at(2, 21, 59)})
	}
	all = append(all, waiting(10, "waits", night))
	require.Equal(t, []int64{10}, next(c, all, 0, night).compose, "messages that wait for the end of the quiet hours do not count")
	require.Equal(t, int64(1), next(c, all, 0, at(3, 7, 0)).message)

	// A message that was collected before they began is sent if it contains an exception.
	collected := []notifications.Waiting{
		{ID: 1, Kind: "failed", Message: 1, Created: at(2, 21, 0), Next: at(2, 22, 1)}, {ID: 2, Kind: "waits", Message: 1, Created: at(2, 21, 1), Next: at(2, 22, 1)},
		{ID: 3, Kind: "done", Message: 1, Created: at(2, 21, 2), Next: at(2, 22, 1)},
	}
	require.Equal(t, int64(1), next(c, collected, 0, night).message)
}
