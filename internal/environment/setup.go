package environment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/internal/sandbox"
)

// Site provides what is needed to carry out a recipe.
type Site struct {
	Runner sandbox.Runner
	// Command is the template of every setup command, with limits, toolchains and variables of the
	// worker. Its root is the checkout.
	Command sandbox.Command
	// Proxy returns the network access of a command that may reach hosts; see sandbox.Command.
	Proxy func(hosts []string) func(net.Listener) []string
	// OnOutput receives the commands and their output live.
	OnOutput func(chunk []byte)
	// OnOptional is called for each optional command that failed; may be nil.
	OnOptional func(*Failed)
	// Timeout limits the setup as a whole.
	Timeout time.Duration
}

// Failed is a setup command whose failure ended a setup.
type Failed struct {
	Command  Command
	ExitCode int
	Why      string   // reason, such as "exit code 1" or "it took longer than 20m0s"
	Output   string   // the end of its output
	Refused  []string // hosts that it requested and the proxy rejected
	Missing  bool     // its program was not found
}

// outputKept limits the reported output of a failed command.
const outputKept = 8 << 10

// SetUp carries out a recipe: on the checkout in s.Command.Root, and on the home of the draft. A
// command that fails is a result; an error means that the setup could not be carried out at all.
func SetUp(ctx context.Context, s Site, r Recipe, d *Draft) (*Failed, error) {
	started := time.Now()
	for _, c := range r.Setup {
		left := s.Timeout - time.Since(started)
		if left < time.Second {
			return &Failed{Command: c, ExitCode: -1, Why: fmt.Sprintf("the setup took longer than %s (environment.timeout)", s.Timeout)}, nil
		}
		failed, err := s.run(ctx, r, c, d, left)
		if err != nil {
			return nil, err
		}
		if failed == nil {
			continue
		}
		if !c.Optional {
			return failed, nil
		}
		s.say("(this command is optional; the setup continues)\n")
		if s.OnOptional != nil {
			s.OnOptional(failed)
		}
	}
	return nil, nil
}

func (s Site) say(format string, args ...any) {
	if s.OnOutput != nil {
		s.OnOutput(fmt.Appendf(nil, format, args...))
	}
}

func (s Site) run(ctx context.Context, r Recipe, c Command, d *Draft, left time.Duration) (*Failed, error) {
	s.say("$ %s\n", c)
	command := s.Command
	command.Shell, command.Args, command.Dir = c.Shell, nil, workDir(c.Dir)
	command.Home, command.Tmp, command.HomeBase, command.WorkspaceBase = d.Home(), d.Tmp(), "", ""
	r.Outfit(&command)
	command.Limits.Timeout = left
	command.OnOutput = func(_ sandbox.Stream, chunk []byte) {
		if s.OnOutput != nil {
			s.OnOutput(chunk)
		}
	}
	command.Proxy = s.Proxy(r.Hosts)
	result, err := s.Runner.Run(ctx, command)
	if err != nil {
		return nil, fmt.Errorf("run a setup command: %w", err)
	}
	if result.OK() {
		return nil, nil
	}
	f := &Failed{Command: c, ExitCode: result.ExitCode, Output: endOf(result), Refused: result.Refused, Missing: result.ExitCode == 127}
	switch {
	case result.TimedOut:
		f.Why = fmt.Sprintf("the setup took longer than %s (environment.timeout)", s.Timeout)
	case result.LimitExceeded != "":
		f.Why = "it exceeded its limit of " + result.LimitExceeded
	case result.Signal != "":
		f.Why = "it was terminated by a signal (" + result.Signal + ")"
	default:
		f.Why = fmt.Sprintf("exit code %d", result.ExitCode)
	}
	s.say("(%s)\n", f.Why)
	return f, nil
}

// endOf returns the end of a command's output: standard error and, if that is short, standard
// output.
func endOf(r sandbox.Result) string {
	text := strings.ToValidUTF8(string(r.Stderr), "\uFFFD")
	if len(text) < outputKept/2 {
		text = strings.ToValidUTF8(string(r.Stdout), "\uFFFD") + text
	}
	if over := len(text) - outputKept; over > 0 {
		text = "…" + strings.ToValidUTF8(text[over:], "")
	}
	return strings.TrimSpace(text)
}

func workDir(dir string) string {
	if dir == "." {
		return ""
	}
	return dir
}

// String returns the command as a user would type it in the root of the repository, without what only
// passes the proxy to Java.
func (c Command) String() string {
	shell := strings.ReplaceAll(c.Shell, javaOnline, "")
	if c.Dir == "" || c.Dir == "." {
		return shell
	}
	return "(cd " + sandbox.Quote(c.Dir) + " && " + shell + ")"
}

// Outfit prepares a command for this environment: it sets the recipe's image and variables, which
// override the worker's, and prepends the recipe's directories to PATH.
func (r Recipe) Outfit(c *sandbox.Command) {
	env := make(map[string]string, len(c.Env)+len(r.Variables))
	maps.Copy(env, c.Env)
	maps.Copy(env, r.Variables)
	c.Env, c.Path, c.Image = env, r.Path, r.Image
}

// Keep moves the results of a setup into the draft: everything in the checkout that untracked
// lists, and the home without the directories that the recipe drops.
func Keep(checkout string, untracked []string, r Recipe, d *Draft) error {
	home, err := os.OpenRoot(d.Home())
	if err != nil {
		return fmt.Errorf("save the environment: %w", err)
	}
	defer home.Close()
	for _, dir := range r.Drop {
		rel := strings.TrimPrefix(strings.TrimPrefix(dir, sandbox.Home), "/")
		if rel == "" || !filepath.IsLocal(rel) {
			continue
		}
		if err := dropTree(home, rel); err != nil {
			return fmt.Errorf("remove %s from an environment: %w", rel, err)
		}
	}
	for _, name := range untracked {
		if err := keepPath(checkout, d.Work(), name); err != nil {
			return fmt.Errorf("save %s from a setup: %w", name, err)
		}
	}
	return nil
}

// dropTree removes a directory below root that may contain read-only directories.
func dropTree(root *os.Root, name string) error {
	err := root.RemoveAll(name)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	_ = fs.WalkDir(root.FS(), name, func(p string, d fs.DirEntry, _ error) error {
		if d != nil && d.IsDir() {
			_ = root.Chmod(p, 0o700)
		}
		return nil
	})
	return root.RemoveAll(name)
}

// keepPath moves one path of the checkout. Neither path may lead outside through a link: setup
// commands control both.
func keepPath(checkout, work, name string) error {
	name = path.Clean(name)
	if !filepath.IsLocal(name) || name == "." {
		return fmt.Errorf("it points outside the work tree")
	}
	from, err := os.OpenRoot(checkout)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.OpenRoot(work)
	if err != nil {
		return err
	}
	defer to.Close()
	parent := path.Dir(name)
	if info, err := from.Stat(parent); err != nil || !info.IsDir() {
		return nil // it was inside a directory that was moved before
	}
	if err := to.MkdirAll(parent, 0o755); err != nil {
		return err
	}
	source, err := from.Open(parent)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := to.Open(parent)
	if err != nil {
		return err
	}
	defer target.Close()
	err = renameAt(source, target, path.Base(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Describe returns a short description of a recipe for users: "go, node (pnpm)", or "2 configured
// commands".
func (r Recipe) Describe() string {
	if r.Given || r.Source == SourceConfigured { // old stored recipes have no source
		count := "1 command"
		if n := len(r.Setup); n != 1 {
			count = fmt.Sprintf("%d commands", n)
		}
		switch r.Source {
		case SourceAgent:
			return count + " from the environment agent"
		case SourcePerson:
			return count + " from a person"
		default:
			return strings.Replace(count, " ", " configured ", 1)
		}
	}
	var parts []string
	seen := map[string]bool{}
	for _, p := range r.Projects {
		text := p.Ecosystem
		if p.Manager != "" && p.Manager != p.Ecosystem {
			text += " (" + p.Manager + ")"
		}
		if !seen[text] {
			seen[text] = true
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, ", ")
}

// Absent lists a recipe's missing tools, for users.
func (r Recipe) Absent() []string {
	var out []string
	for _, m := range r.Missing {
		text := m.Name
		if m.Wanted != "" {
			text += " " + m.Wanted
		}
		if m.Have == "" {
			text += " (not installed"
		} else {
			text += " (" + m.Have + " is installed"
		}
		out = append(out, text+"; "+m.From+")")
	}
	return out
}

// Encode returns the recipe as JSON, for the database.
func (r Recipe) Encode() (json.RawMessage, error) { return json.Marshal(r) }
