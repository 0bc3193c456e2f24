// Package freeport finds ports for servers that are started with a number:
// servers to which no open listener can be passed.
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
	lowest = 10_000 // below it are the well-known servers' ports
	tries  = 200
	// enough is how many ports there must be between lowest and those that the
	// system gives away for it to be worth while to look there.
	enough = 2_000
	// givenAway is where the ports begin that IANA leaves to systems to give
	// away, for those that do not say it.
	givenAway = 49_152
)

// Take returns a port of 127.0.0.1 on which nobody listens and which no other
// Take on this machine returns within the next minute, the time to start the
// server on it.
//
// The port is not one of those that the system gives to connections and to
// listeners that name none: else a server that was killed could find its port
// taken, by anybody's connection, when it is started again.
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

// pick chooses a port below those that the system gives away, which begin at
// first; 0, the system's choice, where it leaves too few.
func pick(first int) int {
	if first-lowest < enough {
		return 0
	}
	return lowest + rand.IntN(first-lowest) //nolint:gosec // which one is no secret
}

// ephemeral returns the first of the ports that the system gives away.
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

// take listens on a port, 0 for any, and gives it up in a way that marks it as
// taken: a connection that the listener's side closes stays in TIME_WAIT. A
// listener that sets SO_REUSEADDR, as servers do, can have the port then; one
// that does not, as this one, cannot, and the system gives it to nobody.
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
	// The connection has the option from the listener: without it nobody could
	// have the port before it is over.
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

// reuse sets SO_REUSEADDR, which package net sets for every listener.
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
