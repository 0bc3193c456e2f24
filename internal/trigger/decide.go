package trigger

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/store/triggers"
)

// plan is what follows from a turn.
type plan struct {
	begin  *triggers.Firing // the firing whose run is to be created
	cancel []int64          // runs to be cancelled
}

// turn is a turn of a trigger with its configuration.
type turn struct {
	*triggers.Turn
	config.Trigger
	fresh []triggers.Item // accepted, without an attempt
	begun []triggers.Item // with an attempt: each takes the place of a run
}

// decide decides what happens to the firings of a trigger that wait.
func (s *Service) decide(ctx context.Context, t *triggers.Turn, p *plan) error {
	settings, known := s.Triggers[t.Name]
	now := &turn{Turn: t, Trigger: settings}
	if err := now.sort(ctx); err != nil {
		return err
	}
	if !known {
		return s.endUnknown(ctx, now)
	}
	if err := s.endForeign(ctx, now); err != nil {
		return err
	}
	if t.Paused {
		return now.hold(ctx, strings.TrimSuffix("the trigger is paused: "+t.Reason, ": "))
	}
	if err := now.accept(ctx); err != nil {
		return err
	}
	if done, err := s.again(ctx, now, p); done || err != nil {
		return err
	}
	return s.first(ctx, now, p)
}

// sort finds the runs of firings whose servers died, and divides the others.
func (t *turn) sort(ctx context.Context) error {
	for _, i := range t.Turn.Waiting {
		if !i.Begun() {
			t.fresh = append(t.fresh, i)
			continue
		}
		run := int64(0)
		if i.Due {
			var err error
			if run, err = t.RunOf(ctx, Key(t.Name, i.At, i.Delivery)); err != nil {
				return err
			}
		}
		if run == 0 {
			t.begun = append(t.begun, i)
			continue
		}
		if err := t.Found(ctx, i, run); err != nil {
			return err
		}
		t.Running = append(t.Running, run) // if it has ended, the next turn knows
	}
	return nil
}

// endUnknown ends firings of a trigger that the configuration does not have. They wait for a while,
// because another server may know it.
func (s *Service) endUnknown(ctx context.Context, t *turn) error {
	if err := t.End(ctx, triggers.Skipped, "the configuration has no trigger with this name", s.old(t, t.Turn.Waiting)...); err != nil {
		return err
	}
	return t.Explain(ctx, "the configuration of this server has no trigger with this name", t.fresh...)
}

// old returns the firings that waited long enough for a server with another configuration.
func (s *Service) old(t *turn, items []triggers.Item) (old []triggers.Item) {
	for _, i := range items {
		if t.Now.Sub(i.ReceivedAt) > s.Unknown && (!i.Begun() || i.Due) {
			old = append(old, i)
		}
	}
	return old
}

// endForeign takes out what happened in another repository than the trigger has now, since when its
// configuration changed: an issue of that one is not the issue with the same number of this one. It waits
// for a while, because another server may have the other configuration.
func (s *Service) endForeign(ctx context.Context, t *turn) error {
	var foreign []triggers.Item
	is := func(i triggers.Item) bool {
		return i.At != (triggers.Place{}) && i.At != triggers.PlaceOf(t.Forge, t.Repository)
	}
	take := func(items []triggers.Item) []triggers.Item {
		return slices.DeleteFunc(items, func(i triggers.Item) bool {
			if is(i) && (!i.Begun() || i.Due) {
				foreign = append(foreign, i)
				return true
			}
			return false
		})
	}
	t.fresh, t.begun = take(t.fresh), take(t.begun)
	for _, i := range foreign {
		reason := fmt.Sprintf("it happened in %s, and the trigger has another repository since then", strings.TrimPrefix(i.At.String(), "/"))
		if err := t.Explain(ctx, reason, i); err != nil {
			return err
		}
		if err := t.End(ctx, triggers.Skipped, reason, s.old(t, []triggers.Item{i})...); err != nil {
			return err
		}
	}
	return nil
}

// accept decides which firings are in time. Later on, they wait as long as they must.
func (t *turn) accept(ctx context.Context) error {
	var ids []int64
	var late []triggers.Item
	for _, i := range t.fresh {
		switch {
		case i.Accepted:
		case t.Now.Sub(i.OccurredAt) > Late(t.Trigger):
			late = append(late, i)
		default:
			ids = append(ids, i.ID)
		}
	}
	t.fresh = slices.DeleteFunc(t.fresh, func(i triggers.Item) bool {
		return slices.ContainsFunc(late, func(l triggers.Item) bool { return l.ID == i.ID })
	})
	for _, i := range late {
		reason := fmt.Sprintf("it happened %s ago, longer than catch_up allows (%s)", t.Now.Sub(i.OccurredAt).Round(time.Second), Late(t.Trigger))
		if err := t.End(ctx, triggers.Skipped, reason, i); err != nil {
			return err
		}
	}
	return t.Accept(ctx, ids)
}

// again continues with a firing whose attempt failed or whose server died, if one is due. It reports
// whether that was all for this turn.
func (s *Service) again(ctx context.Context, t *turn, p *plan) (bool, error) {
	for i := 0; i < len(t.begun); {
		item := t.begun[i]
		var reason string
		state := triggers.Failed
		switch {
		case !item.Due:
			i++
			continue
		case t.Overlap == config.OverlapCancel && len(t.fresh) > 0:
			reason, state = superseded, triggers.Skipped
		case item.Creating && item.Attempts >= leastAttempts && t.Now.Sub(*item.TriedAt) > Late(t.Trigger)+s.CreateTime:
			reason = "the servers that created its run died; fix the cause, then use rgpt trigger redeliver"
		default:
			f, err := t.Begin(ctx, item, s.Lease)
			p.begin = &f
			return true, err
		}
		if err := t.End(ctx, state, reason, item); err != nil {
			return true, err
		}
		t.begun = slices.Delete(t.begun, i, i+1)
	}
	return false, nil
}

// leastAttempts is the number of attempts to create a run before its delivery fails because they take too
// long: one that a downtime interrupted is not the last.
const leastAttempts = 3

// superseded is why a firing is skipped for a newer one.
const superseded = "the trigger fired again before this run could start (overlap: cancel)"

// first begins the first firing if there is room for its run. Otherwise the overlap policy decides.
func (s *Service) first(ctx context.Context, t *turn, p *plan) error {
	if len(t.fresh) == 0 {
		return nil
	}
	if last := len(t.fresh) - 1; t.Overlap == config.OverlapCancel && last > 0 {
		if err := t.End(ctx, triggers.Skipped, superseded, t.fresh[:last]...); err != nil {
			return err
		}
		t.fresh = t.fresh[last:]
	}
	why, err := t.exhausted(ctx)
	switch {
	case err != nil:
		return err
	case why != "":
		return t.End(ctx, triggers.Skipped, why, t.fresh...)
	case len(t.Running)+len(t.begun) < t.Concurrent:
		f, err := t.Begin(ctx, t.fresh[0], s.Lease)
		p.begin = &f
		return err
	case t.Overlap == config.OverlapSkip:
		return t.End(ctx, triggers.Skipped, t.inProgress()+" (overlap: skip)", t.fresh...)
	case t.Overlap == config.OverlapCancel:
		p.cancel = t.Running
		return t.hold(ctx, "it waits for the end of its predecessor, which is cancelled: "+t.inProgress())
	default:
		return t.hold(ctx, t.inProgress())
	}
}

// exhausted returns why the trigger may not create another run today, empty if it may.
func (t *turn) exhausted(ctx context.Context) (string, error) {
	use, err := t.Use(ctx)
	switch {
	case err != nil:
		return "", err
	case use.Runs+len(t.begun) >= t.PerDay:
		return fmt.Sprintf("the trigger created %d runs within 24 hours, as many as per_day allows", use.Runs+len(t.begun)), nil
	case t.CostPerDay > 0 && use.Micros >= t.CostPerDay.Int64():
		return fmt.Sprintf("the runs of the trigger cost $%s within 24 hours, as much as cost_per_day allows ($%s)", config.MicroUSD(use.Micros), t.CostPerDay), nil
	}
	return "", nil
}

// inProgress says which runs take the places of the trigger.
func (t *turn) inProgress() string {
	var runs []string
	for _, id := range t.Running {
		runs = append(runs, fmt.Sprint(id))
	}
	switch {
	case len(runs) == 0:
		return "a run is being created"
	case len(runs) == 1:
		return "run " + runs[0] + " is in progress"
	}
	return "runs " + strings.Join(runs, ", ") + " are in progress"
}

// hold lets firings wait, at most as many as may.
func (t *turn) hold(ctx context.Context, reason string) error {
	if over := t.Trigger.Waiting; len(t.fresh) > over {
		why := fmt.Sprintf("%d deliveries were waiting, as many as the trigger's setting waiting allows", over)
		if err := t.End(ctx, triggers.Skipped, why, t.fresh[over:]...); err != nil {
			return err
		}
	}
	return t.Explain(ctx, reason, t.fresh...)
}
