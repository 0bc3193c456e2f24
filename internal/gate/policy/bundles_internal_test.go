package policy

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/open-policy-agent/opa/v1/tester"
	"github.com/stretchr/testify/require"
)

func TestTheBuiltInBundlesPassTheirOwnTests(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob("bundles/*.rego")
	require.NoError(t, err)
	var modules []Module
	for _, name := range names {
		content, err := os.ReadFile(name)
		require.NoError(t, err)
		modules = append(modules, Module{Name: name, Content: content})
	}
	parsed, err := parse(modules, "", nil)
	require.NoError(t, err)
	results, err := tester.NewRunner().SetTimeout(DefaultTimeout).SetModules(parsed).RunTests(t.Context(), nil)
	require.NoError(t, err)
	count := 0
	for r := range results {
		count++
		require.True(t, r.Pass(), "%s: %v", r.Name, r.Error)
	}
	require.GreaterOrEqual(t, count, 11)
}

func TestTestsOfADirectoryReportWhatFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	run := func(o TestOptions) (bool, string, error) {
		var out bytes.Buffer
		o.Out = &out
		ok, err := RunTests(t.Context(), dir, o)
		return ok, out.String(), err
	}
	write("ours.rego", "package operator\nimport data.rgpt.lib\ndeny contains \"no\" if {\n\tlib.final\n\tinput.run.pushes\n}\n")
	write("ours_test.rego", `package operator_test
import data.operator
import data.rgpt.defaults
test_a_push_is_denied if count(operator.deny) == 1 with input as {"stage": "release", "run": {"pushes": true}}
test_built_in_bundles_can_be_tested_too if count(defaults.deny) == 0 with input as {"findings": []}
test_wrong if { print("stage", 1); count(operator.deny) == 1 with input as {"stage": "step"} }
`)
	ok, out, err := run(TestOptions{Verbose: true})
	require.NoError(t, err)
	require.False(t, ok)
	require.Contains(t, out, "test_wrong: FAIL")
	require.Contains(t, out, "stage 1")
	require.Contains(t, out, "PASS: 2/3")
	ok, out, err = run(TestOptions{Run: "built_in|push", JSON: true})
	require.NoError(t, err)
	require.True(t, ok)
	require.Contains(t, out, `"name": "test_a_push_is_denied"`)
	_, _, err = run(TestOptions{Run: "nothing"})
	require.ErrorContains(t, err, "found no tests")
	write("ours.rego", "package operator\ndeny if true")
	_, _, err = run(TestOptions{})
	require.ErrorContains(t, err, "ours.rego:2")
}

// Adding a reason never makes a verdict milder, whatever else there is.
func TestTheStrictestReasonDecides(t *testing.T) {
	t.Parallel()
	all := []Decision{Deny, NeedsApproval, Allow}
	for _, a := range all {
		for _, b := range all {
			v := decide([]Reason{{ID: "1", Decision: a}, {ID: "2", Decision: b}}, nil, true)
			require.Equal(t, min(a.rank(), b.rank()), v.Decision.rank())
			require.Equal(t, v.Decision == Allow, v.Automerge)
		}
	}
}
