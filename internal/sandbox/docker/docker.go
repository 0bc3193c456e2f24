// Package docker runs commands in containers: one for each command, from an image that contains the
// toolchains, with a read-only root, no capabilities, no network but the proxy, and limits of CPU,
// memory and processes that the kernel enforces.
//
// Docker only creates, starts and removes the containers. Process 1 of each is the sandbox helper,
// which adds Landlock, seccomp and resource limits as on the host. It receives its files through a
// socket, so output and network traffic do not pass through Docker, and it ends with the worker.
//
// The worker and Docker must run on one host and see the same paths.
package docker

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"

	"github.com/rocketgpt/orchestrator/internal/sandbox"
)

// Options configure New.
type Options struct {
	// Host is the address of the Docker engine, such as unix:///run/docker.sock. "" uses
	// DOCKER_HOST, the current Docker context, or the usual sockets.
	Host string
	// Image contains the toolchains of commands. It must be present on the Docker host.
	Image string
	// CPUs is the number of processors that one container may use at once; 0 means no limit.
	CPUs float64
	// Warm is the number of containers that are created in advance for each kind of command.
	Warm int
	// DataDir is the worker's data folder. Containers mount directories below it.
	DataDir string
	// Helper is the program that becomes process 1 of each container. It must be statically linked.
	Helper string
	// Log receives what happens in the background.
	Log *slog.Logger
}

// Runner runs commands in containers. It is safe for concurrent use.
type Runner struct {
	options  Options
	engine   *client.Client
	image    image
	worker   string // identifies the containers of this runner
	owner    string // identifies the containers of all runners of the data folder
	dir      string // of control directories
	how      sandbox.Supervision
	giving   sync.Mutex // while the owner of a base changes
	discards sync.WaitGroup
	pool     *pool
	sweeper  *sweeper

	features []sandbox.Feature
}

// workerBytes is the size of a runner's id, which is also the beginning of its files' names.
const workerBytes = 6

// nobody is the user and group of commands, on the host and in containers.
const nobody = 65534

// New connects to Docker, removes what earlier workers of the data folder left behind, and runs a
// command to test the isolation. It returns an *sandbox.IsolationError if a required feature is
// missing.
func New(ctx context.Context, o Options) (*Runner, error) {
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	r, err := connect(ctx, o)
	if err != nil {
		return nil, err
	}
	if r.image, err = r.inspectImage(ctx, o.Image); err != nil {
		_ = r.engine.Close()
		return nil, err
	}
	r.how.Environment = r.image.environment
	r.pool = newPool(r, o.Warm)
	r.sweeper = startSweeper(r)
	err = r.selfTest(ctx)
	if err == nil {
		err = r.detectVersions(ctx)
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// connect finds the engine and prepares the data folder.
func connect(ctx context.Context, o Options) (*Runner, error) {
	if os.Geteuid() != 0 {
		return nil, unseen()
	}
	engine, err := findEngine(ctx, o.Host)
	if err != nil {
		return nil, unavailable(o.Host, err)
	}
	data, err := filepath.EvalSymlinks(o.DataDir)
	if err != nil {
		return nil, fmt.Errorf("find the data folder for containers: %w", err)
	}
	dir := filepath.Join(data, "containers")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create the directory for containers: %w", err)
	}
	if o.Helper, err = filepath.EvalSymlinks(o.Helper); err != nil {
		return nil, fmt.Errorf("find the helper program for containers: %w", err)
	}
	id := make([]byte, workerBytes)
	_, _ = rand.Read(id)
	r := &Runner{
		options: o, engine: engine, worker: hex.EncodeToString(id), owner: ownerOf(data), dir: dir,
		how: sandbox.Supervision{Seccomp: true, Landlock: true, CountsMemory: true},
	}
	r.options.DataDir = data
	return r, nil
}

// findEngine connects to the engine at an address or, without one, to the engine that testcontainers-go
// finds: it knows Docker contexts, rootless engines and the usual sockets.
func findEngine(ctx context.Context, host string) (*client.Client, error) {
	var engine *client.Client
	var err error
	if host != "" {
		engine, err = client.New(client.WithHost(host))
	} else if found, findErr := testcontainers.NewDockerClientWithOpts(ctx); findErr == nil {
		engine = found.Client
	} else {
		err = findErr
	}
	if err != nil {
		return nil, err
	}
	if _, err := engine.Ping(ctx, client.PingOptions{}); err != nil {
		_ = engine.Close()
		return nil, err
	}
	return engine, nil
}

// unavailable says how to make Docker available.
func unavailable(host string, err error) error {
	where := cmp.Or(host, os.Getenv("DOCKER_HOST"), "the default address")
	return &sandbox.IsolationError{Final: true, Missing: []sandbox.Feature{{
		Name: "Docker engine", Required: true, By: "docker", Detail: fmt.Sprintf("no engine answers at %s: %s", where, strings.TrimSpace(err.Error())),
		Fix: "start Docker and give this user access to its socket, or set execution.sandbox.docker.host",
	}}}
}

// Features reports the isolation of commands in containers.
func (r *Runner) Features() []sandbox.Feature { return r.features }

// Isolated is true: commands always run in containers.
func (r *Runner) Isolated() bool { return true }

// Image returns the id of the image in which commands run.
func (r *Runner) Image() string { return r.image.id }

// Versions returns the versions of the tools in the image, as in sandbox.Toolchains.
func (r *Runner) Versions() map[string]string { return r.image.versions }

// Run implements sandbox.Runner.
func (r *Runner) Run(ctx context.Context, c sandbox.Command) (sandbox.Result, error) {
	started := time.Now()
	if err := ctx.Err(); err != nil {
		return sandbox.Result{}, fmt.Errorf("sandbox: %w", context.Cause(ctx))
	}
	c = sandbox.WithGoCache(c, sandbox.HelperPath)
	c, err := sandbox.Complete(c, r.options.DataDir)
	if err != nil {
		return sandbox.Result{}, err
	}
	if err := r.give(c); err != nil {
		return sandbox.Result{}, err
	}
	b := &backend{runner: r}
	result, err := sandbox.Supervise(ctx, b, r.how, c, started)
	result.Duration = time.Since(started)
	return result, err
}

// Close removes the containers that were created in advance, and disconnects. No command may run any
// longer.
func (r *Runner) Close() {
	r.discards.Wait()
	if r.pool != nil {
		r.pool.close()
	}
	if r.sweeper != nil {
		r.sweeper.close()
	}
	_ = r.engine.Close()
}

// selfTest runs a command with each layer of the helper that containers of this host may refuse, and
// checks what it can do.
func (r *Runner) selfTest(ctx context.Context) error {
	dir, err := os.MkdirTemp(r.dir, r.worker+"-probe-")
	if err != nil {
		return fmt.Errorf("create a directory for the container test: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	probe := func() (sandbox.Result, error) {
		return r.Run(ctx, sandbox.Command{Root: dir, Shell: probeScript, Limits: sandbox.Limits{Timeout: probeTime}})
	}
	result, err := probe()
	detail := ""
	if err != nil && r.how.Landlock && ctx.Err() == nil {
		detail = "Docker's system call filter does not allow it: " + err.Error()
		r.how.Landlock = false
		result, err = probe()
	}
	if err != nil {
		return err
	}
	return r.judge(result, detail)
}

// probeTime limits the test command; the first container of an image may have to be unpacked.
const probeTime = time.Minute

// probeScript prints what the command may do, a line for each.
const probeScript = `
touch /probe 2>/dev/null && echo "root writable"
touch /workspace/probe && echo "workspace writable"
[ "$(id -u 2>/dev/null || echo 1)" = 0 ] && echo "user root"
grep -q '^CapEff:.0000000000000000$' /proc/self/status && echo "no capabilities"
grep -q '^NoNewPrivs:.1$' /proc/self/status && echo "no new privileges"
while read -r line; do case $line in *:*) case ${line%%:*} in *lo) ;; *) echo "network ${line%%:*}";; esac;; esac; done </proc/net/dev
cat /proc/1/environ >/dev/null 2>&1 && echo "helper readable"
exit 0
`

// judge decides from the test command's output whether containers isolate, and describes it.
func (r *Runner) judge(result sandbox.Result, noLandlock string) error {
	out := string(result.Stdout)
	has := func(line string) bool { return strings.Contains(out, line) }
	if !result.OK() {
		return fmt.Errorf("sandbox: the test command in a container of %s failed with exit code %d: %s", r.options.Image, result.ExitCode, strings.TrimSpace(string(result.Stderr)))
	}
	checks := []struct {
		name, by, problem string
		good              bool
	}{
		{"file system", "docker", "the root of the container is writable", !has("root writable")},
		{"workspace", "docker", "the workspace is not writable", has("workspace writable")},
		{"user", "docker", "commands run as root", !has("user root")},
		{"privileges", "docker", "commands have capabilities or may gain privileges", has("no capabilities") && has("no new privileges")},
		{"network", "docker", "the container has a network interface", !has("network ")},
		{"processes", "docker", "commands can read the memory of the helper", !has("helper readable")},
	}
	var missing []sandbox.Feature
	for _, c := range checks {
		f := sandbox.Feature{Name: c.name, Available: c.good, Required: true, By: c.by, Detail: "image " + r.options.Image}
		if !c.good {
			f.Detail = c.problem
			missing = append(missing, f)
		}
		r.features = append(r.features, f)
	}
	r.features = append(r.features,
		sandbox.Feature{Name: "files again", Available: noLandlock == "", By: "landlock", Detail: noLandlock},
		sandbox.Feature{Name: "system calls", Available: true, By: "seccomp", Detail: "Docker's filter and the sandbox's own"},
		sandbox.Feature{Name: "memory, processors, number of processes", Available: true, By: "cgroup"},
	)
	if len(missing) > 0 {
		return &sandbox.IsolationError{Missing: missing, Final: true}
	}
	return nil
}

// errNotStarted means that a container did not become a sandbox.
var errNotStarted = errors.New("the helper in the container did not start")
