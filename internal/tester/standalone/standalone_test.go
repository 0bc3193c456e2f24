package standalone

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/proxy"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
	"github.com/rocketgpt/orchestrator/internal/sandbox/sandboxtest"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/tester"
	"github.com/rocketgpt/orchestrator/internal/workspace"
)

func TestMain(m *testing.M) {
	sandbox.MaybeRunHelper()
	goleak.VerifyTestMain(m)
}

// quiet is a progress that nobody sees.
type quiet struct{}

func (quiet) Begin(Report)                        {}
func (quiet) Note(string)                         {}
func (quiet) SettingUp(bool, string)              {}
func (quiet) Ready(bool, Environment)             {}
func (quiet) Started(bool, contract.Check)        {}
func (quiet) Finished(bool, contract.CheckResult) {}
func (quiet) Output([]byte)                       {}

// newRepo makes a repository with one commit of the files.
func newRepo(t *testing.T, files map[string]string) string {
	t.Helper()
	sandboxtest.Executable(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	git(t, dir, "init", "-q", "-b", "main")
	git(t, dir, "add", "-A")
	git(t, dir, "commit", "-qm", "First")
	return dir
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.com"}, args...)...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return strings.TrimSpace(string(out))
}

func options(t *testing.T, repo string) Options {
	t.Helper()
	cfg := config.Default()
	cfg.Verification.Security.Enabled = config.Off
	return Options{Config: cfg, Repo: repo, DataDir: t.TempDir(), Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Progress: quiet{}}
}

// publicly resolves all names to a public address.
type publicly struct{}

func (publicly) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("203.0.114.7")}, nil
}

func TestASetupThatCannotReachAHostIsTriedAgain(t *testing.T) {
	t.Parallel()
	registry := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "from the registry") }))
	t.Cleanup(registry.Close)
	var dialled atomic.Int64
	outlet, err := proxy.New(proxy.Options{Resolver: publicly{}, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		if dialled.Add(1) == 1 {
			return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
		}
		return new(net.Dialer).DialContext(ctx, network, registry.Listener.Addr().String())
	}})
	require.NoError(t, err)
	o := options(t, newRepo(t, map[string]string{"Makefile": "test:\n\t@grep -q yes made.out\n"}))
	o.Config.Environment.Network.Hosts = []string{"registry.test:80"}
	o.Config.Environment.Setup = []string{`bash -c 'exec 3<>/dev/tcp/127.0.0.1/3128
printf "GET http://registry.test/ HTTP/1.0\r\nHost: registry.test\r\n\r\n" >&3
grep -q "from the registry" <&3 && echo yes > made.out'`}
	v := newVerification(o)
	require.NoError(t, v.open(t.Context()))
	defer v.close(t.Context())
	v.host.Proxy = outlet
	require.NoError(t, v.plan(t.Context()))
	require.NoError(t, v.verify(t.Context()))
	require.True(t, v.report.OK, "%+v", v.report.Failure)
	require.Len(t, v.report.Notes, 1)
	require.Contains(t, v.report.Notes[0], "registry.test could not be reached: dial: connection refused; trying again")
}

// watched is a progress that records environments.
type watched struct {
	quiet
	kept map[string]bool // by "base" and "tree"
}

func (w watched) Ready(base bool, e Environment) {
	w.kept[map[bool]string{true: "base", false: "tree"}[base]] = e.Kept
}

func TestEnvironmentsAreUsedAgainByThoseThatMayTrustThem(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"boot.sh": "echo one > made.out\n", "Makefile": "test:\n\t@cat made.out\n"})
	o := options(t, repo)
	o.Config.Environment.Setup = []string{"sh boot.sh"}
	verify := func(commit, base string) map[string]bool {
		t.Helper()
		w := watched{kept: map[string]bool{}}
		o.Commit, o.Base, o.Progress = commit, base, w
		r, err := Verify(t.Context(), o)
		require.NoError(t, err)
		require.True(t, r.OK, "%+v", r.Failure)
		return w.kept
	}
	write := func(name, text string) {
		t.Helper()
		require.NoError(t, os.WriteFile(filepath.Join(repo, name), []byte(text), 0o644))
	}
	made, kept := map[string]bool{"tree": false}, map[string]bool{"tree": true}
	require.Equal(t, made, verify("", ""))
	write("unrelated.txt", "changed")
	require.Equal(t, kept, verify("", ""))
	git(t, repo, "add", "-A")
	git(t, repo, "commit", "-qm", "Unrelated")
	require.Equal(t, kept, verify("", ""), "the work tree is the user's, whatever is checked out")
	write("unrelated.txt", "changed again")
	require.Equal(t, map[string]bool{"base": false, "tree": true}, verify("", "HEAD"),
		"a commit must not get what a work tree made, because a setup runs any code; the change needs the environment of its base")
	require.Equal(t, kept, verify("HEAD", ""))
	require.Equal(t, made, verify("HEAD~", ""), "nor what another commit made")
	write("boot.sh", "echo two > made.out\n")
	require.Equal(t, map[string]bool{"base": true, "tree": false}, verify("", "HEAD"))
	require.Equal(t, map[string]bool{"base": true, "tree": true}, verify("", "HEAD"))
	require.Equal(t, made, verify("", ""), "what a change made is for changes of that base")
}

func TestAChangeWhoseSetupFailsFailsItsChecks(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"boot.sh": "true\n", "Makefile": "test:\n\t@true\n"})
	o := options(t, repo)
	o.Config.Environment.Setup, o.Base = []string{"sh boot.sh"}, "HEAD"
	require.NoError(t, os.WriteFile(filepath.Join(repo, "boot.sh"), []byte("echo no such package; exit 1\n"), 0o644))
	r, err := Verify(t.Context(), o)
	require.NoError(t, err)
	require.False(t, r.OK)
	require.True(t, r.Judged(), "the base can be set up, so the change is at fault")
	require.Contains(t, r.Failure.Message, "the environment that the change needs could not be set up")
	o.Base = ""
	r, err = Verify(t.Context(), o)
	require.NoError(t, err)
	require.False(t, r.Judged())
	require.Contains(t, r.Failure.Cause, "no such package")
	require.Contains(t, r.Advice, "--env FILE")
}

func TestStableRetestsRepeatPassedTests(t *testing.T) {
	t.Parallel()
	o := options(t, newRepo(t, map[string]string{"Makefile": "test:\n\t@true\n"}))
	o.Config.Execution.StableRetests = 2
	r, err := Verify(t.Context(), o)
	require.NoError(t, err)
	require.True(t, r.OK)
	var ids []string
	for _, c := range r.Checks {
		ids = append(ids, c.Check.ID)
	}
	require.Equal(t, []string{"test-make-1", "test-make-1~2", "test-make-1~3"}, ids)
	require.Equal(t, 1, r.Summary.Passed, "a repetition is no other test")
}

// spares are the directories that later checks can use.
func spares(t *testing.T, data string) []string {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(data, "cache", "spares", "*", "*"))
	require.NoError(t, err)
	return dirs
}

// keeping returns an open verification that keeps the directories of checks, as workers do, and the task
// of the repository's only check.
func keeping(t *testing.T, files map[string]string) (*verification, tester.Task) {
	t.Helper()
	o := options(t, newRepo(t, files))
	o.DataDir = sandboxtest.DiskDir(t)
	v := newVerification(o)
	require.NoError(t, v.open(t.Context()))
	t.Cleanup(func() { v.close(context.WithoutCancel(t.Context())) })
	require.NoError(t, v.openSandbox(t.Context()))
	var err error
	v.host.Workspaces, err = setup.Workspaces(o.Config, o.DataDir, v.patches, func(o *workspace.Options) { o.MaxSpareDirs = 8 })
	require.NoError(t, err)
	task := v.task(contract.Check{ID: "test-make-1", Category: contract.CategoryTest, Name: "make"}, false)
	task.Environment = func(context.Context, contract.Workspace, string) (*tester.CommandEnv, error) {
		return &tester.CommandEnv{}, nil
	}
	task.Keep = func(context.Context, tester.Files) error { return nil }
	return v, task
}

func TestChecksUseOneDirectoryOneAfterTheOtherAndEachFindsItClean(t *testing.T) {
	t.Parallel()
	v, task := keeping(t, map[string]string{
		"data.txt": "one\n", "Makefile": "test:\n\t@grep -qx one data.txt && ! test -e left && ! test -e .git\n\t@echo two >data.txt && touch -d yesterday data.txt && mkfifo left\n",
	})
	var git int64
	for i := range 3 {
		_, result, err := v.host.Check(t.Context(), task)
		require.NoError(t, err)
		require.True(t, result.OK, "%v", result)
		require.Len(t, spares(t, v.DataDir), 1)
		if i == 0 {
			git = v.host.Workspaces.GitProcesses()
		}
	}
	require.Equal(t, git, v.host.Workspaces.GitProcesses())
}

func TestTheDirectoryOfACheckIsOnlyKeptIfItsCommandsHaveEndedAndAreTraceable(t *testing.T) {
	t.Parallel()
	v, task := keeping(t, map[string]string{"Makefile": "test:\n\t@true\n"})
	failed, keep := errors.New("nothing was stored"), task.Keep
	task.Keep = func(context.Context, tester.Files) error { return failed }
	_, _, err := v.host.Check(t.Context(), task)
	require.ErrorIs(t, err, failed)
	require.Empty(t, spares(t, v.DataDir))
	task.Keep = keep
	traceable := v.host.Sandbox
	v.host.Sandbox = struct{ sandbox.Runner }{traceable} // as one without namespaces
	_, result, err := v.host.Check(t.Context(), task)
	require.NoError(t, err)
	require.True(t, result.OK, "%v", result)
	require.Empty(t, spares(t, v.DataDir))
	v.host.Sandbox = traceable
	_, _, err = v.host.Check(t.Context(), task)
	require.NoError(t, err)
	require.Len(t, spares(t, v.DataDir), 1)
}

func TestWithoutAMergeBaseTheBaseItselfCounts(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"Makefile": "test:\n\t@true\n"})
	git(t, repo, "commit", "-qm", "Second", "--allow-empty")
	clone := filepath.Join(t.TempDir(), "clone")
	git(t, repo, "clone", "-q", "--depth=1", "file://"+repo, clone)
	first := git(t, repo, "rev-parse", "HEAD~")
	git(t, clone, "fetch", "-q", "--depth=1", "origin", first)
	o := options(t, clone)
	o.Base = first
	r, err := Verify(t.Context(), o)
	require.NoError(t, err)
	require.True(t, r.OK)
	require.Equal(t, first, r.Base)
	require.Len(t, r.Notes, 1)
	require.Contains(t, r.Notes[0], "no known common ancestor")
}

func TestKeptFilesAreBounded(t *testing.T) {
	t.Parallel()
	k, err := openKeeper(filepath.Join(t.TempDir(), "new", "kept"), 100)
	require.NoError(t, err)
	defer k.close()
	require.NoError(t, k.reserve("a/b", 100))
	require.ErrorContains(t, k.reserve("c", 101), "artifacts.max_file")
	for _, name := range []string{"../c", "/c", "a/../../c", ""} {
		require.ErrorContains(t, k.reserve(name, 1), "is not the name of a file", name)
	}
	k.bytes = KeptBytes - 10
	require.NoError(t, k.reserve("d", 10))
	require.ErrorContains(t, k.reserve("e", 1), "would be kept")
	require.Equal(t, []string{"a/b", "d"}, k.list())
}

func TestCachesAreSweptOnceADay(t *testing.T) {
	t.Parallel()
	o := options(t, newRepo(t, map[string]string{"Makefile": "test:\n\t@true\n"}))
	cache := filepath.Join(o.DataDir, "cache")
	layer, checkout, ofRun := filepath.Join(cache, "build", "runs", "-7"), filepath.Join(cache, "dirs", "verify-x+plan"), filepath.Join(cache, "dirs", "42+plan")
	verify := func(age time.Duration) {
		t.Helper()
		for _, dir := range []string{layer, checkout, ofRun} {
			require.NoError(t, os.MkdirAll(dir, 0o700))
			then := time.Now().Add(-age)
			require.NoError(t, os.Chtimes(dir, then, then))
		}
		_, err := Verify(t.Context(), o)
		require.NoError(t, err)
	}
	verify(2 * o.Config.Execution.Sandbox.CacheAge)
	require.NoDirExists(t, layer, "what a killed verification left")
	require.NoDirExists(t, checkout)
	verify(2 * o.Config.Execution.Sandbox.CacheAge)
	require.DirExists(t, layer, "it was looked for just now")
	sweepAgain := func() {
		t.Helper()
		old := time.Now().Add(-2 * sweepEvery)
		require.NoError(t, os.Chtimes(filepath.Join(cache, "swept"), old, old))
	}
	sweepAgain()
	verify(2 * sweepEvery)
	require.NoDirExists(t, checkout)
	require.DirExists(t, ofRun, "only the database knows whether a run has ended")
	sweepAgain()
	verify(0)
	require.DirExists(t, checkout, "it may belong to a verification in progress")
}

func TestAVerdictNeedsAFailureThatIsCertain(t *testing.T) {
	t.Parallel()
	missing := &contract.Failure{Class: contract.ClassConfig, Code: contract.CodeMissing}
	check := func(code contract.Code) contract.CheckResult {
		return contract.CheckResult{Check: contract.Check{Category: contract.CategoryTest}, Code: code}
	}
	for _, c := range []struct {
		r      Report
		judged bool
	}{
		{Report{}, true},
		{Report{Failure: &contract.Failure{Class: contract.ClassAssertion, Code: contract.CodeTestsFailed}}, true},
		{Report{Failure: &contract.Failure{Class: contract.ClassRuntime, Code: contract.CodeTimeout}}, true},
		{Report{Failure: missing}, false},
		{Report{Failure: missing, Checks: []contract.CheckResult{check(contract.CodeMissing)}}, false},
		{Report{Failure: missing, Checks: []contract.CheckResult{check(contract.CodeMissing), check(contract.CodeTestsFailed)}}, true},
		{Report{Failure: &contract.Failure{Class: contract.ClassConfig, Code: contract.CodeCheckFailed}}, false}, // a setup
	} {
		require.Equal(t, c.judged, c.r.Judged(), "%+v", c.r)
	}
}

func TestAnUnusableDataFolderIsReported(t *testing.T) {
	t.Parallel()
	o := options(t, newRepo(t, map[string]string{"Makefile": "test:\n\t@true\n"}))
	o.DataDir = filepath.Join(o.Repo, "Makefile")
	_, err := Verify(t.Context(), o)
	require.Error(t, err)
	require.NotErrorAs(t, err, new(*Unjudged))
}

func TestTheCoverageOfTheChangedLinesIsReported(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"go.mod": "module example.com/m\n\ngo 1.24\n", "m.go": "package m\n\nfunc Half(n int) int {\n\treturn n / 2\n}\n",
		"m_test.go": "package m\n\nimport \"testing\"\n\nfunc TestHalf(t *testing.T) {\n\tif Half(4) != 2 {\n\t\tt.Fatal()\n\t}\n}\n",
	}
	o := options(t, newRepo(t, files))
	o.Base, o.Only = "HEAD", []string{"test-go-1"}
	o.Config.Verification.Coverage = "off"
	changed := files["m.go"] + "\nfunc Double(n int) int {\n\treturn 2 * n\n}\n"
	require.NoError(t, os.WriteFile(filepath.Join(o.Repo, "m.go"), []byte(changed), 0o644))
	r, err := Verify(t.Context(), o)
	require.NoError(t, err)
	require.Nil(t, r.Coverage)
	before := compiled(t, o.DataDir)
	o.Config.Verification.Coverage = "auto"
	r, err = Verify(t.Context(), o)
	require.NoError(t, err)
	require.True(t, r.OK, "%+v", r.Failure)
	require.NotNil(t, r.Coverage)
	require.Equal(t, "Coverage of the changed lines: 0 % (0 of 2); was 100 % overall, is 50 %", r.Coverage.Summary())
	require.Equal(t, []contract.LineRange{{First: 7, Last: 8}}, r.Coverage.Changed.Files[0].Missed)
	require.Zero(t, r.Major+r.Medium+r.Minor, "coverage must not add findings")
	require.Greater(t, compiled(t, o.DataDir), before, "what coverage compiles differently is also kept for the next check")
}

// compiled counts the files that the build caches keep of base commits.
func compiled(t *testing.T, data string) (n int) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(filepath.Join(data, "cache", "build", "repos"), func(_ string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			n++
		}
		return err
	}))
	return n
}
