package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// helperArg as first argument turns the program into a stage of the sandbox.
const helperArg = "rgpt-sandbox-helper"

// Stages, by second argument.
const (
	stageAttach = "attach" // before bwrap, in namespaces around it: attach prepared mounts
	stageDrop   = "drop"   // no namespaces available: drop what can be dropped, then stageInit
	stageInit   = "init"   // process 1: confine itself, run the command, reap orphans
	// process 1 of a container: receive the inherited files through ControlSocket, then stageInit
	stageContainer = "container"
)

// File descriptors that a stage inherits in addition to the three standard ones.
const (
	configFD = 3 // helperConfig as JSON
	statusFD = 4 // helperStatus messages to the worker
	lifeFD   = 5 // end of file when the worker has exited
	proxyFD  = 6 // with helperConfig.Proxy: carries the listener of the proxy to the worker
)

// helperConfig specifies what the helper sets up and runs.
type helperConfig struct {
	Shell    string
	Args     []string
	Env      []string
	Dir      string // absolute path in the sandbox
	Rlimits  []rlimit
	Landlock *landlockRules // nil if the kernel has none
	Seccomp  bool
	// NoSockets forbids internet sockets with seccomp, because there is no network namespace.
	NoSockets bool
	// Isolated requires process ids and capabilities as in a namespace; otherwise the helper stops.
	Isolated bool
	// Lingers makes the helper wait, after its last message, until the worker has read what would go
	// with it.
	Lingers  bool
	Niceness int
	// SwitchUser is true if stageInit starts with the rights to become the command's user and must
	// do so.
	SwitchUser bool
	// Overlays are attached by stageAttach, followed by Mounts.
	Overlays []overlay
	Mounts   []mount
	// Next is the program that stageAttach becomes, with that many Descriptors.
	Next        []string
	Descriptors int
	// Proxy makes stageInit pass a listener to the worker through proxyFD.
	Proxy bool
}

// helperStatus is one message to the worker.
type helperStatus struct {
	Ready  bool   `json:",omitempty"` // confinement is complete; the command starts now
	Failed string `json:",omitempty"` // nothing was run
	// NoOverlay is true if an overlay was refused, which caused the failure.
	NoOverlay bool `json:",omitempty"`
	Exited    bool `json:",omitempty"`
	Code      int  `json:",omitempty"`
	Signal    int  `json:",omitempty"`
	CPU       time.Duration
	MaxRSS    int64
}

// Priorities of commands: below the worker's, so that its heartbeats and watchdog run first, and
// the lowest if only the watchdog can stop a fork bomb.
const (
	niceness       = 5
	lowestNiceness = 19
)

// helperReady is set when MaybeRunHelper is called: without that call, a re-exec of this binary
// would run the whole program inside the sandbox.
var helperReady atomic.Bool

// MaybeRunHelper must be the first call in main and in TestMain of every binary that uses this
// package. In a sandbox, it takes over and does not return; otherwise it does nothing.
func MaybeRunHelper() {
	helperReady.Store(true)
	if len(os.Args) == 4 && os.Args[1] == goCacheArg {
		if err := serveGoCache(GoCache{Base: os.Args[2], Dir: os.Args[3]}, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "go build cache:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if !isHelper() {
		return
	}
	// Credentials belong to threads: the thread that drops them in one stage must also run the next
	// stage.
	runtime.LockOSThread()
	if err := runStage(os.Args[2]); err != nil {
		var refused *overlayError
		report(helperStatus{Failed: err.Error(), NoOverlay: errors.As(err, &refused)})
		os.Exit(125)
	}
	os.Exit(0)
}

func isHelper() bool { return len(os.Args) == 3 && os.Args[1] == helperArg }

func runStage(stage string) error {
	if stage == stageContainer {
		if err := receiveFiles(); err != nil {
			return err
		}
	}
	// This includes files that the worker has open without close-on-exec.
	if err := unix.CloseRange(configFD, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("close inherited files (requires Linux 5.11 or newer): %w", err)
	}
	if err := dieWithParent(); err != nil {
		return err
	}
	config, err := readConfig()
	if err != nil {
		return err
	}
	switch stage {
	case stageAttach:
		return runAttach(config)
	case stageDrop:
		return runDrop()
	case stageInit, stageContainer:
		return runInit(config)
	}
	return fmt.Errorf("unknown stage %q", stage)
}

// runAttach mounts the prepared mounts over their source paths, where bubblewrap finds them, and
// then becomes bwrap. The host does not see these mounts.
func runAttach(config helperConfig) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("detach mounts from the host: %w", err)
	}
	if err := attachOverlays(config.Overlays); err != nil {
		return err
	}
	for _, m := range config.Mounts {
		if err := attach(m.FD, m.Source); err != nil {
			return fmt.Errorf("attach %s: %w", m.Source, err)
		}
	}
	if err := keepFiles(config.Descriptors); err != nil {
		return err
	}
	// See namespaceArgs: bwrap must not die with the worker.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("detach from the worker: %w", err)
	}
	return fmt.Errorf("start %s: %w", config.Next[0], unix.Exec(config.Next[0], config.Next, []string{}))
}

// runDrop drops the privileges that a command without namespaces must not have, and enters
// stageInit. The kernel computes the capabilities of the new program from the remaining ones of
// this thread.
func runDrop() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become the reaper for orphaned processes: %w", err)
	}
	if err := dropCapabilities(); err != nil {
		return err
	}
	if err := keepFiles(lifeFD - configFD + 1); err != nil {
		return err
	}
	err := unix.Exec("/proc/self/exe", []string{"sandbox", helperArg, stageInit}, []string{})
	return fmt.Errorf("start the init stage: %w", err)
}

func dieWithParent() error {
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("tie this process to the worker: %w", err)
	}
	return nil
}

// configFile is never released: garbage collection would close its descriptor, which the next stage
// reads.
var configFile *os.File

// readConfig ignores the file offset and reads from the start: consecutive stages in one process
// share the offset.
func readConfig() (config helperConfig, err error) {
	configFile = os.NewFile(configFD, "config")
	var stat unix.Stat_t
	if err := unix.Fstat(configFD, &stat); err != nil {
		return config, fmt.Errorf("this command is internal to the sandbox: %w", err)
	}
	err = json.NewDecoder(io.NewSectionReader(configFile, 0, stat.Size)).Decode(&config)
	return config, err
}

func report(status helperStatus) {
	message, err := json.Marshal(status)
	if err != nil {
		return
	}
	// One write, small enough to be atomic on a pipe. If it fails, the error cannot be reported.
	_, _ = unix.Write(statusFD, append(message, '\n'))
}

// keepFiles keeps the first n inherited files open for the next program.
func keepFiles(n int) error {
	for fd := configFD; fd < configFD+n; fd++ {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0); err != nil {
			return fmt.Errorf("keep file %d open: %w", fd, err)
		}
	}
	return nil
}

// dropCapabilities drops all capabilities of this thread and of the program that it executes next.
func dropCapabilities() error {
	for capability := uintptr(0); capability <= 63; capability++ {
		// Fails without CAP_SETPCAP and beyond the last capability; stage init checks what matters.
		_ = unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0)
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("clear ambient capabilities: %w", err)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&header, &none[0]); err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	return nil
}

// runInit confines this process, which the command inherits, then runs it.
func runInit(config helperConfig) error {
	quietRuntime()
	// A worker in Go makes its pipes non-blocking.
	if err := unix.SetNonblock(lifeFD, false); err != nil {
		return fmt.Errorf("tie this process to the worker: %w", err)
	}
	if config.Isolated {
		go dieWithWorker()
	}
	if config.Proxy {
		if err := offerListener(); err != nil {
			return err
		}
	}
	if err := confine(config); err != nil {
		return err
	}
	if err := os.Chdir(config.Dir); err != nil {
		return fmt.Errorf("change to the working directory: %w", err)
	}
	unix.Umask(0o022)
	if err := lowerPriority(config.Niceness); err != nil {
		return err
	}
	report(helperStatus{Ready: true})
	child, code, err := start(config)
	if err != nil {
		fmt.Fprintln(os.Stderr, "sandbox:", err)
		report(helperStatus{Exited: true, Code: code})
		return nil
	}
	if config.Isolated {
		report(reapUntil(child))
		if config.Lingers {
			select {} // until dieWithWorker
		}
		return nil
	}
	status := reapTree(child)
	killDescendants()
	report(status)
	return nil
}

// quietRuntime prevents the Go runtime from starting threads later, when the command may have
// reached its process limit.
func quietRuntime() {
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(-1)
}

// dieWithWorker ends the sandbox when the worker has exited.
func dieWithWorker() {
	var b [1]byte
	for {
		if n, err := unix.Read(lifeFD, b[:]); n <= 0 && !errors.Is(err, unix.EINTR) {
			os.Exit(124)
		}
	}
}

// errOpenNetwork means that a command without network access needs a system call filter.
var errOpenNetwork = errors.New("there is neither a network namespace nor a seccomp filter, so the command would use the host's network")

func confine(config helperConfig) error {
	if config.NoSockets && !config.Seccomp {
		return errOpenNetwork
	}
	if config.SwitchUser {
		if err := switchUser(); err != nil {
			return err
		}
		// Changing the user clears the parent death signal.
		if err := dieWithParent(); err != nil {
			return err
		}
	}
	// The command runs as the same user: it cannot access an undumpable process through /proc.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("make this process undumpable: %w", err)
	}
	if err := checkState(config.Isolated); err != nil {
		return err
	}
	if config.Landlock != nil {
		if err := restrictFiles(*config.Landlock); err != nil {
			return err
		}
	}
	if err := setRlimits(config.Rlimits); err != nil {
		return err
	}
	if config.Seccomp {
		return installSeccomp(config.NoSockets)
	}
	return nil
}

// checkState does not trust earlier stages: it checks that all privileges have been dropped.
func checkState(isolated bool) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	if err := unix.Capget(&header, &caps[0]); err != nil {
		return fmt.Errorf("read capabilities: %w", err)
	}
	if caps[0].Effective|caps[0].Permitted|caps[1].Effective|caps[1].Permitted != 0 {
		return errors.New("capabilities remain")
	}
	if isolated && os.Getpid() != 1 {
		return errors.New("not process 1 of a PID namespace")
	}
	return nil
}

// lowerPriority raises the niceness of this process to the requested value. If the worker was
// started with a higher niceness, that value stays: only root may lower it.
func lowerPriority(niceness int) error {
	left, err := unix.Getpriority(unix.PRIO_PROCESS, 0) // the kernel returns 20 minus the niceness
	if err == nil && 20-left >= niceness {
		return nil
	}
	if err = unix.Setpriority(unix.PRIO_PROCESS, 0, niceness); err != nil {
		return fmt.Errorf("lower priority: %w", err)
	}
	return nil
}

// start runs the command; if the program does not exist, it returns the exit code that a shell
// would.
func start(config helperConfig) (pid, code int, err error) {
	args := config.Args
	if config.Shell != "" {
		args = []string{shell(), "-c", config.Shell}
	}
	setenv(config.Env)
	path, err := exec.LookPath(args[0])
	if errors.Is(err, exec.ErrDot) {
		err = nil
	}
	if err != nil {
		return 0, codeFor(err), err
	}
	pid, err = syscall.ForkExec(path, args, &syscall.ProcAttr{
		Env:   config.Env,
		Files: []uintptr{0, 1, 2},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return 0, codeFor(err), fmt.Errorf("exec %q: %w", args[0], err)
	}
	return pid, 0, nil
}

func codeFor(err error) int {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		return 127
	}
	return 126
}

// setenv sets PATH to the command's PATH to search for the program.
func setenv(env []string) {
	for _, kv := range env {
		if path, ok := strings.CutPrefix(kv, "PATH="); ok {
			_ = os.Setenv("PATH", path)
		}
	}
}

func shell() string {
	for _, path := range []string{"/bin/bash", "/usr/bin/bash"} {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return "/bin/sh"
}

// reapUntil waits for the command and, as process 1, also for orphans.
func reapUntil(child int) helperStatus {
	for {
		var status unix.WaitStatus
		var usage unix.Rusage
		pid, err := unix.Wait4(-1, &status, 0, &usage)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return helperStatus{Failed: "wait for the command: " + err.Error()}
		}
		if pid == child && (status.Exited() || status.Signaled()) {
			return exitStatus(status, usage)
		}
	}
}

func exitStatus(status unix.WaitStatus, usage unix.Rusage) helperStatus {
	result := helperStatus{
		Exited: true,
		Code:   status.ExitStatus(),
		CPU:    time.Duration(usage.Utime.Nano() + usage.Stime.Nano()),
		MaxRSS: usage.Maxrss * 1024,
	}
	if status.Signaled() {
		result.Signal = int(status.Signal())
		result.Code = 128 + result.Signal
	}
	return result
}
