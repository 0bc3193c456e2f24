// Package source finds what fires triggers on forges: labels of issues, comments on issues, and failed
// checks of a branch. A server looks at the forges for the triggers that are due and adds what it finds
// to the firings (package triggers of the store), where each counts once. Any number of servers may do
// this at the same time, and each may die at any point: nothing is lost or counts twice.
package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/forge"
	"github.com/rocketgpt/orchestrator/internal/forge/webhook"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/triggers"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

// Forges are the forges of the configuration.
type Forges interface {
	Named(name string) (forge.Service, error)
	IssueURL(name, repo string, number int64) (string, error)
}

// Options are what a Service needs. The durations have defaults.
type Options struct {
	Store      *store.Store
	Forges     Forges
	Settings   map[string]config.Forge
	Triggers   map[string]config.Trigger // those that do not fire by what happens on a forge are ignored
	Mention    string                    // in comments that fire triggers
	Commenters forge.Permission          // that people need so that their comments count
	Ignores    func(login string) bool   // whether the comments of an account do not count; nil: of none
	// Limit returns the limit of questions to a forge, which all who ask it share.
	Limit func(forge string) *rate.Limiter
	Log   *slog.Logger

	Tick        time.Duration // between checks for triggers that are due
	FirstWait   time.Duration // after the first failure
	LongestWait time.Duration // between two attempts
}

// The defaults of Options.
const (
	DefaultTick        = time.Second
	DefaultFirstWait   = 5 * time.Second
	DefaultLongestWait = 5 * time.Minute
)

// Limits of the work of one server.
const (
	maxLooks = 16 // at the same time at one forge
	lookTime = 2 * time.Minute
	// leaseMargin is the time by which a lease exceeds lookTime, to store the result.
	leaseMargin = 10 * time.Second
	// longestPause bounds how long a forge may ask to be left alone.
	longestPause = time.Hour
	jitter       = 0.2 // random part of a wait
)

// Service finds what fires triggers on forges.
type Service struct {
	Options
	byForge map[string][]string         // names of triggers
	byRepo  map[triggers.Place][]string // the same

	mu     sync.Mutex
	paused map[string]time.Time           // forges that asked to be left alone
	logins map[triggers.Place]login       // own names
	read   map[string]map[int64]time.Time // of issues whose comments were read, when they had changed last, by trigger
}

// New returns the service; Run starts it.
func New(o Options) *Service {
	o.Tick, o.FirstWait, o.LongestWait = cmp.Or(o.Tick, DefaultTick), cmp.Or(o.FirstWait, DefaultFirstWait), cmp.Or(o.LongestWait, DefaultLongestWait)
	s := &Service{
		Options: o, byForge: map[string][]string{}, byRepo: map[triggers.Place][]string{},
		paused: map[string]time.Time{}, logins: map[triggers.Place]login{}, read: map[string]map[int64]time.Time{},
	}
	for _, name := range slices.Sorted(maps.Keys(o.Triggers)) {
		if t := o.Triggers[name]; t.OnForge() {
			s.byForge[t.Forge] = append(s.byForge[t.Forge], name)
			at := triggers.PlaceOf(t.Forge, t.Repository)
			s.byRepo[at] = append(s.byRepo[at], name)
		}
	}
	return s
}

// Run works until the context ends, then waits for what is in progress.
func (s *Service) Run(ctx context.Context) {
	var all sync.WaitGroup
	for name, names := range s.byForge {
		all.Go(func() { s.watch(ctx, name, names) })
	}
	all.Wait()
}

// watch looks for the triggers of one forge that are due. A look that takes long delays no other one.
func (s *Service) watch(ctx context.Context, forgeName string, names []string) {
	slots := make(chan struct{}, maxLooks)
	var looks sync.WaitGroup
	defer looks.Wait()
	for added := false; ; {
		var err error
		if !added {
			err = triggers.AddTriggers(ctx, s.Store, names)
			added = err == nil
		}
		var due []triggers.Look
		if free := maxLooks - len(slots); err == nil && free > 0 && s.pausedFor(forgeName) == 0 {
			due, err = s.claim(ctx, names, free)
		}
		if err != nil && ctx.Err() == nil {
			s.Log.WarnContext(ctx, "The triggers of a forge could not be looked for; trying again", "forge", forgeName, "error", err)
		}
		for _, l := range due {
			slots <- struct{}{}
			looks.Go(func() {
				defer func() { <-slots }()
				s.look(ctx, l)
			})
		}
		if !pause(ctx, s.Tick) {
			return
		}
	}
}

// claim claims looks that are due. It is not interrupted when the server stops: nobody would know of what
// was claimed, so that the leases would have to end first.
func (s *Service) claim(ctx context.Context, names []string, most int) ([]triggers.Look, error) {
	if ctx.Err() != nil {
		return nil, nil
	}
	claiming, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaseMargin)
	defer cancel()
	return triggers.ClaimLooks(claiming, s.Store, names, most, lookTime+leaseMargin)
}

// look looks for what fires a trigger. A look that ends because the server stops is made again at once
// by another server.
func (s *Service) look(ctx context.Context, l triggers.Look) {
	t := s.Triggers[l.Trigger]
	if about := aboutOf(t); l.For != about {
		l.For, l.Since = about, time.Time{}
	}
	held, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	before := l.Failures
	err := s.find(held, t, &l)
	wait, problem := s.Settings[t.Forge].Poll, ""
	if wait == 0 {
		wait = -1 // only when a webhook asks for it
	}
	switch {
	case ctx.Err() != nil:
		wait, l.Failures = 0, before
	case err != nil:
		s.noteLimit(t.Forge, err)
		l.Failures++
		wait, problem = s.wait(l.Failures, err), telemetry.Redact(fault.Of(err).Message)
		s.Log.WarnContext(ctx, "The forge of a trigger could not be looked at; trying again later", "trigger", l.Trigger, "forge", t.Forge, "repository", t.Repository, "wait", wait, "error", err)
	default:
		l.Failures = 0
	}
	if ctx.Err() == nil {
		telemetry.CountTriggerLook(err == nil)
	}
	ending, stop := context.WithTimeout(context.WithoutCancel(ctx), leaseMargin)
	defer stop()
	if err := triggers.EndLook(ending, s.Store, l, wait, problem); err != nil {
		s.Log.WarnContext(ctx, "A look for a trigger could not be noted; it is made again when its lease ends", "trigger", l.Trigger, "error", err)
	}
}

// aboutOf says what a trigger looks for: if its configuration changes, everything is read again.
func aboutOf(t config.Trigger) string {
	return fmt.Sprintf("%s %s %s %s %s", t.On, t.Forge, t.Repository, t.Label, t.Base)
}

// Ask makes the triggers due that a webhook of a forge concerns. What happened is read from the forge. It
// reports whether it concerns any.
func (s *Service) Ask(ctx context.Context, forgeName string, e webhook.Event) (bool, error) {
	var names []string
	for _, name := range s.byRepo[triggers.PlaceOf(forgeName, e.Repo)] {
		if concerns(s.Triggers[name], e) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return false, nil
	}
	return true, triggers.AskLooks(ctx, s.Store, names)
}

// concerns reports whether a webhook may say that a trigger fires.
func concerns(t config.Trigger, e webhook.Event) bool {
	onIssue := e.Subject.Number != 0 && !e.Subject.PullRequest
	switch t.On {
	case config.OnIssue:
		return onIssue && (e.Kind == webhook.Opened || e.Kind == webhook.Reopened || e.Kind == webhook.Labelled)
	case config.OnComment:
		return onIssue && e.Kind == webhook.Comment
	default:
		return e.Kind == webhook.Check && (e.Check.State == forge.CheckFailure || e.Check.State == "") ||
			e.Kind == webhook.Pushed && (t.Base == "" || e.Branch == t.Base)
	}
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

// wait returns the wait after a number of failures: it doubles, is at least as long as the forge asked
// for, and otherwise at most LongestWait.
func (s *Service) wait(failures int, err error) time.Duration {
	wait := s.FirstWait
	for range min(failures-1, 30) {
		wait = min(2*wait, s.LongestWait)
	}
	wait = time.Duration(float64(wait) * (1 - jitter + 2*jitter*rand.Float64())) //nolint:gosec // chance, no secret
	return max(min(wait, s.LongestWait), asked(err))
}

// asked returns how long a forge asked to wait with an error, 0 if it did not.
func asked(err error) time.Duration {
	var f *fault.Error
	if !errors.As(err, &f) {
		return 0
	}
	return min(f.RetryAfter, longestPause)
}

// noteLimit leaves a forge alone for as long as it asked for with an error about its rate limit.
func (s *Service) noteLimit(name string, err error) {
	if !fault.Is(err, contract.CodeRateLimited) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if until := time.Now().Add(max(asked(err), time.Second)); until.After(s.paused[name]) {
		s.paused[name] = until
	}
}

// pausedFor returns how long a forge is to be left alone.
func (s *Service) pausedFor(name string) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(time.Until(s.paused[name]), 0)
}

// login is the own name on a forge.
type login struct {
	name string
	at   time.Time
}

// loginAge is how long the own name is remembered.
const loginAge = 10 * time.Minute

// ownLogin returns who the credentials of a forge belong to.
func (s *Service) ownLogin(ctx context.Context, service forge.Service, t config.Trigger) (string, error) {
	key := triggers.PlaceOf(t.Forge, t.Repository)
	s.mu.Lock()
	known := s.logins[key]
	s.mu.Unlock()
	if time.Since(known.at) < loginAge {
		return known.name, nil
	}
	access, err := service.Access(ctx, t.Repository)
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logins[key] = login{access.Login, time.Now()}
	return access.Login, nil
}
