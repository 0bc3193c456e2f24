package main

import (
	"context"

	"go.temporal.io/server/common/config"
)

// store is a server's database, with its schema installed.
type store struct {
	kind        string // "memory", "sqlite" or "postgres"
	persistence config.Persistence
	// failed receives an error if the lock on the store is lost. It may be nil.
	failed <-chan error
	close  func()
}

func openStore(ctx context.Context, o Options, logger serverLogger) (*store, error) {
	switch {
	case o.Postgres != "":
		return openPostgres(ctx, o, logger)
	case o.DatabaseFile != "":
		return openSQLite(ctx, o.DatabaseFile)
	default:
		return openMemory(), nil
	}
}
