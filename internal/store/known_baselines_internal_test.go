package store

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAProcessKeepsTheBaselinesThatItUsedLastAsFarAsTheyFit(t *testing.T) {
	t.Parallel()
	var k knownBaselines
	key := func(i int) string { return fmt.Sprint("baseline ", i) }
	keep := func(i, size int) { k.keep(knownBaseline{Baseline: Baseline{Key: key(i)}, size: size}) }
	kept := func(i int) bool { _, ok := k.of(key(i)); return ok }
	for i := range maxKnownBaselines {
		keep(i, 1)
	}
	require.True(t, kept(0), "now it is the one that was used last")
	keep(100, 1)
	require.True(t, kept(0))
	require.False(t, kept(1))
	require.Len(t, k.all, maxKnownBaselines)

	keep(200, maxKnownBaselineBytes-1)
	require.True(t, kept(0))
	require.Len(t, k.all, 2)
	keep(200, 5)
	require.Equal(t, 6, k.size, "it replaces itself")
	keep(200, maxKnownBaselineBytes+1)
	require.False(t, kept(200), "it is too large")
	require.True(t, kept(0))
	require.Equal(t, 1, k.size)
}
