package store_test

import (
	"fmt"
	"sync"
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

// BenchmarkReserveAndComplete books model calls of one run, and of 20 runs at once that share the
// budgets of their project, of their tenant and of the day.
func BenchmarkReserveAndComplete(b *testing.B) {
	for _, runs := range []int{1, 20} {
		b.Run(fmt.Sprint(runs, " at once"), func(b *testing.B) {
			s := setup(b)
			var calls []func()
			for i := range runs {
				execution := s.begin(b, contract.PhaseBuilder, fmt.Sprintf("step-%03d", i+1))
				turn := 0
				calls = append(calls, func() {
					turn++
					r := reservation(execution, turn)
					now := time.Now()
					r.Scopes = []store.Scope{
						{Kind: store.ScopeAgent, Key: fmt.Sprint("run ", i, "/builder")}, {Kind: store.ScopeRun, Key: fmt.Sprint("run ", i)},
						store.PeriodScope(store.ScopeProject, "acme", now, store.Daily, 0, 0), store.PeriodScope(store.ScopeProject, "acme", now, store.Monthly, 0, 0),
						store.PeriodScope(store.ScopeTenant, "local", now, store.Daily, 0, 0), store.PeriodScope(store.ScopeTenant, "local", now, store.Monthly, 0, 0),
						store.DayScope(now, 0, 0),
					}
					reserved, err := s.ReserveCall(b.Context(), r)
					require.NoError(b, err)
					err = s.CompleteCall(b.Context(), reserved.ID, used(100), time.Second, raw(`{"text": "done"}`), []store.Message{{Role: "assistant", Content: raw(`"done"`)}})
					require.NoError(b, err)
				})
			}
			for b.Loop() {
				var all sync.WaitGroup
				for _, call := range calls {
					all.Go(call)
				}
				all.Wait()
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(runs*b.N), "µs/call")
		})
	}
}
