package store_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(storetest.Main(m)) }

// fixture is a store with a run in it.
type fixture struct{ *storetest.Fixture }

func setup(tb testing.TB) *fixture {
	tb.Helper()
	return &fixture{storetest.Setup(tb)}
}

// begin opens an execution of a phase or step.
func (b *fixture) begin(tb testing.TB, phase contract.Phase, step string) contract.ExecutionRef {
	tb.Helper()
	return b.Apply(tb, contract.Record{Begin: &contract.ExecutionBegin{Phase: phase, Step: step, Agent: contract.AgentOf(phase)}})
}

// all returns every event of the run.
func (b *fixture) all(tb testing.TB) []contract.Event {
	tb.Helper()
	events, err := b.Events(tb.Context(), b.First.ID, 0, 0)
	require.NoError(tb, err)
	return events
}

// requireGapless checks that events are numbered 1, 2, 3, …
func requireGapless(tb testing.TB, events []contract.Event) {
	tb.Helper()
	for i, e := range events {
		require.EqualValues(tb, i+1, e.Seq)
	}
}

func raw(format string, args ...any) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(format, args...))
}
