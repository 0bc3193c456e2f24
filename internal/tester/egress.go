package tester

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"sync"

	"github.com/rocketgpt/orchestrator/internal/proxy"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

// Egress is the sandbox's network access for a series of commands, and the requests that they made.
type Egress struct {
	host         *Host
	who, setting string

	mu      sync.Mutex
	log     []proxy.Record
	dropped int
}

// recordedRequests limits the number of recorded requests of one setup or check.
const recordedRequests = 20_000

// Egress returns network access labeled with its user (who) and the setting that lists its hosts.
func (h *Host) Egress(who, setting string) *Egress {
	return &Egress{host: h, who: who, setting: setting}
}

// Serve returns the network access of a command that may reach hosts, or nil if there are none, so
// that the command has no access at all.
func (e *Egress) Serve(hosts []string) func(net.Listener) []string {
	if len(hosts) == 0 {
		return nil
	}
	return e.host.Proxy.Outlet(proxy.Session{Hosts: hosts, Who: e.who, Setting: e.setting, OnRequest: e.record}, e.host.Log)
}

func (e *Egress) record(r proxy.Record) {
	telemetry.CountEgress(string(r.Verdict))
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.log) >= recordedRequests {
		e.dropped++
		return
	}
	e.log = append(e.log, r)
}

// Records returns all requests, one JSON object per line; empty if there are none.
func (e *Egress) Records() ([]byte, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out bytes.Buffer
	lines := json.NewEncoder(&out)
	for _, r := range e.log {
		if err := lines.Encode(r); err != nil {
			return nil, fmt.Errorf("save a sandbox's network requests: %w", err)
		}
	}
	if e.dropped > 0 {
		fmt.Fprintf(&out, "{\"more_requests\":%d}\n", e.dropped)
	}
	return out.Bytes(), nil
}

// networkFailure returns the last request to the first host whose last request failed, or was
// rejected although the host is allowed.
func (e *Egress) networkFailure() (proxy.Record, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	last := map[string]proxy.Record{}
	for _, r := range e.log {
		last[r.Host] = r
	}
	for _, r := range e.log {
		if l := last[r.Host]; l.Verdict == proxy.Failed || l.Verdict == proxy.Refused && !l.Unlisted {
			return l, true
		}
	}
	return proxy.Record{}, false
}
