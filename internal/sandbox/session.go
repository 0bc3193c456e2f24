package sandbox

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// session is one run: the data passed to the child, and the resources to close afterwards.
type session struct {
	command    Command // checked, with defaults
	executable string
	config     helperConfig

	status *os.File // read end: helperStatus messages
	life   *os.File // write end: open as long as the worker lives
	outlet *outlet  // nil without network access
	// findInit returns the host's process id of the helper. It may block until the helper exists.
	findInit func() (int, error)

	// mapped contains mounts with id mappings, by host path; nil if the command runs as the
	// worker's user. They are closed as soon as the child has started.
	mapped map[string]*os.File
	// writeMappings writes the id mappings of a process; unmapped receives the reason if it fails.
	writeMappings func(pid int) error
	unmapped      chan error
	// overlays are created by the child; nil without bases.
	overlays []overlay
	// system are the mounts of the system directories and of /etc, toolchains those from the runner's
	// options.
	system, toolchains []mount
	// places translate paths between the command and the host, without namespaces.
	places places
	// since is the earliest time at which the command could write, and free is the free disk space
	// at that time.
	since time.Time
	free  int64

	childFiles []*os.File // passed on from descriptor configFD, in order
	closers    []func()
}

func newSession(c Command, executable string, config helperConfig) (*session, error) {
	s := &session{
		command: c, executable: executable, config: config, since: time.Now(), free: freeSpace(c.Root),
		writeMappings: writeMappings, unmapped: make(chan error, 1),
	}
	// The first three or four descriptors have fixed numbers; the config is written when it is
	// complete.
	if _, err := s.memory("config", nil); err != nil {
		return nil, err
	}
	status, err := s.readerPipe()
	if err != nil {
		return s, err
	}
	s.status = status.read
	r, w, err := os.Pipe()
	if err != nil {
		return s, fmt.Errorf("sandbox: %w", err)
	}
	s.pass(r)
	s.life = w
	s.onClose(func() { _ = w.Close() })
	if c.Proxy != nil {
		return s, s.openOutlet()
	}
	return s, nil
}

// pass passes file to the child and returns its descriptor there.
func (s *session) pass(file *os.File) int {
	s.childFiles = append(s.childFiles, file)
	return configFD + len(s.childFiles) - 1
}

// memory passes an in-memory file to the child.
func (s *session) memory(name string, data []byte) (int, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return 0, fmt.Errorf("sandbox: create an in-memory file: %w", err)
	}
	file := os.NewFile(uintptr(fd), name)
	number := s.pass(file)
	// WriteAt keeps the file position, from which the child reads.
	if _, err := file.WriteAt(data, 0); err != nil {
		return 0, fmt.Errorf("sandbox: create an in-memory file: %w", err)
	}
	return number, nil
}

// writeConfig writes the first file when the runner's preparation is complete.
func (s *session) writeConfig() error {
	data, err := json.Marshal(s.config)
	if err != nil {
		return fmt.Errorf("sandbox: encode the helper configuration: %w", err)
	}
	_, err = s.childFiles[0].WriteAt(data, 0)
	return err
}

type readerPipe struct {
	read    *os.File
	childFD int
}

// readerPipe creates a pipe that the child writes to. The child can also read from it, so that a
// write does not end the child if the worker has died: see namespaceArgs.
func (s *session) readerPipe() (readerPipe, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return readerPipe{}, fmt.Errorf("sandbox: %w", err)
	}
	s.onClose(func() { _ = r.Close() })
	defer w.Close()
	both, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", w.Fd()), os.O_RDWR, 0)
	if err != nil {
		return readerPipe{}, fmt.Errorf("sandbox: %w", err)
	}
	return readerPipe{read: r, childFD: s.pass(both)}, nil
}

func (s *session) onClose(f func()) { s.closers = append(s.closers, f) }

// closeChildFiles closes the files that the started child has inherited; otherwise the pipes would
// not close when the child exits.
func (s *session) closeChildFiles() {
	for _, f := range s.childFiles {
		_ = f.Close()
	}
	for _, f := range s.mapped {
		_ = f.Close()
	}
	s.childFiles = nil
}

func (s *session) close() {
	s.closeChildFiles()
	for _, f := range slices.Backward(s.closers) {
		f()
	}
	s.closers = nil
}

// environment returns the complete environment of a command.
func environment(c Command, home, tmp string) []string {
	env := map[string]string{
		"PATH":   defaultPath,
		"HOME":   home,
		"TMPDIR": tmp,
		"USER":   "sandbox",
		"LANG":   "C.UTF-8",
		"TERM":   "dumb",
		"CI":     "true",
	}
	maps.Copy(env, networkEnv(c))
	maps.Copy(env, c.Env)
	list := make([]string, 0, len(env))
	for _, key := range slices.Sorted(maps.Keys(env)) {
		list = append(list, key+"="+env[key])
	}
	return list
}

const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// initialConfig returns the configuration of an isolated command.
func initialConfig(c Command, seccomp bool, landlock int) helperConfig {
	config := helperConfig{
		Shell:    c.Shell,
		Args:     c.Args,
		Env:      environment(c, Home, "/tmp"),
		Dir:      path.Join(Workspace, c.Dir),
		Rlimits:  c.Limits.rlimits(),
		Seccomp:  seccomp,
		Niceness: niceness,
		Isolated: true,
	}
	if unix.Geteuid() == 0 {
		config.Niceness = lowestNiceness
	}
	if landlock >= landlockMinimum {
		// The root of the sandbox contains only mounts; a file reached in any other way is not
		// below the root and stays inaccessible.
		config.Landlock = &landlockRules{ReadOnly: []string{"/"}, Writable: writablePaths(c)}
	}
	return config
}
