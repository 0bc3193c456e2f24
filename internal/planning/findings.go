package planning

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// Facts is what is known about a run besides its plan.
type Facts struct {
	Goal    string
	Files   []string // of the base commit, sorted
	Failing []string // tests that fail on the base commit
}

// The patterns recognise English words: a plan in another language has fewer findings, or findings
// that its planner can reject.
var (
	// creates matches descriptions of steps that create files.
	creates = regexp.MustCompile(`(?i)\b(creat|add|new\b|introduc|writ|generat|mov(e|ing)|renam|extract|split|cop(y|ied)|scaffold|initiali|implement|provid)`)
	// changes matches descriptions of steps that change something.
	changes = regexp.MustCompile(`(?i)\b(add|fix|chang|implement|writ|updat|creat|remov|delet|refactor|renam|mov(e|ing)|replac|correct|document|extend|introduc|mak(e|ing)|set\b|use\b|support|handl|return|bump|upgrad|convert|adapt|adjust|improv|extract|split|migrat|integrat|port\b|revert)`)
	// onlyChecks matches names of steps that run checks.
	onlyChecks = regexp.MustCompile(`(?i)^\s*(re-?run|run|execute|verify|check|ensure|validate|test|confirm)\b`)
	// english matches texts that are probably English.
	english = regexp.MustCompile(`(?i)\b(the|of|and|it|is|to|with|one|from|that|this)\b`)
)

// Findings returns what is wrong with a plan as far as code can tell, most important first. A finding
// is a question to the planner: the plan can be carried out despite it.
func Findings(p contract.Plan, f Facts) []contract.PlanFinding {
	var out []contract.PlanFinding
	out = append(out, conflicts(p)...)
	for _, s := range p.Steps {
		out = append(out, failingCriteria(s, f)...)
	}
	out = append(out, missingFiles(p, f)...)
	for _, s := range p.Steps {
		if len(s.Files) == 0 && onlyChecks.MatchString(s.Name) && !changes.MatchString(s.Name+" "+s.Description) {
			out = append(out, contract.PlanFinding{Kind: contract.PlanOnlyChecks, Step: s.ID,
				Text: fmt.Sprintf("%s changes no file and only runs checks; the project's verification runs after all steps anyway", s.ID)})
		}
	}
	return out[:min(len(out), contract.MaxPlanFindings)]
}

// conflicts finds steps that change the same file and may run at the same time.
func conflicts(p contract.Plan) (out []contract.PlanFinding) {
	requires := map[string][]string{}
	for _, s := range p.Steps {
		requires[s.ID] = p.Requires(s.ID)
	}
	for i, a := range p.Steps {
		for _, b := range p.Steps[i+1:] {
			if slices.Contains(requires[a.ID], b.ID) || slices.Contains(requires[b.ID], a.ID) {
				continue
			}
			for _, name := range a.Files {
				if slices.ContainsFunc(b.Files, func(o string) bool { return path.Clean(o) == path.Clean(name) }) {
					out = append(out, contract.PlanFinding{Kind: contract.PlanSameFile, Step: b.ID,
						Text: fmt.Sprintf("%s and %s both change %s, but neither depends on the other, so they may run at the same time and conflict", a.ID, b.ID, shown(name))})
					break
				}
			}
		}
	}
	return out
}

// failingCriteria finds criteria that name a test that already fails on the base commit, if neither the
// goal nor the step mentions it. A criterion that all tests pass is none: the verification does not
// count such failures against a change.
func failingCriteria(s contract.Step, f Facts) (out []contract.PlanFinding) {
	meant := f.Goal + "\n" + s.Name + "\n" + s.Description
	for _, c := range s.VerificationCriteria {
		at := slices.IndexFunc(f.Failing, func(test string) bool {
			return mentions(c, test) && !mentions(meant, test)
		})
		if at < 0 {
			continue
		}
		out = append(out, contract.PlanFinding{Kind: contract.PlanFailingCriterion, Step: s.ID,
			Text: fmt.Sprintf("%s is done when %q, but the test %s already fails on the base commit: the step must fix it, or must not require it", s.ID, fault.Clip(c, maxQuoted), shown(f.Failing[at]))})
	}
	return out
}

// mentions reports whether a text contains the name of a test, or its last part.
func mentions(text, test string) bool {
	last := test
	for _, separator := range []string{"::", ".", "/", " > ", ": "} {
		if i := strings.LastIndex(last, separator); i >= 0 {
			last = last[i+len(separator):]
		}
	}
	const shortest = 5 // bytes of a name that is not an ordinary word
	return strings.Contains(text, test) || len(last) >= shortest && strings.Contains(text, last)
}

// missingFiles finds files that a step is expected to change and that nothing creates.
func missingFiles(p contract.Plan, f Facts) (out []contract.PlanFinding) {
	edited := p.EditedFiles() // which exist, or are created
	for _, s := range p.Steps {
		text := s.Name + " " + s.Description + " " + strings.Join(s.VerificationCriteria, " ")
		for _, name := range s.Files {
			clean := path.Clean(name)
			if f.exists(clean) || slices.Contains(edited, name) || creates.MatchString(text) || earlier(p, s, clean) {
				continue
			}
			hint := ""
			if other := f.named(path.Base(clean)); other != "" {
				hint = "; did you mean " + shown(other) + "?"
			} else if !english.MatchString(text) && !changes.MatchString(text) {
				continue // it may say in another language that it creates the file
			}
			out = append(out, contract.PlanFinding{Kind: contract.PlanMissingFile, Step: s.ID,
				Text: fmt.Sprintf("%s is expected to change %s, which does not exist, and does not say that it creates it%s", s.ID, shown(name), hint)})
		}
	}
	return out
}

// earlier reports whether a step that another one requires lists a file.
func earlier(p contract.Plan, s contract.Step, name string) bool {
	return slices.ContainsFunc(p.Requires(s.ID), func(id string) bool {
		step, _ := p.Step(id)
		return slices.ContainsFunc(step.Files, func(o string) bool { return path.Clean(o) == name })
	})
}

// exists reports whether there is a file, or a directory, with a path.
func (f Facts) exists(name string) bool {
	if name == "." {
		return true
	}
	if _, found := slices.BinarySearch(f.Files, name); found {
		return true
	}
	at, _ := slices.BinarySearch(f.Files, name+"/")
	return at < len(f.Files) && strings.HasPrefix(f.Files[at], name+"/")
}

// named returns a file with a name in another directory, or "".
func (f Facts) named(base string) string {
	at := slices.IndexFunc(f.Files, func(o string) bool { return path.Base(o) == base })
	if at < 0 {
		return ""
	}
	return f.Files[at]
}

const (
	maxQuoted = 160 // bytes of a criterion in a finding
	maxShown  = 120 // bytes of a name
)

// shown returns a name on one line.
func shown(name string) string {
	return fault.Clip(strings.Join(strings.Fields(name), " "), maxShown)
}
