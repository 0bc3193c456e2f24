package tool

import (
	"context"
	_ "embed"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
)

//go:embed baseline.md
var baselineDescription string

//go:embed submit_plan.md
var submitPlanDescription string

//go:embed ask_person.md
var askPersonDescription string

// Names of the planner's own tools.
const (
	AskPerson  = "ask_person"
	Baseline   = "baseline"
	SubmitPlan = "submit_plan"
)

// Planning is the environment of the planner's own tools.
type Planning struct {
	// Baseline returns the results of the checks on the base commit.
	Baseline func(BaselineQuery) string
	// Ask checks a question to a person and returns why it cannot be asked, or "" if it can.
	Ask func(PersonQuestion) string
	// Submit checks a plan and returns the problem, or "" if it is accepted.
	Submit func(contract.Plan) string
}

// BaselineQuery selects results of the checks on the base commit.
type BaselineQuery struct {
	Contains string `json:"contains,omitempty" jsonschema_description:"Only tests whose name, file or message contains this text, in any case."`
	Failed   bool   `json:"failed,omitempty" jsonschema_description:"Only tests that failed."`
}

// forPlanning are the tools of the planner that other agents have too. All of them only read.
var forPlanning = []string{ReadFile, ListFiles, Search, History, AskBrain}

// PersonQuestion is a question to a person with the options to choose from.
type PersonQuestion struct {
	Question string   `json:"question" jsonschema:"minLength=1" jsonschema_description:"One or two sentences that a person understands without this conversation."`
	Options  []string `json:"options" jsonschema:"minItems=2,maxItems=5" jsonschema_description:"What the goal can mean, each in a few words."`
	Default  string   `json:"default" jsonschema:"minLength=1" jsonschema_description:"The text of the option that applies if nobody answers."`
	Why      string   `json:"why" jsonschema:"minLength=1" jsonschema_description:"What you have found, and how the plans would differ."`
}

// submission is a contract.Plan that may contain edits, and then needs no steps.
type submission struct {
	Summary         string          `json:"summary" jsonschema_description:"What the plan does and why, in one to three sentences."`
	ComplexityScore float64         `json:"complexity_score" jsonschema:"minimum=0,maximum=1" jsonschema_description:"Difficulty of the goal."`
	Edits           []contract.Edit `json:"edits,omitempty" jsonschema:"maxItems=50" jsonschema_description:"The complete change, made in this order: see the rules for the plan."`
	Steps           []contract.Step `json:"steps,omitempty" jsonschema_description:"Not needed with edits."`
	Notes           []contract.Note `json:"notes,omitempty" jsonschema_description:"For the agents of the steps."`
}

// plan returns the plan.
func (s submission) plan() contract.Plan {
	p := contract.Plan{Summary: s.Summary, ComplexityScore: s.ComplexityScore, Steps: s.Steps, Notes: s.Notes, Edits: s.Edits}
	return p.Completed()
}

// ForPlanning returns the tools of the planner. All of them only read. edits says whether a plan may
// contain edits; nothing else has an influence: no plan and no repository can add a tool.
func ForPlanning(edits bool) *Set {
	var tools []Tool
	for _, e := range Builtin().tools {
		if slices.Contains(forPlanning, e.definition.Name) && e.definition.ReadOnly {
			tools = append(tools, e.tool)
		}
	}
	r, err := NewRegistry(append(tools, baseline(), askPerson(), submitPlan(edits))...)
	if err != nil {
		panic(err) //nolint:forbidigo // an error in this package, which its tests detect
	}
	return &Set{registry: r, allowed: r.Names()}
}

func baseline() Tool {
	return define(Definition{Name: Baseline, Description: baselineDescription, ReadOnly: true},
		func(_ context.Context, env Env, q BaselineQuery) (Result, error) {
			if env.Planning == nil || env.Planning.Baseline == nil {
				return failed("", "There are no results for the base commit."), nil
			}
			return Result{OK: true, Text: env.Planning.Baseline(q)}, nil
		})
}

func askPerson() Tool {
	return define(Definition{Name: AskPerson, Description: askPersonDescription, ReadOnly: true},
		func(_ context.Context, env Env, q PersonQuestion) (Result, error) {
			if env.Planning == nil || env.Planning.Ask == nil {
				return failed(contract.CodeForbidden, "A person cannot be asked here."), nil
			}
			if wrong := env.Planning.Ask(q); wrong != "" {
				return failed("", "The question was not asked: %s.", wrong), nil
			}
			return Result{OK: true, Text: "Asked."}, nil
		})
}

func submitPlan(edits bool) Tool {
	d := Definition{Name: SubmitPlan, Description: submitPlanDescription, ReadOnly: true}
	if !edits {
		return define(d, submit)
	}
	return define(d, func(ctx context.Context, env Env, p submission) (Result, error) {
		return submit(ctx, env, p.plan())
	})
}

func submit(_ context.Context, env Env, p contract.Plan) (Result, error) {
	if env.Planning == nil || env.Planning.Submit == nil {
		return failed(contract.CodeForbidden, "A plan cannot be submitted here."), nil
	}
	wrong := env.Planning.Submit(p)
	if wrong == "" && len(p.Edits) > 0 {
		var err error
		if wrong, err = editProblem(env, p.Edits); err != nil {
			return Result{}, err
		}
	}
	if wrong != "" {
		return failed(contract.CodeInvalidOutput, "The plan was not accepted: %s", ended(wrong)), nil
	}
	return Result{OK: true, Text: "Submitted.", Finish: true, Summary: p.Summary}, nil
}

// ended returns a sentence with its full stop.
func ended(s string) string { return strings.TrimSuffix(strings.TrimSpace(s), ".") + "." }
