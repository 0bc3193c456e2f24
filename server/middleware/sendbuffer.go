package middleware

import (
	"context"
	"log/slog"
	"net"
	"net/http"
)

// sendBuffer is roughly how many bytes of a stream the kernel buffers for a slow client. The kernel
// accepts more only after a third of them were sent. With the kernel's own, larger buffer, a client
// that reads slowly but steadily would seem to read nothing for longer than WriteTimeout.
const sendBuffer = 64 << 10

type connectionKey struct{}

// Connection lets LimitSendBuffer find the connection of a request. Use it as
// http.Server.ConnContext.
func Connection(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connectionKey{}, c)
}

// LimitSendBuffer limits how much of a response the kernel buffers for a slow client.
func LimitSendBuffer(r *http.Request, log *slog.Logger) {
	if c, ok := r.Context().Value(connectionKey{}).(interface{ SetWriteBuffer(bytes int) error }); ok {
		logDeadline(log, r, c.SetWriteBuffer(sendBuffer))
	}
}
