package checks

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/verify/output"
)

func TestCoverageOfOneRunnerKeepsItsReporter(t *testing.T) {
	t.Parallel()
	for scripts, want := range map[string]output.Format{
		`"test":"c8 node --test && c8 report --reporter=lcov"`: output.FormatTAP,
		`"test":"node --test && deno test"`:                    output.FormatAuto,
	} {
		var m manifest
		require.NoError(t, json.Unmarshal([]byte(`{"scripts":{`+scripts+`}}`), &m))
		require.Equal(t, want, nodeProject{dir: ".", manifest: m, manager: "npm"}.reporting(&checkout{}, scriptCall{script: "test"}).Format, scripts)
	}
}
