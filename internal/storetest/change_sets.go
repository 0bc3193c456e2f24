package storetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/changesets"
)

// HeldSet stores a change set that waits for a person: its last run failed, and the others are ready.
func HeldSet(t *testing.T, st *store.Store, n changesets.New, failure *contract.Failure) changesets.Set {
	t.Helper()
	set, _, err := changesets.Create(t.Context(), st, n)
	require.NoError(t, err)
	for i, m := range set.Runs {
		ready := i < len(set.Runs)-1
		c := contract.RunChange{Phase: contract.PhaseTester, Status: contract.PhaseTester.Completed(), WaitingFor: contract.WaitsForChangeSet}
		if !ready {
			c = contract.RunChange{Phase: contract.PhaseTester, Status: contract.StatusFailed, Finished: true, Failure: failure}
		}
		_, err := st.Record(t.Context(), store.Source{WorkflowID: contract.RunWorkflowID(m.RunID), WorkflowRunID: "first"}, contract.Record{RunID: m.RunID, Seq: 1, Run: &c})
		require.NoError(t, err)
		if ready {
			_, _, err = changesets.Ready(t.Context(), st, set.ID, m.RunID, "first")
			require.NoError(t, err)
		}
	}
	_, err = changesets.Decide(t.Context(), st, set.ID)
	require.NoError(t, err)
	return set
}
