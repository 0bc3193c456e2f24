// Package devstack runs all components on one machine: PostgreSQL, Temporal with its Web UI, a
// scripted model, a worker and the server. It starts missing components, stops those that it
// started, and stores all state in one data folder. `rgpt dev` and the tests use it.
package devstack

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/google/renameio/v2"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/proc"
)

// Role is the role of a process in the stack.
type Role string

// The roles, in the order in which they start.
const (
	RolePostgres Role = "postgres"
	RoleTemporal Role = "temporal"
	RoleModel    Role = "model"
	RoleWorker   Role = "worker"
	RoleServer   Role = "server"
)

// Roles returns the roles in the order in which they start; they stop in reverse order.
func Roles() []Role { return []Role{RolePostgres, RoleTemporal, RoleModel, RoleWorker, RoleServer} }

// Process is one process of the stack.
type Process struct {
	Role     Role      `json:"role"`
	PID      int       `json:"pid,omitempty"`
	Address  string    `json:"address,omitempty"`
	State    string    `json:"state"` // running, down, external
	Log      string    `json:"log,omitempty"`
	Started  time.Time `json:"started,omitzero"`
	ID       proc.ID   `json:"-"`
	External bool      `json:"external,omitempty"` // not ours: neither started nor stopped by us

	Model string `json:"model_url,omitempty"` // the scripted model at its start
}

// Stack describes the processes of a data folder and their addresses.
type Stack struct {
	DataDir     string    `json:"data_dir"`
	Database    string    `json:"database_url"` // including the password, for the owner of the data folder
	Temporal    string    `json:"temporal_address"`
	Namespace   string    `json:"temporal_namespace"`
	TemporalUI  string    `json:"temporal_ui,omitempty"`
	Model       string    `json:"model_url,omitempty"` // of the scripted model
	Scenario    string    `json:"scenario,omitempty"`
	Server      string    `json:"server_url"`
	ConfigDir   string    `json:"config_dir,omitempty"`  // where rgpt.yaml was searched for
	ConfigFile  string    `json:"config_file,omitempty"` // that was named instead
	Processes   []Process `json:"processes"`
	Stopped     bool      `json:"stopped,omitempty"` // on purpose, by Down
	Ports       ports     `json:"ports"`
	ScenarioSum string    `json:"scenario_digest,omitempty"`
}

// ports are kept across restarts, so links stay valid.
type ports struct {
	Postgres   int `json:"postgres"`
	Temporal   int `json:"temporal"`
	TemporalUI int `json:"temporal_ui"`
	Model      int `json:"model"`
	Server     int `json:"server"`
}

// stored is the format of the stack's state file.
type stored struct {
	Stack
	IDs map[Role]proc.ID `json:"ids"`
}

// Path returns a path within the data folder.
func (s *Stack) Path(parts ...string) string {
	return filepath.Join(append([]string{s.DataDir}, parts...)...)
}

// Process returns the process of a role.
func (s *Stack) Process(role Role) (Process, bool) {
	for _, p := range s.Processes {
		if p.Role == role {
			return p, true
		}
	}
	return Process{}, false
}

// set replaces the process of a role.
func (s *Stack) set(p Process) {
	for i := range s.Processes {
		if s.Processes[i].Role == p.Role {
			s.Processes[i] = p
			return
		}
	}
	s.Processes = append(s.Processes, p)
}

// Running reports whether every process of the stack is running.
func (s *Stack) Running() bool {
	for _, p := range s.Processes {
		if p.State == "down" {
			return false
		}
	}
	return len(s.Processes) > 0
}

const stateFile = "stack.json"

// ErrNoStack is returned if no stack has ever been started in a data folder.
var ErrNoStack = errors.New("no stack has been started in this data folder")

// Load reads the stack of a data folder. The states of its processes are current.
func Load(dataDir string) (*Stack, error) {
	dir, err := filepath.Abs(dataDir)
	if err != nil {
		return nil, fmt.Errorf("find the data folder %s: %w", dataDir, err)
	}
	file := filepath.Join(dir, stateFile)
	raw, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.Wrap(ErrNoStack, contract.ClassConfig, contract.CodeInvalidConfig,
			"no stack in %s; start one with `rgpt dev`, or select the data folder of a running stack with --data-dir or RGPT_DATA_DIR", dir)
	}
	if err != nil {
		return nil, fmt.Errorf("read the state of the stack: %w", err)
	}
	var s stored
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, fault.Wrap(err, contract.ClassConfig, contract.CodeInvalidConfig,
			"%s is damaged; stop the stack's processes and remove the file (the data is kept)", file)
	}
	if !filepath.IsAbs(s.DataDir) || !sameFolder(s.DataDir, dir) {
		// Otherwise, a copied data folder could make commands use someone else's stack.
		return nil, fault.New(contract.ClassConfig, contract.CodeInvalidConfig,
			"%s describes a stack in another directory, %s: the data folder was moved or copied; stop that stack's processes and remove the file (the data is kept)", file, s.DataDir)
	}
	s.DataDir = dir
	for i := range s.Processes {
		p := &s.Processes[i]
		p.ID = s.IDs[p.Role]
		switch {
		case p.External:
			p.State = "external"
		case p.ID.Alive():
			p.State = "running"
		default:
			p.State = "down"
		}
	}
	return &s.Stack, nil
}

// save writes the stack's state atomically; only its owner can read it.
func (s *Stack) save() error {
	out := stored{Stack: *s, IDs: map[Role]proc.ID{}}
	for _, p := range s.Processes {
		out.IDs[p.Role] = p.ID
	}
	raw, err := json.MarshalIndent(out, "", "  ")
	if err != nil {
		return fmt.Errorf("write the state of the stack: %w", err)
	}
	if err := renameio.WriteFile(s.Path(stateFile), raw, 0o600); err != nil {
		return fmt.Errorf("write the state of the stack: %w", err)
	}
	return nil
}

// lock prevents two commands from changing a stack at the same time. The lock is released when its
// process exits.
func lock(dataDir string) (func(), error) {
	file, err := os.OpenFile(filepath.Join(dataDir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the data folder %s: %w", dataDir, err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		file.Close()
		return nil, fmt.Errorf("lock the data folder %s: %w", dataDir, err)
	}
	return func() { file.Close() }, nil
}

// WorkflowURL returns the URL of a workflow in the stack's Temporal Web UI.
func (s *Stack) WorkflowURL(workflowID, runID string) string {
	return WorkflowURL(s.TemporalUI, s.Namespace, workflowID, runID)
}

// WorkflowURL returns the URL of a workflow in a Temporal Web UI; empty without a UI.
func WorkflowURL(ui, namespace, workflowID, runID string) string {
	if ui == "" || workflowID == "" {
		return ""
	}
	path := ui + "/namespaces/" + url.PathEscape(namespace) + "/workflows/" + url.PathEscape(workflowID)
	if runID != "" {
		path += "/" + url.PathEscape(runID) + "/history"
	}
	return path
}

// sameFolder reports whether two paths refer to the same directory.
func sameFolder(a, b string) bool {
	one, err := os.Stat(a)
	other, failed := os.Stat(b)
	return err == nil && failed == nil && os.SameFile(one, other)
}
