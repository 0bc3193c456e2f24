package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	neturl "net/url"
	"strings"
	"time"

	"github.com/iancoleman/strcase"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/jmoiron/sqlx"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/persistence/sql/sqlplugin/postgresql"
	dbschema "go.temporal.io/server/tools/common/schema"
)

const (
	// postgresShards allows a few workflows to commit at the same time, which Postgres can flush
	// together. Each shard requires some polling.
	postgresShards = 4

	// Each of the four services opens a pool for executions and one for visibility. Together they
	// use far fewer than the 100 connections that Postgres allows by default and that other clients
	// share.
	postgresConns           = 8
	postgresVisibilityConns = 4

	// postgresLock is the advisory lock that marks a database as in use.
	postgresLock = 0x7267_7074_6473 // "rgptds"

	postgresConnectTimeout = 5 * time.Second
	postgresStartTimeout   = 30 * time.Second
	postgresLockTimeout    = 10 * time.Second
)

// SQLSTATE codes that are handled.
const (
	codeDuplicateDatabase     = "42P04"
	codeUniqueViolation       = "23505" // two processes creating the same database
	codeUnknownDatabase       = "3D000"
	codeCannotConnectNow      = "57P03" // starting up or in recovery
	codeInsufficientPrivilege = "42501"
)

// openPostgres ensures that both databases exist with the current schema, and that no other server
// uses them.
func openPostgres(ctx context.Context, o Options, logger serverLogger) (*store, error) {
	base, err := parsePostgresURL(o.Postgres)
	if err != nil {
		return nil, err
	}
	if err := createDatabases(ctx, base, o.PostgresDB, o.PostgresVisibilityDB); err != nil {
		return nil, err
	}
	lock, err := lockDatabase(ctx, withDatabase(base, o.PostgresDB), logger)
	if err != nil {
		return nil, err
	}
	for _, db := range []struct{ name, schema string }{
		{o.PostgresDB, "postgresql/v12/temporal"},
		{o.PostgresVisibilityDB, "postgresql/v12/visibility"},
	} {
		if err := upgradeSchema(ctx, withDatabase(base, db.name), db.schema); err != nil {
			lock.release()
			return nil, err
		}
	}
	return &store{
		kind: "postgres",
		persistence: config.Persistence{
			DefaultStore:     "default",
			VisibilityStore:  "visibility",
			NumHistoryShards: postgresShards,
			DataStores: map[string]config.DataStore{
				"default":    {SQL: postgresConfig(base, o.PostgresDB, postgresConns)},                     //nolint:contextcheck // reconnects long after the start
				"visibility": {SQL: postgresConfig(base, o.PostgresVisibilityDB, postgresVisibilityConns)}, //nolint:contextcheck // reconnects long after the start
			},
		},
		failed: lock.lost,
		close:  lock.release,
	}, nil
}

// parsePostgresURL accepts all formats of pgx: URL or key=value form, sockets, TLS files, and
// run-time parameters such as synchronous_commit.
func parsePostgresURL(url string) (*pgx.ConnConfig, error) {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		// Error messages of the URL parser quote the invalid part, which may be a piece of a
		// password with an unescaped character.
		cause := errors.New("not a valid URL")
		if _, urlErr := neturl.Parse(url); urlErr == nil && errors.Unwrap(err) != nil {
			cause = errors.Unwrap(err)
		}
		return nil, fmt.Errorf("reading the Postgres URL (--postgres or %s, not shown because of its password): %w: write it as postgres://user:password@host:port/postgres?sslmode=disable, with special characters percent-encoded", postgresEnv, cause)
	}
	cfg.ConnectTimeout = cmp.Or(cfg.ConnectTimeout, postgresConnectTimeout)
	if cfg.RuntimeParams["application_name"] == "" {
		cfg.RuntimeParams["application_name"] = "temporal-devserver"
	}
	return cfg, nil
}

func withDatabase(base *pgx.ConnConfig, database string) *pgx.ConnConfig {
	cfg := base.Copy()
	cfg.Database = database
	return cfg
}

func describe(cfg *pgx.ConnConfig) string {
	return fmt.Sprintf("Postgres %s:%d (user %s, database %s)", cfg.Host, cfg.Port, cfg.User, cfg.Database)
}

func hasCode(err error, codes ...string) bool {
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) {
		return false
	}
	for _, code := range codes {
		if pgErr.Code == code {
			return true
		}
	}
	return false
}

// connect connects to Postgres. It retries only while Postgres is starting up.
func connect(ctx context.Context, cfg *pgx.ConnConfig) (*pgx.Conn, error) {
	var conn *pgx.Conn
	var final error
	err := eventually(ctx, postgresStartTimeout, func(ctx context.Context) error {
		var err error
		conn, err = pgx.ConnectConfig(ctx, cfg)
		if err != nil && !hasCode(err, codeCannotConnectNow) {
			final, err = err, nil
		}
		return err
	})
	if err == nil {
		err = final
	}
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w: check that it is running and that the URL is correct", describe(cfg), err)
	}
	return conn, nil
}

func createDatabases(ctx context.Context, base *pgx.ConnConfig, names ...string) error {
	conn, err := connect(ctx, base)
	if hasCode(err, codeUnknownDatabase) && base.Database != "postgres" {
		// The URL may name a database that does not exist yet.
		base = withDatabase(base, "postgres")
		conn, err = connect(ctx, base)
	}
	if err != nil {
		return err
	}
	defer closeQuickly(ctx, conn)
	for _, name := range names {
		var exists bool
		if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", name).Scan(&exists); err != nil {
			return fmt.Errorf("looking for database %s on %s: %w", name, describe(base), err)
		}
		if exists {
			continue
		}
		create := "CREATE DATABASE " + pgx.Identifier{name}.Sanitize()
		_, err := conn.Exec(ctx, create)
		switch {
		case err == nil, hasCode(err, codeDuplicateDatabase, codeUniqueViolation):
		case hasCode(err, codeInsufficientPrivilege):
			return fmt.Errorf("%s on %s: %w: run that statement as a superuser and make user %s the owner, or grant the user CREATEDB", create, describe(base), err, base.User)
		default:
			return fmt.Errorf("%s on %s: %w", create, describe(base), err)
		}
	}
	return nil
}

// postgresConfig opens connections with the parsed URL itself. Temporal would build a URL from its
// parts and drop other parameters.
func postgresConfig(base *pgx.ConnConfig, database string, conns int) *config.SQL {
	cfg := withDatabase(base, database)
	return &config.SQL{
		PluginName:   postgresql.PluginNamePGX,
		DatabaseName: database,
		ConnectAddr:  fmt.Sprintf("%s:%d", cfg.Host, cfg.Port),
		Connect: func(*config.SQL) (*sqlx.DB, error) {
			pool := stdlib.OpenDB(*cfg, stdlib.OptionAfterConnect(durationsAreNumbers))
			// All connections stay open: a new one would require a new Postgres backend with empty
			// caches in the middle of a workflow.
			pool.SetMaxOpenConns(conns)
			pool.SetMaxIdleConns(conns)
			db := sqlx.NewDb(pool, "pgx")
			db.MapperFunc(strcase.ToSnake) // column names of Temporal's row structs
			ctx, cancel := context.WithTimeout(context.Background(), cfg.ConnectTimeout)
			defer cancel()
			if err := db.PingContext(ctx); err != nil {
				_ = db.Close()
				return nil, err
			}
			return db, nil
		},
	}
}

// durationsAreNumbers makes pgx send durations as nanoseconds, as stored in Temporal's columns,
// instead of as intervals.
func durationsAreNumbers(_ context.Context, conn *pgx.Conn) error {
	conn.TypeMap().RegisterDefaultPgType(time.Duration(0), "int8")
	conn.TypeMap().RegisterDefaultPgType((*time.Duration)(nil), "int8")
	return nil
}

// upgradeSchema upgrades the database to the schema of this server's version in one transaction, so
// a process killed in the middle leaves the database unchanged.
func upgradeSchema(ctx context.Context, cfg *pgx.ConnConfig, name string) error {
	conn, err := connect(ctx, cfg)
	if err != nil {
		return err
	}
	defer closeQuickly(ctx, conn)
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		db := &schemaTx{ctx: ctx, tx: tx, database: cfg.Database}
		// 0.0 is below every version, so a new database gets all upgrade steps.
		setup := &dbschema.SetupConfig{InitialVersion: "0.0"}
		if err := dbschema.NewSetupSchemaTask(db, setup, log.NewNoopLogger()).Run(); err != nil {
			return err
		}
		return dbschema.NewUpdateSchemaTask(db, &dbschema.UpdateConfig{SchemaName: name}, log.NewNoopLogger()).Run()
	})
	if err != nil {
		return fmt.Errorf("installing Temporal's schema on %s: %w: the database is unchanged; "+
			"if it contains tables other than Temporal's, choose another database with --postgres-db and --postgres-visibility-db", describe(cfg), err)
	}
	return nil
}

// schemaTx runs Temporal's schema tool inside a transaction.
type schemaTx struct {
	ctx      context.Context
	tx       pgx.Tx
	database string
}

var _ dbschema.DB = (*schemaTx)(nil)

// Exec runs one statement with a savepoint: the tool continues after some errors, which Postgres
// allows only after a rollback to the savepoint.
func (s *schemaTx) Exec(statement string, args ...any) error {
	// CONCURRENTLY is not possible inside a transaction, and not needed: there are no writers,
	// because we hold the lock on the database.
	statement = strings.Replace(statement, "INDEX CONCURRENTLY", "INDEX", 1)
	return pgx.BeginFunc(s.ctx, s.tx, func(tx pgx.Tx) error {
		_, err := tx.Exec(s.ctx, statement, args...)
		return err
	})
}

func (s *schemaTx) CreateSchemaVersionTables() error {
	for _, statement := range []string{
		`CREATE TABLE IF NOT EXISTS schema_version (version_partition INT NOT NULL, db_name VARCHAR(255) NOT NULL,
			creation_time TIMESTAMP, curr_version VARCHAR(64), min_compatible_version VARCHAR(64),
			PRIMARY KEY (version_partition, db_name))`,
		`CREATE TABLE IF NOT EXISTS schema_update_history (version_partition INT NOT NULL, year INT NOT NULL, month INT NOT NULL,
			update_time TIMESTAMP NOT NULL, description VARCHAR(255), manifest_md5 VARCHAR(64), new_version VARCHAR(64), old_version VARCHAR(64),
			PRIMARY KEY (version_partition, year, month, update_time))`,
	} {
		if err := s.Exec(statement); err != nil {
			return err
		}
	}
	return nil
}

func (s *schemaTx) ReadSchemaVersion() (string, error) {
	var version string
	err := s.tx.QueryRow(s.ctx, "SELECT curr_version FROM schema_version WHERE version_partition = 0 AND db_name = $1", s.database).Scan(&version)
	return version, err
}

func (s *schemaTx) UpdateSchemaVersion(version, minCompatible string) error {
	return s.Exec(`INSERT INTO schema_version (version_partition, db_name, creation_time, curr_version, min_compatible_version)
		VALUES (0, $1, $2, $3, $4) ON CONFLICT (version_partition, db_name) DO UPDATE SET creation_time = excluded.creation_time,
		curr_version = excluded.curr_version, min_compatible_version = excluded.min_compatible_version`,
		s.database, time.Now().UTC(), version, minCompatible)
}

func (s *schemaTx) WriteSchemaUpdateLog(oldVersion, newVersion, manifestMD5, description string) error {
	now := time.Now().UTC()
	return s.Exec(`INSERT INTO schema_update_history
		(version_partition, year, month, update_time, old_version, new_version, manifest_md5, description)
		VALUES (0, $1, $2, $3, $4, $5, $6, $7)`,
		now.Year(), int(now.Month()), now, oldVersion, newVersion, manifestMD5, description)
}

func (s *schemaTx) DropAllTables() error { return errors.New("tables are never dropped") }
func (s *schemaTx) Close()               {}
func (s *schemaTx) Type() string         { return "sql" }

// databaseLock marks the database as ours while its connection is open. Two servers on one database
// would keep taking the shards from each other: membership is static, so neither would know about
// the other.
type databaseLock struct {
	lost    <-chan error
	release func()
}

func lockDatabase(ctx context.Context, cfg *pgx.ConnConfig, logger serverLogger) (*databaseLock, error) {
	conn, err := takeLock(ctx, cfg)
	if err != nil {
		return nil, err
	}
	holdCtx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // until release
	lost := make(chan error, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			// Nothing is ever notified, so this returns only when the connection breaks.
			_, err := conn.WaitForNotification(holdCtx)
			if holdCtx.Err() == nil && err == nil {
				continue
			}
			closeQuickly(holdCtx, conn)
			if conn = retakeLock(holdCtx, cfg, logger, lost); conn == nil {
				return
			}
		}
	}()
	return &databaseLock{lost: lost, release: func() { cancel(); <-done }}, nil
}

// retakeLock waits until an unavailable Postgres is available again. It gives up if another server
// has taken the lock in the meantime.
func retakeLock(ctx context.Context, cfg *pgx.ConnConfig, logger serverLogger, lost chan<- error) *pgx.Conn {
	for ctx.Err() == nil {
		conn, err := takeLock(ctx, cfg)
		if err == nil {
			logger.Info("Postgres is available again.") //nolint:contextcheck // the server's logger does not take a context
			return conn
		}
		var taken *databaseTakenError
		if errors.As(err, &taken) {
			lost <- err
			return nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
	return nil
}

type databaseTakenError struct {
	where, holder string
}

func (e *databaseTakenError) Error() string {
	return fmt.Sprintf("locking %s: another temporal-devserver is using it (%s): stop that process, or choose other databases with --postgres-db and --postgres-visibility-db", e.where, e.holder)
}

// takeLock retries for a moment, in case a server was just killed: its lock is released when
// Postgres detects the closed connection.
func takeLock(ctx context.Context, cfg *pgx.ConnConfig) (*pgx.Conn, error) {
	conn, err := connect(ctx, cfg)
	if err != nil {
		return nil, err
	}
	var failure error
	err = eventually(ctx, postgresLockTimeout, func(asking context.Context) error {
		var ours bool
		if err := conn.QueryRow(asking, "SELECT pg_try_advisory_lock($1)", int64(postgresLock)).Scan(&ours); err != nil {
			if asking.Err() != nil && ctx.Err() == nil { // timed out during the last attempt
				return errors.New("locked")
			}
			failure = fmt.Errorf("locking %s: %w", describe(cfg), err)
			return nil
		}
		if !ours {
			return errors.New("locked")
		}
		return nil
	})
	if err != nil && failure == nil {
		failure = &databaseTakenError{where: describe(cfg), holder: lockHolder(ctx, conn)}
	}
	if failure != nil {
		closeQuickly(ctx, conn)
		return nil, failure
	}
	return conn, nil
}

func lockHolder(ctx context.Context, conn *pgx.Conn) string {
	var since time.Time
	var client string
	err := conn.QueryRow(ctx, `SELECT a.backend_start, coalesce(host(a.client_addr) || ':' || a.client_port, 'a local socket')
		FROM pg_locks l JOIN pg_stat_activity a USING (pid)
		WHERE l.locktype = 'advisory' AND l.granted AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
		AND (l.classid::bigint << 32 | l.objid::bigint) = $1`, int64(postgresLock)).Scan(&since, &client)
	if err != nil {
		return "its address is unknown"
	}
	return fmt.Sprintf("connected from %s since %s", client, since.Format(time.RFC3339))
}

// closeQuickly closes the connection to Postgres with a short timeout, even if ctx is done.
func closeQuickly(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = conn.Close(ctx)
}
