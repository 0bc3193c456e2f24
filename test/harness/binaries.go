package harness

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
)

// binDirEnv is the variable with the directory of prebuilt binaries to test.
const binDirEnv = "RGPT_BIN_DIR"

const devserver = "temporal-devserver"

// Root returns the root directory of the repository.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(filepath.Dir(filepath.Dir(file)))
}

// Binaries returns a directory with rgpt, rgpt-worker and temporal-devserver. The first two are
// built once for each test process; building the third takes minutes, so a test is skipped if it is
// missing.
func Binaries(tb testing.TB) string {
	tb.Helper()
	dir, err := binaries()
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, devserver)); err != nil {
		tb.Skipf("%s is missing; build it with `make devserver`", devserver)
	}
	return dir
}

var binaries = sync.OnceValues(func() (string, error) {
	if dir := os.Getenv(binDirEnv); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.MkdirTemp("", "rgpt-bin-")
	if err != nil {
		return "", err
	}
	for name, pkg := range map[string]string{"rgpt": "./starter", "rgpt-worker": "./workers", "rgpt-sandbox": "./workers/sandbox"} {
		build := exec.Command("go", "build", "-o", filepath.Join(dir, name), pkg)
		build.Dir = Root()
		if out, err := build.CombinedOutput(); err != nil {
			return "", fmt.Errorf("build %s: %w\n%s", name, err, out)
		}
	}
	// The stack looks for it next to rgpt.
	return dir, os.Symlink(filepath.Join(Root(), "bin", devserver), filepath.Join(dir, devserver))
})

// RemoveBinaries removes the binaries built by Binaries; call it at the end of TestMain.
func RemoveBinaries() {
	if os.Getenv(binDirEnv) != "" {
		return
	}
	if dir, err := binaries(); err == nil {
		_ = os.RemoveAll(dir)
	}
}
