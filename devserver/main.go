// Command temporal-devserver runs a Temporal server and the Temporal Web UI in
// one process, on SQLite or on Postgres, for development and tests.
//
// It is a nested module, so Temporal's server is not compiled into the product, which connects to
// any Temporal server over gRPC, including this one.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"
)

// Exit codes. A port in use has its own exit code, so a program that starts this one can choose
// another port without parsing the error message.
const (
	exitOK        = 0
	exitError     = 1
	exitPortInUse = 4
)

func main() {
	tuneGC(os.Getenv)
	os.Exit(run(os.Args[1:], os.Getenv, os.Stdout, os.Stderr))
}

func run(args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	opts, err := parseFlags(args, getenv)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		fmt.Fprint(stdout, helpText())
		return exitOK
	case err != nil:
		return fail(stderr, err)
	case opts.ShowVersion:
		fmt.Fprintln(stdout, versionText())
		return exitOK
	}

	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	type started struct {
		server *Server
		err    error
	}
	done := make(chan started, 1)
	go func() {
		server, err := Start(ctx, opts, stderr)
		done <- started{server, err}
	}()

	var server *Server
	select {
	case <-signals:
		// The start of Temporal cannot be interrupted. Its state is then as after a crash, from
		// which every start recovers.
		fmt.Fprintln(stderr, "temporal-devserver: stopped by a signal before it was ready")
		return exitError
	case s := <-done:
		if s.err != nil {
			return fail(stderr, s.err)
		}
		server = s.server
	}
	fmt.Fprintln(stdout, server.Ready().Line())

	var failure error
	select {
	case <-signals:
	case failure = <-server.Failed():
	}
	go func() {
		<-signals // a second signal exits immediately
		os.Exit(exitError)
	}()
	server.Stop()
	if failure != nil {
		return fail(stderr, failure)
	}
	return exitOK
}

// fail reports err and returns its exit code.
func fail(stderr io.Writer, err error) int {
	fmt.Fprintf(stderr, "temporal-devserver: %v\n", err)
	var inUse *PortInUseError
	if errors.As(err, &inUse) {
		return exitPortInUse
	}
	return exitError
}
