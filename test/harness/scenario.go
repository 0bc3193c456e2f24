package harness

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"
)

// Rules are the rules of a scripted model's scenario.
type Rules []map[string]any

// Goal returns the goal of the runs that the rules Named(name) apply to.
func Goal(name string) string { return "Improve the sample, as in " + mark(name) }

// mark returns the text by which the scripted model distinguishes the runs of one stack.
func mark(name string) string { return "<scenario " + name + ">" }

// Named restricts rules to runs whose goal is Goal(name), so one stack can serve many scenarios at
// the same time.
func (r Rules) Named(name string) Rules {
	out := make(Rules, len(r))
	for i, rule := range r {
		out[i] = map[string]any{}
		maps.Copy(out[i], rule)
		when := map[string]any{}
		if old, ok := rule["when"].(map[string]any); ok {
			maps.Copy(when, old)
		}
		if _, own := when["contains"]; !own {
			when["contains"] = mark(name)
		}
		out[i]["when"] = when
	}
	return out
}

// ReadRules reads a scenario file.
func ReadRules(tb testing.TB, file string) Rules {
	tb.Helper()
	text, err := os.ReadFile(file)
	require.NoError(tb, err)
	var doc struct {
		Rules Rules `yaml:"rules"`
	}
	require.NoError(tb, yaml.Unmarshal(text, &doc), file)
	return doc.Rules
}

// ReadScenarios reads scenario files as one scenario. The rules of each are named after its file,
// without directory and extension.
func ReadScenarios(tb testing.TB, globs ...string) Rules {
	tb.Helper()
	var all Rules
	for _, glob := range globs {
		files, err := filepath.Glob(glob)
		require.NoError(tb, err)
		require.NotEmpty(tb, files, glob)
		for _, file := range files {
			all = append(all, ReadRules(tb, file).Named(strings.TrimSuffix(filepath.Base(file), ".yaml"))...)
		}
	}
	return all
}

// Write writes the rules as a scenario file. JSON is YAML.
func (r Rules) Write(tb testing.TB, file string) string {
	tb.Helper()
	text, err := json.Marshal(map[string]any{"rules": r})
	require.NoError(tb, err)
	require.NoError(tb, os.WriteFile(file, text, 0o600))
	return file
}

// Step is a step of a plan and the calls of its agent in each turn.
type Step struct {
	ID    string
	Needs []string
	Turns [][]Call
}

// Call is a tool call.
type Call struct {
	Name      string
	Arguments any
}

// Finish is the call that ends a step.
func Finish(summary string) Call {
	return Call{"finish", map[string]any{"summary": summary}}
}

// PlanRules returns rules for a planner that plans the steps and a builder that carries them out.
// Each model call has the given latency.
func PlanRules(latency string, steps ...Step) Rules {
	var plan []any
	var out Rules
	for _, s := range steps {
		needs := s.Needs
		if needs == nil {
			needs = []string{}
		}
		plan = append(plan, map[string]any{
			"id": s.ID, "name": "Do " + s.ID, "description": "Carry out " + s.ID + ".", "dependencies": needs,
			"estimated_complexity": "low", "risk_level": "low", "verification_criteria": []string{}, "files": []string{},
		})
		for i, calls := range s.Turns {
			out = append(out, turnRule(latency, s.ID, i+1, calls))
		}
	}
	planner := map[string]any{
		"when": map[string]any{"agent": "planner"}, "latency": latency,
		"reply": map[string]any{"json": map[string]any{"summary": "A plan.", "complexity_score": 0.2, "steps": plan}},
		"usage": map[string]any{"prompt_tokens": 500, "completion_tokens": 100},
	}
	return append(Rules{planner}, out...)
}

func turnRule(latency, step string, turn int, calls []Call) map[string]any {
	var list []any
	for _, c := range calls {
		list = append(list, map[string]any{"name": c.Name, "arguments": c.Arguments})
	}
	return map[string]any{
		"when": map[string]any{"agent": "builder", "step": step, "turn": turn}, "latency": latency,
		"reply": map[string]any{"tool_calls": list},
		"usage": map[string]any{"prompt_tokens": 100 * turn, "completion_tokens": 20},
	}
}
