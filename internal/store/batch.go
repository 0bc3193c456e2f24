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

// readTogether makes several reads in one round trip, which sqlc cannot express. The queries run in the order given; sent
// to a pool, a query sees what was committed before it began, so a later one sees no less than an earlier one. A read is
// called twice: to find out its query, which then fails, and to read its result. The error is that of the first read that
// fails.
func readTogether(ctx context.Context, to sender, reads ...func(*db.Queries) error) error {
	return together(ctx, to, db.New, reads)
}

// together is readTogether by means of any type that sends its queries to a connection. Queries may also write: sent to a
// pool, all are one transaction. Further statements, whose results do not matter unless they fail, follow in the same round
// trip.
func together[T any](ctx context.Context, to sender, by func(db.DBTX) T, reads []func(T) error, more ...string) error {
	var all asked
	ends := make([]int, len(reads))
	for i, read := range reads {
		_ = read(by(&all)) // errAsked
		ends[i] = len(all.queries)
	}
	for _, sql := range more {
		all.Queue(sql)
	}
	if all.Len() == 0 {
		return nil
	}
	got := &answers{BatchResults: to.SendBatch(ctx, &all.Batch), queries: all.queries}
	for i, read := range reads {
		err := read(by(got))
		if err == nil && got.next != ends[i] {
			err = errAskedOther
		}
		if err != nil {
			_ = got.Close() // repeats err, or is about a later query
			return err
		}
	}
	return got.Close()
}

var (
	// errAsked is what a read gets whose query is not sent yet.
	errAsked = errors.New("the query is not sent yet")
	// errAskedOther is the error of a read that would get the result of another query.
	errAskedOther = errors.New("a read that shares a round trip made other queries than when it was asked for them; make each query that depends on another one a read of its own, in a later round trip")
)

// asked notes queries.
type asked struct {
	pgx.Batch
	queries []string
}

func (a *asked) note(sql string, args []any) error {
	a.Queue(sql, args...)
	a.queries = append(a.queries, sql)
	return errAsked
}

func (a *asked) Exec(_ context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return pgconn.CommandTag{}, a.note(sql, args)
}

func (a *asked) Query(_ context.Context, sql string, args ...any) (pgx.Rows, error) {
	return nil, a.note(sql, args)
}

func (a *asked) QueryRow(_ context.Context, sql string, args ...any) pgx.Row {
	return noRow{a.note(sql, args)}
}

// noRow is a row that cannot be read.
type noRow struct{ err error }

// Scan implements pgx.Row.
func (r noRow) Scan(...any) error { return r.err }

// answers are the results of the queries that were noted, in the same order.
type answers struct {
	pgx.BatchResults
	queries []string
	next    int
}

// advance returns an error unless the next result is that of a query.
func (a *answers) advance(sql string) error {
	if a.next == len(a.queries) || a.queries[a.next] != sql {
		return errAskedOther
	}
	a.next++
	return nil
}

func (a *answers) Exec(_ context.Context, sql string, _ ...any) (pgconn.CommandTag, error) {
	if err := a.advance(sql); err != nil {
		return pgconn.CommandTag{}, err
	}
	return a.BatchResults.Exec()
}

func (a *answers) Query(_ context.Context, sql string, _ ...any) (pgx.Rows, error) {
	if err := a.advance(sql); err != nil {
		return nil, err
	}
	return a.BatchResults.Query()
}

func (a *answers) QueryRow(_ context.Context, sql string, _ ...any) pgx.Row {
	if err := a.advance(sql); err != nil {
		return noRow{err}
	}
	return a.BatchResults.QueryRow()
}

// shortTx is a transaction without round trips of its own: it begins with its first batch and is
// committed with its last one. The rows that it locks are thus locked for less time.
type shortTx struct {
	conn  *pgxpool.Conn
	begin string // the statement that begins it
	open  bool
}

// inShortTx calls fn in a transaction. It is rolled back unless fn commits a batch.
func (s *Store) inShortTx(ctx context.Context, fn func(*shortTx) error) error {
	return s.inShortTxOf(ctx, "begin", fn)
}

// inShortTxOf is inShortTx with the statement that begins the transaction.
func (s *Store) inShortTxOf(ctx context.Context, begin string, fn func(*shortTx) error) error {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	t := &shortTx{conn: conn, begin: begin}
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
	b.QueuedQueries = slices.Insert(b.QueuedQueries, 0, &pgx.QueuedQuery{SQL: t.begin})
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
