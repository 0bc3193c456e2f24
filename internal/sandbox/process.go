package sandbox

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Options configure NewProcess. The zero value is the safe default.
type Options struct {
	// AllowUnisolated accepts a machine that cannot isolate commands: they then run with the
	// available features. Config key execution.sandbox.allow_unisolated.
	AllowUnisolated bool
	// Executable is the helper binary; "" is the running one. It must call MaybeRunHelper first.
	// Its startup is most of the cost of a sandbox: a program with a long initialization can name a
	// small binary here.
	Executable string
	// Toolchains are visible in every sandbox; see DetectToolchains.
	Toolchains Toolchains
	// DataDir is the worker's data folder, or "" if it has none. No command sees it or a directory
	// above it. Overlays are tested in it, and cache/system in it contains the files that all commands
	// see alike. Without a data folder, or if it belongs to another user and the worker is root,
	// rgpt/system in the user's cache directory or a directory for temporary files does.
	DataDir string
	// CacheDir is a host directory for build caches that all commands of this runner may write to,
	// or "" for caches that last for one command. Commands that share it must trust each other: one
	// can plant compiled code that another runs. Use different directories for the runners of
	// different repositories.
	CacheDir string
	// Cgroup is a cgroup v2 directory, delegated to this user, with the memory and pids controllers
	// enabled for its children; "" checks whether the worker's own cgroup is one.
	Cgroup string
}

// Process runs commands as processes of this machine. It is safe for concurrent use.
type Process struct {
	options    Options
	executable string
	bwrap      string // path of bubblewrap; "" without namespaces
	cgroup     string // parent of the cgroups of runs, or ""
	seccomp    bool
	landlock   int
	mapUsers   bool // see user.go
	prepared   *prepared
	features   []Feature
}

// Run implements Runner.
func (p *Process) Run(ctx context.Context, c Command) (Result, error) {
	started := time.Now()
	if err := ctx.Err(); err != nil {
		return Result{}, fmt.Errorf("sandbox: %w", context.Cause(ctx))
	}
	c, err := p.complete(c)
	if err != nil {
		return Result{}, err
	}
	if len(c.bases()) == 0 {
		return p.runOnce(ctx, c, started)
	}
	if !p.Isolated() {
		return Result{}, &IsolationError{Missing: []Feature{p.overlayFeature(errNoMounts)}, Final: true}
	}
	res, err := p.runOnce(ctx, c, started)
	var refused *overlayError
	if !errors.As(err, &refused) {
		return res, err
	}
	return p.runOnCopies(ctx, c, started)
}

// runOnCopies runs a command on copies of bases that cannot be overlaid; the command has not
// started.
func (p *Process) runOnCopies(ctx context.Context, c Command, started time.Time) (Result, error) {
	err := copyBases(ctx, c, started)
	switch {
	case errors.Is(err, errCopyTooLarge):
		return Result{ExitCode: 128 + int(unix.SIGKILL), LimitExceeded: LimitDisk, Duration: time.Since(started), BaseCopied: true}, nil
	case errors.Is(err, errCopyTooSlow):
		return Result{ExitCode: 128 + int(unix.SIGKILL), TimedOut: true, Duration: time.Since(started), BaseCopied: true}, nil
	case err != nil:
		return Result{}, err
	}
	c.WorkspaceBase, c.HomeBase = "", ""
	res, err := p.runOnce(ctx, c, started)
	res.BaseCopied = true
	return res, err
}

func (p *Process) runOnce(ctx context.Context, c Command, started time.Time) (Result, error) {
	s, err := newSession(c, p.executable, initialConfig(c, p.seccomp, p.landlock))
	if s != nil {
		defer s.close()
	}
	if err != nil {
		return Result{}, err
	}
	if !p.Isolated() {
		s.toolchains = p.options.Toolchains.mounts
	} else if s.system, s.toolchains, err = p.prepared.systemMounts(p.options.Toolchains, c); err != nil {
		return Result{}, err
	}
	r, err := p.start(ctx, s, started)
	if err != nil {
		return Result{}, err
	}
	result, err := r.complete(ctx)
	result.Stdout, result.Stderr = s.places.hide(result.Stdout), s.places.hide(result.Stderr)
	return result, err
}

// complete waits until the run and its network access have ended.
func (r *run) complete(ctx context.Context) (Result, error) {
	result, err := r.supervise(ctx)
	if outlet := r.session.outlet; outlet != nil {
		refused, failed := outlet.close()
		result.Refused = refused
		if err == nil {
			err = failed
		}
	}
	return result, err
}

// complete checks c and adds what the runner's options specify.
func (p *Process) complete(c Command) (_ Command, err error) {
	c.Limits = c.Limits.withDefaults()
	if c.Image != "" {
		return c, ErrNoContainers(c.Image)
	}
	if c.Proxy != nil && !p.Isolated() {
		return c, noNamespaceError()
	}
	c.Mounts = slices.Clone(c.Mounts)
	env := p.options.Toolchains.environment(c.Proxy != nil)
	if p.options.CacheDir != "" {
		c.Mounts = append(c.Mounts, Mount{Host: p.options.CacheDir, Inside: cacheInside, Writable: true})
		maps.Copy(env, cacheEnv(cacheInside))
	}
	maps.Copy(env, c.Env)
	if len(c.Path) > 0 {
		env["PATH"] = strings.Join(append(slices.Clone(c.Path), cmp.Or(env["PATH"], defaultPath)), ":")
	}
	c.Env = env
	if c.GoCache.Dir == "" {
		return p.check(c)
	}
	program := helperPath
	if !p.Isolated() {
		// Without namespaces, the program keeps its host path.
		if program, err = filepath.EvalSymlinks(p.executable); err != nil {
			return c, fmt.Errorf("sandbox: find this binary: %w", err)
		}
		c.Mounts = append(c.Mounts, Mount{Host: program, Inside: program})
	}
	return p.check(c.withGoCache(program))
}

// check rejects mounts that would show a command more of the host than the caller intended.
func (p *Process) check(c Command) (Command, error) {
	for _, m := range c.Mounts {
		if reason := exposes(m.Host, p.options.DataDir); reason != "" {
			return c, invalidf("%q must not be exposed to commands: %s", m.Host, reason)
		}
		for _, t := range p.options.Toolchains.mounts {
			if m.Inside != t.Target && within(t.Target, m.Inside) {
				return c, invalidf("%q at %q would hide the toolchain at %q; expose its directories one by one", m.Host, m.Inside, t.Target)
			}
		}
	}
	return c.check()
}

// run is a started command.
type run struct {
	session  *session
	instance Instance
	cgroup   *cgroup
	started  time.Time
	// countsMemory is true if the kernel limits memory, with or without cgroup.
	countsMemory bool

	stdout, stderr *capture

	waited   chan error        // the instance has ended and its output was read
	initPID  chan int          // the helper's process exists
	messages chan helperStatus // from the helper; closed when it has exited
	killedAt time.Time         // time of the first kill, by closing the life pipe
}

func (p *Process) start(ctx context.Context, s *session, started time.Time) (*run, error) {
	if p.mapUsers {
		if _, err := s.mapMounts(); err != nil {
			return nil, err
		}
	}
	if err := s.prepareOverlays(); err != nil {
		return nil, err
	}
	cmd, err := p.prepare(s)
	if err != nil {
		return nil, err
	}
	r := newRun(s, started)
	if p.cgroup != "" {
		if r.cgroup, err = newCgroup(p.cgroup, s.command.Limits); err != nil {
			return nil, err
		}
		s.onClose(r.cgroup.close)
		r.cgroup.attach(cmd.SysProcAttr)
	}
	return r, r.begin(ctx, &localBackend{cmd: cmd, session: s})
}

func newRun(s *session, started time.Time) *run {
	out := &sink{fn: s.command.OnOutput}
	return &run{
		session: s, started: started,
		stdout:   &capture{stream: Stdout, limit: s.command.Limits.OutputBytes, sink: out},
		stderr:   &capture{stream: Stderr, limit: s.command.Limits.OutputBytes, sink: out},
		waited:   make(chan error, 1),
		initPID:  make(chan int, 1),
		messages: make(chan helperStatus, 4),
	}
}

// begin starts the helper, which runs the command.
func (r *run) begin(ctx context.Context, b Backend) error {
	s := r.session
	if err := s.writeConfig(); err != nil {
		return err
	}
	files, err := openPipes(s.command.Stdin)
	if err != nil {
		return err
	}
	r.instance, err = b.Start(ctx, Launch{
		Command: s.command, Stdin: files.stdin, Stdout: files.stdout.write, Stderr: files.stderr.write, Files: s.childFiles,
	})
	if err != nil {
		files.close()
		return err
	}
	s.closeChildFiles()
	files.begin(s.command.Stdin, r.stdout, r.stderr)
	if s.outlet != nil {
		go s.outlet.run()
	}
	go func() {
		err := r.instance.Wait()
		files.drain(outputDelay)
		r.waited <- err
	}()
	go r.awaitInit()
	go r.readMessages()
	return nil
}

// outputDelay is the time for which the output of a command is read after its sandbox has ended.
const outputDelay = 5 * time.Second

// prepare returns the program to start, which becomes stageInit with s.config, and
// fills s.findInit.
func (p *Process) prepare(s *session) (*exec.Cmd, error) {
	if p.Isolated() {
		return bubblewrap(s, p.bwrap)
	}
	return direct(s)
}

// localBackend starts the helper as a process of this host.
type localBackend struct {
	cmd     *exec.Cmd
	session *session
}

// localInstance is a helper that is a process of this host.
type localInstance struct {
	*localBackend
	waited chan error // the child was reaped
}

// Start implements Backend. The child starts from a thread that lives as long as the child does: the
// kernel sends the parent death signal when the thread ends.
func (b *localBackend) Start(_ context.Context, l Launch) (Instance, error) {
	b.cmd.Stdin, b.cmd.Stdout, b.cmd.Stderr = l.Stdin, l.Stdout, l.Stderr
	b.cmd.Env, b.cmd.ExtraFiles = []string{}, l.Files
	i := &localInstance{localBackend: b, waited: make(chan error, 1)}
	forked := make(chan error, 1)
	onThread(func() {
		if b.session.mapped == nil {
			defer runtime.UnlockOSThread()
		} else if err := b.session.prepareMounts(); err != nil {
			forked <- err
			return
		}
		err := startChild(b.cmd)
		forked <- err
		if err == nil {
			i.waited <- b.cmd.Wait()
		}
	})
	if err := <-forked; err != nil {
		return nil, fmt.Errorf("sandbox: start the sandbox process: %w", err)
	}
	return i, nil
}

// onThread calls f in a goroutine that is locked to a thread, which ends with the goroutine unless f
// unlocks it. The main thread cannot end, so it is not used.
func onThread(f func()) {
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() != unix.Getpid() {
			f()
			return
		}
		locked := make(chan struct{})
		go func() {
			runtime.LockOSThread()
			close(locked)
			f()
		}()
		<-locked
		runtime.UnlockOSThread()
	}()
}

// PID implements Instance.
func (i *localInstance) PID() (int, error) { return i.session.findInit() }

// Wait implements Instance.
func (i *localInstance) Wait() error { return <-i.waited }

// Kill implements Instance.
func (i *localInstance) Kill() { _ = i.cmd.Process.Kill() }

// Exceeded implements Instance.
func (i *localInstance) Exceeded() string { return "" }

// Usage implements Instance.
func (i *localInstance) Usage() (cpu time.Duration, maxRSS int64, limit string) {
	state := i.cmd.ProcessState
	if state == nil {
		return 0, 0, ""
	}
	if usage, ok := state.SysUsage().(*syscall.Rusage); ok {
		maxRSS = usage.Maxrss * 1024
	}
	return state.UserTime() + state.SystemTime(), maxRSS, ""
}

// namespaceForks lets only one process at a time wait for the id mappings of its user namespace.
// Such a process exits if the worker dies before it has written them, but two of them would keep
// each other's pipes open and wait for ever.
var namespaceForks sync.Mutex

func startChild(cmd *exec.Cmd) error {
	if cmd.SysProcAttr.Cloneflags&unix.CLONE_NEWUSER != 0 {
		namespaceForks.Lock()
		defer namespaceForks.Unlock()
	}
	return cmd.Start()
}

func (r *run) awaitInit() {
	if pid, err := r.instance.PID(); err == nil {
		r.initPID <- pid
	}
}

func (r *run) readMessages() {
	defer close(r.messages)
	lines := bufio.NewScanner(r.session.status)
	for lines.Scan() {
		var status helperStatus
		if json.Unmarshal(lines.Bytes(), &status) == nil {
			r.messages <- status
		}
	}
}

// outcome is the state of a run as supervise observes it.
type outcome struct {
	ready   bool
	final   helperStatus
	failed  string
	refused bool   // it failed because of an overlay
	limit   string // that the backend had enforced when the command ended
	verdict verdict
	cpu     time.Duration // last seen by the watchdog
}

// verdict is the reason why a run was killed from outside; the zero value means that it was not.
type verdict struct {
	limit    string
	timedOut bool
	canceled error
}

func (v verdict) given() bool { return v != verdict{} }

// supervise waits until the run ends, or kills it.
//
//nolint:revive // one select over all that can happen reads better than its parts
func (r *run) supervise(ctx context.Context) (Result, error) {
	var o outcome
	var init *initProcess
	var watch *watchdog
	limits := r.session.command.Limits
	var timeout, again, ticks <-chan time.Time
	if limits.Timeout > 0 {
		timeout = timerFor(limits.Timeout - time.Since(r.started))
	}
	end := func(v verdict) {
		if !o.verdict.given() {
			o.verdict = v
		}
		r.kill(init)
		ticks, again = nil, timerFor(killAgain)
	}
	messages := r.messages
	for {
		select {
		case err := <-r.waited:
			o.drain(messages)
			if watch != nil {
				watch.close()
				o.cpu = watch.cpu
			}
			gone := init.awaitEnd()
			init.close()
			if !gone {
				return Result{}, fmt.Errorf("sandbox: processes of the command did not end within %s after they were killed", endTime)
			}
			return r.result(o, err)
		case pid := <-r.initPID:
			init = newInitProcess(pid)
			if o.verdict.given() {
				r.kill(init)
			}
		case message, ok := <-messages:
			if !ok { // the helper has ended, and with it what the watchdog measures
				messages, ticks = nil, nil
				continue
			}
			o.take(message)
			if r.session.config.Lingers && (message.Exited || message.Failed != "") {
				o.limit = r.instance.Exceeded()
				_ = r.session.life.Close()
			}
			if message.Ready && watch == nil {
				ticker := time.NewTicker(quickTick)
				defer ticker.Stop()
				ticks = ticker.C
			}
		case <-ticks:
			if watch == nil && init != nil {
				watch = newWatchdog(r, init.pid)
			}
			if watch != nil {
				if limit := watch.check(); limit != "" {
					end(verdict{limit: limit})
				}
			}
		case <-timeout:
			end(verdict{timedOut: true})
		case <-again:
			end(o.verdict)
		case <-ctx.Done():
			end(verdict{canceled: context.Cause(ctx)})
			ctx = context.WithoutCancel(ctx)
		}
	}
}

// killAgain is the interval at which a kill is repeated until it succeeds.
const killAgain = 250 * time.Millisecond

func timerFor(d time.Duration) <-chan time.Time { return time.After(max(d, 0)) }

func (o *outcome) take(message helperStatus) {
	switch {
	case message.Ready:
		o.ready = true
	case message.Failed != "":
		o.failed, o.refused = message.Failed, message.NoOverlay
	case message.Exited:
		o.final = message
	}
}

// drain reads the remaining messages that the helper wrote before it exited.
func (o *outcome) drain(messages <-chan helperStatus) {
	if messages == nil {
		return
	}
	for message := range messages {
		o.take(message)
	}
}

// ErrNoContainers refuses a command that names an image, because the runner has no containers.
func ErrNoContainers(image string) error {
	return &IsolationError{Final: true, Missing: []Feature{{
		Name: "containers", Required: true, By: "docker", Detail: "the environment is to run in the image " + image + ", but this worker's runner uses none",
		Fix: "set execution.sandbox.runner: docker, or remove environment.image",
	}}}
}

// kill ends all processes of the run. The death of process 1 ends its namespace.
func (r *run) kill(init *initProcess) {
	if r.cgroup != nil {
		r.cgroup.kill()
	}
	if !r.session.config.Isolated && r.session.life.Close() == nil {
		// The helper kills its descendants and exits when this end of the pipe closes, which it
		// could not do if it were killed. If it does not exit, it is also killed.
		return
	}
	if init != nil {
		init.kill()
		return
	}
	// Process 1 starts when bwrap has reported its id. If bwrap is killed earlier, process 1 waits
	// forever. So bwrap gets time to report, and its helper exits when it finds this end of the
	// pipe closed.
	if r.session.life.Close() == nil {
		r.killedAt = time.Now()
	}
	if time.Since(r.killedAt) > startsWithin {
		r.instance.Kill()
	}
}

// startsWithin is the time that bwrap has to report process 1 before it is killed anyway.
const startsWithin = 5 * time.Second

func (r *run) result(o outcome, waitErr error) (Result, error) {
	res := Result{
		ExitCode: o.final.Code,
		MaxRSS:   o.final.MaxRSS,
		Duration: time.Since(r.started),
		CPU:      max(o.final.CPU, o.cpu),
		TimedOut: o.verdict.timedOut,
	}
	res.Stdout, res.StdoutTruncated = r.stdout.result()
	res.Stderr, res.StderrTruncated = r.stderr.result()
	if o.final.Signal != 0 {
		res.Signal = syscall.Signal(o.final.Signal).String()
	}
	if !o.final.Exited {
		r.killedResult(&res)
	}
	switch {
	case o.verdict.canceled != nil:
		return res, fmt.Errorf("sandbox: command cancelled: %w", o.verdict.canceled)
	case !o.verdict.given() && (o.failed != "" || !o.ready):
		select {
		case reason := <-r.session.unmapped: // the cause of what the helper reports
			o.failed = reason.Error()
		default:
		}
		err := r.setupError(o.failed, res.Stderr, waitErr)
		if o.refused {
			err = &overlayError{err}
		}
		return Result{}, err
	}
	res.LimitExceeded = r.limitExceeded(o)
	return res, nil
}

// killedResult is the result of a command whose helper died before it could report.
func (r *run) killedResult(res *Result) {
	res.ExitCode = 128 + int(unix.SIGKILL)
	res.Signal = unix.SIGKILL.String()
	cpu, maxRSS, _ := r.instance.Usage()
	res.CPU, res.MaxRSS = max(res.CPU, cpu), max(res.MaxRSS, maxRSS)
}

// limitExceeded returns the exceeded limit: the watchdog's verdict, the cgroup's report, or the
// limit indicated by a signal. A shell reports the signal of its child as exit code.
func (r *run) limitExceeded(o outcome) string {
	if o.verdict.limit != "" {
		return o.verdict.limit
	}
	if o.limit != "" {
		return o.limit
	}
	if r.cgroup != nil {
		if limit := r.cgroup.exceeded(); limit != "" {
			return limit
		}
	}
	if _, _, limit := r.instance.Usage(); limit != "" {
		return limit
	}
	switch unix.Signal(o.final.Code - 128) {
	case unix.SIGXFSZ:
		return LimitFile
	case unix.SIGXCPU:
		return LimitCPU
	default:
		return ""
	}
}

// setupError returns the reason why the command was never started.
func (r *run) setupError(failed string, stderr []byte, waitErr error) error {
	detail := failed
	if detail == "" {
		detail = strings.TrimSpace(string(stderr))
	}
	if detail == "" && waitErr != nil {
		detail = waitErr.Error()
	}
	if detail == "" {
		detail = "the helper exited without a message; does its main function call sandbox.MaybeRunHelper first?"
	}
	return fmt.Errorf("sandbox: could not isolate the command: %s", detail)
}

// initProcess is process 1 of a sandbox, seen from the host.
type initProcess struct {
	pid  int
	file *os.File // pidfd: refers to this process even if the number is reused
}

func newInitProcess(pid int) *initProcess {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return &initProcess{pid: pid}
	}
	return &initProcess{pid: pid, file: os.NewFile(uintptr(fd), "pidfd")}
}

func (i *initProcess) kill() {
	if i.file != nil {
		_ = unix.PidfdSendSignal(int(i.file.Fd()), unix.SIGKILL, nil, 0)
	}
}

// endTime limits how long a sandbox waits for processes that were killed together with bubblewrap.
const endTime = 10 * time.Second

// awaitEnd waits until process 1 has ended, which the kernel reports after all other processes of the sandbox
// have ended, and reports whether it has. A cgroup kills bubblewrap together with them, so its end alone says
// nothing.
func (i *initProcess) awaitEnd() bool {
	if i == nil || i.file == nil {
		return true
	}
	until := time.Now().Add(endTime)
	for {
		left := max(0, time.Until(until))
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(i.file.Fd()), Events: unix.POLLIN}}, int(left.Milliseconds())) //nolint:gosec // a descriptor fits
		if n > 0 || err != nil && !errors.Is(err, unix.EINTR) {
			return true
		}
		if left == 0 {
			return false
		}
	}
}

func (i *initProcess) close() {
	if i != nil && i.file != nil {
		_ = i.file.Close()
	}
}

var errNotHelper = errors.New("sandbox: main must call sandbox.MaybeRunHelper before anything else")
