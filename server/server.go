// Package server serves the HTTP API and the dashboard.
package server

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/apitypes"
	"github.com/rocketgpt/orchestrator/internal/artifact"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/health"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
	"github.com/rocketgpt/orchestrator/internal/version"
	"github.com/rocketgpt/orchestrator/internal/webhook"
	"github.com/rocketgpt/orchestrator/server/param"
)

// Options are what the server works with.
type Options struct {
	Store      *store.Store
	Artifacts  *artifact.Store
	Temporal   client.Client
	Runs       *control.Runs // what can be done with runs
	TemporalUI string        // address of the Temporal Web UI, for links; may be empty
	Namespace  string        // of Temporal
	// Hosts are names by which the server may be asked for, beside localhost and
	// the addresses of the loopback. A request for another one is refused: the name
	// may be of a site that made a browser come here (DNS rebinding).
	Hosts   []string
	MaxBody int64 // the largest body of a request, in bytes; 0: DefaultMaxBody
	// RequestTimeout bounds the time of a request that is no stream; 0: DefaultRequestTimeout.
	RequestTimeout time.Duration
	Hooks          *webhook.Hooks // who registered for events
	Log            *slog.Logger
	// Health is what is known of agents and queues. Without one the server has its
	// own, which looks when somebody asks.
	Health *health.Board
}

// DefaultMaxBody is the largest body of a request where nothing else is said.
const DefaultMaxBody = 1 << 20

// readyTime bounds the questions of /readyz.
const readyTime = 2 * time.Second

type server struct {
	Options
	patches patchCache
	streams *streams
}

// Handler is the API and the dashboard.
type Handler struct {
	http.Handler
	streams *streams
}

// Stop ends all streams, those that begin later at once, and waits until they
// have ended or the context has: their clients go on elsewhere, or here later,
// from their last id. Have it called when no new connections are taken any more
// (http.Server.RegisterOnShutdown), else they come back at once.
func (h *Handler) Stop(ctx context.Context) { h.streams.stop(ctx) }

// New returns the handler of the API and the dashboard.
func New(o Options) *Handler {
	o.RequestTimeout = cmp.Or(o.RequestTimeout, DefaultRequestTimeout)
	if o.Health == nil {
		o.Health = health.New(o.Store, o.Temporal, o.Namespace, 0, o.Log)
	}
	telemetry.ServeStreams()
	s := &server{Options: o, streams: newStreams()}
	mux := http.NewServeMux()
	// Each path has a second handler without a method, which says what is allowed.
	get := func(path string, h http.HandlerFunc) {
		mux.HandleFunc("GET "+path, h)
		mux.HandleFunc(path, s.wrongMethod)
	}
	get("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		s.json(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	get("/readyz", s.ready)
	get("/metrics", telemetry.Handler(o.Health).ServeHTTP)
	s.api(mux)
	get("/api/runs/{id}/artifacts/{artifact}", s.getArtifact)
	get("/api/runs/{id}/zip", s.getZip)
	get("/api/runs/{id}/stream", s.streamEvents)
	get("/api/pipelines/{id}/stream", s.streamPipeline)
	get("/api/stream", s.streamEvents)
	get("/ws", s.socket)
	s.pages(mux)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { s.fail(w, r, store.ErrNotFound) })
	return &Handler{s.noted(guarded(s.timed(s.admitted(http.NewCrossOriginProtection().Handler(s.read(s.once(routed(mux)))))))), s.streams}
}

// admitted lets a request in that asks for a host of ours and whose body is not
// too large.
func (s *server) admitted(next http.Handler) http.Handler {
	most := cmp.Or(s.MaxBody, DefaultMaxBody)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !s.ours(r):
			s.answer(w, r, apitypes.Problem{
				Title: "This server is not asked for by this name", Status: http.StatusMisdirectedRequest,
				Detail: "Use localhost, or add the name to server.allowed_hosts.",
			})
			return
		case r.ContentLength > most:
			s.answer(w, r, tooLarge(fmt.Sprintf("Its body has %d bytes, more than the %d allowed (server.max_body).", r.ContentLength, most)))
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, most)
		next.ServeHTTP(w, r)
	})
}

// ours reports whether a request's Host, with or without a port, names this
// server: as the loopback, as the address at which the request came in, or by
// one of its names.
func (s *server) ours(r *http.Request) bool {
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.Trim(host, "[]"), ".")
	if ip := net.ParseIP(host); strings.EqualFold(host, "localhost") || (ip != nil && ip.IsLoopback()) {
		return true
	} else if at, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok && ip != nil && ip.Equal(at.IP) {
		return true
	}
	return slices.ContainsFunc(s.Hosts, func(h string) bool { return strings.EqualFold(strings.Trim(h, "[]"), host) })
}

// policy lets pages use what the server itself serves, and nothing else: no
// inline script or style, no other host.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; media-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// guarded sets what every answer carries: nothing is loaded from elsewhere, no
// other site may frame a page or read an answer.
func guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		h.Set(apitypes.VersionHeader, version.Version)
		next.ServeHTTP(w, r)
	})
}

// readiness is what /readyz says.
type readiness struct {
	// Status is ready, degraded (the server works, some agents do not) or
	// unavailable.
	Status   string `json:"status"`
	Database string `json:"database"`
	Temporal string `json:"temporal"`
	// Roles says for each role ok, or what it lacks; absent without the database.
	Roles map[string]string `json:"roles,omitempty"`
}

// ready says whether the server can do its work: database and Temporal answer.
// Where nobody does the work of a role, runs wait, and the server is as able as
// ever to say so: a balancer must not take it out of service.
func (s *server) ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), readyTime)
	defer cancel()
	is, status := readiness{Status: "ready", Database: health.OK, Temporal: health.OK}, http.StatusOK
	unavailable := func(part *string) {
		*part, is.Status, status = "does not answer", "unavailable", http.StatusServiceUnavailable
	}
	if agents, err := s.Store.Agents(ctx); err != nil {
		unavailable(&is.Database)
	} else {
		is.Roles = health.Roles(agents)
	}
	if _, err := s.Temporal.CheckHealth(ctx, &client.CheckHealthRequest{}); err != nil {
		unavailable(&is.Temporal)
	}
	for _, words := range is.Roles {
		if words != health.OK && is.Status == "ready" {
			is.Status = "degraded"
		}
	}
	s.json(w, status, is)
}

// getArtifact sends a file of a run. It came from a repository or a model, so
// it is always a download and never shown.
func (s *server) getArtifact(w http.ResponseWriter, r *http.Request) {
	run, err := param.ID(r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	id, err := param.Number(r, "artifact")
	if err != nil {
		s.fail(w, r, err)
		return
	}
	all, err := s.Store.Artifacts(r.Context(), run)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	i := slices.IndexFunc(all, func(a contract.Artifact) bool { return a.ID == id })
	if i < 0 {
		s.fail(w, r, store.ErrNotFound)
		return
	}
	s.download(w, r, all[i])
}

func (s *server) wrongMethod(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Allow", "GET, HEAD")
	s.answer(w, r, apitypes.Problem{Title: "This can only be read", Status: http.StatusMethodNotAllowed, Detail: "Runs are started and steered with rgpt run."})
}

// fail answers an error; what is inside stays inside.
func (s *server) fail(w http.ResponseWriter, r *http.Request, err error) {
	s.answer(w, r, s.told(r.Context(), err))
}

// told returns what a client is told of an error, and logs what it is not told.
func (s *server) told(ctx context.Context, err error) apitypes.Problem {
	p := problemOf(err)
	if errors.Is(context.Cause(ctx), errLate) {
		p = apitypes.Problem{Title: "It took too long", Status: http.StatusServiceUnavailable, Detail: "Nothing says how far it came; look, or ask again under the same Idempotency-Key. (server.request_timeout)"}
	}
	p.Instance = requestID(ctx)
	if p.Status >= http.StatusInternalServerError && ctx.Err() == nil {
		s.Log.ErrorContext(ctx, "A request failed", "request", p.Instance, "error", err)
	}
	return p
}

// answer sends a problem: to people as a page, to programs as problem+json.
func (s *server) answer(w http.ResponseWriter, r *http.Request, p apitypes.Problem) {
	p.Instance = requestID(r.Context())
	if !strings.HasPrefix(r.URL.Path, "/api/") && strings.Contains(r.Header.Get("Accept"), "text/html") {
		s.problemPage(w, r, p)
		return
	}
	s.encode(w, p.Status, "application/problem+json", p)
}

func (s *server) json(w http.ResponseWriter, status int, v any) {
	s.encode(w, status, "application/json", v)
}

// encode makes the whole answer before it sends any of it.
func (s *server) encode(w http.ResponseWriter, status int, kind string, v any) {
	var out bytes.Buffer
	if err := json.NewEncoder(&out).Encode(v); err != nil {
		s.Log.Error("An answer could not be written as JSON", "error", err)
		status, kind = http.StatusInternalServerError, "application/problem+json"
		out.Reset()
		out.WriteString(`{"title":"Something went wrong here","status":500}`)
	}
	s.write(w, status, kind, out.Bytes())
}

func (s *server) write(w http.ResponseWriter, status int, kind string, content []byte) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(content)))
	w.WriteHeader(status)
	if _, err := w.Write(content); err != nil {
		s.Log.Info("A client went away", "error", err)
	}
}
