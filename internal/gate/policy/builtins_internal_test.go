package policy

import (
	"strings"
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/stretchr/testify/require"
)

func TestPoliciesHaveNoFunctionsWithOtherInputsOrEffects(t *testing.T) {
	t.Parallel()
	known := map[string]*ast.Builtin{}
	for _, b := range ast.CapabilitiesForThisVersion().Builtins {
		known[b.Name] = b
	}
	for _, b := range capabilities().Builtins {
		require.False(t, b.Nondeterministic, b.Name)
		for _, prefix := range []string{"http.", "net.", "opa.", "rand.", "uuid.", "io.", "providers.", "trace", "rego.", "time.now"} {
			require.False(t, strings.HasPrefix(b.Name, prefix), b.Name)
		}
	}
	for _, name := range strings.Fields(functions) {
		require.Contains(t, known, name, "OPA has such a function")
	}
	require.Len(t, capabilities().Builtins, len(strings.Fields(functions)))
}
