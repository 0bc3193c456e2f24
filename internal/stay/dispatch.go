package stay

import (
	"context"
	"errors"
	"time"

	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store/forgeevents"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

// dispatch handles the events of the inbox when they are due, several at a time, but those of one pull
// request one after the other.
func (s *Service) dispatch(ctx context.Context) {
	busy := map[string]int{} // by forge
	all := 0
	done := make(chan string)
	tick := time.NewTicker(s.Tick)
	defer tick.Stop()
	for {
		for _, e := range s.claim(ctx, busy, maxEvents-all) {
			busy[e.Forge]++
			all++
			go func() {
				s.handle(ctx, e)
				done <- e.Forge
			}()
		}
		var stop <-chan struct{}
		if all == 0 || ctx.Err() == nil {
			stop = ctx.Done()
		}
		select {
		case <-stop:
			if all == 0 {
				return
			}
		case name := <-done:
			busy[name]--
			all--
		case <-s.woken:
		case <-tick.C:
		}
	}
}

// claim claims events that are due, none of forges that are busy or to be left alone.
func (s *Service) claim(ctx context.Context, busy map[string]int, free int) []forgeevents.Event {
	if free <= 0 || ctx.Err() != nil {
		return nil
	}
	without := []string{}
	for _, name := range s.Forges.Names() {
		left := maxPerForge - busy[name]
		if left <= 0 || s.pausedFor(name) > 0 {
			without = append(without, name)
			continue
		}
		free = min(free, left)
	}
	due, err := forgeevents.Claim(ctx, s.Store, free, handleTime+leaseMargin, without...)
	if err != nil && ctx.Err() == nil {
		s.Log.ErrorContext(ctx, "Events of forges could not be claimed; trying again", "error", err)
		pause(ctx, s.Tick)
	}
	return due
}

// handle decides about an event, informs the run, and stores the outcome. If the server dies before it
// is stored, another one does the same again, which has no further effect.
func (s *Service) handle(ctx context.Context, e forgeevents.Event) {
	held, cancel := context.WithTimeout(ctx, handleTime)
	defer cancel()
	out, err := s.decide(held, e)
	if err != nil && ctx.Err() != nil {
		return // the lease ends, and another server does it
	}
	s.noteLimit(e.Forge, err)
	old := time.Since(e.TriedAt) > s.GiveUp
	if err != nil && !old {
		wait := s.wait(e.Attempt, err)
		s.Log.WarnContext(ctx, "A run could not be informed of an event of its pull request; trying again",
			"forge", e.Forge, "repository", e.Repo, "number", e.Number, "event", e.Key, "attempt", e.Attempt, "wait", wait, "error", err)
		if err := forgeevents.Retry(ctx, s.Store, e, wait, fault.Of(err).Message); err != nil && ctx.Err() == nil {
			s.Log.ErrorContext(ctx, "An event of a pull request could not be postponed; it is due again when its lease ends", "event", e.ID, "error", err)
		}
		return
	}
	if err != nil {
		out = forgeevents.Outcome{State: forgeevents.Failed, Reason: fault.Of(err).Message, RunID: out.RunID}
		s.Log.ErrorContext(ctx, "A run was not informed of an event of its pull request", "forge", e.Forge, "repository", e.Repo, "number", e.Number, "event", e.Key, "error", err)
	}
	s.end(ctx, e, out)
}

// end stores the outcome of an event, until the lease ends. Its time is its own: a decision may have
// taken all of handleTime.
func (s *Service) end(ctx context.Context, e forgeevents.Event, out forgeevents.Outcome) {
	ctx, cancel := context.WithTimeout(ctx, leaseMargin)
	defer cancel()
	for {
		mine, err := forgeevents.End(ctx, s.Store, e, out)
		if err == nil {
			if mine {
				telemetry.CountForgeEvent(string(e.Kind), string(out.State))
			}
			s.Wake() // the next event of the pull request can begin
			return
		}
		if !pause(ctx, s.Tick) { // another server then takes the event over
			if !errors.Is(ctx.Err(), context.Canceled) {
				s.Log.ErrorContext(ctx, "The outcome of an event of a pull request could not be stored", "event", e.ID, "error", err)
			}
			return
		}
	}
}
