package server

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

type requestKey struct{}

// requestID returns the id of the request that a context belongs to.
func requestID(ctx context.Context) string {
	id, _ := ctx.Value(requestKey{}).(string)
	return id
}

// RequestIDHeader carries the id of a request, in answers and in the log.
const RequestIDHeader = "X-Request-Id"

// noted gives each request an id and logs it with its outcome.
func (s *server) noted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, started := uuid.NewString(), time.Now()
		w.Header().Set(RequestIDHeader, id)
		seen := &outcome{ResponseWriter: w, status: http.StatusOK}
		var route string
		r = r.WithContext(context.WithValue(context.WithValue(r.Context(), requestKey{}, id), routeKey{}, &route))
		next.ServeHTTP(seen, r)
		telemetry.ObserveRequest(route, seen.status, time.Since(started))
		// The path, not the query: that may hold what people look for.
		s.Log.Log(r.Context(), levelOf(route), "A request was answered", "request", id, "method", r.Method, "path", r.URL.Path,
			"status", seen.status, "bytes", seen.bytes, "took", time.Since(started))
	})
}

// levelOf keeps what asks by itself, every few seconds, out of the log of what
// people and programs wanted.
func levelOf(route string) slog.Level {
	switch route {
	case "GET /healthz", "GET /readyz", "GET /metrics", "GET /static/":
		return slog.LevelDebug
	}
	return slog.LevelInfo
}

// routeKey is the key of where the route of a request is noted.
type routeKey struct{}

// routed notes the route that a mux found for a request, for those around it:
// they have another copy of the request.
func routed(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if route, ok := r.Context().Value(routeKey{}).(*string); ok {
				*route = r.Pattern
			}
		}()
		mux.ServeHTTP(w, r)
	})
}

// outcome notes what was answered.
type outcome struct {
	http.ResponseWriter
	status int
	bytes  int64
}

func (o *outcome) WriteHeader(status int) {
	o.status = status
	o.ResponseWriter.WriteHeader(status)
}

func (o *outcome) Write(b []byte) (int, error) {
	n, err := o.ResponseWriter.Write(b)
	o.bytes += int64(n)
	return n, err
}

// Unwrap lets http.ResponseController flush and set deadlines.
func (o *outcome) Unwrap() http.ResponseWriter { return o.ResponseWriter }
