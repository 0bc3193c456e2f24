package temporal_test

import (
	"log/slog"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/operatorservice/v1"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/await"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/temporal"
	"github.com/rocketgpt/orchestrator/internal/temporal/temporaltest"
)

func TestMissingSearchAttributesAreRegisteredOnce(t *testing.T) {
	t.Parallel()
	c, err := temporal.Connect(t.Context(), config.Temporal{Address: temporaltest.Serve(t), Namespace: temporaltest.Namespace}, slog.New(slog.DiscardHandler))
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
