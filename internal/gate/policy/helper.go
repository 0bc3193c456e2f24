package policy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"golang.org/x/sys/unix"
)

// helperArg as only argument turns the program into the process that evaluates policies of others: a
// repository's, or those that a client sends.
const helperArg = "rgpt-policy-helper"

// Exit codes of the helper.
const (
	exitSetup   = 120 // it could not limit itself; nothing was evaluated
	exitTimeout = 121
)

// helperTask is what the helper reads from its standard input, as JSON.
type helperTask struct {
	// Package is that of the modules: Repository or Operator.
	Package string
	Modules []Module
	Input   []byte
	Timeout time.Duration
	Memory  int64
}

// helperAnswer is what it writes to its standard output.
type helperAnswer struct {
	Rules outcome `json:",omitempty"`
	// Invalid says why the policies could not be compiled or evaluated.
	Invalid string `json:",omitempty"`
}

var helperReady atomic.Bool

var errNotHelper = errors.New("policy: main must call policy.MaybeRunHelper before anything else")

// MaybeRunHelper must be called at the beginning of main and TestMain of every binary that judges
// changes. In the process that evaluates policies of others, it takes over and does not return;
// otherwise it does nothing.
func MaybeRunHelper() {
	helperReady.Store(true)
	if len(os.Args) == 2 && os.Args[1] == helperArg {
		os.Exit(runAsHelper())
	}
}

// runAsHelper evaluates policies under limits that the kernel enforces.
func runAsHelper() int {
	var task helperTask
	if err := json.NewDecoder(io.LimitReader(os.Stdin, 2*MaxInput)).Decode(&task); err != nil {
		return exitSetup
	}
	if err := limitSelf(task); err != nil {
		return exitSetup
	}
	limit, err := task.limit()
	if err != nil {
		return exitSetup
	}
	// The parser and the compiler ignore contexts.
	time.AfterFunc(limit, func() { os.Exit(exitTimeout) })
	answer := task.evaluate(context.Background())
	if err := json.NewEncoder(os.Stdout).Encode(answer); err != nil {
		return 1
	}
	return 0
}

// limitSelf limits memory, processor time and files of this process. RLIMIT_AS would also count
// addresses that Go reserves and never uses; RLIMIT_DATA counts writable private memory.
func limitSelf(task helperTask) error {
	debug.SetMemoryLimit(task.Memory * 3 / 4)
	debug.SetMaxStack(int(task.Memory / 4))
	seconds := uint64((task.Timeout+task.preparation()+time.Second-1)/time.Second) + 1
	for _, l := range []struct {
		resource int
		value    uint64
	}{
		{unix.RLIMIT_DATA, uint64(task.Memory)}, {unix.RLIMIT_CPU, seconds}, {unix.RLIMIT_FSIZE, 0}, {unix.RLIMIT_CORE, 0}, {unix.RLIMIT_NOFILE, 16},
	} {
		var now syscall.Rlimit
		if err := syscall.Getrlimit(l.resource, &now); err != nil {
			return fmt.Errorf("read resource limit %d: %w", l.resource, err)
		}
		value := min(l.value, now.Max)
		if err := syscall.Setrlimit(l.resource, &syscall.Rlimit{Cur: value, Max: value}); err != nil {
			return fmt.Errorf("set resource limit %d: %w", l.resource, err)
		}
	}
	return nil
}

// compileTime is how long a helper may take in addition to compile the built-in policies, twice.
const compileTime = 10 * time.Second

// preparation is how long a task may take before its own policies are compiled.
func (t helperTask) preparation() time.Duration {
	if t.Package == Operator {
		return compileTime
	}
	return 0
}

// limit returns how long compiling and evaluating the policies of a task may take from now on. The
// built-in policies are compiled together with an operator's, whose time that must not use up: so they
// are compiled alone before, and the time of that is added.
func (t helperTask) limit() (time.Duration, error) {
	if t.Package != Operator {
		return t.Timeout, nil
	}
	began := time.Now()
	all, err := parseBuiltIn()
	if err != nil {
		return 0, err
	}
	if _, err := compile(all, false); err != nil {
		return 0, err
	}
	return t.Timeout + time.Since(began), nil
}

func parseBuiltIn() (map[string]*ast.Module, error) {
	own, err := allBuiltIn()
	if err != nil {
		return nil, err
	}
	return parse(own, "", nil)
}

// evaluate compiles and evaluates the policies of a task. Without input, it only compiles them.
func (t helperTask) evaluate(ctx context.Context) helperAnswer {
	invalid := func(err error) helperAnswer {
		return helperAnswer{Invalid: text(strings.ToValidUTF8(err.Error(), "?"))}
	}
	q, err := t.prepare(ctx)
	if err != nil {
		return invalid(err)
	}
	if len(t.Input) == 0 {
		return helperAnswer{}
	}
	input, err := ast.ValueFromReader(bytes.NewReader(t.Input))
	if err != nil {
		return invalid(err)
	}
	out, err := q.eval(ctx, input)
	if err != nil {
		return invalid(err)
	}
	return helperAnswer{Rules: out}
}

// prepare compiles the policies of a task: those of a repository apart from all others, those of an
// operator with the built-in ones, whose functions they can use.
func (t helperTask) prepare(ctx context.Context) (query, error) {
	rules, all := repositoryRules, map[string]*ast.Module{}
	if t.Package == Operator {
		var err error
		if all, err = parseBuiltIn(); err != nil {
			return query{}, err
		}
		rules = operatorRules
	}
	modules, err := parse(t.Modules, t.Package, rules)
	if err != nil {
		return query{}, err
	}
	maps.Copy(all, modules)
	c, err := compile(all, false)
	if err != nil {
		return query{}, err
	}
	return prepare(ctx, c, t.Package, rules, false)
}
