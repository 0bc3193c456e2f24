package drivers

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store/evals"
)

const (
	// maxBody is the maximum size of a request or a response, in bytes.
	maxBody = 64 << 20
	// dialTime is how long a provider may take until it begins to respond.
	dialTime = 15 * time.Minute
)

// gate forwards the requests of another agent to a model, with the provider's key, which the agent
// does not see. It counts tokens and calls, and refuses calls once the budget is used up.
type gate struct {
	model   string
	base    string
	key     string
	headers map[string]string
	entry   model.CatalogueEntry
	cap     int64 // in millionths of a US dollar; 0: none
	client  *http.Client

	mu      sync.Mutex
	usage   contract.Usage
	unknown bool // a response had no usage
	refused bool // a call was refused because of the budget
}

// newGate returns a gate to a model, named as provider/model. The provider must offer OpenAI's API.
func newGate(cfg *config.Config, catalogue model.Catalogue, name string, capMicros int64) (*gate, error) {
	choice, err := control.Model(cfg, name)
	if err != nil {
		return nil, err
	}
	for _, p := range setup.Providers(cfg) {
		if p.Name != choice.Provider {
			continue
		}
		switch p.Kind {
		case model.KindOpenAI, model.KindOpenRouter, model.KindOllama, model.KindCompatible, model.KindScripted:
		case model.KindAzure, model.KindAnthropic, model.KindBedrock, model.KindVertex, model.KindGemini:
			return nil, fault.New(contract.ClassConfig, contract.CodeInvalidConfig,
				"other agents reach models only by OpenAI's API, which providers of kind %s do not offer; choose a model of another provider for %s", p.Kind, name)
		}
		key, err := p.Key(os.Getenv)
		if err != nil {
			return nil, err
		}
		entry, _ := catalogue.Find(p, choice.Model)
		return &gate{
			model: choice.Model, base: strings.TrimRight(p.BaseURL, "/"), key: key, headers: p.Headers, entry: entry, cap: capMicros,
			client: &http.Client{Timeout: dialTime},
		}, nil
	}
	return nil, fault.New(contract.ClassConfig, contract.CodeInvalidConfig, "model provider %q not found; see rgpt models", choice.Provider)
}

// outcome returns what the model was used for.
func (g *gate) outcome() evals.Outcome {
	g.mu.Lock()
	defer g.mu.Unlock()
	u := g.usage
	o := evals.Outcome{
		CostMicros: u.MicroUSD, CostKnown: !g.entry.Assumed && !g.unknown, FreshTokens: u.PromptTokens - u.CachedTokens, CachedTokens: u.CachedTokens,
		ReasoningTokens: u.ReasoningTokens, OutputTokens: u.CompletionTokens - u.ReasoningTokens, Turns: u.Calls,
	}
	if g.refused {
		o.Detail = "its share of the budget was used up"
	}
	return o
}

// spent reports whether the budget is used up.
func (g *gate) spent() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	over := g.cap > 0 && g.usage.MicroUSD >= g.cap
	g.refused = g.refused || over
	return over
}

// paths are the calls that are forwarded.
var paths = map[string]string{"/v1/chat/completions": "/chat/completions", "/v1/responses": "/responses", "/chat/completions": "/chat/completions", "/responses": "/responses"}

// ServeHTTP forwards a call.
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path, ok := paths[r.URL.Path]
	switch {
	case !ok || r.Method != http.MethodPost:
		problem(w, http.StatusNotFound, "only POST /v1/chat/completions and POST /v1/responses are forwarded")
		return
	case g.spent():
		problem(w, http.StatusPaymentRequired, "the budget of this task is used up")
		return
	}
	body, err := g.prepare(http.MaxBytesReader(w, r.Body, maxBody), path)
	if err != nil {
		problem(w, http.StatusBadRequest, err.Error())
		return
	}
	out, err := http.NewRequestWithContext(r.Context(), http.MethodPost, g.base+path, bytes.NewReader(body))
	if err != nil {
		problem(w, http.StatusBadRequest, "the request cannot be forwarded")
		return
	}
	for name, value := range g.headers {
		out.Header.Set(name, value)
	}
	out.Header.Set("Content-Type", "application/json")
	if g.key != "" {
		out.Header.Set("Authorization", "Bearer "+g.key)
	}
	answer, err := g.client.Do(out)
	if err != nil {
		problem(w, http.StatusBadGateway, "the model could not be reached")
		return
	}
	defer answer.Body.Close()
	for _, name := range []string{"Content-Type", "Retry-After"} {
		if value := answer.Header.Get(name); value != "" {
			w.Header().Set(name, value)
		}
	}
	w.WriteHeader(answer.StatusCode)
	if strings.HasPrefix(answer.Header.Get("Content-Type"), "text/event-stream") {
		g.stream(w, answer.Body)
		return
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxBody))
	if err == nil && answer.StatusCode == http.StatusOK {
		g.book(usageOf(text))
	}
	_, _ = w.Write(text)
}

func problem(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// The connection may be gone: the agent then sees that itself.
	if err := json.NewEncoder(w).Encode(map[string]map[string]string{"error": {"message": text, "type": "invalid_request_error"}}); err != nil {
		return
	}
}

// prepare sets the model of a request, and makes a stream report its usage.
func (g *gate) prepare(r io.Reader, path string) ([]byte, error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, errors.New("the request is incomplete or too large")
	}
	var doc map[string]json.RawMessage
	if err := json.Unmarshal(text, &doc); err != nil || doc == nil {
		return nil, errors.New("the request is not a JSON object")
	}
	if doc["model"], err = json.Marshal(g.model); err != nil {
		return nil, err
	}
	if string(bytes.TrimSpace(doc["stream"])) == "true" && path == "/chat/completions" {
		doc["stream_options"] = json.RawMessage(`{"include_usage":true}`)
	}
	return json.Marshal(doc)
}

// stream forwards server-sent events, and books the usage of the last one that has it.
func (g *gate) stream(w http.ResponseWriter, r io.Reader) {
	var usage *contract.Usage
	lines := bufio.NewReader(io.LimitReader(r, maxBody))
	flush := http.NewResponseController(w)
	for {
		line, err := lines.ReadBytes('\n')
		if data, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("data:")); ok {
			if u := usageOf(bytes.TrimSpace(data)); u != nil {
				usage = u
			}
		}
		if _, failed := w.Write(line); failed != nil || err != nil {
			break
		}
		if len(bytes.TrimSpace(line)) == 0 {
			_ = flush.Flush()
		}
	}
	g.book(usage)
}

// book adds a call to the usage; nil: it reported none.
func (g *gate) book(u *contract.Usage) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if u == nil {
		g.unknown = true
		u = &contract.Usage{}
	}
	u.Calls, u.MicroUSD = 1, model.Cost(*u, g.entry)
	g.usage = g.usage.Add(*u)
}

// wireUsage is the usage of chat completions and of Responses.
type wireUsage struct {
	Prompt     int64   `json:"prompt_tokens"`
	Completion int64   `json:"completion_tokens"`
	Input      int64   `json:"input_tokens"`
	Output     int64   `json:"output_tokens"`
	PromptPart details `json:"prompt_tokens_details"`
	InputPart  details `json:"input_tokens_details"`
	ReplyPart  details `json:"completion_tokens_details"`
	OutputPart details `json:"output_tokens_details"`
}

type details struct {
	Cached    int64 `json:"cached_tokens"`
	Reasoning int64 `json:"reasoning_tokens"`
}

// usageOf returns the usage that a document reports, nil if it reports none.
func usageOf(text []byte) *contract.Usage {
	var doc struct {
		Usage    *wireUsage `json:"usage"`
		Response struct {
			Usage *wireUsage `json:"usage"`
		} `json:"response"`
	}
	if json.Unmarshal(text, &doc) != nil {
		return nil
	}
	u := doc.Usage
	if u == nil {
		u = doc.Response.Usage
	}
	if u == nil || min(u.Prompt, u.Completion, u.Input, u.Output) < 0 {
		return nil
	}
	return &contract.Usage{
		PromptTokens: u.Prompt + u.Input, CompletionTokens: u.Completion + u.Output, CachedTokens: u.PromptPart.Cached + u.InputPart.Cached,
		ReasoningTokens: u.ReplyPart.Reasoning + u.OutputPart.Reasoning,
	}
}

// String describes the gate without its key.
func (g *gate) String() string { return fmt.Sprintf("gate to %s", g.model) }
