package oracle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/rocketgpt/orchestrator/internal/eval/commits"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

const (
	// startTime is the time limit for starting or stopping a stack.
	startTime = 5 * time.Minute
	// runGrace is the additional time that a command may take beyond its run: to start, release and
	// report.
	runGrace = 5 * time.Minute
	// rgptOutput is the maximum number of bytes read from a command; the details of a run with many
	// tests take megabytes.
	rgptOutput = 256 << 20
	// maxSaid is the maximum size of a failed command's error output that is kept.
	maxSaid = 4 << 10
)

// Options are options for playing commits.
type Options struct {
	Bin string // directory of rgpt, rgpt-worker, rgpt-sandbox and temporal-devserver
	Dir string // directory for this stack's data and clones
	// Settings are the settings of each run, as key=value.
	Settings []string
	// RunTime is the time limit of one run; 0: DefaultRunTime.
	RunTime time.Duration
	// Warm plays each successful commit a second time and records the duration.
	Warm bool
	// Log receives progress messages; nil: none.
	Log io.Writer
}

// DefaultRunTime is the default time limit of one run.
const DefaultRunTime = 30 * time.Minute

// Stack is a running stack whose scripted model can play a set of scripts.
type Stack struct {
	options Options
	rgpt    string
	env     []string
	played  int
}

func (s *Stack) dataDir() string { return filepath.Join(s.options.Dir, "data") }

// Start starts a stack that can play the scripts in any order. Without scripts it has no model,
// which suffices for BuildEnvironment. Call Stop to stop it.
func Start(ctx context.Context, o Options, scripts ...*Script) (*Stack, error) {
	if o.RunTime <= 0 {
		o.RunTime = DefaultRunTime
	}
	if o.Log == nil {
		o.Log = io.Discard
	}
	var err error
	if o.Dir, err = filepath.Abs(o.Dir); err != nil {
		return nil, err
	}
	bin, err := filepath.Abs(o.Bin)
	if err != nil {
		return nil, err
	}
	s := &Stack{options: o, rgpt: filepath.Join(bin, "rgpt")}
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("create the directory of the stack: %w", err)
	}
	scenario, settings := filepath.Join(o.Dir, "scenario.yaml"), filepath.Join(o.Dir, "empty.yaml")
	text, err := Scenarios(scripts...)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(os.WriteFile(scenario, text, 0o600), os.WriteFile(settings, nil, 0o600)); err != nil {
		return nil, fmt.Errorf("write the scenario: %w", err)
	}
	s.env = append(withoutProduct(os.Environ()), "RGPT_CONFIG_BASE="+settings)
	if _, err := s.run(ctx, startTime, "dev", "--detach", "--scenario", scenario, "--port", "0", "--json"); err != nil {
		return nil, errors.Join(fmt.Errorf("start the stack: %w", err), s.Stop(ctx))
	}
	return s, nil
}

// Stop stops the stack, even if the context is done. It keeps the directory.
func (s *Stack) Stop(ctx context.Context) error {
	_, err := os.Stat(filepath.Join(s.dataDir(), "stack.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it never ran
	}
	_, err = s.run(context.WithoutCancel(ctx), startTime, "dev", "stop")
	return err
}

// withoutProduct removes variables that refer to another stack or to a paid model.
func withoutProduct(env []string) []string {
	prefixes := []string{"RGPT_", "DATABASE_URL=", "TEMPORAL_", "OPENAI_", "ANTHROPIC_", "GEMINI_", "OPENROUTER_"}
	return slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(v, p) })
	})
}

// exited is the error of a command that exited with a non-zero code.
type exited struct {
	code       int
	args, said string
}

func (e *exited) Error() string {
	return fmt.Sprintf("rgpt %s exited with code %d: %s", e.args, e.code, e.said)
}

// run runs rgpt on the stack and returns its output, also if the exit code is not 0, for which the
// error is an *exited.
func (s *Stack) run(ctx context.Context, most time.Duration, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.rgpt, append(args, "--data-dir", s.dataDir())...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = s.options.Dir, s.env, commits.CommandGrace
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	out, errs := &commits.Bounded{Most: rgptOutput}, &commits.Bounded{Most: 1 << 20}
	cmd.Stdout, cmd.Stderr = out, errs
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("rgpt %s did not finish within %s, or was interrupted: %w", args[0], most, ctx.Err())
	case errors.As(err, &exit) && exit.ExitCode() >= 0:
		said := strings.TrimSpace(errs.String())
		if said == "" { // with --json, errors are in the standard output
			said = strings.TrimSpace(out.String())
		}
		return out.Bytes(), &exited{exit.ExitCode(), strings.Join(args[:min(2, len(args))], " "), fault.Clip(said, maxSaid)}
	case err != nil:
		return nil, fmt.Errorf("rgpt %s: %w", args[0], err)
	}
	return out.Bytes(), nil
}

// read runs rgpt and decodes its JSON output.
func (s *Stack) read(ctx context.Context, most time.Duration, into any, args ...string) error {
	out, err := s.run(ctx, most, append(args, "--json")...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(out, into); err != nil {
		return fmt.Errorf("decode the output of rgpt %s: %w", strings.Join(args[:min(2, len(args))], " "), err)
	}
	return nil
}
