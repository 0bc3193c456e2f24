package contract_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
)

func TestAMessageThatWasCutFitsIntoAHistoryAndKeepsTheEndOfItsDetails(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"plain": "x", "escaped six times": "<", "control characters": "\x01", "of two bytes": "ü", "no UTF-8": "\xff", "quotes": "\"",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			long := strings.Repeat(text, 1<<20)
			m := contract.CheckMessage{ID: "1", Name: "n", Summary: long, Details: long + "the end", URL: long, By: long, Commit: long}.Truncate()
			raw, err := json.Marshal(m)
			require.NoError(t, err)
			require.Less(t, len(raw), contract.PayloadLimit)
			require.True(t, strings.HasSuffix(m.Details, "the end"))
			require.LessOrEqual(t, len(m.Details), contract.CheckText+len("…"))
			require.Equal(t, contract.CheckRun, m.Kind)
			require.Equal(t, m, m.Truncate(), "what fits stays as it is")
		})
	}
	short := contract.CheckMessage{ID: "1", Kind: contract.CheckComment, Name: "n", Details: "ü"}
	require.Equal(t, short, short.Truncate())
	require.True(t, utf8.ValidString(short.Details))
}

func TestAMessageIsAboutACommitThatItNamesInFullOrInShort(t *testing.T) {
	t.Parallel()
	commit := strings.Repeat("0123456789abcdef", 3)[:40]
	for named, want := range map[string]bool{commit: true, commit[:7]: true, commit[:6]: false, "": false, "012345g": false, commit + "0": false} {
		require.Equal(t, want, contract.CheckMessage{Commit: named}.About(commit), named)
	}
}
