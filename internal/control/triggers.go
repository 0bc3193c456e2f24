package control

import (
	"context"
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/triggers"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

// Limits of what a person fires a trigger with.
const (
	maxFireText = 64 << 10 // bytes of the text
	maxFireKey  = 200      // bytes of the key
)

// nextTimes is the number of times of a schedule that are shown.
const nextTimes = 3

// Trigger is a trigger of the configuration with its status.
type Trigger struct {
	Name       string      `json:"name"`
	On         string      `json:"on" enum:"issue,comment,check,schedule,event,command" doc:"what makes it fire"`
	Forge      string      `json:"forge,omitempty"`
	Repository string      `json:"repository,omitempty" doc:"path of the repository on the forge"`
	Repo       string      `json:"repo,omitempty" doc:"repository of the runs, if it is not the one on the forge"`
	Base       string      `json:"base,omitempty"`
	Label      string      `json:"label,omitempty"`
	Cron       string      `json:"cron,omitempty"`
	Zone       string      `json:"zone,omitempty" doc:"time zone of cron"`
	Goal       string      `json:"goal,omitempty"`
	Release    string      `json:"release,omitempty"`
	Overlap    string      `json:"overlap" enum:"skip,queue,cancel"`
	Concurrent int         `json:"concurrent" doc:"maximum number of runs at the same time"`
	MaxWaiting int         `json:"max_waiting" doc:"maximum number of deliveries that wait"`
	PerDay     int         `json:"per_day" doc:"maximum number of runs within 24 hours"`
	CostPerDay int64       `json:"cost_per_day_micro_usd,omitempty" doc:"maximum cost within 24 hours; absent: unlimited"`
	CatchUp    int64       `json:"catch_up_seconds" doc:"how late a delivery may be"`
	Next       []time.Time `json:"next,omitempty" doc:"the next times of the schedule"`
	triggers.Status
}

func triggerOf(name string, t config.Trigger, s triggers.Status) Trigger {
	out := Trigger{
		Name: name, On: t.On, Forge: t.Forge, Repository: t.Repository, Repo: telemetry.Redact(t.Repo), Base: t.Base, Label: t.Label, Goal: t.Goal, Release: t.Release,
		Overlap: t.Overlap, Concurrent: t.Concurrent, MaxWaiting: t.Waiting, PerDay: t.PerDay, CostPerDay: t.CostPerDay.Int64(), CatchUp: int64(t.CatchUp / time.Second), Status: s,
	}
	if t.On == config.OnSchedule {
		out.Cron, out.Zone, out.Next = t.Cron, t.Zone, t.Next(time.Now(), nextTimes)
	}
	return out
}

// Triggers returns the triggers of the configuration, by name.
func (r *Runs) Triggers(ctx context.Context) ([]Trigger, error) {
	names := slices.Sorted(maps.Keys(r.Config.Triggers))
	status, err := triggers.Statuses(ctx, r.Store, names)
	if err != nil {
		return nil, err
	}
	out := make([]Trigger, 0, len(names))
	for i, name := range names {
		out = append(out, triggerOf(name, r.Config.Triggers[name], status[i]))
	}
	return out, nil
}

// Trigger returns a trigger of the configuration.
func (r *Runs) Trigger(ctx context.Context, name string) (Trigger, error) {
	t, known := r.Config.Triggers[name]
	if !known {
		return Trigger{}, noTrigger(name)
	}
	status, err := triggers.Statuses(ctx, r.Store, []string{name})
	if err != nil {
		return Trigger{}, err
	}
	return triggerOf(name, t, status[0]), nil
}

func noTrigger(name string) error {
	return fault.Wrap(store.ErrNotFound, contract.ClassHuman, store.CodeNotFound, "the configuration has no trigger %q; see rgpt trigger list", name)
}

// TriggerFire is a request to fire a trigger.
type TriggerFire struct {
	Text string `json:"text,omitempty" maxLength:"65536" doc:"what the run gets besides the goal of the trigger, as data"`
	Key  string `json:"key,omitempty" maxLength:"200" doc:"requests with the same key fire the trigger once; default: a new one"`
	By   string `json:"by,omitempty" maxLength:"200" doc:"who fires it; default: api"`
}

// FireTrigger fires a trigger, whatever usually makes it fire. Its settings decide whether and when a
// run follows. A request with a key that was used before changes nothing, and returns the earlier
// delivery.
func (r *Runs) FireTrigger(ctx context.Context, name string, f TriggerFire) (triggers.Firing, error) {
	t, known := r.Config.Triggers[name]
	if !known {
		return triggers.Firing{}, noTrigger(name)
	}
	switch {
	case t.Goal == "" && f.Text == "":
		return triggers.Firing{}, wrong("the trigger %s has no goal of its own; say in the text what the run shall do (--text)", name)
	case !utf8.ValidString(f.Text + f.Key):
		return triggers.Firing{}, wrong("text and key must be valid UTF-8")
	case len(f.Text) > maxFireText:
		return triggers.Firing{}, wrong("the text is %d bytes long, more than the %d allowed", len(f.Text), maxFireText)
	case len(f.Key) > maxFireKey:
		return triggers.Firing{}, wrong("the key is %d bytes long, more than the %d allowed", len(f.Key), maxFireKey)
	case f.Key == "":
		f.Key = uuid.NewString()
	}
	out, _, err := triggers.Request(ctx, r.Store, triggers.Delivery{
		Trigger: name, Key: "command:" + f.Key, OccurredAt: time.Now(),
		Payload: triggers.Payload{Title: "A person fired the trigger.", Text: telemetry.Redact(f.Text), Author: telemetry.Redact(f.By)},
	}, f.By)
	return out, err
}

// TriggerPause is a request to pause a trigger.
type TriggerPause struct {
	Reason string `json:"reason" minLength:"1" maxLength:"2000"`
	By     string `json:"by,omitempty" maxLength:"200" doc:"who pauses it; default: api"`
}

// PauseTrigger pauses a trigger: its deliveries wait until it is resumed. Runs in progress continue.
func (r *Runs) PauseTrigger(ctx context.Context, name string, p TriggerPause) (Trigger, error) {
	if _, known := r.Config.Triggers[name]; !known {
		return Trigger{}, noTrigger(name)
	}
	if p.Reason == "" {
		return Trigger{}, wrong("no reason given (--reason)")
	}
	done, err := triggers.Pause(ctx, r.Store, name, telemetry.Redact(p.Reason), telemetry.Redact(p.By))
	if err != nil {
		return Trigger{}, err
	}
	t, err := r.Trigger(ctx, name)
	if err == nil && !done {
		err = refused("the trigger %s is already paused by %s: %s", name, t.PausedBy, t.Reason)
	}
	return t, err
}

// ResumeTrigger ends the pause of a trigger. Of the deliveries that wait, those that are too old by then
// (catch_up) are skipped.
func (r *Runs) ResumeTrigger(ctx context.Context, name, by string) (Trigger, error) {
	if _, known := r.Config.Triggers[name]; !known {
		return Trigger{}, noTrigger(name)
	}
	done, err := triggers.Resume(ctx, r.Store, name, by)
	if err != nil {
		return Trigger{}, err
	}
	if !done {
		return Trigger{}, refused("the trigger %s is not paused", name)
	}
	return r.Trigger(ctx, name)
}

// TriggerDeliveries is a page of deliveries, newest first.
type TriggerDeliveries struct {
	Deliveries []triggers.Firing `json:"deliveries"`
	Next       int64             `json:"next,omitempty" doc:"before of the next page; absent: this is the last one"`
}

// TriggerDeliveries returns deliveries of all triggers or of one, newest first. Those of triggers that
// the configuration no longer has are included.
func (r *Runs) TriggerDeliveries(ctx context.Context, f triggers.Filter) (TriggerDeliveries, error) {
	list, err := triggers.List(ctx, r.Store, f)
	if err != nil {
		return TriggerDeliveries{}, err
	}
	out := TriggerDeliveries{Deliveries: store.NotNil(list)}
	if len(list) > 0 && len(list) == f.Limit {
		out.Next = list[len(list)-1].ID
	}
	return out, nil
}

// RedeliverTrigger lets a delivery that was skipped or failed wait again, however old it is. All other
// settings of its trigger apply again.
func (r *Runs) RedeliverTrigger(ctx context.Context, id int64, by string) (triggers.Firing, error) {
	f, err := triggers.Get(ctx, r.Store, id)
	if err != nil {
		return f, err
	}
	if _, known := r.Config.Triggers[f.Trigger]; !known {
		return f, refused("delivery %d cannot be delivered again: the configuration has no trigger %q any longer", id, f.Trigger)
	}
	done, err := triggers.Redeliver(ctx, r.Store, id, by)
	if err != nil {
		return f, err
	}
	if f, err = triggers.Get(ctx, r.Store, id); err == nil && !done {
		err = refused("delivery %d is %s; only one that was skipped or failed can be delivered again", id, f.State)
	}
	return f, err
}
