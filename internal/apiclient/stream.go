package apiclient

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/apitypes"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/feed"
)

const (
	// ReconnectTimeout is how long Follow waits for an unavailable server before it gives up.
	ReconnectTimeout = 5 * time.Minute
	// reconnectPause is the pause before a stream is reopened.
	reconnectPause = 500 * time.Millisecond
	// maxLine is the maximum length in bytes of a line of a stream, which contains one event.
	maxLine = 16 << 20
)

// streamBody is the body of a response that may take any time but must not stall.
type streamBody struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
	ctx    context.Context
	idle   *time.Timer
}

// errIdle is the error of a stalled stream.
var errIdle = fmt.Errorf("no data for %s", idleTimeout)

// openStream makes a call whose response is read as it arrives. It does not retry.
func (c *Client) openStream(ctx context.Context, r call, header http.Header) (*streamBody, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	f := &streamBody{cancel: cancel, ctx: ctx, idle: time.AfterFunc(idleTimeout, func() { cancel(errIdle) })}
	resp, err := c.send(ctx, r, header) //nolint:bodyclose // the reader closes it
	if err != nil {
		f.idle.Stop()
		cancel(nil)
		return nil, err
	}
	f.ReadCloser = resp.Body
	return f, nil
}

// Read reads available data. It returns an error if the stream has stalled for too long.
func (f *streamBody) Read(p []byte) (int, error) {
	n, err := f.ReadCloser.Read(p)
	f.idle.Reset(idleTimeout)
	if err != nil && err != io.EOF && errors.Is(context.Cause(f.ctx), errIdle) {
		err = errIdle
	}
	return n, err
}

// Close closes the stream, even if it was not read completely.
func (f *streamBody) Close() error {
	f.idle.Stop()
	f.cancel(nil)
	return f.ReadCloser.Close()
}

// Follow calls fn with each event of a run after a number, in order and exactly once, and waits for
// more, like store.Follow. It reopens a lost connection and continues after the last event; if the
// server is unavailable for longer than ReconnectTimeout, it returns an error.
func (c *Client) Follow(ctx context.Context, id, after int64, fn func(contract.Event) error) error {
	return c.followStream(ctx, eventStream{
		path: runPath(id, "stream"), command: fmt.Sprintf("rgpt run watch %d", id), ours: func(e contract.Event) bool { return e.RunID == id },
	}, after, fn)
}

// eventStream is a stream that can be followed.
type eventStream struct {
	path    []string
	command string // the command that follows it
	ours    func(contract.Event) bool
	gaps    bool // its events have only some of the numbers
}

func (c *Client) followStream(ctx context.Context, s eventStream, after int64, fn func(contract.Event) error) error {
	last := time.Now()
	for {
		before := after
		opened, err := c.readStream(ctx, s, &after, fn)
		var ended callbackError
		var again retriable
		switch {
		case errors.As(err, &ended):
			if errors.Is(ended.error, feed.ErrStop) {
				return nil
			}
			return ended.error
		case ctx.Err() != nil:
			return ctx.Err()
		case !errors.As(err, &again):
			return err
		}
		if opened || after > before {
			last = time.Now()
		}
		if away := time.Since(last); away > ReconnectTimeout {
			return fault.Wrap(err, contract.ClassInfra, contract.CodeUnavailable,
				"the server at %s has been unavailable for %s; the workers are continuing without it; to follow the events later, run %s --after %d", c.Address(), away.Round(time.Second), s.command, after)
		}
		if wait(ctx, reconnectPause) != nil {
			return ctx.Err()
		}
	}
}

// callbackError wraps the error that the callback returned.
type callbackError struct{ error }

// readStream reads the stream of a run until it ends, and advances after with each event.
// It reports whether the stream was opened.
func (c *Client) readStream(ctx context.Context, s eventStream, after *int64, fn func(contract.Event) error) (opened bool, err error) {
	r := read(s.path...)
	header := http.Header{}
	header.Set("Accept", "text/event-stream")
	header.Set(apitypes.LastEventHeader, strconv.FormatInt(*after, 10))
	body, err := c.openStream(ctx, r, header)
	if err != nil {
		return false, err
	}
	defer func() { _ = body.Close() }()
	lines := bufio.NewScanner(body)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	data := ""
	for lines.Scan() {
		if text, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			data = text // it also contains the id and type
			continue
		}
		if lines.Text() != "" || data == "" {
			continue // an event is complete when an empty line follows
		}
		var e contract.Event
		if err := json.Unmarshal([]byte(data), &e); err != nil || !s.ours(e) {
			return true, c.notThisAPI("its stream contains unexpected data")
		}
		data = ""
		switch {
		case e.Seq <= *after: // already seen
			continue
		case e.Seq > *after+1 && !s.gaps:
			return true, retriable{error: c.unreachable(fmt.Errorf("event %d is missing from the stream", *after+1)), sent: true}
		}
		*after = e.Seq
		if err := fn(e); err != nil {
			return true, callbackError{err}
		}
	}
	err = lines.Err()
	if errors.Is(err, bufio.ErrTooLong) {
		return true, c.notThisAPI(fmt.Sprintf("its stream contains a line longer than %d MiB", maxLine>>20))
	}
	if err == nil {
		err = io.ErrUnexpectedEOF
	}
	return true, retriable{error: c.unreachable(err), sent: true}
}

// FollowTexts calls fn with what models write in a run while they write it, like
// feed.Feed.FollowTexts. It reopens a lost connection until the context ends: texts are sent once,
// and nothing waits for them.
func (c *Client) FollowTexts(ctx context.Context, id int64, fn func(store.LiveText) error) error {
	for {
		err := c.readTexts(ctx, id, fn)
		var ended callbackError
		var again retriable
		switch {
		case errors.As(err, &ended):
			if errors.Is(ended.error, feed.ErrStop) {
				return nil
			}
			return ended.error
		case ctx.Err() != nil:
			return ctx.Err()
		case !errors.As(err, &again):
			return err
		}
		if wait(ctx, reconnectPause) != nil {
			return ctx.Err()
		}
	}
}

// readTexts reads the texts of a stream until it ends. Another server may send events instead, which
// are skipped.
func (c *Client) readTexts(ctx context.Context, id int64, fn func(store.LiveText) error) error {
	r := read(runPath(id, "stream")...)
	r.query = url.Values{"text": {"only"}}
	body, err := c.openStream(ctx, r, http.Header{"Accept": {"text/event-stream"}})
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	lines := bufio.NewScanner(body)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	name, data := "", ""
	for lines.Scan() {
		switch key, value, _ := strings.Cut(lines.Text(), ": "); key {
		case "event":
			name = value
		case "data":
			data = value
		case "": // a text is complete when an empty line follows
			if name == apitypes.TextEvent && data != "" {
				var t store.LiveText
				if json.Unmarshal([]byte(data), &t) != nil || t.RunID != id {
					return c.notThisAPI("its stream contains unexpected data")
				}
				if err := fn(t); err != nil {
					return callbackError{err}
				}
			}
			name, data = "", ""
		}
	}
	return retriable{error: c.unreachable(cmp.Or(lines.Err(), io.ErrUnexpectedEOF)), sent: true}
}
