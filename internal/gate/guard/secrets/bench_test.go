package secrets_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/gate/change"
	"github.com/rocketgpt/orchestrator/internal/gate/gatetest"
	"github.com/rocketgpt/orchestrator/internal/gate/guard/secrets"
)

func sorted(m map[string]string) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	for i := range out {
		for j := i; j > 0 && out[j] < out[j-1]; j-- {
			out[j], out[j-1] = out[j-1], out[j]
		}
	}
	return out
}

func containsAny(all []string, part string) bool {
	for _, s := range all {
		if strings.Contains(s, part) {
			return true
		}
	}
	return false
}

// patch is a change of n files with 40 added lines of Go each.
func patch(b testing.TB, n int) change.Change {
	source, err := os.ReadFile("guard.go")
	require.NoError(b, err)
	lines := strings.SplitAfter(string(source), "\n")
	before, after := gatetest.Tree{}, gatetest.Tree{}
	for i := range n {
		path := fmt.Sprintf("pkg%d/file%d.go", i%40, i)
		before[path] = strings.Join(lines[:100], "")
		after[path] = strings.Join(lines[:60], "") + strings.Join(lines[100:140], "") + strings.Join(lines[60:100], "")
	}
	return gatetest.Between(before, after)
}

func BenchmarkJudge(b *testing.B) {
	for _, n := range []int{20, 2000} {
		c := patch(b, n)
		b.Run(fmt.Sprintf("files=%d", n), func(b *testing.B) {
			for b.Loop() {
				if _, err := secrets.Guard.Judge(context.Background(), c); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func FuzzJudge(f *testing.F) {
	for _, s := range settings(newSource(3)) {
		f.Add(s.path, "", s.text)
	}
	f.Fuzz(func(t *testing.T, path, before, after string) {
		c := change.Change{Files: []change.File{{Path: path, Before: gatetest.File(before), After: gatetest.File(after)}}, Texts: []change.Text{{Name: path, Content: after}}}
		if _, err := secrets.Guard.Judge(context.Background(), c); err != nil {
			t.Fatal(err)
		}
	})
}
