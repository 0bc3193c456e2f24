package browser

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// playwright is what drives the browser.
type playwright struct {
	node, chromium, modules string
}

// wanted says that tests in a browser must run. Without it they are skipped
// where something is missing, and say what.
func wanted() bool { return os.Getenv("RGPT_BROWSER") == "1" }

// find returns what the tests need, or skips them and says what is missing.
func find(t *testing.T) playwright {
	t.Helper()
	p, err := found()
	if err != nil && wanted() {
		require.NoError(t, err)
	}
	if err != nil {
		t.Skipf("%v; RGPT_BROWSER=1 makes this a failure", err)
	}
	return p
}

var found = sync.OnceValues(func() (p playwright, err error) {
	if p.node, err = exec.LookPath("node"); err != nil {
		return p, errors.New("there is no Node; tests in a browser need Node 20 or newer with npm")
	}
	if p.chromium, err = chromium(); err != nil {
		return p, err
	}
	p.modules, err = packages()
	return p, err
})

// chromium finds a browser: RGPT_CHROMIUM, else an installed one.
func chromium() (string, error) {
	if named := os.Getenv("RGPT_CHROMIUM"); named != "" {
		return named, nil
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("no Chromium is installed, which tests in a browser need (apt-get install chromium, or RGPT_CHROMIUM)")
}

// packages installs the packages of the lock file once, into a cache folder that
// is named by it, and returns their folder. Of several processes that do it at
// the same time one is first, and its folder counts.
func packages() (string, error) {
	var files [][]byte
	hash := sha256.New()
	names := []string{"package.json", "package-lock.json"}
	for _, name := range names {
		content, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		files = append(files, content)
		fmt.Fprintf(hash, "%d\n%s", len(content), content)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a cache folder for the packages: %w", err)
	}
	folder := filepath.Join(cache, "rgpt", "browser-packages", fmt.Sprintf("%x", hash.Sum(nil)[:6]))
	modules := filepath.Join(folder, "node_modules")
	if _, err := os.Stat(modules); err == nil {
		return modules, nil
	}
	if err := os.MkdirAll(filepath.Dir(folder), 0o755); err != nil {
		return "", err
	}
	fresh, err := os.MkdirTemp(filepath.Dir(folder), "new-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(fresh)
	for i, name := range names {
		if err := os.WriteFile(filepath.Join(fresh, name), files[i], 0o600); err != nil {
			return "", err
		}
	}
	install := exec.Command("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
	install.Dir = fresh
	// The browser comes from the system: nothing that npm runs downloads one.
	install.Env = append(os.Environ(), "PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1")
	if out, err := install.CombinedOutput(); err != nil {
		return "", fmt.Errorf("the packages of the tests in a browser could not be installed (npm ci): %w\n%s", err, out)
	}
	if err := os.Rename(fresh, folder); err != nil {
		if _, there := os.Stat(modules); there != nil {
			return "", fmt.Errorf("keep the packages in %s: %w", folder, err)
		}
	}
	return modules, nil
}

// workspace copies the specs into a folder of their own, beside the packages:
// nothing is written into the repository. It stays when the tests are red.
func (p playwright) workspace(t *testing.T) string {
	t.Helper()
	work, err := os.MkdirTemp("", "rgpt-browser-") //nolint:usetesting // that of a red test stays
	require.NoError(t, err)
	for _, part := range []string{"specs", "lib"} {
		require.NoError(t, os.CopyFS(filepath.Join(work, part), os.DirFS(part)))
	}
	for _, name := range []string{"playwright.config.js", "pages.json", "package.json"} {
		content, err := os.ReadFile(name)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(work, name), content, 0o600))
	}
	require.NoError(t, os.Symlink(p.modules, filepath.Join(work, "node_modules")))
	return work
}
