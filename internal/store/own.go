package store

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
)

const (
	// ownPoll is how often a call that another process makes is asked for.
	ownPoll = 200 * time.Millisecond
	// ownTime bounds one question to the database about who makes a call.
	ownTime = 10 * time.Second
)

// owner holds the model calls that this process makes: a lock of the database
// for each, all on one connection of their own. So they fall free at the moment
// the process dies, and as long as it lives, however starved, they do not.
type owner struct {
	cfg *pgx.ConnConfig

	mu     sync.Mutex
	conn   *pgx.Conn // nil until the first call
	closed bool
	taken  map[string]bool // by callers of alone in this process
}

func newOwner(cfg *pgx.ConnConfig) *owner {
	cfg = cfg.Copy()
	for name, value := range map[string]string{ // so that a host that vanished is noticed in seconds
		"tcp_keepalives_idle": "5", "tcp_keepalives_interval": "3", "tcp_keepalives_count": "3",
	} {
		if _, given := cfg.RuntimeParams[name]; !given {
			cfg.RuntimeParams[name] = value
		}
	}
	return &owner{cfg: cfg}
}

// OwnCall makes this process the only one that makes a model call. While
// another one that lives makes it, it waits, at most as long as patience: that
// one may be stopped for good. It reports whether the call is owned; the
// returned function, which is never nil, gives it back.
//
// Two tries within one process are not kept apart; the caller has one at a time.
func (s *Store) OwnCall(ctx context.Context, executionID int64, turn int, patience time.Duration) (release func(), owned bool, err error) {
	key := fmt.Sprintf("rgpt.call/%d/%d", executionID, turn)
	waited := time.NewTimer(patience)
	defer waited.Stop()
	for {
		release, owned, err := s.owner.try(ctx, key)
		if err != nil {
			return func() {}, false, dberr.Explain(err, "own model call %d of execution %d", turn, executionID)
		}
		if owned {
			return release, true, nil
		}
		select {
		case <-ctx.Done():
			return func() {}, false, ctx.Err()
		case <-waited.C:
			return func() {}, false, nil
		case <-time.After(ownPoll):
		}
	}
}

// try takes a key unless another process has it.
func (o *owner) try(ctx context.Context, key string) (release func(), owned bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	// A cancelled question would close the connection, and with it all that is held.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ownTime)
	defer cancel()
	conn, err := o.connected(ctx)
	if err != nil {
		return nil, false, err
	}
	if err := conn.QueryRow(ctx, "SELECT pg_try_advisory_lock(hashtextextended($1, 0))", key).Scan(&owned); err != nil || !owned {
		return nil, false, err
	}
	return sync.OnceFunc(func() { o.release(conn, key) }), true, nil
}

// alone is try for callers of one process that are kept apart, too: to the
// database they are the same.
func (o *owner) alone(ctx context.Context, key string) (release func(), owned bool, err error) {
	o.mu.Lock()
	taken := o.taken[key]
	if !taken {
		if o.taken == nil {
			o.taken = map[string]bool{}
		}
		o.taken[key] = true
	}
	o.mu.Unlock()
	if taken {
		return nil, false, nil
	}
	free := func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.taken, key)
	}
	give, owned, err := o.try(ctx, key)
	if err != nil || !owned {
		free()
		return nil, false, err
	}
	return func() { give(); free() }, true, nil
}

// connected returns the connection, a new one where it broke. What the broken
// one held is free by then.
func (o *owner) connected(ctx context.Context) (*pgx.Conn, error) {
	if o.closed {
		return nil, dberr.Closed()
	}
	if o.conn != nil && !o.conn.IsClosed() {
		return o.conn, nil
	}
	conn, err := pgx.ConnectConfig(ctx, o.cfg)
	if err != nil {
		return nil, fault.Wrap(err, contract.ClassInfra, contract.CodeDatabaseDown, "the database does not answer")
	}
	o.conn = conn
	return conn, nil
}

// release gives a key back on the connection that holds it. One that cannot be
// asked is closed, which gives back all that it holds: better twice than never.
func (o *owner) release(conn *pgx.Conn, key string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if conn.IsClosed() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), ownTime)
	defer cancel()
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_unlock(hashtextextended($1, 0))", key); err != nil {
		_ = conn.Close(ctx)
	}
}

func (o *owner) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	if o.conn != nil {
		ctx, cancel := context.WithTimeout(context.Background(), ownTime)
		defer cancel()
		_ = o.conn.Close(ctx)
	}
}
