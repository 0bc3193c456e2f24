package middleware

import (
	"context"
	"log/slog"
	"net"
	"net/http"
)

// sendBuffer is roughly how much of a stream the kernel buffers for a slow client. The
// kernel takes more only when a third of that has been sent: if it were as large as
// kernels let it grow, a client that reads slowly and steadily would seem to read
// nothing for longer than WriteTimeout.
const sendBuffer = 64 << 10

type connectionKey struct{}

// Connection lets LimitSendBuffer find the connection of a request. Use it as
// http.Server.ConnContext.
func Connection(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connectionKey{}, c)
}

// LimitSendBuffer limits what the kernel buffers of a response for a slow client.
func LimitSendBuffer(r *http.Request, log *slog.Logger) {
	if c, ok := r.Context().Value(connectionKey{}).(interface{ SetWriteBuffer(bytes int) error }); ok {
		logDeadline(log, r, c.SetWriteBuffer(sendBuffer))
	}
}
