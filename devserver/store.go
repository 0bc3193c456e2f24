package main

import (
	"context"

	"go.temporal.io/server/common/config"
)

// store is the database that a server runs on, with its schema installed.
type store struct {
	kind        string // "memory", "sqlite" or "postgres"
	persistence config.Persistence
	// failed gets an error if the store can no longer be ours. It may be nil.
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
