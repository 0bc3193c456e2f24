package workspace

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
)

// Each case of the properties here takes many git processes. -rapid.checks on the
// command line overrides this.
func init() { _ = flag.Set("rapid.checks", "15") }

func TestMain(m *testing.M) {
	sandbox.MaybeRunHelper()
	goleak.VerifyTestMain(m)
}

// dirBlobs is a blob store in a directory, as several hosts would share it.
type dirBlobs struct{ dir string }

func (b dirBlobs) Put(_ context.Context, content []byte) (string, error) {
	sum := sha256.Sum256(content)
	digest := hex.EncodeToString(sum[:])
	return "sha256:" + digest, os.WriteFile(filepath.Join(b.dir, digest), content, 0o600)
}

func (b dirBlobs) Get(_ context.Context, digest string) ([]byte, error) {
	name, ok := strings.CutPrefix(digest, "sha256:")
	if !ok {
		return nil, fmt.Errorf("bad digest %q", digest)
	}
	return os.ReadFile(filepath.Join(b.dir, name))
}

func newManager(t testing.TB, change ...func(*Options)) *Manager {
	t.Helper()
	options := Options{CacheDir: filepath.Join(t.TempDir(), "cache"), Blobs: dirBlobs{t.TempDir()}, MaxSpareDirs: 8}
	for _, f := range change {
		f(&options)
	}
	m, err := New(options)
	require.NoError(t, err)
	return m
}

// anotherHost is a manager that shares only the blobs with m.
func anotherHost(t testing.TB, m *Manager) *Manager {
	return newManager(t, func(o *Options) { o.Blobs = m.options.Blobs })
}

// userGit runs git as a user does, without our settings.
func userGit(t testing.TB, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C",
		"GIT_AUTHOR_NAME=User", "GIT_AUTHOR_EMAIL=user@example.com", "GIT_COMMITTER_NAME=User", "GIT_COMMITTER_EMAIL=user@example.com",
		"GIT_AUTHOR_DATE=1700000000 +0000", "GIT_COMMITTER_DATE=1700000000 +0000",
	}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "git %v: %s", args, out)
	return strings.TrimSpace(string(out))
}

func write(t testing.TB, dir, path, content string) {
	t.Helper()
	path = filepath.Join(dir, path)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
}

// newRepo makes a user's repository with one commit of the files.
func newRepo(t testing.TB, files map[string]string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	userGit(t, dir, "init", "-q", "-b", "main")
	for path, content := range files {
		write(t, dir, path, content)
	}
	userGit(t, dir, "add", "-A")
	userGit(t, dir, "commit", "-q", "--allow-empty", "-m", "first")
	return dir
}

// start resolves a repository's HEAD and returns the first workspace.
func start(t testing.TB, m *Manager, repo string) (contract.Repo, contract.Workspace) {
	t.Helper()
	r, _, err := m.Resolve(t.Context(), repo, "")
	require.NoError(t, err)
	ws, err := m.Start(t.Context(), r)
	require.NoError(t, err)
	return r, ws
}

// edit opens a workspace, lets f change the directory and saves.
func edit(t testing.TB, m *Manager, ws contract.Workspace, key string, f func(dir string)) contract.Workspace {
	t.Helper()
	d, err := m.Open(t.Context(), ws, key)
	require.NoError(t, err)
	defer d.Close()
	f(d.Path())
	after, err := d.Save(t.Context())
	require.NoError(t, err)
	return after
}

// snapshot returns everything below a directory: mode and content by path.
func snapshot(t testing.TB, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		require.NoError(t, err)
		rel, _ := filepath.Rel(dir, path)
		info, err := entry.Info()
		require.NoError(t, err)
		switch {
		case entry.IsDir():
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			require.NoError(t, err)
			files[rel] = "link " + target
		default:
			content, err := os.ReadFile(path)
			require.NoError(t, err)
			files[rel] = fmt.Sprintf("%o %s", info.Mode().Perm()&0o111, content)
		}
		return nil
	}))
	return files
}
