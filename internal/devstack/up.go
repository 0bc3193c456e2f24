package devstack

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/eval/oracle"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/freeport"
	"github.com/rocketgpt/orchestrator/internal/pgcluster"
	"github.com/rocketgpt/orchestrator/internal/proc"
	"github.com/rocketgpt/orchestrator/internal/scripted"
	"github.com/rocketgpt/orchestrator/internal/store"
)

// Options are the options of a stack.
type Options struct {
	DataDir   string
	Port      int    // of the server; 0: a free one, -1: the previous one or the default
	Scenario  string // of the scripted model; if empty, none is started unless NeedModel is set
	NeedModel bool   // no provider is configured: the scripted model runs, without rules if it has no scenario
	ConfigDir string // where the worker and the server look for rgpt.yaml
	// ConfigFile is the file that they read instead, if set.
	ConfigFile string
	Programs   Programs                 // binaries
	Database   string                   // DATABASE_URL; if set, ours is not started
	Temporal   string                   // TEMPORAL_ADDRESS; if set, ours is not started
	Namespace  string                   // of Temporal
	Progress   func(string)             // reports progress; may be nil
	Without    []Role                   // roles to skip, for tests that run them themselves
	Env        func(role Role) []string // additional environment variables for a process, for tests

	// For measurements: where Temporal stores its state, and settings to try.
	TemporalInPostgres bool              // in the cluster instead of a SQLite file
	TemporalArgs       []string          // additional arguments for Temporal
	PostgresSettings   map[string]string // additional settings for PostgreSQL
}

// Programs are the binaries of a stack.
type Programs struct {
	Starter     string // rgpt
	Worker      string // rgpt-worker
	Devserver   string // temporal-devserver
	TemporalCLI string // temporal, whose server is used if Devserver is missing
}

// DefaultPort is the port that the server listens on by default.
const DefaultPort = 8080

const readyTime = 90 * time.Second // for a process to become ready, including the first schema

// Up starts the missing processes and returns when everything is ready. If it is called after a
// process died, it restarts that process; the data is kept.
func Up(ctx context.Context, o Options) (*Stack, error) {
	dir, err := filepath.Abs(o.DataDir)
	if err != nil {
		return nil, fmt.Errorf("find the data folder %s: %w", o.DataDir, err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fault.Wrap(err, contract.ClassConfig, contract.CodeInvalidConfig, "cannot create the data folder %s", dir)
	}
	unlock, err := lock(dir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	s, err := Load(dir)
	if errors.Is(err, ErrNoStack) {
		s = &Stack{DataDir: dir}
	} else if err != nil {
		return nil, err
	}
	s.Stopped = false
	u := &starter{Stack: s, o: o, started: map[Role]bool{}}
	// If this fails, it changes nothing, not even the requested port.
	if err := u.prepare(); err != nil {
		return nil, err
	}
	if err := u.choosePort(ctx); err != nil {
		return nil, err
	}
	if err := u.up(ctx); err != nil {
		return nil, errors.Join(err, s.save())
	}
	return s, s.save()
}

// starter starts a stack.
type starter struct {
	*Stack
	o       Options
	started map[Role]bool // by this Up
}

func (u *starter) say(text string) {
	if u.o.Progress != nil {
		u.o.Progress(text)
	}
}

// prepare validates the options before any process starts.
func (u *starter) prepare() error {
	if u.Namespace = u.o.Namespace; u.Namespace == "" {
		u.Namespace = "default"
	}
	if u.o.ConfigDir != "" {
		u.ConfigDir, u.ConfigFile = u.o.ConfigDir, u.o.ConfigFile
	}
	if u.o.Scenario != "" {
		file, err := filepath.Abs(u.o.Scenario)
		if err != nil {
			return fmt.Errorf("find the scenario %s: %w", u.o.Scenario, err)
		}
		// Before any process starts, so an invalid scenario has no effect.
		if _, err := scripted.Load(file); err != nil {
			return err
		}
		u.Scenario = file
	}
	switch {
	case u.o.Port > 0:
		u.Ports.Server = u.o.Port
	case u.o.Port < 0 && u.Ports.Server == 0:
		u.Ports.Server = DefaultPort
	}
	for _, folder := range []string{"logs", "run"} {
		if err := os.MkdirAll(u.Path(folder), 0o750); err != nil {
			return fault.Wrap(err, contract.ClassConfig, contract.CodeInvalidConfig, "the data folder %s is not writable", u.DataDir)
		}
	}
	return nil
}

func (u *starter) up(ctx context.Context) error {
	if err := u.postgres(ctx); err != nil {
		return err
	}
	// Started one after another, which takes hardly any time, and then awaited together.
	for _, prepare := range []func(context.Context) (*launch, error){u.temporal, u.model} {
		if err := u.start(ctx, prepare); err != nil {
			return err
		}
	}
	first, firstCtx := errgroup.WithContext(ctx)
	first.Go(func() error { return u.await(firstCtx, RoleTemporal) })
	first.Go(func() error { return u.await(firstCtx, RoleModel) })
	first.Go(func() error { return store.Migrate(firstCtx, u.Database) })
	if err := first.Wait(); err != nil {
		return err
	}
	for _, prepare := range []func(context.Context) (*launch, error){u.worker, u.server} {
		if err := u.start(ctx, prepare); err != nil {
			return err
		}
	}
	return errors.Join(u.await(ctx, RoleWorker), u.await(ctx, RoleServer))
}

// left reports whether a role does not need to be started: it is skipped or already running.
func (u *starter) left(role Role) bool {
	if slices.Contains(u.o.Without, role) {
		return true
	}
	p, ok := u.Process(role)
	return ok && !p.External && p.ID.Alive()
}

// choosePort chooses the server's port before any process starts, so a port in use is reported
// immediately.
func (u *starter) choosePort(ctx context.Context) error {
	if u.left(RoleServer) {
		return nil
	}
	if u.o.Port != 0 {
		return freeSoon(u.Ports.Server)
	}
	return u.port(ctx, &u.Ports.Server)
}

// free reports whether a port can be listened on.
func free(port int) error {
	var config net.ListenConfig
	l, err := config.Listen(context.Background(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return fault.Wrap(err, contract.ClassHuman, contract.CodeInvalidConfig,
			"port %d is in use; stop the process that listens on it, or choose another port with --port (0 for a free port)", port)
	}
	return l.Close()
}

// freeSoon is free with retries: the last threads of a process that was just killed may still use
// the port.
func freeSoon(port int) error {
	giveUp := time.Now().Add(portTime)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := free(port)
		if err == nil || time.Now().After(giveUp) {
			return err
		}
		<-tick.C
	}
}

// portTime is the maximum time for which a killed process may still use its port.
const portTime = 3 * time.Second

// port keeps the current port if it is still free, or chooses another one.
func (u *starter) port(ctx context.Context, p *int) error {
	if *p != 0 && freeSoon(*p) == nil {
		return nil
	}
	var err error
	*p, err = freeport.Take(ctx)
	return err
}

func (u *starter) postgres(ctx context.Context) error {
	if u.o.Database != "" {
		u.Database = u.o.Database
		u.set(Process{Role: RolePostgres, State: "external", External: true, Address: hostOf(u.Database)})
		return nil
	}
	if u.left(RolePostgres) {
		return nil
	}
	u.say("Starting PostgreSQL")
	if err := u.port(ctx, &u.Ports.Postgres); err != nil {
		return err
	}
	log := u.Path("logs", "postgres.log")
	c, err := pgcluster.Start(ctx, pgcluster.Options{Dir: u.Path("postgres"), Port: u.Ports.Postgres, Log: log, Settings: u.o.PostgresSettings})
	if err != nil {
		return err
	}
	u.set(Process{Role: RolePostgres, PID: c.Process.PID, ID: c.Process, State: "running", Log: log, Started: time.Now(), Address: hostOf(c.URL(""))})
	if err := c.CreateDatabase(ctx, "rgpt"); err != nil {
		return err
	}
	u.Database = c.SocketURL("rgpt")
	return u.save() // from now on, the server can be found even if we crash
}

// hostOf returns only the host and port of a URL, without secrets.
func hostOf(url string) string {
	_, rest, _ := strings.Cut(url, "@")
	if rest == "" {
		_, rest, _ = strings.Cut(url, "://")
	}
	host, _, _ := strings.Cut(rest, "/")
	return host
}

func (u *starter) temporal(ctx context.Context) (*launch, error) {
	if u.o.Temporal != "" {
		u.Temporal = u.o.Temporal
		u.set(Process{Role: RoleTemporal, State: "external", External: true, Address: u.Temporal})
		return nil, nil
	}
	if u.left(RoleTemporal) {
		return nil, nil
	}
	u.say("Starting Temporal and its Web UI")
	if err := errors.Join(u.port(ctx, &u.Ports.Temporal), u.port(ctx, &u.Ports.TemporalUI)); err != nil {
		return nil, err
	}
	u.Temporal = net.JoinHostPort("127.0.0.1", strconv.Itoa(u.Ports.Temporal))
	u.TemporalUI = "http://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(u.Ports.TemporalUI))
	if cli, err := u.usesCLI(); err != nil {
		return nil, err
	} else if cli {
		return u.temporalCLI(), nil
	}
	ready := u.readyFile(RoleTemporal)
	args := []string{"--port", strconv.Itoa(u.Ports.Temporal), "--ui-port", strconv.Itoa(u.Ports.TemporalUI), "--namespace", u.Namespace, "--ready-file", ready}
	for _, a := range contract.SearchAttributes() {
		args = append(args, "--search-attribute", a[0]+"="+a[1])
	}
	args = append(args, u.o.TemporalArgs...)
	env := os.Environ()
	if p, ok := u.Process(RolePostgres); ok && !p.External && u.o.TemporalInPostgres {
		c, err := pgcluster.Attach(u.Path("postgres"), p.ID, u.Ports.Postgres)
		if err != nil {
			return nil, err
		}
		env = append(env, "TEMPORAL_DEVSERVER_POSTGRES="+c.URL("postgres"))
	} else {
		// A file is faster than the cluster on one machine: on two cores, a run took 2.84 s instead
		// of 2.98 s, and twenty parallel runs 10.3 s instead of 11.5 s, with 150 ms less CPU time
		// per run.
		args = append(args, "--db-filename", u.Path(devserverState))
	}
	return &launch{role: RoleTemporal, program: u.o.Programs.Devserver, args: args, env: env, address: u.Temporal}, nil
}

func (u *starter) model(ctx context.Context) (*launch, error) {
	if u.Scenario == "" && !u.o.NeedModel {
		return nil, u.dropModel(ctx)
	}
	sum, err := digest(u.Scenario)
	if err != nil {
		return nil, err
	}
	if u.left(RoleModel) {
		if sum == u.ScenarioSum {
			return nil, nil
		}
		p, _ := u.Process(RoleModel)
		u.say("Restarting the scripted model with another scenario")
		if err := p.ID.Stop(ctx, stopTime, syscall.SIGTERM); err != nil {
			return nil, err
		}
	}
	if slices.Contains(u.o.Without, RoleModel) {
		return nil, nil
	}
	u.say("Starting the scripted model")
	if err := u.port(ctx, &u.Ports.Model); err != nil {
		return nil, err
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(u.Ports.Model))
	u.Model, u.ScenarioSum = "http://"+address+"/v1", sum
	ready := u.readyFile(RoleModel)
	args := []string{"scripted", "--address", address, "--log", u.Path("scripted-requests.jsonl"), "--solutions", oracle.Dir(u.DataDir), "--ready-file", ready}
	if u.Scenario != "" {
		args = append(args, "--scenario", u.Scenario)
	}
	return &launch{role: RoleModel, program: u.o.Programs.Starter, args: args, env: os.Environ(), address: address}, nil
}

// dropModel removes the scripted model from the stack if a provider has replaced it.
func (u *starter) dropModel(ctx context.Context) error {
	p, ok := u.Process(RoleModel)
	if !ok {
		return nil
	}
	if err := p.ID.Stop(ctx, stopTime, syscall.SIGTERM); err != nil {
		return err
	}
	u.Processes = slices.DeleteFunc(u.Processes, func(p Process) bool { return p.Role == RoleModel })
	u.Model, u.ScenarioSum = "", ""
	return u.save()
}

// digest returns the digest of a scenario file; empty if there is no file.
func digest(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fault.Wrap(err, contract.ClassHuman, contract.CodeInvalidConfig, "cannot read the scenario %s", file)
	}
	return fmt.Sprintf("%x", sha256.Sum256(text)), nil
}

// Environment returns the environment variables with which a process finds the stack.
func (s *Stack) Environment() []string {
	env := []string{
		"RGPT_DATA_DIR=" + s.DataDir,
		"DATABASE_URL=" + s.Database,
		"TEMPORAL_ADDRESS=" + s.Temporal,
		"TEMPORAL_NAMESPACE=" + s.Namespace,
	}
	if s.Model != "" {
		env = append(env, "RGPT_SCRIPTED_URL="+s.Model)
	}
	return env
}

// current reports whether a role does not need to be started. A process that was started with a
// different scripted model is stopped, so it restarts with the current one: otherwise, it would
// call a model that is not running, or not know about the new one.
func (u *starter) current(ctx context.Context, role Role) (bool, error) {
	p, ok := u.Process(role)
	if !u.left(role) || !ok || slices.Contains(u.o.Without, role) || p.Model == u.Model {
		return u.left(role), nil
	}
	u.say(fmt.Sprintf("Restarting the %s to use the new scripted model", role))
	return false, p.ID.Stop(ctx, stopTime, syscall.SIGTERM)
}

func (u *starter) worker(ctx context.Context) (*launch, error) {
	if left, err := u.current(ctx, RoleWorker); left || err != nil {
		return nil, err
	}
	u.say("Starting the worker")
	ready := u.readyFile(RoleWorker)
	return &launch{
		role: RoleWorker, program: u.o.Programs.Worker, args: u.configArgs("--ready-file", ready),
		env: append(os.Environ(), u.Environment()...), model: u.Model,
	}, nil
}

func (u *starter) server(ctx context.Context) (*launch, error) {
	if left, err := u.current(ctx, RoleServer); left || err != nil {
		return nil, err
	}
	u.say("Starting the server")
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(u.Ports.Server))
	u.Server = "http://" + address
	ready := u.readyFile(RoleServer)
	args := append([]string{"server"}, u.configArgs("--address", address, "--temporal-ui", u.TemporalUI, "--ready-file", ready)...)
	return &launch{
		role: RoleServer, program: u.o.Programs.Starter, args: args,
		env: append(os.Environ(), u.Environment()...), address: address, model: u.Model,
	}, nil
}

// configArgs returns the arguments with the location of the configuration.
func (u *starter) configArgs(args ...string) []string {
	switch {
	case u.ConfigFile != "":
		return append(args, "--config", u.ConfigFile)
	case u.ConfigDir == "":
		return args
	}
	// It may have changed since then, and someone else may have created it.
	return append(args, "--config-dir", u.ConfigDir, "--check-trust")
}

// launch is a process to start. It writes the ready file of its role.
type launch struct {
	role    Role
	program string
	args    []string
	env     []string
	address string
	model   string // its scripted model
}

// readyFile returns the path of the file that a process writes when it is ready.
func (u *starter) readyFile(role Role) string { return u.Path("run", string(role)+".json") }

// start starts the process of a role if necessary. The process is recorded in the stack's state
// file before it is awaited: if we are killed in the meantime, the next Up finds it and does not
// start a second one.
func (u *starter) start(ctx context.Context, prepare func(context.Context) (*launch, error)) error {
	l, err := prepare(ctx)
	if err != nil || l == nil {
		return err
	}
	if err := os.Remove(u.readyFile(l.role)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove the old ready file: %w", err)
	}
	if u.o.Env != nil {
		l.env = append(l.env, u.o.Env(l.role)...)
	}
	log := u.Path("logs", string(l.role)+".log")
	id, err := proc.Start(proc.Spec{Path: l.program, Args: l.args, Env: l.env, Dir: u.DataDir, Log: log})
	if err != nil {
		return err
	}
	u.started[l.role] = true
	u.set(Process{Role: l.role, PID: id.PID, ID: id, Address: l.address, State: "running", Log: log, Started: time.Now(), Model: l.model})
	return u.save()
}

// await waits until the process of a role is ready, including one that an earlier,
// interrupted Up started. One that does not become ready is stopped.
func (u *starter) await(ctx context.Context, role Role) error {
	p, ok := u.Process(role)
	if !ok || p.External || !u.started[role] && !p.ID.Alive() {
		return nil
	}
	if err := awaitReady(ctx, p, u.ready(role)); err != nil {
		return errors.Join(err, p.ID.Stop(context.WithoutCancel(ctx), stopTime, syscall.SIGTERM))
	}
	return nil
}

// ready returns a function that tests whether the process of a role is ready: it has written its
// ready file or, if it does not write one, responds.
func (u *starter) ready(role Role) func(context.Context) bool {
	if cli, _ := u.usesCLI(); cli && role == RoleTemporal {
		return func(ctx context.Context) bool { return serving(ctx, u.Temporal, u.Namespace) }
	}
	return func(context.Context) bool {
		_, err := os.Stat(u.readyFile(role))
		return err == nil
	}
}

// awaitReady waits until a process is ready.
func awaitReady(ctx context.Context, p Process, ready func(context.Context) bool) error {
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if ready(ctx) {
			return nil
		}
		if !p.ID.Alive() {
			return fault.New(contract.ClassConfig, contract.CodeUnavailable,
				"the %s exited during startup; the last lines of %s:\n%s", p.Role, p.Log, proc.Tail(p.Log, 8))
		}
		select {
		case <-ctx.Done():
			return fault.New(contract.ClassInfra, contract.CodeTimeout, "the %s was not ready within %s; see %s", p.Role, readyTime, p.Log)
		case <-tick.C:
		}
	}
}
