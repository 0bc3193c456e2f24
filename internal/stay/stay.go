// Package stay informs runs that watch their branches of what happens to their pull requests on
// forges: checks that fail, comments of people, merges. A server looks at the pull requests and writes
// what it finds into an inbox (package forgeevents), from which any server decides what each run is
// sent. Any number of servers may do this at the same time, and each may die at any point: nothing is
// lost, and what is sent twice has one effect, because messages have the id of their event.
package stay

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/forge"
	"github.com/rocketgpt/orchestrator/internal/forge/webhook"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/forgeevents"
)

// Forges are the forges of the configuration.
type Forges interface {
	Names() []string
	Named(name string) (forge.Service, error)
}

// Runs are the operations on runs that this package needs.
type Runs interface {
	Check(ctx context.Context, run int64, m contract.CheckMessage) (contract.Ack, error)
	Steer(ctx context.Context, run int64, update string, c contract.Command) (contract.Ack, error)
}

// Options are what a Service needs. The durations and numbers have defaults.
type Options struct {
	Store      *store.Store
	Runs       Runs
	Forges     Forges
	Merges     Merges // nil: no pull request is added to a merge queue
	Settings   map[string]config.Forge
	Mention    string           // in comments of a conversation that are for a run
	Commenters forge.Permission // that people need so that their comments count
	Ignore     []string         // patterns for logins whose comments do not count; * stands for any characters
	// Ask, if set, is called with each webhook of a forge, and reports whether it concerns more than pull
	// requests.
	Ask    func(ctx context.Context, forge string, e webhook.Event) (bool, error)
	Log    *slog.Logger
	Getenv func(string) string // for the secrets of webhooks; default os.Getenv

	Tick        time.Duration // between checks for work without a notification
	FirstWait   time.Duration // after the first failure
	LongestWait time.Duration // between two attempts
	GiveUp      time.Duration // how long an event is tried, from its first attempt
	SlowLook    time.Duration // after which a look does not delay others any longer
	PushAgain   time.Duration // after which a run that could not take a push is sent it again
}

// The defaults of Options.
const (
	DefaultTick        = time.Second
	DefaultFirstWait   = 5 * time.Second
	DefaultLongestWait = 5 * time.Minute
	DefaultGiveUp      = 24 * time.Hour
	DefaultSlowLook    = 5 * time.Second
	DefaultPushAgain   = time.Hour
)

// Limits of the work of one server.
const (
	maxEvents   = 16 // that are handled at the same time
	maxPerForge = 8  // of them, those of one forge: one that hangs does not delay the others
	maxLooks    = 4  // at the same time at pull requests of one forge
	duePage     = 50 // pull requests that are found due at a time
	// maxSlowLooks is how many more looks at a forge may be under way if they take long.
	maxSlowLooks = 16
	handleTime   = 2 * time.Minute
	lookTime     = 2 * time.Minute
	// logTime is how long reading the log of a check may take: the rest of handleTime is for sending.
	logTime = time.Minute
	// logAttempts is the number of attempts to read it. Then the run gets the check without it.
	logAttempts = 3
	// leaseMargin is the time by which a lease exceeds handleTime, to store the result.
	leaseMargin = 10 * time.Second
	// ownTime is how long a server looks at a forge before others get their chance.
	ownTime = time.Minute
	// longestPause bounds how long a forge may ask to be left alone.
	longestPause = time.Hour
	// sweepEvery is the interval at which old rows are removed, and keep how old they become.
	sweepEvery = time.Hour
	keep       = 30 * 24 * time.Hour
	jitter     = 0.2 // random part of a wait
)

// Service informs runs of what happens on forges.
type Service struct {
	Options
	limits map[string]*rate.Limiter // of looks, by forge
	woken  chan struct{}            // the dispatcher has work

	small, large *readers // webhooks that are read

	mu     sync.Mutex
	paused map[string]time.Time // forges that asked to be left alone
	logins map[[2]string]login  // own names, by forge and repository

	unreadable map[[2]string]bool // repositories whose checks may not be read

	ignores func(login string) bool // comments of these accounts do not count
}

// New returns the service; Run starts it.
func New(o Options) *Service {
	o.Tick, o.FirstWait = cmp.Or(o.Tick, DefaultTick), cmp.Or(o.FirstWait, DefaultFirstWait)
	o.LongestWait, o.GiveUp = cmp.Or(o.LongestWait, DefaultLongestWait), cmp.Or(o.GiveUp, DefaultGiveUp)
	o.SlowLook, o.PushAgain = cmp.Or(o.SlowLook, DefaultSlowLook), cmp.Or(o.PushAgain, DefaultPushAgain)
	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}
	s := &Service{
		Options: o, limits: map[string]*rate.Limiter{}, woken: make(chan struct{}, 1), small: newReaders(maxSmallHooks, hookGrace), large: newReaders(maxHooks, hookGrace),
		paused: map[string]time.Time{}, logins: map[[2]string]login{}, unreadable: map[[2]string]bool{},
	}
	s.ignores = Ignores(o.Ignore)
	for _, name := range o.Forges.Names() {
		n := max(o.Settings[name].PollLimit, 1)
		s.limits[name] = rate.NewLimiter(rate.Limit(float64(n)/time.Minute.Seconds()), n)
	}
	return s
}

// Ignores returns a function that reports whether the comments of an account do not count, because one of
// the patterns of git.pull_request.ignore matches its name.
func Ignores(patterns []string) func(login string) bool {
	var all []*regexp.Regexp
	for _, pattern := range patterns {
		all = append(all, regexp.MustCompile("(?i)^"+strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, ".*")+"$"))
	}
	return func(login string) bool {
		return slices.ContainsFunc(all, func(pattern *regexp.Regexp) bool { return pattern.MatchString(login) })
	}
}

// Run works until the context ends, then waits for what is in progress.
func (s *Service) Run(ctx context.Context) {
	var all errgroup.Group
	for _, name := range s.Forges.Names() {
		all.Go(func() error { s.watch(ctx, name); return nil })
	}
	all.Go(func() error { s.dispatch(ctx); return nil })
	all.Go(func() error { s.sweep(ctx); return nil })
	_ = all.Wait() // they only log
}

// Wake lets the service check for work now, for example because a webhook arrived.
func (s *Service) Wake() {
	select {
	case s.woken <- struct{}{}:
	default:
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
	if err == nil || !fault.Is(err, contract.CodeRateLimited) {
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
func (s *Service) ownLogin(ctx context.Context, service forge.Service, name, repo string) (string, error) {
	key := [2]string{name, repo}
	s.mu.Lock()
	known := s.logins[key]
	s.mu.Unlock()
	if time.Since(known.at) < loginAge {
		return known.name, nil
	}
	access, err := service.Access(ctx, repo)
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logins[key] = login{access.Login, time.Now()}
	return access.Login, nil
}

// sweep removes old rows.
func (s *Service) sweep(ctx context.Context) {
	for {
		n, err := forgeevents.Sweep(ctx, s.Store, keep)
		if err != nil && ctx.Err() == nil {
			s.Log.WarnContext(ctx, "Old events of forges could not be removed; trying again later", "error", err)
		} else if n > 0 {
			s.Log.InfoContext(ctx, "Removed old events of forges", "rows", n)
		}
		if !pause(ctx, sweepEvery) {
			return
		}
	}
}
