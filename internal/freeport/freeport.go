// Package freeport finds ports for servers that require a port number because they cannot inherit
// an open listener.
package freeport

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"syscall"
)

const (
	lowest = 10_000 // ports below are used by well-known servers
	tries  = 200
	// enough is the minimum number of ports between lowest and the ephemeral ports that makes a
	// search there worthwhile.
	enough = 2_000
	// givenAway is the first ephemeral port according to IANA, for systems that do not report
	// theirs.
	givenAway = 49_152
)

// Take returns a free port of 127.0.0.1 that no other Take on this machine returns within the next
// minute, in which the server can be started on it.
//
// The port is not an ephemeral port, which the system assigns to connections and to listeners
// without a port: otherwise, any connection could take the port of a killed server before it is
// restarted.
func Take(ctx context.Context) (int, error) {
	var last error
	for range tries {
		port, err := take(ctx, pick(ephemeral()))
		if err == nil {
			return port, nil
		}
		last = err
	}
	return 0, fmt.Errorf("find a free port on 127.0.0.1: all %d ports tried are in use; last error: %w", tries, last)
}

// pick chooses a port below the first ephemeral port, or 0 (the system's choice) if there are too
// few.
func pick(first int) int {
	if first-lowest < enough {
		return 0
	}
	return lowest + rand.IntN(first-lowest) //nolint:gosec // which one is no secret
}

// ephemeral returns the first ephemeral port of the system.
func ephemeral() int {
	raw, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return givenAway // not Linux
	}
	var first, last int
	if _, err := fmt.Sscan(string(raw), &first, &last); err != nil {
		return givenAway
	}
	return first
}

// take listens on a port (0 for any) and releases it in a way that marks it as taken: a connection
// closed by the listener's side stays in TIME_WAIT. A listener that sets SO_REUSEADDR, as servers
// do, can then use the port; one that does not, such as this one, cannot, and the system does not
// assign the port to others.
func take(ctx context.Context, port int) (int, error) {
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error { return reuse(c, false) }}
	l, err := config.Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return 0, err
	}
	defer l.Close()
	listener := l.(*net.TCPListener)
	raw, err := listener.SyscallConn()
	if err != nil {
		return 0, err
	}
	// The connection inherits the option from the listener: without it, the port could not be used
	// until TIME_WAIT ends.
	if err := reuse(raw, true); err != nil {
		return 0, err
	}
	dialled, err := new(net.Dialer).DialContext(ctx, "tcp", listener.Addr().String())
	if err != nil {
		return 0, err
	}
	defer dialled.Close()
	accepted, err := listener.Accept()
	if err != nil {
		return 0, err
	}
	return listener.Addr().(*net.TCPAddr).Port, accepted.Close()
}

// reuse sets or clears SO_REUSEADDR, which package net sets for every listener.
func reuse(c syscall.RawConn, on bool) error {
	value := 0
	if on {
		value = 1
	}
	var failed error
	err := c.Control(func(fd uintptr) {
		failed = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_REUSEADDR, value)
	})
	return errors.Join(err, failed)
}
