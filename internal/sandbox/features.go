package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	seccomp "github.com/elastic/go-seccomp-bpf"
	"golang.org/x/sys/unix"
)

// Feature is one part of the isolation and its status on this machine.
type Feature struct {
	// Name is the isolated or limited resource.
	Name string
	// Available reports whether a test on this machine confirmed the feature.
	Available bool
	// Required is true if nothing runs without this feature.
	Required bool
	// By is the mechanism that provides it: bubblewrap, landlock, seccomp, cgroup, rlimit or
	// watchdog.
	By string
	// Detail is a version, or the reason why the feature is missing.
	Detail string
	// Fix is a command that makes it available.
	Fix string
}

// IsolationError reports that this machine cannot isolate commands.
type IsolationError struct {
	Missing []Feature
	// Final is true if no setting allows commands to run without the missing features.
	Final bool
}

// Error lists the missing features with reasons and fixes, and the setting to run without them.
func (e *IsolationError) Error() string {
	var b strings.Builder
	b.WriteString("sandbox: commands cannot be isolated on this machine")
	for _, f := range e.Missing {
		fmt.Fprintf(&b, "\n  missing: %s: %s", f.Name, f.Detail)
		if f.Fix != "" {
			fmt.Fprintf(&b, "\n      fix: %s", f.Fix)
		}
	}
	if e.Final {
		return b.String()
	}
	b.WriteString("\nTo run commands without isolation anyway, set execution.sandbox.allow_unisolated: true")
	return b.String()
}

// probeTimeout limits one self-test.
const probeTimeout = 10 * time.Second

// NewProcess runs a command to test whether this machine can isolate commands. If it cannot, or
// lacks a required feature, NewProcess returns an *IsolationError unless options allow that.
func NewProcess(options Options) (*Process, error) {
	base, err := newBase(options)
	if err != nil {
		return nil, err
	}
	var missing []Feature
	if !base.seccomp {
		missing = append(missing, noSeccomp())
	}
	p := *base
	if err := p.isolate(); err != nil {
		missing = append(missing, Feature{Name: "namespaces (bubblewrap)", Required: true, By: "bubblewrap", Detail: err.Error(), Fix: namespaceFix()})
	} else if base.seccomp || options.AllowUnisolated {
		return &p, nil
	}
	if !options.AllowUnisolated {
		return nil, &IsolationError{Missing: missing}
	}
	return base.unisolated(missing)
}

func newBase(options Options) (*Process, error) {
	if isHelper() {
		return nil, errNotHelper
	}
	if options.DataDir != "" {
		dir, err := filepath.Abs(options.DataDir)
		if err != nil {
			return nil, fmt.Errorf("sandbox: the data folder: %w", err)
		}
		options.DataDir = dir
	}
	p := &Process{options: options, executable: options.Executable, seccomp: seccomp.Supported(), landlock: landlockVersion()}
	p.prepared = &prepared{dataDir: options.DataDir, host: "/etc"}
	if p.executable == "" {
		if !helperReady.Load() {
			return nil, errNotHelper
		}
		path, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("sandbox: find this binary: %w", err)
		}
		p.executable = path
	}
	if options.CacheDir != "" {
		if err := os.MkdirAll(options.CacheDir, 0o700); err != nil {
			return nil, fmt.Errorf("sandbox: create the cache directory: %w", err)
		}
	}
	return p, nil
}

// isolate sets p up for bubblewrap and tests it.
func (p *Process) isolate() (err error) {
	if p.bwrap, err = exec.LookPath("bwrap"); err != nil {
		return errors.New("the program bwrap is not installed")
	}
	cgroupErr := p.useCgroup()
	// Not as part of a test, whose time is limited: the disk may be busy.
	if _, _, err := p.prepared.systemMounts(p.options.Toolchains, Command{}); err != nil {
		return err
	}
	p.mapUsers = canMapUsers()
	if err = p.selfTest(); err != nil && p.mapUsers && !errors.Is(err, context.DeadlineExceeded) {
		p.mapUsers = false
		err = p.selfTest()
	}
	if err != nil {
		return err
	}
	p.features = append(p.describe(cgroupErr), p.overlayFeature(p.testOverlay()))
	return nil
}

var errNoMounts = errors.New("commands without namespaces cannot have their own mounts")

// testOverlay runs a command on top of bases, in the data folder of this worker.
func (p *Process) testOverlay() error {
	dir := p.options.DataDir
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		dir = "" // it does not exist yet: test in the directory for temporary files
	}
	dir, err := os.MkdirTemp(dir, "rgpt-overlay-probe-")
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	for _, name := range []string{"work", "base", "home", "homebase"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "base", "probe"), []byte("below"), 0o644); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	c, err := p.complete(Command{
		Root: filepath.Join(dir, "work"), WorkspaceBase: filepath.Join(dir, "base"),
		Home: filepath.Join(dir, "home"), HomeBase: filepath.Join(dir, "homebase"),
		Shell: "grep -q below probe && rm probe && echo above >probe && echo x >~/probe",
	})
	if err != nil {
		return err
	}
	res, err := p.runOnce(ctx, c, time.Now())
	if err == nil && !res.OK() {
		err = fmt.Errorf("a test command on an overlay exited with code %d: %s", res.ExitCode, strings.TrimSpace(string(res.Stderr)))
	}
	return err
}

func (p *Process) overlayFeature(err error) Feature {
	f := Feature{Name: "overlay", Available: err == nil, By: "overlayfs"}
	if err != nil {
		f.Detail = "installed packages are copied into every workspace that needs them: " + err.Error()
		f.Fix = "put the data folder on a file system such as ext4 or xfs (in a container: on a volume), with Linux 5.19 or newer"
	}
	return f
}

func (p *Process) useCgroup() (err error) {
	path, err := findCgroup(p.options.Cgroup)
	if err == nil {
		p.cgroup = path
	}
	return err
}

// unisolated sets p up with the remaining features.
func (p *Process) unisolated(missing []Feature) (*Process, error) {
	if !p.seccomp { // nothing else blocks the host's network
		return nil, &IsolationError{Missing: missing, Final: true}
	}
	cgroupErr := p.useCgroup()
	if err := p.selfTest(); err != nil {
		return nil, err
	}
	p.features = slices.Concat(missing, p.describe(cgroupErr), []Feature{p.overlayFeature(errNoMounts)})
	return p, nil
}

func noSeccomp() Feature {
	return Feature{Name: "system calls", Required: true, By: "seccomp",
		Detail: "the kernel does not support seccomp filters", Fix: "boot a kernel built with CONFIG_SECCOMP_FILTER=y"}
}

// namespaceFix returns the command that installs bubblewrap or enables user namespaces.
func namespaceFix() string {
	if _, err := exec.LookPath("bwrap"); err != nil {
		return "apt-get install -y bubblewrap"
	}
	switches := []struct{ path, off, fix string }{
		{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"},
		{"/proc/sys/kernel/unprivileged_userns_clone", "0", "sysctl -w kernel.unprivileged_userns_clone=1"},
		{"/proc/sys/user/max_user_namespaces", "0", "sysctl -w user.max_user_namespaces=15000"},
	}
	for _, s := range switches {
		if data, err := os.ReadFile(s.path); err == nil && strings.TrimSpace(string(data)) == s.off {
			return s.fix
		}
	}
	if _, err := os.Stat("/.dockerenv"); err == nil {
		return "docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined ..."
	}
	return ""
}

// selfTest runs a command that reports its confinement, and trusts only that report.
func (p *Process) selfTest() error {
	root, err := os.MkdirTemp("", "rgpt-sandbox-probe-")
	if err != nil {
		return fmt.Errorf("sandbox: %w", err)
	}
	defer func() { _ = os.RemoveAll(root) }()
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	res, err := p.Run(ctx, Command{
		Root:  root,
		Shell: `echo probe >file && cat /proc/self/status && while read -r name _; do echo "Interface: $name"; done </proc/net/dev`,
	})
	if err != nil {
		return err
	}
	if !res.OK() {
		return fmt.Errorf("the self-test exited with code %d: %s", res.ExitCode, strings.TrimSpace(string(res.Stderr)))
	}
	return p.judge(string(res.Stdout))
}

// judge reads /proc/self/status and the list of network interfaces.
func (p *Process) judge(report string) error {
	values := map[string]string{}
	var interfaces []string
	for line := range strings.Lines(report) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		value = strings.TrimSpace(value)
		if key == "Interface" {
			interfaces = append(interfaces, value)
		} else if _, seen := values[key]; !seen {
			values[key] = value
		}
	}
	for key, want := range p.wanted() {
		if values[key] != want {
			return fmt.Errorf("the self-test found %s %q instead of %q", key, values[key], want)
		}
	}
	if !p.Isolated() {
		return nil
	}
	if pid, err := strconv.Atoi(values["Pid"]); err != nil || pid > 100 {
		return fmt.Errorf("the self-test ran with process ID %q; expected a number from 1 to 100", values["Pid"])
	}
	for _, name := range interfaces {
		if strings.HasSuffix(name, ":") && name != "lo:" {
			return fmt.Errorf("the self-test found a network interface other than lo: %s", name)
		}
	}
	return nil
}

func (p *Process) wanted() map[string]string {
	want := map[string]string{"CapEff": "0000000000000000", "CapPrm": "0000000000000000", "NoNewPrivs": "1"}
	if p.seccomp {
		want["Seccomp"] = "2"
	}
	return want
}

// describe lists the features that were set up.
func (p *Process) describe(cgroupErr error) []Feature {
	isolated, network := p.Isolated(), "bubblewrap"
	if !isolated {
		network = "seccomp"
	}
	features := []Feature{
		{Name: "files outside the workspace", Available: isolated, Required: true, By: "bubblewrap", Detail: p.bwrap},
		{Name: "host processes", Available: isolated, Required: true, By: "bubblewrap", Detail: p.bwrap},
		{Name: "network", Available: isolated || p.seccomp, Required: true, By: network, Detail: p.bwrap},
		{Name: "privileges", Available: true, Required: true, By: "no_new_privs", Detail: p.privileges()},
		{Name: "system calls", Available: p.seccomp, Required: true, By: "seccomp"},
		p.landlockFeature(),
		{Name: "time, file size, open files", Available: true, Required: true, By: "rlimit"},
	}
	return append(features, p.limitFeatures(cgroupErr)...)
}

func (p *Process) privileges() string {
	const always = "no capabilities, no set-uid programs; commands run as "
	if p.mapUsers {
		return always + "nobody where the workspace's file system allows it"
	}
	return always + "user " + strconv.Itoa(unix.Geteuid())
}

func (p *Process) landlockFeature() Feature {
	f := Feature{Name: "files, second layer", Available: p.landlock >= landlockMinimum, By: "landlock",
		Detail: "version " + strconv.Itoa(p.landlock)}
	if !f.Available {
		f.Detail = "the kernel does not support Landlock version 2 or newer"
		f.Fix = "add landlock to the kernel's lsm= boot parameter"
	}
	return f
}

// limitFeatures distinguishes limits that the kernel enforces at all times from limits that the
// watchdog enforces after the fact.
func (p *Process) limitFeatures(cgroupErr error) []Feature {
	if p.cgroup != "" {
		return []Feature{
			{Name: "memory", Available: true, Required: true, By: "cgroup", Detail: p.cgroup},
			{Name: "number of processes", Available: true, Required: true, By: "cgroup", Detail: p.cgroup},
		}
	}
	reason := cgroupErr
	processes := Feature{Name: "number of processes", Available: true, Required: true, By: "rlimit"}
	if (unix.Geteuid() == 0 && !p.mapUsers) || !processLimitIsPerSandbox() {
		processes.By = "watchdog"
		processes.Detail = "checked every " + quickTick.String() + "; the kernel does not enforce this limit for root"
	}
	return []Feature{
		{Name: "memory", Available: true, Required: true, By: "watchdog",
			Detail: fmt.Sprintf("measured every %s; no cgroup: %v", quickTick*fullEvery, reason),
			Fix:    "give the worker its own cgroup (version 2): Delegate=yes in its systemd unit, or systemd-run --user --scope -p Delegate=yes ..."},
		processes,
	}
}

// Features reports the isolation of commands on this machine and possible improvements.
func (p *Process) Features() []Feature { return p.features }

// Isolated reports whether commands run in namespaces; see Options.AllowUnisolated.
func (p *Process) Isolated() bool { return p.bwrap != "" }

// Traceable reports whether whatever a command does to a file of its workspace can be seen afterwards
// in the file's change time (ctime), which nobody can set, on file systems of this host that keep exact
// ones: no process outlives the command, and the filter denies the calls that leave the time as it was.
func (p *Process) Traceable() bool { return p.Isolated() && p.seccomp }
