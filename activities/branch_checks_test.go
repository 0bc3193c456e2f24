package activities

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
)

func TestAMessageAboutABranchIsTheFailureThatItsTextTells(t *testing.T) {
	t.Parallel()
	red := func(details string) contract.CheckMessage {
		return contract.CheckMessage{ID: "1", Kind: contract.CheckRun, Name: "ci/unit", Conclusion: contract.ConclusionFailure, Details: details}
	}
	for name, c := range map[string]struct {
		message contract.CheckMessage
		class   contract.Class
		says    string
	}{
		"red test":    {red("--- FAIL: TestAdd (0.00s)\n    add_test.go:7: got 3, want 4\nFAIL\n"), contract.ClassAssertion, "add_test.go:7"},
		"no compile":  {red("./add.go:3:2: undefined: x\nFAIL\tadd [build failed]\n"), contract.ClassAssertion, "undefined: x"},
		"no setting":  {red("Error: configuration file settings.yaml not found: open settings.yaml: no such file or directory\n"), contract.ClassConfig, "settings.yaml"},
		"no network":  {red("dial tcp 10.0.0.1:443: connect: connection refused\n"), contract.ClassInfra, "refused"},
		"no words":    {red(""), contract.ClassAssertion, "ci/unit"},
		"unexplained": {red("it is not as it should be\n"), contract.ClassAssertion, "it is not as it should be"},
		"comment": {contract.CheckMessage{ID: "1", Kind: contract.CheckComment, Name: "x.go:3", Details: "connection refused is no good message"},
			contract.ClassAssertion, "is no good message"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := failureOfCheck(c.message)
			require.Equal(t, c.class, f.Class)
			require.Contains(t, f.Message+f.Cause, c.says)
			require.Contains(t, f.Message, c.message.Name)
			require.NotEmpty(t, f.Code)
		})
	}
}

func TestAHugeMessageMakesAShortFailure(t *testing.T) {
	t.Parallel()
	m := contract.CheckMessage{ID: "1", Name: "ci", Conclusion: contract.ConclusionFailure, Details: strings.Repeat("<\n", 1<<20), Summary: strings.Repeat("x", 1<<20)}.Truncate()
	f := failureOfCheck(m)
	require.Less(t, len(f.Message)+len(f.Cause), 4<<10)
}
