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

// deliveryModel is a scripted model in this process. It records each agent's messages and when they
// reach another agent.
type deliveryModel struct {
	url    string
	model  *scripted.Server
	server *http.Server

	mu   sync.Mutex
	runs map[int64]*callLog
}

// callLog records the exchange between the model and the agents of one account.
type callLog struct {
	answered map[callKey]int
	words    []*delivery
}

// callKey identifies a model call.
type callKey struct {
	agent         string
	attempt, turn int
}

// delivery is a message on its way.
type delivery struct {
	by          contract.Agent
	mark        []byte
	said, heard time.Time
}

// listen starts the model.
func listen(ctx context.Context) (*deliveryModel, error) {
	text, err := yaml.Marshal(map[string]any{"rules": deliberationRules()})
	if err != nil {
		return nil, err
	}
	scenario, err := scripted.Parse("deliberations", text)
	if err != nil {
		return nil, err
	}
	m := &deliveryModel{runs: map[int64]*callLog{}}
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

func (m *deliveryModel) close() error {
	if m == nil {
		return nil
	}
	_ = m.model.Close()
	return m.server.Close()
}

// ServeHTTP responds according to the scenario. The time of a request is when it has been fully
// received, and the time of a response is when its first byte is sent: the time between a response
// and the next request does not include the model.
func (m *deliveryModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	now := time.Now()
	run, _ := strconv.ParseInt(r.Header.Get("X-RGPT-Run"), 10, 64)
	call := callKey{agent: r.Header.Get("X-RGPT-Agent")}
	call.attempt, _ = strconv.Atoi(r.Header.Get("X-RGPT-Attempt"))
	call.turn, _ = strconv.Atoi(r.Header.Get("X-RGPT-Turn"))
	if run > 0 {
		m.markDelivered(run, call, body, now)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	m.model.ServeHTTP(&firstByte{ResponseWriter: w, out: func(status int) {
		if run > 0 && status == http.StatusOK {
			m.says(run, call, markOf(body, call), time.Now())
		}
	}}, r)
}

// markDelivered records the messages that reach an agent for the first time.
func (m *deliveryModel) markDelivered(run int64, call callKey, body []byte, at time.Time) {
	m.mu.Lock()
	var open []*delivery
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

// markOf returns the mark of the message in the response to a request, or nil if there is no
// message.
func markOf(body []byte, call callKey) []byte {
	agent := contract.Agent(call.agent)
	silent := call.turn == 1 || call.turn > spokenTurns || agent == contract.AgentGamma || bytes.Contains(body, []byte(topicEndless))
	if silent || agent == contract.AgentBeta && call.turn == dialogueFrom && bytes.Contains(body, []byte(topicDialogue)) {
		return nil
	}
	return []byte(marked(agent, call.turn))
}

// says records a response and the message in it.
func (m *deliveryModel) says(run int64, call callKey, mark []byte, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o := m.account(run)
	o.answered[call]++
	if mark != nil {
		o.words = append(o.words, &delivery{by: contract.Agent(call.agent), mark: mark, said: at})
	}
}

func (m *deliveryModel) account(run int64) *callLog {
	o := m.runs[run]
	if o == nil {
		o = &callLog{answered: map[callKey]int{}}
		m.runs[run] = o
	}
	return o
}

// forget begins anew.
func (m *deliveryModel) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.runs)
}

// of returns the number of responses to an account, and its messages.
func (m *deliveryModel) of(run int64) (answered int, words []delivery) {
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

// firstByte records when the first byte of a response is sent, and its status.
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

// Unwrap allows flushing a response.
func (f *firstByte) Unwrap() http.ResponseWriter { return f.ResponseWriter }

// watchedProvider is the provider of the model in this process.
const watchedProvider = "watched"

// config returns the configuration that makes the model available to the stack.
func (m *deliveryModel) config() ([]byte, error) {
	text, err := yaml.Marshal(map[string]any{"models": map[string]any{"providers": map[string]any{
		watchedProvider: map[string]any{"kind": "scripted", "base_url": m.url, "max_concurrent": 1000},
	}}})
	if err != nil {
		return nil, fmt.Errorf("configure the model: %w", err)
	}
	return text, nil
}
