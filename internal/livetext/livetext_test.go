package livetext_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rocketgpt/orchestrator/internal/livetext"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(storetest.Main(m)) }

const every = 500 * time.Millisecond

// audience records what is shown, in place of the database.
type audience struct {
	mu    sync.Mutex
	away  bool  // nobody watches
	err   error // of the database
	tries int
	seen  []store.LiveText
}

func (a *audience) ShowText(_ context.Context, t store.LiveText) (bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tries++
	if a.err != nil || a.away {
		return false, a.err
	}
	a.seen = append(a.seen, t)
	return true, nil
}

func (a *audience) last(t *testing.T) store.LiveText {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	require.NotEmpty(t, a.seen)
	return a.seen[len(a.seen)-1]
}

// inCall runs a test with the writer of a call, in time that passes only when all are idle.
func inCall(t *testing.T, do func(t *testing.T, w *livetext.Writer, a *audience)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a := &audience{}
		w := livetext.Start(t.Context(), a, store.LiveText{RunID: 7, ExecutionID: 8, Turn: 2, Try: 1}, every, slog.New(slog.DiscardHandler))
		do(t, w, a)
		synctest.Wait()
	})
}

// pass lets time pass.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestHoweverFastAModelWritesItsTextIsShownOnceInEachInterval(t *testing.T) {
	t.Parallel()
	inCall(t, func(t *testing.T, w *livetext.Writer, a *audience) {
		const pieces = 10_000 // in 10 seconds
		for range pieces {
			w.Add(model.DeltaText, "word ")
			<-time.After(time.Millisecond)
		}
		synctest.Wait()
		require.LessOrEqual(t, a.tries, 20)
		require.GreaterOrEqual(t, a.tries, 18)
		last := a.last(t)
		require.LessOrEqual(t, len(last.Text), store.LiveTextBytes)
		require.GreaterOrEqual(t, len(last.Text), store.LiveTextBytes-len("word "))
		require.Equal(t, [4]int64{7, 8, 2, 1}, [4]int64{last.RunID, last.ExecutionID, int64(last.Turn), int64(last.Try)})
		w.End()
		synctest.Wait()
		require.Equal(t, store.LiveText{RunID: 7, ExecutionID: 8, Turn: 2, Try: 1, Over: true}, a.last(t), "the end clears the text")
	})
}

func TestACallThatEndsWithinTheFirstIntervalIsNotShown(t *testing.T) {
	t.Parallel()
	inCall(t, func(t *testing.T, w *livetext.Writer, a *audience) {
		w.Add(model.DeltaText, "a short answer ")
		pass(every - time.Millisecond)
		w.End()
		pass(time.Minute)
		require.Zero(t, a.tries)
	})
}

func TestATextThatDoesNotChangeIsShownAgainOnlySoThatItIsNotTakenForLost(t *testing.T) {
	t.Parallel()
	inCall(t, func(t *testing.T, w *livetext.Writer, a *audience) {
		pass(time.Minute) // the provider has sent nothing yet
		require.Zero(t, a.tries)
		w.Add(model.DeltaReasoning, "secret thoughts")
		pass(time.Minute)
		require.InDelta(t, float64(time.Minute/store.LiveTextRenewal), float64(len(a.seen)), 1)
		require.True(t, a.last(t).Thinking)
		require.Empty(t, a.last(t).Text, "what it thinks is not shown")
		w.End()
	})
}

func TestWhoComesLaterSeesTheTextThatWasWrittenBefore(t *testing.T) {
	t.Parallel()
	inCall(t, func(t *testing.T, w *livetext.Writer, a *audience) {
		a.away = true
		w.Add(model.DeltaText, "written before anybody watched ")
		pass(10 * every)
		require.Empty(t, a.seen)
		a.mu.Lock()
		a.away, a.err = false, errors.New("the database is down")
		a.mu.Unlock()
		pass(every)
		a.mu.Lock()
		a.err = nil
		a.mu.Unlock()
		pass(every)
		require.Equal(t, "written before anybody watched ", a.last(t).Text)
		w.End()
	})
}

func TestOfAToolCallItsNamePathAndLengthAreShown(t *testing.T) {
	t.Parallel()
	inCall(t, func(t *testing.T, w *livetext.Writer, a *audience) {
		w.Add(model.DeltaText, "I change the file. ")
		w.Add(model.DeltaTool, "read_file")
		w.Add(model.DeltaArguments, `{"path":"other.txt"}`)
		w.Add(model.DeltaTool, "edit_file")
		w.Add(model.DeltaArguments, `{"path": "sub/hel`)
		pass(every)
		require.Empty(t, a.last(t).Path, "it is not complete")
		w.Add(model.DeltaArguments, `lo.txt", "new_text": "`+strings.Repeat("é", 5000))
		pass(every)
		last := a.last(t)
		require.Equal(t, []any{"edit_file", "sub/hello.txt", "I change the file. "}, []any{last.Tool, last.Path, last.Text})
		require.Equal(t, len(`{"path": "sub/hello.txt", "new_text": "`)+5000, last.Characters)
		w.Add(model.DeltaText, "And more. ")
		pass(every)
		require.Empty(t, a.last(t).Tool)
		w.End()
	})
}

func TestHostileTextIsShownWithoutWhatIsNotVisibleAndWithoutSecrets(t *testing.T) {
	t.Parallel()
	token := "ghp_" + strings.Repeat("x9Y", 12)
	inCall(t, func(t *testing.T, w *livetext.Writer, a *audience) {
		w.Add(model.DeltaText, "a\x1b[31mb\u202ec\x00d\r\xff \n"+strings.Repeat("<b>", 10)+" ")
		w.Add(model.DeltaTool, token+"\x1b]0;x\a")
		w.Add(model.DeltaArguments, `{"path":"\x1b`+"\x1b[2J"+token+`"}`)
		pass(every)
		last := a.last(t)
		require.Equal(t, "a[31mbcd  \n"+strings.Repeat("<b>", 10)+" ", last.Text)
		require.NotContains(t, last.Tool+last.Path, "\x1b")
		require.NotContains(t, last.Tool+last.Path, token[4:12])
		w.Add(model.DeltaText, strings.Repeat("x", 40_000)+" the token is "+token[:15])
		pass(every)
		require.NotContains(t, a.last(t).Text, "ghp_")
		w.Add(model.DeltaText, token[15:]+" of course ")
		pass(every)
		require.Contains(t, a.last(t).Text, "the token is [redacted] of course ")
		w.End()
	})
}

func TestASecretWhoseBeginningIsNoLongerKeptStaysHidden(t *testing.T) {
	t.Parallel()
	body := strings.Repeat("MIIEowABCDEFGHIJ\n", 500)
	inCall(t, func(t *testing.T, w *livetext.Writer, a *audience) {
		w.Add(model.DeltaText, strings.Repeat("word ", 20_000)+"-----BEGIN PRIVATE KEY"+"-----\n")
		for range 10 {
			w.Add(model.DeltaText, body[:len(body)/10])
			pass(every)
			require.NotContains(t, a.last(t).Text, "MIIE")
		}
		w.End()
	})
}

func TestASecretIsHiddenWhateverInvisibleCharactersAreInIt(t *testing.T) {
	t.Parallel()
	inCall(t, func(t *testing.T, w *livetext.Writer, a *audience) {
		w.Add(model.DeltaText, "The key is sk-ant-api03-\u200bAbCdEfGhIjKlMnOp\x00QrStUvWxYz0123456789\xff-AbCdEfGhIjKl and more ")
		pass(every + time.Millisecond)
		require.Equal(t, "The key is [redacted] and more", strings.TrimSpace(a.last(t).Text))
		w.Add(model.DeltaTool, "read\u200b_file")
		w.Add(model.DeltaArguments, `{"path":"sk-ant-api03-`+"\u200b"+`AbCdEfGhIjKlMnOpQrStUvWxYz0123456789-AbCdEfGhIjKl"`)
		pass(every)
		defer w.End()
		require.Equal(t, []string{"read_file", "[redacted]"}, []string{a.last(t).Tool, a.last(t).Path})
	})
}
