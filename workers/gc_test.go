package main

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGOGCTakesPrecedenceOverTheWorkersOwnPercentage(t *testing.T) {
	before := debug.SetGCPercent(100)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	for value, want := range map[string]int{"": gcPercent, "100": 50, "off": 50} {
		debug.SetGCPercent(50) // as if the runtime had read it
		tuneGC(func(name string) string {
			require.Equal(t, "GOGC", name)
			return value
		})
		require.Equal(t, want, debug.SetGCPercent(50), "GOGC=%s", value)
	}
}
