// Package livetext shows what a model writes while it writes it: the end of its text, or how far the
// call of a tool is, at most once in each interval. Nothing of it is stored. The text is hostile: it
// is shown without secrets and without characters that are not visible.
package livetext

import (
	"context"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
	"github.com/rocketgpt/orchestrator/internal/terminal"
)

const (
	// window is how much of the end of a text is searched for secrets. It is much longer than what
	// is shown: a secret that is recognized only by its beginning must keep that beginning.
	window = 32 << 10
	// headOfCall is how much of the arguments of a tool call is searched for the path.
	headOfCall = 1 << 10
	// longestName and longestPath limit what is shown of a tool call, in bytes.
	longestName = 64
	longestPath = 200
	// timeout limits one attempt to show a text.
	timeout = 2 * time.Second
)

// Shows shows a text, and reports whether anybody watches; see store.Store.ShowText.
type Shows interface {
	ShowText(ctx context.Context, t store.LiveText) (watched bool, err error)
}

// Writer shows what a model writes in one call.
type Writer struct {
	to    Shows
	of    store.LiveText // the call
	every time.Duration
	log   *slog.Logger
	stop  chan struct{}

	mu         sync.Mutex
	text       []byte // its end, unredacted
	tool       string // the call that is being written; empty: none
	arguments  []byte // of it: their beginning
	characters int    // of them
	thinking   bool
	changed    bool // since the text was last shown
}

// Start returns a writer for a call. The caller must end it.
func Start(ctx context.Context, to Shows, call store.LiveText, every time.Duration, log *slog.Logger) *Writer {
	w := &Writer{to: to, of: call, every: every, log: log, stop: make(chan struct{})}
	go w.run(context.WithoutCancel(ctx))
	return w
}

// Add adds a piece of the response. It only keeps it in memory.
func (w *Writer) Add(kind model.DeltaKind, piece string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.changed, w.thinking = true, kind == model.DeltaReasoning
	switch kind {
	case model.DeltaText:
		w.tool = ""
		if w.text = append(w.text, piece...); len(w.text) > 2*window { // seldom, because it copies
			w.text = append(w.text[:0], w.text[len(w.text)-window:]...)
		}
	case model.DeltaReasoning: // is not shown
	case model.DeltaTool:
		w.tool, w.arguments, w.characters = piece[:min(len(piece), longestName)], w.arguments[:0], 0
	case model.DeltaArguments:
		w.characters += utf8.RuneCountInString(piece)
		w.arguments = append(w.arguments, piece[:min(len(piece), headOfCall-len(w.arguments))]...)
	}
}

// End ends the call. Clients that have its text receive a last message, in the background. A call that
// ends within the first interval is not shown at all.
func (w *Writer) End() { close(w.stop) }

func (w *Writer) run(ctx context.Context) {
	tick := time.NewTicker(w.every)
	defer tick.Stop()
	var shown time.Time // zero: nobody has seen anything
	for {
		select {
		case <-tick.C:
			if w.due(shown) && w.show(ctx, w.current()) {
				shown = time.Now()
			}
		case <-w.stop:
			if !shown.IsZero() {
				over := w.of
				over.Over = true
				w.show(ctx, over)
			}
			return
		}
	}
}

// due reports whether there is something to show: a change, or a text that would be taken for one of
// a worker that died.
func (w *Writer) due(shown time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.changed || !shown.IsZero() && time.Since(shown) >= store.LiveTextRenewal
}

// show shows a text and reports whether anybody watches.
func (w *Writer) show(ctx context.Context, t store.LiveText) bool {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	watched, err := w.to.ShowText(ctx, t)
	telemetry.CountLiveText(watched, err)
	if err != nil {
		w.log.DebugContext(ctx, "Could not show what a model writes", "run", t.RunID, "execution", t.ExecutionID, "error", err)
	}
	if !watched {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.changed = true // for clients that come later
	}
	return watched
}

// current returns what is to be shown now.
func (w *Writer) current() store.LiveText {
	w.mu.Lock()
	t, text, arguments := w.of, string(w.text[max(0, len(w.text)-window):]), string(w.arguments)
	t.Thinking, t.Tool, t.Characters = w.thinking, w.tool, w.characters
	w.changed = false
	w.mu.Unlock()
	if t.Tool != "" {
		t.Tool, t.Path = end(telemetry.Redact(visible(t.Tool)), longestName), end(telemetry.Redact(visible(pathOf(arguments))), longestPath)
	}
	t.Text = end(telemetry.RedactUnfinished(visible(text)), store.LiveTextBytes)
	return t
}

// visible returns a text without characters that are not visible. Secrets are searched for in the result:
// such a character inside of one would hide it from the search only.
func visible(text string) string { return terminal.CleanLines(strings.ToValidUTF8(text, "")) }

// end returns the end of a text, at most that many bytes, without characters that the cut has broken.
func end(text string, most int) string { return strings.ToValidUTF8(text[max(0, len(text)-most):], "") }

// pathInCall finds a path in the arguments of a tool call, of which the end may be missing.
var pathInCall = regexp.MustCompile(`"path"\s*:\s*"([^"\\]*)"`)

func pathOf(arguments string) string {
	if m := pathInCall.FindStringSubmatch(arguments); m != nil {
		return m[1]
	}
	return ""
}
