package ui

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
)

func TestOnlyFilesThatAreServedAsImagesAreShownAsPictures(t *testing.T) {
	t.Parallel()
	file := func(name string, size int64) contract.Artifact {
		return contract.Artifact{Name: name, Type: contract.ArtifactScreenshot, Size: size}
	}
	require.True(t, isPicture(file("a/failed.PNG", 10)))
	require.False(t, isPicture(file("a/failed.svg", 10)))
	require.False(t, isPicture(file("a/failed.png", ShownPicture+1)))
	require.False(t, isPicture(contract.Artifact{Name: "a.png", Type: contract.ArtifactLog}))
}
