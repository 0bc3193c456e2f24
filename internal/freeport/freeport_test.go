package freeport

import (
	"net"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAReservedPortIsNotReservedAgainAndCanBeListenedOn(t *testing.T) {
	t.Parallel()
	first, err := Take(t.Context())
	require.NoError(t, err)
	_, err = take(t.Context(), first)
	require.ErrorContains(t, err, "address already in use", "another taker on this machine is refused")
	for range 2 { // and when the server is started again
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(first)))
		require.NoError(t, err, "a server can have it")
		require.NoError(t, l.Close())
	}
}

func TestPortsAreNotThoseThatTheSystemGivesToConnections(t *testing.T) {
	t.Parallel()
	first := ephemeral()
	below := pick(first) != 0 // else this system gives nearly all ports away
	for range 50 {
		port, err := Take(t.Context())
		require.NoError(t, err)
		require.Equal(t, below, port < first, "%d of those from %d on", port, first)
		if below {
			require.GreaterOrEqual(t, port, lowest)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	require.GreaterOrEqual(t, l.Addr().(*net.TCPAddr).Port, first, "the system's are above")
}

func TestWithoutPortsOutsideTheEphemeralRangeTheSystemChooses(t *testing.T) {
	t.Parallel()
	require.Zero(t, pick(1024))
	port, err := take(t.Context(), 0)
	require.NoError(t, err)
	_, err = take(t.Context(), port)
	require.ErrorContains(t, err, "address already in use", "it is marked as taken all the same")
}
