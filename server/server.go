// Package server serves the HTTP API and the dashboard.
package server

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/rocketgpt/orchestrator/internal/artifact"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/health"
	"github.com/rocketgpt/orchestrator/internal/notify"
	"github.com/rocketgpt/orchestrator/internal/retention"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/feed"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
	"github.com/rocketgpt/orchestrator/internal/webhook"
	"github.com/rocketgpt/orchestrator/server/api"
	"github.com/rocketgpt/orchestrator/server/middleware"
	"github.com/rocketgpt/orchestrator/server/pages"
	"github.com/rocketgpt/orchestrator/server/respond"
	"github.com/rocketgpt/orchestrator/server/stream"
)

// Options are the dependencies and settings of the server.
type Options struct {
	Store      *store.Store
	Views      *views.Views
	Feed       *feed.Feed
	Artifacts  *artifact.Store
	Temporal   client.Client
	Runs       *control.Runs // operations on runs
	TemporalUI string        // address of the Temporal Web UI, for links; may be empty
	Namespace  string        // of Temporal
	// Hosts are the host names that requests may use in addition to localhost and the loopback
	// addresses. A request for any other name is rejected: it may belong to a site that directed a
	// browser here (DNS rebinding).
	Hosts   []string
	MaxBody int64 // largest body of a request, in bytes; 0 means DefaultMaxBody
	// Pictures is by how many bytes the body of a request that creates a run may be larger: it may
	// contain pictures, in base64.
	Pictures int64
	// RequestTimeout limits the time of a request that is not a stream; 0 means
	// DefaultRequestTimeout.
	RequestTimeout time.Duration
	Hooks          *webhook.Hooks   // subscribers to events
	Notifier       *notify.Notifier // channels on which people are notified; nil: none
	// ForgeHooks accepts the webhooks of forges at POST /hooks/{forge}, and decides itself whom it
	// trusts; nil: there is no such address.
	ForgeHooks http.HandlerFunc
	// TriggerEvents accepts CloudEvents at POST /hooks/triggers/{trigger}, in the same way.
	TriggerEvents http.HandlerFunc
	Log           *slog.Logger
	// Health monitors agents and queues. If it is nil, the server uses its own monitor, which
	// checks on request.
	Health *health.Monitor
}

const (
	// DefaultMaxBody is the default limit on the body of a request.
	DefaultMaxBody = 1 << 20
	// DefaultRequestTimeout is the default limit on the time of a request.
	DefaultRequestTimeout = 5 * time.Minute
	// formBody is the size up to which a form is shown again if its texts are too long, so that they
	// are not lost. The texts themselves have limits of their own.
	formBody = 4 << 20
)

// Handler serves the API and the dashboard.
type Handler struct {
	http.Handler
	streams *stream.Server
}

// Stop ends all streams, including any that begin later, and waits until they or the context have
// ended. Clients continue after their last id on another server or after a restart. Call it when no
// new connections are accepted (http.Server.RegisterOnShutdown), otherwise the clients reconnect
// immediately.
func (h *Handler) Stop(ctx context.Context) { h.streams.Stop(ctx) }

// New returns the handler of the API and the dashboard.
func New(o Options) *Handler {
	if o.Health == nil {
		o.Health = health.New(o.Views, o.Temporal, o.Namespace, 0, o.Log)
	}
	res := &respond.Responder{Log: o.Log}
	if o.Notifier == nil {
		o.Notifier = notify.New(notify.Options{Store: o.Store}) // without channels
	}
	streams := stream.New(res, o.Store, o.Feed, o.Runs)
	mux := http.NewServeMux()
	(&probes{res, o.Views, o.Temporal}).register(mux)
	retention.ExpectMetrics(retention.OriginPerson)
	telemetry.ExpectBrain()
	telemetry.ExpectForges()
	telemetry.ExpectTriggers()
	notify.ExpectMetrics()
	res.Get(mux, "/metrics", telemetry.Handler(o.Health).ServeHTTP)
	(&api.Server{
		Responder: res, Store: o.Store, Views: o.Views, Artifacts: o.Artifacts, Runs: o.Runs, Hooks: o.Hooks, Notifier: o.Notifier, Health: o.Health,
		TemporalUI: o.TemporalUI, Namespace: o.Namespace,
	}).Register(mux)
	streams.Register(mux)
	(&pages.Server{
		Responder: res, Store: o.Store, Views: o.Views, Feed: o.Feed, Artifacts: o.Artifacts, Runs: o.Runs, Health: o.Health, Notifier: o.Notifier,
		TemporalUI: o.TemporalUI, Namespace: o.Namespace,
	}).Register(mux)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { res.Error(w, r, store.ErrNotFound) })

	h := middleware.RecordRoute(mux) // from the innermost middleware to the outermost
	h = middleware.Idempotency(h, o.Store, o.Log, res.Error)
	h = middleware.ReadBody(h, uploads, o.Log, res.Error)
	h = middleware.OwnSite(h, api.EffectsOfGet(), res.Error)
	h = http.NewCrossOriginProtection().Handler(h)
	h = middleware.LimitBody(h, o.bodyLimit, res.Error)
	h = middleware.HostCheck(h, o.Hosts, res.Error)
	h = beside(h, map[string]http.HandlerFunc{"POST /hooks/{forge}": o.ForgeHooks, "POST /hooks/triggers/{trigger}": o.TriggerEvents})
	h = middleware.Timeout(h, cmp.Or(o.RequestTimeout, DefaultRequestTimeout), o.Log)
	h = middleware.SecurityHeaders(h)
	h = middleware.AccessLog(h, o.Log)
	return &Handler{h, streams}
}

// beside serves the webhooks of forges and CloudEvents beside everything else. They have signatures or
// tokens and come neither from a browser nor to a name of the dashboard, so the checks for browsers do not
// apply.
func beside(next http.Handler, hooks map[string]http.HandlerFunc) http.Handler {
	maps.DeleteFunc(hooks, func(_ string, hook http.HandlerFunc) bool { return hook == nil })
	if len(hooks) == 0 {
		return next
	}
	mux := http.NewServeMux()
	for pattern, hook := range hooks {
		mux.HandleFunc(pattern, hook)
	}
	recorded := middleware.RecordRoute(mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/hooks/") {
			recorded.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// bodyLimit returns the size of the largest body of a request.
func (o Options) bodyLimit(r *http.Request) int64 {
	limit := cmp.Or(o.MaxBody, DefaultMaxBody)
	if r.Method == http.MethodPost && slices.Contains([]string{"/runs/new", "/pipelines/new"}, r.URL.Path) {
		limit = max(limit, formBody)
	}
	if r.Method == http.MethodPost && (slices.Contains([]string{"/api/runs", "/api/runs/estimate"}, r.URL.Path) || followsUp(r, "/api/runs/")) || uploads(r) {
		limit += o.Pictures
	}
	return limit
}

// uploads reports whether a request may contain files: the form for a follow-up, with pictures.
func uploads(r *http.Request) bool {
	kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	return r.Method == http.MethodPost && followsUp(r, "/runs/") && strings.EqualFold(strings.TrimSpace(kind), "multipart/form-data")
}

// followsUp reports whether a request is for a follow-up to a run below a path.
func followsUp(r *http.Request, below string) bool {
	return strings.HasPrefix(r.URL.Path, below) && strings.HasSuffix(r.URL.Path, "/follow-up")
}
