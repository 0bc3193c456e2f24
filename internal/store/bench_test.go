package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/storetest"
)

func BenchmarkRecord(b *testing.B) {
	s := setup(b)
	for b.Loop() {
		execution := s.Apply(b, contract.Record{
			At:     time.Now(),
			Run:    &contract.RunChange{Phase: contract.PhaseBuilder, Status: contract.PhaseBuilder.Running()},
			Begin:  &contract.ExecutionBegin{Phase: contract.PhaseBuilder, Step: "step-001", Agent: contract.AgentBuilder},
			Events: storetest.Drafts(2),
		})
		s.Apply(b, contract.Record{
			At: time.Now(), Run: &contract.RunChange{Status: contract.PhaseBuilder.Completed()},
			End:    &contract.ExecutionEnd{ExecutionID: execution.ID, Status: contract.ExecutionCompleted, Output: raw(`{"files": 3}`)},
			Events: storetest.Drafts(1),
		})
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(2*b.N), "µs/record")
}

func BenchmarkReserveAndComplete(b *testing.B) {
	s := setup(b)
	execution := s.begin(b, contract.PhaseBuilder, "step-001")
	turn := 0
	for b.Loop() {
		turn++
		r := reservation(execution, turn)
		r.Scopes = []store.Scope{store.RunScope(s.First.ID, contract.RunBudget{}), store.DayScope(time.Now(), 0, 0), {Kind: store.ScopeTenant, Key: "local"}}
		reserved, err := s.ReserveCall(b.Context(), r)
		require.NoError(b, err)
		err = s.CompleteCall(b.Context(), reserved.ID, used(100), time.Second, raw(`{"text": "done"}`), []store.Message{{Role: "assistant", Content: raw(`"done"`)}})
		require.NoError(b, err)
	}
}
