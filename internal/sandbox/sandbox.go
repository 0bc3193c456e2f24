// Package sandbox runs every command that comes from a model or from a repository. Such a command
// is considered hostile: it may try to read keys, reach neighbouring databases, fill the disk,
// outlive its run or kill the worker.
//
// command has:
//
//   - its workspace at [Workspace], the only place on disk where it may write
//     besides those that the caller names; its own /tmp and home, in memory,
//     limited in size and deleted afterwards, unless the caller provides directories;
//   - below workspace and home, if the caller requests it, a read-only tree that
//     many commands share (see [Command.WorkspaceBase]);
//   - the system directories, a short list of files from /etc, and the
//     toolchains of the worker, all read-only. Everything else on the host
//     (home directories, /var, /run, data directories) does not exist for it;
//   - no network, not even the host's loopback: a network namespace with its
//     own loopback and on that, with [Command.Proxy], an HTTP proxy;
//   - no capabilities, no set-uid programs, no terminal, a short list of
//     forbidden system calls, a clean environment, three file descriptors;
//   - limits on time, memory, processes, files, disk and output.
//
// When Run returns, every process of the command is dead, including daemons; if
// the worker is killed, they die with it.
//
// The layers, from the outside: namespaces created by bubblewrap, then a helper as process 1 inside
// them (see [MaybeRunHelper]) which adds Landlock, seccomp and resource limits, and a watchdog on
// the host for limits that the kernel itself does not enforce.
package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

const (
	// Workspace is the path of a command's workspace in the sandbox. It does not depend on the
	// host's directory, so messages, build caches and virtual environments stay valid wherever the
	// workspace is opened next.
	Workspace = "/workspace"
	// Home is the private home directory of a command, initially empty unless the caller provides
	// one.
	Home = "/home/sandbox"
	// tmp is the path of a command's temporary directory.
	tmp = "/tmp"
	// uid is the user and group id that a command sees. It is not 0, because tools behave
	// differently for root.
	uid = 1000
)

// Runner runs commands in isolation.
type Runner interface {
	// Run runs one command until it exits. A command that fails, is killed by a limit or does not
	// exist is a Result. An error means that the command could not run in isolation at all, or that
	// ctx ended: then the error wraps ctx's cause, and the Result contains the output so far.
	// Whatever Run returns, no process of the command remains.
	Run(ctx context.Context, c Command) (Result, error)
}

// Command specifies a command and the resources it may use.
type Command struct {
	// Shell is run with bash -c, or sh -c if there is no bash. Exactly one of Shell and Args must
	// be set.
	Shell string
	// Image is the container image in which the command runs, by name or id; "" is the runner's own. A
	// runner without containers refuses the command.
	Image string
	// Args is a program and its arguments. The program is searched for in the PATH of the sandbox.
	// As in a shell, the exit code is 127 if the program is not found and 126 if it is not
	// executable.
	Args []string
	// Root is the workspace directory on the host. The command sees it as Workspace.
	// Commands that run at the same time each need their own Root, Home and Tmp.
	Root string
	// WorkspaceBase is a directory on the host whose tree appears below Root, such as installed
	// packages. The command can read but not change it: writes and deletions are recorded in Root,
	// a deletion as a character device 0/0. Many commands may use one base at the same time. All of
	// its files must belong to the owner of the directory.
	//
	// While the command runs, there is a directory next to Root, on the same file system, named
	// ".rgpt-overlay-" plus the name of Root; an existing one is removed. If the kernel or the file
	// system refuses overlays, Run copies the base into Root instead and reports it (see
	// Result.BaseCopied).
	WorkspaceBase string
	// Home is a directory on the host that the command sees as Home and may write to,
	// instead of one in memory. It counts for Limits.DiskBytes and outlives the
	// command; the caller removes it.
	Home string
	// HomeBase is like WorkspaceBase, but for Home. It requires Home.
	HomeBase string
	// Tmp is a directory on the host that the command sees as /tmp, with the same rules as Home.
	Tmp string
	// Dir is the working directory relative to Root; "" is Root itself.
	Dir string
	// Env is added to a clean environment and overrides it. Nothing is inherited from the worker.
	Env map[string]string
	// Path lists directories inside the sandbox that come first in PATH.
	Path []string
	// Stdin is the complete input; without it, the command reads end of file.
	Stdin  []byte
	Limits Limits
	// Proxy is the command's only network access: it serves an HTTP proxy on l, which listens on
	// 127.0.0.1:ProxyPort inside the sandbox, until l is closed. Run closes l when the command has
	// exited, and returns after Proxy has returned. Proxy returns the hosts that it refused, as
	// host:port, which become Result.Refused. Tools find the proxy through the environment. Without
	// Proxy, there is no network access. On a machine without network namespaces, a command with
	// Proxy cannot run: Run returns an *IsolationError.
	Proxy func(l net.Listener) (refused []string)
	// CACertificates, in PEM, are trusted in addition to this host's certificate authorities, by
	// tools that read them from a file. They require Proxy.
	CACertificates []byte
	// Mounts are additional visible files and directories of the host.
	Mounts []Mount
	// GoCache is the build cache of the go tool, which replaces a cache that lasts for one command.
	// Without Dir, it is not used.
	GoCache GoCache
	// OnOutput receives output as it arrives, up to Limits.OutputBytes for each stream. Calls do
	// not overlap; chunk is valid only during the call.
	OnOutput func(stream Stream, chunk []byte)
}

// Mount makes a file or directory of the host visible to a command.
type Mount struct {
	// Host is its path on the host: absolute, existing, without symbolic links, and not
	// the home directory of the worker's user, the data folder (see Options.DataDir) or
	// a directory above one of them.
	Host string
	// Inside is its path in the sandbox: an absolute path that reveals nothing about the host and
	// is not in the workspace, the home, /tmp, /proc or /dev.
	Inside string
	// Writable lets the command change it. A writable Host may not be inside another one or in
	// Root. The next command reads the files that one command leaves there: in a build cache shared
	// by untrusted commands, one repository can poison the binaries of another. Use a separate
	// directory for each trust domain (a repository or, better, a run).
	Writable bool
}

// Stream names one of the two outputs of a command.
type Stream string

// The output streams.
const (
	Stdout Stream = "stdout"
	Stderr Stream = "stderr"
)

// Result describes how a command ended.
type Result struct {
	// ExitCode is the exit code of the command, or 128 plus the signal's number if a
	// signal ended it.
	ExitCode int
	// Signal is the signal that ended the command ("killed", "segmentation fault"), or "".
	Signal string
	// Stdout and Stderr contain the output. Of a long output, head and tail are kept, separated by
	// a line with the number of missing bytes.
	Stdout, Stderr                   []byte
	StdoutTruncated, StderrTruncated bool
	// TimedOut reports that the command was killed at Limits.Timeout.
	TimedOut bool
	// LimitExceeded is the limit that ended the command, if known: one of the Limit constants, or
	// "".
	LimitExceeded string
	// Duration is wall time, including the setup of the sandbox.
	Duration time.Duration
	// CPU is the user and system time of all processes of the command.
	CPU time.Duration
	// Refused are the hosts that Command.Proxy did not let the command reach, as host:port.
	Refused []string
	// MaxRSS is the largest resident size of any one process, in bytes.
	MaxRSS int64
	// BaseCopied reports that WorkspaceBase and HomeBase were copied into Root and Home because an
	// overlay was refused. The feature "overlay" contains the reason.
	BaseCopied bool
}

// OK reports whether the command exited by itself with code 0.
func (r Result) OK() bool {
	return r.ExitCode == 0 && r.Signal == "" && !r.TimedOut && r.LimitExceeded == ""
}

// Values of Result.LimitExceeded.
const (
	LimitMemory    = "memory"
	LimitOutput    = "output"
	LimitDisk      = "disk"
	LimitCPU       = "cpu"
	LimitProcesses = "processes"
	LimitFile      = "file"
)

// ErrInvalid is wrapped by the error for an invalid Command, which fails on every machine.
var ErrInvalid = errors.New("sandbox: invalid command")

func invalidf(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}

// check rejects commands whose paths could have an unintended meaning inside the sandbox, and
// resolves Root.
func (c Command) check() (Command, error) {
	if (c.Shell == "") == (len(c.Args) == 0) {
		return c, invalidf("exactly one of Shell and Args must be set")
	}
	if len(c.Args) > 0 && c.Args[0] == "" {
		return c, invalidf("the program in Args is empty")
	}
	if c.Dir != "" && !filepath.IsLocal(c.Dir) {
		return c, invalidf("directory %q is not inside the workspace", c.Dir)
	}
	if hasNUL(c.Shell, c.Dir) || hasNUL(c.Args...) {
		return c, invalidf("the command contains a NUL byte")
	}
	for key, value := range c.Env {
		if key == "" || strings.Contains(key, "=") || hasNUL(key, value) {
			return c, invalidf("environment variable %q is malformed", key)
		}
	}
	if !filepath.IsAbs(c.Root) {
		return c, invalidf("root %q is not an absolute path", c.Root)
	}
	root, err := filepath.EvalSymlinks(c.Root)
	if err != nil {
		return c, fmt.Errorf("sandbox: resolve the workspace: %w", err)
	}
	if root == "/" {
		return c, invalidf("the file system root cannot be a workspace")
	}
	c.Root = root
	return c.checkPaths()
}

// checkPaths checks the host paths that the command may see.
func (c Command) checkPaths() (Command, error) {
	if c.HomeBase != "" && c.Home == "" {
		return c, invalidf("HomeBase requires Home")
	}
	for _, path := range []*string{&c.WorkspaceBase, &c.Home, &c.HomeBase, &c.Tmp} {
		if *path == "" {
			continue
		}
		*path = filepath.Clean(*path)
		if err := checkDirectory(*path); err != nil {
			return c, err
		}
	}
	c.Mounts = slices.Clone(c.Mounts)
	for i := range c.Mounts {
		m := &c.Mounts[i]
		m.Host, m.Inside = filepath.Clean(m.Host), filepath.Clean(m.Inside)
		if err := checkRealPath(m.Host); err != nil {
			return c, err
		}
		if err := checkInside(*m); err != nil {
			return c, err
		}
	}
	return c, c.checkNesting()
}

// checkRealPath requires a path without symbolic links: through a link in a directory that an
// earlier command could write to, that command could choose the mounted path.
func checkRealPath(path string) error {
	if !filepath.IsAbs(path) || filepath.Clean(path) == "/" {
		return invalidf("path %q must be absolute and below /", path)
	}
	resolved, err := filepath.EvalSymlinks(path)
	if err != nil {
		return fmt.Errorf("sandbox: resolve a command path: %w", err)
	}
	if resolved != filepath.Clean(path) {
		return invalidf("path %q resolves to %q; specify the path without symbolic links", path, resolved)
	}
	return nil
}

func checkDirectory(path string) error {
	if err := checkRealPath(path); err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() {
		return invalidf("%q is not a directory", path)
	}
	return err
}

// checkInside rejects paths that the sandbox itself creates, and paths in directories that the
// command may write to, where a mount point would be created.
func checkInside(m Mount) error {
	if !filepath.IsAbs(m.Inside) || m.Inside == "/" {
		return invalidf("the target path %q for %q must be absolute and below /", m.Inside, m.Host)
	}
	for _, own := range []string{Workspace, Home, tmp, "/proc", "/dev", "/run/sandbox", "/etc"} {
		if within(own, m.Inside) || own != "/etc" && within(m.Inside, own) {
			return invalidf("%q cannot be mounted at %q, which is reserved for the sandbox", m.Host, m.Inside)
		}
	}
	return nil
}

// writable returns the host directories that the command may change.
func (c Command) writable() []string {
	paths := []string{c.Root}
	for _, path := range []string{c.Home, c.Tmp} {
		if path != "" {
			paths = append(paths, path)
		}
	}
	for _, m := range c.Mounts {
		if m.Writable {
			paths = append(paths, m.Host)
		}
	}
	return paths
}

// checkNesting rejects a writable path inside another one, where a concurrent command could replace
// the inner one with a link while it is mounted. It also rejects bases that the command could write
// to through another path.
func (c Command) checkNesting() error {
	all := c.writable()
	for i, outer := range all {
		for j, inner := range all {
			if i != j && within(inner, outer) {
				return invalidf("writable path %q is inside %q", inner, outer)
			}
		}
		for _, base := range []string{c.WorkspaceBase, c.HomeBase} {
			if base != "" && (within(base, outer) || within(outer, base)) {
				return invalidf("base %q and writable path %q overlap", base, outer)
			}
		}
	}
	for i, m := range c.Mounts {
		for _, other := range c.Mounts[:i] {
			if m.Host == other.Host && m != other {
				return invalidf("%q cannot be mounted at both %q and %q", m.Host, other.Inside, m.Inside)
			}
			if m.Inside == other.Inside && m != other {
				return invalidf("%q and %q cannot both be mounted at %q", other.Host, m.Host, m.Inside)
			}
		}
	}
	return nil
}

// within reports whether path is dir or below it.
func within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

func hasNUL(values ...string) bool {
	for _, v := range values {
		if strings.ContainsRune(v, 0) {
			return true
		}
	}
	return false
}

var plainWord = regexp.MustCompile(`^[\w@%+=:,./-]+$`)

// Quote joins words to a command for a POSIX shell, with quotes where needed.
func Quote(words ...string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		if !plainWord.MatchString(word) {
			word = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
		quoted[i] = word
	}
	return strings.Join(quoted, " ")
}
