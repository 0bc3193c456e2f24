package verify

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/sandbox"
	"github.com/rocketgpt/orchestrator/internal/verify/checks"
)

func TestARedCheckNamesTheHostsThatItWasRefused(t *testing.T) {
	t.Parallel()
	s := checks.Settings{Test: checks.StageSettings{Command: "t", Network: checks.Hosts{"a.org"}}}
	runner := always(sandbox.Result{ExitCode: 1, Refused: []string{"registry.npmjs.org:443", "evil.org:443", "evil.org:443"}})
	o := runWith(t, checkout(t, nil), "test-configured-1", Env{Runner: runner, Settings: s, Proxy: noting(nil)})
	require.Contains(t, strings.Join(located(o), "\n"),
		"the command tried to reach hosts that are not allowed: evil.org:443, registry.npmjs.org:443. Only the operator can allow them, in verification.test.network")

	runner = always(sandbox.Result{Refused: []string{"evil.org:443"}})
	o = runWith(t, checkout(t, nil), "test-configured-1", Env{Runner: runner, Settings: s, Proxy: noting(nil)})
	require.NotContains(t, strings.Join(located(o), "\n"), "evil.org", "a command that ended well did without")

	var many []string
	for n := range 1000 {
		many = append(many, fmt.Sprintf("%03d%s:443", n, strings.Repeat("x", 300)))
	}
	s = checks.Settings{Custom: []checks.Custom{{Name: "c", Command: "c"}}}
	o = runWith(t, checkout(t, nil), "custom-c", Env{Runner: always(sandbox.Result{ExitCode: 1, Refused: many}), Settings: s})
	text := strings.Join(located(o), "\n")
	require.Contains(t, text, "and 995 more")
	require.Less(t, len(text), 2000)
}

func TestACheckHasAProxyOnlyForItsHosts(t *testing.T) {
	t.Parallel()
	s := checks.Settings{Test: checks.StageSettings{Command: "t", Network: checks.Hosts{"b.org", "a.org"}}, Lint: checks.StageSettings{Command: "l"}}
	var asked [][]string
	runner := always(sandbox.Result{})
	runWith(t, checkout(t, nil), "lint-configured", Env{Runner: runner, Settings: s, Proxy: noting(&asked)})
	runWith(t, checkout(t, nil), "test-configured-1", Env{Runner: runner, Settings: s, Proxy: noting(&asked)})
	runWith(t, checkout(t, nil), "test-configured-1", Env{Runner: runner, Settings: s})
	require.Equal(t, [][]string{{"b.org", "a.org"}}, asked)
	require.Nil(t, runner.commands[0].Proxy)
	require.NotNil(t, runner.commands[1].Proxy)
	require.Nil(t, runner.commands[2].Proxy, "a worker without a proxy gives none")
}

func TestRunsOfBeforeThereWereListsHaveNoNetwork(t *testing.T) {
	t.Parallel()
	var s checks.Settings
	require.NoError(t, json.Unmarshal([]byte(`{"build": {"network": true}, "test": {"network": false}, "lint": {"network": ["a.org"]}, "security": {"network": null}}`), &s))
	require.Empty(t, s.Build.Network)
	require.Empty(t, s.Test.Network)
	require.Equal(t, checks.Hosts{"a.org"}, s.Lint.Network)
	require.Error(t, json.Unmarshal([]byte(`{"build": {"network": 7}}`), &s))
}
