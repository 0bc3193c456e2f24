package server

import (
	"context"
	"net"
	"net/http"
	"sync"
)

// sendBuffer is how much of a stream the kernel keeps for a client that is slow,
// about. It takes more only when a third of that has gone: were it as large as
// kernels let it grow, a client that reads slowly and steadily would seem to
// take nothing for longer than slowest.
const sendBuffer = 64 << 10

// streams are the streams of events that are open.
type streams struct {
	ctx  context.Context //nolint:containedctx // of all streams: it ends with the server
	end  context.CancelFunc
	mu   sync.Mutex // nobody enters once somebody waits
	open sync.WaitGroup
}

func newStreams() *streams {
	s := &streams{}
	s.ctx, s.end = context.WithCancel(context.Background())
	return s
}

// enter returns a context that ends with the given one, or when streams are to
// end, and a function to be called when the stream has ended.
func (s *streams) enter(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended() {
		cancel()
		return ctx, cancel
	}
	s.open.Add(1)
	unhook := context.AfterFunc(s.ctx, cancel)
	return ctx, func() {
		unhook()
		cancel()
		s.open.Done()
	}
}

// ended reports whether streams are to end.
func (s *streams) ended() bool { return s.ctx.Err() != nil }

func (s *streams) stop(ctx context.Context) {
	s.mu.Lock()
	s.end()
	s.mu.Unlock()
	all := make(chan struct{})
	go func() {
		s.open.Wait()
		close(all)
	}()
	select {
	case <-all:
	case <-ctx.Done():
	}
}

type connectionKey struct{}

// Connection lets streams bound what the kernel keeps of them for their clients.
// It is for http.Server.ConnContext.
func Connection(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connectionKey{}, c)
}

// boundBuffer bounds what the kernel keeps of a stream.
func (s *server) boundBuffer(r *http.Request) {
	if c, ok := r.Context().Value(connectionKey{}).(interface{ SetWriteBuffer(bytes int) error }); ok {
		s.deadline(r, c.SetWriteBuffer(sendBuffer))
	}
}
