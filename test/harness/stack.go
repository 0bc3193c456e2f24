package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/devstack"
	"github.com/rocketgpt/orchestrator/internal/scripted"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/internal/trust"
)

// Options are the options of a test's stack.
type Options struct {
	Scenario Rules
	Config   string   // rgpt.yaml of the operator, which is trusted; empty: none
	Env      []string // additional environment variables for every command and process
	Canaries []string // further secrets that must never appear
}

// Stack is a running stack in its own directory.
type Stack struct {
	Dir     string // the test's directory, which contains the data folder
	DataDir string
	Work    string // where commands are run
	Secret  string // a canary that must never appear

	bin    string
	env    []string
	canary string // digest of a directory that must not change
	hidden []string

	open                       sync.Mutex
	db                         *store.Store
	temporal                   client.Client
	dbAddress, temporalAddress string

	mu          sync.Mutex
	output      bytes.Buffer // of all commands except those that print addresses
	kills       []Kill
	lostAnswers int
}

// Kill is a process that a test killed.
type Kill struct {
	Role devstack.Role
	At   time.Time
	Back time.Time // when it was restarted
}

// Start starts a stack. It is stopped, and checked for leftovers, when the test ends.
func Start(tb testing.TB, o Options) *Stack {
	tb.Helper()
	s := New(tb, o)
	tb.Cleanup(func() { s.End(tb) })
	s.Up(tb)
	return s
}

// New prepares a stack without starting it.
func New(tb testing.TB, o Options) *Stack {
	tb.Helper()
	// Not tb.TempDir: the directory of a failed test is kept, and PostgreSQL's user needs access to
	// it.
	dir, err := os.MkdirTemp("", "rgpt-test-") //nolint:usetesting // see above
	require.NoError(tb, err)
	s := &Stack{
		Dir: dir, DataDir: filepath.Join(dir, "data"), Work: filepath.Join(dir, "work"), bin: Binaries(tb),
		Secret: fmt.Sprintf("sk-canary%dq7Zt4Lw9Xn2Vb6Rm", os.Getpid()), hidden: o.Canaries,
	}
	WriteFiles(tb, filepath.Join(dir, "canary"), map[string]string{"a.txt": "untouched\n", "deep/b.txt": "untouched too\n"})
	WriteFiles(tb, s.Work, map[string]string{".keep": ""})
	if o.Config != "" {
		WriteFiles(tb, s.Work, map[string]string{"rgpt.yaml": o.Config})
		require.NoError(tb, trust.At(filepath.Join(dir, "home", "rgpt", "trusted")).Add(filepath.Join(s.Work, "rgpt.yaml")))
	}
	if o.Scenario != nil {
		o.Scenario.Write(tb, s.scenario())
	}
	s.canary = digestOf(tb, filepath.Join(dir, "canary"))
	s.env = append(cleanEnv(), "OPENAI_API_KEY="+s.Secret, "RGPT_CONFIG_BASE="+filepath.Join(s.Work, ".keep"), "XDG_CONFIG_HOME="+filepath.Join(dir, "home"))
	// A scenario fixes the turns of its agents, so a failed check must not add one.
	s.env = append(s.env, "RGPT_EXECUTION_STEP_FINISH_CHECKS=false")
	s.env = append(s.env, o.Env...)
	return s
}

func (s *Stack) scenario() string { return filepath.Join(s.Dir, "scenario.yaml") }

// cleanEnv returns the environment without variables that refer to another stack.
func cleanEnv() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool {
		return slices.ContainsFunc([]string{"RGPT_", "DATABASE_URL=", "TEMPORAL_", "OPENAI_", "ANTHROPIC_", "GEMINI_", "OPENROUTER_"}, func(prefix string) bool { return strings.HasPrefix(v, prefix) })
	})
}

// Result is the outcome of a command.
type Result struct {
	Stdout, Stderr string
	Code           int
}

// String returns the whole result, for messages of failed tests.
func (r Result) String() string {
	return fmt.Sprintf("exit code %d\n%s\n%s", r.Code, r.Stdout, r.Stderr)
}

// JSON decodes the standard output.
func (r Result) JSON(tb testing.TB, v any) {
	tb.Helper()
	require.NoError(tb, json.Unmarshal([]byte(r.Stdout), v), "%s", r)
}

// commandTime is the time limit of a command.
const commandTime = 4 * time.Minute

// Run runs rgpt in a directory, with the stack's data folder.
func (s *Stack) Run(tb testing.TB, dir string, args ...string) Result {
	tb.Helper()
	return s.RunWith(tb, dir, nil, "", args...)
}

// RGPT runs rgpt in the directory of the stack's configuration.
func (s *Stack) RGPT(tb testing.TB, args ...string) Result {
	tb.Helper()
	return s.Run(tb, s.Work, args...)
}

// RunWith runs rgpt with additional environment variables and standard input.
func (s *Stack) RunWith(tb testing.TB, dir string, env []string, stdin string, args ...string) Result {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), commandTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(s.bin, "rgpt"), args...)
	var out, errs bytes.Buffer
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = dir, strings.NewReader(stdin), &out, &errs
	cmd.Env = append(slices.Clone(s.env), append(env, "RGPT_DATA_DIR="+s.DataDir)...)
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(tb, err, "rgpt %s", strings.Join(args, " "))
	}
	result := Result{Stdout: out.String(), Stderr: errs.String(), Code: cmd.ProcessState.ExitCode()}
	require.GreaterOrEqual(tb, result.Code, 0, "rgpt %.200s was killed after %s\n%s", strings.Join(args, " "), commandTime, result)
	if len(args) == 0 || args[0] != "dev" { // rgpt dev shows its owner the address of the database
		s.mu.Lock()
		s.output.WriteString(result.Stdout + result.Stderr)
		s.mu.Unlock()
	}
	return result
}

// OK runs rgpt and requires success.
func (s *Stack) OK(tb testing.TB, args ...string) Result {
	tb.Helper()
	r := s.RGPT(tb, args...)
	require.Zero(tb, r.Code, "rgpt %s: %s", strings.Join(args, " "), r)
	return r
}

// Up starts the stack, or its parts that are not running.
func (s *Stack) Up(tb testing.TB) {
	tb.Helper()
	args := []string{"dev", "--detach", "--json"}
	if !exists(filepath.Join(s.DataDir, "stack.json")) {
		args = append(args, "--port", "0")
		if exists(s.scenario()) {
			args = append(args, "--scenario", s.scenario())
		}
	}
	s.OK(tb, args...)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.kills {
		if s.kills[i].Back.IsZero() {
			p, _ := s.state(tb).Process(s.kills[i].Role)
			s.kills[i].Back = p.Started
		}
	}
}

// state returns the content of the stack's state file.
func (s *Stack) state(tb testing.TB) *devstack.Stack {
	tb.Helper()
	state, err := devstack.Load(s.DataDir)
	require.NoError(tb, err)
	return state
}

// State returns the processes and addresses of the stack.
func (s *Stack) State(tb testing.TB) *devstack.Stack { return s.state(tb) }

// Kill kills the process of a role as a crash would, without warning.
func (s *Stack) Kill(tb testing.TB, role devstack.Role) {
	tb.Helper()
	p, ok := s.state(tb).Process(role)
	require.True(tb, ok, "the stack has no %s", role)
	require.True(tb, p.ID.Alive(), "the %s is running", role)
	at := time.Now()
	require.NoError(tb, syscall.Kill(p.PID, syscall.SIGKILL))
	Await(tb, "the end of the killed "+string(role), 10*time.Second, func() (bool, string) { return !p.ID.Alive(), "alive" })
	s.NoteKill(role, at)
}

// NoteKill records a kill. Tests that kill a process of their own, such as another worker, call it,
// because a response may be lost in that kill too.
func (s *Stack) NoteKill(role devstack.Role, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kills = append(s.kills, Kill{Role: role, At: at})
}

// Kills returns the processes killed so far.
func (s *Stack) Kills() []Kill {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.kills)
}

// End stops the stack, checks that it has left nothing behind, and removes its directory. The
// directory of a failed test is kept.
func (s *Stack) End(tb testing.TB) {
	tb.Helper()
	s.open.Lock()
	s.close()
	s.open.Unlock()
	if exists(filepath.Join(s.DataDir, "stack.json")) {
		s.OK(tb, "dev", "stop")
		s.CheckNothingLeft(tb)
	}
	if tb.Failed() {
		tb.Logf("the stack's directory is kept: %s", s.Dir)
		return
	}
	require.NoError(tb, os.RemoveAll(s.Dir))
}

// Store opens the database. It is reopened only when its address changes.
func (s *Stack) Store(tb testing.TB) *store.Store {
	tb.Helper()
	s.open.Lock()
	defer s.open.Unlock()
	state := s.state(tb)
	if s.db == nil || s.dbAddress != state.Database {
		s.close()
		db, err := store.Open(context.WithoutCancel(tb.Context()), state.Database, store.Options{MaxConns: 4, ApplicationName: "test"})
		require.NoError(tb, err)
		s.db, s.dbAddress = db, state.Database
	}
	return s.db
}

// Temporal connects to Temporal, once for each address.
func (s *Stack) Temporal(tb testing.TB) client.Client {
	tb.Helper()
	s.open.Lock()
	defer s.open.Unlock()
	state := s.state(tb)
	if s.temporal == nil || s.temporalAddress != state.Temporal {
		c, err := client.DialContext(context.WithoutCancel(tb.Context()), client.Options{HostPort: state.Temporal, Namespace: state.Namespace, Logger: noAnswer})
		require.NoError(tb, err)
		s.temporal, s.temporalAddress = c, state.Temporal
	}
	return s.temporal
}

// noAnswer is a logger that discards everything.
var noAnswer = sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler))

// close closes what Store and Temporal opened.
func (s *Stack) close() {
	if s.db != nil {
		s.db.Close()
		s.db = nil
	}
	if s.temporal != nil {
		s.temporal.Close()
		s.temporal = nil
	}
}

// Requests returns the requests to the scripted model, for some runs or for all.
func (s *Stack) Requests(tb testing.TB, runs ...int64) []scripted.LogEntry {
	tb.Helper()
	all, err := scripted.ReadLog(filepath.Join(s.DataDir, "scripted-requests.jsonl"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	require.NoError(tb, err)
	if len(runs) == 0 {
		return all
	}
	return slices.DeleteFunc(all, func(e scripted.LogEntry) bool { return !slices.Contains(runs, e.Run) })
}

// Create creates a run without waiting for it and returns its id.
func (s *Stack) Create(tb testing.TB, args ...string) int64 {
	tb.Helper()
	var made struct {
		RunID int64 `json:"runId"`
	}
	s.OK(tb, append([]string{"run", "create", "--json"}, args...)...).JSON(tb, &made)
	require.Positive(tb, made.RunID)
	return made.RunID
}

// Inspect reads a whole run with the command line.
func (s *Stack) Inspect(tb testing.TB, run int64) views.RunDetails {
	tb.Helper()
	var d views.RunDetails
	s.OK(tb, "run", "inspect", fmt.Sprint(run), "--json").JSON(tb, &d)
	return d
}

// AwaitRun waits until a run's row satisfies a condition, and returns it.
func (s *Stack) AwaitRun(tb testing.TB, db *store.Store, run int64, what string, most time.Duration, ok func(store.Run) bool) store.Run {
	tb.Helper()
	var last store.Run
	Await(tb, fmt.Sprintf("run %d to be %s", run, what), most, func() (bool, string) {
		row, err := db.Run(tb.Context(), run)
		if err != nil {
			return false, err.Error()
		}
		last = row
		return ok(row), string(row.Status) + " " + row.WaitingFor
	})
	return last
}

// AwaitEnd waits until a run has ended, both in its row and in Temporal.
func (s *Stack) AwaitEnd(tb testing.TB, db *store.Store, run int64, most time.Duration) store.Run {
	tb.Helper()
	return s.AwaitRun(tb, db, run, "over", most, func(r store.Run) bool { return r.Status.Terminal() })
}

// AwaitStatus waits until a run has a status.
func (s *Stack) AwaitStatus(tb testing.TB, db *store.Store, run int64, status contract.Status, most time.Duration) store.Run {
	tb.Helper()
	return s.AwaitRun(tb, db, run, string(status), most, func(r store.Run) bool { return r.Status == status })
}
