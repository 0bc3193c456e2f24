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
	leaseTime = 10 * time.Second       // limits one query to the database about a lease
)

// leases are exclusive rights of this process: an advisory lock of the database for
// each, all on one dedicated connection. They end the moment the process dies, but
// never while it lives, however starved it is.
type leases struct {
	cfg *pgx.ConnConfig

	mu     sync.Mutex
	conn   *pgx.Conn // nil until the first lease
	closed bool
	held   map[string]bool // exclusive ones of this process
}

func newLeases(cfg *pgx.ConnConfig) *leases {
	cfg = cfg.Copy()
	for name, value := range map[string]string{ // so that a vanished host is noticed in seconds
		"tcp_keepalives_idle": "5", "tcp_keepalives_interval": "3", "tcp_keepalives_count": "3",
	} {
		if _, given := cfg.RuntimeParams[name]; !given {
			cfg.RuntimeParams[name] = value
		}
	}
	return &leases{cfg: cfg, held: map[string]bool{}}
}

// Lease lets one caller at a time do what key names, among all processes that share the
// database. While another one holds it, it waits until ctx ends. The returned function
// releases the lease; so does the end of the process.
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

// LeaseCall makes this process the only one that makes a model call. While another live
// process is making it, LeaseCall waits, at most for patience, because that process may
// hang. It reports whether the call is owned; the returned function, which is never
// nil, releases it.
//
// Two attempts within one process are not kept apart; the caller makes one at a time.
func (s *Store) LeaseCall(ctx context.Context, executionID int64, turn int, patience time.Duration) (release func(), owned bool, err error) {
	return awaitLease(ctx, time.After(patience), func() (func(), bool, error) {
		release, owned, err := s.leases.shared(ctx, fmt.Sprintf("rgpt.call/%d/%d", executionID, turn))
		return release, owned, dberr.Explain(err, "acquire model call %d of execution %d", turn, executionID)
	})
}

// LeaseRequest makes the caller the only one, among all processes, that carries out the
// request of an idempotency key. While another one does, it waits, at most for
// patience. It reports whether the caller owns the request; the returned function,
// which is never nil, releases it, and so does the end of the process.
func (s *Store) LeaseRequest(ctx context.Context, route, key string, patience time.Duration) (release func(), owned bool, err error) {
	return awaitLease(ctx, time.After(patience), func() (func(), bool, error) {
		release, owned, err := s.leases.exclusive(ctx, "rgpt.request/"+route+"/"+key)
		return release, owned, dberr.Explain(err, "acquire a request")
	})
}

// awaitLease tries to take a lease until it succeeds or fails, ctx ends, or its
// patience is over.
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

// shared takes a lease unless another process has it.
func (l *leases) shared(ctx context.Context, key string) (release func(), owned bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	// A cancelled query would close the connection, and release all leases on it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaseTime)
	defer cancel()
	conn, err := l.connected(ctx)
	if err != nil {
		return nil, false, err
	}
	if err := conn.QueryRow(ctx, "SELECT pg_try_advisory_lock(hashtextextended($1, 0))", key).Scan(&owned); err != nil || !owned {
		return nil, false, err
	}
	return sync.OnceFunc(func() { l.release(conn, key) }), true, nil
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
	give, owned, err := l.shared(ctx, key)
	if err != nil || !owned {
		free()
		return nil, false, err
	}
	return sync.OnceFunc(func() { give(); free() }), true, nil
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
	l.conn = conn
	return conn, nil
}

// release releases a key on the connection that holds it. If that fails it closes the
// connection, which releases all its keys: better twice than never.
func (l *leases) release(conn *pgx.Conn, key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if conn.IsClosed() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaseTime)
	defer cancel()
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_unlock(hashtextextended($1, 0))", key); err != nil {
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
