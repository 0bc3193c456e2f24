package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/gate"
	"github.com/rocketgpt/orchestrator/internal/gate/change"
	"github.com/rocketgpt/orchestrator/internal/gate/gatetest"
	"github.com/rocketgpt/orchestrator/internal/gate/policy"
)

// gateResult is the time of judging changes of a number of files, with all guards and the default
// policies.
type gateResult struct {
	Files    int   `json:"files"`
	Times    int   `json:"times"`
	MedianMS int64 `json:"median_ms"`
	P95MS    int64 `json:"p95_ms"`
	// CPUMS is the processor time of one judgement, which other load on the machine hardly affects.
	CPUMS    int64 `json:"cpu_ms"`
	TargetMS int64 `json:"target_ms"` // of the 95th percentile
}

// gateSizes are the measured sizes, with how often each is judged.
var gateSizes = []struct {
	files, times int
	target       time.Duration
}{{20, 100, 150 * time.Millisecond}, {2000, 5, 2 * time.Second}}

// measureGate judges synthetic changes. The first judgement of each size, which compiles patterns, does
// not count.
func measureGate(ctx context.Context, say func(string, ...any)) ([]gateResult, error) {
	g, err := gate.New(ctx, config.Default())
	if err != nil {
		return nil, err
	}
	facts := gate.Facts{Stage: policy.StageRelease, Run: policy.Run{Pushes: true}}
	var out []gateResult
	for _, size := range gateSizes {
		say("Judging a change of %d files", size.files)
		c := gateChange(size.files)
		if _, err := g.Judge(ctx, c, facts); err != nil {
			return nil, err
		}
		var took []time.Duration
		used := processorTime()
		for range size.times {
			began := time.Now()
			if _, err := g.Judge(ctx, c, facts); err != nil {
				return nil, err
			}
			took = append(took, time.Since(began))
		}
		used = processorTime() - used
		slices.Sort(took)
		out = append(out, gateResult{
			Files: size.files, Times: size.times, MedianMS: took[len(took)/2].Milliseconds(), P95MS: took[(len(took)*95+99)/100-1].Milliseconds(),
			CPUMS: used.Milliseconds() / int64(size.times), TargetMS: size.target.Milliseconds(),
		})
	}
	return out, nil
}

// gateChange is a change of files in several languages, of about 130 lines each, in a repository that has
// ten times as many.
func gateChange(files int) change.Change {
	before := gatetest.Tree{"go.mod": "module example.org/a\n", "package.json": `{"name": "a", "main": "src/index.js"}`, "pyproject.toml": "[project]\n"}
	kinds := []struct{ path, unit string }{
		{"p%d/file%d.go", "// Sum%[1]d adds numbers.\nfunc Sum%[1]d(a, b int) int {\n\tif a > b {\n\t\treturn a + b + %[1]d\n\t}\n\treturn b\n}\n\n"},
		{"py%d/file%d.py", "def total_%[1]d(items, rate=%[1]d):\n    \"\"\"Add the items.\"\"\"\n    result = 0\n    for item in items:\n        result += item * rate\n    return result\n\n\n"},
		{"src%d/file%d.ts", "export function format%[1]d(value: number): string {\n  const text = value.toFixed(2);\n  if (text.length > %[1]d) {\n    return `${text} EUR`;\n  }\n  return text;\n}\n\n"},
		{"t%d/file%d_test.go", "func TestSum%[1]d(t *testing.T) {\n\tgot := Sum(1, %[1]d)\n\tif got != %[1]d {\n\t\tt.Fatalf(\"got %%d\", got)\n\t}\n}\n\n"},
		{"conf%d/file%d.yaml", "server%[1]d:\n  port: %[1]d\n  host: localhost\n  paths:\n    - /a/%[1]d\n    - /b/%[1]d\n"},
	}
	text := func(i, units int) (string, string) {
		k := kinds[i%len(kinds)]
		var b strings.Builder
		if strings.HasSuffix(k.path, ".go") {
			b.WriteString("package a\n\n")
		}
		for u := range units {
			fmt.Fprintf(&b, k.unit, u)
		}
		return fmt.Sprintf(k.path, i%40, i), b.String()
	}
	after := gatetest.Tree{}
	for i := range files * 10 {
		p, content := text(i, 16)
		before[p], after[p] = content, content
		if i < files {
			_, after[p] = text(i, 18)
		}
	}
	for _, p := range []string{"go.mod", "package.json", "pyproject.toml"} {
		after[p] = before[p]
	}
	c := gatetest.Between(before, after)
	c.Author = change.RoleRun
	return c
}

func (r results) printGate(out io.Writer) error {
	if len(r.Gate) == 0 {
		return nil
	}
	t := newTable(out, "Judging a change with all guards and the default policies, without a second model", "FILES", "TIMES", "MEDIAN", "P95", "LIMIT", "CPU TIME OF ONE", "")
	for _, g := range r.Gate {
		verdict := "within the limit"
		if g.P95MS > g.TargetMS {
			verdict = "over the limit"
		}
		t.row(fmt.Sprint(g.Files), fmt.Sprint(g.Times), ms(g.MedianMS), ms(g.P95MS), ms(g.TargetMS), ms(g.CPUMS), verdict)
	}
	return t.Flush()
}
