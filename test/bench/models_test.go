package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheBenchFailsWhenCachingSavesTooLittle(t *testing.T) {
	t.Parallel()
	good := modelResult{API: "good", Share: 0.9, Saved: 0.7}
	require.NoError(t, missedTargets([]modelResult{good, {API: "just enough", Share: aimCached, Saved: aimSaved}}))
	require.EqualError(t, missedTargets([]modelResult{good, {API: "fresh", Share: 0.84, Saved: 0.7}, {API: "dear", Share: 0.9, Saved: 0.5}}),
		"targets missed: fresh: 84.0 % of the prompt tokens were cached, less than 85.0 %; dear: caching saved 50.0 % of the cost, less than 60.0 %")
}
