package middleware

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/felixge/httpsnoop"
	"github.com/google/uuid"

	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

type requestIDKey struct{}

// RequestID returns the id of a context's request.
func RequestID(ctx context.Context) string {
	id, _ := ctx.Value(requestIDKey{}).(string)
	return id
}

// RequestIDHeader is the response header with the id of the request, which is also in the log.
const RequestIDHeader = "X-Request-Id"

// AccessLog assigns each request an id, and logs and counts it with its outcome.
func AccessLog(next http.Handler, log *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := uuid.NewString()
		w.Header().Set(RequestIDHeader, id)
		var route string
		r = r.WithContext(context.WithValue(context.WithValue(r.Context(), requestIDKey{}, id), routeKey{}, &route))
		out := httpsnoop.CaptureMetrics(next, w, r)
		telemetry.ObserveRequest(route, out.Code, out.Duration)
		// The query is not logged, as it may contain search texts.
		log.Log(r.Context(), levelOf(route), "Handled a request", "request", id, "method", r.Method, "path", r.URL.Path,
			"status", out.Code, "bytes", out.Written, "took", out.Duration)
	})
}

// levelOf returns the log level for a route: requests that repeat automatically every few seconds
// get a lower one.
func levelOf(route string) slog.Level {
	switch route {
	case "GET /healthz", "GET /readyz", "GET /metrics", "GET /static/":
		return slog.LevelDebug
	}
	return slog.LevelInfo
}

type routeKey struct{}

// RecordRoute passes the route that a mux matched back to AccessLog, as middleware in between
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
