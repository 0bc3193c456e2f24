package trigger

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/triggers"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

// dispatch works on the triggers with waiting firings, several at a time, so that none delays another.
func (s *Service) dispatch(ctx context.Context) {
	worked := map[string]time.Time{} // when work on a trigger ended
	woken := false
	busy := map[string]bool{}
	done := make(chan string)
	tick := time.NewTicker(s.Tick)
	defer tick.Stop()
	for {
		for _, name := range s.next(ctx, worked) {
			if busy[name] || len(busy) == maxTriggers || ctx.Err() != nil || !woken && time.Since(worked[name]) < s.Tick/2 {
				continue
			}
			busy[name] = true
			go func() {
				s.work(ctx, name)
				done <- name
			}()
		}
		woken = false
		var stop <-chan struct{}
		if len(busy) == 0 || ctx.Err() == nil {
			stop = ctx.Done()
		}
		select {
		case <-stop:
			if len(busy) == 0 {
				return
			}
		case name := <-done:
			delete(busy, name)
			worked[name] = time.Now()
		case <-s.woken:
			woken = true
		case <-tick.C:
		}
	}
}

// next returns the triggers with waiting firings, first those that had no turn for the longest time.
func (s *Service) next(ctx context.Context, worked map[string]time.Time) []string {
	if ctx.Err() != nil {
		return nil
	}
	oldest, err := triggers.AllWaiting(ctx, s.Store)
	if err != nil {
		if ctx.Err() == nil {
			s.Log.ErrorContext(ctx, "Deliveries of triggers could not be read; trying again", "error", err)
		}
		return nil
	}
	var age time.Duration
	for _, at := range oldest {
		age = max(age, time.Since(at))
	}
	telemetry.ObserveTriggersWaiting(age)
	maps.DeleteFunc(worked, func(name string, _ time.Time) bool { _, waits := oldest[name]; return !waits })
	return slices.SortedFunc(maps.Keys(oldest), func(a, b string) int {
		return cmp.Or(worked[a].Compare(worked[b]), cmp.Compare(a, b))
	})
}

// work takes turns of one trigger until nothing more can be done now.
func (s *Service) work(ctx context.Context, name string) {
	for ctx.Err() == nil {
		p := plan{}
		ended, err := triggers.InTurn(ctx, s.Store, name, s.Triggers[name].Waiting+maxRead, func(t *triggers.Turn) error {
			p = plan{}
			return s.decide(ctx, t, &p)
		})
		if err != nil {
			if ctx.Err() == nil {
				s.Log.ErrorContext(ctx, "Deliveries of a trigger could not be handled; trying again", "trigger", name, "error", err)
				pause(ctx, s.FirstWait)
			}
			return
		}
		for state, n := range ended {
			telemetry.CountTriggerFirings(s.source(name), string(state), n)
		}
		s.cancel(ctx, name, p.cancel)
		if p.begin == nil {
			return
		}
		s.create(ctx, *p.begin)
	}
}

// cancel cancels runs in progress, because a newer one takes their place.
func (s *Service) cancel(ctx context.Context, name string, runs []int64) {
	for _, run := range runs {
		s.mu.Lock()
		recent := time.Since(s.stopped[run]) < stopAgain
		if !recent {
			s.stopped[run] = time.Now()
		}
		maps.DeleteFunc(s.stopped, func(_ int64, at time.Time) bool { return time.Since(at) > 10*stopAgain })
		s.mu.Unlock()
		if recent {
			continue
		}
		err := s.Runs.Stop(ctx, run, contract.Command{
			By: contract.ByTrigger(name), Reason: fmt.Sprintf("the trigger %s fired again (overlap: cancel)", name),
		})
		if err != nil && ctx.Err() == nil { // it may have ended; otherwise the next turn tries again
			s.Log.WarnContext(ctx, "A run could not be cancelled for a newer one of its trigger", "trigger", name, "run", run, "error", err)
		}
	}
}

// create creates the run of a firing, and stores the outcome. If the server dies before, another one
// finds the run, or creates it.
func (s *Service) create(ctx context.Context, f triggers.Firing) {
	t := s.Triggers[f.Trigger]
	held, cancel := context.WithTimeout(ctx, s.CreateTime)
	defer cancel()
	release := s.hold(held, f)
	wanted, err := s.creation(t, f)
	var created control.Created
	if err == nil {
		created, err = s.Runs.Create(held, wanted)
	}
	release()
	switch {
	case err == nil:
		s.Log.InfoContext(ctx, "A trigger created a run", "trigger", f.Trigger, "delivery", f.Delivery, "run", created.Run.ID)
		s.end(ctx, f, triggers.Fired, func(ctx context.Context) (bool, error) { return triggers.EndFired(ctx, s.Store, f, created.Run.ID) })
	case ctx.Err() != nil: // another server does it now, or this one after its restart
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
		defer cancel()
		if err := triggers.Retry(last, s.Store, f, 0, "the server stopped"); err != nil {
			s.Log.WarnContext(ctx, "A delivery of a trigger could not be passed on; another server continues when its lease ends", "trigger", f.Trigger, "delivery", f.Delivery, "error", err)
		}
	case temporary(err) && (f.Attempts < leastAttempts || time.Since(f.TriedAt) < Late(t)):
		wait := s.wait(f.Attempts)
		s.Log.WarnContext(ctx, "A trigger could not create a run; trying again", "trigger", f.Trigger, "delivery", f.Delivery, "attempt", f.Attempts, "wait", wait, "error", err)
		if err := triggers.Retry(ctx, s.Store, f, wait, telemetry.Redact(fault.Of(err).Message)); err != nil && ctx.Err() == nil {
			s.Log.ErrorContext(ctx, "A delivery of a trigger could not be postponed; it is due again when its lease ends", "trigger", f.Trigger, "delivery", f.Delivery, "error", err)
		}
	default:
		s.Log.ErrorContext(ctx, "A trigger could not create a run", "trigger", f.Trigger, "delivery", f.Delivery, "error", err)
		reason := telemetry.Redact(fault.Of(err).Message)
		s.end(ctx, f, triggers.Failed, func(ctx context.Context) (bool, error) { return triggers.EndFailed(ctx, s.Store, f, reason) })
	}
}

// hold keeps the lease of a firing until it is released.
func (s *Service) hold(ctx context.Context, f triggers.Firing) (release func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for pause(ctx, s.Lease/renewals) {
			if err := triggers.Renew(ctx, s.Store, f, s.Lease); err != nil && ctx.Err() == nil {
				s.Log.WarnContext(ctx, "The lease of a delivery of a trigger could not be renewed; trying again", "trigger", f.Trigger, "delivery", f.Delivery, "error", err)
			}
		}
	}()
	return func() { cancel(); <-done }
}

// temporaryCodes are the codes of failures that may not occur again, whatever their class.
var temporaryCodes = []contract.Code{
	contract.CodeRateLimited, contract.CodeUnavailable, contract.CodeUnreachable, contract.CodeTimeout, contract.CodeDatabaseDown, contract.CodeDiskFull,
	store.CodeConflict, // an earlier attempt created the run, and the configuration has changed since: the run is found
}

// temporary reports whether an attempt to create a run may succeed later without a change of the
// configuration.
func temporary(err error) bool {
	f := fault.Of(err)
	return f.Class == contract.ClassInfra || slices.Contains(temporaryCodes, f.Code)
}

// end stores the outcome of a firing. Its time is its own: the attempt may have taken all of CreateTime.
func (s *Service) end(ctx context.Context, f triggers.Firing, state triggers.State, save func(context.Context) (bool, error)) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	for {
		mine, err := save(ctx)
		if err == nil {
			if mine {
				telemetry.CountTriggerFirings(s.source(f.Trigger), string(state), 1)
			}
			return
		}
		if !pause(ctx, s.Tick) { // another server then takes the firing over
			s.Log.ErrorContext(ctx, "The outcome of a delivery of a trigger could not be stored", "trigger", f.Trigger, "delivery", f.Delivery, "error", err)
			return
		}
	}
}
