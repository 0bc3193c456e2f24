package middleware

import (
	"context"
	"log/slog"
	"net"
	"net/http"
)

// sendBuffer is about how much of a stream the kernel keeps for a client that is
// slow. It takes more only when a third of that has gone: were it as large as
// kernels let it grow, a client that reads slowly and steadily would seem to
// take nothing for longer than WriteTimeout.
const sendBuffer = 64 << 10

type connectionKey struct{}

// Connection lets LimitSendBuffer find the connection of a request. It is for
// http.Server.ConnContext.
func Connection(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connectionKey{}, c)
}

// LimitSendBuffer bounds what the kernel keeps of a response for a slow client.
func LimitSendBuffer(r *http.Request, log *slog.Logger) {
	if c, ok := r.Context().Value(connectionKey{}).(interface{ SetWriteBuffer(bytes int) error }); ok {
		logDeadline(log, r, c.SetWriteBuffer(sendBuffer))
	}
}
