package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store/views"
)

// planOf returns the plan of a run, and whether it has one.
func planOf(d views.RunDetails) (contract.Plan, bool) {
	var out struct {
		Plan contract.Plan `json:"plan"`
	}
	err := json.Unmarshal(d.PlannerOutput, &out)
	return out.Plan, err == nil && len(out.Plan.Steps) > 0
}

// printPlan shows a plan to somebody who is to judge it.
func printPlan(w io.Writer, p contract.Plan) {
	fmt.Fprintf(w, "Plan (complexity %.2f): %s\n", p.ComplexityScore, oneLine(p.Summary))
	for _, s := range p.Steps {
		facts := []string{}
		if s.EstimatedComplexity != "" && s.RiskLevel != "" {
			facts = append(facts, string(s.EstimatedComplexity)+" complexity", string(s.RiskLevel)+" risk")
		}
		if len(s.Dependencies) > 0 {
			facts = append(facts, "after "+strings.Join(s.Dependencies, ", "))
		}
		fmt.Fprintf(w, "  %s  %s", clean(s.ID), oneLine(s.Name))
		if len(facts) > 0 {
			fmt.Fprintf(w, " (%s)", oneLine(strings.Join(facts, ", ")))
		}
		fmt.Fprintln(w)
		fmt.Fprintf(w, "      %s\n", oneLine(s.Description))
		if len(s.Files) > 0 {
			fmt.Fprintf(w, "      files: %s\n", oneLine(strings.Join(s.Files, ", ")))
		}
		for _, c := range s.VerificationCriteria {
			fmt.Fprintf(w, "      done when: %s\n", oneLine(c))
		}
	}
}

// oneLine keeps a model's text from looking like output of this program.
func oneLine(text string) string { return strings.Join(strings.Fields(clean(text)), " ") }
