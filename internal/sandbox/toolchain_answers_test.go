package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/proc/proctest"
)

func TestToolchainsAreAskedAgainOnlyWhenTheyMayAnswerDifferently(t *testing.T) { //nolint:paralleltest // it changes the environment
	home, bin := t.TempDir(), t.TempDir()
	asked := filepath.Join(home, "asked")
	tool := func(version string) {
		script := "#!/bin/sh\necho x >>" + asked + "\necho " + version + "\n"
		proctest.WriteProgram(t, filepath.Join(bin, "mvn"), script)
	}
	t.Setenv("HOME", home)
	t.Setenv("XDG_CACHE_HOME", filepath.Join(home, "cache"))
	t.Setenv("PATH", bin)
	tool("1.2.3")
	version := func() string {
		a := loadAnswers()
		out := a.askAll("mvn", "--version")
		a.save()
		return strings.TrimSpace(string(out))
	}
	times := func() int {
		data, err := os.ReadFile(asked)
		require.NoError(t, err)
		return strings.Count(string(data), "x")
	}

	require.Equal(t, "1.2.3", version())
	require.Equal(t, "1.2.3", version())
	require.Equal(t, 1, times(), "the second answer is the stored one")

	t.Setenv("JAVA_HOME", "/opt/other")
	version()
	require.Equal(t, 2, times(), "another environment")

	require.NoError(t, os.MkdirAll(filepath.Join(home, ".pyenv"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(home, ".pyenv", "version"), []byte("3.12\n"), 0o600))
	version()
	require.Equal(t, 3, times(), "another choice of a version manager")

	tool("1.2.40")
	require.Equal(t, "1.2.40", version())
	require.Equal(t, 4, times(), "another program")

	a := loadAnswers()
	for key, x := range a.known {
		x.At = x.At.Add(-answersTime - time.Second)
		a.known[key], a.added = x, true
	}
	a.save()
	version()
	require.Equal(t, 5, times(), "the answer is too old")

	require.NoError(t, os.WriteFile(a.file, []byte("{damaged"), 0o600))
	require.Equal(t, "1.2.40", version())
	require.Equal(t, 6, times(), "a damaged file is replaced")
	version()
	require.Equal(t, 6, times())

	proctest.WriteProgram(t, filepath.Join(bin, "mvn"), "#!/bin/sh\necho x >>"+asked+"\nexit 1\n")
	require.Empty(t, version())
	require.Empty(t, version())
	require.Equal(t, 8, times(), "a failure is no answer")
}
