package middleware

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

type requestIDKey struct{}

// RequestID returns the id of the request that a context belongs to.
func RequestID(ctx context.Context) string {
	id, _ := ctx.Value(requestIDKey{}).(string)
	return id
}

// RequestIDHeader carries the id of a request, in responses and in the log.
const RequestIDHeader = "X-Request-Id"

// AccessLog gives each request an id, logs it and counts it, with its outcome.
func AccessLog(next http.Handler, log *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, started := uuid.NewString(), time.Now()
		w.Header().Set(RequestIDHeader, id)
		out := &recorder{ResponseWriter: w, status: http.StatusOK}
		var route string
		r = r.WithContext(context.WithValue(context.WithValue(r.Context(), requestIDKey{}, id), routeKey{}, &route))
		next.ServeHTTP(out, r)
		telemetry.ObserveRequest(route, out.status, time.Since(started))
		// The path without the query, which may hold what people search for.
		log.Log(r.Context(), levelOf(route), "Handled a request", "request", id, "method", r.Method, "path", r.URL.Path,
			"status", out.status, "bytes", out.bytes, "took", time.Since(started))
	})
}

// levelOf keeps requests that repeat by themselves every few seconds out of the log of
// what people and programs asked for.
func levelOf(route string) slog.Level {
	switch route {
	case "GET /healthz", "GET /readyz", "GET /metrics", "GET /static/":
		return slog.LevelDebug
	}
	return slog.LevelInfo
}

type routeKey struct{}

// RecordRoute reports to AccessLog which route a mux found: middleware in between
// copies the request.
func RecordRoute(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if route, ok := r.Context().Value(routeKey{}).(*string); ok {
				*route = r.Pattern
			}
		}()
		mux.ServeHTTP(w, r)
	})
}

// recorder records the status and the size of a response.
type recorder struct {
	http.ResponseWriter
	status int
	bytes  int64
}

func (rec *recorder) WriteHeader(status int) {
	rec.status = status
	rec.ResponseWriter.WriteHeader(status)
}

func (rec *recorder) Write(b []byte) (int, error) {
	n, err := rec.ResponseWriter.Write(b)
	rec.bytes += int64(n)
	return n, err
}

// Unwrap lets http.ResponseController flush and set deadlines.
func (rec *recorder) Unwrap() http.ResponseWriter { return rec.ResponseWriter }
