// Package api serves the operations of the HTTP API, one file for each resource,
// and their OpenAPI document. Errors are problems (RFC 9457).
package api

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/rocketgpt/orchestrator/internal/apitypes"
	"github.com/rocketgpt/orchestrator/internal/artifact"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/health"
	"github.com/rocketgpt/orchestrator/internal/notify"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/internal/version"
	"github.com/rocketgpt/orchestrator/internal/webhook"
	"github.com/rocketgpt/orchestrator/server/respond"
)

// Server serves the operations.
type Server struct {
	*respond.Responder
	Store      *store.Store
	Views      *views.Views
	Artifacts  *artifact.Store
	Runs       *control.Runs
	Hooks      *webhook.Hooks
	Notifier   *notify.Notifier
	Health     *health.Monitor
	TemporalUI string // address of the Temporal Web UI, for links; may be empty
	Namespace  string // of Temporal
}

// Register adds the routes below /api, except for streams. The OpenAPI document is generated from
// the types of the operations, so the two always match.
func (s *Server) Register(mux *http.ServeMux) {
	config := huma.DefaultConfig("RocketGPT Orchestrator", version.Version)
	config.Info.Description = "A run turns a goal and a git repository into a tested branch. Errors are returned as problem+json (RFC 9457)."
	config.OpenAPIPath, config.DocsPath, config.SchemasPath = "/api/openapi", "", ""
	config.Components.Schemas = huma.NewMapRegistry("#/components/schemas/", schemaName)
	config.CreateHooks = nil // responses contain no links to schemas
	config.RejectUnknownQueryParameters = true
	config.Tags = []*huma.Tag{
		{Name: "runs", Description: "Create, read and compare runs"},
		{Name: "steering", Description: "Commands for a run; each waits for the run's response"},
		{Name: "pipelines", Description: "Deliberations between ALPHA, BETA and GAMMA; commands wait for the pipeline's response"},
		{Name: "environments", Description: "Repository environments and setups"},
		{Name: "brain", Description: "The index of repositories"},
		{Name: "retention", Description: "Clean-ups, and holds that keep the files of runs"},
		{Name: "flaky", Description: "Flaky tests and their quarantine"},
		{Name: "evals", Description: "Evaluations: tasks with hidden tests, solved by several variants"},
		{Name: "triggers", Description: "Triggers of the configuration, which create runs, and their deliveries"},
		{Name: "webhooks", Description: "Webhooks and their deliveries"},
		{Name: "notifications", Description: "How people are notified, and browsers that are"},
		{Name: "system", Description: "Agents, models, and questions that need a person's answer"},
	}
	api := humago.New(mux, config)
	s.runOperations(api)
	s.commandOperations(api)
	s.pipelineOperations(api)
	s.environmentOperations(api)
	s.brainOperations(api)
	s.brainSearchOperations(api)
	s.retentionOperations(api)
	s.flakyOperations(api)
	s.evalOperations(api)
	s.webhookOperations(api)
	s.notificationOperations(api)
	s.browserOperations(api)
	s.modelOperations(api)
	s.systemOperations(api)
	s.ledgerOperations(api)
	s.pullRequestOperations(api)
	s.triggerOperations(api)
	s.changeSetOperations(api)
	s.mergeQueueOperations(api)
	for path, item := range api.OpenAPI().Paths {
		s.refuseOthers(mux, path, item, special(path, api.OpenAPI().Paths))
	}
	s.Get(mux, "/api/runs/{id}/artifacts/{artifact}", s.Handle(s.getArtifact))
	s.Get(mux, "/api/runs/{id}/zip", s.Handle(s.getZip))
}

// schemaName returns the name of a type's schema. It begins with the package name for types of diff,
// report, store and policy, as other packages have types of the same name.
func schemaName(t reflect.Type, hint string) string {
	name := huma.DefaultSchemaNamer(t, hint)
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	for _, pkg := range []string{"diff", "report", "store", "policy"} {
		if strings.Contains(t.PkgPath()+"/", "/"+pkg+"/") && !strings.Contains(t.Name(), "[") {
			return strings.ToUpper(pkg[:1]) + pkg[1:] + name
		}
	}
	return name
}

// special reports whether another path pattern also matches this path, as /things/{id} matches
// /things/find.
func special(path string, all map[string]*huma.PathItem) bool {
	parts := strings.Split(path, "/")
	for other := range all {
		others := strings.Split(other, "/")
		if other == path || len(others) != len(parts) {
			continue
		}
		same := true
		for i, p := range others {
			same = same && (p == parts[i] || strings.HasPrefix(p, "{"))
		}
		if same {
			return true
		}
	}
	return false
}

// refuseOthers rejects the methods that a path does not support. A special path rejects the usual
// methods by name, as the mux requires; a general path rejects all.
func (s *Server) refuseOthers(mux *http.ServeMux, path string, item *huma.PathItem, special bool) {
	var allowed []string
	for method, op := range map[string]*huma.Operation{http.MethodGet: item.Get, http.MethodPost: item.Post, http.MethodPut: item.Put, http.MethodPatch: item.Patch, http.MethodDelete: item.Delete} {
		if op != nil {
			allowed = append(allowed, method)
		}
	}
	if item.Get != nil {
		allowed = append(allowed, http.MethodHead)
	}
	slices.Sort(allowed)
	refuse := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		s.Error(w, r, apitypes.Problem{
			Title: "Method not allowed", Status: http.StatusMethodNotAllowed, Detail: "Use " + strings.Join(allowed, " or ") + ".",
		})
	}
	if !special {
		mux.HandleFunc(path, refuse)
		return
	}
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		if !slices.Contains(allowed, method) {
			mux.HandleFunc(method+" "+path, refuse)
		}
	}
}

// operation describes one operation of the API.
func operation(method, path, id, tag, summary string, more ...int) huma.Operation {
	known := []int{http.StatusBadRequest, http.StatusNotFound, http.StatusServiceUnavailable}
	return huma.Operation{
		OperationID: id, Method: method, Path: path, Summary: summary, Tags: []string{tag},
		Errors: append(known, more...), BodyReadTimeout: -1, MaxBodyBytes: -1, // already read within its time and size limits
	}
}

// body is a response with a body.
type body[T any] struct{ Body T }

// answered wraps a value in a response, or returns the error.
func answered[T any](v T, err error) (*body[T], error) {
	if err != nil {
		return nil, err
	}
	return &body[T]{v}, nil
}

// handle registers an operation and turns its errors into problems.
func handle[I, O any](s *Server, api huma.API, op huma.Operation, do func(context.Context, *I) (*O, error)) {
	huma.Register(api, op, func(ctx context.Context, in *I) (*O, error) {
		out, err := do(ctx, in)
		if err != nil {
			return nil, s.Problem(ctx, err)
		}
		return out, nil
	})
}

// given returns an optional body, or the zero value.
func given[T any](body *T) (b T) {
	if body != nil {
		b = *body
	}
	return b
}

// Keyed is a request that is carried out once per key (middleware.Idempotency).
type Keyed struct {
	Key string `header:"Idempotency-Key" maxLength:"200" doc:"requests with the same key and body are carried out once and return the same response for 24 h"`
}

// RemovedBy is who sends a DELETE, which may have no body.
type RemovedBy struct {
	By string `query:"by" maxLength:"200" doc:"who removes it; default: api"`
}

// id returns the id of the object that a request creates, derived from the key; empty without a
// key.
func (k Keyed) id(what string, of ...int64) string {
	if k.Key == "" {
		return ""
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %v %s", what, of, k.Key))
	return what + "/" + hex.EncodeToString(sum[:16])
}
