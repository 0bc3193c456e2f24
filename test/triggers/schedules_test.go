// Package triggers tests the schedules of triggers with a real Temporal and a real database.
package triggers_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/rocketgpt/orchestrator/activities"
	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/await"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/triggers"
	"github.com/rocketgpt/orchestrator/internal/storetest"
	"github.com/rocketgpt/orchestrator/internal/temporal/temporaltest"
	"github.com/rocketgpt/orchestrator/internal/trigger"
	"github.com/rocketgpt/orchestrator/workflows"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m).Run()) }

func scheduled(cron string) config.Trigger {
	return config.Trigger{On: config.OnSchedule, Cron: cron, Zone: "Europe/Berlin", CatchUp: time.Hour}
}

func syncer(c client.Client, settings map[string]config.Trigger) *trigger.Schedules {
	return &trigger.Schedules{Client: c.ScheduleClient(), Triggers: settings, Log: slog.New(slog.DiscardHandler), FirstWait: 50 * time.Millisecond}
}

// names returns the schedules that Temporal lists.
func names(t *testing.T, c client.Client) string {
	t.Helper()
	list, err := c.ScheduleClient().List(t.Context(), client.ScheduleListOptions{})
	require.NoError(t, err)
	found := map[string]bool{}
	for list.HasNext() {
		e, err := list.Next()
		require.NoError(t, err)
		found[e.ID] = true
	}
	return fmt.Sprint(found)
}

func TestSchedulesFollowTheConfiguration(t *testing.T) {
	t.Parallel()
	c := temporaltest.Connect(t)
	settings := map[string]config.Trigger{"nightly": scheduled("0 3 * * *"), "both": scheduled("0 4 13 * FRI"), "event": {On: config.OnEvent}}
	var servers sync.WaitGroup
	for range 3 {
		servers.Go(func() { syncer(c, settings).Run(t.Context()) })
	}
	servers.Wait()
	await.Until(t, "both schedules", func() bool { return names(t, c) == "map[trigger/both:true trigger/nightly:true]" })
	problems, err := syncer(c, settings).Problems(t.Context())
	require.NoError(t, err)
	require.Empty(t, problems)

	d, err := c.ScheduleClient().GetHandle(t.Context(), "trigger/both").Describe(t.Context())
	require.NoError(t, err)
	require.Len(t, d.Schedule.Spec.Calendars, 2, "the day of the month or the day of the week")
	require.Equal(t, time.Hour, d.Schedule.Policy.CatchupWindow)
	updated := d.Info.LastUpdateAt
	require.NoError(t, syncer(c, settings).Sync(t.Context()))
	d, err = c.ScheduleClient().GetHandle(t.Context(), "trigger/both").Describe(t.Context())
	require.NoError(t, err)
	require.Equal(t, updated, d.Info.LastUpdateAt, "nothing changed")

	require.NoError(t, c.ScheduleClient().GetHandle(t.Context(), "trigger/nightly").Pause(t.Context(), client.SchedulePauseOptions{}))
	settings["nightly"] = scheduled("30 5 * * *")
	delete(settings, "both")
	problems, err = syncer(c, settings).Problems(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"the schedule of the trigger nightly is paused in Temporal"}, problems)
	require.NoError(t, syncer(c, settings).Sync(t.Context()))
	d, err = c.ScheduleClient().GetHandle(t.Context(), "trigger/nightly").Describe(t.Context())
	require.NoError(t, err)
	require.True(t, d.Schedule.State.Paused, "a person paused it")
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	require.Equal(t, "05:30", d.Info.NextActionTimes[0].In(berlin).Format("15:04"))
	await.Until(t, "one schedule", func() bool { return names(t, c) == "map[trigger/nightly:true]" })

	delete(settings, "nightly")
	require.NoError(t, syncer(c, settings).Sync(t.Context()))
	await.Until(t, "no schedule", func() bool { return names(t, c) == "map[]" })
	settings["nightly"] = scheduled("30 5 * * *")
	problems, err = syncer(c, settings).Problems(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"the trigger nightly has no schedule in Temporal"}, problems)
}

func TestEachTimeOfAScheduleIsOneDelivery(t *testing.T) {
	t.Parallel()
	c, st := temporaltest.Connect(t), storetest.New(t)
	require.NoError(t, syncer(c, map[string]config.Trigger{"yearly": scheduled("0 4 1 * *")}).Sync(t.Context()))
	handle := c.ScheduleClient().GetHandle(t.Context(), "trigger/yearly")
	missed := client.ScheduleBackfillOptions{Backfill: []client.ScheduleBackfill{{
		Start: time.Date(2025, 12, 15, 0, 0, 0, 0, time.UTC), End: time.Date(2026, 4, 15, 0, 0, 0, 0, time.UTC),
	}}}
	require.NoError(t, handle.Backfill(t.Context(), missed)) // no worker runs yet
	w := worker.New(c, contract.QueueRun, worker.Options{})
	workflows.RegisterTrigger(w)
	parts := &activities.Activities{Store: st}
	w.RegisterActivityWithOptions(parts.Trigger, activity.RegisterOptions{Name: contract.ActivityTrigger})
	require.NoError(t, w.Start())
	defer w.Stop()
	const want = "schedule:2026-01-01T03:00:00Z schedule:2026-02-01T03:00:00Z schedule:2026-03-01T03:00:00Z schedule:2026-04-01T02:00:00Z"
	await.Until(t, "a delivery for each time", func() bool { return keys(t, st) == want })
	over := func(n int) func() bool {
		return func() bool {
			d, err := handle.Describe(t.Context())
			return err == nil && d.Info.NumActions == n && len(d.Info.RunningWorkflows) == 0
		}
	}
	await.Until(t, "the end of their workflows: a time is not started again before", over(4))
	require.NoError(t, handle.Backfill(t.Context(), missed))
	await.Until(t, "the same times again", over(8))
	require.Equal(t, want, keys(t, st))
}

// keys returns the keys of the deliveries of the trigger yearly, in order.
func keys(t *testing.T, st *store.Store) string {
	t.Helper()
	list, err := triggers.List(context.WithoutCancel(t.Context()), st, triggers.Filter{Trigger: "yearly", Limit: 100})
	require.NoError(t, err)
	var out []string
	for _, f := range list {
		require.Equal(t, "schedule:"+f.OccurredAt.UTC().Format(time.RFC3339), f.Delivery)
		out = append(out, f.Delivery)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}
