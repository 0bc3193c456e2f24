package model

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
)

func TestDefaultModelsAreInTheCatalogueAndDoWhatTheirAgentsNeed(t *testing.T) {
	t.Parallel()
	for kind := range defaultModels {
		for _, agent := range contract.Agents() {
			name := DefaultModel(kind, agent)
			e, known := DefaultCatalogue().Find(Provider{Name: string(kind), Kind: kind}, name)
			require.True(t, known, "%s of the %s", name, agent)
			require.True(t, e.Can(CapabilityTools), name)
			require.NotZero(t, e.PriceOut, name)
			require.True(t, e.Deprecated == "" || e.Deprecated > time.Now().Format(time.DateOnly), "%s was withdrawn on %s", name, e.Deprecated)
		}
		require.NotEqual(t, DefaultModel(kind, contract.AgentPlanner), DefaultModel(kind, contract.AgentTester), "a phase without a model of its own uses a small one")
	}
	require.Empty(t, DefaultModel(KindOllama, contract.AgentPlanner))
}
