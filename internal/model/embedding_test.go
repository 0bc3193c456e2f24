package model

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestBatchesKeepAllTextsInOrderWithinTheLimits(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limits := EmbeddingLimits{Texts: rapid.IntRange(1, 5).Draw(t, "texts"), Tokens: rapid.Int64Range(20, 200).Draw(t, "tokens")}
		texts := []string{}
		for i, n := range rapid.SliceOfN(rapid.IntRange(0, 600), 0, 30).Draw(t, "sizes") {
			texts = append(texts, strings.Repeat(string(rune('a'+i%26)), n))
		}
		all := []string{}
		for rest := texts; len(rest) > 0; {
			batch := limits.Batch(rest)
			require.NotEmpty(t, batch)
			require.LessOrEqual(t, len(batch), limits.Texts)
			tokens := int64(0)
			for _, text := range batch {
				tokens += EmbeddingTokens(text)
			}
			require.True(t, tokens <= limits.Tokens || len(batch) == 1, "%d tokens", tokens)
			all, rest = append(all, batch...), rest[len(batch):]
			if len(rest) > 0 {
				require.True(t, len(batch) == limits.Texts || tokens+EmbeddingTokens(rest[0]) > limits.Tokens, "no batch is smaller than necessary")
			}
		}
		require.Equal(t, texts, all)
	})
}

func TestTheCatalogueLimitsTheTextsOfACall(t *testing.T) {
	t.Parallel()
	require.Equal(t, 10, CatalogueEntry{MaxTexts: 10}.EmbeddingLimits(KindOpenAI).Texts)
	require.Equal(t, 100, CatalogueEntry{}.EmbeddingLimits(KindGemini).Texts)
	require.Equal(t, 32, CatalogueEntry{}.EmbeddingLimits(KindCompatible).Texts)
}
