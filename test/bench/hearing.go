package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/scripted"
)

// hearing is a scripted model in this process that notes who says what, and when
// somebody else is told of it.
type hearing struct {
	url    string
	model  *scripted.Server
	server *http.Server

	mu   sync.Mutex
	runs map[int64]*overheard
}

// overheard is what passed between the model and the agents of one account.
type overheard struct {
	answered map[asked]int
	words    []*word
}

// asked names a model call.
type asked struct {
	agent         string
	attempt, turn int
}

// word is a message on its way.
type word struct {
	by          contract.Agent
	mark        []byte
	said, heard time.Time
}

// listen starts the model.
func listen(ctx context.Context) (*hearing, error) {
	text, err := yaml.Marshal(map[string]any{"rules": deliberationRules()})
	if err != nil {
		return nil, err
	}
	scenario, err := scripted.Parse("deliberations", text)
	if err != nil {
		return nil, err
	}
	m := &hearing{runs: map[int64]*overheard{}}
	if m.model, err = scripted.New(scenario, scripted.Options{Logger: slog.New(slog.DiscardHandler)}); err != nil {
		return nil, err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	m.url = "http://" + l.Addr().String() + "/v1"
	m.server = &http.Server{Handler: m, ReadHeaderTimeout: time.Minute}
	go func() { _ = m.server.Serve(l) }()
	return m, nil
}

func (m *hearing) close() error {
	if m == nil {
		return nil
	}
	_ = m.model.Close()
	return m.server.Close()
}

// ServeHTTP answers as the scenario says. The time of a request is when all of it
// has come, that of an answer when its first byte goes out: what lies between two
// of them is nothing that the model did.
func (m *hearing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	now := time.Now()
	run, _ := strconv.ParseInt(r.Header.Get("X-RGPT-Run"), 10, 64)
	call := asked{agent: r.Header.Get("X-RGPT-Agent")}
	call.attempt, _ = strconv.Atoi(r.Header.Get("X-RGPT-Attempt"))
	call.turn, _ = strconv.Atoi(r.Header.Get("X-RGPT-Turn"))
	if run > 0 {
		m.told(run, call, body, now)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	m.model.ServeHTTP(&firstByte{ResponseWriter: w, out: func(status int) {
		if run > 0 && status == http.StatusOK {
			m.says(run, call, markOf(body, call), time.Now())
		}
	}}, r)
}

// told notes what an agent hears of others for the first time.
func (m *hearing) told(run int64, call asked, body []byte, at time.Time) {
	m.mu.Lock()
	var open []*word
	for _, w := range m.account(run).words {
		if w.heard.IsZero() && string(w.by) != call.agent {
			open = append(open, w)
		}
	}
	m.mu.Unlock()
	for _, w := range open {
		if !bytes.Contains(body, w.mark) {
			continue
		}
		m.mu.Lock()
		if w.heard.IsZero() {
			w.heard = at
		}
		m.mu.Unlock()
	}
}

// markOf returns what is findable in the answer to a request; nil if nothing is
// said to anybody.
func markOf(body []byte, call asked) []byte {
	agent := contract.Agent(call.agent)
	silent := call.turn == 1 || call.turn > spokenTurns || agent == contract.AgentGamma || bytes.Contains(body, []byte(topicEndless))
	if silent || agent == contract.AgentBeta && call.turn == dialogueFrom && bytes.Contains(body, []byte(topicDialogue)) {
		return nil
	}
	return []byte(marked(agent, call.turn))
}

// says notes an answer, and the message in it.
func (m *hearing) says(run int64, call asked, mark []byte, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o := m.account(run)
	o.answered[call]++
	if mark != nil {
		o.words = append(o.words, &word{by: contract.Agent(call.agent), mark: mark, said: at})
	}
}

func (m *hearing) account(run int64) *overheard {
	o := m.runs[run]
	if o == nil {
		o = &overheard{answered: map[asked]int{}}
		m.runs[run] = o
	}
	return o
}

// forget begins anew.
func (m *hearing) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.runs)
}

// of returns how many answers an account got, and its messages.
func (m *hearing) of(run int64) (answered int, words []word) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o := m.account(run)
	for _, times := range o.answered {
		answered += times
	}
	for _, w := range o.words {
		words = append(words, *w)
	}
	return answered, words
}

// firstByte says when an answer begins to go out, and with what status.
type firstByte struct {
	http.ResponseWriter
	out  func(status int)
	told bool
}

func (f *firstByte) WriteHeader(status int) {
	if !f.told {
		f.told = true
		f.out(status)
	}
	f.ResponseWriter.WriteHeader(status)
}

// Unwrap lets an answer be flushed.
func (f *firstByte) Unwrap() http.ResponseWriter { return f.ResponseWriter }

// hearingProvider is the provider of the model in this process.
const hearingProvider = "watched"

// config is the configuration that makes the stack know the model.
func (m *hearing) config() ([]byte, error) {
	text, err := yaml.Marshal(map[string]any{"models": map[string]any{"providers": map[string]any{
		hearingProvider: map[string]any{"kind": "scripted", "base_url": m.url, "max_concurrent": 1000},
	}}})
	if err != nil {
		return nil, fmt.Errorf("configure the model: %w", err)
	}
	return text, nil
}
