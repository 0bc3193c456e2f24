package server_test

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/ledger"
	"github.com/rocketgpt/orchestrator/internal/storetest"
)

func TestThePageOfPoliciesShowsWhatIsInForceForNewRuns(t *testing.T) {
	t.Parallel()
	b := setup(t)
	dir := t.TempDir()
	own := filepath.Join(dir, "own.rego")
	require.NoError(t, os.WriteFile(own, []byte("package operator\n\n# <script>alert(1)</script>\ndeny contains \"frozen\"\n"), 0o600))
	b.config.Gate.Policy, b.config.Gate.Policies, b.config.Gate.Limits.Files = "strict", dir, 321
	page := func() string {
		w := b.get(t, "/policies")
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		return w.Body.String()
	}
	text := page()
	for _, want := range []string{"strict", "321 files", "rgpt/strict.rego", own, "&lt;script&gt;alert(1)", "Digest: operator", "secrets"} {
		require.Contains(t, text, want)
	}
	require.NotContains(t, text, "<script>alert(1)")
	w := b.get(t, "/api/policies")
	require.Equal(t, http.StatusOK, w.Code)
	require.Contains(t, w.Body.String(), `"policy":"strict"`)

	require.NoError(t, os.WriteFile(own, []byte("package operator\n\ndeny contains\n"), 0o600))
	text = page()
	require.Contains(t, text, "no runs are created")
	require.Contains(t, text, "own.rego:")
	require.Equal(t, http.StatusUnprocessableEntity, b.get(t, "/api/policies").Code)

	b.config.Gate.Policy = "none"
	require.Contains(t, page(), "The gate is off")
}

func TestThePageOfTheLedgerFiltersAndPages(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first, second := b.run(t, "Add dark mode"), b.run(t, "Add light mode")
	for range 101 {
		storetest.AppendLedger(t, b.Store, ledger.Entry{Actor: ledger.Person, Name: "<b>ann", Action: "x.done", Object: "<i>y"}, "{}")
	}
	page := func(query string) string {
		w := b.get(t, "/ledger"+query)
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		return w.Body.String()
	}
	text := page("?name=%3Cb%3Eann")
	require.Contains(t, text, "&lt;b&gt;ann")
	require.NotContains(t, text, "<i>y")
	require.Contains(t, text, "Older entries")
	require.Contains(t, page("?name=%3Cb%3Eann&before=4"), `id="entry-3"`)
	require.NotContains(t, page("?name=%3Cb%3Eann&before=4"), "Older entries")

	text = page("?action=run.created&run=1")
	require.Contains(t, text, "/runs/1")
	require.NotContains(t, text, `href="/runs/2"`)
	require.NotEqual(t, first, second)
	require.Contains(t, page("?action=nothing"), "No matching entries")
	for _, wrong := range []string{"?run=x", "?run=0", "?before=-1"} {
		require.Equal(t, http.StatusUnprocessableEntity, b.get(t, "/ledger"+wrong).Code, wrong)
	}

	runs := &control.Runs{Store: b.Store, Artifacts: b.artifacts, Config: b.config, DataDir: t.TempDir()}
	made, err := runs.CheckpointLedger(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 103, made.Seq)
	require.Contains(t, page(""), "Entry 103 was signed")
}
