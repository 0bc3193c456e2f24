package trigger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// Schedules makes Temporal's schedules equal to the triggers on schedules of the configuration. A
// schedule starts a workflow, which only adds a delivery: overlaps are decided later.
type Schedules struct {
	Client   client.ScheduleClient
	Triggers map[string]config.Trigger
	Log      *slog.Logger

	FirstWait   time.Duration // after the first failure; default DefaultFirstWait
	LongestWait time.Duration // between two attempts; default DefaultLongestWait
}

// schedulePage is the number of schedules that are listed at a time.
const schedulePage = 100

// Run makes the schedules equal to the configuration once, and tries again until that succeeds or the
// context ends.
func (s *Schedules) Run(ctx context.Context) {
	waits := New(Options{FirstWait: s.FirstWait, LongestWait: s.LongestWait})
	for failures := 1; ; failures++ {
		err := s.Sync(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		wait := waits.wait(failures)
		s.Log.WarnContext(ctx, "The schedules of triggers are not as configured; trying again", "wait", wait, "error", err)
		if !pause(ctx, wait) {
			return
		}
	}
}

// Sync creates, changes and deletes schedules. A failure with one does not keep it from the others.
func (s *Schedules) Sync(ctx context.Context) error {
	var all []error
	for _, name := range slices.Sorted(maps.Keys(s.Triggers)) {
		if s.Triggers[name].On == config.OnSchedule {
			if err := s.ensure(ctx, name, s.Triggers[name]); err != nil {
				all = append(all, fault.Wrap(err, contract.ClassInfra, contract.CodeUnavailable, "cannot set the schedule of the trigger %s", name))
			}
		}
	}
	return errors.Join(append(all, s.deleteOthers(ctx))...)
}

// ensure creates a schedule, or changes it if it differs. Whether a person paused it in Temporal stays.
func (s *Schedules) ensure(ctx context.Context, name string, t config.Trigger) error {
	wanted := scheduleOf(name, t)
	err := s.Client.GetHandle(ctx, wanted.ID).Update(ctx, client.ScheduleUpdateOptions{DoUpdate: func(in client.ScheduleUpdateInput) (*client.ScheduleUpdate, error) {
		known := in.Description.Schedule.State
		if known != nil && known.Note == wanted.Note {
			return nil, temporal.ErrSkipScheduleUpdate
		}
		return &client.ScheduleUpdate{Schedule: &client.Schedule{
			Action: wanted.Action, Spec: &wanted.Spec, Policy: &client.SchedulePolicies{Overlap: wanted.Overlap, CatchupWindow: wanted.CatchupWindow},
			State: &client.ScheduleState{Note: wanted.Note, Paused: known != nil && known.Paused},
		}}, nil
	}})
	var missing *serviceerror.NotFound
	if !errors.As(err, &missing) {
		return err
	}
	_, err = s.Client.Create(ctx, wanted)
	if errors.Is(err, temporal.ErrScheduleAlreadyRunning) { // another server was faster
		return nil
	}
	if err == nil {
		s.Log.InfoContext(ctx, "Created the schedule of a trigger", "trigger", name, "cron", t.Cron, "zone", t.Zone)
	}
	return err
}

// deleteOthers deletes the schedules of triggers that the configuration does not have any longer.
func (s *Schedules) deleteOthers(ctx context.Context) error {
	list, err := s.Client.List(ctx, client.ScheduleListOptions{PageSize: schedulePage})
	if err != nil {
		return fault.Wrap(err, contract.ClassInfra, contract.CodeUnavailable, "cannot list the schedules of Temporal")
	}
	var all []error
	for list.HasNext() {
		entry, err := list.Next()
		if err != nil {
			return errors.Join(append(all, fault.Wrap(err, contract.ClassInfra, contract.CodeUnavailable, "cannot list the schedules of Temporal"))...)
		}
		name, ours := contract.TriggerOfSchedule(entry.ID)
		if !ours || s.Triggers[name].On == config.OnSchedule {
			continue
		}
		err = s.Client.GetHandle(ctx, entry.ID).Delete(ctx)
		var gone *serviceerror.NotFound
		if err != nil && !errors.As(err, &gone) {
			all = append(all, fault.Wrap(err, contract.ClassInfra, contract.CodeUnavailable, "cannot delete the schedule of the trigger %s", name))
			continue
		}
		s.Log.InfoContext(ctx, "Deleted the schedule of a trigger that is not in the configuration", "trigger", name)
	}
	return errors.Join(all...)
}

// Problems returns what is wrong with the schedules, as sentences.
func (s *Schedules) Problems(ctx context.Context) ([]string, error) {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(s.Triggers)) {
		t := s.Triggers[name]
		if t.On != config.OnSchedule {
			continue
		}
		d, err := s.Client.GetHandle(ctx, contract.TriggerScheduleID(name)).Describe(ctx)
		var missing *serviceerror.NotFound
		switch {
		case errors.As(err, &missing):
			out = append(out, fmt.Sprintf("the trigger %s has no schedule in Temporal", name))
		case err != nil:
			return nil, fault.Wrap(err, contract.ClassInfra, contract.CodeUnavailable, "cannot read the schedule of the trigger %s", name)
		case d.Schedule.State != nil && d.Schedule.State.Paused:
			out = append(out, fmt.Sprintf("the schedule of the trigger %s is paused in Temporal", name))
		case d.Schedule.State == nil || d.Schedule.State.Note != scheduleOf(name, t).Note:
			out = append(out, fmt.Sprintf("the schedule of the trigger %s is not as configured", name))
		}
	}
	return out, nil
}

// scheduleOf returns the schedule of a trigger. Its note says all that may change.
func scheduleOf(name string, t config.Trigger) client.ScheduleOptions {
	return client.ScheduleOptions{
		ID:   contract.TriggerScheduleID(name),
		Spec: client.ScheduleSpec{CronExpressions: cronExpressions(t.Cron), TimeZoneName: t.Zone},
		Action: &client.ScheduleWorkflowAction{
			ID: contract.TriggerScheduleID(name), Workflow: contract.WorkflowTrigger, Args: []any{contract.TriggerInput{Trigger: name}},
			TaskQueue: contract.QueueRun, WorkflowTaskTimeout: contract.TaskTimeout,
		},
		Overlap: enumspb.SCHEDULE_OVERLAP_POLICY_ALLOW_ALL, CatchupWindow: Late(t),
		Note: fmt.Sprintf("Set by rgpt server: cron %s, zone %s, catch_up %s", t.Cron, t.Zone, Late(t)),
	}
}

// cronExpressions returns a cron expression for Temporal. If it limits both the day of the month and
// the day of the week, one of the two must match, as usual with cron; with Temporal, both must.
func cronExpressions(expression string) []string {
	fields := strings.Fields(strings.ReplaceAll(expression, "?", "*"))
	const day, weekday, number = 2, 4, 5
	if len(fields) != number || unlimited(fields[day]) || unlimited(fields[weekday]) {
		return []string{strings.Join(fields, " ")}
	}
	other := slices.Clone(fields)
	fields[weekday], other[day] = "*", "*"
	return []string{strings.Join(fields, " "), strings.Join(other, " ")}
}

// unlimited reports whether a field of a cron expression matches all days. A step is a limit.
func unlimited(field string) bool { return field == "*" || field == "*/1" }
