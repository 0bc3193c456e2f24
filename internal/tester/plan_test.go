package tester

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/pin"
)

func TestAQuarantinedTestIsTouchedIfItsHelperChecksLess(t *testing.T) {
	t.Parallel()
	const helper = "package x\n\nimport \"testing\"\n\nfunc check(t *testing.T, n int) {\n\tif n > 2 {\n\t\tt.Error(n)\n\t}\n}\n"
	const tests = "package x\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) { check(t, A()) }\n\nfunc TestB(t *testing.T) { t.Fatal(B()) }\n"
	quarantine := []contract.QuarantinedTest{{Test: "x.TestA"}, {Test: "x.TestB"}}
	entries, err := untouched(t.Context(), quarantine, []pin.File{
		{Path: "helper_test.go", Before: []byte(helper), After: []byte("package x\n\nimport \"testing\"\n\nfunc check(t *testing.T, n int) {}\n"), Existed: true, Exists: true},
		{Path: "x_test.go", Before: []byte(tests), After: []byte(tests), Existed: true, Exists: true},
	})
	require.NoError(t, err)
	require.Len(t, entries, 2)
	require.NotEmpty(t, entries[0].Ignored, "its own text is the same")
	require.Empty(t, entries[1].Ignored)
}
