package proxy

import (
	"bytes"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAnOutletReportsWhatItRefused(t *testing.T) {
	t.Parallel()
	b := newProxyFixture(t, "example.com")
	b.start()
	var log bytes.Buffer
	var told []Record
	serve := b.proxy.Outlet(Session{Hosts: []string{"example.com"}, Who: "run 7", OnRequest: func(r Record) { told = append(told, r) }},
		slog.New(slog.NewTextHandler(&log, nil)))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	b.address = l.Addr().String()
	refused := make(chan []string)
	go func() { refused <- serve(l) }()
	for _, target := range []string{"b.org:8443", "a.org:443", "a.org:443", "example.com:443", "[::1]:80"} {
		b.tunnel(target)
	}
	require.NoError(t, l.Close())
	require.Equal(t, []string{"b.org:8443", "a.org:443", "[::1]:80"}, <-refused, "each once, and not what only failed")
	require.Len(t, told, 5)
	require.Equal(t, 3, strings.Count(log.String(), "verdict=refused"), "the first of each host")
	require.Contains(t, log.String(), `who="run 7"`)

	l, err = net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.Empty(t, b.proxy.Outlet(Session{Hosts: []string{"*"}}, slog.New(slog.NewTextHandler(&log, nil)))(l))
	require.Contains(t, log.String(), "its list of hosts is invalid")
}
