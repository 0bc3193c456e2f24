package server

import (
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/apitypes"
	"github.com/rocketgpt/orchestrator/internal/artifact"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/version"
)

// bodyTime is how long a client may take to send a body.
const bodyTime = 10 * time.Second

// api describes and serves the HTTP API below /api. The OpenAPI document is
// made from the types of the operations, so it says what they do.
func (s *server) api(mux *http.ServeMux) huma.API {
	config := huma.DefaultConfig("RocketGPT Orchestrator", version.Version)
	config.Info.Description = "Runs turn a goal and a git repository into a tested branch. Errors are problem+json (RFC 9457)."
	config.OpenAPIPath, config.DocsPath, config.SchemasPath = "/api/openapi", "", ""
	config.Components.Schemas = huma.NewMapRegistry("#/components/schemas/", schemaName)
	config.CreateHooks = nil // answers hold what was asked for, and no links to schemas
	config.RejectUnknownQueryParameters = true
	config.Tags = []*huma.Tag{
		{Name: "runs", Description: "Make, read and compare runs"},
		{Name: "steering", Description: "Commands to a run; each waits for the run's answer"},
		{Name: "pipelines", Description: "Deliberations of ALPHA, BETA and GAMMA; commands wait for the pipeline's answer"},
		{Name: "environments", Description: "What repositories are set up with, and how"},
		{Name: "webhooks", Description: "Who is sent events, and what came of it"},
		{Name: "system", Description: "Agents, models and what waits for people"},
	}
	api := humago.New(mux, config)
	s.runOperations(api)
	s.steeringOperations(api)
	s.pipelineOperations(api)
	s.environmentOperations(api)
	s.webhookOperations(api)
	s.systemOperations(api)
	for path, item := range api.OpenAPI().Paths {
		s.refuseOthers(mux, path, item, special(path, api.OpenAPI().Paths))
	}
	return api
}

// schemaName names the schema of a type. Comparisons have findings, tests and
// the like of their own.
func schemaName(t reflect.Type, hint string) string {
	name := huma.DefaultSchemaNamer(t, hint)
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	for _, pkg := range []string{"diff", "store"} {
		if strings.HasSuffix(t.PkgPath(), "/"+pkg) && !strings.Contains(t.Name(), "[") {
			return strings.ToUpper(pkg[:1]) + pkg[1:] + name
		}
	}
	return name
}

// special reports whether a path is one of those that another path stands for, as
// /things/find is one of /things/{id}.
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

// refuseOthers answers methods that a path does not know. A special path refuses
// the usual ones by name, as the mux wants it; the general one refuses the rest.
func (s *server) refuseOthers(mux *http.ServeMux, path string, item *huma.PathItem, special bool) {
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
		s.answer(w, r, apitypes.Problem{
			Title: "This method is not known here", Status: http.StatusMethodNotAllowed, Detail: "Use " + strings.Join(allowed, " or ") + ".",
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
		Errors: append(known, more...), BodyReadTimeout: -1, MaxBodyBytes: -1, // it has been read already, in its time and size
	}
}

func init() {
	// What huma itself finds wrong with a request is a problem like all others.
	huma.NewError = func(status int, message string, errs ...error) huma.StatusError {
		p := apitypes.Problem{Title: http.StatusText(status), Status: status, Detail: message}
		for _, err := range errs {
			var d huma.ErrorDetailer
			if !errors.As(err, &d) {
				continue
			}
			detail := d.ErrorDetail()
			p.Errors = append(p.Errors, apitypes.Invalid{At: detail.Location, Message: detail.Message})
			switch {
			case strings.HasPrefix(detail.Location, "path."): // no such id was ever given
				return apitypes.Problem{Title: "There is no such thing", Status: http.StatusNotFound, Class: contract.ClassHuman, Code: store.CodeNotFound}
			case strings.HasPrefix(detail.Location, "query."), strings.HasPrefix(detail.Location, "header."):
				p.Status = http.StatusBadRequest
			}
		}
		if len(p.Errors) > 0 {
			p.Title, p.Class, p.Code = "The request cannot be understood", contract.ClassHuman, contract.CodeInvalidConfig
		}
		return p
	}
	huma.NewErrorWithContext = func(ctx huma.Context, status int, message string, errs ...error) huma.StatusError {
		err := huma.NewError(status, message, errs...)
		if p, ok := err.(apitypes.Problem); ok {
			p.Instance = requestID(ctx.Context())
			return p
		}
		return err
	}
}

// problemOf says to a client what an error of ours means; what is inside stays
// inside.
func problemOf(err error) apitypes.Problem {
	f := fault.Of(err)
	var p apitypes.Problem
	switch {
	case errors.As(err, &p):
		return p
	case errors.Is(err, store.ErrNotFound), f.Code == store.CodeNotFound:
		return apitypes.Problem{Title: "There is no such thing", Status: http.StatusNotFound, Detail: missing(f), Class: contract.ClassHuman, Code: store.CodeNotFound}
	case errors.Is(err, artifact.ErrNotFound):
		return apitypes.Problem{Title: "The file is no longer kept", Status: http.StatusGone, Class: contract.ClassHuman, Code: store.CodeNotFound}
	case f.Code == store.CodeConflict:
		return apitypes.Problem{Title: "The key was used for another request", Status: http.StatusConflict, Detail: f.Message, Class: f.Class, Code: f.Code}
	case f.Code == contract.CodeRejected, f.Code == contract.CodeForbidden:
		return apitypes.Problem{Title: "This is not taken now", Status: http.StatusConflict, Detail: f.Message, Class: f.Class, Code: f.Code}
	case f.Class == contract.ClassHuman, f.Class == contract.ClassConfig, f.Class == contract.ClassLogic, f.Class == contract.ClassSafety:
		return apitypes.Problem{Title: "This cannot be done", Status: http.StatusUnprocessableEntity, Detail: f.Message, Class: f.Class, Code: f.Code}
	case errors.Is(err, control.ErrSilent):
		return apitypes.Problem{Title: "No answer came", Status: http.StatusServiceUnavailable, Detail: f.Message, Class: f.Class, Code: f.Code}
	case f.Class == contract.ClassInfra:
		return apitypes.Problem{Title: "A part of the system does not answer", Status: http.StatusServiceUnavailable, Detail: "Nothing is lost; try again shortly.", Class: f.Class}
	default:
		return apitypes.Problem{Title: "Something went wrong here", Status: http.StatusInternalServerError, Detail: "The server's log says more."}
	}
}

// missing says what there is not, where that is known.
func missing(f *contract.Failure) string {
	if f.Code == store.CodeNotFound {
		return f.Message
	}
	return ""
}
