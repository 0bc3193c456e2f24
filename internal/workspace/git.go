package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// safeSettings prevent anything in a repository from running. Like ownSettings they are passed at
// git's command scope, which overrides the configuration of any repository.
var safeSettings = [][2]string{
	{"core.hooksPath", "/dev/null"},
	{"core.fsmonitor", "false"},
	{"core.alternateRefsCommand", "true"}, // the program true, which lists nothing
	{"core.attributesFile", "/dev/null"},
	{"core.excludesFile", "/dev/null"},
	{"credential.helper", ""},
	{"protocol.ext.allow", "never"},
	{"safe.directory", "*"},
	{"submodule.recurse", "false"},
	{"fetch.recurseSubmodules", "false"},
	{"gc.auto", "0"},
	{"maintenance.auto", "false"},
}

// ownSettings apply in addition when git works on our own mirrors. In the user's repository, the
// user's settings apply.
var ownSettings = [][2]string{
	// Content is taken byte for byte.
	{"core.autocrlf", "false"},
	{"core.safecrlf", "false"},
	{"core.fileMode", "true"},
	{"core.symlinks", "true"},
	{"core.ignoreCase", "false"},
	{"core.precomposeUnicode", "false"},
	{"core.sparseCheckout", "false"},
	// A tree must be harmless on the systems where it is checked out.
	{"core.protectHFS", "true"},
	{"core.protectNTFS", "true"},
	// The same input produces the same output everywhere.
	{"core.quotePath", "true"},
	{"core.abbrev", "12"},
	{"diff.renames", "false"},
	{"merge.renames", "true"},
	// A file that one step adds stays where the step put it, even if another step moved
	// its neighbours.
	{"merge.directoryRenames", "false"},
	// Objects of runs live for minutes.
	{"core.looseCompression", "1"},
	{"core.bigFileThreshold", "64m"},
	{"core.logAllRefUpdates", "false"},
	{"fetch.unpackLimit", "1"},
	// A server that sends nothing for a minute is considered unavailable.
	{"http.lowSpeedLimit", "1"},
	{"http.lowSpeedTime", "60"},
	{"fetch.writeCommitGraph", "false"},
}

// serverSettings are passed to upload-pack and receive-pack in a repository on this host, on the
// command line, because git does not pass the settings above on to another repository.
var serverSettings = [][2]string{
	{"core.hooksPath", "/dev/null"},
	{"core.fsmonitor", "false"},
	{"core.alternateRefsCommand", "true"},
	{"safe.directory", "*"},
	{"protocol.allow", "never"},
	{"uploadpack.allowAnySHA1InWant", "true"},
	{"receive.denyCurrentBranch", "refuse"}, // never updateInstead, which writes the work tree
	{"receive.denyNonFastForwards", "true"},
	{"receive.autogc", "false"},
	{"receive.shallowUpdate", "false"},
	{"core.logAllRefUpdates", "false"},
	{"gc.auto", "0"},
	{"maintenance.auto", "false"},
}

const (
	maxGitStderr = 16 << 10
	maxGitStdout = 512 << 20
	// gitStopGrace is how long git's helpers may keep its pipes open after git was killed.
	gitStopGrace = 2 * time.Second
)

// call is one git process.
type call struct {
	args   []string
	dir    string   // working directory
	env    []string // added to the clean environment
	config [][2]string
	stdin  io.Reader
	stdout io.Writer // nil: captured and returned
	allow  string    // protocols, separated by colons; "" means none
	// address is that of the other host to which git connects; empty: none.
	address string
	user    bool // reads the user's repository
	// hold are lock files that the process inherits: if the worker is killed, a git process that
	// outlives it keeps the lock until it exits.
	hold []*os.File
}

// gitError reports a git process that exited with an error.
type gitError struct {
	command string
	code    int
	stderr  string
}

func (e *gitError) Error() string {
	return fmt.Sprintf("git %s exited with code %d: %s", e.command, e.code, e.stderr)
}

// git runs one git process and returns its output. Errors are *gitError, or a fault if git could
// not run to completion.
func (m *Manager) git(ctx context.Context, c call) ([]byte, error) {
	c, err := m.withCredential(ctx, c)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, m.options.Git, c.args...)
	cmd.Dir = c.dir
	cmd.Env = m.gitEnv(c)
	cmd.Stdin = c.stdin
	cmd.ExtraFiles = c.hold
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = gitStopGrace
	var stdout bytes.Buffer
	stderr := &limitedBuffer{limit: maxGitStderr}
	cmd.Stderr = stderr
	cmd.Stdout = c.stdout
	if c.stdout == nil {
		cmd.Stdout = &limitedWriter{w: &stdout, left: maxGitStdout}
	}
	m.started.Add(1)
	err = cmd.Run()
	if err == nil {
		return stdout.Bytes(), nil
	}
	if ctx.Err() != nil {
		return nil, wrapf(context.Cause(ctx), "git %s was stopped", c.args[0])
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		// Output is returned as well: merge-tree and config report results through exit codes.
		return stdout.Bytes(), &gitError{command: c.args[0], code: exit.ExitCode(), stderr: tidyStderr(stderr.String())}
	}
	return nil, wrapf(err, "could not run git %s", c.args[0])
}

func (m *Manager) gitEnv(c call) []string {
	env := []string{
		"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC", "HOME=/nonexistent",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_ATTR_NOSYSTEM=1",
		"GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0", "GIT_PAGER=cat", "GIT_EDITOR=false",
		// In a partial clone, missing objects stay missing: to fetch them git would run
		// programs that the repository's configuration names.
		"GIT_NO_LAZY_FETCH=1",
		"GIT_NO_REPLACE_OBJECTS=1", "GIT_LITERAL_PATHSPECS=1",
		"GIT_ALLOW_PROTOCOL=" + c.allow,
		"GIT_AUTHOR_NAME=" + defaultAuthor, "GIT_AUTHOR_EMAIL=" + defaultEmail,
		"GIT_COMMITTER_NAME=" + defaultAuthor, "GIT_COMMITTER_EMAIL=" + defaultEmail,
	}
	if c.address != "" {
		env = append(env, "GIT_SSH_COMMAND=ssh -oBatchMode=yes -oConnectTimeout=30 -oServerAliveInterval=15")
		env = append(env, m.options.NetworkEnv...)
	}
	all := slices.Concat(safeSettings, ownSettings, c.config)
	if c.user {
		all = slices.Concat(safeSettings, c.config)
	}
	env = append(env, "GIT_CONFIG_COUNT="+strconv.Itoa(len(all)))
	for i, kv := range all {
		n := strconv.Itoa(i)
		env = append(env, "GIT_CONFIG_KEY_"+n+"="+kv[0], "GIT_CONFIG_VALUE_"+n+"="+kv[1])
	}
	return append(env, c.env...)
}

// server returns the command that serves a repository on this host.
func (m *Manager) server(program string, more ...[2]string) string {
	parts := []string{shellQuote(m.options.Git)}
	for _, kv := range append(slices.Clone(serverSettings), more...) {
		parts = append(parts, "-c", shellQuote(kv[0]+"="+kv[1]))
	}
	return strings.Join(append(parts, program), " ")
}

func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

var userinfo = regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://)[^/@\s'"]+@`)

// Redact removes user names and passwords from the URLs in a text.
func Redact(text string) string { return userinfo.ReplaceAllString(text, "$1") }

// tidyStderr shortens git's message and removes secrets.
func tidyStderr(text string) string {
	var lines []string
	for line := range strings.SplitSeq(Redact(strings.ToValidUTF8(text, "?")), "\n") {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "hint:") && !strings.HasPrefix(line, "warning:") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "; ")
}

// symptoms map the output of a failed git process to a class and code.
var symptoms = []struct {
	text  string
	class contract.Class
	code  contract.Code
}{
	{"No space left on device", contract.ClassInfra, contract.CodeDiskFull},
	{"Disk quota exceeded", contract.ClassInfra, contract.CodeDiskFull},
	{"Authentication failed", contract.ClassConfig, contract.CodeUnauthorized},
	{"could not read Username", contract.ClassConfig, contract.CodeUnauthorized},
	{"could not read Password", contract.ClassConfig, contract.CodeUnauthorized},
	{"Permission denied (", contract.ClassConfig, contract.CodeUnauthorized},
	{"Host key verification failed", contract.ClassConfig, contract.CodeUnauthorized},
	{"returned error: 401", contract.ClassConfig, contract.CodeUnauthorized},
	{"returned error: 403", contract.ClassConfig, contract.CodeUnauthorized},
	{"returned error: 404", contract.ClassHuman, contract.CodeRepository},
	{"ot found", contract.ClassHuman, contract.CodeRepository}, // Repository not found, repository '…' not found
	{"does not appear to be a git repository", contract.ClassHuman, contract.CodeRepository},
	{"does not exist", contract.ClassHuman, contract.CodeRepository},
	{"not our ref", contract.ClassHuman, contract.CodeRepository},
	{"Could not resolve host", contract.ClassInfra, contract.CodeUnavailable},
	{"Failed to connect to ", contract.ClassInfra, contract.CodeUnavailable},
	{"onnection ", contract.ClassInfra, contract.CodeUnavailable}, // refused, reset, timed out, closed
	{"Empty reply from server", contract.ClassInfra, contract.CodeUnavailable},
	{"Recv failure", contract.ClassInfra, contract.CodeUnavailable},
	{"Send failure", contract.ClassInfra, contract.CodeUnavailable},
	{"GnuTLS recv error", contract.ClassInfra, contract.CodeUnavailable},
	{"SSL_ERROR_SYSCALL", contract.ClassInfra, contract.CodeUnavailable},
	{"unexpected eof", contract.ClassInfra, contract.CodeUnavailable},
	{"unexpected disconnect", contract.ClassInfra, contract.CodeUnavailable},
	{"transfer closed", contract.ClassInfra, contract.CodeUnavailable},
	{"returned error: 5", contract.ClassInfra, contract.CodeUnavailable},
	{"returned error: 429", contract.ClassInfra, contract.CodeRateLimited},
	{"early EOF", contract.ClassInfra, contract.CodeUnavailable},
	{"hung up unexpectedly", contract.ClassInfra, contract.CodeUnavailable},
	{"RPC failed", contract.ClassInfra, contract.CodeUnavailable},
	{"timed out", contract.ClassInfra, contract.CodeTimeout},
}

// remoteFault classifies failed communication with another repository by git's message.
func remoteFault(err error, format string, args ...any) error {
	var ge *gitError
	if !errors.As(err, &ge) {
		return wrapf(err, format, args...)
	}
	for _, s := range symptoms {
		if strings.Contains(ge.stderr, s.text) {
			return fault.Wrap(exit{ge}, s.class, s.code, format+": "+escapePercent(ge.stderr), args...)
		}
	}
	return fault.Wrap(exit{ge}, contract.ClassRuntime, contract.CodeUnknown, format+": "+escapePercent(ge.stderr), args...)
}

// exit is the cause of a fault whose message already has what git printed.
type exit struct{ *gitError }

func (e exit) Error() string { return fmt.Sprintf("git %s exited with code %d", e.command, e.code) }
func (e exit) Unwrap() error { return e.gitError }

// localFault classifies the failure of a git process that worked on our own files.
func localFault(err error, format string, args ...any) error {
	var ge *gitError
	if !errors.As(err, &ge) {
		return wrapf(err, format, args...)
	}
	if strings.Contains(ge.stderr, "No space left on device") || strings.Contains(ge.stderr, "Disk quota exceeded") {
		return fault.Wrap(err, contract.ClassInfra, contract.CodeDiskFull, format, args...)
	}
	return fault.Wrap(err, contract.ClassRuntime, contract.CodeUnknown, format, args...)
}

func escapePercent(s string) string { return strings.ReplaceAll(s, "%", "%%") }

// limitedBuffer stores the first bytes and drops the rest.
type limitedBuffer struct {
	bytes.Buffer
	limit int
}

func (b *limitedBuffer) Write(p []byte) (int, error) {
	if room := b.limit - b.Len(); room > 0 {
		b.Buffer.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

// errOutputLimit stops a git process that writes too much.
var errOutputLimit = errors.New("git wrote more output than allowed")

// limitedWriter fails after a number of bytes, which stops the git process.
type limitedWriter struct {
	w    io.Writer
	left int64
	cut  bool // output was dropped
}

func (l *limitedWriter) Write(p []byte) (int, error) {
	if int64(len(p)) > l.left {
		n, err := l.w.Write(p[:l.left])
		l.left, l.cut = 0, true
		if err == nil {
			err = errOutputLimit
		}
		return n, err
	}
	l.left -= int64(len(p))
	return l.w.Write(p)
}
