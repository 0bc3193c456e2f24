// Package store is the database: runs, their executions, events, conversations, model calls and
// budgets in PostgreSQL. Workflow history is the source of truth for orchestration; people and
// programs read these rows, which activities write in a way that makes every repeat harmless. This
// package writes rows and reads them for workflows and commands; package feed follows events,
// package views reads for pages and reports.
//
// Two kinds of locks order all writes. A transaction that adds events to a run first locks the
// run's row, so that events are numbered without gaps in the order of their commits. A transaction
// that changes budgets first locks the model call, then the budgets in the order of their keys.
package store

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
	"github.com/rocketgpt/orchestrator/internal/store/internal/rowconv"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
	"github.com/rocketgpt/orchestrator/migrations"
)

// Errors to check for with errors.Is. Each is wrapped in a fault that describes the remedy.
var (
	// ErrNotFound: the run, execution or row does not exist.
	ErrNotFound = dberr.ErrNotFound
	// ErrBudgetBusy: the call fits into the budget only if running calls cost less than
	// was reserved for them; retry shortly.
	ErrBudgetBusy = errors.New("the remaining budget is reserved for calls in progress")
	// ErrSuperseded: another attempt at the same model call was completed first. The next
	// ReserveCall returns that attempt's response.
	ErrSuperseded = errors.New("another attempt at this model call completed first")
)

// Codes that refine failures of the store.
const (
	CodeNotFound               = dberr.CodeNotFound
	CodeConflict contract.Code = "conflict" // the same idempotency key with a different request
)

// Options configure how a process uses the database. The zero value is usable.
type Options struct {
	MaxConns         int           // maximum number of open connections; default 10
	ApplicationName  string        // as pg_stat_activity shows it; default rgpt
	ConnectTimeout   time.Duration // how long Open waits for a database that is not up yet; default 15 s
	StatementTimeout time.Duration // time limit of a statement; default 30 s
	Waiting          func(error)   // called once with the reason if Open has to wait; may be nil
}

func (o Options) withDefaults() Options {
	if o.MaxConns <= 0 {
		o.MaxConns = 10
	}
	o.ApplicationName = cmp.Or(o.ApplicationName, "rgpt")
	if o.ConnectTimeout <= 0 {
		o.ConnectTimeout = 15 * time.Second
	}
	if o.StatementTimeout <= 0 {
		o.StatementTimeout = 30 * time.Second
	}
	return o
}

// Store is the database. It is safe for concurrent use.
type Store struct {
	pool   *pgxpool.Pool
	reads  sender      // the pool, or the transaction of a snapshot; see readTogether
	q      *db.Queries // each statement its own transaction
	lists  *db.Queries // like q, but planned for the actual parameters: unused filters are dropped
	leases *leases

	baselines *knownBaselines
}

// Open connects to the database, waiting for one that is not up yet until Options.ConnectTimeout,
// and checks that it has the schema version that this binary requires. An unreachable database is
// an INFRA_ERROR that names host and port; a wrong URL, login or schema is a CONFIG_ERROR.
func Open(ctx context.Context, url string, options Options) (*Store, error) {
	options = options.withDefaults()
	cfg, err := parse(url)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = int32(options.MaxConns)
	cfg.MaxConnLifetime = time.Hour
	cfg.MaxConnLifetimeJitter = 5 * time.Minute
	cfg.ConnConfig.ConnectTimeout = min(options.ConnectTimeout, 5*time.Second)
	for name, value := range map[string]string{
		"application_name":                    options.ApplicationName,
		"statement_timeout":                   milliseconds(options.StatementTimeout),
		"lock_timeout":                        milliseconds(options.StatementTimeout / 2),
		"idle_in_transaction_session_timeout": milliseconds(2 * options.StatementTimeout),
		// The queries look up keys, so one plan fits all parameters, and planning a Record query
		// would take as long as executing it. List queries are planned each time.
		"plan_cache_mode": "force_generic_plan",
		// A generic plan overestimates the number of rows, so the server would JIT-compile the
		// query each time: a tenth of a second or more of CPU for a query that takes a millisecond.
		"jit": "off",
	} {
		if _, given := cfg.ConnConfig.RuntimeParams[name]; !given {
			cfg.ConnConfig.RuntimeParams[name] = value
		}
	}
	cfg.ConnConfig.Tracer = latency{}
	cfg.AfterConnect = func(_ context.Context, conn *pgx.Conn) error {
		timesInUTC(conn)
		return nil
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, unreachable(err, cfg.ConnConfig)
	}
	if err := awaitUp(ctx, cfg.ConnConfig, options.ConnectTimeout, options.Waiting, pool.Ping); err != nil {
		pool.Close()
		return nil, err
	}
	s := &Store{
		pool:   pool,
		reads:  pool,
		q:      db.New(pool),
		lists:  db.New(planned{pool}),
		leases: newLeases(cfg.ConnConfig),

		baselines: &knownBaselines{},
	}
	if err := checkSchema(ctx, s.q); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Close closes all connections.
func (s *Store) Close() {
	s.leases.close()
	s.pool.Close()
}

// Ping returns an error if the database does not respond.
func (s *Store) Ping(ctx context.Context) error {
	return dberr.Explain(s.q.Ping(ctx), "reach the database")
}

// Queries returns the generated queries for packages feed and views, each statement its
// own transaction.
func (s *Store) Queries() *db.Queries { return s.q }

// ListQueries is like Queries, with each statement planned for its parameters.
func (s *Store) ListQueries() *db.Queries { return s.lists }

// ConnConfig returns the settings of the store's connections.
func (s *Store) ConnConfig() *pgx.ConnConfig { return s.pool.Config().ConnConfig }

// Snapshot calls fn with a store that reads everything as of one moment. It is valid
// until fn returns and cannot write.
func (s *Store) Snapshot(ctx context.Context, fn func(*Store) error) error {
	options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	return pgx.BeginTxFunc(ctx, s.pool, options, func(tx pgx.Tx) error { return fn(&Store{reads: tx, q: db.New(tx), baselines: s.baselines}) })
}

// A Read reads something from a store by a method that makes one query, or none: methods whose queries share a round trip,
// such as Baseline, cannot be part of another one. It may be called several times, and assigns what it has read.
type Read = func(*Store) error

// SnapshotTogether makes reads as of one moment, like Snapshot, but those of a stage in one round trip, in the order given.
// A stage returns its reads, which may depend on what earlier stages have read. To find out its query, a read is called
// before there is a result; the query then fails. The error is that of the first read that fails.
func (s *Store) SnapshotTogether(ctx context.Context, stages ...func() []Read) error {
	by := func(c db.DBTX) *Store { return &Store{q: db.New(c), baselines: s.baselines} }
	return s.inShortTxOf(ctx, "begin isolation level repeatable read read only", func(tx *shortTx) error {
		for i, stage := range stages {
			var end []string
			if i == len(stages)-1 {
				end = append(end, "commit")
			}
			if err := together(ctx, tx, by, stage(), end...); err != nil {
				return err
			}
		}
		tx.open = false
		return nil
	})
}

// parse reads a connection URL. Its error shows no password.
func parse(url string) (*pgxpool.Config, error) {
	if url == "" { // otherwise pgx would try PostgreSQL's own variables and sockets
		return nil, fault.New(contract.ClassConfig, contract.CodeInvalidConfig,
			"no database is configured; set DATABASE_URL (database.url), or use rgpt dev, which starts one")
	}
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fault.New(contract.ClassConfig, contract.CodeInvalidConfig,
			"database.url (DATABASE_URL) is not a PostgreSQL connection URL such as postgres://user@host:5432/name")
	}
	return cfg, nil
}

// awaitUp calls try until it succeeds, fails permanently, or the limit has elapsed.
func awaitUp(ctx context.Context, cfg *pgx.ConnConfig, limit time.Duration, waiting func(error), try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	wait := 50 * time.Millisecond
	var last error
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		if last == nil || ctx.Err() == nil {
			last = err // the last error is more informative than a timeout
		}
		if e := unreachable(last, cfg); e.Class == contract.ClassConfig {
			return e
		} else if waiting != nil && ctx.Err() == nil {
			waiting(e)
			waiting = nil
		}
		select {
		case <-ctx.Done():
			return unreachable(last, cfg)
		case <-time.After(wait):
			wait = min(2*wait, time.Second)
		}
	}
}

// unreachable explains why a connection could not be made.
func unreachable(err error, cfg *pgx.ConnConfig) *fault.Error {
	_, where := pgconn.NetworkAddress(cfg.Host, cfg.Port) // host and port, or the path of a socket
	var pg *pgconn.PgError
	if errors.As(err, &pg) && fault.Of(pg).Class == contract.ClassConfig {
		return fault.Wrap(pg, contract.ClassConfig, contract.CodeInvalidConfig,
			"PostgreSQL at %s rejected user %q for database %q; correct database.url (DATABASE_URL)", where, cfg.User, cfg.Database)
	}
	return fault.Wrap(err, contract.ClassInfra, contract.CodeUnavailable,
		"PostgreSQL at %s cannot be reached; check that it is running and that database.url (DATABASE_URL) is correct", where)
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// timesInUTC makes a connection return times in UTC, whatever the host's time zone.
func timesInUTC(conn *pgx.Conn) {
	conn.TypeMap().RegisterType(&pgtype.Type{
		Name: "timestamptz", OID: pgtype.TimestamptzOID, Codec: &pgtype.TimestamptzCodec{ScanLocation: time.UTC},
	})
}

// InTx calls fn in a transaction, which is committed unless fn fails.
func (s *Store) InTx(ctx context.Context, fn func(pgx.Tx) error) error { return s.inTx(ctx, fn) }

// inTx runs fn in a transaction that ends when fn returns.
func (s *Store) inTx(ctx context.Context, fn func(pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, s.pool, fn)
}

// actingAs calls fn in a transaction whose changes the audit ledger attributes to a person or a client, for
// tables without a column for them.
func (s *Store) actingAs(ctx context.Context, by string, fn func(*db.Queries) error) error {
	return s.inTx(ctx, func(tx pgx.Tx) error {
		q := db.New(tx)
		if err := ActAs(ctx, q, by); err != nil {
			return err
		}
		return fn(q)
	})
}

// ActAs attributes, in the audit ledger, the changes of a transaction to a person or a client, for tables
// without a column for them. An empty name is contract.ByUnnamed.
func ActAs(ctx context.Context, q *db.Queries, by string) error {
	return q.ActAs(ctx, cmp.Or(strings.TrimSpace(rowconv.Text(telemetry.Redact(by))), contract.ByUnnamed))
}

// checkSchema compares the database's schema version with the one that this binary requires.
func checkSchema(ctx context.Context, q *db.Queries) error {
	have, err := schemaVersion(ctx, q)
	if err != nil {
		return err
	}
	want := migrations.Latest()
	switch {
	case have < want:
		return fault.New(contract.ClassConfig, contract.CodeInvalidConfig,
			"the database has schema version %d, but this binary requires %d: run rgpt migrate (rgpt dev does this automatically)", have, want)
	case have > want:
		return fault.New(contract.ClassConfig, contract.CodeInvalidConfig,
			"the database has schema version %d, newer than the version that this binary requires (%d): use the newer version of rgpt that migrated the database", have, want)
	}
	return nil
}

// schemaVersion returns 0 for a database without a schema.
func schemaVersion(ctx context.Context, q *db.Queries) (int64, error) {
	version, err := q.SchemaVersion(ctx)
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "42P01" { // the table does not exist
		return 0, nil
	}
	return version, dberr.Explain(err, "read the database schema version")
}
