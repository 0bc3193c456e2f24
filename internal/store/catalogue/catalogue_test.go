package catalogue_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/store/catalogue"
	"github.com/rocketgpt/orchestrator/internal/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(storetest.Main(m)) }

func TestWhatIsStoredReplacesWhatWasStoredOfTheSameModel(t *testing.T) {
	t.Parallel()
	s := catalogue.New(storetest.New(t))
	empty, err := s.Read(t.Context())
	require.NoError(t, err)
	require.Zero(t, empty)

	a := model.CatalogueEntry{
		Provider: "openai", Model: "a", ContextWindow: 9, PriceIn: 1.25, PriceOut: 10, LongContext: &model.LongContext{Above: 5, PriceIn: 2},
		Capabilities: []model.Capability{model.CapabilityTools}, Scores: []model.Score{{Name: "coding", Value: 0.5, Source: "s", Date: "2026-01-08"}},
		Deprecated: "2027-01-01", Source: "litellm", SourceDate: "2026-11-20",
	}
	b := model.CatalogueEntry{Provider: "openai", Model: "b", PriceIn: 3}
	require.NoError(t, s.Update(t.Context(), model.Catalogue{a, b}, "ada"))
	a.PriceIn = 2
	require.NoError(t, s.Update(t.Context(), model.Catalogue{a}, "ada"))
	require.NoError(t, s.Update(t.Context(), nil, "ada"), "nothing changed")
	for _, found := range []bool{false, true} {
		require.NoError(t, s.Check(t.Context(), model.Checked{
			Provider: "openai", Model: "a", Found: map[model.Capability]bool{model.CapabilityVision: found}, At: time.Unix(1, 0).UTC(),
		}, "ada"))
	}
	all, err := s.Read(t.Context())
	require.NoError(t, err)
	require.Equal(t, model.Catalogue{a, b}, all.Updates)
	require.Equal(t, []model.Checked{{Provider: "openai", Model: "a", Found: map[model.Capability]bool{model.CapabilityVision: true}, At: time.Unix(1, 0).UTC()}}, all.Checks)

	n, err := s.Reset(t.Context(), "ada")
	require.NoError(t, err)
	require.EqualValues(t, 3, n)
	empty, err = s.Read(t.Context())
	require.NoError(t, err)
	require.Zero(t, empty)
}
