package sandbox

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/await"
)

func TestResultTellsHowACommandEnded(t *testing.T) {
	p := isolated(t)
	cases := []struct {
		name    string
		command Command
		code    int
		signal  string
		stdout  string
		stderr  string
	}{
		{"success", Command{Shell: "echo out; echo err >&2"}, 0, "", "out\n", "err\n"},
		{"exit code", Command{Shell: "exit 7"}, 7, "", "", ""},
		{"signal", Command{Shell: "kill -SEGV $$"}, 139, "segmentation fault", "", ""},
		{"arguments are not a shell's", Command{Args: []string{"echo", "$HOME", ";", "a b"}}, 0, "", "$HOME ; a b\n", ""},
		{"no such program", Command{Args: []string{"no-such-program"}}, 127, "", "", "not found"},
		{"not a program", Command{Shell: "touch f", Args: nil}, 0, "", "", ""},
		{"not executable", Command{Args: []string{"/etc/hosts"}}, 126, "", "", "permission denied"},
		{"input", Command{Args: []string{"cat"}, Stdin: []byte("in")}, 0, "", "in", ""},
		{"no input", Command{Args: []string{"cat"}}, 0, "", "", ""},
		{"environment", Command{Shell: "echo $HOME $TMPDIR $CI $GIVEN", Env: map[string]string{"GIVEN": "x"}}, 0, "", "/home/sandbox /tmp true x\n", ""},
		{"bash", Command{Shell: "[[ x == x ]] && echo $BASH"}, 0, "", "/bin/bash\n", ""},
		{"umask", Command{Shell: "umask"}, 0, "", "0022\n", ""},
		{"open files", Command{Shell: "ulimit -n; ulimit -c"}, 0, "", "4096\n0\n", ""},
		{"host name", Command{Args: []string{"uname", "-n"}}, 0, "", "sandbox\n", ""},
	}
	for _, c := range cases {
		res := runCommand(t, p, c.command)
		require.Equal(t, c.code, res.ExitCode, "%s: %s", c.name, res.Stderr)
		require.Equal(t, c.signal, res.Signal, c.name)
		require.Equal(t, c.stdout, string(res.Stdout), c.name)
		require.Contains(t, string(res.Stderr), c.stderr, c.name)
		require.Empty(t, res.LimitExceeded, c.name)
		require.Positive(t, res.Duration, c.name)
	}
}

func TestWorkspaceIsWritableAndStaysTheWorkers(t *testing.T) {
	p := isolated(t)
	root := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(root, "sub", "dir"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(root, "old"), []byte("old"), 0o600))
	res := runCommand(t, p, Command{Root: root, Dir: "sub/dir",
		Shell: "pwd; echo new >../../old; mkdir -m 700 private; echo x >private/x; chmod 000 private/x"})
	require.Zero(t, res.ExitCode, "%s", res.Stderr)
	require.Equal(t, "/workspace/sub/dir\n", string(res.Stdout))
	data, err := os.ReadFile(filepath.Join(root, "old"))
	require.NoError(t, err)
	require.Equal(t, "new\n", string(data))
	info, err := os.Stat(filepath.Join(root, "sub", "dir", "private", "x"))
	require.NoError(t, err)
	require.EqualValues(t, os.Geteuid(), info.Sys().(*syscall.Stat_t).Uid)
	require.NoError(t, os.RemoveAll(filepath.Join(root, "sub")))
}

func TestPrivateDirectoriesEndWithTheCommand(t *testing.T) {
	p := isolated(t)
	shellOutput(t, p, "echo x >/tmp/left; echo x >~/left; echo x >/dev/shm/left")
	require.Equal(t, "0\n", shellOutput(t, p, "ls -A /tmp ~ /dev/shm | grep -c left || true"))
	require.NoFileExists(t, "/tmp/left")
}

func TestMountsAreSeenWhereTheCallerSays(t *testing.T) {
	p := isolated(t)
	base := t.TempDir()
	readOnly, writable := filepath.Join(base, "ro"), filepath.Join(base, "rw")
	require.NoError(t, os.Mkdir(readOnly, 0o755))
	require.NoError(t, os.Mkdir(writable, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(readOnly, "file"), []byte("seen"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(base, "sibling"), nil, 0o644))
	res := runCommand(t, p, Command{Mounts: []Mount{{Host: readOnly, Inside: "/srv/ro"}, {Host: writable, Inside: "/srv/rw", Writable: true}},
		Shell: "cat /srv/ro/file; echo x >/srv/ro/new; echo kept >/srv/rw/new; ls /srv; ls " + base})
	require.Equal(t, "seenro\nrw\n", string(res.Stdout))
	require.NoFileExists(t, filepath.Join(readOnly, "new"))
	require.FileExists(t, filepath.Join(writable, "new"))
}

func TestCommandsThatMakeNoSenseAreRefused(t *testing.T) {
	p := isolated(t)
	root := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink("/etc", link))
	for name, c := range map[string]Command{
		"nothing to run":                        {Root: root},
		"two things to run":                     {Root: root, Shell: "true", Args: []string{"true"}},
		"empty program":                         {Root: root, Args: []string{""}},
		"directory outside":                     {Root: root, Shell: "true", Dir: "../x"},
		"absolute directory":                    {Root: root, Shell: "true", Dir: "/etc"},
		"relative root":                         {Root: ".", Shell: "true"},
		"root is the file system":               {Root: "/", Shell: "true"},
		"bad variable":                          {Root: root, Shell: "true", Env: map[string]string{"A=B": "c"}},
		"NUL byte":                              {Root: root, Shell: "true\x00"},
		"everything visible":                    {Root: root, Shell: "true", Mounts: []Mount{{Host: "/", Inside: "/srv"}}},
		"a link to be mounted":                  {Root: root, Shell: "true", Mounts: []Mount{{Host: link, Inside: "/srv", Writable: true}}},
		"writable path below the root":          {Root: root, Shell: "true", Mounts: []Mount{{Host: mkdir(t, root, "sub"), Inside: "/srv", Writable: true}}},
		"home below the root":                   {Root: root, Shell: "true", Home: mkdir(t, root, "home")},
		"a home base requires a home directory": {Root: root, Shell: "true", HomeBase: t.TempDir()},
		"a base that can be written":            {Root: root, Shell: "true", WorkspaceBase: mkdir(t, root, "base")},
		"a base above the root":                 {Root: root, Shell: "true", WorkspaceBase: filepath.Dir(root)},
		"a file as a base":                      {Root: root, Shell: "true", WorkspaceBase: "/usr/bin/env"},
		"a mount on the helper":                 {Root: root, Shell: "true", Mounts: []Mount{{Host: "/usr/share", Inside: "/run/sandbox"}}},
		"a mount in the workspace":              {Root: root, Shell: "true", Mounts: []Mount{{Host: "/usr/share", Inside: "/workspace/x"}}},
		"a mount above the home":                {Root: root, Shell: "true", Mounts: []Mount{{Host: "/usr/share", Inside: "/home"}}},
		"two mounts at one place":               {Root: root, Shell: "true", Mounts: []Mount{{Host: "/usr/share", Inside: "/srv"}, {Host: "/usr/lib", Inside: "/srv"}}},
		"the worker's home directory":           {Root: root, Shell: "true", Mounts: []Mount{{Host: os.Getenv("HOME"), Inside: "/srv"}}},
		"all home directories":                  {Root: root, Shell: "true", Mounts: []Mount{{Host: "/home", Inside: "/srv"}}},
	} {
		_, err := p.Run(t.Context(), c)
		require.ErrorIs(t, err, ErrInvalid, name)
	}
	_, err := p.Run(t.Context(), Command{Root: filepath.Join(root, "missing"), Shell: "true"})
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = p.Run(t.Context(), Command{Root: root, Shell: "true", Dir: "missing"})
	require.ErrorContains(t, err, "working directory")
	require.NoError(t, os.Symlink("/etc", filepath.Join(root, "etc")))
	res := runCommand(t, p, Command{Root: root, Dir: "etc", Shell: "cat shadow"})
	require.NotZero(t, res.ExitCode, "a link is followed inside the sandbox, where it leads nowhere new")
}

func mkdir(t *testing.T, elements ...string) string {
	t.Helper()
	path := filepath.Join(elements...)
	require.NoError(t, os.MkdirAll(path, 0o755))
	return path
}

// daemons are ways to leave one's parent.
var daemons = map[string]string{
	"background":      "sleep 300 & ",
	"nohup":           "nohup setsid sleep 300 >/dev/null 2>&1 & ",
	"double fork":     `python3 -c 'import os, time; os.fork() and os._exit(0); os.setsid(); os.fork() and os._exit(0); time.sleep(300)'; `,
	"ignores signals": `(trap '' HUP INT TERM; while :; do sleep 1; done) & `,
}

func TestNoProcessIsLeftWhenRunReturns(t *testing.T) {
	p := isolated(t)
	for name, script := range daemons {
		marker := fmt.Sprintf("marker-%d", time.Now().UnixNano())
		script = strings.ReplaceAll(script, "sleep 300", "bash -c 'sleep 300; : "+marker+"'")
		res := runCommand(t, p, Command{Shell: ": " + marker + "\n" + script + " echo started"})
		require.Contains(t, string(res.Stdout), "started", name)
		require.Empty(t, processesWith(t, marker), name)
	}
}

func TestCancellingEndsEverything(t *testing.T) {
	p := isolated(t)
	marker := fmt.Sprintf("marker-%d", time.Now().UnixNano())
	reason := errors.New("the user changed their mind")
	ctx, cancel := context.WithCancelCause(t.Context())
	var once sync.Once
	var canceled time.Time
	res, err := p.Run(ctx, Command{
		Root:  t.TempDir(),
		Shell: ": " + marker + "; trap '' TERM INT; (setsid sleep 300 &); echo partial; sleep 300",
		OnOutput: func(Stream, []byte) {
			once.Do(func() { canceled = time.Now(); cancel(reason) })
		},
	})
	require.ErrorIs(t, err, reason)
	require.Less(t, time.Since(canceled), time.Second)
	require.Equal(t, "partial\n", string(res.Stdout))
	require.Empty(t, processesWith(t, marker))

	_, err = p.Run(ctx, Command{Root: t.TempDir(), Shell: "true"})
	require.ErrorIs(t, err, reason, "an ended context starts nothing")
}

func TestACommandThatIsCanceledWhileItStartsLeavesNothingBehind(t *testing.T) {
	p := isolated(t)
	root, base := t.TempDir(), t.TempDir()
	before := orphans(t)
	for i := range 120 {
		command := Command{Root: root, Shell: "sleep 300"}
		if i%2 == 1 { // bwrap starts from a separate stage there
			command.WorkspaceBase = base
		}
		// The moments from the fork to the first line of the command, one after the other.
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*time.Millisecond/4)
		_, _ = p.Run(ctx, command)
		cancel()
	}
	await.Until(t, "the end of all sandboxes whose worker is gone", func() bool {
		return !slices.ContainsFunc(orphans(t), func(o string) bool { return !slices.Contains(before, o) })
	})
}

// orphans are the processes of sandboxes whose parent is gone: nobody waits for them,
// and nobody ends them.
func orphans(t *testing.T) []string {
	t.Helper()
	return orphansWith(t, helperArg)
}

// orphansWith are the processes with a text in their command line whose parent is gone.
func orphansWith(t *testing.T, text string) []string {
	t.Helper()
	return slices.DeleteFunc(processesWith(t, text), func(found string) bool {
		file, _, _ := strings.Cut(found, ": ")
		status, err := os.ReadFile(filepath.Join(filepath.Dir(file), "status"))
		return err != nil || !strings.Contains(string(status), "\nPPid:\t1\n") || strings.Contains(string(status), "\nState:\tZ")
	})
}

func TestSandboxDiesWithItsWorker(t *testing.T) {
	t.Parallel()
	marker := fmt.Sprintf("marker-%d", time.Now().UnixNano())
	root := t.TempDir()
	script := ": " + marker + "; trap '' TERM HUP INT; (setsid bash -c 'echo >up; sleep 300; : " + marker + "' &); sleep 300"
	worker := exec.Command(os.Args[0])
	worker.Env = append(os.Environ(), childVariable+"="+root+"\n"+script)
	require.NoError(t, worker.Start())
	await.Until(t, "the command to be up", func() bool {
		_, err := os.Stat(filepath.Join(root, "up"))
		return err == nil
	})
	require.NotEmpty(t, processesWith(t, marker))
	require.NoError(t, worker.Process.Kill())
	_ = worker.Wait()
	await.Until(t, "all processes to be gone", func() bool { return len(processesWith(t, marker)) == 0 })
}

func TestSandboxesThatStartWhenTheirWorkerIsKilledEnd(t *testing.T) {
	before := orphans(t)
	for i := range 12 { // each hits eight sandboxes, at different points of their start
		worker := exec.Command(os.Args[0])
		worker.Env = append(os.Environ(), childVariable+"="+t.TempDir()+"\n"+manyChildren)
		out, err := worker.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, worker.Start())
		_, err = bufio.NewReader(out).ReadString('\n')
		require.NoError(t, err)
		<-time.After(100*time.Millisecond + time.Duration(i)*7*time.Millisecond) // any moment will do
		require.NoError(t, worker.Process.Kill())
		_ = worker.Wait()
	}
	await.Until(t, "the end of all sandboxes whose worker was killed", func() bool {
		forks := orphansWith(t, os.Args[0]) // of the worker, before they become another program
		return !slices.ContainsFunc(append(forks, orphans(t)...), func(o string) bool { return !slices.Contains(before, o) })
	})
}

func TestManyCommandsAtOnceDoNotDisturbEachOther(t *testing.T) {
	p := isolated(t)
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			res, err := p.Run(t.Context(), Command{Root: t.TempDir(), Shell: fmt.Sprintf("echo %d >f; cat f; exit %d", i, i)})
			if err != nil || res.ExitCode != i || string(res.Stdout) != fmt.Sprintf("%d\n", i) {
				t.Errorf("command %d: %+v %v", i, res, err)
			}
		})
	}
	group.Wait()
}

func TestOutputIsLiveAndCapped(t *testing.T) {
	p := isolated(t)
	var live []byte
	res := runCommand(t, p, Command{
		Shell:  "seq 1 2000; echo end; echo other >&2",
		Limits: Limits{OutputBytes: 1000},
		OnOutput: func(stream Stream, chunk []byte) {
			if stream == Stdout {
				live = append(live, chunk...)
			}
		},
	})
	require.True(t, res.OK())
	require.True(t, res.StdoutTruncated)
	require.False(t, res.StderrTruncated)
	require.Len(t, live, 1000)
	out := string(res.Stdout)
	require.True(t, strings.HasPrefix(out, "1\n2\n3\n"))
	require.True(t, strings.HasSuffix(out, "2000\nend\n"))
	require.Contains(t, out, "[... 7897 bytes dropped ...]")
	require.Equal(t, "other\n", string(res.Stderr))
}
