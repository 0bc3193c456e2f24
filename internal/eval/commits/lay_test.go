package commits_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rocketgpt/orchestrator/internal/eval/commits"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// repository is a repository with a work tree.
type repository struct {
	t   *testing.T
	dir string
}

func newRepository(t *testing.T) repository {
	t.Helper()
	r := repository{t, t.TempDir()}
	r.git("init", "-q", "-b", "main")
	return r
}

func (r repository) git(args ...string) string {
	r.t.Helper()
	cmd := exec.CommandContext(r.t.Context(), "git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.com"}, args...)...)
	cmd.Dir = r.dir
	out, err := cmd.CombinedOutput()
	require.NoError(r.t, err, string(out))
	return strings.TrimSpace(string(out))
}

// commit writes files, "" deletes one, and commits them.
func (r repository) commit(files map[string]string) string {
	r.t.Helper()
	for name, text := range files {
		path := filepath.Join(r.dir, name)
		if text == "" {
			require.NoError(r.t, os.Remove(path))
			continue
		}
		require.NoError(r.t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(r.t, os.WriteFile(path, []byte(text), 0o644))
	}
	r.git("add", "-A")
	r.git("commit", "-qm", "Change")
	return r.git("rev-parse", "HEAD")
}

func (r repository) show(commit, path string) string {
	r.t.Helper()
	return r.git("show", commit+":"+path)
}

func TestATruncatedRepositoryEndsAtItsCommit(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	base := r.commit(map[string]string{"a": "1\n"})
	later := r.commit(map[string]string{"a": "2\n"})
	r.git("tag", "later")
	dir := filepath.Join(t.TempDir(), "cut")
	require.NoError(t, commits.Truncate(t.Context(), r.dir, base, dir))
	require.NoError(t, commits.Copy(t.Context(), dir, dir+"-copy"))
	for _, d := range []string{dir, dir + "-copy"} {
		cut := repository{t, d}
		require.Equal(t, base, cut.git("rev-parse", "HEAD"))
		require.Empty(t, cut.git("tag"))
		require.NotContains(t, cut.git("cat-file", "--batch-all-objects", "--batch-check"), later)
	}
}

func TestHiddenTestsReplaceWhatAnAgentMadeOfTheirFiles(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	base := r.commit(map[string]string{"a.py": "def a(): pass\n", "tests/test_a.py": "old test\n", "tests/gone.py": "x\n"})
	solution := r.commit(map[string]string{"a.py": "def a(): return 1\n", "tests/test_a.py": "hidden test\n", "tests/test_new.py": "hidden too\n", "tests/gone.py": ""})
	tests, err := commits.Patch(t.Context(), r.dir, base, solution, commits.IsTest)
	require.NoError(t, err)
	require.NotContains(t, tests, "return 1")
	r.git("checkout", "-q", base)
	agent := r.commit(map[string]string{"a.py": "def a(): return 2\n", "tests/test_a.py": "weakened\n", "tests/test_new.py": "mine\n", "tests/other.py": "kept\n"})
	laid, err := commits.Lay(t.Context(), r.dir, agent, base, tests)
	require.NoError(t, err)
	require.Equal(t, "hidden test", r.show(laid, "tests/test_a.py"))
	require.Equal(t, "hidden too", r.show(laid, "tests/test_new.py"))
	require.Equal(t, "def a(): return 2", r.show(laid, "a.py"))
	require.Equal(t, "kept", r.show(laid, "tests/other.py"))
	require.NotContains(t, r.git("ls-tree", "-r", "--name-only", laid), "gone.py")
	again, err := commits.Lay(t.Context(), r.dir, agent, base, tests)
	require.NoError(t, err)
	require.Equal(t, laid, again)
	require.Equal(t, agent, r.git("rev-parse", "HEAD"))
}

func TestAMistakeHasOnlyTheTestsAndCanBeFixed(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	base := r.commit(map[string]string{"a.py": "one\n", "tests/test_a.py": "t\n", "b.py": "x\n"})
	right := r.commit(map[string]string{"a.py": "ONE\n", "tests/test_a.py": "test\n", "b.py": "y\n", "new.py": "z\n"})
	tests, err := commits.Patch(t.Context(), r.dir, base, right, commits.IsTest)
	require.NoError(t, err)
	m, err := commits.MakeMistake(t.Context(), r.dir, base, right, tests)
	require.NoError(t, err)
	require.Equal(t, "one", r.show(m.Wrong, "a.py"))
	require.Equal(t, "x", r.show(m.Wrong, "b.py"))
	require.Equal(t, "test", r.show(m.Wrong, "tests/test_a.py"))
	require.NotContains(t, r.git("ls-tree", "-r", "--name-only", m.Wrong), "new.py")
	require.Equal(t, r.git("rev-parse", right+"^{tree}"), r.git("rev-parse", m.Fix+"^{tree}"))
	require.Equal(t, m.Wrong, r.git("rev-parse", m.Fix+"^"))

	onlyTests := r.commit(map[string]string{"tests/test_a.py": "u\n"})
	tests, err = commits.Patch(t.Context(), r.dir, right, onlyTests, commits.IsTest)
	require.NoError(t, err)
	var u *commits.Unplayable
	_, err = commits.MakeMistake(t.Context(), r.dir, right, onlyTests, tests)
	require.ErrorAs(t, err, &u)
	_, err = commits.MakeMistake(t.Context(), r.dir, base, right, "")
	require.ErrorAs(t, err, &u)
}
