package oracle

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf16"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/eval/commits"
	"github.com/rocketgpt/orchestrator/internal/tool"
)

// Mark is a text that the description of a run's goal must contain. The scripted model uses it to
// distinguish the runs of one stack.
func Mark(c Commit) string { return "<oracle " + c.ID + ">" }

// stepID is the only step of a script's plan.
const stepID = "step-001"

// scriptUsage is the reported usage of a response. It is small and fixed, because a large diff must
// not exhaust a run's budget.
var scriptUsage = map[string]any{"prompt_tokens": 100, "completion_tokens": 20}

// Scenario returns the scenario that plays one commit of the repository whose git directory or work
// tree is repoDir. It applies only to runs whose goal or description contains the commit's Mark.
// For a commit that the tools cannot reproduce (binary files, symbolic links, modes, files beyond
// the tools' limits, merges), the error is a *commits.Unplayable with the path.
func Scenario(repoDir, commit string) ([]byte, error) {
	s, err := commits.Write(context.Background(), repoDir, commit)
	if err != nil {
		return nil, err
	}
	return Scenarios(s)
}

// Scenarios returns one scenario file that plays all scripts, each in runs with its Mark. Other
// requests match no rule, so a heal that calls a model fails. The file is JSON, which is valid
// YAML, and pure ASCII, because YAML parsers disagree about printable characters.
func Scenarios(scripts ...*Script) ([]byte, error) {
	rules := []any{}
	for _, s := range scripts {
		more, err := rulesOf(s)
		if err != nil {
			return nil, err
		}
		rules = append(rules, more...)
	}
	text, err := ascii(map[string]any{"rules": rules})
	return []byte(text + "\n"), err
}

// rulesOf returns the planner's response and the builder's turns.
func rulesOf(s *Script) ([]any, error) {
	answer, err := ascii(planOf(s))
	if err != nil {
		return nil, err
	}
	rules := []any{map[string]any{
		"when":  map[string]any{"agent": "planner", "contains": Mark(s.Commit)},
		"reply": map[string]any{"text": answer},
		"usage": scriptUsage,
	}}
	turns := slices.Collect(slices.Chunk(s.Calls, commits.TurnCalls))
	turns = append(turns, []Call{{Name: tool.Finish, Arguments: map[string]string{"summary": "Made the change: " + s.Subject}}})
	for i, turn := range turns {
		calls := []any{}
		for _, c := range turn {
			arguments, err := ascii(c.Arguments)
			if err != nil {
				return nil, err
			}
			calls = append(calls, map[string]any{"name": c.Name, "arguments": arguments})
		}
		rules = append(rules, map[string]any{
			"when":  map[string]any{"agent": "builder", "step": stepID, "turn": i + 1, "contains": Mark(s.Commit)},
			"reply": map[string]any{"tool_calls": calls},
			"usage": scriptUsage,
		})
	}
	return rules, nil
}

func planOf(s *Script) contract.Plan {
	return contract.Plan{
		Summary: s.Subject, ComplexityScore: 0.2,
		Steps: []contract.Step{{
			ID: stepID, Name: s.Subject, Description: "Make the change: " + s.Subject, Dependencies: []string{},
			EstimatedComplexity: contract.LevelLow, RiskLevel: contract.LevelLow,
			VerificationCriteria: []string{"All tests pass."}, Files: s.Files,
		}},
	}
}

// ascii encodes a value as JSON with everything except printable ASCII escaped.
func ascii(v any) (string, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("encode a scenario as JSON: %w", err)
	}
	var out strings.Builder
	for _, r := range string(text) {
		switch {
		case r < 0x7f:
			out.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&out, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return out.String(), nil
}
