// Package trigger creates runs for what fires the triggers of the configuration. Sources add
// deliveries to the table that package triggers stores; any server takes those of a trigger in order,
// and decides about each whether it may create a run now, later or never. Any number of servers may do
// this at the same time, and each may die at any point: they decide about a trigger one after the
// other, and a delivery creates at most one run, because its run has the delivery's idempotency key.
package trigger

import (
	"cmp"
	"context"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/triggers"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

// Runs are the operations on runs that this package needs.
type Runs interface {
	Create(ctx context.Context, c control.Creation) (control.Created, error)
	Stop(ctx context.Context, run int64, c contract.Command) error
}

// Forges are the forges of the configuration.
type Forges interface {
	// Remote returns the address for git of a repository on a forge.
	Remote(name, repo string) (string, error)
}

// Options are what a Service needs. The durations have defaults.
type Options struct {
	Store    *store.Store
	Runs     Runs
	Triggers map[string]config.Trigger
	Forges   Forges
	MaxGoal  int // bytes of a goal with its description (execution.max_goal_bytes)
	Log      *slog.Logger
	Getenv   func(string) string // for the tokens of CloudEvents; default os.Getenv

	Tick        time.Duration // between checks for work without a notification
	FirstWait   time.Duration // after the first failed attempt to create a run
	LongestWait time.Duration // between two attempts
	CreateTime  time.Duration // of one attempt
	Lease       time.Duration // after which a server that creates a run counts as dead
	Unknown     time.Duration // how long deliveries of triggers without a configuration wait
}

// The defaults of Options.
const (
	DefaultTick        = time.Second
	DefaultFirstWait   = 5 * time.Second
	DefaultLongestWait = 5 * time.Minute
	DefaultCreateTime  = 5 * time.Minute
	DefaultLease       = 30 * time.Second
	// DefaultUnknown is longer than servers with an older configuration usually run beside newer ones.
	DefaultUnknown = 10 * time.Minute
)

// Limits of the work of one server.
const (
	// maxTriggers is the number of triggers that are worked on at the same time, each by itself.
	maxTriggers = 16
	// renewals is how often a lease is renewed before it would end.
	renewals = 4
	// endTime is how long the outcome of an attempt is tried to be stored.
	endTime = 10 * time.Second
	// stopAgain is the interval at which a run that is to be cancelled is asked again.
	stopAgain = 10 * time.Second
	// minLate is how late a delivery may be in any case: the least that Temporal's schedules allow.
	minLate = 10 * time.Second
	// maxRead is how many more firings of a trigger are read at a time than may wait.
	maxRead = 100
	// sweepEvery is the interval at which old rows are removed, keep how old they become, and keepLong
	// how old those of issues and comments become.
	sweepEvery = time.Hour
	keep       = 90 * 24 * time.Hour
	keepLong   = 365 * 24 * time.Hour
	jitter     = 0.2 // random part of a wait
)

// Service creates runs for the deliveries of triggers.
type Service struct {
	Options
	woken   chan struct{}
	reading chan struct{} // CloudEvents that are read

	mu      sync.Mutex
	stopped map[int64]time.Time // when runs were asked to stop
}

// New returns the service; Run starts it.
func New(o Options) *Service {
	o.Tick, o.FirstWait = cmp.Or(o.Tick, DefaultTick), cmp.Or(o.FirstWait, DefaultFirstWait)
	o.LongestWait, o.CreateTime = cmp.Or(o.LongestWait, DefaultLongestWait), cmp.Or(o.CreateTime, DefaultCreateTime)
	o.Lease, o.Unknown = cmp.Or(o.Lease, DefaultLease), cmp.Or(o.Unknown, DefaultUnknown)
	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}
	return &Service{Options: o, woken: make(chan struct{}, 1), reading: make(chan struct{}, maxEvents), stopped: map[int64]time.Time{}}
}

// Run works until the context ends, then waits for what is in progress.
func (s *Service) Run(ctx context.Context) {
	var all errgroup.Group
	all.Go(func() error { s.dispatch(ctx); return nil })
	all.Go(func() error { s.sweep(ctx); return nil })
	_ = all.Wait() // they only log
}

// Wake lets the service check for work now, for example because a delivery was added.
func (s *Service) Wake() {
	select {
	case s.woken <- struct{}{}:
	default:
	}
}

// Late returns how late a delivery of a trigger may be.
func Late(t config.Trigger) time.Duration { return max(t.CatchUp, minLate) }

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

// wait returns the wait after a number of failures: it doubles, up to LongestWait.
func (s *Service) wait(failures int) time.Duration {
	wait := s.FirstWait
	for range min(failures-1, 30) {
		wait = min(2*wait, s.LongestWait)
	}
	wait = time.Duration(float64(wait) * (1 - jitter + 2*jitter*rand.Float64())) //nolint:gosec // chance, no secret
	return min(wait, s.LongestWait)
}

// source returns what fires a trigger, for metrics.
func (s *Service) source(name string) string {
	return cmp.Or(s.Triggers[name].On, telemetry.UnknownTrigger)
}

// sweep removes old rows.
func (s *Service) sweep(ctx context.Context) {
	for {
		n, err := triggers.Sweep(ctx, s.Store, keep, keepLong)
		if err != nil && ctx.Err() == nil {
			s.Log.WarnContext(ctx, "Old deliveries of triggers could not be removed; trying again later", "error", err)
		} else if n > 0 {
			s.Log.InfoContext(ctx, "Removed old deliveries of triggers", "rows", n)
		}
		if !pause(ctx, sweepEvery) {
			return
		}
	}
}
