package server

import (
	"context"
	"net/http"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/rocketgpt/orchestrator/internal/health"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/server/respond"
)

// readyTimeout limits the checks of /readyz.
const readyTimeout = 2 * time.Second

// probes reports whether the server is running and ready.
type probes struct {
	*respond.Responder
	Views    *views.Views
	Temporal client.Client
}

func (s *probes) register(mux *http.ServeMux) {
	s.Get(mux, "/healthz", func(w http.ResponseWriter, _ *http.Request) {
		s.JSON(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	s.Get(mux, "/readyz", s.ready)
}

// readiness is the response of /readyz.
type readiness struct {
	// Status is ready, degraded (the server works, some agents do not) or unavailable.
	Status   string `json:"status"`
	Database string `json:"database"`
	Temporal string `json:"temporal"`
	// Roles maps each role to ok or to its problem; absent without the database.
	Roles map[string]string `json:"roles,omitempty"`
}

// ready reports whether the server is operational: database and Temporal respond. A role without
// agents only degrades it: runs wait and the server can still report that, so a load balancer must
// not take it out of service.
func (s *probes) ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	defer cancel()
	is, status := readiness{Status: "ready", Database: health.OK, Temporal: health.OK}, http.StatusOK
	unavailable := func(part *string) {
		*part, is.Status, status = "is not responding", "unavailable", http.StatusServiceUnavailable
	}
	if agents, err := s.Views.Agents(ctx); err != nil {
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
	s.JSON(w, status, is)
}
