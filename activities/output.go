package activities

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/proxy"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

const (
	// livePause is the time for which output is buffered before it is published.
	livePause = 300 * time.Millisecond
	// livePiece limits the size of one published piece.
	livePiece = 16 << 10
	// liveBytes limits the output of one command shown while it runs; the rest is in the artifact.
	liveBytes = 1 << 20
	// loggedBytes limits the output of a setup in an artifact, which has its beginning and its end.
	loggedBytes = 4 << 20
)

// keepTime limits the time for storing a command's output and network requests after the command
// was cancelled: nothing waits for a database that is down.
const keepTime = 30 * time.Second

// output collects a command's output, publishes it live, and stores it for the log.
type output struct {
	a      *Activities
	ctx    context.Context
	runID  int64
	source string

	mu      sync.Mutex
	head    []byte // of the whole
	tail    []byte
	dropped int64
	pending []byte // not shown yet
	shown   int64
	stop    chan struct{}
	stopped chan struct{}
}

// output starts collecting the output of a run's command. The caller must close it.
func (a *Activities) output(ctx context.Context, runID int64, source string) *output {
	o := &output{a: a, ctx: context.WithoutCancel(ctx), runID: runID, source: source, stop: make(chan struct{}), stopped: make(chan struct{})}
	go o.flushAll()
	return o
}

func (o *output) write(chunk []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.keep(chunk)
	if room := liveBytes - o.shown; room > 0 {
		o.pending = append(o.pending, chunk[:min(int64(len(chunk)), room)]...)
		o.shown += min(int64(len(chunk)), room)
		if o.shown == liveBytes {
			o.pending = append(o.pending, "\n… (the rest is in the log)\n"...)
		}
	}
}

// keep appends to the whole output, whose middle may be dropped.
func (o *output) keep(chunk []byte) {
	if room := loggedBytes/2 - len(o.head); room > 0 {
		n := min(room, len(chunk))
		o.head, chunk = append(o.head, chunk[:n]...), chunk[n:]
	}
	o.tail = append(o.tail, chunk...)
	if over := len(o.tail) - loggedBytes/2; over > loggedBytes/4 {
		o.dropped += int64(over)
		o.tail = slices.Clone(o.tail[over:])
	}
}

func (o *output) flushAll() {
	defer close(o.stopped)
	tick := time.NewTicker(livePause)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			o.flush(false)
		case <-o.stop:
			o.flush(true)
			return
		}
	}
}

// flush publishes complete lines; an incomplete line waits for its end, because it may contain part
// of a secret.
func (o *output) flush(all bool) {
	for {
		o.mu.Lock()
		end := min(len(o.pending), livePiece)
		if line := bytes.LastIndexByte(o.pending[:end], '\n'); line >= 0 {
			end = line + 1
		} else if !all && end < livePiece {
			end = 0
		}
		piece := string(o.pending[:end])
		o.pending = o.pending[end:]
		o.mu.Unlock()
		if piece == "" {
			return
		}
		ctx, cancel := context.WithTimeout(o.ctx, keepTime)
		err := o.a.Store.AppendOutput(ctx, o.runID, o.source, telemetry.Redact(piece))
		cancel()
		if err != nil {
			o.a.Log.WarnContext(o.ctx, "Could not store live output", "run", o.runID, "source", o.source, "error", err)
			return
		}
	}
}

// close publishes the rest.
func (o *output) close() {
	close(o.stop)
	<-o.stopped
}

// log returns the whole output, redacted.
func (o *output) log() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	whole := slices.Clone(o.head)
	if o.dropped > 0 {
		whole = fmt.Appendf(whole, "\n[… %d bytes omitted …]\n", o.dropped)
	}
	return []byte(telemetry.Redact(string(append(whole, o.tail...))))
}

// egress is the sandbox's network access for a series of commands, and the requests that they made.
type egress struct {
	a            *Activities
	who, setting string

	mu      sync.Mutex
	log     []proxy.Record
	dropped int
}

// recordedRequests limits the number of recorded requests of one setup or check.
const recordedRequests = 20_000

// egress returns network access labeled with its user (who) and the setting that lists its hosts.
func (a *Activities) egress(who, setting string) *egress {
	return &egress{a: a, who: who, setting: setting}
}

// serve returns the network access of a command that may reach hosts, or nil if there are none, so
// that the command has no access at all.
func (e *egress) serve(hosts []string) func(net.Listener) []string {
	if len(hosts) == 0 {
		return nil
	}
	return e.a.Proxy.Outlet(proxy.Session{Hosts: hosts, Who: e.who, Setting: e.setting, OnRequest: e.record}, e.a.Log)
}

func (e *egress) record(r proxy.Record) {
	telemetry.CountEgress(string(r.Verdict))
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.log) >= recordedRequests {
		e.dropped++
		return
	}
	e.log = append(e.log, r)
}

// records returns all requests, one JSON object per line; empty if there are none.
func (e *egress) records() ([]byte, error) {
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

// artifact stores the requests, and returns them as an artifact with the given name, or no artifact
// if there were no requests.
func (e *egress) artifact(ctx context.Context, name string) ([]contract.Artifact, error) {
	requests, err := e.records()
	if err != nil || len(requests) == 0 {
		return nil, err
	}
	digest, err := e.a.Artifacts.Put(ctx, requests)
	if err != nil {
		return nil, err
	}
	return []contract.Artifact{{Name: name, Type: contract.ArtifactJSON, Size: int64(len(requests)), Digest: digest}}, nil
}

// networkFailure returns the last request to the first host whose last request failed, or was
// rejected although the host is allowed.
func (e *egress) networkFailure() (proxy.Record, bool) {
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
