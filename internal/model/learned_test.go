package model

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAnUpdateCountsUntilTheProgramKnowsALaterSource(t *testing.T) {
	t.Parallel()
	c := Catalogue{
		{Provider: "openai", Model: "a", PriceIn: 1, SourceDate: "2026-11-20"},
		{Provider: "openai", Model: "b", PriceIn: 1, SourceDate: "2027-01-01"},
	}.Learn(Learned{Updates: Catalogue{
		{Provider: "openai", Model: "a", PriceIn: 2, SourceDate: "2026-12-01"},
		{Provider: "openai", Model: "b", PriceIn: 2, SourceDate: "2026-12-01"},
		{Provider: "openai", Model: "c", PriceIn: 2, SourceDate: "2026-12-01"},
	}})
	p := Provider{Name: "openai", Kind: KindOpenAI}
	for name, price := range map[string]float64{"a": 2, "b": 1, "c": 2} {
		e, known := c.Find(p, name)
		require.True(t, known)
		require.InDelta(t, price, e.PriceIn, 0, name)
	}
}

func TestWhatWasFoundAtAProviderReplacesTheCatalogue(t *testing.T) {
	t.Parallel()
	p := Provider{Name: "mine", Kind: KindOpenAI}
	at := time.Date(2026, 11, 26, 1, 0, 0, 0, time.UTC)
	c := Catalogue{{Provider: "openai", Model: "m", PriceIn: 1, Capabilities: []Capability{CapabilityTools, CapabilityJSONSchema, CapabilityFixedTemperature}}}.Correct([]Checked{
		{Provider: "mine", Model: "m", At: at, Found: map[Capability]bool{CapabilityJSONSchema: false, CapabilityVision: true, CapabilityTools: true}},
		{Provider: "mine", Model: "new", At: at, Found: map[Capability]bool{CapabilityJSONSchema: false, CapabilityTools: true}},
		{Provider: "removed", Model: "m", At: at, Found: map[Capability]bool{CapabilityTools: false}},
	}, []Provider{p})
	e, known := c.Find(p, "m")
	require.True(t, known)
	require.Equal(t, []Capability{CapabilityTools, CapabilityFixedTemperature, CapabilityVision}, e.Capabilities, "what was not tried stays")
	require.Equal(t, "2026-11-26", e.Checked)
	require.InDelta(t, 1, e.PriceIn, 0)
	require.True(t, e.FoundNot(CapabilityJSONSchema))
	require.False(t, e.FoundNot(CapabilityStreaming), "it was not tried")

	e, known = c.Find(p, "new")
	require.False(t, known, "its price is still a guess")
	require.True(t, e.Assumed)
	require.Equal(t, []Capability{CapabilityTools}, e.Capabilities)

	e, _ = c.Find(Provider{Name: "other", Kind: KindOpenAI}, "m")
	require.True(t, e.Can(CapabilityJSONSchema), "another provider was not tried")
}

func TestACheckKeepsWhatAnEarlierOneFoundAndItDidNot(t *testing.T) {
	t.Parallel()
	earlier := []Checked{
		{Provider: "p", Model: "m", Found: map[Capability]bool{CapabilityTools: true, CapabilityVision: true}},
		{Provider: "p", Model: "other", Found: map[Capability]bool{CapabilityEffort: true}},
	}
	now := Checked{Provider: "p", Model: "m", At: time.Unix(9, 0), Found: map[Capability]bool{CapabilityTools: false}}
	require.Equal(t, Checked{Provider: "p", Model: "m", At: time.Unix(9, 0), Found: map[Capability]bool{CapabilityTools: false, CapabilityVision: true}}, now.After(earlier))
	require.Equal(t, map[Capability]bool{CapabilityTools: true, CapabilityVision: true}, earlier[0].Found, "unchanged")
}
