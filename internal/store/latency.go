package store

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

// latency measures how long statements take, by the names of their queries. It
// implements pgx's tracer interfaces.
type latency struct{}

// traced is the value in the context of a running statement.
type traced struct {
	operation string
	started   time.Time
}

type tracedKey struct{}

// TraceQueryStart records when a statement begins.
func (latency) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	return context.WithValue(ctx, tracedKey{}, traced{operationOf(data.SQL), time.Now()})
}

// TraceQueryEnd records the time of a finished statement.
func (latency) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryEndData) {
	observe(ctx, data.Err)
}

// TraceBatchStart records when statements that share a round trip begin. The last of our queries has
// the result, so they are measured under its name.
func (latency) TraceBatchStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	operation := otherOperation
	for _, query := range slices.Backward(data.Batch.QueuedQueries) {
		if operation = operationOf(query.SQL); operation != otherOperation {
			break
		}
	}
	return context.WithValue(ctx, tracedKey{}, traced{operation, time.Now()})
}

// TraceBatchQuery does nothing: the statements wait for each other.
func (latency) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

// TraceBatchEnd records the time of finished statements.
func (latency) TraceBatchEnd(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchEndData) {
	observe(ctx, data.Err)
}

func observe(ctx context.Context, err error) {
	if errors.Is(err, pgx.ErrNoRows) {
		err = nil // an answer
	}
	if t, ok := ctx.Value(tracedKey{}).(traced); ok {
		telemetry.ObserveDatabase(t.operation, time.Since(t.started), err)
	}
}

// otherOperation is the name for statements that are not our queries.
const otherOperation = "other"

// operationOf returns the name of a generated query, which sqlc writes at its
// beginning: -- name: Record :one.
func operationOf(sql string) string {
	rest, named := strings.CutPrefix(sql, "-- name: ")
	name, _, ends := strings.Cut(rest, " ")
	if !named || !ends {
		return otherOperation
	}
	return name
}
