package model

import (
	"regexp"
	"testing"

	"github.com/go-playground/validator/v10"
	"github.com/stretchr/testify/require"
)

func TestPublishedScoresAreValidAndAboutModelsOfTheCatalogue(t *testing.T) {
	t.Parallel()
	v := validator.New(validator.WithRequiredStructEnabled())
	known := map[string]bool{}
	for _, e := range DefaultCatalogue() {
		known[PlainName(e.Model)] = true
	}
	seen := map[string]bool{}
	for _, p := range publishedResults() {
		require.NoError(t, v.Struct(p), p.Model)
		require.True(t, known[PlainName(p.Model)], "%s is not in the catalogue", p.Model)
		require.False(t, seen[p.Model], "%s is there twice", p.Model)
		seen[p.Model] = true
		for _, s := range p.scores() {
			require.Greater(t, s.Value, 0.2, "%s: a fraction of 1", p.Model)
			require.Regexp(t, `^(SWE-bench Verified|GPQA Diamond), as published by `+regexp.QuoteMeta(p.Maker), s.Source)
		}
	}
	require.GreaterOrEqual(t, len(seen), 15)
}

func TestAModelHasItsMakersScoresAtEveryProvider(t *testing.T) {
	t.Parallel()
	c := DefaultCatalogue().WithPublishedScores(Learned{})
	for _, tc := range []struct {
		kind  Kind
		model string
	}{
		{KindAnthropic, "claude-opus-4-5"},
		{KindAnthropic, "claude-opus-4-5-20251101"},
		{KindOpenRouter, "anthropic/claude-opus-4.5"},
		{KindBedrock, "us.anthropic.claude-opus-4-5-20251101-v1:0"},
		{KindVertex, "claude-opus-4-5@20251101"},
	} {
		e, _ := c.Find(Provider{Name: "mine", Kind: tc.kind}, tc.model)
		value, scored := e.Score(ScoreAgenticCoding)
		require.True(t, scored, tc.model)
		require.InDelta(t, 0.809, value, 0, tc.model)
	}
	for _, name := range []string{"gpt-5", "gpt-5-2025-08-07"} {
		for _, kind := range []Kind{KindOpenAI, KindAzure} {
			e, _ := c.Find(Provider{Name: "mine", Kind: kind}, name)
			require.Equal(t, []Score{
				{Name: "agentic_coding", Value: 0.749, Source: "SWE-bench Verified, as published by OpenAI, Introducing GPT-5 for developers", Date: "2025-08-07"},
				{Name: "reasoning", Value: 0.857, Source: "GPQA Diamond, as published by OpenAI, Introducing GPT-5 for developers", Date: "2025-08-07"},
			}, e.Scores)
		}
	}
	for _, other := range []string{"gpt-5-mini", "gpt-5-pro", "gpt-5-nano"} {
		e, known := c.Find(Provider{Name: "openai", Kind: KindOpenAI}, other)
		require.True(t, known)
		require.Empty(t, e.Scores, "%s is another model than gpt-5", other)
	}
}

func TestScoresOfTheInstallationWinOverThoseOfTheMakers(t *testing.T) {
	t.Parallel()
	own := []Score{{Name: ScoreCoding, Value: 0.4, Source: "our own tests"}}
	c := Catalogue{{Provider: "openai", Model: "gpt-5", Scores: own}, {Provider: "openai", Model: "gpt-5.1"}}
	scored := c.WithPublishedScores(Learned{})
	require.Equal(t, own, scored[0].Scores, "none is mixed in")
	require.NotEmpty(t, scored[1].Scores)
	require.Empty(t, c[1].Scores, "the given catalogue stays as it was")

	require.NotEmpty(t, c.WithPublishedScores(Learned{Updates: Catalogue{{Provider: "openai", Model: "x"}}})[1].Scores, "an update of prices has no scores")
	stored := c.WithPublishedScores(Learned{Updates: Catalogue{{Provider: "openai", Model: "x", Scores: own}}})
	require.Empty(t, stored[1].Scores, "results of different benchmarks are not compared")
}

func TestStoredScoresOutliveTheSourceTheyWereStoredWith(t *testing.T) {
	t.Parallel()
	scores := []Score{{Name: ScoreCoding, Value: 0.4, Source: "LiveBench: a"}}
	c := Catalogue{{Provider: "openai", Model: "a", PriceIn: 1, SourceDate: "2027-01-01"}}.Learn(Learned{Updates: Catalogue{
		{Provider: "openai", Model: "a", PriceIn: 2, SourceDate: "2026-12-01", Scores: scores},
	}})
	e, _ := c.Find(Provider{Name: "openai", Kind: KindOpenAI}, "a")
	require.InDelta(t, 1, e.PriceIn, 0)
	require.Equal(t, scores, e.Scores)
}
