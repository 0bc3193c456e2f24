package prompt

import (
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
)

// ReviewTask is the data for the prompt of a reviewer, who reviews the change of a run.
type ReviewTask struct {
	GoalTitle       string
	GoalDescription string
	Plan            string // summary, steps and their criteria
	Checks          []string
	Files           []string // changed ones, with the numbers of changed lines
	Diff            string   // with line numbers
	Unshown         []string // changed files of which a part is missing in Diff
	Earlier         []contract.ReviewFinding
}

// List returns the lines of a list as one text.
func (ReviewTask) List(lines []string) string { return "- " + strings.Join(lines, "\n- ") }

// Before returns the findings of the earlier review, with the answers to them.
func (t ReviewTask) Before() string { return ReviewFindings(t.Earlier) }

// Review renders the prompt of a reviewer.
func Review(task ReviewTask) (Prompt, error) { return render("review", task) }

// ReviewFindings lists findings of a review for an agent, with the answers to them. What they say is a
// model's, so the list belongs into a fence.
func ReviewFindings(all []contract.ReviewFinding) string {
	var b strings.Builder
	for _, f := range all {
		b.WriteString(f.ID + " (" + string(f.Item) + ", " + string(f.Severity) + ") " + contract.GateReason{Path: f.Path, Line: f.Line, Text: f.What}.String() + "\n")
		if f.Action != "" {
			b.WriteString("  To do: " + f.Action + "\n")
		}
		if f.Answer != "" {
			b.WriteString("  Answer: " + f.Answer + "\n")
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}
