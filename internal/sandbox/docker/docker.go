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
	// Image contains the toolchains of commands that name no other image. Images must be present on
	// the Docker host, or be pulled.
	Image string
	// Allowed reports whether repositories may choose an image; nil: they may choose none.
	Allowed func(name string) bool
	// Pull has missing images pulled that are allowed. PullTimeout limits that; 0 means no limit.
	Pull        bool
	PullTimeout time.Duration
	// Build says whether and how images are built from Dockerfiles.
	Build BuildOptions
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
	image    *image // Options.Image
	images   images
	builds   builds
	worker   string     // identifies the containers of this runner
	owner    string     // identifies the containers of all runners of the data folder
	dir      string     // of control directories
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
	r.pool = newPool(r, o.Warm)
	r.sweeper = startSweeper(r)
	if r.image, err = r.imageOf(ctx, o.Image); err != nil {
		r.Close()
		return nil, err
	}
	r.features = r.image.features
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

// Traceable is false: containers get files that belong to their user, so all files of a workspace change.
// See [sandbox.Process.Traceable].
func (r *Runner) Traceable() bool { return false }

// Tools returns the id of an image, "" for that of the options, and the versions of the tools in it, as
// in sandbox.Toolchains. It tests an image that is new. The error is an *sandbox.IsolationError if the
// image is missing or commands in it are not isolated.
func (r *Runner) Tools(ctx context.Context, name string) (id string, versions map[string]string, err error) {
	img, err := r.imageOf(ctx, name)
	if err != nil {
		return "", nil, err
	}
	return img.id, img.versions, nil
}

// Run implements sandbox.Runner.
func (r *Runner) Run(ctx context.Context, c sandbox.Command) (sandbox.Result, error) {
	started := time.Now()
	if err := ctx.Err(); err != nil {
		return sandbox.Result{}, fmt.Errorf("sandbox: %w", context.Cause(ctx))
	}
	img, err := r.imageOf(ctx, c.Image)
	if err != nil {
		return sandbox.Result{}, err
	}
	result, err := r.runIn(ctx, img, c, started)
	result.Duration = time.Since(started)
	return result, err
}

// runIn runs a command in a container of an image.
func (r *Runner) runIn(ctx context.Context, img *image, c sandbox.Command, started time.Time) (sandbox.Result, error) {
	c = sandbox.WithGoCache(c, sandbox.HelperPath)
	c, err := sandbox.Complete(c, r.options.DataDir)
	if err != nil {
		return sandbox.Result{}, err
	}
	if err := r.give(c); err != nil {
		return sandbox.Result{}, err
	}
	c.Image = img.id
	how := sandbox.Supervision{Seccomp: true, Landlock: img.landlock, CountsMemory: true, Environment: img.environment}
	return sandbox.Supervise(ctx, &backend{runner: r}, how, c, started)
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

// errNotStarted means that a container did not become a sandbox.
var errNotStarted = errors.New("the helper in the container did not start")
