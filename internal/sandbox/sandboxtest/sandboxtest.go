// Package sandboxtest gives tests the program that starts sandboxes.
package sandboxtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Executable returns the path of rgpt-sandbox for sandbox.Options: test binaries are large, and
// starting them for each stage of each sandbox takes most of a test's processor time. It is built
// once for each test binary of go test, which removes it. For other test binaries the path is
// empty: they start themselves.
func Executable(tb testing.TB) string {
	tb.Helper()
	path, err := build()
	if err != nil {
		tb.Fatalf("build rgpt-sandbox: %v", err)
	}
	return path
}

var build = sync.OnceValues(func() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	dir := filepath.Dir(self)
	if !strings.Contains(dir, "go-build") { // the directory would stay
		return "", nil
	}
	path := filepath.Join(dir, "rgpt-sandbox")
	cmd := exec.Command("go", "build", "-o", path, "github.com/rocketgpt/orchestrator/workers/sandbox")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // it also starts in containers
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return path, nil
})
