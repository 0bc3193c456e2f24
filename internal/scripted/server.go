package scripted

import (
	"cmp"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"
)

// DefaultMaxBody is the default maximum size of a request body, in bytes.
const DefaultMaxBody = 64<<20 + 1<<20 // 64 MiB of prompt, and 1 MiB for the JSON around it

// Options configure a server. The zero value is usable.
type Options struct {
	// LogPath is the file that gets one JSON line for each request. The state (the uses of rules)
	// is stored next to it and survives a restart with the same scenario. Removing the log file
	// starts over. Empty means no log and no state.
	LogPath string
	// MaxBody is the largest request body in bytes; 0 means DefaultMaxBody.
	MaxBody int64
	// Player answers requests for some models instead of the scenario; nil: none.
	Player Player
	// Logger receives errors that occur after a response was sent; nil means slog.Default.
	Logger *slog.Logger
}

// Server responds to model requests according to a scenario. It is an http.Handler, safe for
// concurrent use.
type Server struct {
	scenario *Scenario
	opts     Options
	mux      *http.ServeMux
	ledger   *ledger
	log      *requestLog
	cache    promptCache

	drain     drain
	closing   chan struct{} // closed by Close; ends waiting requests
	closeOnce sync.Once
	closeErr  error
}

// New creates a server. It returns a CONFIG_ERROR if the log or its state cannot be opened.
func New(scenario *Scenario, opts Options) (*Server, error) {
	opts.MaxBody = cmp.Or(opts.MaxBody, DefaultMaxBody)
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	ledger, err := openLedger(scenario, opts.LogPath)
	if err != nil {
		return nil, err
	}
	log, err := openLog(opts.LogPath)
	if err != nil {
		_ = ledger.close()
		return nil, err
	}
	s := &Server{scenario: scenario, opts: opts, ledger: ledger, log: log, closing: make(chan struct{})}
	s.mux = http.NewServeMux()
	s.mux.HandleFunc("POST /v1/chat/completions", s.chat)
	s.mux.HandleFunc("POST /v1/responses", s.responses)
	s.mux.HandleFunc("POST /v1/messages", s.messages)
	s.mux.HandleFunc("POST /v1beta/models/{call...}", s.gemini)
	s.mux.HandleFunc("POST /model/{id}/{method}", s.bedrock)
	s.mux.HandleFunc("POST /v1/projects/{project}/locations/{location}/publishers/anthropic/models/{call...}", s.vertex)
	s.mux.HandleFunc("GET /v1beta/models", s.geminiModels)
	s.mux.HandleFunc("POST /v1/embeddings", s.embeddings)
	s.mux.HandleFunc("GET /v1/models", s.models)
	s.mux.HandleFunc("GET /v1/models/{id...}", s.model)
	s.mux.HandleFunc("GET /v1beta/models/{id...}", s.model)
	s.mux.HandleFunc("GET /healthz", s.healthz)
	s.mux.HandleFunc("/", s.nothing)
	return s, nil
}

// ServeHTTP handles one request. After Close, it breaks the connection.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.drain.enter() {
		abort()
	}
	defer s.drain.leave()
	s.mux.ServeHTTP(w, r)
}

// Close ends waiting requests (latency, timeout), gives the others a few seconds to finish, and
// closes the files once all lines are written. Call it before shutting down the http.Server, which
// would otherwise wait for requests that never get a response.
func (s *Server) Close() error {
	s.closeOnce.Do(func() {
		close(s.closing)
		s.drain.wait()
		s.closeErr = s.log.close()
		if err := s.ledger.close(); s.closeErr == nil {
			s.closeErr = err
		}
	})
	return s.closeErr
}

// nothing handles requests for unknown paths.
func (s *Server) nothing(w http.ResponseWriter, r *http.Request) {
	writeError(w, apiError{
		status: http.StatusNotFound, kind: "invalid_request_error", code: "unknown_url",
		message: "the scripted model serves POST /v1/chat/completions, POST /v1/responses, POST /v1/messages, POST /v1beta/models/MODEL:generateContent, POST /model/MODEL/invoke, POST /v1/projects/PROJECT/locations/REGION/publishers/anthropic/models/MODEL:rawPredict, POST /v1/embeddings, GET /v1/models and GET /healthz, not " + r.Method + " " + r.URL.Path,
	})
}

func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte("ok\n"))
}

// models lists the models.
func (s *Server) models(w http.ResponseWriter, _ *http.Request) {
	type entry struct {
		ID      string `json:"id"`
		Object  string `json:"object"`
		Created int64  `json:"created"`
		OwnedBy string `json:"owned_by"`
	}
	list := []entry{}
	for _, name := range s.modelNames() {
		list = append(list, entry{ID: name, Object: "model", OwnedBy: "rocketgpt"})
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(encode(map[string]any{"object": "list", "data": list}))
}

// model describes one model.
func (s *Server) model(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	if !s.scenario.has(id) {
		writeError(w, notFound(id))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(encode(map[string]any{"id": id, "name": "models/" + id, "object": "model"}))
}

// modelNames returns the models of the scenario, or else those that it matches, after the generic one.
func (s *Server) modelNames() []string {
	if len(s.scenario.models) > 0 {
		return slices.Sorted(maps.Keys(s.scenario.models))
	}
	names := []string{"scripted"}
	for i := range s.scenario.rules {
		if m := s.scenario.rules[i].when.model; m != nil && !slices.Contains(names, *m) {
			names = append(names, *m)
		}
	}
	return names
}

// wait waits for a rule's latency. It returns false if the client disconnects or the server closes
// in the meantime.
func (s *Server) wait(r *http.Request, d time.Duration) bool {
	if d <= 0 {
		return r.Context().Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.Context().Done():
		return false
	case <-s.closing:
		return false
	}
}
