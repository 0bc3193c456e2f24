package chaos

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/devstack"
	"github.com/rocketgpt/orchestrator/test/harness"
)

// TestAConnectionThatBreaksBetweenACommitAndItsAnswerRepeatsAndLosesNothing puts a proxy
// between the worker and PostgreSQL that waits until the server has committed, and
// then cuts the connection in place of saying so.
func TestAConnectionThatBreaksBetweenACommitAndItsAnswerRepeatsAndLosesNothing(t *testing.T) {
	d := newFaultTrial(t, harness.Options{})
	d.Kill(t, devstack.RoleWorker)
	address, err := url.Parse(d.State(t).Database)
	require.NoError(t, err)
	p := cutting(t, address.Host)
	address.Host = p.Addr().String()
	query := address.Query()
	query.Del("host") // the Unix socket, which would bypass the proxy
	address.RawQuery = query.Encode()
	d.StartWorker(t, d.Program("rgpt-worker"), "DATABASE_URL="+address.String())
	p.every.Store(4)
	first, second := d.run(t, "Cut, run 1"), d.run(t, "Cut, run 2")
	d.requireDone(t, 2*time.Minute, first, second)
	p.every.Store(0)
	p.mu.Lock()
	defer p.mu.Unlock()
	t.Logf("answers cut off: %v", p.cut)
	require.Positive(t, p.cut["COMMIT"], "transactions were cut")
	for _, name := range ownTransactions {
		require.GreaterOrEqual(t, p.cut[name], 3, "statements that are their own transaction were cut: %s", name)
	}
}

// ownTransactions are the names of statements that are usually a transaction of their own. Record is not among them: it
// is only sent for what RecordUsual has declined, such as a repeat after its own answer was cut off.
var ownTransactions = []string{"RecordUsual", "BeginCall", "CompleteCallFast", "SaveToolCall"}

// cutter is a proxy before a PostgreSQL server.
type cutter struct {
	net.Listener
	to    string
	every atomic.Int64 // how many commits from one cut to the next; 0: none is cut

	mu      sync.Mutex
	commits map[string]int64 // by kind
	cut     map[string]int
}

func cutting(t *testing.T, to string) *cutter {
	t.Helper()
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	c := &cutter{Listener: l, to: to, commits: map[string]int64{}, cut: map[string]int{}}
	var served sync.WaitGroup
	served.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			served.Go(func() { c.serve(conn) })
		}
	})
	t.Cleanup(func() { l.Close(); served.Wait() })
	return c
}

func (c *cutter) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", c.to)
	if err != nil {
		return
	}
	defer server.Close()
	s := &session{statements: map[string]string{}}
	var both sync.WaitGroup
	both.Go(func() {
		_ = s.ask(server, client)
		server.Close()
	})
	_ = s.answer(client, server, c.cuts)
	client.Close()
	both.Wait()
}

// cuts reports whether the answer to a commit of a kind is to be cut off.
func (c *cutter) cuts(kind string) bool {
	every := c.every.Load()
	if kind == "" || every == 0 {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.commits[kind]++
	if c.commits[kind]%every != 0 {
		return false
	}
	c.cut[kind]++
	return true
}

// session is one connection: what the client has asked and was not answered yet.
type session struct {
	mu         sync.Mutex
	statements map[string]string // by the client's name for them
	asked      string            // since the server was ready last
}

// ask passes on what a client sends, and notes the statements.
func (s *session) ask(to io.Writer, from io.Reader) error {
	var length [4]byte // of the first message, which has no type
	if _, err := io.ReadFull(from, length[:]); err != nil {
		return err
	}
	if _, err := to.Write(length[:]); err != nil {
		return err
	}
	if _, err := io.CopyN(to, from, int64(binary.BigEndian.Uint32(length[:]))-4); err != nil {
		return err
	}
	for {
		message, err := read(from)
		if err != nil {
			return err
		}
		s.note(message)
		if _, err := to.Write(message); err != nil {
			return err
		}
	}
}

// note reads what is asked: by Parse and Bind, or by Query.
func (s *session) note(message []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	word := func(n int) string {
		parts := bytes.SplitN(message[5:], []byte{0}, n+2)
		return string(parts[min(n, len(parts)-1)])
	}
	switch message[0] {
	case 'P':
		s.statements[word(0)] = word(1)
	case 'B':
		s.asked += s.statements[word(1)] + "\n"
	case 'Q':
		s.asked += word(0) + "\n"
	}
}

// answer passes on what a server sends, up to the first commit that is to be cut off.
func (s *session) answer(to io.Writer, from io.Reader, cuts func(kind string) bool) error {
	var held []byte // what tells of a commit is sent when it is known not to be cut off
	within := false // a transaction
	for {
		message, err := read(from)
		if err != nil {
			return err
		}
		held = append(held, message...)
		tag := ""
		if message[0] == 'C' {
			tag = strings.TrimRight(string(message[5:]), "\x00")
		}
		ready := message[0] == 'Z' // with the state of the transaction
		switch {
		case tag == "COMMIT" && cuts(tag):
			return nil
		case ready && !within && message[5] == 'I' && cuts(s.own()):
			return nil
		}
		if ready {
			within = message[5] != 'I'
			s.mu.Lock()
			s.asked = ""
			s.mu.Unlock()
		}
		if ready || len(held) > 1<<16 || message[0] == 'R' || message[0] == 'A' || message[0] == 'G' || message[0] == 'W' {
			if _, err := to.Write(held); err != nil {
				return err
			}
			held = nil
		}
	}
}

// own is the kind of what was asked as a transaction of its own.
func (s *session) own() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range ownTransactions {
		if strings.Contains(s.asked, "-- name: "+name+" ") {
			return name
		}
	}
	return ""
}

// read reads a message, whole.
func read(from io.Reader) ([]byte, error) {
	head := make([]byte, 5)
	if _, err := io.ReadFull(from, head); err != nil {
		return nil, err
	}
	length := binary.BigEndian.Uint32(head[1:])
	if length < 4 || length > 1<<28 {
		return nil, fmt.Errorf("a message of %d bytes", length)
	}
	message := append(head, make([]byte, length-4)...)
	_, err := io.ReadFull(from, message[5:])
	return message, err
}
