package activities

import (
	"context"
	"fmt"
	"unicode/utf8"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/prompt"
	"github.com/rocketgpt/orchestrator/internal/runs/verdict"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
	"github.com/rocketgpt/orchestrator/internal/workspace"
)

// strictPlanSchema rules out as many of the errors that verdict.Plan detects as a schema can: a
// provider that enforces it cannot return a plan with such an error.
var strictPlanSchema = verdict.PlanSchema().Bounded(contract.StrictPlanSchema, model.Bounds{
	"steps":                    {"maxItems": contract.MaxPlanSteps},
	"steps.[].id":              {"pattern": stepIDPattern},
	"steps.[].name":            {"pattern": `\S`},
	"steps.[].dependencies":    {"maxItems": contract.MaxPlanSteps - 1},
	"steps.[].dependencies.[]": {"pattern": stepIDPattern},
	"steps.[].files.[]":        {"pattern": pathPattern},
})

var (
	// stepIDPattern is the form of a step's id.
	stepIDPattern = fmt.Sprintf(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,%d}$`, contract.MaxStepID-1)
	// pathPattern is the form of a path that never goes up.
	pathPattern = `^` + pathPart + `(/` + pathPart + `)*/?$`
)

// pathPart is a part of a path that is neither . nor .. and not empty.
const pathPart = `([^/\\.][^/\\]*|\.[^/\\.][^/\\]*|\.\.[^/\\]+)`

// Plan requests a plan from the planner's model, checks it and stores it.
func (a *Activities) Plan(ctx context.Context, in contract.PlanInput) (contract.PlanResult, error) {
	run, err := a.Store.Run(ctx, in.Execution.RunID)
	if err != nil {
		return contract.PlanResult{}, err
	}
	if in.Branch != "" && run.ReleaseCommit == "" {
		// Otherwise the conflict would be found only at the release, when everything has been paid
		// for.
		if err := a.Workspaces.CheckBranch(ctx, in.Repo, in.Branch, workspace.PublishOptions{}); err != nil {
			return contract.PlanResult{}, err
		}
	}
	files, err := a.Workspaces.Files(ctx, in.Repo.Workspace())
	if err != nil {
		return contract.PlanResult{}, err
	}
	excerpts, err := a.excerpts(ctx, in.Repo.Workspace(), files)
	if err != nil {
		return contract.PlanResult{}, err
	}
	lessons, err := a.lessons(ctx, in.Execution.RunID, in.Lessons)
	if err != nil {
		return contract.PlanResult{}, err
	}
	consensus, err := a.agreement(ctx, in)
	if err != nil {
		return contract.PlanResult{}, err
	}
	project, err := a.project(ctx, run)
	if err != nil {
		return contract.PlanResult{}, err
	}
	p, err := plannerPrompt(prompt.PlannerTask{
		Lessons: lessons, Project: project,
		Consensus: consensus.text,
		GoalTitle: run.GoalTitle, GoalDescription: run.GoalDescription, Branch: in.Repo.Branch, Base: in.Repo.Base, Excerpts: excerpts,
	}, files, in.Lessons.Compact)
	if err != nil {
		return contract.PlanResult{}, err
	}
	if err := a.open(ctx, in.Execution, p); err != nil {
		return contract.PlanResult{}, err
	}
	turn, err := a.planTurn(ctx, in.Execution, consensus.text)
	if err != nil {
		return contract.PlanResult{}, err
	}
	schema := verdict.PlanSchema()
	if in.Lessons.Schema {
		schema = strictPlanSchema
	}
	answer, err := a.ask(ctx, question{
		execution: in.Execution, turn: turn, choice: in.Model, budget: in.Budget, timeout: in.Timeout,
		schema: &schema, strict: in.Lessons.Schema, prompt: p.Version, fallbacks: in.Fallbacks,
		usable: func(r model.Response) bool { _, err := verdict.ReadPlan(schema, r.Text); return err == nil },
	})
	if err != nil {
		return contract.PlanResult{}, err
	}
	plan, err := verdict.ReadPlan(schema, answer.Text)
	if err != nil {
		return contract.PlanResult{}, err
	}
	owner := in.Execution.ID
	if turn > 1 { // it contains the plan that led to the deliberation
		owner = consensus.owner
	}
	id, err := a.Store.SavePlan(ctx, in.Execution.RunID, owner, string(in.Execution.Agent), plan)
	if err != nil {
		return contract.PlanResult{}, err
	}
	return contract.PlanResult{ID: id, Plan: plan.Skeleton(), Usage: answer.Usage}, nil
}

// AdoptPlan adopts the plan that a person supplied or edited.
func (a *Activities) AdoptPlan(ctx context.Context, in contract.AdoptPlanInput) (contract.PlanResult, error) {
	plan, err := a.Store.PlanByID(ctx, in.RunID, in.PlanID)
	if err != nil {
		return contract.PlanResult{}, err
	}
	if err := verdict.Plan(plan); err != nil {
		return contract.PlanResult{}, err
	}
	return contract.PlanResult{ID: in.PlanID, Plan: plan.Skeleton()}, nil
}

// open opens the conversation of an execution with its prompt, and stores the text of that version
// of the prompt.
func (a *Activities) open(ctx context.Context, execution contract.ExecutionRef, p prompt.Prompt) error {
	if _, kept := a.prompts.Load(p.Version); !kept {
		if err := a.Store.SavePrompt(ctx, p.Name, p.Version, p.System); err != nil {
			return err
		}
		a.prompts.Store(p.Version, true)
	}
	messages, err := encode([]model.Message{{Role: model.RoleSystem, Text: p.System}, {Role: model.RoleUser, Text: p.Task}})
	if err != nil {
		return err
	}
	return a.Store.OpenConversation(ctx, execution.ID, messages)
}

// excerpts returns the beginnings of the files that describe a repository: its README
// and manifests.
func (a *Activities) excerpts(ctx context.Context, ws contract.Workspace, files []string) ([]prompt.Excerpt, error) {
	var out []prompt.Excerpt
	left := prompt.ExcerptsBytes
	for _, name := range prompt.DescriptiveFiles(files) {
		content, found, err := a.Workspaces.BaseFile(ctx, ws, name, prompt.MaxExcerptFile)
		if err != nil {
			return nil, err
		}
		if !found || !utf8.Valid(content) || left <= 0 {
			continue
		}
		text := prompt.Beginning(telemetry.Redact(string(content)), min(left, prompt.ExcerptBytes))
		left -= len(text)
		out = append(out, prompt.Excerpt{Name: name, Text: text})
	}
	return out, nil
}
