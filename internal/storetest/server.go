package storetest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/modules/postgres"

	"github.com/rocketgpt/orchestrator/internal/pgcluster"
)

// engine reports whether a Docker engine responds.
func engine(ctx context.Context) bool {
	if os.Getenv("DOCKER_HOST") == "" {
		// Without one, testcontainers searches many places, which is slow.
		conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "unix", "/var/run/docker.sock")
		if err != nil {
			return false
		}
		conn.Close()
	}
	docker, err := testcontainers.NewDockerClientWithOpts(ctx)
	if err != nil {
		return false
	}
	return docker.Close() == nil
}

// image is the PostgreSQL that containers run.
const image = "postgres:17-alpine"

// container starts a server in a container. Ryuk, the reaper of testcontainers, removes it when the
// process has exited.
func container(ctx context.Context) (string, func() error, error) {
	c, err := postgres.Run(ctx, image,
		postgres.WithDatabase("postgres"), postgres.WithUsername("rgpt"), postgres.WithPassword("rgpt"), postgres.BasicWaitStrategies(),
		testcontainers.WithCmd("postgres", "-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off", "-c", "max_connections=300"))
	stop := func() error { return testcontainers.TerminateContainer(c) }
	if err != nil {
		return "", nil, fmt.Errorf("start a %s container: %w", image, errors.Join(err, stop()))
	}
	address, err := c.ConnectionString(ctx, "sslmode=disable")
	if err != nil {
		return "", nil, fmt.Errorf("find the container address: %w", errors.Join(err, stop()))
	}
	return address, stop, nil
}

// cluster starts a private cluster in its own directory.
func cluster(ctx context.Context) (string, func() error, error) {
	dir, err := os.MkdirTemp("", "rgpt-storetest-")
	if err != nil {
		return "", nil, fmt.Errorf("create a directory for the cluster: %w", err)
	}
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // the server may run as another user, who must be able to traverse it
		return "", nil, fmt.Errorf("make the cluster directory accessible: %w", err)
	}
	data := filepath.Join(dir, "data")
	release, err := guard(context.WithoutCancel(ctx), dir, data)
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	c, err := pgcluster.Start(ctx, pgcluster.Options{
		Dir: data, Log: filepath.Join(dir, "log"), Volatile: true,
		Settings: map[string]string{"max_connections": "300", "max_wal_size": "4GB", "autovacuum": "off"},
	})
	if err != nil {
		return "", nil, errors.Join(err, release())
	}
	stop := func() error {
		return errors.Join(c.Stop(context.WithoutCancel(ctx)), release())
	}
	return c.URL("postgres"), stop, nil
}

// watch waits until the process at the other end of its input has exited, for whatever reason, then
// stops the cluster and removes its directory.
const watch = `
read -r _
if pid=$(head -n 1 "$2/postmaster.pid" 2>/dev/null); then
	kill -INT "$pid" 2>/dev/null
	n=0
	while kill -0 "$pid" 2>/dev/null && [ $n -lt 200 ]; do sleep 0.05; n=$((n + 1)); done
fi
rm -rf "$1"
`

// guard starts the watch script for a cluster's directory. The script outlives every test. The
// returned function makes it stop the cluster and remove the directory.
func guard(ctx context.Context, dir, data string) (func() error, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("watch the cluster: %w", err)
	}
	defer r.Close()
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", watch, "storetest-watch", dir, data)
	cmd.Stdin = r
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // protects it from interrupts at the terminal
	if err := cmd.Start(); err != nil {
		w.Close()
		return nil, fmt.Errorf("watch the cluster: %w", err)
	}
	return func() error {
		w.Close()
		return cmd.Wait()
	}, nil
}
