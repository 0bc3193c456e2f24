package temporal_test

import (
	"encoding/json"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/operatorservice/v1"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/await"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/temporal"
)

// serve starts a Temporal server without our search attributes and returns its address.
func serve(t *testing.T) (address string) {
	t.Helper()
	program, err := filepath.Abs("../../bin/temporal-devserver")
	require.NoError(t, err)
	if _, err := os.Stat(program); err != nil {
		t.Skip("temporal-devserver is missing; build it with `make devserver`")
	}
	ready := filepath.Join(t.TempDir(), "ready.json")
	cmd := exec.CommandContext(t.Context(), program, "--port", "0", "--headless", "--ready-file", ready)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Wait() })
	var info struct {
		Address string `json:"address"`
	}
	await.Until(t, "Temporal to serve", func() bool {
		content, err := os.ReadFile(ready)
		return err == nil && json.Unmarshal(content, &info) == nil
	})
	return info.Address
}

func TestMissingSearchAttributesAreRegisteredOnce(t *testing.T) {
	t.Parallel()
	c, err := temporal.Connect(t.Context(), config.Temporal{Address: serve(t), Namespace: "default"}, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, temporal.RegisterSearchAttributes(t.Context(), c, "default"))
	// Temporal's services learn of them within a moment.
	await.Until(t, "the search attributes to be known", func() bool {
		known, err := c.OperatorService().ListSearchAttributes(t.Context(), &operatorservice.ListSearchAttributesRequest{Namespace: "default"})
		return err == nil && !slices.ContainsFunc(contract.SearchAttributes(), func(a [2]string) bool {
			return known.GetCustomAttributes()[a[0]].String() != a[1]
		})
	})
	require.NoError(t, temporal.RegisterSearchAttributes(t.Context(), c, "default"))
}
