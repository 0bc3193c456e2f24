package server_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/test/harness"
)

func TestAttemptsAreEstimatedOverHTTPWithoutBeingCreated(t *testing.T) {
	t.Parallel()
	b, _ := deliberating(t)
	repo := harness.Repo(t, filepath.Join(t.TempDir(), "app"), map[string]string{"a": "b"})
	var e control.Estimate
	b.post(t, "/api/runs/estimate", fmt.Sprintf(`{"repo": %q, "goal": "x", "attempts": 3, "settings": {"execution.run.cost_usd": "2"}}`, repo), http.StatusOK, &e)
	require.Equal(t, 3, e.Attempts)
	require.Equal(t, "app", e.Project)
	require.Nil(t, e.MicroUSD)
	require.EqualValues(t, 2_000_000, e.LimitMicroUSD)
	require.Contains(t, e.Text, "cost and time of 3 attempts cannot be estimated")

	b.post(t, "/api/runs/estimate", fmt.Sprintf(`{"repo": %q, "goal": "x", "attempts": 6}`, repo), http.StatusUnprocessableEntity, nil)
	b.post(t, "/api/runs/estimate", fmt.Sprintf(`{"repo": %q, "goal": "x\u0000", "attempts": 2}`, repo), http.StatusUnprocessableEntity, nil)
	b.post(t, "/api/runs/estimate", fmt.Sprintf(`{"repo": %q, "goal": "x", "project": "a\u0000", "attempts": 2}`, repo), http.StatusBadRequest, nil)
	runs, err := b.ListRuns(t.Context(), store.Filter{})
	require.NoError(t, err)
	require.Empty(t, runs)

	client, _ := clientOf(t, b.handler, quietly)
	same, err := client.Estimate(t.Context(), control.Creation{Repo: repo, Goal: "x", Attempts: 3, Settings: map[string]string{"execution.run.cost_usd": "2"}, Pictures: []control.PictureFile{{Name: "not sent"}}})
	require.NoError(t, err)
	require.Equal(t, e, same)
}
