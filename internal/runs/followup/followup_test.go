package followup

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTextsAreBoundedAndBeginWithTheNewestRun(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", diffBytes)
	all := []Work{Work{RunID: 1, Goal: "first", Diff: long, Said: []string{"a", "b", "c"}, Told: []string{"told"}}.shortened(), {RunID: 2, Goal: "second", Diff: long, Later: "By hand"}}
	texts := Texts(all, 4000)
	require.Equal(t, Text{"run 2: its goal", "second"}, texts[0])
	size := 0
	for _, one := range texts {
		size += len(one.Text)
	}
	require.LessOrEqual(t, size, 4000)
	whole := Texts(all, 1<<20)
	require.Contains(t, whole, Text{"run 1: its goal", "first"})
	require.Contains(t, whole, Text{"run 1: what its agents said when they finished", "b\nc"})
	require.Contains(t, whole, Text{"run 2: commits that others added after it", "By hand"})
	require.NotContains(t, whole, Text{"run 1: its change", long}, "it is in the repository")
	require.NotContains(t, whole, Text{"run 1: messages of people to its agents", "told"})
}
