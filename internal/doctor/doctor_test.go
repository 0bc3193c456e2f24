package doctor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rocketgpt/orchestrator/internal/sandbox"
)

func TestToolchainsAreListedWithThoseThatAreRefused(t *testing.T) {
	t.Parallel()
	got := Toolchains(func() sandbox.Toolchains {
		return sandbox.Toolchains{Found: []string{"go 1.26 at /usr/local/go"}, Refused: []string{"node: it lies in a home folder"}}
	}).Run(t.Context())
	require.Equal(t, []Status{OK, Warn}, []Status{got[0].Status, got[1].Status})
	require.Contains(t, got[1].Message, "node: it lies in a home folder")
	require.Equal(t, Warn, Toolchains(func() sandbox.Toolchains { return sandbox.Toolchains{} }).Run(t.Context())[0].Status)
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestACheckThatHangsFailsAndHoldsUpNothing(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	hangs := Check{Name: "hangs", Run: func(context.Context) []Result { <-release; return nil }}
	late := Check{Name: "late", Run: func(ctx context.Context) []Result {
		<-ctx.Done()
		return Failed("it was asked, and did not answer", "start it")
	}}
	well := Check{Name: "well", Run: func(context.Context) []Result { return append(Passed("yes"), Result{Check: "more", Status: Warn}) }}
	began := time.Now()
	results := Run(t.Context(), 100*time.Millisecond, hangs, late, well)
	close(release)
	require.Less(t, time.Since(began), 5*time.Second)
	require.Equal(t, []string{"hangs", "late", "well", "more"}, []string{results[0].Check, results[1].Check, results[2].Check, results[3].Check})
	require.Equal(t, []Status{Fail, Fail, OK, Warn}, []Status{results[0].Status, results[1].Status, results[2].Status, results[3].Status})
	require.Equal(t, "it was asked, and did not answer", results[1].Message, "what a check says itself is worth more")
	require.True(t, Failing(results))
	require.False(t, Failing(results[2:]), "a warning is no failure")
}

func TestGitMustBeNewEnough(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]Status{
		"git version 2.39.5": OK, "git version 2.38.0": OK, "git version 3.0.1": OK, "git version 2.50.1 (Apple Git-155)": OK, "git version 2.45.1.windows.1": OK,
		"git version 2.37.9": Fail, "git version 1.99.0": Fail, "": Warn, "something else": Warn,
	} {
		require.Equal(t, want, judgeGit(said)[0].Status, said)
	}
}

func TestAUserWithoutANameIsSaidToKeepInitdbFromWorking(t *testing.T) {
	t.Parallel()
	require.Empty(t, account(t.Context(), 65534), "nobody is known")
	results := account(t.Context(), 4_000_123)
	require.Len(t, results, 1)
	require.Equal(t, Fail, results[0].Status)
	require.Contains(t, results[0].Message, "4000123")
	require.Contains(t, results[0].Remedy, "/etc/passwd")
}

func TestClocksMayDifferByWhatTheQuestionTook(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		difference, took time.Duration
		want             Status
	}{
		{0, 0, OK}, {time.Second, 0, OK}, {3 * time.Second, 0, Warn}, {3 * time.Second, 4 * time.Second, OK}, {2 * time.Minute, time.Second, Fail},
	} {
		require.Equal(t, c.want, judgeClock(c.difference, c.took)[0].Status, "%v", c)
	}
}

func TestTheDataFolderMustBeWritable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	check := func(dir string) Result { return DataFolder(dir).Run(t.Context())[0] }
	require.NotEqual(t, Fail, check(dir).Status)
	r := check(filepath.Join(dir, "a", "b"))
	require.NotEqual(t, Fail, r.Status, "it can be made")
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.Equal(t, Fail, check(file).Status)
	require.Equal(t, Fail, check("/proc/nothing").Status)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1, "the check leaves nothing behind")
}

func TestWhatTheSandboxLacksIsNamedWithItsRemedy(t *testing.T) {
	t.Parallel()
	lacks := func(context.Context) (Isolation, error) {
		return nil, &sandbox.IsolationError{Missing: []sandbox.Feature{{Name: "network", Detail: "no user namespaces", Fix: "sysctl kernel.unprivileged_userns_clone=1"}}}
	}
	results := Sandbox("bubblewrap", lacks, false).Run(t.Context())
	require.Equal(t, []Result{{Check: "sandbox: network", Status: Fail, Message: "missing: no user namespaces", Remedy: "sysctl kernel.unprivileged_userns_clone=1"}}, results)
	results = Sandbox("bubblewrap", func(context.Context) (Isolation, error) { return nil, errors.New("strange") }, false).Run(t.Context())
	require.Equal(t, Fail, results[0].Status)
}

func TestABrowserIsOptional(t *testing.T) {
	t.Parallel()
	check := func(file string) Result { return Chromium(func(string) string { return file }).Run(t.Context())[0] }
	require.NotEqual(t, Fail, check("").Status)
	require.Equal(t, Warn, check("/nothing/chromium").Status)
	require.Equal(t, OK, check("/bin/sh").Status)
}

func TestBuildsOfImagesAreTriedOnlyIfTheyAreEnabled(t *testing.T) {
	t.Parallel()
	fails := func(context.Context) error { return errors.New("no engine") }
	works := func(context.Context) error { return nil }
	require.Equal(t, OK, ImageBuilds(false, nil, fails).Run(t.Context())[0].Status)
	require.Equal(t, Fail, ImageBuilds(true, []string{"a"}, fails).Run(t.Context())[0].Status)
	require.Equal(t, OK, ImageBuilds(true, []string{"a"}, works).Run(t.Context())[0].Status)
	require.Equal(t, Warn, ImageBuilds(true, nil, works).Run(t.Context())[0].Status)
}
