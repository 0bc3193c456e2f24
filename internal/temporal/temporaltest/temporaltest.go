// Package temporaltest gives tests a real Temporal server of their own.
package temporaltest

import (
	"encoding/json"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"github.com/rocketgpt/orchestrator/internal/await"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/temporal"
)

// Namespace is the namespace of the servers.
const Namespace = "default"

// Serve starts a server without our search attributes, which ends with the test, and returns its address. The
// test is skipped if the server's program was not built.
func Serve(t testing.TB) (address string) {
	t.Helper()
	ready := filepath.Join(t.TempDir(), "ready.json")
	cmd := exec.CommandContext(t.Context(), program(t), "--port", "0", "--headless", "--ready-file", ready) //nolint:gosec // built from this repository
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Wait() }) // the end of the context has killed it
	var info struct {
		Address string `json:"address"`
	}
	await.Until(t, "Temporal to serve", func() bool {
		content, err := os.ReadFile(ready)
		return err == nil && json.Unmarshal(content, &info) == nil
	})
	return info.Address
}

// Connect starts a server and returns a connection to it, which is closed when the test ends.
func Connect(t testing.TB) client.Client {
	t.Helper()
	c, err := temporal.Connect(t.Context(), config.Temporal{Address: Serve(t), Namespace: Namespace}, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// program returns the path of the server's program.
func program(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	require.NoError(t, err)
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		path := filepath.Join(dir, "bin", "temporal-devserver")
		if _, err := os.Stat(path); err == nil {
			return path
		}
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
	}
	t.Skip("bin/temporal-devserver is missing; build it with `make devserver`")
	return ""
}
