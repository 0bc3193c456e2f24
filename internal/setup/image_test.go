package setup

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/environment"
	"github.com/rocketgpt/orchestrator/internal/store"
)

func TestAStoredSetupReplacesTheImageWhetherItIsNamedOrBuilt(t *testing.T) {
	t.Parallel()
	named, built := environment.Settings{Image: "a:1"}, environment.Settings{Dockerfile: &environment.Dockerfile{Path: "Dockerfile", Target: "x"}}
	for _, own := range []environment.Settings{named, built} {
		doc, err := json.Marshal(own)
		require.NoError(t, err)
		for _, configured := range []environment.Settings{named, built, {}} {
			got, err := WithStored(configured, store.Setup{ID: 1, Settings: doc})
			require.NoError(t, err)
			require.Equal(t, own.Image, got.Image)
			require.Equal(t, own.Dockerfile, got.Dockerfile)
		}
	}
	got, err := WithStored(built, store.Setup{ID: 1, Settings: []byte(`{"Setup": ["x"]}`)})
	require.NoError(t, err)
	require.Equal(t, built.Dockerfile, got.Dockerfile)
}
