package verify

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
	"github.com/rocketgpt/orchestrator/internal/sandbox/sandboxtest"
	"github.com/rocketgpt/orchestrator/internal/verify/checks"
	"github.com/rocketgpt/orchestrator/internal/verify/output"
)

func TestMain(m *testing.M) {
	sandbox.MaybeRunHelper()
	sandboxtest.UseBuiltTools()
	os.Exit(m.Run())
}

// plainRunner runs commands without isolation, so that tests of parsing and judging do
// not depend on what the machine can isolate.
type plainRunner struct{}

func (plainRunner) Run(ctx context.Context, c sandbox.Command) (sandbox.Result, error) {
	if c.Limits.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.Limits.Timeout, errTestTimeout)
		defer cancel()
	}
	args := c.Args
	if c.Shell != "" {
		args = []string{"bash", "-c", c.Shell}
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = filepath.Join(c.Root, c.Dir)
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOPROXY=off", "GOWORK=", "PYTHONPATH=", "NODE_OPTIONS=")
	for k, v := range c.Env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	var lock sync.Mutex
	out := &streaming{stream: sandbox.Stdout, lock: &lock, to: c.OnOutput}
	errs := &streaming{stream: sandbox.Stderr, lock: &lock, to: c.OnOutput}
	cmd.Stdout, cmd.Stderr = out, errs
	started := time.Now()
	err := cmd.Run()
	r := sandbox.Result{Stdout: out.all.Bytes(), Stderr: errs.all.Bytes(), Duration: time.Since(started)}
	var exit *exec.ExitError
	switch {
	case errors.Is(context.Cause(ctx), errTestTimeout):
		r.TimedOut, r.Signal, r.ExitCode = true, "killed", 137
	case ctx.Err() != nil:
		return r, ctx.Err()
	case errors.Is(err, exec.ErrNotFound):
		r.ExitCode = 127
	case errors.As(err, &exit):
		r.ExitCode = exit.ExitCode()
		if status := exit.Sys().(syscall.WaitStatus); status.Signaled() {
			r.Signal, r.ExitCode = status.Signal().String(), 128+int(status.Signal())
		}
	case err != nil:
		return r, err
	}
	return r, nil
}

var errTestTimeout = errors.New("time limit")

type streaming struct {
	all    bytes.Buffer
	stream sandbox.Stream
	lock   *sync.Mutex
	to     func(sandbox.Stream, []byte)
}

func (s *streaming) Write(p []byte) (int, error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.to != nil {
		s.to(s.stream, p)
	}
	return s.all.Write(p)
}

// cannedRunner answers each command with the result of answer.
type cannedRunner struct {
	mu       sync.Mutex
	commands []sandbox.Command
	answer   func(n int, c sandbox.Command) (sandbox.Result, error)
}

func (r *cannedRunner) Run(_ context.Context, c sandbox.Command) (sandbox.Result, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.commands = append(r.commands, c)
	return r.answer(len(r.commands), c)
}

func always(result sandbox.Result) *cannedRunner {
	return &cannedRunner{answer: func(int, sandbox.Command) (sandbox.Result, error) { return result, nil }}
}

// reportOf is where a command is to write its report, relative to the root.
func reportOf(c sandbox.Command) string {
	said := strings.Join(c.Args, " ") + " " + c.Env["PLAYWRIGHT_JSON_OUTPUT_NAME"]
	return regexp.MustCompile(`\.rgpt-verify/\S+\.(json|xml)`).FindString(said)
}

// checkout writes files into a new directory.
func checkout(t testing.TB, files map[string]string) string {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	for name, content := range files {
		p := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(p), 0o755))
		require.NoError(t, os.WriteFile(p, []byte(content), 0o644))
	}
	return root
}

// detected are the settings of a new installation.
func detected() checks.Settings { return checks.Settings{AutoDetect: true, Shards: 1} }

// testCommand configures one test command.
func testCommand(command string, f output.Format, report string) checks.Settings {
	s := checks.Settings{Test: checks.StageSettings{Command: command, Format: f, Report: report}}
	s.Build.Enabled, s.Lint.Enabled = checks.SwitchOff, checks.SwitchOff
	return s
}

func plan(t *testing.T, root string, s checks.Settings) checks.Pipeline {
	t.Helper()
	p, err := checks.Plan(root, s)
	require.NoError(t, err)
	return p
}

// ids are the check ids, stage by stage, without those of detected scans; see scans.
func ids(p checks.Pipeline) [][]string {
	return idsOf(p, func(c contract.Check) bool { return !isScan(c) })
}

// scans are the ids of the detected checks that scan for vulnerabilities and secrets.
func scans(p checks.Pipeline) []string { return slices.Concat(idsOf(p, isScan)...) }

func isScan(c contract.Check) bool {
	return c.Category == contract.CategorySecurity && c.ID != "security-configured"
}

func idsOf(p checks.Pipeline, of func(contract.Check) bool) [][]string {
	var out [][]string
	for _, stage := range p.Stages {
		var names []string
		for _, c := range stage {
			if of(c) {
				names = append(names, c.ID)
			}
		}
		if len(names) > 0 {
			out = append(out, names)
		}
	}
	return out
}

// runCheck carries out a check with the plain runner.
func runCheck(t *testing.T, root, id string, s checks.Settings) Outcome {
	t.Helper()
	return runWith(t, root, id, Env{Runner: plainRunner{}, Settings: s})
}

func runWith(t *testing.T, root, id string, env Env) Outcome {
	t.Helper()
	if _, plain := env.Runner.(plainRunner); plain && testing.Short() {
		t.Skip("runs real tools")
	}
	if env.Limits.Timeout == 0 {
		env.Limits.Timeout = 50 * time.Second
	}
	o, err := Run(t.Context(), root, contract.Check{ID: id}, env)
	require.NoError(t, err)
	return o
}

// caseNamed finds the case whose name ends with a text.
func caseNamed(t *testing.T, o Outcome, suffix string) contract.TestCase {
	t.Helper()
	for _, c := range o.Cases {
		if strings.HasSuffix(c.Name, suffix) {
			return c
		}
	}
	require.Failf(t, "no such case", "%s in %+v", suffix, o.Cases)
	return contract.TestCase{}
}

// located are "location: message" of findings, those with a severity first.
func located(o Outcome) []string {
	var out []string
	for _, f := range o.Findings {
		out = append(out, string(f.Severity)+" "+f.Location+": "+f.Message)
	}
	return out
}

func needs(t testing.TB, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Skip(program + " is not installed")
	}
}

// noting replaces the worker's proxy and records the requested hosts.
func noting(asked *[][]string) func([]string) func(net.Listener) []string {
	return func(hosts []string) func(net.Listener) []string {
		if asked != nil {
			*asked = append(*asked, hosts)
		}
		return func(net.Listener) []string { return nil }
	}
}
