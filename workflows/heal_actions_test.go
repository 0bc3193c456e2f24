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

func TestReasoningIsSetWhereATemperatureWouldChangeNothing(t *testing.T) {
	t.Parallel()
	refusal := fault.New(contract.ClassLLM, contract.CodeRefusal, "no")
	cut := fault.New(contract.ClassLLM, contract.CodeTruncated, "cut off")
	for name, c := range map[string]struct {
		traits contract.Traits
		fails  *fault.Error
		want   []contract.HealAction
		effort contract.Effort // after the last one
	}{
		"no temperature":               {contract.Traits{FixedTemperature: true, Effort: true}, refusal, []contract.HealAction{contract.HealRegenerate, contract.HealMoreReasoning}, contract.EffortHigh},
		"no temperature, no effort":    {contract.Traits{FixedTemperature: true}, refusal, []contract.HealAction{contract.HealRegenerate, contract.HealSaferModel}, ""},
		"both":                         {contract.Traits{Effort: true}, refusal, []contract.HealAction{contract.HealRegenerate, contract.HealLowerTemperature}, ""},
		"cut off by reasoning":         {contract.Traits{Effort: true, ReasonedMost: true}, cut, []contract.HealAction{contract.HealLessReasoning, contract.HealRegenerate}, contract.EffortLow},
		"cut off by a long response":   {contract.Traits{Effort: true}, cut, []contract.HealAction{contract.HealRegenerate, contract.HealCompactContext}, ""},
		"reasoning that cannot be set": {contract.Traits{}, cut, []contract.HealAction{contract.HealRegenerate, contract.HealCompactContext}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRunFixture(t)
			w.traits = c.traits
			w.failTimes(contract.ActivityPlan, 2, c.fails)
			require.Equal(t, contract.StatusDone, w.orchestrate(t, func(s *contract.Settings) {
				healing(s)
				s.Fallbacks = []contract.ModelChoice{{Provider: "spare", Model: "safer"}}
			}).Status)
			require.Equal(t, c.want, w.actions())
			require.Equal(t, c.effort, w.planned[len(w.planned)-1].Model.Effort)
		})
	}
}
