package store

import (
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/rocketgpt/orchestrator/internal/store/db"
)

// sender is a pool, connection or transaction.
type sender interface {
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// batch sends several generated queries in one round trip, which sqlc cannot express: queries
// without a result are queued until a query with a result, or flush, sends all of them. A batch
// sent to a pool is one transaction; each query sees what was committed before that query began.
type batch struct {
	pgx.Batch
	to     sender
	queued int
}

// queue discards the results of queued queries, which are always nil: errors appear when the batch
// is sent.
func (b *batch) queue(...error) {}

// newBatch returns queries that share a batch.
func newBatch(to sender) (*db.Queries, *batch) {
	b := &batch{to: to}
	return db.New(b), b
}

// Exec queues a statement. Its result is checked when the batch is sent.
func (b *batch) Exec(_ context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	b.Queue(sql, args...)
	b.queued++
	return pgconn.CommandTag{}, nil
}

// QueryRow sends everything and returns the row of the last statement. Its Scan reports
// the first error of all statements.
func (b *batch) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	b.Queue(sql, args...)
	results, err := b.send(ctx)
	return &lastRow{results: results, err: err}
}

// Query sends everything and returns the rows of the last statement. Their Err also
// reports an error at the transaction's end.
func (b *batch) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	b.Queue(sql, args...)
	results, err := b.send(ctx)
	if err != nil {
		_ = results.Close() // repeats err
		return nil, err
	}
	rows, err := results.Query()
	if err != nil {
		_ = results.Close() // repeats err
		return nil, err
	}
	return &lastRows{Rows: rows, results: results}, nil
}

// flush sends what is queued.
func (b *batch) flush(ctx context.Context) error {
	results, err := b.send(ctx)
	if err != nil {
		_ = results.Close() // repeats err
		return err
	}
	return results.Close()
}

// send sends the batch and reads the results of the queued statements.
func (b *batch) send(ctx context.Context) (pgx.BatchResults, error) {
	results := b.to.SendBatch(ctx, &b.Batch)
	for range b.queued {
		if _, err := results.Exec(); err != nil {
			return results, err
		}
	}
	return results, nil
}

// readTogether makes several reads in one round trip, which sqlc cannot express. Each is one query, in the order
// given; sent to a pool, a query sees what was committed before it began, so a later one sees no less than an earlier
// one. A read is called twice: to find out its query, which then fails, and to read its result. The error is that of the
// first read that fails.
func readTogether(ctx context.Context, to sender, reads ...func(*db.Queries) error) error {
	var all asked
	for _, read := range reads {
		_ = read(db.New(&all)) // errAsked
	}
	results := to.SendBatch(ctx, &all.Batch)
	for _, read := range reads {
		if err := read(db.New(answers{results})); err != nil {
			_ = results.Close() // repeats err
			return err
		}
	}
	return results.Close()
}

// errAsked is what a read gets whose query is not sent yet.
var errAsked = errors.New("the query is not sent yet")

// asked notes queries.
type asked struct{ pgx.Batch }

func (a *asked) Exec(_ context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	a.Queue(sql, args...)
	return pgconn.CommandTag{}, errAsked
}

func (a *asked) Query(_ context.Context, sql string, args ...any) (pgx.Rows, error) {
	a.Queue(sql, args...)
	return nil, errAsked
}

func (a *asked) QueryRow(_ context.Context, sql string, args ...any) pgx.Row {
	a.Queue(sql, args...)
	return a
}

// Scan implements pgx.Row.
func (*asked) Scan(...any) error { return errAsked }

// answers are the results of the queries that were noted, in the same order.
type answers struct{ pgx.BatchResults }

func (a answers) Exec(context.Context, string, ...any) (pgconn.CommandTag, error) {
	return a.BatchResults.Exec()
}

func (a answers) Query(context.Context, string, ...any) (pgx.Rows, error) {
	return a.BatchResults.Query()
}

func (a answers) QueryRow(context.Context, string, ...any) pgx.Row { return a.BatchResults.QueryRow() }

// shortTx is a transaction without round trips of its own: it begins with its first batch and is
// committed with its last one. The rows that it locks are thus locked for less time.
type shortTx struct {
	conn *pgxpool.Conn
	open bool
}

// inShortTx calls fn in a transaction. It is rolled back unless fn commits a batch.
func (s *Store) inShortTx(ctx context.Context, fn func(*shortTx) error) error {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	t := &shortTx{conn: conn}
	err = fn(t)
	if t.open {
		// If this fails, the pool closes the connection, which also rolls back.
		_, _ = conn.Exec(ctx, "rollback")
	}
	return err
}

// SendBatch implements sender.
func (t *shortTx) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	if t.open {
		return t.conn.SendBatch(ctx, b)
	}
	t.open = true
	b.QueuedQueries = slices.Insert(b.QueuedQueries, 0, &pgx.QueuedQuery{SQL: "begin"})
	results := t.conn.SendBatch(ctx, b)
	_, _ = results.Exec() // the next result repeats its error
	return results
}

// commit sends what is queued and commits the transaction.
func (t *shortTx) commit(ctx context.Context, b *batch) error {
	b.Queue("commit")
	b.queued++
	err := b.flush(ctx)
	t.open = err != nil
	return err
}

type lastRow struct {
	results pgx.BatchResults
	err     error
}

func (r *lastRow) Scan(dest ...any) error {
	if r.err == nil {
		r.err = r.results.QueryRow().Scan(dest...)
	}
	if err := r.results.Close(); r.err == nil {
		r.err = err // the commit may fail
	}
	return r.err
}

type lastRows struct {
	pgx.Rows
	results pgx.BatchResults
	closed  bool
	err     error
}

func (r *lastRows) Close() {
	r.Rows.Close()
	if !r.closed {
		r.closed = true
		r.err = r.results.Close()
	}
}

func (r *lastRows) Next() bool {
	if r.Rows.Next() {
		return true
	}
	r.Close()
	return false
}

func (r *lastRows) Err() error {
	if err := r.Rows.Err(); err != nil {
		return err
	}
	return r.err
}

// planned makes Postgres plan each query for its parameter values, which pgx inserts into the SQL
// text.
type planned struct{ *pgxpool.Pool }

func (p planned) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return p.Pool.Query(ctx, sql, append([]any{pgx.QueryExecModeSimpleProtocol}, args...)...)
}
