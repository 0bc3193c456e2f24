package verify

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/runs/verdict"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
)

func TestACheckThatCannotStartNamesWhatIsMissing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		result sandbox.Result
		cause  string
	}{
		"the package manager":  {sandbox.Result{ExitCode: 127}, "npm"},
		"the runner":           {sandbox.Result{ExitCode: 127, Stderr: []byte("sh: 1: vitest: not found\n")}, "vitest"},
		"the runner, by pnpm":  {sandbox.Result{ExitCode: 1, Stdout: []byte("sh: 1: vitest: not found\n ELIFECYCLE  Test failed.\n")}, "vitest"},
		"no right to start it": {sandbox.Result{ExitCode: 126}, "npm"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := checkout(t, map[string]string{"package.json": `{"scripts":{"test":"vitest","lint":"eslint .","build":"tsc"}}`})
			for _, id := range []string{"test-node-1", "build-node"} {
				o := runWith(t, root, id, Env{Runner: always(c.result), Settings: detected()})
				require.False(t, o.OK)
				require.False(t, o.Started)
				require.Equal(t, []any{contract.CodeMissing, c.cause}, []any{o.Code, o.Cause})
				require.Contains(t, o.Message, "could not start: "+c.cause+" is not installed")
				require.Equal(t, contract.TestSummary{}, withoutTime(o.Summary), "what did not start is no test")
			}
			o := runWith(t, root, "lint-node", Env{Runner: always(c.result), Settings: detected()})
			require.True(t, o.OK, "a lint that cannot start says nothing about the code")
			require.False(t, o.Started)
			require.Len(t, o.Findings, 1)
			require.Equal(t, []any{contract.SeverityMinor, verdict.RuleUnavailable}, []any{o.Findings[0].Severity, o.Findings[0].Rule})
		})
	}
}

func TestAFailedCheckWhoseOutputMentionsMissingFilesHasStarted(t *testing.T) {
	t.Parallel()
	for _, result := range []sandbox.Result{
		{ExitCode: 1, Stdout: []byte("      Tests  1 failed | 2 passed (3)\n"), Stderr: []byte("sh: 1: vitest: not found\n")},
		{ExitCode: 1, Stderr: []byte("Error: Cannot find module './helper'\n")},
		{ExitCode: 0, Stdout: []byte("sh: 1: vitest: not found\n      Tests  3 passed (3)\n")},
	} {
		root := checkout(t, map[string]string{"package.json": `{"scripts":{"test":"vitest && tsd"}}`})
		o := runWith(t, root, "test-node-1", Env{Runner: always(result), Settings: detected()})
		require.True(t, o.Started, "%s", result.Stderr)
		require.NotEqual(t, contract.CodeMissing, o.Code)
	}
}
