// Package proctest helps tests that start programs.
package proctest

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// WriteProgram writes an executable file that can be started at once. With os.WriteFile, a process
// that another goroutine forks meanwhile would inherit the open file, and until it executes its own
// program, starting the file would fail with "text file busy".
func WriteProgram(tb testing.TB, path, script string) {
	tb.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	require.NoError(tb, os.WriteFile(path, []byte(script), 0o755))
}
