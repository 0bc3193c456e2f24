package server_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/flaky"
	"github.com/rocketgpt/orchestrator/test/harness"
)

// hostileTest is a name of a test that tries to become part of a page.
var hostileTest = `"><script>alert(1)</script>/` + strings.Repeat("ä", 200)

// outcomes adds the outcome of a test at a state of the code to the history.
func (b *fixture) outcomes(tb testing.TB, repo, name, state string, statuses ...contract.TestStatus) {
	tb.Helper()
	for i, s := range statuses {
		require.NoError(tb, flaky.New(b.Store).Record(tb.Context(), flaky.Recording{
			Source: fmt.Sprint(name, state, i), Repo: repo, Check: contract.Check{ID: "test-go-1", Category: contract.CategoryTest}, RunID: 1,
			State: state, Window: time.Hour, Cases: []contract.TestCase{{Name: name, Status: s}},
		}))
	}
}

func TestTheClientSeesFlakyTestsAndQuarantinesThemAsTheServerDoes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	repo := harness.Repo(t, filepath.Join(t.TempDir(), "app"), map[string]string{"a": "b"})
	c, _ := clientOf(t, b.handler, quietly)
	for _, state := range []string{"a", "b"} {
		b.outcomes(t, repo, hostileTest, state, contract.TestPassed, contract.TestFailed)
	}
	b.outcomes(t, repo, "m.Once", "a", contract.TestFlaky)
	list, err := c.FlakyTests(t.Context(), repo, 10)
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.Equal(t, []any{hostileTest, 2, true}, []any{list[0].Name, list[0].Flips, list[0].Suggested})
	require.Equal(t, []any{"m.Once", 1, false}, []any{list[1].Name, list[1].Flips, list[1].Suggested})

	made, err := c.AddQuarantine(t.Context(), control.NewQuarantine{Repo: repo, Test: hostileTest, Reason: "<b>slow</b>", Hours: 3, By: "ann"})
	require.NoError(t, err)
	require.Equal(t, []any{"ann", "person", true}, []any{made.CreatedBy, made.Source, made.Active})
	require.WithinDuration(t, time.Now().Add(3*time.Hour), made.ExpiresAt, time.Minute)
	list, err = c.FlakyTests(t.Context(), "", 10)
	require.NoError(t, err)
	require.Equal(t, []any{made.ID, false}, []any{list[0].QuarantineID, list[0].Suggested})
	byDefault, err := c.AddQuarantine(t.Context(), control.NewQuarantine{Repo: repo, Test: "m.Once", Check: "test-go", Reason: "slow"})
	require.NoError(t, err)
	require.Equal(t, "api", byDefault.CreatedBy)
	require.WithinDuration(t, time.Now().Add(14*24*time.Hour), byDefault.ExpiresAt, time.Minute)
	for want, n := range map[string]control.NewQuarantine{
		"the maximum is 2160 hours (verification.flaky.quarantine_max)": {Repo: repo, Test: "m.A", Reason: "slow", Hours: 2161},
		"control characters": {Repo: repo, Test: "m.A\x07", Reason: "slow"},
	} {
		_, err = c.AddQuarantine(t.Context(), n)
		require.ErrorContains(t, err, want)
		require.Equal(t, contract.ClassHuman, fault.Of(err).Class)
	}

	b.requireQuarantinePage(t)
	entries, err := c.Quarantine(t.Context(), repo, false, 10)
	require.NoError(t, err)
	require.Len(t, entries, 2)
	_, err = c.RemoveQuarantine(t.Context(), made.ID, "")
	require.NoError(t, err)
	_, err = c.RemoveQuarantine(t.Context(), made.ID, "")
	require.Equal(t, contract.CodeRejected, fault.Of(err).Code)
	_, err = c.RemoveQuarantine(t.Context(), 4711, "")
	require.ErrorIs(t, err, store.ErrNotFound)
	entries, err = c.Quarantine(t.Context(), repo, true, 10)
	require.NoError(t, err)
	require.Len(t, entries, 2, "it is still documented")
	require.Equal(t, "api", entries[1].RemovedBy)
	_, text := b.page(t, "/quarantine")
	require.NotContains(t, text, "<b>slow</b>")
	_, text = b.page(t, "/quarantine?all=1")
	require.Contains(t, text, "Removed")
}

// requireQuarantinePage checks that the page shows both lists, as text only.
func (b *fixture) requireQuarantinePage(t *testing.T) {
	t.Helper()
	w := b.get(t, "/quarantine")
	require.NotContains(t, w.Body.String(), "<script>alert(1)")
	require.NotContains(t, w.Body.String(), "<b>slow")
	_, text := b.page(t, "/quarantine")
	for _, part := range []string{`"><script>alert(1)</script>/`, "<b>slow</b>", "ann", time.Now().Add(3 * time.Hour).UTC().Format("2006-01-02"), "m.Once"} {
		require.Contains(t, text, part)
	}
}

func TestATestIsQuarantinedOnceUnderAKey(t *testing.T) {
	t.Parallel()
	b := setup(t)
	body := fmt.Sprintf(`{"repo": %q, "test": "m.A", "reason": "slow"}`, harness.Repo(t, filepath.Join(t.TempDir(), "app"), map[string]string{"a": "b"}))
	first := b.send(t, http.MethodPost, "/api/quarantine", body, "Idempotency-Key", "k")
	require.Equal(t, http.StatusCreated, first.Code, first.Body)
	again := b.send(t, http.MethodPost, "/api/quarantine", body, "Idempotency-Key", "k")
	require.Equal(t, first.Body.String(), again.Body.String())
	all, err := flaky.New(b.Store).List(t.Context(), "", true, 10)
	require.NoError(t, err)
	require.Len(t, all, 1)
	for _, missing := range []string{`{"repo": "x", "test": "m.A"}`, `{"repo": "x", "reason": "slow"}`, `{"test": "m.A", "reason": "slow"}`} {
		require.Equal(t, http.StatusUnprocessableEntity, b.send(t, http.MethodPost, "/api/quarantine", missing).Code)
	}
}

func TestFailuresOfQuarantinedTestsAreShownApart(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.run(t, "goal")
	e := b.begin(t, id, contract.PhaseTester, "", contract.AgentTester)
	b.check(t, e, "test-go", []contract.TestCase{
		{Name: "TestFine", Status: contract.TestPassed}, {Name: hostileTest, Status: contract.TestQuarantined, Message: "<i>too late</i>"},
	})
	for _, path := range []string{fmt.Sprintf("/runs/%d", id), fmt.Sprintf("/runs/%d/tests", id), fmt.Sprintf("/runs/%d/tests?status=quarantined", id)} {
		w := b.get(t, path)
		require.NotContains(t, w.Body.String(), "<script>alert(1)", path)
		require.NotContains(t, w.Body.String(), "<i>too late", path)
		_, text := b.page(t, path)
		require.Contains(t, text, "Quarantined", path)
		require.Contains(t, text, "<i>too late</i>", path)
	}
	_, text := b.page(t, fmt.Sprintf("/runs/%d", id))
	require.Contains(t, text, "1 quarantined")
	_, text = b.page(t, fmt.Sprintf("/runs/%d/tests?status=failed", id))
	require.Contains(t, text, "No matching tests.")
}
