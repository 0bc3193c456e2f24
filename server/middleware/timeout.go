package middleware

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/rocketgpt/orchestrator/internal/apitypes"
)

const (
	// WriteTimeout is how long a client may take to read each Chunk of a response.
	WriteTimeout = 10 * time.Second
	// Chunk is the number of bytes that a client must read within WriteTimeout.
	Chunk = 16 << 10
)

// errTimeout is the cause that ends the context of a request that took too long.
var errTimeout = apitypes.Problem{
	Title: "The request timed out", Status: http.StatusServiceUnavailable,
	Detail: "The request may have been partly or fully processed: check the result, or repeat the request with the same Idempotency-Key. (server.request_timeout)",
}

type timerKey struct{}

// Timeout limits the time until a request has a response, plus WriteTimeout for the client to read
// it.
func Timeout(next http.Handler, limit time.Duration, log *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancelCause(r.Context())
		defer cancel(nil)
		timer := time.AfterFunc(limit, func() { cancel(errTimeout) })
		defer timer.Stop()
		logDeadline(log, r, http.NewResponseController(w).SetWriteDeadline(time.Now().Add(limit+WriteTimeout)))
		next.ServeHTTP(w, r.WithContext(context.WithValue(ctx, timerKey{}, timer)))
	})
}

// logDeadline logs that a connection does not support deadlines, as in tests.
func logDeadline(log *slog.Logger, r *http.Request, err error) {
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		log.InfoContext(r.Context(), "A connection does not support deadlines", "request", RequestID(r.Context()), "error", err)
	}
}

// LiftTimeout lifts the limit that Timeout set, for responses that last as long as the client reads
// them. The returned writer allows the client WriteTimeout for each Chunk.
func LiftTimeout(w http.ResponseWriter, r *http.Request, log *slog.Logger) http.ResponseWriter {
	if timer, ok := r.Context().Value(timerKey{}).(*time.Timer); ok {
		timer.Stop()
	}
	logDeadline(log, r, http.NewResponseController(w).SetReadDeadline(time.Time{}))
	return &chunkWriter{w}
}

// chunkWriter sets a deadline for each chunk that it writes.
type chunkWriter struct{ http.ResponseWriter }

func (c *chunkWriter) Write(b []byte) (n int, err error) {
	out := http.NewResponseController(c.ResponseWriter)
	for err == nil && n < len(b) {
		if err = out.SetWriteDeadline(time.Now().Add(WriteTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return n, err
		}
		var written int
		written, err = c.ResponseWriter.Write(b[n:min(len(b), n+Chunk)])
		n += written
	}
	return n, err
}

// Unwrap lets http.ResponseController flush and set deadlines.
func (c *chunkWriter) Unwrap() http.ResponseWriter { return c.ResponseWriter }
