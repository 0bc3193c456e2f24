package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
	"github.com/rocketgpt/orchestrator/migrations"
)

// Migrate brings the database's schema to the version of this binary. It waits up to 15 s for a
// database that is not up yet. Several can run concurrently: one migrates, the others wait. A
// schema newer than the binary is left unchanged and is a CONFIG_ERROR.
func Migrate(ctx context.Context, url string) (err error) {
	provider, conn, cfg, err := migrator(url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if err := awaitUp(ctx, cfg, 15*time.Second, nil, conn.PingContext); err != nil {
		return err
	}
	if _, err := provider.Up(ctx); err != nil {
		f := fault.Of(err)
		return fault.Wrap(err, f.Class, f.Code, "cannot migrate the database to schema version %d", migrations.Latest())
	}
	return withConn(ctx, cfg, func(q *db.Queries) error { return checkSchema(ctx, q) })
}

// SchemaVersion returns the version of a database's schema, 0 if there is none.
// migrations.Latest is the version that this binary works with.
func SchemaVersion(ctx context.Context, url string) (version int64, err error) {
	cfg, err := parse(url)
	if err != nil {
		return 0, err
	}
	err = withConn(ctx, cfg.ConnConfig, func(q *db.Queries) error {
		version, err = schemaVersion(ctx, q)
		return err
	})
	return version, err
}

// migrator returns the provider that applies migrations, and its database connection.
func migrator(url string) (*goose.Provider, *sql.DB, *pgx.ConnConfig, error) {
	cfg, err := parse(url)
	if err != nil {
		return nil, nil, nil, err
	}
	// It tries to take the lock every second, for ten minutes.
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 600))
	if err != nil {
		return nil, nil, nil, dberr.Explain(err, "prepare migrations")
	}
	conn := stdlib.OpenDB(*cfg.ConnConfig)
	provider, err := goose.NewProvider(goose.DialectPostgres, conn, migrations.FS, goose.WithSessionLocker(locker))
	if err != nil {
		return nil, nil, nil, errors.Join(dberr.Explain(err, "prepare migrations"), conn.Close())
	}
	return provider, conn, cfg.ConnConfig, nil
}

// withConn runs fn on a dedicated connection.
func withConn(ctx context.Context, cfg *pgx.ConnConfig, fn func(*db.Queries) error) error {
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return unreachable(err, cfg)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // nothing is running on it
	return fn(db.New(conn))
}
