package activities

import (
	"bytes"
	"context"
	"sync"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/livetext"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
	"github.com/rocketgpt/orchestrator/internal/tester"
)

const (
	// livePause is the time for which output is buffered before it is published.
	livePause = 300 * time.Millisecond
	// livePiece limits the size of one published piece.
	livePiece = 16 << 10
	// liveBytes limits the output of one command shown while it runs; the rest is in the artifact.
	liveBytes = 1 << 20
)

// output collects a command's output, publishes it live, and stores it for the log.
type output struct {
	a      *Activities
	ctx    context.Context
	runID  int64
	source string
	whole  tester.Output

	mu      sync.Mutex
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
	o.whole.Add(chunk)
	o.mu.Lock()
	defer o.mu.Unlock()
	if room := liveBytes - o.shown; room > 0 {
		o.pending = append(o.pending, chunk[:min(int64(len(chunk)), room)]...)
		o.shown += min(int64(len(chunk)), room)
		if o.shown == liveBytes {
			o.pending = append(o.pending, "\n… (the rest is in the log)\n"...)
		}
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
		ctx, cancel := context.WithTimeout(o.ctx, tester.KeepTime)
		err := o.a.Store.AppendOutput(ctx, o.runID, o.source, telemetry.Redact(piece))
		cancel()
		if err != nil {
			o.a.Log.WarnContext(o.ctx, "Could not store live output", "run", o.runID, "source", o.source, "error", err)
			return
		}
	}
}

// end begins to publish the rest. wait must follow.
func (o *output) end() { close(o.stop) }

// wait returns when the rest is published, after end.
func (o *output) wait() { <-o.stopped }

// close publishes the rest.
func (o *output) close() {
	o.end()
	o.wait()
}

// showText shows what the model writes in a call while it writes it, if anyone watches the run, until
// the returned function is called.
func (a *Activities) showText(ctx context.Context, q question, try int, r *model.Request) (end func()) {
	if !a.Config.Models.LiveText {
		return func() {}
	}
	e := q.execution
	w := livetext.Start(ctx, a.Store, store.LiveText{
		RunID: e.RunID, ExecutionID: e.ID, Turn: q.turn, Try: try, Phase: e.Phase, Agent: e.Agent, Step: e.Step, Attempt: e.Attempt,
	}, a.Config.Models.LiveTextEvery, a.Log)
	r.Delta = w.Add
	return w.End
}

// requestsArtifact stores network requests, and returns them as an artifact with the given name, or
// no artifact if there were no requests.
func (a *Activities) requestsArtifact(ctx context.Context, way *tester.Egress, name string) ([]contract.Artifact, error) {
	requests, err := way.Records()
	if err != nil || len(requests) == 0 {
		return nil, err
	}
	digest, err := a.Artifacts.Put(ctx, requests)
	if err != nil {
		return nil, err
	}
	return []contract.Artifact{{Name: name, Type: contract.ArtifactJSON, Size: int64(len(requests)), Digest: digest}}, nil
}
