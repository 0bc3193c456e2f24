package devstack_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/devstack"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/proc"
	"github.com/rocketgpt/orchestrator/internal/proc/proctest"
)

// programs are the binaries under test, in a folder that every user can read.
var programs devstack.Programs

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "devstack-test-")
	if err == nil {
		err = build(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "build the stack's programs:", err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// build makes rgpt and rgpt-worker from the current sources, unless RGPT_BIN_DIR names a
// folder that has them. Temporal takes minutes to build and comes from the repository's
// bin folder.
func build(dir string) error {
	if err := os.Chmod(dir, 0o755); err != nil { // for a test that runs as another user
		return err
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		return err
	}
	programs = devstack.Programs{
		Starter: filepath.Join(dir, "rgpt"), Worker: filepath.Join(dir, "rgpt-worker"), Devserver: filepath.Join(dir, "temporal-devserver"),
	}
	for binary, source := range map[string]string{programs.Starter: "./starter", programs.Worker: "./workers", filepath.Join(dir, "rgpt-sandbox"): "./workers/sandbox"} {
		if built := os.Getenv("RGPT_BIN_DIR"); built != "" {
			if err := copyFile(filepath.Join(built, filepath.Base(binary)), binary); err != nil {
				return err
			}
			continue
		}
		cmd := exec.Command("go", "build", "-o", binary, source)
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("go build %s: %w\n%s", source, err, out)
		}
	}
	if err := copyFile(filepath.Join(root, "bin", "temporal-devserver"), programs.Devserver); err != nil {
		return fmt.Errorf("make devserver builds it: %w", err)
	}
	return nil
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// folder returns a data folder that a server of another user can traverse.
func folder(tb testing.TB) string {
	tb.Helper()
	dir := tb.TempDir()
	for at := dir; at != os.TempDir() && at != "/"; at = filepath.Dir(at) {
		require.NoError(tb, os.Chmod(at, 0o755))
	}
	return filepath.Join(dir, "data")
}

func options(dir string) devstack.Options {
	return devstack.Options{DataDir: dir, Programs: programs, NeedModel: true}
}

// up starts a stack and stops it with the test, leaving nothing behind.
func up(tb testing.TB, o devstack.Options) *devstack.Stack {
	tb.Helper()
	tb.Cleanup(func() { down(tb, o.DataDir) })
	s, err := devstack.Up(tb.Context(), o)
	require.NoError(tb, err)
	require.True(tb, s.Running())
	return s
}

func down(tb testing.TB, dir string) {
	tb.Helper()
	_, err := devstack.Down(context.Background(), dir)
	if err != nil && !errors.Is(err, devstack.ErrNoStack) {
		require.NoError(tb, err)
	}
	require.Empty(tb, left(tb, dir), "processes of the stack are left")
}

// left returns the command lines of processes that name a folder.
func left(tb testing.TB, dir string) []string {
	tb.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(tb, err)
	var out []string
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err == nil && strings.Contains(string(raw), dir) {
			out = append(out, strings.ReplaceAll(string(raw), "\x00", " "))
		}
	}
	return out
}

// kill ends a process of the stack as a crash would.
func kill(tb testing.TB, s *devstack.Stack, role devstack.Role) devstack.Process {
	tb.Helper()
	p, ok := s.Process(role)
	require.True(tb, ok)
	require.NoError(tb, syscall.Kill(p.PID, syscall.SIGKILL))
	require.NoError(tb, p.ID.Stop(tb.Context(), 10*time.Second, syscall.SIGKILL), "it is gone")
	return p
}

// works requires that the server of a stack reaches database and Temporal.
func works(tb testing.TB, s *devstack.Stack) {
	tb.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	ctx, cancel := context.WithTimeout(tb.Context(), 30*time.Second)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.Server+"/readyz", http.NoBody)
		require.NoError(tb, err)
		answer, err := client.Do(req)
		if err == nil {
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return
			}
		}
		select {
		case <-ctx.Done():
			require.FailNow(tb, "the server never became ready", "%v", err)
		case <-tick.C:
		}
	}
}

func TestAStackIsRestoredAfterAnyOfItsProcessesWasKilled(t *testing.T) {
	t.Parallel()
	o := options(folder(t))
	s := up(t, o)
	works(t, s)
	info, err := os.Stat(filepath.Join(o.DataDir, "stack.json"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), "it holds the password of the database")
	mark(t, s)

	again, err := devstack.Up(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, pids(s), pids(again), "a second time changes nothing")

	for _, role := range devstack.Roles() {
		killed := kill(t, again, role)
		seen, err := devstack.Load(o.DataDir)
		require.NoError(t, err)
		p, _ := seen.Process(role)
		require.Equal(t, "down", p.State)
		require.False(t, seen.Running())

		again, err = devstack.Up(t.Context(), o)
		require.NoError(t, err, role)
		require.True(t, again.Running())
		p, _ = again.Process(role)
		require.NotEqual(t, killed.PID, p.PID)
		require.Equal(t, killed.Address, p.Address, "links go on working")
		for _, other := range devstack.Roles() {
			if other != role {
				require.Equal(t, pids(seen)[other], pids(again)[other], "the %s was left alone", other)
			}
		}
	}
	works(t, again)
	requireMark(t, again)

	for _, role := range devstack.Roles() {
		kill(t, again, role)
	}
	again, err = devstack.Up(t.Context(), o)
	require.NoError(t, err)
	works(t, again)
	requireMark(t, again)
	stopped, err := devstack.Down(t.Context(), o.DataDir)
	require.NoError(t, err)
	for _, p := range stopped.Processes {
		require.Equal(t, "down", p.State)
	}
	require.Empty(t, left(t, o.DataDir))
	_, err = devstack.Down(t.Context(), o.DataDir)
	require.NoError(t, err, "a second time changes nothing")
}

func pids(s *devstack.Stack) map[devstack.Role]int {
	out := map[devstack.Role]int{}
	for _, p := range s.Processes {
		out[p.Role] = p.PID
	}
	return out
}

// mark puts something into the database that must still exist later.
func mark(tb testing.TB, s *devstack.Stack) {
	tb.Helper()
	conn, err := pgx.Connect(tb.Context(), s.Database)
	require.NoError(tb, err)
	_, err = conn.Exec(tb.Context(), "CREATE TABLE mark AS SELECT 42 AS answer")
	require.NoError(tb, errors.Join(err, conn.Close(tb.Context())))
}

func requireMark(tb testing.TB, s *devstack.Stack) {
	tb.Helper()
	conn, err := pgx.Connect(tb.Context(), s.Database)
	require.NoError(tb, err)
	var answer int
	err = conn.QueryRow(tb.Context(), "SELECT answer FROM mark").Scan(&answer)
	require.NoError(tb, errors.Join(err, conn.Close(tb.Context())))
	require.Equal(tb, 42, answer)
}

// database is what is left of a stack that is only a database and a server of
// the API would be too slow to start for.
func database(dir string) devstack.Options {
	o := options(dir)
	o.Without = []devstack.Role{devstack.RoleTemporal, devstack.RoleWorker, devstack.RoleServer}
	return o
}

func TestTwoStacksRunSideBySideAndKnowNothingOfEachOther(t *testing.T) {
	t.Parallel()
	var stacks [2]*devstack.Stack
	var g errgroup.Group
	for i := range stacks {
		o := database(folder(t))
		t.Cleanup(func() { down(t, o.DataDir) })
		g.Go(func() (err error) {
			stacks[i], err = devstack.Up(t.Context(), o)
			return err
		})
	}
	require.NoError(t, g.Wait())
	require.NotEqual(t, stacks[0].Database, stacks[1].Database)
	mark(t, stacks[0])
	mark(t, stacks[1])
	_, err := devstack.Down(t.Context(), stacks[0].DataDir)
	require.NoError(t, err)
	requireMark(t, stacks[1])
}

func TestTheProcessesOfAStackConnectToTheDatabaseOverItsSocket(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "s") //nolint:usetesting // short enough for a socket, unlike the directory of a test
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755))
	s := up(t, database(filepath.Join(dir, "data")))
	require.Contains(t, s.Environment(), "DATABASE_URL="+s.Database)
	p, _ := s.Process(devstack.RolePostgres)
	require.Regexp(t, `^127\.0\.0\.1:\d+$`, p.Address, "people are still shown the address of TCP")
	u, err := url.Parse(s.Database)
	require.NoError(t, err)
	require.Equal(t, p.Address, u.Host)
	conn, err := pgx.Connect(t.Context(), s.Database)
	require.NoError(t, err)
	var socket bool
	err = conn.QueryRow(t.Context(), "SELECT client_addr IS NULL FROM pg_stat_activity WHERE pid = pg_backend_pid()").Scan(&socket)
	require.NoError(t, errors.Join(err, conn.Close(t.Context())))
	require.True(t, socket)
}

func TestCommandsAtTheSameTimeStartOneStack(t *testing.T) {
	t.Parallel()
	o := database(folder(t))
	t.Cleanup(func() { down(t, o.DataDir) })
	var stacks [3]*devstack.Stack
	var g errgroup.Group
	for i := range stacks {
		g.Go(func() (err error) {
			stacks[i], err = devstack.Up(t.Context(), o)
			return err
		})
	}
	require.NoError(t, g.Wait())
	require.Equal(t, pids(stacks[0]), pids(stacks[1]))
	require.Equal(t, pids(stacks[0]), pids(stacks[2]))
}

func TestWhatAKilledStarterLeftBehindIsFoundAgain(t *testing.T) {
	t.Parallel()
	o := database(folder(t))
	s := up(t, o)
	mark(t, s)
	first, _ := s.Process(devstack.RolePostgres)
	require.NoError(t, os.Remove(filepath.Join(o.DataDir, "stack.json")), "as if the starter had died before it could write it")
	again, err := devstack.Up(t.Context(), o)
	require.NoError(t, err)
	require.False(t, first.ID.Alive(), "no second server beside the first")
	requireMark(t, again)
	for _, line := range left(t, o.DataDir) { // the earlier model belongs to nobody, and does no harm
		if strings.Contains(line, "scripted") {
			stopStray(t, line, again)
		}
	}
}

// stopStray ends a process that the stack has forgotten.
func stopStray(tb testing.TB, line string, s *devstack.Stack) {
	tb.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(tb, err)
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil || strings.ReplaceAll(string(raw), "\x00", " ") != line {
			continue
		}
		var pid int
		_, err = fmt.Sscanf(f, "/proc/%d/cmdline", &pid)
		require.NoError(tb, err)
		if pid != pids(s)[devstack.RoleModel] {
			id, err := proc.Of(pid)
			require.NoError(tb, err)
			require.NoError(tb, id.Stop(tb.Context(), 5*time.Second, syscall.SIGTERM))
		}
	}
}

func TestAPortInUseIsRefusedBeforeAnythingStarts(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	o := options(folder(t))
	o.Port = l.Addr().(*net.TCPAddr).Port
	_, err = devstack.Up(t.Context(), o)
	require.Equal(t, contract.ClassHuman, fault.Of(err).Class)
	require.ErrorContains(t, err, fmt.Sprintf("port %d is in use", o.Port))
	require.Empty(t, left(t, o.DataDir))

	cmd := exec.CommandContext(t.Context(), programs.Starter, "dev", "--detach", "--data-dir", o.DataDir, "--port", fmt.Sprint(o.Port))
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, 4, exit.ExitCode(), string(out))
}

func TestABrokenScenarioIsRefusedBeforeAnythingStarts(t *testing.T) {
	t.Parallel()
	o := database(folder(t))
	broken := filepath.Join(filepath.Dir(o.DataDir), "broken")
	proctest.WriteProgram(t, broken, "#!/bin/sh\necho the disk of this test is made of cheese >&2\nexit 1\n")
	o.Programs.Starter = broken
	t.Cleanup(func() { down(t, o.DataDir) })
	_, err := devstack.Up(t.Context(), o)
	require.Equal(t, contract.ClassConfig, fault.Of(err).Class)
	require.ErrorContains(t, err, "model.log")
	require.ErrorContains(t, err, "made of cheese", "the end of the log is part of the message")
	o.Programs = programs
	_, err = devstack.Up(t.Context(), o)
	require.NoError(t, err, "once it is mended the stack comes up")
}

func TestAScenarioWithMistakesIsRefused(t *testing.T) {
	t.Parallel()
	o := database(folder(t))
	o.Scenario = filepath.Join(filepath.Dir(o.DataDir), "scenario.yaml")
	require.NoError(t, os.WriteFile(o.Scenario, []byte("rules: [{nonsense: true}]\n"), 0o600))
	t.Cleanup(func() { down(t, o.DataDir) })
	_, err := devstack.Up(t.Context(), o)
	require.Equal(t, contract.ClassConfig, fault.Of(err).Class)
	require.ErrorContains(t, err, "nonsense")
	o.Scenario = filepath.Join(filepath.Dir(o.DataDir), "nothing.yaml")
	_, err = devstack.Up(t.Context(), o)
	require.ErrorContains(t, err, "nothing.yaml")
}

func TestAScriptedModelThatAProviderReplacedLeavesTheStack(t *testing.T) {
	t.Parallel()
	o := database(folder(t))
	s := up(t, o)
	model, ok := s.Process(devstack.RoleModel)
	require.True(t, ok)
	o.NeedModel = false
	s, err := devstack.Up(t.Context(), o)
	require.NoError(t, err)
	require.False(t, model.ID.Alive())
	require.Empty(t, s.Model)
	require.True(t, s.Running(), "nothing is missed")
}

func TestRunningProcessesGetAScriptedModelThatIsAddedLater(t *testing.T) {
	t.Parallel()
	o := options(folder(t))
	o.NeedModel = false
	before := up(t, o)
	o.Scenario = filepath.Join(filepath.Dir(o.DataDir), "some.yaml")
	require.NoError(t, os.WriteFile(o.Scenario, []byte("rules: [{reply: {text: hello}}]\n"), 0o600))
	after, err := devstack.Up(t.Context(), o)
	require.NoError(t, err)
	require.True(t, after.Running())
	require.NotEmpty(t, after.Model)
	for _, role := range []devstack.Role{devstack.RoleWorker, devstack.RoleServer} {
		was, ok := before.Process(role)
		require.True(t, ok)
		is, ok := after.Process(role)
		require.True(t, ok)
		require.NotEqual(t, was.PID, is.PID, role)
		require.False(t, was.ID.Alive(), role)
		env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", is.PID))
		require.NoError(t, err)
		require.Contains(t, strings.Split(string(env), "\x00"), "RGPT_SCRIPTED_URL="+after.Model, role)
	}
	again, err := devstack.Up(t.Context(), o)
	require.NoError(t, err)
	for _, role := range []devstack.Role{devstack.RoleModel, devstack.RoleWorker, devstack.RoleServer} {
		was, _ := after.Process(role)
		is, _ := again.Process(role)
		require.Equal(t, was.PID, is.PID, "%s knows what there is", role)
	}
}

func TestAnotherProcessWithAReusedPIDIsNotStopped(t *testing.T) {
	t.Parallel()
	stranger := exec.CommandContext(t.Context(), "sleep", "600")
	require.NoError(t, stranger.Start())
	t.Cleanup(func() { require.Error(t, stranger.Wait(), "it lived until now") })
	t.Cleanup(func() { require.NoError(t, stranger.Process.Kill()) })
	id, err := proc.Of(stranger.Process.Pid)
	require.NoError(t, err)

	dir := folder(t)
	require.NoError(t, os.MkdirAll(dir, 0o700))
	stale := proc.ID{PID: id.PID, Start: id.Start - 1} // the process that had this number before
	ids, processes := map[devstack.Role]proc.ID{}, []map[string]any{}
	for _, role := range devstack.Roles() {
		ids[role] = stale
		processes = append(processes, map[string]any{"role": role, "pid": id.PID})
	}
	raw, err := json.Marshal(map[string]any{"data_dir": dir, "processes": processes, "ids": ids})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "stack.json"), raw, 0o600))

	s, err := devstack.Load(dir)
	require.NoError(t, err)
	for _, p := range s.Processes {
		require.Equal(t, "down", p.State)
	}
	_, err = devstack.Down(t.Context(), dir)
	require.NoError(t, err)
	require.True(t, id.Alive())
}

func TestADamagedStateFileIsReportedAndNotOverwritten(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	require.NoError(t, os.MkdirAll(dir, 0o700))
	file := filepath.Join(dir, "stack.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"data`), 0o600))
	for _, err := range []error{
		func() error { _, err := devstack.Load(dir); return err }(),
		func() error { _, err := devstack.Up(t.Context(), options(dir)); return err }(),
		func() error { _, err := devstack.Down(t.Context(), dir); return err }(),
	} {
		require.Equal(t, contract.ClassConfig, fault.Of(err).Class)
		require.ErrorContains(t, err, file)
	}
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, `{"data`, string(raw))
}

func TestAnOrdinaryUserRunsAStackOfTheirOwn(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Log("this test runs as an ordinary user already, as do all others")
	}
	dir := folder(t)
	home := filepath.Dir(dir)
	run := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), programs.Starter, append(args, "--data-dir", dir)...)
		if os.Geteuid() == 0 {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		}
		cmd.Dir, cmd.Env = home, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + os.TempDir()}
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%v\n%s", args, out)
		return string(out)
	}
	if os.Geteuid() == 0 {
		require.NoError(t, os.Chown(home, nobody, nobody))
	}
	t.Cleanup(func() { down(t, dir) })
	run("dev", "--detach", "--port", "0")
	s, err := devstack.Load(dir)
	require.NoError(t, err)
	works(t, s)
	roles := make([]devstack.Role, 0, len(s.Processes))
	for _, p := range s.Processes {
		roles = append(roles, p.Role)
	}
	slices.Sort(roles)
	all := devstack.Roles()
	slices.Sort(all)
	require.Equal(t, all, roles)
	run("dev", "stop")
	require.Empty(t, left(t, dir))
}

// nobody is the id of an ordinary user.
const nobody = 65534

func TestAStackOfAnotherFolderIsNotUsed(t *testing.T) {
	t.Parallel()
	here, other := t.TempDir(), t.TempDir()
	write := func(dataDir string) {
		require.NoError(t, os.WriteFile(filepath.Join(here, "stack.json"), fmt.Appendf(nil, `{"data_dir": %q, "database_url": "postgres://elsewhere"}`, dataDir), 0o600))
	}
	for _, dir := range []string{other, "/does/not/exist", ""} {
		write(dir)
		_, err := devstack.Load(here)
		require.ErrorContains(t, err, "the data folder was moved or copied", dir)
	}
	write(here)
	s, err := devstack.Load(here)
	require.NoError(t, err)
	require.Equal(t, here, s.DataDir)
}
