package scripted

import (
	"context"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/await"
)

func TestARestartKeepsWhatIsUsedUp(t *testing.T) {
	t.Parallel()
	const scenario = "rules:\n  - {reply: {text: a}, times: 3}\n  - {fault: {status: 500}, times: 1}\n  - {reply: {text: b}}\n"
	folder := t.TempDir()
	s := start(t, scenario, folder)
	require.Equal(t, "a", s.reply(ask{}))
	require.Equal(t, "a", s.reply(ask{}))
	s.stop()

	s = start(t, scenario, folder)
	require.Equal(t, "a", s.reply(ask{}))
	require.Equal(t, "500", s.reply(ask{}))
	s.stop()

	s = start(t, scenario, folder)
	require.Equal(t, "b", s.reply(ask{}))
	require.Len(t, s.lines(), 5, "the log goes on")
	s.stop()

	t.Run("another scenario starts over", func(t *testing.T) {
		s := start(t, scenario+"# changed\n", folder)
		require.Equal(t, "a", s.reply(ask{}))
		s.stop()
	})
	t.Run("without its log it starts over", func(t *testing.T) {
		require.NoError(t, os.Remove(s.log))
		s := start(t, scenario+"# changed\n", folder)
		for range 3 {
			require.Equal(t, "a", s.reply(ask{}))
		}
		require.Equal(t, "500", s.reply(ask{}))
	})
}

func TestAServerKilledDuringAWriteContinues(t *testing.T) {
	t.Parallel()
	const scenario = "rules:\n  - {reply: {text: a}, times: 2}\n  - {reply: {text: b}}\n"
	folder := t.TempDir()
	s := start(t, scenario, folder)
	require.Equal(t, "a", s.reply(ask{}))
	s.stop()
	for _, path := range []string{s.log, statePath(s.log)} {
		file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		require.NoError(t, err)
		_, err = file.WriteString(`{"rule":1,"ke`)
		require.NoError(t, err)
		require.NoError(t, file.Close())
	}
	lines, err := ReadLog(s.log)
	require.NoError(t, err, "a line without its end is not one")
	require.Len(t, lines, 1)

	s = start(t, scenario, folder)
	require.Equal(t, "a", s.reply(ask{}))
	require.Equal(t, "b", s.reply(ask{}))
	s.stop()
	s = start(t, scenario, folder)
	require.Equal(t, "b", s.reply(ask{}))
	data, err := os.ReadFile(s.log)
	require.NoError(t, err)
	require.Equal(t, 5, strings.Count(string(data), "\n"), "four requests and the torn line")
}

func TestARepeatedKeyGetsTheSameReplyAndUsesNothingUp(t *testing.T) {
	t.Parallel()
	const scenario = "rules:\n  - {reply: {text: a}, times: 1}\n  - {reply: {text: b}, times: 1}\n  - {reply: {text: c}}\n"
	folder := t.TempDir()
	s := start(t, scenario, folder)
	require.Equal(t, "a", s.reply(ask{key: "k1"}))
	require.Equal(t, "a", s.reply(ask{key: "k1"}))
	require.Equal(t, "b", s.reply(ask{key: "k2"}))
	s.stop()

	s = start(t, scenario, folder)
	require.Equal(t, "a", s.reply(ask{key: "k1"}), "also after a restart")
	require.Equal(t, "b", s.reply(ask{key: "k2"}))
	require.Equal(t, "c", s.reply(ask{key: "k3"}))
	require.Equal(t, "c", s.reply(ask{}), "no key is no key")
}

func TestARepeatedKeyWithAnotherQuestionIsANewRequest(t *testing.T) {
	t.Parallel()
	s := start(t, "rules:\n  - {when: {turn: 1}, reply: {text: a}, times: 1}\n  - {reply: {text: b}}\n", t.TempDir())
	require.Equal(t, "a", s.reply(ask{key: "k", caller: caller{turn: 1}}))
	require.Equal(t, "b", s.reply(ask{key: "k", caller: caller{turn: 2}}))
}

func TestAFaultIsNeverRepeatedForAKey(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]string{"status": "{status: 429}", "truncate": "{truncate: true}", "malformed": "{malformed: true}", "disconnect": "{disconnect: true}"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, "rules:\n  - {fault: "+f+", times: 1}\n  - {reply: {text: well}, times: 1}\n  - {reply: {text: too far}}\n", t.TempDir())
			resp, err := http.DefaultClient.Do(ask{key: "k"}.request(t.Context(), t, s.url))
			if err == nil {
				_ = resp.Body.Close()
			}
			await.Until(t, "the line of the request", func() bool { return len(s.lines()) == 1 })
			require.Equal(t, "well", s.reply(ask{key: "k"}))
			require.Equal(t, "well", s.reply(ask{key: "k"}))
		})
	}
}

func TestAClientThatVanishedDuringTheLatencyGetsTheSameReplyLater(t *testing.T) {
	t.Parallel()
	const scenario = "rules:\n  - {latency: 1500ms, reply: {text: a}, times: 1}\n  - {reply: {text: b}}\n"
	s := start(t, scenario, t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var vanished error
	wg.Go(func() {
		vanished = s.breaks(ask{key: "k"}.request(ctx, t, s.url))
	})
	// The rule is taken once the state says so.
	await.Until(t, "the state of the rule", func() bool {
		data, err := os.ReadFile(statePath(s.log))
		return err == nil && strings.Count(string(data), "\n") == 2
	})
	cancel()
	wg.Wait()
	require.ErrorIs(t, vanished, context.Canceled)
	await.Until(t, "the line of the request", func() bool { return len(s.lines()) == 1 })
	require.Equal(t, StatusClientGone, s.lines()[0].Status)
	require.Zero(t, s.lines()[0].CompletionTokens, "what nobody got is not served")

	require.Equal(t, "b", s.reply(ask{key: "other"}))
	require.Equal(t, "a", s.reply(ask{key: "k"}))
}

func TestTheSameKeyTwiceAtOnceUsesARuleOnce(t *testing.T) {
	t.Parallel()
	s := start(t, "rules:\n  - {latency: 20ms, reply: {text: a}, times: 1}\n  - {reply: {text: b}}\n", t.TempDir())
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() { require.Equal(t, "a", s.reply(ask{key: "k"})) })
	}
	wg.Wait()
}

func TestWithoutALogNothingIsWritten(t *testing.T) {
	t.Parallel()
	sc, err := Parse("s", []byte("rules:\n  - {reply: {text: a}, times: 1}\n"))
	require.NoError(t, err)
	server, err := New(sc, Options{})
	require.NoError(t, err)
	require.NoError(t, server.Close())
	require.NoError(t, server.Close(), "closing twice is closing once")
}
