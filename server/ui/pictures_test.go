package ui

import (
	"strings"
	"testing"
	"time"

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

func TestAPictureOfAGoalIsShownWhileItIsStored(t *testing.T) {
	t.Parallel()
	shows := func(f contract.Artifact) string {
		var out strings.Builder
		require.NoError(t, goalPictures([]contract.Artifact{f}).Render(t.Context(), &out))
		return out.String()
	}
	f := contract.Artifact{ID: 7, RunID: 3, Name: "goal/1-<mock>.png", Type: contract.ArtifactFile, Size: 10}
	require.Contains(t, shows(f), `<img src="/runs/3/artifacts/7/content" alt="1-&lt;mock&gt;.png"`)
	large := f
	large.Size = ShownPicture + 1
	require.NotContains(t, shows(large), "<img")
	at := time.Now()
	f.DeletedAt = &at
	require.NotContains(t, shows(f), "<img")
	require.Contains(t, shows(f), "1-&lt;mock&gt;.png")
}
