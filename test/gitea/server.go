package gitea

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rocketgpt/orchestrator/internal/freeport"
	"github.com/rocketgpt/orchestrator/internal/proc"
)

const (
	startTime = 90 * time.Second // of the server, including the tables of a new database
	stopTime  = 10 * time.Second
	callTime  = 30 * time.Second // of a call of its API
	logLines  = 60               // of its log that a failed test shows
)

// Server is a running Gitea.
type Server struct {
	URL string // without a slash at the end
	// Admin administers the server. Owner owns the repositories that tests create; Bot and Reviewer
	// have no rights at them until they are collaborators.
	Admin, Owner, Bot, Reviewer User

	program string // folder with the program, templates and options
	dir     string
	port    int
	client  *http.Client
	release func() error

	mu      sync.Mutex // of process
	process proc.ID
}

// User is an account with a token that has all scopes.
type User struct {
	Login    string
	Password string
	Token    string
}

// Start starts a server for a test. It stops at the end of the test. If the test fails, the end of
// the server's log is shown.
func Start(tb testing.TB) *Server {
	tb.Helper()
	s, err := launch(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		s.showLog(tb)
		if err := s.close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

// Shared returns a server that all tests of the process share, which must therefore not stop it.
// Main stops it.
func Shared(tb testing.TB) *Server {
	tb.Helper()
	s, err := shared.get()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { s.showLog(tb) })
	return s
}

// sharedServer is started by the first test that needs it.
type sharedServer struct {
	once   sync.Once
	server *Server
	err    error
}

var shared sharedServer

func (s *sharedServer) get() (*Server, error) {
	s.once.Do(func() { s.server, s.err = launch(context.Background()) })
	return s.server, s.err
}

// runner is the argument of goleak.VerifyTestMain.
type runner struct{ m *testing.M }

// Main wraps m so that its Run also stops the shared server.
func Main(m *testing.M) interface{ Run() int } { return runner{m} }

// Run runs the tests and stops the shared server.
func (r runner) Run() int {
	code := r.m.Run()
	if shared.server != nil {
		if err := shared.server.close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return max(code, 1)
		}
	}
	return code
}

// launch starts a server with an administrator and the other users.
func launch(ctx context.Context) (*Server, error) {
	program, err := find()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "rgpt-gitea-")
	if err != nil {
		return nil, fmt.Errorf("create a folder for Gitea: %w", err)
	}
	s := &Server{program: program, dir: dir, client: &http.Client{Timeout: callTime}}
	if s.release, err = guard(context.WithoutCancel(ctx), dir, s.pidFile()); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if s.port, err = freeport.Take(ctx); err != nil {
		return nil, errors.Join(err, s.close())
	}
	s.URL = "http://127.0.0.1:" + strconv.Itoa(s.port)
	if err := os.WriteFile(s.settings(), []byte(s.ini()), 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("write Gitea's settings: %w", err), s.close())
	}
	err = s.run(ctx)
	if err == nil {
		err = s.createUsers(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// find returns the folder with the program.
func find() (string, error) {
	dir := os.Getenv("RGPT_BIN_DIR")
	if dir == "" {
		_, file, _, _ := runtime.Caller(0)
		dir = filepath.Join(filepath.Dir(filepath.Dir(filepath.Dir(file))), "bin")
	}
	folder, err := filepath.EvalSymlinks(filepath.Join(dir, "gitea"))
	if err == nil {
		_, err = os.Stat(filepath.Join(folder, "gitea"))
	}
	if err != nil {
		return "", fmt.Errorf("gitea is missing; build it with `make gitea`, which takes minutes the first time: %w", err)
	}
	return folder, nil
}

func (s *Server) settings() string { return filepath.Join(s.dir, "app.ini") }
func (s *Server) log() string      { return filepath.Join(s.dir, "gitea.log") }
func (s *Server) pidFile() string  { return filepath.Join(s.dir, "gitea.pid") }

// ini returns the server's settings. It sends nothing to the internet, and its webhooks reach only
// the loopback interface.
func (s *Server) ini() string {
	name := "root"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	return `APP_NAME = Gitea for tests
RUN_USER = ` + name + `
RUN_MODE = prod
; It serves only the test, and there may be no other user to run as.
I_AM_BEING_UNSAFE_RUNNING_AS_ROOT = true
WORK_PATH = ` + s.dir + `
[server]
PROTOCOL = http
HTTP_ADDR = 127.0.0.1
HTTP_PORT = ` + strconv.Itoa(s.port) + `
ROOT_URL = ` + s.URL + `/
STATIC_ROOT_PATH = ` + s.program + `
APP_DATA_PATH = ` + filepath.Join(s.dir, "data") + `
PID_FILE = ` + s.pidFile() + `
OFFLINE_MODE = true
DISABLE_SSH = true
LFS_START_SERVER = false
; Connections that clients keep open would delay a stop by this time.
GRACEFUL_HAMMER_TIME = 1s
[database]
DB_TYPE = sqlite3
PATH = ` + filepath.Join(s.dir, "gitea.db") + `
SQLITE_JOURNAL_MODE = WAL
[repository]
ROOT = ` + filepath.Join(s.dir, "repositories") + `
DEFAULT_BRANCH = main
[security]
INSTALL_LOCK = true
SECRET_KEY = ` + rand.Text() + `
INTERNAL_TOKEN = ` + rand.Text() + rand.Text() + `
[oauth2]
ENABLED = false
[service]
DISABLE_REGISTRATION = true
[webhook]
ALLOWED_HOST_LIST = loopback
[indexer]
ISSUE_INDEXER_TYPE = db
[picture]
DISABLE_GRAVATAR = true
[cron.update_checker]
ENABLED = false
[log]
MODE = console
LEVEL = Info
`
}

// env returns the environment of the program: git must not read the settings of the user.
func (s *Server) env() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir, "TMPDIR=" + s.dir, "USER=" + os.Getenv("USER"), "GIT_CONFIG_NOSYSTEM=1", "TZ=UTC"}
}

// run starts the process and waits until it answers.
func (s *Server) run(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	s.process, err = proc.Start(proc.Spec{
		Path: filepath.Join(s.program, "gitea"), Args: []string{"web", "--config", s.settings(), "--pid", s.pidFile()},
		Dir: s.dir, Log: s.log(), Env: s.env(),
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if err = s.Call(ctx, User{}, http.MethodGet, "/version", nil, nil); err == nil {
			return nil
		}
		if !s.process.Alive() {
			return fmt.Errorf("start Gitea: it exited; the last lines of its log:\n%s", proc.Tail(s.log(), logLines))
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("start Gitea: it did not answer within %s: %w; the last lines of its log:\n%s", startTime, err, proc.Tail(s.log(), logLines))
		case <-tick.C:
		}
	}
}

// Kill ends the server and its children as kill -9 does. Its port and data stay reserved for
// Restart.
func (s *Server) Kill(tb testing.TB) {
	tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := syscall.Kill(-s.process.PID, syscall.SIGKILL); err != nil {
		tb.Fatalf("kill Gitea: %v", err)
	}
	if err := s.process.Stop(tb.Context(), stopTime, syscall.SIGKILL); err != nil {
		tb.Fatal(err)
	}
}

// Stop ends the server in the orderly way. Its port and data stay reserved for Restart.
func (s *Server) Stop(tb testing.TB) {
	tb.Helper()
	if err := s.stop(tb.Context()); err != nil {
		tb.Fatal(err)
	}
}

// Restart starts a server that was stopped or killed, with the same address and data. It returns
// when the server answers.
func (s *Server) Restart(tb testing.TB) {
	tb.Helper()
	if err := s.run(tb.Context()); err != nil {
		tb.Fatal(err)
	}
}

func (s *Server) stop(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process.Stop(ctx, stopTime, syscall.SIGTERM)
}

// close stops the server and removes its folder.
func (s *Server) close() error {
	s.client.CloseIdleConnections()
	err := s.stop(context.Background())
	return errors.Join(err, s.release())
}

func (s *Server) showLog(tb testing.TB) {
	if tb.Failed() {
		tb.Logf("the last lines of Gitea's log:\n%s", proc.Tail(s.log(), logLines))
	}
}

// command runs the program's command line and returns its output.
func (s *Server) command(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(s.program, "gitea"), append(args, "--config", s.settings())...)
	cmd.Env, cmd.Dir = s.env(), s.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("run gitea %s: %w\n%s", strings.Join(args[:min(3, len(args))], " "), err, out)
	}
	return string(out), nil
}

// watch waits until the process at the other end of its input has exited, for whatever reason, then
// kills the server and removes its folder.
const watch = `
read -r _
if pid=$(head -n 1 "$2" 2>/dev/null); then
	kill -KILL "-$pid" 2>/dev/null
	n=0
	while kill -0 "-$pid" 2>/dev/null && [ $n -lt 200 ]; do sleep 0.05; n=$((n + 1)); done
fi
rm -rf "$1"
`

// guard starts the watch script, which outlives every test. The returned function makes it end.
func guard(ctx context.Context, dir, pidFile string) (func() error, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("watch Gitea: %w", err)
	}
	defer r.Close()
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", watch, "gitea-watch", dir, pidFile)
	cmd.Stdin = r
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // protects it from interrupts at the terminal
	if err := cmd.Start(); err != nil {
		w.Close()
		return nil, fmt.Errorf("watch Gitea: %w", err)
	}
	return func() error {
		w.Close()
		return cmd.Wait()
	}, nil
}
