package main

import (
	"context"
	"errors"
	"fmt"
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
	address := net.JoinHostPort(ip, strconv.Itoa(port))
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return 0, &PortInUseError{Flag: flag, Address: address}
	case err != nil:
		return 0, fmt.Errorf("listening on %s (--%s): %w: choose an address of this machine and a port that you are allowed to use", address, flag, err)
	}
	defer listener.Close()
	if port != 0 {
		return port, nil
	}
	return keepAside(ctx, listener)
}

// keepAside connects to the listener and closes the connection on the listener's side. The port
// then stays in TIME_WAIT for a while: the kernel does not return it to a process that requests a
// free port, but listening on it explicitly, as Temporal does shortly afterwards, still succeeds.
func keepAside(ctx context.Context, listener net.Listener) (int, error) {
	address := listener.Addr().(*net.TCPAddr)
	dialled, err := new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(dialHost(address.IP.String()), strconv.Itoa(address.Port)))
	if err != nil {
		return 0, fmt.Errorf("finding a free port on %s: %w", address, err)
	}
	defer dialled.Close()
	accepted, err := listener.Accept()
	if err != nil {
		return 0, fmt.Errorf("finding a free port on %s: %w", address, err)
	}
	return address.Port, accepted.Close()
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
