// Package dockertest starts a Docker engine for tests, with an image that is made from this host's
// programs: tests need no registry.
package dockertest

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/moby/moby/client"
	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/await"
)

// Image is the name of the image in the engine of Start.
const Image = "rgpt-test:1"

// Engine is a Docker engine with data of its own.
type Engine struct {
	// Host is its address.
	Host string

	dir string
	mu  sync.Mutex
	cmd *exec.Cmd
	// ended is closed when dockerd has ended.
	ended chan struct{}
}

// Start starts an engine and imports the image, or skips the test where Docker cannot run. The engine
// ends with the test.
func Start(tb testing.TB) *Engine {
	tb.Helper()
	e := New(tb)
	tb.Cleanup(e.Close)
	return e
}

// New is like Start, but the caller must close the engine.
func New(tb testing.TB) *Engine {
	tb.Helper()
	if os.Geteuid() != 0 {
		tb.Skip("a Docker engine for tests needs root")
	}
	for _, program := range []string{"dockerd", "containerd", "runc"} {
		if _, err := exec.LookPath(program); err != nil {
			tb.Skipf("%s is not installed (make setup)", program)
		}
	}
	// Not below the test's directory: a socket's path must be short.
	dir, err := os.MkdirTemp("", "rgpt-docker-") //nolint:usetesting // see above
	if err != nil {
		tb.Fatal(err)
	}
	e := &Engine{Host: "unix://" + filepath.Join(dir, "s"), dir: dir}
	e.StartAgain(tb)
	if err := e.importImage(tb.Context()); err != nil {
		e.Close()
		tb.Fatal(err)
	}
	return e
}

// Close stops the engine and removes its data.
func (e *Engine) Close() {
	e.stop()
	err := unmountBelow(e.dir)
	if err == nil {
		err = os.RemoveAll(e.dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "The data of a Docker engine remains:", err)
	}
}

// StartAgain starts the engine on its existing data.
func (e *Engine) StartAgain(tb testing.TB) {
	tb.Helper()
	for _, driver := range []string{"overlay2", "vfs"} {
		if err := e.start(tb, driver); err == nil {
			return
		} else if driver == "vfs" {
			tb.Skipf("dockerd does not start here: %v", err)
		}
	}
}

func (e *Engine) start(tb testing.TB, driver string) error {
	log := &tail{}
	cmd := exec.Command("dockerd", "--iptables=false", "--ip6tables=false", "--bridge=none", "--storage-driver", driver,
		"--data-root", filepath.Join(e.dir, "data"), "--exec-root", filepath.Join(e.dir, "exec"), "--pidfile", filepath.Join(e.dir, "pid"),
		"-H", e.Host)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	engine, err := client.New(client.WithHost(e.Host))
	if err != nil {
		return err
	}
	defer func() { _ = engine.Close() }()
	await.Until(tb, "an answer of dockerd", func() bool {
		_, err := engine.Ping(tb.Context(), client.PingOptions{})
		return err == nil || isClosed(ended)
	})
	if isClosed(ended) {
		return fmt.Errorf("dockerd with the storage driver %s: %s", driver, log.String())
	}
	e.mu.Lock()
	e.cmd, e.ended = cmd, ended
	e.mu.Unlock()
	return nil
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Kill kills the engine and its containerd, as a crash does. Containers live on.
func (e *Engine) Kill(tb testing.TB) {
	tb.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, pid := range e.daemons() {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	_ = os.Remove(filepath.Join(e.dir, "pid"))
	_ = os.Remove(filepath.Join(e.dir, "exec", "containerd", "containerd.pid"))
}

// daemons returns the process ids of dockerd and its containerd.
func (e *Engine) daemons() []int {
	var pids []int
	for _, file := range []string{filepath.Join(e.dir, "pid"), filepath.Join(e.dir, "exec", "containerd", "containerd.pid")} {
		data, err := os.ReadFile(file)
		var pid int
		if _, scanErr := fmt.Sscan(string(data), &pid); err == nil && scanErr == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// stopTime is the time in which an engine must end.
const stopTime = 30 * time.Second

// stop stops the engine.
func (e *Engine) stop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cmd == nil {
		return
	}
	_ = e.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-e.ended:
	case <-time.After(stopTime):
		for _, pid := range e.daemons() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// unmountBelow unmounts what a killed engine left mounted.
func unmountBelow(dir string) error {
	data, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return err
	}
	var targets []string
	for line := range strings.Lines(string(data)) {
		if fields := strings.Fields(line); len(fields) > 1 && strings.HasPrefix(fields[1], dir+"/") {
			targets = append(targets, fields[1])
		}
	}
	slices.Reverse(targets)
	for _, t := range targets {
		if err := syscall.Unmount(t, syscall.MNT_DETACH); err != nil && !errors.Is(err, syscall.EINVAL) {
			return fmt.Errorf("unmount %s: %w", t, err)
		}
	}
	return nil
}

// packages are in the image, with all that they need: what commands of tests call.
var packages = []string{"bash", "dash", "coreutils", "grep", "sed", "gawk", "findutils", "util-linux", "procps", "python3", "git", "passwd", "login"}

// importImage makes the image from the files of Debian packages.
func (e *Engine) importImage(ctx context.Context) error {
	files, err := packageFiles(ctx)
	if err != nil {
		return err
	}
	engine, err := client.New(client.WithHost(e.Host))
	if err != nil {
		return err
	}
	defer func() { _ = engine.Close() }()
	r, w := io.Pipe()
	go func() { _ = w.CloseWithError(writeTar(w, files)) }()
	result, err := engine.ImageImport(ctx, client.ImageImportSource{Source: r, SourceName: "-"}, Image, client.ImageImportOptions{})
	if err != nil {
		return fmt.Errorf("import the image: %w", err)
	}
	defer result.Close()
	_, err = io.Copy(io.Discard, result)
	return err
}

// Variant makes another image from Image, with a variable of its own.
func (e *Engine) Variant(tb testing.TB, name, key, value string) {
	tb.Helper()
	var files bytes.Buffer
	out := tar.NewWriter(&files)
	dockerfile := fmt.Sprintf("FROM %s\nENV %s=%s\n", Image, key, value)
	require.NoError(tb, out.WriteHeader(&tar.Header{Name: "Dockerfile", Mode: 0o644, Size: int64(len(dockerfile))}))
	_, err := io.WriteString(out, dockerfile)
	require.NoError(tb, err)
	require.NoError(tb, out.Close())
	engine, err := client.New(client.WithHost(e.Host))
	require.NoError(tb, err)
	defer func() { _ = engine.Close() }()
	built, err := engine.ImageBuild(tb.Context(), &files, client.ImageBuildOptions{Tags: []string{name}})
	require.NoError(tb, err)
	defer built.Body.Close()
	said, err := io.ReadAll(built.Body)
	require.NoError(tb, err)
	require.Contains(tb, string(said), "Successfully tagged")
}

// packageFiles lists the files of the packages and of those that they need.
func packageFiles(ctx context.Context) ([]string, error) {
	all, queue := map[string]bool{}, slices.Clone(packages)
	for len(queue) > 0 {
		out, err := exec.CommandContext(ctx, "dpkg-query", append([]string{"-W", "-f", "${Pre-Depends},${Depends}\n"}, queue...)...).Output()
		for _, p := range queue {
			all[p] = true
		}
		queue = nil
		if err != nil && len(out) == 0 {
			return nil, fmt.Errorf("list packages for the image: %w", err)
		}
		for _, dependency := range strings.FieldsFunc(string(out), func(r rune) bool { return r == ',' || r == '\n' || r == '|' }) {
			name, _, _ := strings.Cut(strings.TrimSpace(dependency), " ")
			name, _, _ = strings.Cut(name, ":")
			if name != "" && !all[name] && !slices.Contains(queue, name) && installed(ctx, name) {
				queue = append(queue, name)
			}
		}
	}
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	out, err := exec.CommandContext(ctx, "dpkg-query", append([]string{"-L"}, names...)...).Output()
	if err != nil && len(out) == 0 {
		return nil, fmt.Errorf("list the files of packages: %w", err)
	}
	var files []string
	lines := bufio.NewScanner(bytes.NewReader(out))
	for lines.Scan() {
		path := lines.Text()
		if strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "/usr/share/doc") && !strings.HasPrefix(path, "/usr/share/man") && !strings.HasPrefix(path, "/usr/share/locale") {
			files = append(files, path)
		}
	}
	slices.Sort(files)
	return slices.Compact(files), nil
}

func installed(ctx context.Context, name string) bool {
	out, err := exec.CommandContext(ctx, "dpkg-query", "-W", "-f", "${Status}", name).Output()
	return err == nil && strings.Contains(string(out), "ok installed")
}

// extra are files that no package contains, and mount points.
var extra = []string{"/bin/sh", "/etc/ld.so.cache", "/bin", "/sbin", "/lib", "/lib64", "/usr/bin/awk", "/etc/alternatives/awk", "/usr/bin/python3", "/usr/lib/x86_64-linux-gnu", "/usr/lib"}

func writeTar(w io.Writer, files []string) error {
	out := tar.NewWriter(w)
	for dir, mode := range map[string]int64{"proc": 0o755, "sys": 0o755, "dev": 0o755, "etc": 0o755, "tmp": 0o1777, "run": 0o755, "var/tmp": 0o1777, "usr/local/bin": 0o755} {
		if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: mode}); err != nil {
			return err
		}
	}
	seen := map[string]bool{"/proc": true, "/sys": true, "/dev": true, "/etc": true, "/tmp": true, "/run": true, "/": true, "/var/tmp": true, "/usr/local/bin": true}
	for _, path := range slices.Concat(files, extra) {
		if err := addFile(out, path, seen); err != nil {
			return fmt.Errorf("add %s to the image: %w", path, err)
		}
	}
	return out.Close()
}

func addFile(out *tar.Writer, path string, seen map[string]bool) error {
	// /bin/x of a package is /usr/bin/x where /bin is a link.
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return nil // removed after the installation
	}
	path = filepath.Join(dir, filepath.Base(path))
	if seen[path] {
		return nil
	}
	seen[path] = true
	info, err := os.Lstat(path)
	if err != nil {
		return nil // see above
	}
	link := ""
	if info.Mode()&os.ModeSymlink != 0 {
		if link, err = os.Readlink(path); err != nil {
			return err
		}
	}
	header, err := tar.FileInfoHeader(info, link)
	if err != nil {
		return err
	}
	header.Name = strings.TrimPrefix(path, "/")
	if info.IsDir() {
		header.Name += "/"
	}
	if err := out.WriteHeader(header); err != nil || !info.Mode().IsRegular() {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(out, f)
	return err
}

// tail keeps the last part of an output.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const tailBytes = 2 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	t.text = t.text[max(0, len(t.text)-tailBytes):]
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}
