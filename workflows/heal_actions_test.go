package workflows

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// fullDisk is a failure of a machine.
func fullDisk(worker string) *fault.Error {
	e := fault.New(contract.ClassInfra, contract.CodeDiskFull, "no space left")
	e.Worker = worker
	return e
}

func TestWorkThatAMachineFailedAtIsGivenToAnotherWorkerByName(t *testing.T) {
	t.Parallel()
	for p, name := range map[contract.Phase]string{
		contract.PhasePlanner: contract.ActivityPlan, contract.PhaseBuilder: contract.ActivityThink + "/step-001",
		contract.PhaseTester: contract.ActivityVerify, contract.PhaseReleaser: contract.ActivityRelease,
	} {
		t.Run(string(p), func(t *testing.T) {
			t.Parallel()
			w := newRunFixture(t)
			w.workers = []string{"a:1", "b:2"}
			w.failTimes(name, 1, fullDisk("a:1"))
			require.Equal(t, contract.StatusDone, w.orchestrate(t, healing).Status)
			require.Equal(t, []contract.HealAction{contract.HealOtherWorker}, w.actions())
			var out contract.HealOutput
			for _, rec := range w.recorded() {
				for _, h := range rec.Heals {
					if h.Output.After != nil {
						out = h.Output
					}
				}
			}
			require.Equal(t, "a:1", out.Before["worker"])
			require.Equal(t, "b:2", out.After["worker"])
		})
	}
}

func TestAnotherWorkerIsNoActionWhereThereIsNone(t *testing.T) {
	t.Parallel()
	for name, workers := range map[string][]string{"none but that which failed": {"a:1"}, "none at all": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRunFixture(t)
			w.workers = workers
			w.failTimes(contract.ActivityVerify, 9, fullDisk("a:1"))
			require.Equal(t, contract.StatusFailed, w.orchestrate(t, healing).Status)
			require.Equal(t, []contract.HealAction{contract.HealAskPerson}, w.actions(), "no attempt is wasted on the same worker")
		})
	}
}

func TestAContextThatStillOverflowsIsHalvedAgainAndTheStepContinues(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.failTimes(contract.ActivityThink+"/step-001", 2, fault.New(contract.ClassLLM, contract.CodeContextOverflow, "too long"))
	require.Equal(t, contract.StatusDone, w.orchestrate(t, healing).Status)
	require.Equal(t, []contract.HealAction{contract.HealCompactContext, contract.HealCompactContext}, w.actions())
	last := w.opened["step-001"]
	require.Equal(t, 2, last.Lessons.Compact)
	require.NotNil(t, last.Resume)
	require.NotZero(t, last.Resume.Execution)
	require.Equal(t, "7ree", last.Resume.From.Tree)
}
