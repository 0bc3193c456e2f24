package output

import (
	"encoding/json"
	"errors"

	"github.com/rocketgpt/orchestrator/contract"
)

// gitleaksFinding is one secret in the report of gitleaks. It has no fields for Match and Secret:
// whatever they contain is never read.
type gitleaksFinding struct {
	RuleID      string  `json:"RuleID"`
	Description string  `json:"Description"`
	File        string  `json:"File"`
	StartLine   int     `json:"StartLine"`
	EndLine     int     `json:"EndLine"`
	Entropy     float32 `json:"Entropy"`
}

// parseGitleaks reads the report of gitleaks in its format json. Its rules have no severity; a
// secret is major.
func parseGitleaks(data []byte, s Paths) (Results, error) {
	var doc []gitleaksFinding
	if err := json.Unmarshal(data, &doc); err != nil {
		return Results{}, err
	}
	if doc == nil {
		return Results{}, errors.New("it is not a report of gitleaks")
	}
	var out Results
	for _, f := range doc {
		text := title(f.Description)
		if text == "" {
			text = "Detected a secret"
		}
		out.Problems = append(out.Problems, Problem{
			Level: Error, Severity: contract.SeverityMajor, Path: s.Rel(f.File), Line: max(0, f.StartLine), Rule: Name(f.RuleID),
			Message: Message(text), Secret: &Secret{EndLine: f.EndLine, Entropy: f.Entropy},
		})
	}
	return out, nil
}
