package contract

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Level is a coarse grade of complexity or risk.
type Level string

// The levels.
const (
	LevelLow    Level = "low"
	LevelMedium Level = "medium"
	LevelHigh   Level = "high"
)

// Plan is the planner's result: a graph of steps.
type Plan struct {
	Summary         string  `json:"summary" jsonschema:"description=What the plan does and why: one to three sentences"`
	ComplexityScore float64 `json:"complexity_score" jsonschema:"minimum=0,maximum=1,description=Difficulty of the goal"`
	Steps           []Step  `json:"steps" jsonschema:"minItems=1"`
	Notes           []Note  `json:"notes,omitempty" jsonschema:"description=Facts for the agents of the steps and the lines that show them"`
	// Edits are the whole change of a plan with one step, made before its agent begins; nil: the agent
	// makes the change. They are not part of a plan that is made without tools, and so without reading.
	Edits []Edit `json:"edits,omitempty" jsonschema:"-"`
}

// Note is a fact about the repository, with the lines that show it. The builder gets the fact and
// the lines.
type Note struct {
	Path      string `json:"path" jsonschema:"description=File within the repository"`
	StartLine int    `json:"start_line" jsonschema:"description=First line"`
	EndLine   int    `json:"end_line" jsonschema:"description=Last line"`
	Fact      string `json:"fact" jsonschema:"description=What they mean for the work"`
}

// Lines returns the place of a note: main.go:3-9.
func (n Note) Lines() string {
	if n.EndLine <= n.StartLine {
		return fmt.Sprintf("%s:%d", n.Path, n.StartLine)
	}
	return fmt.Sprintf("%s:%d-%d", n.Path, n.StartLine, n.EndLine)
}

// Step is one node of the plan's dependency graph, carried out by the builder.
type Step struct {
	ID                   string   `json:"id" jsonschema:"description=step-001 and so on"`
	Name                 string   `json:"name"`
	Description          string   `json:"description"`
	Dependencies         []string `json:"dependencies"`
	EstimatedComplexity  Level    `json:"estimated_complexity" jsonschema:"enum=low,enum=medium,enum=high"`
	RiskLevel            Level    `json:"risk_level" jsonschema:"enum=low,enum=medium,enum=high"`
	VerificationCriteria []string `json:"verification_criteria"`
	Files                []string `json:"files"`
}

// The names of the schemas for an agent's responses, as sent to providers and recorded in heals.
const (
	PlanSchema        = "plan"
	StrictPlanSchema  = "strict_plan"
	ToolSchemas       = "tools"
	StrictToolSchemas = "strict tools"
)

// Limits of a plan. A plan that exceeds them is invalid.
const (
	MaxPlanSteps = 100
	MaxStepID    = 64

	MaxNotes     = 40
	MaxNoteLines = 400 // of one note
	MaxNoteFact  = 800 // bytes

	MaxEdits     = 50
	MaxEditBytes = 256 << 10 // of all edits together
)

// PlanProblem is one reason why a plan cannot be carried out.
type PlanProblem struct {
	Step    string `json:"step,omitempty"`
	Problem string `json:"problem"`
}

// Problems returns every reason why the plan cannot be carried out: no steps, too many, invalid or
// duplicate ids, unknown dependencies, cycles, steps without a name, files outside the repository.
// An empty result means that it can. The JSON and the schema have already been checked.
func (p *Plan) Problems() []PlanProblem {
	var out []PlanProblem
	add := func(step, format string, args ...any) {
		out = append(out, PlanProblem{Step: step, Problem: fmt.Sprintf(format, args...)})
	}
	if len(p.Steps) == 0 {
		add("", "the plan has neither steps nor edits")
	}
	if len(p.Steps) > MaxPlanSteps {
		add("", "the plan has %d steps, more than the %d allowed", len(p.Steps), MaxPlanSteps)
	}
	seen := map[string]bool{}
	for _, s := range p.Steps {
		switch {
		case !validStepID(s.ID):
			add(s.ID, "the id %q is invalid: use letters, digits, '-', '_' and '.' (at most %d)", clip(s.ID), MaxStepID)
		case seen[s.ID]:
			add(s.ID, "two steps have the id %q", s.ID)
		}
		seen[s.ID] = true
		if strings.TrimSpace(s.Name) == "" && strings.TrimSpace(s.Description) == "" {
			add(s.ID, "step %q has neither a name nor a description", clip(s.ID))
		}
		for _, f := range s.Files {
			if !insideRepository(f) {
				add(s.ID, "step %q names the file %q, which is not inside the repository", clip(s.ID), clip(f))
			}
		}
	}
	for _, s := range p.Steps {
		for _, d := range s.Dependencies {
			if d == s.ID {
				add(s.ID, "step %q depends on itself", clip(s.ID))
			} else if !seen[d] {
				add(s.ID, "step %q depends on %q, which does not exist", clip(s.ID), clip(d))
			}
		}
	}
	out = append(out, p.editProblems()...)
	if len(out) == 0 {
		if cycle := p.cycle(); len(cycle) > 0 {
			add(cycle[0], "the steps %s form a dependency cycle", strings.Join(cycle, " → "))
		}
	}
	return out
}

// Order returns the ids of all steps, each after its dependencies and otherwise in the plan's own
// order. The plan must have no problems.
func (p *Plan) Order() []string {
	done := map[string]bool{}
	var order []string
	for len(order) < len(p.Steps) {
		before := len(order)
		for _, s := range p.Steps {
			if done[s.ID] || slices.ContainsFunc(s.Dependencies, func(d string) bool { return !done[d] }) {
				continue
			}
			done[s.ID] = true
			order = append(order, s.ID)
		}
		if len(order) == before { // a cycle; Problems reports it
			return order
		}
	}
	return order
}

// Step returns the step with the given id.
func (p *Plan) Step(id string) (Step, bool) {
	for _, s := range p.Steps {
		if s.ID == id {
			return s, true
		}
	}
	return Step{}, false
}

// Requires returns every step that the given one depends on, directly or not, in the
// order of Order.
func (p *Plan) Requires(id string) []string {
	need := map[string]bool{}
	var visit func(string)
	visit = func(id string) {
		s, ok := p.Step(id)
		if !ok {
			return
		}
		for _, d := range s.Dependencies {
			if !need[d] {
				need[d] = true
				visit(d)
			}
		}
	}
	visit(id)
	var out []string
	for _, o := range p.Order() {
		if need[o] {
			out = append(out, o)
		}
	}
	return out
}

// reduced returns, for each step, the dependencies that do not follow from its other dependencies.
func (p *Plan) reduced() map[string][]string {
	reach := map[string]map[string]bool{} // all that a step requires
	out := map[string][]string{}
	for _, id := range p.Order() {
		step, _ := p.Step(id)
		all := map[string]bool{}
		for _, d := range step.Dependencies {
			for r := range reach[d] {
				all[r] = true
			}
		}
		for _, d := range step.Dependencies {
			if !all[d] && !slices.Contains(out[id], d) {
				out[id] = append(out[id], d)
			}
		}
		for _, d := range step.Dependencies {
			all[d] = true
		}
		reach[id] = all
	}
	return out
}

// cycle returns the ids of one dependency cycle, first and last the same, or nil.
func (p *Plan) cycle() []string {
	const (
		open   = 1
		closed = 2
	)
	state := map[string]int{}
	var trail []string
	var visit func(string) []string
	visit = func(id string) []string {
		state[id] = open
		trail = append(trail, id)
		s, _ := p.Step(id)
		for _, d := range s.Dependencies {
			switch state[d] {
			case open:
				return append(slices.Clone(trail[slices.Index(trail, d):]), d)
			case closed:
			default:
				if c := visit(d); c != nil {
					return c
				}
			}
		}
		trail = trail[:len(trail)-1]
		state[id] = closed
		return nil
	}
	for _, s := range p.Steps {
		if state[s.ID] == 0 {
			if c := visit(s.ID); c != nil {
				return c
			}
		}
	}
	return nil
}

// validStepID reports whether an id can be used in workflow ids, file names and command lines.
func validStepID(id string) bool {
	if id == "" || len(id) > MaxStepID || id == "." || id == ".." || id[0] == '-' {
		return false
	}
	for _, r := range id {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_', r == '.':
		default:
			return false
		}
	}
	return true
}

// insideRepository reports whether a path that a model wrote stays inside the
// repository and outside its git directory.
func insideRepository(f string) bool {
	if f == "" || strings.ContainsRune(f, 0) || path.IsAbs(f) || strings.Contains(f, "\\") {
		return false
	}
	clean := path.Clean(f)
	if clean == ".." || strings.HasPrefix(clean, "../") {
		return false
	}
	return !slices.ContainsFunc(strings.Split(clean, "/"), func(part string) bool { return strings.EqualFold(part, ".git") })
}

// clip shortens hostile text for an error message.
func clip(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
