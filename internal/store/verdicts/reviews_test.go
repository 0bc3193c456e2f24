package verdicts_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/verdicts"
	"github.com/rocketgpt/orchestrator/internal/storetest"
)

func TestAReviewIsStoredOnceWithItsEvent(t *testing.T) {
	t.Parallel()
	f := storetest.Setup(t)
	run := f.Create(t, store.NewRun{})
	secret := "ghp_" + "0123456789abcdefghijABCDEFGHIJ012345"
	r := contract.ReviewRecord{
		RunID: run.ID, ExecutionID: 7, Round: 1, From: "t1", Tree: "t2", Model: "p/m", Prompt: "review@1", Summary: "s", Unshown: []string{"big"},
		Findings: []contract.ReviewFinding{
			{ID: "R1", Item: contract.ReviewGoal, Severity: contract.SeverityMajor, Path: "a", Line: 3, What: "it prints " + secret},
			{ID: "R2", Item: contract.ReviewTests, Severity: contract.SeverityMinor, What: "x\x00y"},
			{ID: "R0", Item: contract.ReviewTests, Severity: contract.SeverityMajor, What: "gone", State: contract.ReviewFixed},
		},
	}
	first, err := verdicts.SaveReview(t.Context(), f.Store, r)
	require.NoError(t, err)
	require.NotContains(t, first.Findings[0].What, secret)
	require.Equal(t, []int{1, 1}, []int{first.Count(contract.SeverityMajor), first.Count(contract.SeverityMinor)})
	r.Summary = "another answer of the same call"
	again, err := verdicts.SaveReview(t.Context(), f.Store, r)
	require.NoError(t, err)
	require.Equal(t, first, again)

	r.ExecutionID, r.Round, r.Failed, r.Findings, r.Unshown = 8, 2, "the model is away", nil, nil
	failed, err := verdicts.SaveReview(t.Context(), f.Store, r)
	require.NoError(t, err)
	last, found, err := verdicts.ReviewOf(t.Context(), f.Store, run.ID, "t1", "t2")
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, failed, last)
	_, found, err = verdicts.ReviewOf(t.Context(), f.Store, run.ID, "t1", "t3")
	require.NoError(t, err)
	require.False(t, found, "a review is about one change")

	events, err := f.Events(t.Context(), run.ID, 0, 0)
	require.NoError(t, err)
	var payloads []string
	for _, e := range events {
		if e.Type == contract.EventGateReviewed {
			payloads = append(payloads, string(e.Payload))
		}
	}
	require.Len(t, payloads, 2)
	require.Contains(t, payloads[0], `"major": 1`)
	require.Contains(t, payloads[0], `"review_id"`)
	require.NotContains(t, payloads[0], secret)
	require.Contains(t, payloads[1], "the model is away")

	var entries int
	storetest.Query(t, f.URL, func(ctx context.Context, conn *pgx.Conn) {
		require.NoError(t, conn.QueryRow(ctx, "SELECT count(*) FROM orchestrator_ledger WHERE action = 'gate.reviewed' AND run_id = $1", run.ID).Scan(&entries))
	})
	require.Equal(t, 2, entries)
}
