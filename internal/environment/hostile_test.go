package environment

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/proc/proctest"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
)

// hostileFiles try to inject a command into the set-up wherever a name or a version of
// theirs is used in one.
const hostileFiles = `
-- package.json --
{"packageManager": "pnpm@9.0.0; touch /tmp/x $(touch pwned)", "dependencies": {"a": "1"}, "workspaces": ["$(touch pwned)"]}
-- pnpm-lock.yaml --
lockfileVersion: '9.0$(touch pwned)'
-- a;touch pwned/package.json --
{"dependencies": {"a": "1"}}
-- a;touch pwned/yarn.lock --
-- b$(touch pwned)/pyproject.toml --
[project]
name = "x; touch pwned"
[project.optional-dependencies]
test = ["pytest"]
"dev$(touch pwned)" = ["x"]
[dependency-groups]
"tests; touch pwned" = ["x"]
[tool.uv]
required-version = ">=0.1; touch pwned"
-- b$(touch pwned)/uv.lock --
-- c'd/requirements.txt --
x
-- c'd/tox.ini --
[testenv]
deps =
  pytest; touch pwned
  -r $(touch pwned).txt
  --index-url=https://evil.example
extras = $(touch pwned)
-- c'd/test_x.py --
-- .github/workflows/x.yml --
jobs:
  t:
    steps:
      - run: pip install 'x; touch pwned' -r "$(touch pwned)"
      - run: pytest
-- e` + "`touch pwned`" + `/go.mod --
module m
require a.b/c v1.0.0
-- f&touch pwned&/pom.xml --
<project/>
-- f&touch pwned&/g;touch pwned/pom.xml --
<project/>
-- h|touch pwned/Cargo.toml --
[package]
name = "x"
`

func TestNamesFromTheRepositoryRunNothing(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("bash is not installed")
	}
	root := checkout(t, hostileFiles)
	r, err := Find(root, Settings{}, worker, Facts{Version: "v1; touch pwned"})
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(r.Projects), 6)

	bin, log := t.TempDir(), filepath.Join(t.TempDir(), "log")
	for _, name := range []string{"npm", "pnpm", "yarn", "python3", "uv", "go", "mvn", "cargo", "rustc", "sed", "mkdir", "ln", "rm", "cp", "mktemp"} {
		script := "#!/bin/sh\nprintf '%s\\n' \"$0 $*\" >> " + log + "\n"
		proctest.WriteProgram(t, filepath.Join(bin, name), script)
	}
	marks := filepath.Join(t.TempDir(), "touched")
	proctest.WriteProgram(t, filepath.Join(bin, "touch"), "#!/bin/sh\n: > "+marks+"\n")
	for _, c := range r.Setup {
		for _, how := range []struct{ dir, shell string }{{filepath.Join(root.Name(), c.Dir), c.Shell}, {root.Name(), c.line()}} {
			cmd := exec.Command("/bin/bash", "-c", how.shell)
			cmd.Dir, cmd.Env = how.dir, []string{"PATH=" + bin}
			_ = cmd.Run() // pip is missing
		}
	}
	require.FileExists(t, log, "the commands ran")
	require.NoFileExists(t, marks, "a name of the repository was run")
	for _, host := range r.Hosts {
		require.NotContains(t, host, "evil")
	}
	text := strings.Join(r.lines(), "\n")
	require.NotContains(t, text, "evil")
	require.NotContains(t, text, "/tmp/x")
}

func TestAFileThatAToolChangesIsPutBack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "a b.lock")
	require.NoError(t, os.WriteFile(file, []byte("old"), 0o600))
	for _, c := range []struct {
		command string
		ok      bool
	}{{"echo new > 'a b.lock'", true}, {"echo new > 'a b.lock'; false", false}, {"rm 'a b.lock'; true", true}} {
		cmd := exec.Command("bash", "-c", firstSuccess("false", restoring("a b.lock", c.command)))
		cmd.Dir = dir
		require.Equal(t, c.ok, cmd.Run() == nil, c.command)
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, "old", string(text), c.command)
	}
}

func TestJavaUsesTheProxy(t *testing.T) {
	t.Parallel()
	for proxy, want := range map[string]string{
		"":                             "",
		"http://127.0.0.1:8080":        " -Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=8080 -Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=8080",
		"http://user:pass@proxy:3128/": " -Dhttp.proxyHost=proxy -Dhttp.proxyPort=3128 -Dhttps.proxyHost=proxy -Dhttps.proxyPort=3128",
		"http://[::1]:8080":            " -Dhttp.proxyHost=[::1] -Dhttp.proxyPort=8080 -Dhttps.proxyHost=[::1] -Dhttps.proxyPort=8080",
	} {
		cmd := exec.Command("bash", "-c", javaOnline+`printf %s "$JAVA_TOOL_OPTIONS"`)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HTTPS_PROXY=" + proxy}
		out, err := cmd.Output()
		require.NoError(t, err)
		require.Equal(t, want, string(out))
	}
}

func TestHugeAndTwistedRepositoriesAreBounded(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 200_000)
	var many strings.Builder
	for n := range 300 {
		fmt.Fprintf(&many, "-- p%d/go.mod --\nmodule m\nrequire a.b/c v1.0.0\n", n)
	}
	for name, files := range map[string]string{
		"deep TOML":       "-- pyproject.toml --\nx = " + deep + "\n",
		"deep JSON":       "-- package.json --\n{\"x\": " + deep + "\n",
		"deep YAML":       "-- package.json --\n{}\n-- pnpm-workspace.yaml --\npackages: " + deep + "\n",
		"aliases":         "-- .github/workflows/x.yml --\na: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b]\njobs: *c\n",
		"cycles":          "-- requirements.txt --\n-r requirements-dev.txt\n-r ../../etc/passwd\n-- requirements-dev.txt --\n-r requirements.txt\n-- pyproject.toml --\n[dependency-groups]\ntest = [{include-group='test'}]\n-- test_x.py --\n",
		"many projects":   many.String(),
		"huge file":       "-- package.json --\n" + strings.Repeat(" ", maxFile+1) + "{}\n",
		"many globs":      "-- package.json --\n{\"workspaces\": [\"" + strings.Repeat("**/", 500) + "x\", \"{a,{b,{c,d}}}\"]}\n-- " + strings.Repeat("a/", 100) + "package.json --\n{}\n",
		"long constraint": "-- package.json --\n{\"engines\": {\"node\": \"" + strings.Repeat(">=1 ", 5000) + "\"}}\n",
		"many hints":      "-- Makefile --\n" + strings.Repeat("\tpip install x\n", 10_000),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := find(t, files)
			require.LessOrEqual(t, len(r.Projects), maxProjects)
			require.LessOrEqual(t, len(r.Setup), maxCommands)
			require.LessOrEqual(t, len(r.Hints), maxHints)
		})
	}
}

func TestLinksAreNotFollowed(t *testing.T) {
	t.Parallel()
	root := checkout(t, "-- outside.json --\n{\"dependencies\": {\"a\": \"1\"}}\n")
	require.NoError(t, root.Symlink("outside.json", "package.json"))
	require.NoError(t, root.Symlink("/etc", "etc"))
	r, err := Find(root, Settings{}, worker, Facts{})
	require.NoError(t, err)
	require.Empty(t, r.Projects)
}

func FuzzFind(f *testing.F) {
	for _, name := range []string{"package.json", "pyproject.toml", "setup.cfg", "setup.py", "tox.ini", "noxfile.py", "requirements.txt", ".github/workflows/x.yml", "go.mod", "Cargo.toml", "pom.xml", "pnpm-workspace.yaml"} {
		f.Add(name, []byte("[project]\nname='x'\n"))
	}
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		if !filepath.IsLocal(name) || strings.ContainsAny(name, "\x00\\") || len(name) > 100 {
			return
		}
		dir := t.TempDir()
		p := filepath.Join(dir, name)
		if os.MkdirAll(filepath.Dir(p), 0o755) != nil || os.WriteFile(p, data, 0o600) != nil {
			return
		}
		root, err := os.OpenRoot(dir)
		require.NoError(t, err)
		defer root.Close()
		r, err := Find(root, Settings{}, worker, Facts{Version: string(data)})
		require.NoError(t, err)
		require.LessOrEqual(t, len(r.Setup), maxCommands)
	})
}

func FuzzSplitAndQuoteAgree(f *testing.F) {
	f.Add("a b", "c'd")
	f.Add("", "$(x)")
	f.Fuzz(func(t *testing.T, a, b string) {
		if a == "" || b == "" || strings.ContainsAny(a+b, "\x00'\\") {
			return
		}
		list, ok := split(sandbox.Quote(a, b))
		require.True(t, ok)
		require.Equal(t, []string{a, b}, list)
	})
}
