package sandbox

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/sandbox/sandboxtest"
)

func TestARunnerWithoutContainersRefusesCommandsThatNameAnImage(t *testing.T) {
	t.Parallel()
	var missing *IsolationError
	_, err := (&Process{}).Run(t.Context(), Command{Root: t.TempDir(), Shell: "true", Image: "node:24"})
	require.ErrorAs(t, err, &missing)
	require.True(t, missing.Final)
	require.ErrorContains(t, err, "the image node:24, but this worker's runner uses none")
}

func TestMachineWithoutIsolationIsRefused(t *testing.T) {
	t.Setenv("PATH", t.TempDir()) // no bwrap
	_, err := NewProcess(Options{})
	var missing *IsolationError
	require.ErrorAs(t, err, &missing)
	require.Len(t, missing.Missing, 1)
	for _, part := range []string{"bwrap is not installed", "apt-get install -y bubblewrap", "execution.sandbox.allow_unisolated"} {
		require.ErrorContains(t, err, part)
	}

	p, err := NewProcess(Options{AllowUnisolated: true})
	require.NoError(t, err)
	require.False(t, p.Isolated())
	require.False(t, feature(t, p, "namespaces (bubblewrap)").Available)
	_, err = p.Run(t.Context(), Command{Root: t.TempDir(), Shell: "true", Proxy: func(net.Listener) []string { return nil }})
	require.ErrorContains(t, err, "apt-get install -y bubblewrap")
}

func feature(t *testing.T, p *Process, name string) Feature {
	t.Helper()
	for _, f := range p.Features() {
		if f.Name == name {
			return f
		}
	}
	require.Fail(t, "no feature "+name)
	return Feature{}
}

// TestUnisolatedIsWhatItSays: it runs, only on request, with whatever is left.
func TestUnisolatedIsWhatItSays(t *testing.T) {
	p := unisolated(t)
	require.False(t, feature(t, p, "host processes").Available)

	root, outside := t.TempDir(), t.TempDir()
	res := runCommand(t, p, Command{Root: root, Shell: "pwd; echo x >file; (setsid sleep 300 &) ; exit 3"})
	require.Equal(t, 3, res.ExitCode, "%s", res.Stderr)
	require.Equal(t, Workspace+"\n", string(res.Stdout), "the host's path is not shown")
	require.FileExists(t, filepath.Join(root, "file"))
	services := sandboxtest.StartHostServices(t)
	res = runCommand(t, p, Command{Root: root, Shell: "exec 3<>/dev/tcp/" + strings.Replace(services.TCP, ":", "/", 1)})
	require.NotZero(t, res.ExitCode)
	if landlockVersion() >= landlockMinimum {
		res = runCommand(t, p, Command{Root: root, Env: map[string]string{"OUTSIDE": outside}, Shell: "echo x >$OUTSIDE/new"})
		require.NotZero(t, res.ExitCode)
		require.NoFileExists(t, filepath.Join(outside, "new"))
	}
	marker := "marker-unisolated-" + filepath.Base(root)
	res = runCommand(t, p, Command{Root: root, Limits: Limits{Timeout: 300e6},
		Shell: ": " + marker + "; (setsid bash -c 'sleep 300; : " + marker + "' &); sleep 300"})
	require.True(t, res.TimedOut)
	require.Empty(t, sandboxtest.ProcessesWith(t, marker))
}

func TestFeaturesNameWhatProvidesThem(t *testing.T) {
	p := isolated(t)
	require.GreaterOrEqual(t, len(p.Features()), 8)
	for _, f := range p.Features() {
		require.NotEmpty(t, f.Name)
		require.NotEmpty(t, f.By, f.Name)
		require.True(t, f.Available || !f.Required, f.Name)
	}
	require.Equal(t, "bubblewrap", feature(t, p, "network").By)
}

func TestSelfTestBelievesOnlyWhatItSees(t *testing.T) {
	t.Parallel()
	good := "Pid:\t4\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\nInterface: Inter-|\nInterface: lo:\n"
	p := &Process{bwrap: "bwrap", seccomp: true}
	require.NoError(t, p.judge(good))
	for name, replace := range map[string][2]string{
		"capabilities remain":    {"CapEff:\t0000000000000000", "CapEff:\t0000000000000001"},
		"privileges can be won":  {"NoNewPrivs:\t1", "NoNewPrivs:\t0"},
		"no filter":              {"Seccomp:\t2", "Seccomp:\t0"},
		"host process ids":       {"Pid:\t4", "Pid:\t40321"},
		"a network interface":    {"lo:", "lo:\nInterface: eth0:"},
		"a report without value": {"NoNewPrivs:\t1\n", ""},
	} {
		require.Error(t, p.judge(strings.Replace(good, replace[0], replace[1], 1)), name)
	}
}

func TestHelperStagesCannotBeUsedByHand(t *testing.T) {
	t.Parallel()
	require.False(t, isHelper())
	_, err := NewProcess(Options{Executable: "/bin/true"})
	var missing *IsolationError
	require.ErrorAs(t, err, &missing, "a binary that is no helper")
	require.ErrorContains(t, err, "MaybeRunHelper")
}

func TestCgroupIsTakenOnlyWhereDelegated(t *testing.T) {
	t.Parallel()
	own, found := ownCgroup([]byte("4:memory:/a\n0::/user.slice/b\n"))
	require.True(t, found)
	require.Equal(t, "/user.slice/b", own)
	_, found = ownCgroup([]byte("4:memory:/a\n"))
	require.False(t, found)

	dir := t.TempDir()
	_, err := findCgroup(dir)
	require.ErrorContains(t, err, "no cgroup v2")
	control := filepath.Join(dir, "cgroup.subtree_control")
	require.NoError(t, os.WriteFile(control, []byte("cpu memory\n"), 0o644))
	_, err = findCgroup(dir)
	require.ErrorContains(t, err, "pids controller")
	require.NoError(t, os.WriteFile(control, []byte("cpu memory pids\n"), 0o644))
	got, err := findCgroup(dir)
	require.NoError(t, err)
	require.Equal(t, dir, got)
}

func TestCgroupFilesCarryTheLimits(t *testing.T) {
	t.Parallel()
	files := cgroupLimits(Limits{MemoryBytes: 1 << 20, Processes: 10})
	require.Equal(t, map[string]string{"memory.max": "68157440", "memory.oom.group": "1", "pids.max": "42"}, files)
	require.Empty(t, cgroupLimits(Limits{}))
	require.Equal(t, 3, eventCount([]byte("low 0\noom 9\noom_kill 3\noom_group_kill 1\n"), "oom_kill"))
	require.Zero(t, eventCount(nil, "oom_kill"))
}
