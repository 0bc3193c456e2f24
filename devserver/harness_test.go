package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// asServer makes the test binary behave as temporal-devserver, so that tests
// can kill a real process without building the program a second time.
const asServer = "TEMPORAL_DEVSERVER_TEST_AS_SERVER"

const waitLimit = 60 * time.Second

func TestMain(m *testing.M) {
	if os.Getenv(asServer) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func serverCommand(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), asServer+"=1", postgresEnv+"=")
	cmd.SysProcAttr = endWithParent()
	return cmd
}

// runToEnd runs a server that is expected to end by itself.
func runToEnd(t testing.TB, args ...string) (exitCode int, output string) {
	t.Helper()
	out, err := serverCommand(args...).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	if exit != nil {
		return exit.ExitCode(), string(out)
	}
	return 0, string(out)
}

// process is a running server.
type process struct {
	Ready
	cmd       *exec.Cmd
	output    *lockedBuffer
	readyFile string
	exited    chan struct{} // closed once the process is gone and cmd.ProcessState set
}

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// startServer returns once the ready file is there. Ports are free ones unless
// args say otherwise.
func startServer(t testing.TB, args ...string) *process {
	t.Helper()
	p := &process{
		output:    &lockedBuffer{},
		readyFile: filepath.Join(t.TempDir(), "ready.json"),
		exited:    make(chan struct{}),
	}
	p.cmd = serverCommand(append([]string{"--port", "0", "--ready-file", p.readyFile}, args...)...)
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	require.NoError(t, p.cmd.Start())
	go func() {
		_ = p.cmd.Wait()
		close(p.exited)
	}()
	t.Cleanup(p.kill)
	await(t, "the server to be ready", func(context.Context) error {
		select {
		case <-p.exited:
			require.FailNow(t, "the server ended instead of getting ready", p.output.String())
		default:
		}
		content, err := os.ReadFile(p.readyFile)
		if err != nil {
			return err
		}
		return json.Unmarshal(content, &p.Ready)
	})
	return p
}

// kill ends the process as a crash would.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.exited
}

// stop ends the process as asked for, and returns its exit code.
func (p *process) stop(t testing.TB) int {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-p.exited:
	case <-time.After(waitLimit):
		require.FailNow(t, "the server did not stop", p.output.String())
	}
	return p.cmd.ProcessState.ExitCode()
}

func (p *process) dial(t testing.TB, namespace string) client.Client {
	t.Helper()
	c, err := client.Dial(client.Options{HostPort: p.Address, Namespace: namespace, Logger: silentSDK{}})
	require.NoError(t, err, p.output)
	t.Cleanup(c.Close)
	return c
}

const taskQueue = "devserver-test"

// work runs a worker for the test's workflows until stop is called or the
// test ends.
func work(t testing.TB, c client.Client) (stop func()) {
	t.Helper()
	w := worker.New(c, taskQueue, worker.Options{})
	w.RegisterWorkflow(sequence)
	w.RegisterWorkflow(greetOnSignal)
	w.RegisterWorkflow(parent)
	w.RegisterActivity(echo)
	require.NoError(t, w.Start())
	stop = sync.OnceFunc(w.Stop)
	t.Cleanup(stop)
	return stop
}

// sequence runs n activities, one after the other.
func sequence(ctx workflow.Context, n int) (int, error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: 10 * time.Second})
	var last int
	for i := range n {
		if err := workflow.ExecuteActivity(ctx, echo, i+1).Get(ctx, &last); err != nil {
			return 0, err
		}
	}
	return last, nil
}

func echo(ctx context.Context, n int) (int, error) {
	activity.RecordHeartbeat(ctx, n)
	return n, nil
}

func greetOnSignal(ctx workflow.Context) (string, error) {
	double := func(_ workflow.Context, n int) (int, error) { return 2 * n, nil }
	if err := workflow.SetUpdateHandler(ctx, "double", double); err != nil {
		return "", err
	}
	var name string
	workflow.GetSignalChannel(ctx, "name").Receive(ctx, &name)
	return "hello " + name, nil
}

// parent waits for a child that waits for a signal.
func parent(ctx workflow.Context) (greeting string, err error) {
	ctx = workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{WorkflowID: "child"})
	err = workflow.ExecuteChildWorkflow(ctx, greetOnSignal).Get(ctx, &greeting)
	return greeting, err
}

type silentSDK struct{}

var _ sdklog.Logger = silentSDK{}

func (silentSDK) Debug(string, ...any) {}
func (silentSDK) Info(string, ...any)  {}
func (silentSDK) Warn(string, ...any)  {}
func (silentSDK) Error(string, ...any) {}

func await(t testing.TB, what string, try func(context.Context) error) {
	t.Helper()
	err := eventually(t.Context(), waitLimit, try)
	require.NoError(t, err, "waiting for "+what)
}

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	t.Cleanup(cancel)
	return ctx
}

// postgres is a private Postgres cluster.
type postgres struct {
	url      string
	bin, dir string
	port     int
	attr     *syscall.SysProcAttr
	settings []string
}

const postgresPassword = "s3cret/with:signs"

// startPostgres makes a cluster from the installed binaries. It skips the
// test where there are none.
func startPostgres(t testing.TB, settings ...string) *postgres {
	t.Helper()
	dir, err := os.MkdirTemp("", "devserver-pg-") //nolint:usetesting // t.TempDir lets no other user in
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	p := &postgres{bin: postgresBinaries(t), dir: dir, attr: &syscall.SysProcAttr{}, settings: settings}
	if os.Geteuid() == 0 { // initdb refuses root
		p.attr.Credential = unprivileged(t)
		require.NoError(t, os.Chown(dir, int(p.attr.Credential.Uid), int(p.attr.Credential.Gid)))
	}
	password := filepath.Join(dir, "password")
	require.NoError(t, os.WriteFile(password, []byte(postgresPassword), 0o644))
	p.run(t, "initdb", "-D", dir+"/data", "-U", "dev", "--pwfile="+password, "--auth=scram-sha-256", "--no-locale", "-E", "UTF8", "--no-sync")
	p.port, err = claimPort(t.Context(), "port", loopback, 0)
	require.NoError(t, err)
	p.url = fmt.Sprintf("postgres://dev:%s@127.0.0.1:%d/postgres?sslmode=disable", strings.NewReplacer("/", "%2F", ":", "%3A").Replace(postgresPassword), p.port)
	p.start(t)
	t.Cleanup(func() { p.control(t, "stop", "-m", "immediate") })
	return p
}

func (p *postgres) start(t testing.TB) {
	t.Helper()
	options := fmt.Sprintf("-p %d -c listen_addresses=127.0.0.1 -c unix_socket_directories=%s", p.port, p.dir)
	for _, s := range p.settings {
		options += " -c " + s
	}
	p.control(t, "start", "-w", "-l", p.dir+"/log", "-o", options)
}

func (p *postgres) control(t testing.TB, args ...string) {
	t.Helper()
	p.run(t, "pg_ctl", append([]string{"-D", p.dir + "/data"}, args...)...)
}

func (p *postgres) run(t testing.TB, program string, args ...string) {
	t.Helper()
	cmd := exec.Command(filepath.Join(p.bin, program), args...)
	cmd.SysProcAttr = p.attr
	cmd.Dir = p.dir
	// A file, not a pipe: the server that pg_ctl starts would keep a pipe open.
	output, err := os.OpenFile(filepath.Join(p.dir, program+".out"), os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o644)
	require.NoError(t, err)
	defer output.Close()
	cmd.Stdout, cmd.Stderr = output, output
	if err := cmd.Run(); err != nil {
		text, _ := os.ReadFile(output.Name())
		log, _ := os.ReadFile(p.dir + "/log")
		require.NoError(t, err, "%s: %s%s", program, text, log)
	}
}

func (p *postgres) query(t testing.TB, database, sql string, args ...any) string {
	t.Helper()
	cfg, err := pgx.ParseConfig(p.url)
	require.NoError(t, err)
	cfg.Database = database
	conn, err := pgx.ConnectConfig(testContext(t), cfg)
	require.NoError(t, err)
	defer closeQuickly(t.Context(), conn)
	var result any
	require.NoError(t, conn.QueryRow(testContext(t), sql, args...).Scan(&result))
	return fmt.Sprint(result)
}

func postgresBinaries(t testing.TB) string {
	t.Helper()
	candidates, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	if out, err := exec.Command("pg_config", "--bindir").Output(); err == nil {
		candidates = append([]string{strings.TrimSpace(string(out))}, candidates...)
	}
	for _, dir := range candidates {
		if _, err := os.Stat(filepath.Join(dir, "initdb")); err == nil {
			return dir
		}
	}
	t.Skip("no Postgres server binaries on this machine: initdb is neither where pg_config points nor under /usr/lib/postgresql")
	return ""
}

func unprivileged(t testing.TB) *syscall.Credential {
	t.Helper()
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		require.NoError(t, err)
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		require.NoError(t, err)
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	t.Skip("running as root, and there is no user postgres or nobody to run a Postgres as")
	return nil
}

// occupiedPort is a port that somebody else listens on.
func occupiedPort(t testing.TB) int {
	t.Helper()
	listener, err := net.Listen("tcp", loopback+":0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	return listener.Addr().(*net.TCPAddr).Port
}
