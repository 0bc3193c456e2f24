package deliberation

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/workflows/deliberation/deliberationtest"
	"github.com/rocketgpt/orchestrator/workflows/deliberation/state"
)

func TestOfSwitchesOfModelsTheNewestCounts(t *testing.T) {
	t.Parallel()
	d := &deliberation{State: state.New(deliberationtest.Input(), time.Unix(0, 0))}
	d.Join(contract.Alpha, "token", "", time.Unix(0, 0))
	d.Settings.ModelSources = map[contract.Agent]string{contract.AgentAlpha: "models.phases.alpha", contract.AgentBeta: "models.default"}
	to := func(order int64, model string) string {
		c := contract.PipelineCommand{Order: order, By: "ann", Models: map[contract.Agent]contract.ModelChoice{contract.AgentAlpha: {Provider: "p", Model: model}}}
		require.NoError(t, d.checkSwitchModel(c))
		return d.applySwitchModel(nil, c)
	}
	require.Contains(t, to(2, "second"), "from the next turn")
	require.Equal(t, "second", d.Settings.Models[contract.AgentAlpha].Model)
	require.Equal(t, map[contract.Agent]string{contract.AgentAlpha: "a switch on the fly by ann", contract.AgentBeta: "models.default"}, d.Settings.ModelSources, "and the others' stay")
	require.Contains(t, to(1, "first"), "newer")
	require.Equal(t, "second", d.Settings.Models[contract.AgentAlpha].Model, "what comes late is no news")
	require.Equal(t, "second", d.Participant(contract.Alpha).Model.Model)
	rec := d.NextRecord(1, d.LastProgress)
	require.NotNil(t, rec.Change.Settings)
	require.NotContains(t, fmt.Sprint(rec.Events), contract.EventModelsSwitched, "its run has recorded the switch")
	to(3, "second")
	c := contract.PipelineCommand{By: "ann", Reason: "too dear", Models: map[contract.Agent]contract.ModelChoice{contract.AgentAlpha: {Provider: "p", Model: "third"}}}
	require.Contains(t, d.applySwitchModel(nil, c), "from the next turn")
	events := d.NextRecord(2, d.LastProgress).Events
	require.Len(t, events, 1)
	require.Equal(t, contract.EventModelsSwitched, events[0].Type)
	require.Equal(t, "ALPHA uses p/third from the next turn on, by ann (too dear)", events[0].Payload.(map[string]any)["text"])
	for _, wrong := range []contract.PipelineCommand{
		{}, {Models: map[contract.Agent]contract.ModelChoice{contract.AgentPlanner: {Provider: "p", Model: "m"}}}, {Models: map[contract.Agent]contract.ModelChoice{contract.AgentAlpha: {Provider: "p"}}},
	} {
		require.Error(t, d.checkSwitchModel(wrong))
	}
}
