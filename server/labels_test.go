package server_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store/chain"
)

func TestLabelsAreChangedListedAndFilteredByTheAPI(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id, other := b.run(t, "Add dark mode"), b.run(t, "Another one")
	path := fmt.Sprintf("/api/runs/%d/labels", id)
	w := b.send(t, http.MethodPost, path, `{"add": ["rgpt:blocked", "docs"], "by": "ann", "reason": "wait"}`)
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	require.Contains(t, w.Body.String(), `"labels":["docs","rgpt:blocked"]`)
	require.Contains(t, w.Body.String(), `"changed":2`)
	w = b.send(t, http.MethodPost, path, `{"remove": ["docs"]}`)
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	for _, body := range []string{`{"add": [" x"]}`, `{"add": ["a,b"]}`, `{"add": [""]}`} {
		require.Equal(t, http.StatusUnprocessableEntity, b.send(t, http.MethodPost, path, body).Code, body)
	}
	list := b.get(t, "/api/runs?label=rgpt:blocked").Body.String()
	require.Contains(t, list, fmt.Sprintf(`"runId":%d`, id))
	require.NotContains(t, list, fmt.Sprintf(`"runId":%d`, other))
	require.Contains(t, b.get(t, fmt.Sprintf("/runs/%d", id)).Body.String(), "rgpt:blocked")

	entries, err := chain.List(t.Context(), b.Store, chain.Filter{RunID: id, Action: string(contract.EventLabelRemoved)})
	require.NoError(t, err)
	require.Len(t, entries, 1)
	require.Equal(t, "client api", fmt.Sprint(entries[0].Actor, " ", entries[0].Name))
}
