package stay_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/forge"
	"github.com/rocketgpt/orchestrator/internal/stay"
	"github.com/rocketgpt/orchestrator/internal/store/pullrequests"
	"github.com/rocketgpt/orchestrator/internal/storetest"
)

// Branch returns the commit of the base.
func (w *world) Branch(context.Context, string, string) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.base, nil
}

// updates lets a run update its branch.
func (w *world) updates(t *testing.T, run int64, when contract.UpdateWhen) {
	t.Helper()
	stored, err := w.Run(t.Context(), run)
	require.NoError(t, err)
	settings := stored.Settings
	settings.Release.PullRequest = &contract.PullRequestSettings{Update: &contract.UpdateSettings{Method: contract.UpdateMerge, When: when, Max: 3, Interval: time.Minute}}
	raw, err := json.Marshal(settings)
	require.NoError(t, err)
	storetest.Query(t, w.URL, func(ctx context.Context, conn *pgx.Conn) {
		_, err := conn.Exec(ctx, "UPDATE orchestrator_runs SET settings = $2 WHERE id = $1", run, raw)
		require.NoError(t, err)
	})
}

func (w *world) set(number int64, change func(*forge.PullRequest)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	pr := w.prs[number]
	change(&pr)
	w.prs[number] = pr
}

func (w *world) about(kind contract.CheckKind) (out []contract.CheckMessage) {
	for _, m := range w.messages() {
		if m.Kind == kind {
			out = append(out, m)
		}
	}
	return out
}

func TestARunLearnsOfEachConflictWithItsBaseOnceAndPeopleSeeIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run, none := w.opens(t, 7), w.opens(t, 8)
	w.updates(t, run, contract.UpdateOnConflict)
	yes, no := true, false
	for _, number := range []int64{7, 8} {
		w.set(number, func(pr *forge.PullRequest) { pr.Base = "main" })
	}
	w.base = "ba5e"
	w.serves(t, w.service(func(o *stay.Options) { o.PushAgain = 24 * time.Hour }))
	looked := func(number int64, more int) {
		t.Helper()
		w.mu.Lock()
		least := w.looks[number] + more
		w.mu.Unlock()
		eventually(t, func() bool { w.mu.Lock(); defer w.mu.Unlock(); return w.looks[number] >= least }, "pull request %d is looked at", number)
	}
	looked(7, 2)
	require.Empty(t, w.about(contract.CheckBase), "the forge has not found out yet")
	for _, number := range []int64{7, 8} {
		w.set(number, func(pr *forge.PullRequest) { pr.Mergeable = &no })
	}
	eventually(t, func() bool { return len(w.about(contract.CheckBase)) == 1 }, "the run learns of it")
	looked(7, 3)
	looked(8, 3)
	sent := w.about(contract.CheckBase)
	require.Len(t, sent, 1, "once, and only the run that updates its branch")
	require.Equal(t, contract.ConclusionConflict, sent[0].Conclusion)
	require.Equal(t, "c0ffee", sent[0].Commit)
	require.Equal(t, "the base main", sent[0].Name)
	require.Empty(t, sent[0].Problem())
	prs, err := pullrequests.Of(t.Context(), w.Store, none)
	require.NoError(t, err)
	require.Equal(t, "open (conflict)", prs[0].StateText())

	w.mu.Lock()
	w.base = "ba5e2"
	w.mu.Unlock()
	eventually(t, func() bool { return len(w.about(contract.CheckBase)) == 2 }, "the base has moved")
	w.set(7, func(pr *forge.PullRequest) { pr.Mergeable = &yes })
	eventually(t, func() bool {
		prs, err := pullrequests.Of(t.Context(), w.Store, run)
		return err == nil && prs[0].StateText() == "open"
	}, "the conflict is over")
	w.set(7, func(pr *forge.PullRequest) { pr.Behind = true })
	eventually(t, func() bool { return len(w.about(contract.CheckBase)) == 3 }, "the forge demands the newest commit")
	require.Equal(t, contract.ConclusionBehind, w.about(contract.CheckBase)[2].Conclusion)
}

func TestABranchThatIsToFollowItsBaseLearnsOfEachCommit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.updates(t, w.opens(t, 7), contract.UpdateIfBehind)
	w.set(7, func(pr *forge.PullRequest) { pr.Base = "main" })
	w.base = "ba5e"
	w.serves(t, w.service(func(*stay.Options) {}))
	eventually(t, func() bool { return len(w.about(contract.CheckBase)) == 1 }, "the first commit")
	w.mu.Lock()
	w.base = "ba5e2"
	w.mu.Unlock()
	eventually(t, func() bool { return len(w.about(contract.CheckBase)) == 2 }, "the second commit")
	require.Equal(t, contract.ConclusionBehind, w.about(contract.CheckBase)[1].Conclusion)
}
