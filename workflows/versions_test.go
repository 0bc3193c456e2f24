package workflows

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// versionIDs returns the IDs with which Go source asks Temporal for versions.
func versionIDs(t *testing.T, source []byte) (ids []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "", source, 0)
	require.NoError(t, err)
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if f, ok := call.Fun.(*ast.SelectorExpr); !ok || f.Sel.Name != "GetVersion" {
			return true
		}
		literal, ok := call.Args[1].(*ast.BasicLit)
		require.True(t, ok, "the ID of a version is a literal, so that it can be found")
		id, err := strconv.Unquote(literal.Value)
		require.NoError(t, err)
		ids = append(ids, id)
		return true
	})
	return ids
}

func TestEachVersionedChangeIsListedWithItsReason(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"a", "b"}, versionIDs(t, []byte(`package p; func f() { workflow.GetVersion(ctx, "a", -1, 1); g(workflow.GetVersion(ctx, "b", -1, 2)) }`)))
	var used, listed []string
	require.NoError(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		if err == nil {
			used = append(used, versionIDs(t, source)...)
		}
		return err
	}))
	for _, c := range changes {
		_, err := time.Parse(time.DateOnly, c.Date)
		require.NoError(t, err, c.ID)
		require.NotEmpty(t, c.Reason, c.ID)
		require.NotEmpty(t, c.Remove, c.ID)
		listed = append(listed, c.ID)
	}
	slices.Sort(used)
	require.Equal(t, listed, slices.Compact(used), "changes in versions.go, in the order of their IDs, and the code's")
}
