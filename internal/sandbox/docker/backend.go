package docker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/events"
	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

	"github.com/rocketgpt/orchestrator/internal/sandbox"
)

const (
	// startTime limits the start of a container, until its helper has connected.
	startTime = 30 * time.Second
	// engineTime limits each other call of the engine.
	engineTime = 10 * time.Second
)

// backend starts the helper in a container.
type backend struct{ runner *Runner }

// Start implements sandbox.Backend.
func (b *backend) Start(ctx context.Context, l sandbox.Launch) (sandbox.Instance, error) {
	r := b.runner
	s, err := r.pool.take(ctx, l.Command)
	if err != nil {
		return nil, err
	}
	i, err := r.start(ctx, s, l)
	if cerrdefs.IsNotFound(err) { // created in advance, and removed since
		r.discard(s)
		if s, err = r.pool.make(ctx, l.Command); err != nil {
			return nil, err
		}
		i, err = r.start(ctx, s, l)
	}
	if err != nil {
		r.discard(s)
		return nil, err
	}
	return i, nil
}

// start starts the container of a slot for a command, and passes the files of the launch to its helper.
func (r *Runner) start(ctx context.Context, s *slot, l sandbox.Launch) (*instance, error) {
	if err := s.aim(l.Command); err != nil {
		return nil, err
	}
	work, err := r.makeWorkDirectories(l.Command)
	if err != nil {
		return nil, err
	}
	i := &instance{runner: r, slot: s, work: work, ended: make(chan struct{})}
	defer func() {
		if err != nil {
			i.removeWork()
		}
	}()
	listener, err := listen(filepath.Join(s.dir, controlName))
	if err != nil {
		return nil, err
	}
	defer func() { _ = listener.Close() }()
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	if _, err = r.engine.ContainerStart(ctx, s.id, client.ContainerStartOptions{}); err != nil {
		return nil, fmt.Errorf("start a container of the image %s: %w", l.Command.Image, err)
	}
	if err = i.inspect(ctx); err != nil {
		return nil, err
	}
	if err = accept(ctx, listener, l); err != nil {
		return nil, fmt.Errorf("%w: %w%s", errNotStarted, err, r.whyNot(s))
	}
	go i.await()
	return i, nil
}

// listen opens the socket of a slot. Its path may be longer than a socket address, so it is opened
// through the directory's descriptor.
func listen(dir string) (*net.UnixListener, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("open the socket of a container: %w", err)
	}
	defer d.Close()
	address := &net.UnixAddr{Name: fmt.Sprintf("/proc/self/fd/%d/%s", d.Fd(), sandbox.ControlSocket), Net: "unix"}
	l, err := net.ListenUnix("unix", address)
	if err != nil {
		return nil, fmt.Errorf("open the socket of a container: %w", err)
	}
	l.SetUnlinkOnClose(false) // the path is not valid any longer; the slot is removed
	return l, os.Chmod(filepath.Join(dir, sandbox.ControlSocket), 0o666)
}

// accept waits for the helper and passes it the files of the launch.
func accept(ctx context.Context, l *net.UnixListener, launch sandbox.Launch) error {
	stop := context.AfterFunc(ctx, func() { _ = l.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	conn, err := l.AcceptUnix()
	if err != nil {
		return errors.Join(context.Cause(ctx), err)
	}
	defer func() { _ = conn.Close() }()
	return sandbox.SendFiles(conn, launch)
}

// whyNot returns the exit code of a container whose helper did not connect.
func (r *Runner) whyNot(s *slot) string {
	ctx, cancel := context.WithTimeout(context.Background(), engineTime)
	defer cancel()
	found, err := r.engine.ContainerInspect(ctx, s.id, client.ContainerInspectOptions{})
	if err != nil || found.Container.State == nil || found.Container.State.Running {
		return ""
	}
	return fmt.Sprintf("; it exited with code %d %s", found.Container.State.ExitCode, found.Container.State.Error)
}

// instance is a started container.
type instance struct {
	runner *Runner
	slot   *slot
	pid    int
	cgroup memoryEvents
	work   []string

	ended chan struct{} // closed when err and limit are final
	err   error
	limit string
}

// inspect reads the process id of the helper.
func (i *instance) inspect(ctx context.Context) error {
	found, err := i.runner.engine.ContainerInspect(ctx, i.slot.id, client.ContainerInspectOptions{})
	if err != nil {
		return fmt.Errorf("inspect a container: %w", err)
	}
	if found.Container.State != nil {
		i.pid = found.Container.State.Pid
	}
	if i.pid <= 0 {
		return fmt.Errorf("%w: it has ended%s", errNotStarted, i.runner.whyNot(i.slot))
	}
	// In a PID namespace of the worker's own, the number may be that of another process.
	cgroups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", i.pid))
	if err != nil || !strings.Contains(string(cgroups), i.slot.id) {
		return unseen()
	}
	i.cgroup = memoryEventsOf(i.pid)
	return nil
}

// unseen reports that limits cannot be enforced.
func unseen() error {
	return &sandbox.IsolationError{Final: true, Missing: []sandbox.Feature{{
		Name: "processes of containers", Required: true, By: "watchdog",
		Detail: "the worker cannot see them, so it cannot limit their time, disk space and output",
		Fix:    "run the worker as root on the Docker host, outside a container or in the host's PID namespace",
	}}}
}

// await waits until the container has ended, cleans up after it, and remembers how it ended. It does not
// depend on the engine's answer: if that was restarted, the end of the helper is what counts.
func (i *instance) await() {
	defer close(i.ended)
	i.err = waitForExit(i.pid)
	i.limit = i.exceeded()
	i.cgroup.close()
	if len(i.work) == 0 {
		i.runner.discards.Go(func() { i.runner.discard(i.slot) })
		return
	}
	i.runner.discard(i.slot) // with its overlays, whose layers the caller may now use
	i.removeWork()
}

// exceeded returns the limit that ended the helper. The engine may already have removed the cgroup, but
// it remembers its last events.
func (i *instance) exceeded() string {
	limit, known := i.cgroup.exceeded()
	if known {
		return limit
	}
	ctx, cancel := context.WithTimeout(context.Background(), eventTime)
	defer cancel()
	found := i.runner.engine.Events(ctx, client.EventsListOptions{
		Since:   strconv.FormatInt(i.slot.made.Unix(), 10),
		Filters: make(client.Filters).Add("container", i.slot.id).Add("event", string(events.ActionOOM), string(events.ActionDie)),
	})
	select {
	case first := <-found.Messages:
		if first.Action == events.ActionOOM {
			return sandbox.LimitMemory
		}
	case err := <-found.Err:
		i.runner.options.Log.Warn("The engine did not say how a container ended.", "container", i.slot.id, "error", err)
	}
	return ""
}

// eventTime is how long the engine may take to report the end of a container that has ended.
const eventTime = 2 * time.Second

// waitForExit waits for the end of a process that is not a child of this one.
func waitForExit(pid int) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("watch process 1 of a container: %w", err)
	}
	defer func() { _ = unix.Close(fd) }()
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("watch process 1 of a container: %w", err)
		}
		if n > 0 {
			return nil
		}
	}
}

// PID implements sandbox.Instance.
func (i *instance) PID() (int, error) { return i.pid, nil }

// Wait implements sandbox.Instance.
func (i *instance) Wait() error {
	<-i.ended
	return i.err
}

// Kill implements sandbox.Instance.
func (i *instance) Kill() {
	ctx, cancel := context.WithTimeout(context.Background(), engineTime)
	defer cancel()
	_, _ = i.runner.engine.ContainerKill(ctx, i.slot.id, client.ContainerKillOptions{Signal: "KILL"})
}

// Exceeded implements sandbox.Instance.
func (i *instance) Exceeded() string {
	limit, _ := i.cgroup.exceeded()
	return limit
}

// Usage implements sandbox.Instance.
func (i *instance) Usage() (cpu time.Duration, maxRSS int64, limit string) {
	select {
	case <-i.ended:
		return 0, 0, i.limit
	default:
		return 0, 0, ""
	}
}

func (i *instance) removeWork() {
	for _, dir := range i.work {
		_ = sandbox.RemoveWorkDirectory(dir)
	}
}

// discard removes a container, if it is still there, and its slot.
func (r *Runner) discard(s *slot) {
	ctx, cancel := context.WithTimeout(context.Background(), engineTime)
	defer cancel()
	_, err := r.engine.ContainerRemove(ctx, s.id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	if cerrdefs.IsConflict(err) { // the engine is removing it already
		removed := r.engine.ContainerWait(ctx, s.id, client.ContainerWaitOptions{Condition: container.WaitConditionRemoved})
		select {
		case err = <-removed.Error:
		case <-removed.Result:
			err = nil
		}
	}
	if err != nil && !cerrdefs.IsNotFound(err) {
		r.options.Log.Warn("A container could not be removed; the next sweep tries again.", "container", s.id, "error", err)
	}
	_ = os.RemoveAll(s.dir)
}

// makeWorkDirectories makes the directories in which overlays prepare their changes.
func (r *Runner) makeWorkDirectories(c sandbox.Command) (made []string, err error) {
	for upper, base := range map[string]string{c.Root: c.WorkspaceBase, c.Home: c.HomeBase} {
		if base == "" {
			continue
		}
		dir := workDir(upper)
		if err := sandbox.RemoveWorkDirectory(dir); err != nil {
			return made, fmt.Errorf("remove an overlay's directory: %w", err)
		}
		if err := os.Mkdir(dir, 0o700); err != nil {
			return made, fmt.Errorf("make an overlay's directory: %w", err)
		}
		made = append(made, dir)
	}
	return made, nil
}

// give makes the user of commands the owner of the files that the command may change.
func (r *Runner) give(c sandbox.Command) error {
	paths := []string{c.Root, c.Home, c.Tmp}
	for _, m := range c.Mounts {
		if m.Writable {
			paths = append(paths, m.Host)
		}
	}
	if err := r.giveBases(c); err != nil {
		return err
	}
	for _, p := range paths {
		if p == "" {
			continue
		}
		if err := r.giveTree(p); err != nil {
			return err
		}
	}
	return nil
}

// giveBases gives the bases of a command to its user. All files of a base belong to the owner of its
// directory, which is changed last, so that only a complete change is not repeated.
func (r *Runner) giveBases(c sandbox.Command) error {
	r.giving.Lock()
	defer r.giving.Unlock()
	for _, base := range []string{c.WorkspaceBase, c.HomeBase} {
		if base == "" {
			continue
		}
		info, err := os.Stat(base)
		if err != nil {
			return fmt.Errorf("read the owner of a base: %w", err)
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Uid == nobody {
			continue
		}
		if err := r.giveTree(base); err != nil {
			return err
		}
	}
	return nil
}

// giveTree changes the owner of a directory after that of its contents.
func (r *Runner) giveTree(root string) error {
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		return r.giveFile(path, d)
	})
	if err == nil {
		err = os.Lchown(root, nobody, nobody)
	}
	if err != nil {
		return fmt.Errorf("give the files of a command to its user: %w", err)
	}
	return nil
}

func (r *Runner) giveFile(path string, d fs.DirEntry) error {
	info, err := d.Info()
	if err != nil {
		return err
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Uid == nobody && stat.Gid == nobody {
		return nil
	}
	return os.Lchown(path, nobody, nobody)
}
