package server_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/environment"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/test/harness"
)

var keptDigest = strings.Repeat("0a1b2c3d", 8)

// saveEnvironment stores an environment under keptDigest.
func (b *fixture) saveEnvironment(tb testing.TB) {
	tb.Helper()
	recipe, err := environment.Recipe{
		Source: environment.SourceDetected, Projects: []environment.Project{{Dir: ".", Ecosystem: "go", Manager: "go", Manifest: "go.mod"}},
		Setup: []environment.Command{{Dir: ".", Shell: "go mod download <script>"}},
	}.Encode()
	require.NoError(tb, err)
	require.NoError(tb, b.SaveEnvironment(tb.Context(), store.Environment{
		Digest: keptDigest, Repo: "/repos/app", BaseCommit: "c0ffee", Source: "detected", Recipe: recipe, Archive: b.storeArtifact(tb, "archive"), Bytes: 3 << 20, Files: 9, DurationMS: 1500,
	}))
}

func TestTheClientSeesAndSteersEnvironmentsAsTheServerDoes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.saveEnvironment(t)
	c, _ := clientOf(t, b.handler, quietly)
	list, err := c.Environments(t.Context(), "", 10)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, "go", list[0].What)
	require.Nil(t, list[0].Found)
	one, err := c.Environment(t.Context(), keptDigest[:8])
	require.NoError(t, err)
	require.Equal(t, keptDigest, one.Digest)
	require.Equal(t, "go mod download <script>", one.Found.Commands[0].Shell)

	id := b.run(t, "x")
	require.NoError(t, b.SetRunEnvironment(t.Context(), id, keptDigest, 0))
	_, err = c.RemoveEnvironment(t.Context(), keptDigest, "ann")
	require.Equal(t, contract.CodeRejected, fault.Of(err).Code)
	b.record(t, contract.Record{RunID: id, Run: &contract.RunChange{Status: contract.StatusDone, Finished: true}})
	_, err = c.RemoveEnvironment(t.Context(), keptDigest, "ann")
	require.NoError(t, err)
	_, err = c.Environment(t.Context(), keptDigest)
	require.ErrorIs(t, err, store.ErrNotFound)

	repo := harness.Repo(t, filepath.Join(t.TempDir(), "app"), map[string]string{"go.mod": "module x\n\ngo 1.26\n", "go.sum": "\n"})
	found, err := c.FindEnvironment(t.Context(), repo, "")
	require.NoError(t, err)
	require.Equal(t, "go", found.What)
	made, err := c.AddSetup(t.Context(), control.NewSetup{Repo: repo, Commands: []string{"make deps"}})
	require.NoError(t, err)
	require.Equal(t, "api", made.CreatedBy)
	_, err = c.AddSetup(t.Context(), control.NewSetup{Repo: repo, Hosts: []string{"evil.example.com"}})
	require.Equal(t, contract.ClassConfig, fault.Of(err).Class)
	setups, err := c.Setups(t.Context(), repo, 10)
	require.NoError(t, err)
	require.Len(t, setups, 1)
	_, err = c.RevokeSetup(t.Context(), made.ID, "")
	require.NoError(t, err)
	_, err = c.RevokeSetup(t.Context(), made.ID, "")
	require.Equal(t, contract.CodeRejected, fault.Of(err).Code)
}

func TestASetupIsAddedOnceUnderAKey(t *testing.T) {
	t.Parallel()
	b := setup(t)
	body := fmt.Sprintf(`{"repo": %q, "commands": ["make deps"]}`, harness.Repo(t, filepath.Join(t.TempDir(), "app"), map[string]string{"a": "b"}))
	first := b.send(t, http.MethodPost, "/api/setups", body, "Idempotency-Key", "k")
	require.Equal(t, http.StatusCreated, first.Code, first.Body)
	again := b.send(t, http.MethodPost, "/api/setups", body, "Idempotency-Key", "k")
	require.Equal(t, first.Body.String(), again.Body.String())
	setups, err := b.Setups(t.Context(), "", 10)
	require.NoError(t, err)
	require.Len(t, setups, 1)
}

// loseFirst loses the first answer to each command with DELETE that a server carries out.
func loseFirst(b *fixture) http.Handler {
	var lost sync.Map
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, again := lost.LoadOrStore(r.Method+r.URL.Path, true)
		if again || r.Method != http.MethodDelete {
			b.handler.ServeHTTP(w, r)
			return
		}
		b.handler.ServeHTTP(httptest.NewRecorder(), r)
		http.Error(w, "a proxy that has lost its server", http.StatusBadGateway)
	})
}

func TestWhatIsRemovedIsRemovedAlsoWhereTheFirstAnswerIsLost(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.saveEnvironment(t)
	repo := harness.Repo(t, filepath.Join(t.TempDir(), "app"), map[string]string{"a": "b"})
	made, err := b.AddSetup(t.Context(), store.Setup{Repo: repo, Source: "person", Settings: []byte(`{"Setup": ["make deps"]}`)})
	require.NoError(t, err)
	c, _ := clientOf(t, loseFirst(b), quietly)
	_, err = c.RemoveEnvironment(t.Context(), keptDigest, "ann")
	require.NoError(t, err)
	_, err = c.RevokeSetup(t.Context(), made.ID, "")
	require.NoError(t, err)
	_, err = c.Environment(t.Context(), keptDigest)
	require.ErrorIs(t, err, store.ErrNotFound)
}

func TestARemovalUnderAKeyIsAnsweredAgainWithoutContent(t *testing.T) {
	t.Parallel()
	b := setup(t)
	made, err := b.AddSetup(t.Context(), store.Setup{Repo: "/repos/app", Source: "person", Settings: []byte(`{"Setup": ["make deps"]}`)})
	require.NoError(t, err)
	path := fmt.Sprintf("/api/setups/%d", made.ID)
	first := b.send(t, http.MethodDelete, path, "", "Idempotency-Key", "k")
	require.Equal(t, http.StatusNoContent, first.Code, first.Body)
	again := b.send(t, http.MethodDelete, path, "", "Idempotency-Key", "k")
	require.Equal(t, http.StatusNoContent, again.Code, again.Body)
	require.Equal(t, "true", again.Header().Get("Idempotency-Replayed"))
	require.NotContains(t, again.Header(), "Content-Length")
	require.NotContains(t, again.Header(), "Content-Type")
	other := b.send(t, http.MethodDelete, path, "", "Idempotency-Key", "another")
	require.Equal(t, http.StatusConflict, other.Code, "it was revoked before")
	b.post(t, path, "", http.StatusConflict, nil, "Idempotency-Key", "k")
}

func TestOutputIsReadFromWhereItWasReadBefore(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.run(t, "x")
	for _, text := range []string{"one\n", "two\n"} {
		require.NoError(t, b.AppendOutput(t.Context(), id, "environment", text))
	}
	b.record(t, contract.Record{RunID: id, Run: &contract.RunChange{Status: contract.StatusDone, Finished: true}})
	c, _ := clientOf(t, b.handler, quietly)
	all, err := c.LiveOutput(t.Context(), id, 0, 10)
	require.NoError(t, err)
	require.Len(t, all, 2)
	rest, err := c.LiveOutput(t.Context(), id, all[0].ID, 10)
	require.NoError(t, err)
	require.Equal(t, all[1:], rest)
	_, err = c.LiveOutput(t.Context(), 999999, 0, 10)
	require.ErrorIs(t, err, store.ErrNotFound)
}

func TestTheClientKnowsARunsEnvironmentAsTheServerDoes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.prepared(t)
	c, _ := clientOf(t, b.handler, quietly)
	here, err := b.RunDetails(t.Context(), id)
	require.NoError(t, err)
	there, err := c.RunDetails(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, here.Environment, there.Environment)
	require.Equal(t, keptDigest, there.Run.Environment)
	require.Equal(t, "k1", there.Run.Baseline)
}

// prepared makes a run that has an environment, a baseline with a failure, and
// output.
func (b *fixture) prepared(tb testing.TB) int64 {
	tb.Helper()
	b.saveEnvironment(tb)
	id := b.run(tb, "Set up app")
	require.NoError(tb, b.SetRunEnvironment(tb.Context(), id, keptDigest, 0))
	b.record(tb, contract.Record{RunID: id, Events: []contract.EventDraft{
		{Type: contract.EventEnvironmentStarted},
		{Type: contract.EventEnvironmentReady, Payload: map[string]any{"environment": keptDigest, "bytes": 3 << 20, "files": 9, "duration_ms": 1500, "summary": "go", "missing": []string{"<b>node</b> >=22"}}},
		{Type: contract.EventBaselineReady, Payload: map[string]any{"summary": contract.TestSummary{Passed: 3, Failed: 1}, "red": []string{"Go tests"}, "duration_ms": 400, "baseline": "k1"}},
	}})
	return id
}

func TestPagesShowWhatARunWasSetUpWithAndHostileTextAsText(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.prepared(t)
	require.NoError(t, b.AppendOutput(t.Context(), id, "environment", "<script>alert(1)</script>\n"))
	page := b.get(t, fmt.Sprintf("/runs/%d/environment", id))
	require.Equal(t, http.StatusOK, page.Code, page.Body)
	text := page.Body.String()
	require.Contains(t, text, "3 passed, 1 failed, 0 skipped")
	require.Contains(t, text, "Known failures: Go tests")
	require.Contains(t, text, "&lt;b&gt;node&lt;/b&gt;")
	require.Contains(t, text, "&lt;script&gt;alert(1)")
	require.NotContains(t, text, "<script>alert")
	list := b.get(t, "/environments")
	require.Equal(t, http.StatusOK, list.Code, list.Body)
	require.Contains(t, list.Body.String(), "/repos/app")
}

func TestThePageShowsTheEndOfLongOutput(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.prepared(t)
	conn, err := pgx.Connect(t.Context(), b.address)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	_, err = conn.Exec(t.Context(), "INSERT INTO orchestrator_outputs (run_id, source, text) SELECT $1, 'environment', 'line ' || n || E'\\n' FROM generate_series(1, 12000) n", id)
	require.NoError(t, err)
	page := b.get(t, fmt.Sprintf("/runs/%d/environment", id))
	require.Equal(t, http.StatusOK, page.Code, page.Body)
	require.Contains(t, page.Body.String(), "line 11999\nline 12000\n")
	require.NotContains(t, page.Body.String(), "line 9\n")
}

func TestARunThatOnlyPreparesHasNoPhases(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for prepareOnly, shown := range map[bool]bool{false: true, true: false} {
		run, _, err := b.CreateRun(t.Context(), store.NewRun{
			Project: "app", GoalTitle: "Set up app",
			Settings: contract.Settings{PrepareOnly: prepareOnly, Repo: contract.Repo{URL: "/repos/app", Base: "c0ffee", Tree: "beef", Branch: "main"}},
		})
		require.NoError(t, err)
		page := b.get(t, fmt.Sprintf("/runs/%d", run.ID)).Body.String()
		require.Contains(t, page, "Set up app")
		require.Equal(t, shown, strings.Contains(page, `aria-label="Phases"`))
	}
}
