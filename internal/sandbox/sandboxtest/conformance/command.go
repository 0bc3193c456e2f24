package conformance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/sandbox"
	"github.com/rocketgpt/orchestrator/internal/sandbox/sandboxtest"
)

// daemons are ways to leave one's parent.
var daemons = map[string]string{
	"background":      "sleep 300 & ",
	"nohup":           "nohup setsid sleep 300 >/dev/null 2>&1 & ",
	"double fork":     `python3 -c 'import os, time; os.fork() and os._exit(0); os.setsid(); os.fork() and os._exit(0); time.sleep(300)'; `,
	"ignores signals": `(trap '' HUP INT TERM; while :; do sleep 1; done) & `,
}

func (s *suite) resultTellsHowACommandEnded(t *testing.T) {
	p := s.parallel(t)
	cases := []struct {
		name    string
		command sandbox.Command
		code    int
		signal  string
		stdout  string
		stderr  string
	}{
		{"success", sandbox.Command{Shell: "echo out; echo err >&2"}, 0, "", "out\n", "err\n"},
		{"exit code", sandbox.Command{Shell: "exit 7"}, 7, "", "", ""},
		{"signal", sandbox.Command{Shell: "kill -SEGV $$"}, 139, "segmentation fault", "", ""},
		{"arguments are not a shell's", sandbox.Command{Args: []string{"echo", "$HOME", ";", "a b"}}, 0, "", "$HOME ; a b\n", ""},
		{"no such program", sandbox.Command{Args: []string{"no-such-program"}}, 127, "", "", "not found"},
		{"not a program", sandbox.Command{Shell: "touch f", Args: nil}, 0, "", "", ""},
		{"not executable", sandbox.Command{Args: []string{"/etc/hosts"}}, 126, "", "", "permission denied"},
		{"input", sandbox.Command{Args: []string{"cat"}, Stdin: []byte("in")}, 0, "", "in", ""},
		{"no input", sandbox.Command{Args: []string{"cat"}}, 0, "", "", ""},
		{"environment", sandbox.Command{Shell: "echo $HOME $TMPDIR $CI $GIVEN", Env: map[string]string{"GIVEN": "x"}}, 0, "", "/home/sandbox /tmp true x\n", ""},
		{"bash", sandbox.Command{Shell: "[[ x == x ]] && echo $BASH"}, 0, "", "/bin/bash\n", ""},
		{"umask", sandbox.Command{Shell: "umask"}, 0, "", "0022\n", ""},
		{"open files", sandbox.Command{Shell: "ulimit -n; ulimit -c"}, 0, "", "4096\n0\n", ""},
		{"host name", sandbox.Command{Args: []string{"uname", "-n"}}, 0, "", "sandbox\n", ""},
	}
	for _, c := range cases {
		res := run(t, p, c.command)
		require.Equal(t, c.code, res.ExitCode, "%s: %s", c.name, res.Stderr)
		require.Equal(t, c.signal, res.Signal, c.name)
		require.Equal(t, c.stdout, string(res.Stdout), c.name)
		require.Contains(t, string(res.Stderr), c.stderr, c.name)
		require.Empty(t, res.LimitExceeded, c.name)
		require.Positive(t, res.Duration, c.name)
	}
}

func (s *suite) workspaceIsWritableAndStaysTheWorkers(t *testing.T) {
	p := s.parallel(t)
	root := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(root, "sub", "dir"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(root, "old"), []byte("old"), 0o600))
	res := run(t, p, sandbox.Command{Root: root, Dir: "sub/dir",
		Shell: "pwd; echo new >../../old; mkdir -m 700 private; echo x >private/x; chmod 000 private/x; echo y >private/y; chmod 600 private/y"})
	require.Zero(t, res.ExitCode, "%s", res.Stderr)
	require.Equal(t, "/workspace/sub/dir\n", string(res.Stdout))
	data, err := os.ReadFile(filepath.Join(root, "old"))
	require.NoError(t, err)
	require.Equal(t, "new\n", string(data))
	data, err = os.ReadFile(filepath.Join(root, "sub", "dir", "private", "y"))
	require.NoError(t, err, "the worker can read what the command made private")
	require.Equal(t, "y\n", string(data))
	require.NoError(t, os.RemoveAll(filepath.Join(root, "sub")))
}

func (s *suite) privateDirectoriesEndWithTheCommand(t *testing.T) {
	p := s.parallel(t)
	output(t, p, "echo x >/tmp/left; echo x >~/left; echo x >/dev/shm/left")
	require.Equal(t, "0\n", output(t, p, "ls -A /tmp ~ /dev/shm | grep -c left || true"))
	require.NoFileExists(t, "/tmp/left")
}

func (s *suite) mountsAreSeenWhereTheCallerSays(t *testing.T) {
	p := s.parallel(t)
	base := t.TempDir()
	readOnly, writable := filepath.Join(base, "ro"), filepath.Join(base, "rw")
	require.NoError(t, os.Mkdir(readOnly, 0o755))
	require.NoError(t, os.Mkdir(writable, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(readOnly, "file"), []byte("seen"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(base, "sibling"), nil, 0o644))
	res := run(t, p, sandbox.Command{Mounts: []sandbox.Mount{{Host: readOnly, Inside: "/srv/ro"}, {Host: writable, Inside: "/srv/rw", Writable: true}},
		Shell: "cat /srv/ro/file; echo x >/srv/ro/new; echo kept >/srv/rw/new; ls /srv; ls " + base})
	require.Equal(t, "seenro\nrw\n", string(res.Stdout))
	require.NoFileExists(t, filepath.Join(readOnly, "new"))
	require.FileExists(t, filepath.Join(writable, "new"))
}

func (s *suite) commandsThatMakeNoSenseAreRefused(t *testing.T) {
	p := s.parallel(t)
	root := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink("/etc", link))
	for name, c := range map[string]sandbox.Command{
		"nothing to run":                        {Root: root},
		"two things to run":                     {Root: root, Shell: "true", Args: []string{"true"}},
		"empty program":                         {Root: root, Args: []string{""}},
		"directory outside":                     {Root: root, Shell: "true", Dir: "../x"},
		"absolute directory":                    {Root: root, Shell: "true", Dir: "/etc"},
		"relative root":                         {Root: ".", Shell: "true"},
		"root is the file system":               {Root: "/", Shell: "true"},
		"bad variable":                          {Root: root, Shell: "true", Env: map[string]string{"A=B": "c"}},
		"NUL byte":                              {Root: root, Shell: "true\x00"},
		"everything visible":                    {Root: root, Shell: "true", Mounts: []sandbox.Mount{{Host: "/", Inside: "/srv"}}},
		"a link to be mounted":                  {Root: root, Shell: "true", Mounts: []sandbox.Mount{{Host: link, Inside: "/srv", Writable: true}}},
		"writable path below the root":          {Root: root, Shell: "true", Mounts: []sandbox.Mount{{Host: sandboxtest.Mkdir(t, root, "sub"), Inside: "/srv", Writable: true}}},
		"home below the root":                   {Root: root, Shell: "true", Home: sandboxtest.Mkdir(t, root, "home")},
		"a home base requires a home directory": {Root: root, Shell: "true", HomeBase: t.TempDir()},
		"a base that can be written":            {Root: root, Shell: "true", WorkspaceBase: sandboxtest.Mkdir(t, root, "base")},
		"a base above the root":                 {Root: root, Shell: "true", WorkspaceBase: filepath.Dir(root)},
		"a file as a base":                      {Root: root, Shell: "true", WorkspaceBase: "/usr/bin/env"},
		"a mount on the helper":                 {Root: root, Shell: "true", Mounts: []sandbox.Mount{{Host: "/usr/share", Inside: "/run/sandbox"}}},
		"a mount in the workspace":              {Root: root, Shell: "true", Mounts: []sandbox.Mount{{Host: "/usr/share", Inside: "/workspace/x"}}},
		"a mount above the home":                {Root: root, Shell: "true", Mounts: []sandbox.Mount{{Host: "/usr/share", Inside: "/home"}}},
		"two mounts at one place":               {Root: root, Shell: "true", Mounts: []sandbox.Mount{{Host: "/usr/share", Inside: "/srv"}, {Host: "/usr/lib", Inside: "/srv"}}},
		"the worker's home directory":           {Root: root, Shell: "true", Mounts: []sandbox.Mount{{Host: os.Getenv("HOME"), Inside: "/srv"}}},
		"all home directories":                  {Root: root, Shell: "true", Mounts: []sandbox.Mount{{Host: "/home", Inside: "/srv"}}},
	} {
		_, err := p.Run(t.Context(), c)
		require.ErrorIs(t, err, sandbox.ErrInvalid, name)
	}
	_, err := p.Run(t.Context(), sandbox.Command{Root: filepath.Join(root, "missing"), Shell: "true"})
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = p.Run(t.Context(), sandbox.Command{Root: root, Shell: "true", Dir: "missing"})
	require.ErrorContains(t, err, "working directory")
	require.NoError(t, os.Symlink("/etc", filepath.Join(root, "etc")))
	res := run(t, p, sandbox.Command{Root: root, Dir: "etc", Shell: "cat shadow"})
	require.NotZero(t, res.ExitCode, "a link is followed inside the sandbox, where it leads nowhere new")
}

func (s *suite) noProcessIsLeftWhenRunReturns(t *testing.T) {
	p := s.parallel(t)
	for name, script := range daemons {
		marker := fmt.Sprintf("marker-%d", time.Now().UnixNano())
		script = strings.ReplaceAll(script, "sleep 300", "bash -c 'sleep 300; : "+marker+"'")
		res := run(t, p, sandbox.Command{Shell: ": " + marker + "\n" + script + " echo started"})
		require.Contains(t, string(res.Stdout), "started", name)
		require.Empty(t, sandboxtest.ProcessesWith(t, marker), name)
	}
}

func (s *suite) cancellingEndsEverything(t *testing.T) {
	p := s.parallel(t)
	marker := fmt.Sprintf("marker-%d", time.Now().UnixNano())
	reason := errors.New("the user changed their mind")
	ctx, cancel := context.WithCancelCause(t.Context())
	var once sync.Once
	var canceled time.Time
	res, err := p.Run(ctx, sandbox.Command{
		Root:  t.TempDir(),
		Shell: ": " + marker + "; trap '' TERM INT; (setsid sleep 300 &); echo partial; sleep 300",
		OnOutput: func(sandbox.Stream, []byte) {
			once.Do(func() { canceled = time.Now(); cancel(reason) })
		},
	})
	require.ErrorIs(t, err, reason)
	require.Less(t, time.Since(canceled), time.Second)
	require.Equal(t, "partial\n", string(res.Stdout))
	require.Empty(t, sandboxtest.ProcessesWith(t, marker))

	_, err = p.Run(ctx, sandbox.Command{Root: t.TempDir(), Shell: "true"})
	require.ErrorIs(t, err, reason, "an ended context starts nothing")
}

func (s *suite) manyCommandsAtOnceDoNotDisturbEachOther(t *testing.T) {
	p := s.parallel(t)
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			res, err := p.Run(t.Context(), sandbox.Command{Root: t.TempDir(), Shell: fmt.Sprintf("echo %d >f; cat f; exit %d", i, i)})
			if err != nil || res.ExitCode != i || string(res.Stdout) != fmt.Sprintf("%d\n", i) {
				t.Errorf("command %d: %+v %v", i, res, err)
			}
		})
	}
	group.Wait()
}

func (s *suite) outputIsLiveAndCapped(t *testing.T) {
	p := s.parallel(t)
	var live []byte
	res := run(t, p, sandbox.Command{
		Shell:  "seq 1 2000; echo end; echo other >&2",
		Limits: sandbox.Limits{OutputBytes: 1000},
		OnOutput: func(stream sandbox.Stream, chunk []byte) {
			if stream == sandbox.Stdout {
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
