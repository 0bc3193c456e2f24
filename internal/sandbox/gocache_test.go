package sandbox

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/sandbox/sandboxtest"
)

// goProject has packages that import nothing, so that the standard library need
// not be compiled first.
func goProject(changed string) map[string]string {
	files := map[string]string{"go.mod": "module example.com/hello\n\ngo 1.21\n"}
	for n := range 20 {
		files[fmt.Sprintf("p%d/p.go", n)] = "package p\n\nconst Answer = \"unchanged\"\n"
	}
	files["p7/p.go"] = "package p\n\nconst Answer = \"" + changed + "\"\n"
	return files
}

// ofGo is a command of the go tool with suitable limits.
func ofGo(t *testing.T, files map[string]string, cache GoCache, shell string) Command {
	t.Helper()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("go is not installed")
	}
	root := t.TempDir()
	sandboxtest.WriteFiles(t, root, files)
	return Command{Root: root, Shell: shell, GoCache: cache, Limits: Limits{
		Timeout: 3 * time.Minute, MemoryBytes: 2 << 30, Processes: 400, DiskBytes: 1 << 30, FileBytes: 512 << 20,
	}}
}

func filesIn(t *testing.T, dir, suffix string) (n int) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, suffix) {
			n++
		}
		return err
	}))
	return n
}

func TestWhatTheBaseHoldsIsNotCompiledAgain(t *testing.T) {
	t.Parallel()
	p := withToolchains(t, "")
	base := sandboxtest.RealDir(t)
	const build = "go build ./..."
	first := runCommand(t, p, ofGo(t, goProject("first"), GoCache{Dir: base}, build))
	require.True(t, first.OK(), "%s", first.Stderr)
	compiled := filesIn(t, base, "-entry")
	require.GreaterOrEqual(t, compiled, 20)
	before := sandboxtest.HashTree(t, base)

	layer := sandboxtest.RealDir(t)
	second := runCommand(t, p, ofGo(t, goProject("second"), GoCache{Base: base, Dir: layer}, build))
	require.True(t, second.OK(), "%s", second.Stderr)
	entries := filesIn(t, layer, "-entry")
	require.Positive(t, entries, "the change was not compiled")
	require.Less(t, entries, compiled/4, "what is unchanged was compiled again")
	require.Equal(t, before, sandboxtest.HashTree(t, base), "the base was changed")
}

func TestTheBaseCannotBeWritten(t *testing.T) {
	p := isolated(t)
	base, layer := sandboxtest.RealDir(t), sandboxtest.RealDir(t)
	sandboxtest.WriteFiles(t, base, map[string]string{"ab/ab00-entry": "true", "ab/ab00-output": "true"})
	before := sandboxtest.HashTree(t, base)
	res := runCommand(t, p, Command{GoCache: GoCache{Base: base, Dir: layer}, Shell: `
			set -- $GOCACHEPROG; base=$(eval echo "$3")
			cat $base/ab/ab00-entry || exit 9
			echo evil >$base/ab/ab00-output; rm -f $base/ab/ab00-entry; sandboxtest.Mkdir $base/cd; chmod 777 $base
			mv $base/ab $base/xy; ln -f $base/ab/ab00-output $GOCACHE/x && echo evil >$GOCACHE/x
			echo done`})
	require.Equal(t, "truedone\n", string(res.Stdout), "%s", res.Stderr)
	require.Equal(t, before, sandboxtest.HashTree(t, base))
}

func TestABaseThatIsNotThereYetIsNone(t *testing.T) {
	p := isolated(t)
	layer := sandboxtest.RealDir(t)
	res := runCommand(t, p, Command{GoCache: GoCache{Base: filepath.Join(layer, "not", "there"), Dir: layer}, Shell: "echo x >$GOCACHE/x"})
	require.True(t, res.OK(), "%s", res.Stderr)
	require.FileExists(t, filepath.Join(layer, "x"))
}

// talk sends lines to the program and returns its answers.
func talk(t *testing.T, c GoCache, lines ...string) string {
	t.Helper()
	var out strings.Builder
	err := serveGoCache(c, strings.NewReader(strings.Join(lines, "\n")+"\n"), &out)
	require.NoError(t, err)
	return out.String()
}

func TestTheGoCacheAnswersByTheProtocol(t *testing.T) {
	t.Parallel()
	c := GoCache{Dir: t.TempDir()}
	out := talk(t, c,
		`{"ID":1,"Command":"get","ActionID":"qrs="}`,
		`{"ID":2,"Command":"put","ActionID":"qrs=","OutputID":"zd0=","BodySize":5}`, `"aGVsbG8="`,
		`{"ID":3,"Command":"get","ActionID":"qrs="}`,
		`{"ID":4,"Command":"put","ActionID":"AAA=","OutputID":"AQE=","BodySize":0}`,
		`{"ID":5,"Command":"put","ActionID":"AAA=","OutputID":"AQE=","BodySize":9}`, `"aGVsbG8="`,
		`{"ID":6,"Command":"steal"}`,
		`{"ID":7,"Command":"close"}`, `{"ID":8,"Command":"get","ActionID":"qrs="}`)
	answers := strings.Split(strings.TrimSpace(out), "\n")
	require.Len(t, answers, 8, out)
	require.JSONEq(t, `{"ID":0,"KnownCommands":["get","put","close"]}`, answers[0])
	require.JSONEq(t, `{"ID":1,"Miss":true}`, answers[1])
	path := filepath.Join(c.Dir, "cd", "cddd-output")
	require.JSONEq(t, `{"ID":2,"DiskPath":"`+path+`"}`, answers[2])
	require.Contains(t, answers[3], `"OutputID":"zd0=","Size":5`)
	require.Contains(t, answers[3], path)
	require.NotContains(t, answers[4], "Err")
	require.Contains(t, answers[5], "got 5 bytes, expected 9")
	require.Contains(t, answers[6], "unknown command")
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "hello", string(content))
}

func TestADamagedEntryIsAMiss(t *testing.T) {
	t.Parallel()
	c := GoCache{Dir: t.TempDir()}
	sandboxtest.WriteFiles(t, c.Dir, map[string]string{
		"aa/aaaa-entry": "", "bb/bbbb-entry": "zz 1 1\n", "cc/cccc-entry": "cdcd 5 1\n", "cd/cdcd-output": "half",
	})
	for _, id := range []string{"qqo=", "u7s=", "zMw="} {
		require.Contains(t, talk(t, c, `{"ID":1,"Command":"get","ActionID":"`+id+`"}`), `{"ID":1,"Miss":true}`)
	}
}

func TestABrokenRequestEndsTheProgram(t *testing.T) {
	t.Parallel()
	for _, in := range []string{"{", `{"ID":1,"Command":"put","BodySize":3}` + "\n{"} {
		require.Error(t, serveGoCache(GoCache{Dir: t.TempDir()}, strings.NewReader(in), io.Discard))
	}
}
