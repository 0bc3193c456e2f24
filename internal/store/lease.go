package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
)

const (
	leasePoll = 200 * time.Millisecond // pause between attempts to take a lease that another process holds
	leaseTime = 10 * time.Second       // time limit for one lease query
	// maxUnlockDelay is how long the lease of a model call may be held after its release: the next lease that is taken
	// within that time ends it with the same query.
	maxUnlockDelay = 50 * time.Millisecond
)

// leases are exclusive rights of this process: one advisory database lock for each, all on one
// dedicated connection. They end as soon as the process dies, but never while it is alive, even if
// it is starved.
type leases struct {
	cfg *pgx.ConnConfig

	mu     sync.Mutex
	conn   *pgx.Conn // nil until the first lease
	closed bool
	held   map[string]bool // exclusive ones of this process
	// pendingUnlocks are keys that were released, but are still locked on conn.
	pendingUnlocks []string
}

func newLeases(cfg *pgx.ConnConfig) *leases {
	cfg = cfg.Copy()
	for name, value := range map[string]string{ // so that the loss of a host is noticed within seconds
		"tcp_keepalives_idle": "5", "tcp_keepalives_interval": "3", "tcp_keepalives_count": "3",
	} {
		if _, given := cfg.RuntimeParams[name]; !given {
			cfg.RuntimeParams[name] = value
		}
	}
	return &leases{cfg: cfg, held: map[string]bool{}}
}

// Lease acquires the lease of a key, which one caller at a time can hold among all processes that
// share the database. While another caller holds it, Lease waits until ctx ends. The returned
// function releases the lease; so does the end of the process.
func (s *Store) Lease(ctx context.Context, key string) (release func(), err error) {
	release, owned, err := awaitLease(ctx, nil, func() (func(), bool, error) {
		release, owned, err := s.leases.exclusive(ctx, "rgpt."+key)
		return release, owned, dberr.Explain(err, "own %s", key)
	})
	if ended := ctx.Err(); !owned && ended != nil && errors.Is(err, ended) {
		err = context.Cause(ctx)
	}
	return release, err
}

// TryLease is Lease without waiting: it reports whether the caller has the lease.
func (s *Store) TryLease(ctx context.Context, key string) (release func(), owned bool, err error) {
	release, owned, err = s.leases.exclusive(ctx, "rgpt."+key)
	return release, owned, dberr.Explain(err, "own %s", key)
}

// LeaseCall gives this process the exclusive right to make a model call. While another live process
// is making it, LeaseCall waits, at most for patience, because that process may hang. It reports
// whether the call is owned; the returned function, which is never nil, releases it within
// maxUnlockDelay.
//
// It does not distinguish attempts within one process; the caller must make one at a time.
func (s *Store) LeaseCall(ctx context.Context, executionID int64, turn int, patience time.Duration) (release func(), owned bool, err error) {
	return awaitLease(ctx, time.After(patience), func() (func(), bool, error) {
		key := fmt.Sprintf("rgpt.call/%d/%d", executionID, turn)
		conn, owned, err := s.leases.lock(ctx, key)
		return sync.OnceFunc(func() { s.leases.releaseLazily(conn, key) }), owned, dberr.Explain(err, "acquire the lease for model call %d of execution %d", turn, executionID)
	})
}

// LeaseRequest gives the caller the exclusive right, among all processes, to carry out the request
// of an idempotency key. While another caller has it, LeaseRequest waits, at most for patience. It
// reports whether the caller owns the request; the returned function, which is never nil, releases
// it, and so does the end of the process.
func (s *Store) LeaseRequest(ctx context.Context, route, key string, patience time.Duration) (release func(), owned bool, err error) {
	return awaitLease(ctx, time.After(patience), func() (func(), bool, error) {
		release, owned, err := s.leases.exclusive(ctx, "rgpt.request/"+route+"/"+key)
		return release, owned, dberr.Explain(err, "acquire the lease for an idempotency key")
	})
}

// awaitLease tries to take a lease until it succeeds or fails, ctx ends, or its patience has
// elapsed.
func awaitLease(ctx context.Context, patience <-chan time.Time, take func() (func(), bool, error)) (release func(), owned bool, err error) {
	for {
		release, owned, err = take()
		if owned {
			return release, true, nil
		}
		if err != nil {
			return func() {}, false, err
		}
		select {
		case <-ctx.Done():
			return func() {}, false, ctx.Err()
		case <-patience:
			return func() {}, false, nil
		case <-time.After(leasePoll):
		}
	}
}

// lock takes a lease unless another process has it, and returns the connection that holds it.
func (l *leases) lock(ctx context.Context, key string) (*pgx.Conn, bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	// A cancelled query would close the connection, and release all leases on it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaseTime)
	defer cancel()
	for first := true; ; first = false {
		conn, err := l.connected(ctx)
		if err != nil {
			return nil, false, err
		}
		owned := false
		// The database counts how often a session has locked a key, so their order does not matter.
		err = conn.QueryRow(ctx, `SELECT pg_try_advisory_lock(hashtextextended($1, 0)),
			(SELECT count(pg_advisory_unlock(hashtextextended(k, 0))) FROM unnest($2::text[]) AS k)`, key, l.pendingUnlocks).Scan(&owned, nil)
		if err == nil {
			l.pendingUnlocks = nil
			return conn, owned, nil
		}
		broken := conn.IsClosed()
		// It is unknown which keys it has locked: releasing too many is better than never releasing one.
		_ = conn.Close(ctx)
		if !first || !broken {
			return nil, false, err
		}
	}
}

// exclusive takes a lease unless another caller has it, in this process or another one:
// the database does not distinguish callers of one process.
func (l *leases) exclusive(ctx context.Context, key string) (release func(), owned bool, err error) {
	l.mu.Lock()
	taken := l.held[key]
	l.held[key] = true
	l.mu.Unlock()
	if taken {
		return nil, false, nil
	}
	free := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.held, key)
	}
	conn, owned, err := l.lock(ctx, key)
	if err != nil || !owned {
		free()
		return nil, false, err
	}
	return sync.OnceFunc(func() { l.release(conn, key); free() }), true, nil
}

// connected returns the connection, or a new one if it broke. The leases of the broken
// one are free by then.
func (l *leases) connected(ctx context.Context) (*pgx.Conn, error) {
	if l.closed {
		return nil, dberr.Closed()
	}
	if l.conn != nil && !l.conn.IsClosed() {
		return l.conn, nil
	}
	conn, err := pgx.ConnectConfig(ctx, l.cfg)
	if err != nil {
		return nil, fault.Wrap(err, contract.ClassInfra, contract.CodeDatabaseDown, "the database is not responding")
	}
	l.conn, l.pendingUnlocks = conn, nil
	return conn, nil
}

// releaseLazily releases a key within maxUnlockDelay.
func (l *leases) releaseLazily(conn *pgx.Conn, key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if conn != l.conn || conn.IsClosed() {
		return // all its keys are free
	}
	if l.pendingUnlocks = append(l.pendingUnlocks, key); len(l.pendingUnlocks) == 1 {
		time.AfterFunc(maxUnlockDelay, func() { l.release(conn) })
	}
}

// release releases keys on the connection that holds them, and those that are to be released soon. If that
// fails it closes the connection, which releases all its keys: releasing too many is better than never
// releasing one.
func (l *leases) release(conn *pgx.Conn, keys ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if conn == l.conn {
		keys = append(keys, l.pendingUnlocks...)
		l.pendingUnlocks = nil
	}
	if len(keys) == 0 || conn.IsClosed() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaseTime)
	defer cancel()
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_unlock(hashtextextended(k, 0)) FROM unnest($1::text[]) AS k", keys); err != nil {
		_ = conn.Close(ctx)
	}
}

func (l *leases) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.conn != nil {
		ctx, cancel := context.WithTimeout(context.Background(), leaseTime)
		defer cancel()
		_ = l.conn.Close(ctx)
	}
}
