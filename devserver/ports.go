package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"syscall"
)

// PortInUseError reports a port that another process uses, and the flag that requested it.
type PortInUseError struct {
	Flag    string
	Address string
}

func (e *PortInUseError) Error() string {
	return fmt.Sprintf("listening on %s (--%s): the port is in use by another process: stop that process, or choose another port with --%s (0 for a free port)",
		e.Address, e.Flag, e.Flag)
}

// claimPort returns the port that a listener on ip should use: port itself if it is available, or a
// free port if it is 0.
//
// Temporal's services open their own listeners on a configured port, so the port must be released
// first.
func claimPort(ctx context.Context, flag, ip string, port int) (int, error) {
	if port == 0 {
		return claimFreePort(ctx, flag, ip)
	}
	address := net.JoinHostPort(ip, strconv.Itoa(port))
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return 0, listenError(flag, address, err)
	}
	return port, listener.Close()
}

func listenError(flag, address string, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return &PortInUseError{Flag: flag, Address: address}
	}
	return fmt.Errorf("listening on %s (--%s): %w: choose an address of this machine and a port that you are allowed to use", address, flag, err)
}

const (
	lowestFreePort  = 10_000 // well-known servers use the ports below
	ephemeralPort   = 32_768 // where the kernel begins, by default, to choose ports for connections
	freePortRetries = 200
)

// claimFreePort chooses a port below those that the kernel assigns to connections: otherwise, any
// connection of another process could take the port before Temporal listens on it.
func claimFreePort(ctx context.Context, flag, ip string) (int, error) {
	// Without SO_REUSEADDR, a port that another process has kept aside is refused.
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error { return setReuse(c, 0) }}
	var last error
	for range freePortRetries {
		port := lowestFreePort + rand.IntN(ephemeralPort-lowestFreePort) //nolint:gosec // it need not be secret
		address := net.JoinHostPort(ip, strconv.Itoa(port))
		listener, err := config.Listen(ctx, "tcp", address)
		if err == nil {
			defer listener.Close()
			return port, keepAside(ctx, listener.(*net.TCPListener))
		}
		if last = listenError(flag, address, err); !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	return 0, last
}

// keepAside connects to the listener and closes the connection on the listener's side. The port
// then stays in TIME_WAIT for a while: no other process can claim it, but listening on it
// explicitly, as Temporal does shortly afterwards, still succeeds.
func keepAside(ctx context.Context, listener *net.TCPListener) error {
	address := listener.Addr().(*net.TCPAddr)
	raw, err := listener.SyscallConn()
	if err == nil {
		err = setReuse(raw, 1) // the connection inherits this; otherwise nobody could listen on the port
	}
	if err != nil {
		return fmt.Errorf("finding a free port on %s: %w", address, err)
	}
	dialled, err := new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(dialHost(address.IP.String()), strconv.Itoa(address.Port)))
	if err != nil {
		return fmt.Errorf("finding a free port on %s: %w", address, err)
	}
	defer dialled.Close()
	accepted, err := listener.Accept()
	if err != nil {
		return fmt.Errorf("finding a free port on %s: %w", address, err)
	}
	return accepted.Close()
}

// setReuse sets SO_REUSEADDR, which package net enables for every listener.
func setReuse(c syscall.RawConn, value int) error {
	var failed error
	err := c.Control(func(fd uintptr) {
		failed = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_REUSEADDR, value)
	})
	return errors.Join(err, failed)
}

// dialHost returns the address at which this machine can reach a listener on ip.
func dialHost(ip string) string {
	parsed := net.ParseIP(ip)
	switch {
	case parsed == nil || !parsed.IsUnspecified():
		return ip
	case parsed.To4() != nil:
		return "127.0.0.1"
	default:
		return "::1"
	}
}

func hostPort(ip string, port int) string {
	return net.JoinHostPort(dialHost(ip), strconv.Itoa(port))
}
