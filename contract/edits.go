package contract

import (
	"fmt"
	"slices"
	"strings"
)

// Edit is a replacement of text in a file, or a new file.
type Edit struct {
	Path       string `json:"path" jsonschema:"minLength=1,description=File within the repository"`
	OldText    string `json:"old_text,omitempty" jsonschema:"description=Text to replace with the same spaces and line breaks: it must occur exactly once. Empty: create the file"`
	NewText    string `json:"new_text" jsonschema:"description=Replacement or whole content"`
	ReplaceAll bool   `json:"replace_all,omitempty" jsonschema:"description=Replace every occurrence"`
}

// editProblems returns why the plan's edits cannot be made, apart from the content of files.
func (p *Plan) editProblems() []PlanProblem {
	var out []PlanProblem
	add := func(format string, args ...any) {
		out = append(out, PlanProblem{Problem: fmt.Sprintf(format, args...)})
	}
	if len(p.Edits) > 0 && len(p.Steps) != 1 {
		add("only a plan with exactly one step can have edits, and this one has %d", len(p.Steps))
	}
	if len(p.Edits) > MaxEdits {
		add("the plan has %d edits, more than the %d allowed", len(p.Edits), MaxEdits)
	}
	if size := p.EditBytes(); size > MaxEditBytes {
		add("the plan's edits take up %d bytes, more than the %d allowed", size, MaxEditBytes)
	}
	for _, e := range p.Edits {
		if !insideRepository(e.Path) {
			add("an edit names the file %q, which is not inside the repository", clip(e.Path))
		}
	}
	return out
}

// EditBytes returns the size of the texts of all edits.
func (p *Plan) EditBytes() int {
	size := 0
	for _, e := range p.Edits {
		size += len(e.OldText) + len(e.NewText)
	}
	return size
}

// EditedFiles returns the paths that the edits change or create, each once, in the plan's order.
func (p *Plan) EditedFiles() []string {
	var out []string
	for _, e := range p.Edits {
		if !slices.Contains(out, e.Path) {
			out = append(out, e.Path)
		}
	}
	return out
}

// Completed returns a plan with edits with what follows from them: its step, if it has none, and the
// files that this step changes. Other plans stay as they are.
func (p Plan) Completed() Plan {
	if len(p.Edits) == 0 || len(p.Steps) > 1 {
		return p
	}
	if len(p.Steps) == 0 {
		name, _, _ := strings.Cut(strings.TrimSpace(p.Summary), "\n")
		level := LevelLow
		if p.ComplexityScore >= ComplexGoal {
			level = LevelMedium
		}
		p.Steps = []Step{{
			ID: "step-001", Name: clip(name), Description: p.Summary, EstimatedComplexity: level, RiskLevel: level,
			Dependencies: []string{}, VerificationCriteria: []string{},
		}}
	}
	step := p.Steps[0]
	step.Files = slices.Clone(step.Files)
	for _, name := range p.EditedFiles() {
		if !slices.Contains(step.Files, name) {
			step.Files = append(step.Files, name)
		}
	}
	p.Steps = []Step{step}
	return p
}
