package activities_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/scripted"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/feed"
	"github.com/rocketgpt/orchestrator/internal/storetest"
)

// stepped is a fixture whose scripted model sends each event of a stream only when the test says so.
type stepped struct {
	*fixture
	next  chan struct{} // one event; closed: all
	cut   chan struct{} // breaks the connection instead
	texts chan store.LiveText
}

// step lets the model send one event.
func (s *stepped) step() { s.next <- struct{}{} }

// steps waits before each write of a response.
type steps struct {
	http.ResponseWriter
	ctx  context.Context //nolint:containedctx // of the request
	next <-chan struct{}
	cut  <-chan struct{}
}

func (s steps) Write(p []byte) (int, error) {
	select {
	case <-s.next:
	case <-s.ctx.Done():
	case <-s.cut:
		panic(http.ErrAbortHandler) //nolint:forbidigo // how a handler breaks its connection
	}
	n, err := s.ResponseWriter.Write(p)
	_ = http.NewResponseController(s.ResponseWriter).Flush()
	return n, err
}

func (s steps) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// writingStep returns a stepped fixture whose run's texts are followed.
func writingStep(t *testing.T, rules string) *stepped {
	t.Helper()
	s := &stepped{fixture: newFixture(t, rules), next: make(chan struct{}), cut: make(chan struct{}), texts: make(chan store.LiveText, 10_000)}
	scenario, err := scripted.Parse("test", []byte("rules:\n"+rules))
	require.NoError(t, err)
	model, err := scripted.New(scenario, scripted.Options{LogPath: filepath.Join(t.TempDir(), "requests.jsonl")})
	require.NoError(t, err)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		model.ServeHTTP(steps{w, r.Context(), s.next, s.cut}, r)
	}))
	t.Cleanup(func() { require.NoError(t, model.Close()); web.Close() })
	provider := s.Config.Models.Providers[setup.Scripted]
	provider.BaseURL = web.URL + "/v1"
	s.Config.Models.Providers[setup.Scripted] = provider
	s.Config.Models.LiveTextEvery = 10 * time.Millisecond
	s.Model.Close()
	s.Model, err = setup.Model(s.Config)
	require.NoError(t, err)
	t.Cleanup(s.Model.Close)

	events := storetest.Feed(t, s.Store, feed.Options{})
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() {
		ended <- events.FollowTexts(ctx, s.run.ID, func(x store.LiveText) error { s.texts <- x; return nil })
	}()
	t.Cleanup(func() {
		stop()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
	return s
}

// until returns the first text that is as wanted, and the ones before it.
func (s *stepped) until(what string, wanted func(store.LiveText) bool) (last store.LiveText, before []store.LiveText) {
	s.t.Helper()
	late := time.After(time.Minute)
	for {
		select {
		case x := <-s.texts:
			if wanted(x) {
				return x, before
			}
			before = append(before, x)
		case <-late:
			require.Failf(s.t, "too late", "no text was %s; got %+v", what, before)
		}
	}
}

const sayHello = "I have read the file, and now I change its greeting: it says hello to everyone who is there."

const sayAndEdit = `
  - when: {agent: builder, turn: 1}
    reply:
      text: "` + sayHello + `"
      tool_calls: [{name: edit_file, arguments: {path: hello.txt, old_text: hello, new_text: hello there}}, {name: finish, arguments: {summary: said more}}]
`

func TestWhatAModelWritesIsSeenBeforeItsCallEndsAndGoneAfterwards(t *testing.T) {
	t.Parallel()
	h := writingStep(t, sayAndEdit)
	e, _ := h.openStep()
	call := think(t.Context(), h.Activities, contract.ThinkInput{Execution: e, Turn: 1, Model: choice})
	h.step() // its role
	h.step() // the beginning of its text
	text, _ := h.until("with a beginning", func(x store.LiveText) bool { return x.Text != "" })
	require.True(t, strings.HasPrefix(sayHello, text.Text), text.Text)
	require.Less(t, len(text.Text), len(sayHello))
	require.Equal(t, store.LiveText{
		RunID: h.run.ID, ExecutionID: e.ID, Turn: 1, Try: 1, Phase: contract.PhaseBuilder, Agent: contract.AgentBuilder, Step: "step-001", Attempt: 1, Text: text.Text,
	}, text)
	for range 5 { // the rest of the text, and the tool's name
		h.step()
	}
	tool, _ := h.until("a tool call", func(x store.LiveText) bool { return x.Tool != "" })
	require.Equal(t, "edit_file", tool.Tool)
	select {
	case early := <-call:
		require.Failf(t, "the call has ended", "%+v", early)
	default:
	}
	close(h.next)
	require.NoError(t, (<-call).err)
	over, _ := h.until("over", func(x store.LiveText) bool { return x.Over })
	require.Empty(t, over.Text)
	stored, err := h.Store.Conversation(t.Context(), e.ID)
	require.NoError(t, err)
	require.Contains(t, string(stored[len(stored)-1].Content), sayHello, "the answer is stored, and it alone")
	pieces, err := h.Views.LastOutput(t.Context(), h.run.ID, 10)
	require.NoError(t, err)
	require.Empty(t, pieces)
}

func TestASecretInTwoPiecesOfAStreamIsNotSeen(t *testing.T) {
	t.Parallel()
	token := "ghp_" + strings.Repeat("x9Y", 12)
	h := writingStep(t, `
  - when: {agent: builder, turn: 1}
    reply:
      text: "The key of the service is `+token+` and I use it in the test of the client, as I was told."
      tool_calls: [{name: finish, arguments: {summary: said more}}]
`)
	e, _ := h.openStep()
	call := think(t.Context(), h.Activities, contract.ThinkInput{Execution: e, Turn: 1, Model: choice})
	var seen []store.LiveText
	h.step()      // its role
	for range 3 { // pieces, of which the first two have parts of the token
		h.step()
		_, before := h.until("shown", func(store.LiveText) bool { return true })
		seen = append(seen, before...)
	}
	h.step()
	last, before := h.until("complete", func(x store.LiveText) bool { return strings.Contains(x.Text, "as I was") })
	close(h.next)
	require.NoError(t, (<-call).err)
	require.Contains(t, last.Text, "is [redacted] and")
	for _, x := range append(append(seen, before...), last) {
		require.NotContains(t, x.Text, "ghp_")
		require.NotContains(t, x.Text, token[20:24])
	}
}

func TestTheTextOfASecondTryReplacesThatOfTheFirst(t *testing.T) {
	t.Parallel()
	h := writingStep(t, sayAndEdit)
	e, _ := h.openStep()
	in := contract.ThinkInput{Execution: e, Turn: 1, Model: choice}
	first := think(t.Context(), h.Activities, in)
	h.step()
	h.step()
	text, _ := h.until("of the first try", func(x store.LiveText) bool { return x.Text != "" })
	require.Equal(t, 1, text.Try)
	h.cut <- struct{}{}
	require.Error(t, (<-first).err, "the connection is broken")
	second := think(t.Context(), h.Activities, in)
	for range 5 {
		h.step()
	}
	text, before := h.until("of the second try", func(x store.LiveText) bool { return x.Try == 2 && x.Text != "" })
	require.True(t, strings.HasPrefix(sayHello, text.Text), text.Text)
	require.True(t, before[len(before)-1].Over || before[len(before)-1].Try == 2, "the first try's text is over: %+v", before)
	close(h.next)
	require.NoError(t, (<-second).err)
	h.until("over", func(x store.LiveText) bool { return x.Over && x.Try == 2 })
}

func TestNothingIsShownIfTheOperatorDoesNotWantIt(t *testing.T) {
	t.Parallel()
	h := writingStep(t, sayAndEdit)
	h.Config.Models.LiveText = false
	e, _ := h.openStep()
	call := think(t.Context(), h.Activities, contract.ThinkInput{Execution: e, Turn: 1, Model: choice})
	for range 4 {
		h.step()
	}
	mark := store.LiveText{RunID: h.run.ID, Text: "mark"}
	for marks := 0; marks < 20; { // while many intervals pass
		watched, err := h.Store.ShowText(t.Context(), mark)
		require.NoError(t, err)
		if !watched {
			continue
		}
		marks++
		x := <-h.texts
		require.Equal(t, mark, x)
		<-time.After(h.Config.Models.LiveTextEvery)
	}
	close(h.next)
	require.NoError(t, (<-call).err)
}
