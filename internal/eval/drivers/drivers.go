// Package drivers lets other agents solve the tasks of an evaluation: command lines that run in the
// sandbox on a checkout of the base, with the environment of the repository. Their model is reached
// only through a proxy that adds the key, counts tokens and turns, and ends at the budget.
package drivers

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/eval"
	"github.com/rocketgpt/orchestrator/internal/eval/commits"
	"github.com/rocketgpt/orchestrator/internal/eval/judge"
	"github.com/rocketgpt/orchestrator/internal/eval/runner"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
	"github.com/rocketgpt/orchestrator/internal/tester/standalone"
)

// Names inside the sandbox.
const (
	// home is where a driver is installed. It is read-only while the driver works.
	home = "/opt/rgpt-driver"
	// goalFile contains the goal of the task.
	goalFile = "/opt/rgpt-goal.md"
	// modelHost is the name of the model's address, which exists only in the sandbox.
	modelHost = "model.rgpt.invalid"
)

// installTime is the time limit of the installation of a driver.
const installTime = 20 * time.Minute

// presets are the built-in drivers.
var presets = map[string]eval.Driver{
	"mini-swe-agent": {
		Install: `python3 -m venv "$RGPT_DRIVER_HOME/venv" && "$RGPT_DRIVER_HOME/venv/bin/pip" install --quiet mini-swe-agent==2.4.6`,
		Command: `export MSWEA_CONFIGURED=true MSWEA_SILENT_STARTUP=1 MSWEA_COST_TRACKING=ignore_errors MSWEA_GLOBAL_CONFIG_DIR="$HOME/mini" LITELLM_LOCAL_MODEL_COST_MAP=True
"$RGPT_DRIVER_HOME/venv/bin/mini" --yolo --exit-immediately --model "openai/$RGPT_MODEL" --task "$(cat "$RGPT_GOAL_FILE")" --cost-limit 0 --output "$HOME/trajectory.json" </dev/null`,
		Hosts: config.RegistryHosts()["python"],
	},
}

// Presets returns the names of the built-in drivers, sorted.
func Presets() []string { return slices.Sorted(maps.Keys(presets)) }

// Variant returns the variant that a flag specifies as NAME=provider/model.
func Variant(flag string) (eval.Variant, error) {
	name, model, ok := strings.Cut(flag, "=")
	if _, known := presets[name]; !known || !ok || model == "" {
		return eval.Variant{}, fmt.Errorf("--driver %q must have the form NAME=provider/model, where NAME is one of %s; other agents are described in a file (--variants)",
			flag, strings.Join(Presets(), ", "))
	}
	return eval.Variant{Name: name, Model: model, Driver: &eval.Driver{Preset: name}}, nil
}

// resolve returns a driver with the fields of its preset.
func resolve(d eval.Driver) (eval.Driver, error) {
	if d.Preset == "" {
		return d, nil
	}
	p, ok := presets[d.Preset]
	if !ok {
		return d, fault.New(contract.ClassConfig, contract.CodeInvalidConfig, "unknown driver %q; built-in drivers: %s", d.Preset, strings.Join(Presets(), ", "))
	}
	p.Install, p.Command = cmp.Or(d.Install, p.Install), cmp.Or(d.Command, p.Command)
	p.Environment = d.Environment
	if len(d.Hosts) > 0 {
		p.Hosts = d.Hosts
	}
	return p, nil
}

// Drivers runs other agents on this host.
type Drivers struct {
	config    *config.Config
	catalogue model.Catalogue
	dataDir   string
	log       *slog.Logger

	mu sync.Mutex // one installation at a time
}

// New returns what runs other agents with the operator's configuration. The catalogue has the prices
// of models.
func New(cfg *config.Config, catalogue model.Catalogue, dataDir string, log *slog.Logger) *Drivers {
	return &Drivers{config: cfg, catalogue: catalogue, dataDir: dataDir, log: log}
}

// Drive lets another agent solve a task. An agent that fails may have changed something all the same,
// so its result is judged like any other.
func (d *Drivers) Drive(ctx context.Context, job runner.Drive) (runner.Driven, error) {
	driver, err := resolve(*job.Variant.Driver)
	if err != nil {
		return runner.Driven{}, err
	}
	gate, err := newGate(d.config, d.catalogue, job.Variant.Model, job.CapMicros)
	if err != nil {
		return runner.Driven{}, err
	}
	section, err := judge.EnvironmentYAML(job.Task)
	if err != nil {
		return runner.Driven{}, err
	}
	cfg, err := config.LoadRequest(d.config, job.Task.Settings)
	if err != nil {
		return runner.Driven{}, err
	}
	var started time.Time
	var ended sandbox.Result
	patch, report, err := standalone.At(ctx, standalone.Options{
		Config: cfg, Repo: job.Repo, Commit: job.Task.Base, Environment: section, DataDir: d.dataDir, Log: d.log, Progress: quiet{},
	}, func(ctx context.Context, p standalone.Place) error {
		at, err := d.install(ctx, driver, p)
		if err != nil {
			return err
		}
		started = time.Now()
		ended, err = work(ctx, driver, job, p, at, gate)
		return err
	})
	out := runner.Driven{Outcome: gate.outcome()}
	if !started.IsZero() {
		out.Outcome.Seconds = time.Since(started).Seconds()
	}
	if err == nil && report.Failure != nil {
		err = fault.New(contract.ClassConfig, report.Failure.Code, "%s", report.Failure.Message)
	}
	if err != nil {
		return out, err
	}
	if len(patch) == 0 {
		out.Outcome.Reason, out.Outcome.Detail = runner.ReasonNotReleased, fmt.Sprintf("the agent changed nothing (%s); its last output: %s", endedAs(ended), tail(ended))
		return out, nil
	}
	out.Commit, err = commits.Lay(ctx, job.Repo, job.Task.Base, job.Task.Base, string(patch))
	return out, err
}

func endedAs(r sandbox.Result) string {
	if r.TimedOut {
		return "it was stopped at its time limit"
	}
	return fmt.Sprintf("exit code %d", r.ExitCode)
}

// tail returns the end of an agent's output.
func tail(r sandbox.Result) string {
	const most = 500
	text := strings.TrimSpace(string(r.Stderr))
	if text == "" {
		text = strings.TrimSpace(string(r.Stdout))
	}
	return strings.ToValidUTF8(text[max(0, len(text)-most):], "")
}

// work runs the agent.
func work(ctx context.Context, driver eval.Driver, job runner.Drive, p standalone.Place, at string, gate *gate) (sandbox.Result, error) {
	scratch, err := os.MkdirTemp("", "rgpt-driver-")
	if err != nil {
		return sandbox.Result{}, fmt.Errorf("create a directory for the goal: %w", err)
	}
	defer os.RemoveAll(scratch)
	goal := filepath.Join(scratch, "goal.md")
	if err := os.WriteFile(goal, []byte(job.Task.Goal.Title+"\n\n"+job.Task.Goal.Description+"\n"), 0o644); err != nil {
		return sandbox.Result{}, fmt.Errorf("write the goal: %w", err)
	}
	if scratch, err = filepath.EvalSymlinks(goal); err != nil {
		return sandbox.Result{}, err
	}
	c := p.Command
	c.Shell = driver.Command
	c.Env = maps.Clone(c.Env)
	maps.Copy(c.Env, driver.Environment)
	maps.Copy(c.Env, map[string]string{
		"RGPT_DRIVER_HOME": home, "RGPT_GOAL_FILE": goalFile, "RGPT_MODEL": gate.model,
		"OPENAI_BASE_URL": "http://" + modelHost + "/v1", "OPENAI_API_BASE": "http://" + modelHost + "/v1", "OPENAI_API_KEY": "none",
	})
	c.Mounts = append(slices.Clone(c.Mounts), sandbox.Mount{Host: scratch, Inside: goalFile})
	if at != "" {
		c.Mounts = append(c.Mounts, sandbox.Mount{Host: at, Inside: home})
	}
	c.Limits.Timeout = job.Task.Timeout.Or(eval.DefaultTimeout)
	c.Proxy = gate.serve
	return p.Sandbox.Run(ctx, c)
}

// install installs a driver once on this host, and returns its directory.
func (d *Drivers) install(ctx context.Context, driver eval.Driver, p standalone.Place) (string, error) {
	if driver.Install == "" {
		return "", nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	raw, err := json.Marshal([]any{driver.Install, driver.Hosts})
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(raw)
	dir := filepath.Join(d.dataDir, "eval", "drivers", hex.EncodeToString(sum[:8]))
	marker := dir + ".installed"
	if _, err := os.Stat(marker); err == nil {
		return filepath.EvalSymlinks(dir)
	}
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
		return "", fmt.Errorf("create the directory of a driver: %w", err)
	}
	resolved, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", err
	}
	c := p.Command
	c.Shell = driver.Install
	c.Env = maps.Clone(c.Env)
	c.Env["RGPT_DRIVER_HOME"] = home
	c.Mounts = append(slices.Clone(c.Mounts), sandbox.Mount{Host: resolved, Inside: home, Writable: true})
	c.Limits.Timeout, c.Proxy = installTime, p.Network(driver.Hosts)
	r, err := p.Sandbox.Run(ctx, c)
	if err != nil {
		return "", err
	}
	if r.ExitCode != 0 || r.TimedOut {
		return "", fault.New(contract.ClassConfig, contract.CodeCheckFailed, "the driver could not be installed (%s): %s", endedAs(r), tail(r))
	}
	return resolved, os.WriteFile(marker, nil, 0o600)
}

// serve is the only network access of an agent: its model.
func (g *gate) serve(l net.Listener) []string {
	var mu sync.Mutex
	refused := map[string]bool{}
	s := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect && cmp.Or(r.URL.Hostname(), r.Host) == modelHost {
			g.ServeHTTP(w, r)
			return
		}
		mu.Lock()
		refused[r.Host] = true
		mu.Unlock()
		http.Error(w, "only the model can be reached", http.StatusForbidden)
	})}
	_ = s.Serve(l) // it ends when the listener is closed
	_ = s.Close()
	mu.Lock()
	defer mu.Unlock()
	return slices.Sorted(maps.Keys(refused))
}

// quiet ignores the progress of a setup.
type quiet struct{}

// Begin implements standalone.Progress.
func (quiet) Begin(standalone.Report) {}

// Note implements standalone.Progress.
func (quiet) Note(string) {}

// SettingUp implements standalone.Progress.
func (quiet) SettingUp(bool, string) {}

// Ready implements standalone.Progress.
func (quiet) Ready(bool, standalone.Environment) {}

// Started implements standalone.Progress.
func (quiet) Started(bool, contract.Check) {}

// Finished implements standalone.Progress.
func (quiet) Finished(bool, contract.CheckResult) {}

// Output implements standalone.Progress.
func (quiet) Output([]byte) {}
