package state

import (
	"fmt"
	"slices"
	"strings"

	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// Heals is the state of a run's self-heals.
type Heals struct {
	Number     int // of heals so far
	UnderWay   int `json:"-"` // the number of the running heal; 0: none
	Questions  int // to people so far
	Count      map[contract.Phase]int
	Tried      map[string][]contract.HealAction // by failed work and kind of failure
	Lessons    map[string][]int                 // heals that the next attempt is shown, by phase or step
	Strict     map[contract.Phase]bool
	Applied    []AppliedHeal                   // whose phase has not succeeded yet
	Open       *AppliedHeal                    // carried out, but not applied yet
	Schema     map[contract.Phase]bool         // phases whose providers get the strict forms of schemas
	Compact    map[string]int                  // how often contexts were halved, by phase or step
	ResumeFrom map[string]contract.ResumePoint // steps whose next attempt continues where the last one ended
	Excluded   []string                        // workers whose machines failed
	Budgets    map[contract.Agent]*ErrorBudget
}

// AppliedHeal is a heal whose phase is running again.
type AppliedHeal struct {
	contract.Directive
	Failed contract.Phase
	Step   string // of the phase, if a step failed
}

// FailedWork describes the work in which a phase failed.
type FailedWork struct {
	Step      string             // of the builder
	Workspace contract.Workspace // state of the work at the failure
	From      contract.Workspace // state at the beginning of the step
}

func newHeals() Heals {
	return Heals{
		Count: map[contract.Phase]int{}, Tried: map[string][]contract.HealAction{}, Lessons: map[string][]int{},
		Strict: map[contract.Phase]bool{}, Budgets: map[contract.Agent]*ErrorBudget{}, Schema: map[contract.Phase]bool{},
		Compact: map[string]int{}, ResumeFrom: map[string]contract.ResumePoint{},
	}
}

// Exclude prevents heals from choosing a worker again.
func (h *Heals) Exclude(worker string) {
	if worker != "" && !slices.Contains(h.Excluded, worker) {
		h.Excluded = append(h.Excluded, worker)
	}
}

// TakeResume returns, only once, the point at which the next attempt of a step resumes.
func (h *Heals) TakeResume(step string) *contract.ResumePoint {
	from, ok := h.ResumeFrom[step]
	if !ok {
		return nil
	}
	delete(h.ResumeFrom, step)
	return &from
}

// ForgetSteps discards the state of the steps when their plan is replaced: the next plan's steps
// may have the same names.
func (h *Heals) ForgetSteps() {
	forgetSteps(h.Lessons)
	forgetSteps(h.Tried)
	forgetSteps(h.Compact)
	h.ResumeFrom = map[string]contract.ResumePoint{}
	delete(h.Strict, contract.PhaseBuilder)
	delete(h.Schema, contract.PhaseBuilder)
}

// forgetSteps deletes the entries of the builder and its steps.
func forgetSteps[V any](byWork map[string]V) {
	for _, key := range workflow.DeterministicKeys(byWork) {
		if strings.HasPrefix(key, string(contract.PhaseBuilder)) {
			delete(byWork, key)
		}
	}
}

// ErrorBudget counts an agent's errors in a run.
type ErrorBudget struct {
	Generation int // of the agent, from 1; a revoked agent is followed by the next generation
	Errors     int
	Same       map[string]int
}

// Budget returns the error budget of an agent.
func (h *Heals) Budget(agent contract.Agent) *ErrorBudget {
	if h.Budgets[agent] == nil {
		h.Budgets[agent] = &ErrorBudget{Generation: 1, Same: map[string]int{}}
	}
	return h.Budgets[agent]
}

// Spend counts a failure in a step and returns why the agent must be revoked, "" if it
// need not be. Failures of machines and people are not the agent's fault.
func (b *ErrorBudget) Spend(step string, f *contract.Failure, l contract.AgentLimits) (revoked string) {
	if f.Class == contract.ClassInfra || f.Class == contract.ClassConfig || f.Class == contract.ClassHuman {
		return ""
	}
	kind := strings.Join([]string{step, string(f.Class), string(f.Code), fault.WithoutNumbers(f.Message)}, "|")
	b.Errors++
	b.Same[kind]++
	violations := 0
	if f.Class == contract.ClassSafety { // individual violations are counted by the agent loop
		violations = l.Violations + 1
	}
	switch l.Exceeded(b.Errors, b.Same[kind], violations) {
	case contract.ExceededViolations:
		return "it tried to use tools or paths that are not allowed"
	case contract.ExceededRepeats:
		return fmt.Sprintf("it repeated the same error %d times", l.Repeats)
	case contract.ExceededErrors:
		return fmt.Sprintf("it made %d errors", b.Errors)
	}
	return ""
}
