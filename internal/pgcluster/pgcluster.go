// Package pgcluster runs a private PostgreSQL cluster in a directory, for a single machine and for
// tests. It uses the installed server programs, or downloads them if there are none.
package pgcluster

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/freeport"
	"github.com/rocketgpt/orchestrator/internal/proc"
)

// Options are the options of a cluster.
type Options struct {
	Dir      string // of the cluster; created if missing
	Port     int    // on 127.0.0.1; 0: a free one
	Log      string // file
	Volatile bool   // for tests: may lose data in a power failure
	Settings map[string]string
}

// Cluster is a running cluster.
type Cluster struct {
	Process proc.ID
	Port    int
	dir     string
	socket  string // directory of the Unix socket; empty if there is none
	secret  string
}

const (
	superuser  = "rgpt"
	startTime  = 60 * time.Second // of the server, including crash recovery
	initTime   = 120 * time.Second
	stopTime   = 10 * time.Second
	orphanTime = 15 * time.Second // for the children of a killed server to exit
	versionTag = "PG_VERSION"
)

// Start creates the cluster if it does not exist and starts its server. The superuser is rgpt; its
// password is stored in a file next to the cluster.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	bin, err := programs(ctx, filepath.Join(filepath.Dir(o.Dir), "postgres-programs"))
	if err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("find the cluster directory %s: %w", o.Dir, err)
	}
	o.Dir = dir
	who, err := unprivileged(o.Dir)
	if err != nil {
		return nil, err
	}
	if err := initialise(ctx, bin, o.Dir, who); err != nil {
		return nil, err
	}
	secret, err := os.ReadFile(secretFile(o.Dir))
	if err != nil {
		return nil, fmt.Errorf("read the password of the cluster in %s: %w", o.Dir, err)
	}
	if err := stopStray(ctx, o.Dir); err != nil {
		return nil, err
	}
	if o.Port == 0 {
		if o.Port, err = freeport.Take(ctx); err != nil {
			return nil, err
		}
	}
	c := &Cluster{Port: o.Port, dir: o.Dir, secret: strings.TrimSpace(string(secret))}
	if _, given := o.Settings[socketSetting]; !given {
		c.socket = socketDir(ctx, o.Dir, o.Port)
	}
	server := proc.Spec{Path: filepath.Join(bin, "postgres"), Args: arguments(o, c.socket), Dir: o.Dir, Log: o.Log, Env: cleanEnv(), Attr: who.apply}
	if err := c.launch(ctx, server); err != nil {
		return nil, err
	}
	return c, nil
}

// launch starts the server and waits until it is ready. If a server was just killed, its last
// children may still use the shared memory, and the process named in its lock file may not have
// been reaped yet. The new server then exits, and launch retries until they are gone.
func (c *Cluster) launch(ctx context.Context, server proc.Spec) error {
	giveUp := time.Now().Add(orphanTime)
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		err := c.launchOnce(ctx, server)
		if err == nil || !heldByDeadServer(proc.Tail(server.Log, 5)) || time.Now().After(giveUp) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-tick.C:
		}
	}
}

// heldByDeadServer reports whether a server exited because of remains of the previous one,
// according to its log.
func heldByDeadServer(log string) bool {
	// The socket has a lock file of its own.
	return strings.Contains(log, "shared memory") || strings.Contains(log, `lock file "`) && strings.Contains(log, `" already exists`)
}

func (c *Cluster) launchOnce(ctx context.Context, server proc.Spec) error {
	var err error
	if c.Process, err = proc.Start(server); err != nil {
		return err
	}
	if err := c.await(ctx, server.Log); err != nil {
		return errors.Join(err, c.Stop(context.WithoutCancel(ctx)))
	}
	return nil
}

// Attach returns a cluster that another process started. Its URLs use TCP.
func Attach(dir string, id proc.ID, port int) (*Cluster, error) {
	secret, err := os.ReadFile(secretFile(dir))
	if err != nil {
		return nil, fmt.Errorf("read the password of the cluster in %s: %w", dir, err)
	}
	return &Cluster{Process: id, Port: port, dir: dir, secret: strings.TrimSpace(string(secret))}, nil
}

// URL returns the URL of a database of the cluster, including the password. Clients connect over
// TCP.
func (c *Cluster) URL(database string) string { return c.url(database, "") }

// SocketURL is like URL, but clients connect over the cluster's Unix socket, which takes less CPU
// time than TCP. The password is required all the same. The URL contains host and port of TCP, too:
// clients that do not understand its parameter host use them, and people can read them. It is the
// same as URL if the cluster has no socket, because its path would be too long or its file system
// has none.
func (c *Cluster) SocketURL(database string) string { return c.url(database, c.socket) }

func (c *Cluster) url(database, socket string) string {
	query := "sslmode=disable"
	if socket != "" {
		// PostgreSQL does not decode a plus sign in a URL as a space.
		query = "host=" + strings.ReplaceAll(url.QueryEscape(socket), "+", "%20") + "&" + query
	}
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(superuser, c.secret),
		Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(c.Port)), Path: "/" + database, RawQuery: query,
	}
	return u.String()
}

// CreateDatabase creates a database unless it exists.
func (c *Cluster) CreateDatabase(ctx context.Context, name string) error {
	conn, err := pgx.Connect(ctx, c.URL("postgres"))
	if err != nil {
		return fmt.Errorf("connect to the cluster in %s: %w", c.dir, err)
	}
	defer conn.Close(ctx)
	var there bool
	if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", name).Scan(&there); err != nil {
		return fmt.Errorf("find the database %s: %w", name, err)
	}
	if there {
		return nil
	}
	if _, err := conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()); err != nil {
		return fmt.Errorf("create the database %s: %w", name, err)
	}
	return nil
}

// Stop stops the server: connections are closed, and committed data is kept.
func (c *Cluster) Stop(ctx context.Context) error {
	return c.Process.Stop(ctx, stopTime, syscall.SIGINT) // "fast shutdown" of PostgreSQL
}

// arguments returns the arguments of the server, which listens only on the loopback interface and
// on a Unix socket in a directory, if there is one.
func arguments(o Options, socket string) []string {
	set := map[string]string{
		"listen_addresses": "127.0.0.1",
		"port":             strconv.Itoa(o.Port),
		socketSetting:      quoted(socket),
		"max_connections":  "200",
		"shared_buffers":   "128MB",
		"max_wal_size":     "1GB",
		"log_min_messages": "warning",
	}
	if o.Volatile {
		set["fsync"], set["synchronous_commit"], set["full_page_writes"] = "off", "off", "off"
	}
	maps.Copy(set, o.Settings)
	args := []string{"-D", o.Dir}
	for k, v := range set {
		args = append(args, "-c", k+"="+v)
	}
	return args
}

// await waits until the server accepts connections.
func (c *Cluster) await(ctx context.Context, log string) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := pgx.Connect(ctx, c.URL("postgres"))
		if err == nil {
			return conn.Close(ctx)
		}
		if !c.Process.Alive() {
			return fault.New(contract.ClassInfra, contract.CodeUnavailable,
				"PostgreSQL on port %d exited during startup; the last lines of %s:\n%s", c.Port, log, proc.Tail(log, 5))
		}
		select {
		case <-ctx.Done():
			return fault.Wrap(err, contract.ClassInfra, contract.CodeTimeout,
				"PostgreSQL on port %d did not accept connections within %s; see %s", c.Port, startTime, log)
		case <-tick.C:
		}
	}
}

// initialise creates the cluster with initdb in a temporary directory, which is renamed when it is
// complete, so a crash does not leave a partial cluster.
func initialise(ctx context.Context, bin, dir string, who identity) error {
	if _, err := os.Stat(filepath.Join(dir, versionTag)); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o750); err != nil {
		return fmt.Errorf("create the cluster directory %s: %w", dir, err)
	}
	fresh := dir + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return fmt.Errorf("remove an incomplete cluster: %w", err)
	}
	if err := os.Mkdir(fresh, 0o700); err != nil {
		return fmt.Errorf("create the cluster directory: %w", err)
	}
	defer os.RemoveAll(fresh)
	if err := os.WriteFile(secretFile(fresh), []byte(rand.Text()+"\n"), 0o600); err != nil {
		return fmt.Errorf("write the cluster password: %w", err)
	}
	defer os.Remove(secretFile(fresh))
	if err := who.chown(fresh, secretFile(fresh)); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, initTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "-D", fresh, "-U", superuser, "--pwfile", secretFile(fresh),
		"--auth=scram-sha-256", "-E", "UTF8", "--no-locale", "--no-instructions", "--no-sync")
	cmd.Env, cmd.Dir = cleanEnv(), filepath.Dir(dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	who.apply(cmd.SysProcAttr)
	if out, err := cmd.CombinedOutput(); err != nil {
		if strings.Contains(string(out), "No space left on device") {
			return fault.Wrap(err, contract.ClassInfra, contract.CodeDiskFull, "not enough disk space for a PostgreSQL cluster in %s; free up disk space, or choose another data folder", dir)
		}
		return fault.Wrap(err, contract.ClassInfra, contract.CodeUnavailable,
			"initdb could not create a PostgreSQL cluster in %s: %s", dir, strings.TrimSpace(string(out)))
	}
	if err := os.Rename(secretFile(fresh), secretFile(dir)); err != nil {
		return fmt.Errorf("save the cluster password: %w", err)
	}
	if err := os.Rename(fresh, dir); err != nil {
		return fmt.Errorf("move the cluster into place: %w", err)
	}
	return nil
}

// secretFile returns the path of the superuser's password: next to the cluster's directory, because
// PostgreSQL owns the files in it.
func secretFile(dir string) string { return dir + ".password" }

// cleanEnv returns the caller's environment without PostgreSQL's variables (PGDATA, PGHOST, …).
func cleanEnv() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC"}
}
