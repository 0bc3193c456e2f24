package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/await"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/providers"
)

// screen is a terminal, with all that was written to it.
type screen struct {
	tty *os.File

	mu  sync.Mutex
	all strings.Builder
}

func (s *screen) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all.String()
}

// newScreen opens a pseudo-terminal.
func newScreen(t *testing.T) *screen {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("this machine has no pseudo-terminals: %v", err)
	}
	var n int
	control, err := master.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, control.Control(func(fd uintptr) {
		if err = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); err == nil {
			n, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
	}))
	require.NoError(t, err)
	tty, err := os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	s := &screen{tty: tty}
	read := make(chan struct{})
	go func() {
		defer close(read)
		buf := make([]byte, 4096)
		for {
			n, err := master.Read(buf)
			s.mu.Lock()
			s.all.Write(buf[:n])
			s.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		require.NoError(t, tty.Close())
		<-read
		_ = master.Close()
	})
	return s
}

func TestWatchShowsOnATerminalWhatModelsWriteUntilTheirCallsEnd(t *testing.T) {
	t.Parallel()
	p := withStore(t)
	id := withEnvironment(t, p)
	s := newScreen(t)
	a := newApp(strings.NewReader(""), s.tty, io.Discard)
	a.env = p.env
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	code := make(chan int, 1)
	go func() { code <- execute(ctx, a, []string{"--data-dir", p.dir, "run", "watch", fmt.Sprint(id)}) }()

	text := store.LiveText{RunID: id, ExecutionID: 5, Turn: 1, Try: 1, Agent: contract.AgentBuilder, Step: "step-001", Text: "First line.\nNow I change \x1b[31m the greeting"}
	show := func(x store.LiveText, want string) {
		t.Helper()
		await.Until(t, want, func() bool {
			_, err := p.ShowText(t.Context(), x)
			require.NoError(t, err)
			return strings.Contains(s.text(), want)
		})
	}
	show(text, "builder step-001: Now I change [31m the greeting")
	text.Tool, text.Path, text.Characters = "edit_file", "hello.txt", 1234
	show(text, "writing edit_file hello.txt (1234 characters)")
	text.Tool, text.Thinking = "", true
	show(text, "thinking…")
	before := len(s.text())
	_, err := p.ShowText(t.Context(), store.LiveText{RunID: id, ExecutionID: 5, Turn: 1, Try: 1, Over: true})
	require.NoError(t, err)
	await.Until(t, "a status line without it", func() bool {
		rest := s.text()[before:]
		i := strings.LastIndex(rest, "\r\x1b[2K")
		return i >= 0 && !strings.Contains(rest[i:], "thinking")
	})
	p.end(t, id)
	require.Equal(t, exitDone, <-code)
	require.NotContains(t, s.text(), "\x1b[31m the greeting")
}

func TestWatchShowsThePositionOfACallThatWaitsForItsProvider(t *testing.T) {
	t.Parallel()
	p := withStore(t)
	id := withEnvironment(t, p)
	s := newScreen(t)
	a := newApp(strings.NewReader(""), s.tty, io.Discard)
	a.env = p.env
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	code := make(chan int, 1)
	go func() { code <- execute(ctx, a, []string{"--data-dir", p.dir, "run", "watch", fmt.Sprint(id)}) }()

	rows, limits := providers.New(p.Store), providers.Limits{Requests: 1}
	queue := func(run int64) int64 {
		t.Helper()
		call, err := rows.Enqueue(t.Context(), providers.QueuedCall{Provider: "metered", Model: "m", RunID: run, Agent: contract.AgentBuilder, Step: "step-001"}, time.Minute)
		require.NoError(t, err)
		require.NoError(t, rows.Admit(t.Context(), "metered", limits))
		return call
	}
	queue(99) // all that is allowed
	queue(98)
	call := queue(id)
	waiting, err := rows.WaitingOf(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, 2, waiting[0].Position)
	announced, err := rows.AnnounceWait(t.Context(), id, waiting[0], time.Minute)
	require.NoError(t, err)
	require.True(t, announced)
	announced, err = rows.AnnounceWait(t.Context(), id, waiting[0], time.Minute)
	require.NoError(t, err)
	require.False(t, announced, "one event is enough")
	const line = "builder step-001 waits for provider metered, position 2"
	await.Until(t, "the event, and the position on the status line", func() bool { return strings.Count(s.text(), line) >= 2 })
	require.Equal(t, 1, strings.Count(s.text(), "model.waiting"), s.text())
	require.NoError(t, rows.Leave(t.Context(), call))
	await.Until(t, "a status line without it", func() bool {
		i := strings.LastIndex(s.text(), "\r\x1b[2K")
		return i >= 0 && !strings.Contains(s.text()[i:], "waits for")
	})
	p.end(t, id)
	require.Equal(t, exitDone, <-code)
}
