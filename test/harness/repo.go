package harness

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Git runs git in a directory and returns its output.
func Git(tb testing.TB, dir string, args ...string) string {
	tb.Helper()
	cmd := exec.CommandContext(tb.Context(), "git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=Test", "GIT_AUTHOR_EMAIL=test@localhost", "GIT_COMMITTER_NAME=Test", "GIT_COMMITTER_EMAIL=test@localhost")
	out, err := cmd.CombinedOutput()
	require.NoError(tb, err, "git %s: %s", strings.Join(args, " "), out)
	return strings.TrimSpace(string(out))
}

// Repo creates a repository with the given files in one commit, on the branch main.
func Repo(tb testing.TB, dir string, files map[string]string) string {
	tb.Helper()
	WriteFiles(tb, dir, files)
	Git(tb, dir, "init", "--quiet", "--initial-branch", "main")
	Git(tb, dir, "add", "--all")
	Git(tb, dir, "commit", "--quiet", "--message", "Start")
	return dir
}

// WriteFiles writes files; *.sh files are executable.
func WriteFiles(tb testing.TB, dir string, files map[string]string) {
	tb.Helper()
	for name, text := range files {
		file := filepath.Join(dir, name)
		require.NoError(tb, os.MkdirAll(filepath.Dir(file), 0o755))
		mode := os.FileMode(0o644)
		if strings.HasSuffix(name, ".sh") {
			mode = 0o755
		}
		require.NoError(tb, os.WriteFile(file, []byte(text), mode))
	}
}

// ShellRepo creates a repository whose verification is a shell script, so a run's duration is
// mostly orchestration.
func ShellRepo(tb testing.TB, dir string) string {
	tb.Helper()
	return Repo(tb, dir, map[string]string{
		"README.md": "A sample.\n",
		"notes.txt": "one\ntwo\nthree\n",
		"test.sh":   "#!/bin/sh\n# every text file ends with a full line\nfor f in *.txt; do\n  [ -s \"$f\" ] || { echo \"$f is empty\"; exit 1; }\ndone\necho ok\n",
		"rgpt.yaml": "verification:\n  auto_detect: false\n  test:\n    command: ./test.sh\n    format: exit-code\n",
	})
}

// SampleRepo creates a sample repository of the examples.
func SampleRepo(tb testing.TB, kind, dir string) string {
	tb.Helper()
	out, err := exec.CommandContext(tb.Context(), filepath.Join(Root(), "examples", "make-sample.sh"), kind, dir).CombinedOutput()
	require.NoError(tb, err, "%s", out)
	return dir
}
