package sandbox

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"strings"
	"sync"
	"time"
)

// Backend starts process 1 of sandboxes: on this host or in containers. What the process does and how
// it is supervised is the same for all of them; see Supervise.
type Backend interface {
	// Start starts the helper with the files of a launch, which it must not keep after its return.
	Start(ctx context.Context, l Launch) (Instance, error)
}

// Launch is what a backend passes to the helper.
type Launch struct {
	// Command is the command, with all limits filled in.
	Command Command
	// Stdin, Stdout and Stderr become the standard files of the command. Without Stdin, it reads
	// end of file.
	Stdin, Stdout, Stderr *os.File
	// Files become the helper's descriptors from 3 on, in this order.
	Files []*os.File
}

// Instance is a started helper.
type Instance interface {
	// PID returns the host's process id of the helper. It may block until that exists, and fails if
	// the backend's processes cannot be seen from here.
	PID() (int, error)
	// Wait returns when the helper and all other processes of the sandbox have ended.
	Wait() error
	// Kill ends the helper if it does not end by itself.
	Kill()
	// Exceeded returns the limit that the backend has enforced on a command whose helper has not yet
	// ended, or "".
	Exceeded() string
	// Usage returns what the backend knows after Wait: processor time and the largest resident size
	// of a process in bytes, or 0, and the limit that ended the command, or "".
	Usage() (cpu time.Duration, maxRSS int64, limit string)
}

// Supervision describes the sandboxes of a backend.
type Supervision struct {
	// Seccomp and Landlock are true if the helper adds these layers.
	Seccomp, Landlock bool
	// Environment is the environment of every command, below Command.Env.
	Environment map[string]string
	// CountsMemory is true if the backend limits memory itself.
	CountsMemory bool
}

// output is a pipe from the command to a capture.
type output struct{ read, write *os.File }

func newOutput() (*output, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	return &output{r, w}, nil
}

// pipes are the worker's ends of the command's standard files.
type pipes struct {
	stdin          *os.File // the command's end
	feed           *os.File // the worker's end of stdin, or nil
	stdout, stderr *output
	copying        sync.WaitGroup
}

// openPipes opens the standard files of a command.
func openPipes(stdin []byte) (p *pipes, err error) {
	p = &pipes{}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	if len(stdin) == 0 {
		if p.stdin, err = os.Open(os.DevNull); err != nil {
			return nil, fmt.Errorf("sandbox: %w", err)
		}
	} else if p.stdin, p.feed, err = os.Pipe(); err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	if p.stdout, err = newOutput(); err != nil {
		return nil, err
	}
	if p.stderr, err = newOutput(); err != nil {
		return nil, err
	}
	return p, nil
}

// begin closes the command's ends, which it has inherited, and copies.
func (p *pipes) begin(stdin []byte, stdout, stderr io.Writer) {
	_, _, _ = p.stdin.Close(), p.stdout.write.Close(), p.stderr.write.Close()
	p.copying.Go(func() { _, _ = io.Copy(stdout, p.stdout.read) })
	p.copying.Go(func() { _, _ = io.Copy(stderr, p.stderr.read) })
	if p.feed != nil {
		go func() {
			_, _ = io.Copy(p.feed, bytes.NewReader(stdin))
			_ = p.feed.Close()
		}()
	}
}

// drain waits until all output has been copied, for at most the given time, and closes the pipes.
func (p *pipes) drain(most time.Duration) {
	done := make(chan struct{})
	go func() { p.copying.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(most):
	}
	p.close()
	<-done
}

func (p *pipes) close() {
	for _, f := range []*os.File{p.stdin, p.feed} {
		if f != nil {
			_ = f.Close()
		}
	}
	for _, o := range []*output{p.stdout, p.stderr} {
		if o != nil {
			_, _ = o.read.Close(), o.write.Close()
		}
	}
}

// Complete checks a command and fills in its limits, as every Runner must before it uses the command's
// paths. The error wraps ErrInvalid if the command fails on every machine. dataDir is the worker's
// data folder, which no command may see, or "".
func Complete(c Command, dataDir string) (Command, error) {
	c.Limits = c.Limits.withDefaults()
	for _, m := range c.Mounts {
		if reason := exposes(m.Host, dataDir); reason != "" {
			return c, invalidf("%q must not be exposed to commands: %s", m.Host, reason)
		}
	}
	return c.check()
}

// Supervise runs a command in a sandbox that a backend starts, and enforces its limits. The command
// must be complete, and its files must be at their paths in the sandbox before the backend starts it.
// started is when the caller of the runner called it.
func Supervise(ctx context.Context, b Backend, how Supervision, c Command, started time.Time) (Result, error) {
	env := maps.Clone(how.Environment)
	if env == nil {
		env = map[string]string{}
	}
	if c.Proxy != nil && len(c.CACertificates) > 0 {
		maps.Copy(env, trustEnv(CertificatesPath))
	}
	maps.Copy(env, c.Env)
	if len(c.Path) > 0 {
		env["PATH"] = strings.Join(append(append([]string{}, c.Path...), cmp.Or(env["PATH"], defaultPath)), ":")
	}
	c.Env = env
	config := initialConfig(c, how.Seccomp, 0)
	config.Rlimits = c.Limits.inContainer()
	config.Niceness = niceness
	config.Lingers = true
	if how.Landlock {
		config.Landlock = &landlockRules{ReadOnly: []string{"/"}, Writable: writablePaths(c)}
	}
	s, err := newSession(c, "", config)
	if s != nil {
		defer s.close()
	}
	if err != nil {
		return Result{}, err
	}
	r := newRun(s, started)
	r.countsMemory = how.CountsMemory
	if err := r.begin(ctx, b); err != nil {
		if ctx.Err() != nil {
			return Result{}, fmt.Errorf("sandbox: command cancelled: %w", context.Cause(ctx))
		}
		return Result{}, err
	}
	return r.complete(ctx)
}

// WithGoCache returns the command with the settings and mounts of its Go build cache, if it has
// one. program is the path of the helper in the sandbox.
func WithGoCache(c Command, program string) Command {
	if c.GoCache.Dir == "" {
		return c
	}
	return c.withGoCache(program)
}
