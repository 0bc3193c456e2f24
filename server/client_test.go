package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/apiclient"
	"github.com/rocketgpt/orchestrator/internal/apitypes"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/runs/rerun"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/feed"
	"github.com/rocketgpt/orchestrator/internal/version"
)

// clientOf returns a client of a handler that is served over HTTP.
func clientOf(t *testing.T, h http.Handler, warn func(string)) (*apiclient.Client, string) {
	t.Helper()
	site := httptest.NewServer(h)
	t.Cleanup(site.Close)
	c, err := apiclient.New(site.URL, warn)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c, site.URL
}

func quietly(string) {}

func TestTheClientsErrorsAreThoseOfTheStore(t *testing.T) {
	t.Parallel()
	b := setup(t)
	c, _ := clientOf(t, b.handler, quietly)
	_, here := b.Run(t.Context(), 999999)
	_, there := c.Run(t.Context(), 999999)
	require.ErrorIs(t, there, store.ErrNotFound)
	require.Equal(t, fault.Of(here), fault.Of(there))
	require.Equal(t, here.Error(), there.Error())
	id := b.run(t, "x")
	_, err := c.Rejudge(t.Context(), id, control.Rules{PinnedTests: "never"})
	require.Equal(t, contract.ClassHuman, fault.Of(err).Class)
	require.Contains(t, fault.Of(err).Message, "never")
}

func TestTheTimingOfARunWhoseHistoryCannotBeReadSaysSoAndNothingOfTheInside(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.run(t, "x")
	c, _ := clientOf(t, b.handler, quietly)
	timing, err := c.Timing(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, id, timing.RunID)
	require.NotEmpty(t, timing.Parts)
	require.Contains(t, timing.Note, "git and queue time is counted as orchestration")
	require.NotContains(t, b.get(t, fmt.Sprintf("/api/runs/%d/timing", id)).Body.String(), "secret text")
}

// abortingWriter ends every answer to a stream after some bytes, whatever they are.
type abortingWriter struct {
	http.ResponseWriter
	left int
}

func (c *abortingWriter) Write(p []byte) (int, error) {
	if len(p) > c.left {
		_, _ = c.ResponseWriter.Write(p[:c.left])
		_ = http.NewResponseController(c.ResponseWriter).Flush()
		panic(http.ErrAbortHandler) //nolint:forbidigo // as net/http has it: the connection ends
	}
	c.left -= len(p)
	return c.ResponseWriter.Write(p)
}

func (c *abortingWriter) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func TestABrokenStreamContinuesWithoutAMissedOrDoubleEvent(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.run(t, "x")
	for range 30 {
		b.record(t, contract.Record{RunID: id, Events: []contract.EventDraft{{Type: contract.EventRunUpdated, Payload: map[string]any{"text": strings.Repeat("a", 50)}}}})
	}
	var opened atomic.Int64
	c, _ := clientOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := opened.Add(1)
		if n%4 == 0 {
			http.Error(w, "a proxy that has lost its server", http.StatusBadGateway)
			return
		}
		b.handler.ServeHTTP(&abortingWriter{w, 900 + 317*int(n)}, r)
	}), quietly)
	var seen []int64
	require.NoError(t, c.Follow(t.Context(), id, 2, func(e contract.Event) error {
		require.Equal(t, id, e.RunID)
		if seen = append(seen, e.Seq); e.Seq == 31 {
			return feed.ErrStop
		}
		return nil
	}))
	for i, seq := range seen {
		require.Equal(t, int64(i+3), seq)
	}
	require.Len(t, seen, 29)
	require.Greater(t, opened.Load(), int64(4), "the stream was cut")
	mine := errors.New("mine")
	require.ErrorIs(t, c.Follow(t.Context(), id, 0, func(contract.Event) error { return mine }), mine)
	require.ErrorIs(t, c.Follow(t.Context(), 999999, 0, nil), store.ErrNotFound)
	ended, cancel := context.WithCancel(t.Context())
	require.ErrorIs(t, c.Follow(ended, id, 30, func(contract.Event) error { cancel(); return nil }), context.Canceled)
}

func TestAnUnavailableServerIsRetriedABoundedNumberOfTimes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.run(t, "x")
	for _, status := range []int{http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout} {
		var asked atomic.Int64
		until := int64(3)
		flaky, _ := clientOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if asked.Add(1) < until {
				http.Error(w, "away", status)
				return
			}
			b.handler.ServeHTTP(w, r)
		}), quietly)
		_, err := flaky.Run(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, until, asked.Load())
		asked.Store(0)
		until = 1000
		_, err = flaky.Run(t.Context(), id)
		require.Equal(t, contract.ClassInfra, fault.Of(err).Class)
		require.Contains(t, err.Error(), fmt.Sprint(status))
		require.Equal(t, int64(apiclient.MaxAttempts), asked.Load())
	}
}

func TestWhatIsRefusedAfterALostAnswerMayBeWhatTheCommandDid(t *testing.T) {
	t.Parallel()
	var keys []string
	c, _ := clientOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if keys = append(keys, r.Header.Get(apitypes.KeyHeader)); len(keys) == 1 {
			panic(http.ErrAbortHandler) //nolint:forbidigo // as net/http has it: the connection ends
		}
		w.Header().Set("Content-Type", apitypes.ProblemType)
		w.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(w, `{"title": "x", "status": 409, "detail": "run 7 is at work", "error_type": "HUMAN_ERROR", "code": "rejected"}`)
	}), quietly)
	_, err := c.Resume(t.Context(), 7, contract.Command{})
	require.Equal(t, contract.CodeRejected, fault.Of(err).Code)
	require.Contains(t, err.Error(), "run 7 is at work; an earlier attempt, whose response was lost")
	require.Len(t, keys, 2)
	require.NotEmpty(t, keys[0])
	require.Equal(t, keys[0], keys[1])
}

func TestAServerOfAnotherMajorVersionIsWarnedOfOnce(t *testing.T) {
	// Not parallel: the version is the program's.
	b := setup(t)
	id := b.run(t, "x")
	old := version.Version
	version.Version = "v2.1.0"
	defer func() { version.Version = old }()
	for server, warnings := range map[string]int{"v3.0.0": 1, "2.9.1": 0, "dev": 0, "": 0} {
		var said []string
		c, _ := clientOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { b.handler.ServeHTTP(versioned{w, server}, r) }),
			func(text string) { said = append(said, text) })
		for range 3 {
			_, err := c.Run(t.Context(), id)
			require.NoError(t, err)
		}
		require.Len(t, said, warnings, "server %q", server)
	}
	require.Equal(t, "v2.1.0", b.get(t, "/healthz").Header().Get(apitypes.VersionHeader))
}

// versioned is an answer of a server of another version.
type versioned struct {
	http.ResponseWriter
	version string
}

func (v versioned) WriteHeader(status int) {
	v.Header().Set(apitypes.VersionHeader, v.version)
	v.ResponseWriter.WriteHeader(status)
}

func TestARedirectIsNotFollowed(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer other.Close()
	c, address := clientOf(t, http.RedirectHandler(other.URL, http.StatusTemporaryRedirect), quietly)
	_, err := c.Steer(t.Context(), 7, contract.UpdateStop, contract.Command{})
	require.Equal(t, contract.ClassConfig, fault.Of(err).Class)
	require.Contains(t, err.Error(), address)
	require.Zero(t, asked.Load(), "a command goes where the user sends it")
}

func TestAFileThatEndsEarlyIsNoFile(t *testing.T) {
	t.Parallel()
	c, _ := clientOf(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "half")
	}), quietly)
	f, err := c.File(t.Context(), contract.Artifact{ID: 1, RunID: 1})
	require.NoError(t, err)
	defer f.Close()
	_, err = io.ReadAll(f)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

func TestAPasswordInTheAddressIsSentAndNeverShown(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.run(t, "x")
	site := httptest.NewServer(http.StripPrefix("/below", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "ann" || password != "hunter2secret" {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		b.handler.ServeHTTP(w, r)
	})))
	defer site.Close()
	c, err := apiclient.New(strings.Replace(site.URL, "http://", "http://ann:hunter2secret@", 1)+"/below/", quietly)
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Run(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, site.URL+"/below", c.Address())
	wrong, err := apiclient.New(strings.Replace(site.URL, "http://", "http://ann:hunter3secret@", 1)+"/below", quietly)
	require.NoError(t, err)
	defer wrong.Close()
	_, err = wrong.Run(t.Context(), id)
	require.Error(t, err)
	require.NotContains(t, err.Error(), "hunter3secret")
	require.Contains(t, err.Error(), "401")
}

func TestACommandThatIsStillCarriedOutIsWaitedFor(t *testing.T) {
	t.Parallel()
	const id = 7
	var asked atomic.Int64
	c, _ := clientOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch n := asked.Add(1); {
		case n == 1:
			panic(http.ErrAbortHandler) //nolint:forbidigo // as net/http has it: the connection ends
		case n <= apiclient.MaxAttempts+1: // the first try is still running
			w.Header().Set("Content-Type", apitypes.ProblemType)
			w.Header().Set("Retry-After", "2")
			w.WriteHeader(http.StatusConflict)
			_, _ = io.WriteString(w, `{"title": "The same request is already in progress", "status": 409, "detail": "Retry shortly", "code": "conflict"}`)
		default:
			_, _ = io.WriteString(w, `{"runId": 7, "phase": "tester", "workflow_run_id": "x", "begun": true}`)
		}
	}), quietly)
	got, err := c.Replay(t.Context(), rerun.Request{RunID: id, Phase: contract.PhaseTester}, control.ModelOverride{})
	require.NoError(t, err)
	require.True(t, got.Started)
	require.EqualValues(t, apiclient.MaxAttempts+2, asked.Load())
}

func TestARunThatAnEarlierCallMadeIsNotNew(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.run(t, "x")
	b.record(t, contract.Record{RunID: id, Run: &contract.RunChange{Status: contract.StatusFailed, Phase: contract.PhasePlanner, Finished: true}})
	for name, c := range map[string]struct {
		lose, replayed, fresh bool
		status                contract.Status
	}{
		"made now":                      {false, false, true, contract.StatusPending},
		"made by an earlier call":       {false, true, false, contract.StatusFailed},
		"made now, the answer was lost": {true, true, true, contract.StatusPending},
	} {
		var posts atomic.Int64
		client, _ := clientOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodPost {
				b.handler.ServeHTTP(w, r)
				return
			}
			if posts.Add(1) == 1 && c.lose {
				panic(http.ErrAbortHandler) //nolint:forbidigo // as net/http has it: the connection ends
			}
			if c.replayed {
				w.Header().Set(apitypes.ReplayedHeader, "true")
			}
			w.WriteHeader(http.StatusCreated)
			_, _ = fmt.Fprintf(w, `{"runId": %d, "status": "pending", "created": true}`, id)
		}), quietly)
		made, err := client.Create(t.Context(), control.Creation{Repo: "/r", Goal: "x", Key: "k"})
		require.NoError(t, err, name)
		require.Equal(t, c.fresh, made.Fresh, name)
		require.Equal(t, c.status, made.Run.Status, name)
	}
}

func TestARunThatDoesNotAnswerIsWaitedForOnceAndReported(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.run(t, "x")
	var asked atomic.Int64
	c, _ := clientOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		b.handler.ServeHTTP(w, r)
	}), quietly)
	runs := &control.Runs{Store: b.Store, Views: b.Views, Feed: b.Feed, Temporal: b.temporal}
	_, here := runs.Steer(t.Context(), id, contract.UpdatePause, contract.Command{})
	_, there := c.Steer(t.Context(), id, contract.UpdatePause, contract.Command{})
	require.Equal(t, contract.CodeTimeout, fault.Of(here).Code)
	require.Equal(t, contract.CodeTimeout, fault.Of(there).Code)
	require.Equal(t, fault.Of(here).Class, fault.Of(there).Class)
	require.Equal(t, fault.Of(here).Message, fault.Of(there).Message)
	require.EqualValues(t, 1, asked.Load())
}
