package fault

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"
)

func TestHintsNeverHideWhatAPatternWouldFind(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/corpus/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		var samples []struct{ Name, Text string }
		require.NoError(t, yaml.Unmarshal(data, &samples))
		for _, s := range samples {
			text := Clip(readable(s.Text), maxScanLine)
			for _, r := range recognisers {
				r.exits = nil
				if r.pattern.MatchString(text) {
					require.True(t, r.applies(Output{}, strings.ToLower(text)), "%s: %s is hidden by its hints %q", s.Name, r.family, r.hints)
				}
			}
		}
	}
}

func TestARecogniserHasAFamilyAndAMeaning(t *testing.T) {
	t.Parallel()
	for _, r := range recognisers {
		require.NotEmpty(t, r.family)
		require.NotEmpty(t, r.is.class, r.family)
		require.NotEmpty(t, r.is.code, r.family)
		require.NotEmpty(t, r.is.todo, r.family)
		for _, hint := range r.hints {
			require.Equal(t, strings.ToLower(hint), hint, "%s: the output is compared in lower case", r.family)
		}
	}
}
