package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	"go.temporal.io/server/schema"
)

// sqliteShards is 1 because SQLite has only one writer anyway.
const sqliteShards = 1

const sqliteBusyMilliseconds = "5000"

// openMemory stores all data in memory.
func openMemory() *store {
	return sqliteStore("memory", &config.SQL{
		PluginName: sqlite.PluginName,
		// Named after the process because the name is the key of a cache that
		// all connections of the process share.
		DatabaseName:      "temporal-devserver-" + strconv.Itoa(os.Getpid()),
		ConnectAttributes: map[string]string{"mode": "memory", "cache": "shared"},
	})
}

// openSQLite stores all data in a file, which it creates if it does not exist.
func openSQLite(ctx context.Context, file string) (*store, error) {
	path, err := filepath.Abs(file)
	if err != nil {
		return nil, fmt.Errorf("opening the SQLite file %s: %w", file, err)
	}
	if strings.ContainsAny(path, "?#%") {
		return nil, fmt.Errorf("opening the SQLite file %s: the path contains ?, # or %%, which SQLite URLs do not support: choose another path", path)
	}
	attributes := map[string]string{
		"mode": "rwc",
		// With a write-ahead log, a commit is one append without a disk flush: if the process is
		// killed, no data is lost; a power failure may lose the last commits, but not consistency.
		"journal_mode": "wal",
		"synchronous":  "normal",
		// All services share one connection, so it can lock the file exclusively. That saves
		// locking overhead, and prevents a second server from using the file.
		"locking_mode": "exclusive",
		// A process that was just killed may still have the file locked.
		"busy_timeout": sqliteBusyMilliseconds,
	}
	if err := setupSQLite(ctx, path); err != nil {
		return nil, fmt.Errorf("opening the SQLite file %s: %w", path, explainSQLite(err))
	}
	return sqliteStore("sqlite", &config.SQL{
		PluginName:        sqlite.PluginName,
		DatabaseName:      path,
		ConnectAttributes: attributes,
	}), nil
}

func sqliteStore(kind string, cfg *config.SQL) *store {
	return &store{
		kind: kind,
		persistence: config.Persistence{
			DefaultStore:     "default",
			VisibilityStore:  "default",
			NumHistoryShards: sqliteShards,
			DataStores:       map[string]config.DataStore{"default": {SQL: cfg}},
		},
		close: func() {},
	}
}

// setupSQLite installs the schema in one transaction, so a process killed in the middle leaves an
// empty file instead of a partial schema.
//
// Temporal has no schema upgrades for SQLite. With the schema's checksum in the file, a later
// version can report the mismatch instead of failing at some query.
func setupSQLite(ctx context.Context, path string) error {
	statements, checksum, err := sqliteSchema()
	if err != nil {
		return err
	}
	db, err := sql.Open("sqlite", "file:"+path+"?mode=rwc&_pragma=busy_timeout="+sqliteBusyMilliseconds+"&_txlock=immediate")
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // has no effect after the commit

	var tables, found int64
	if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_master WHERE name = 'namespaces'").Scan(&tables); err != nil {
		return err
	}
	if err := tx.QueryRowContext(ctx, "PRAGMA user_version").Scan(&found); err != nil {
		return err
	}
	if tables > 0 {
		// 0: created by another program with Temporal's schema, such as the
		// official CLI; its version is unknown.
		if found != 0 && found != checksum {
			return fmt.Errorf("it was created with another version of Temporal's SQLite schema and cannot be upgraded: move the file elsewhere, or run the version that created it")
		}
		return nil
	}
	if _, err := tx.ExecContext(ctx, statements); err != nil {
		return fmt.Errorf("installing the schema: %w", err)
	}
	if _, err := tx.ExecContext(ctx, "PRAGMA user_version = "+strconv.FormatInt(checksum, 10)); err != nil {
		return err
	}
	return tx.Commit()
}

func sqliteSchema() (statements string, checksum int64, err error) {
	var text strings.Builder
	for _, name := range []string{"sqlite/v3/temporal/schema.sql", "sqlite/v3/visibility/schema.sql"} {
		content, err := fs.ReadFile(schema.Assets(), name)
		if err != nil {
			return "", 0, err
		}
		text.Write(content)
		text.WriteByte('\n')
	}
	// user_version is a signed 32-bit number, and 0 means "never set".
	return text.String(), int64(crc32.ChecksumIEEE([]byte(text.String()))>>1) | 1, nil
}

func explainSQLite(err error) error {
	text := err.Error()
	switch {
	case errors.Is(err, fs.ErrNotExist), strings.Contains(text, "unable to open database file"):
		return fmt.Errorf("%w: check that its directory exists and that the file is writable", err)
	case strings.Contains(text, "database is locked"), strings.Contains(text, "SQLITE_BUSY"):
		return fmt.Errorf("%w: another process, perhaps another temporal-devserver, has the file open: stop that process, or choose another file", err)
	case strings.Contains(text, "not a database"):
		return fmt.Errorf("%w: choose another file", err)
	}
	return err
}
