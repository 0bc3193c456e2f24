package activities

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/buildcache"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/environment"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/prompt"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/tester"
	"github.com/rocketgpt/orchestrator/internal/tool"
	"github.com/rocketgpt/orchestrator/internal/verify/checks"
)

// setupEnv prepares the environment agent's tools: a shell on the base commit, as in a setup, and
// the check of a proposal's form.
func (a *Activities) setupEnv(ctx context.Context, in contract.ToolInput, env *tool.Env, checkout string, cache *buildcache.Cache, way *tester.Egress) error {
	run, err := a.Store.Run(ctx, in.Execution.RunID)
	if err != nil {
		return err
	}
	recipe, err := a.detected(ctx, run, checkout)
	if err != nil {
		return err
	}
	home, tmp, err := cache.Home(fmt.Sprintf("%s/%d", nameOf(in.Execution), in.Execution.Attempt))
	if err != nil {
		return err
	}
	c := a.host().Limited()
	recipe.Outfit(&c)
	c.Home, c.Tmp = home, tmp
	c.Proxy, c.CACertificates = way.Serve(recipe.Hosts), a.Proxy.CACertificate()
	env.Command = c
	env.Propose = badProposal
	return nil
}

// detected returns the setup detected from the files of a run's base commit.
func (a *Activities) detected(ctx context.Context, run store.Run, checkout string) (environment.Recipe, error) {
	spec, err := specOf(run)
	if err != nil {
		return environment.Recipe{}, err
	}
	facts, err := a.host().FactsOf(ctx, repoOf(run))
	if err != nil {
		return environment.Recipe{}, err
	}
	root, err := os.OpenRoot(checkout)
	if err != nil {
		return environment.Recipe{}, fmt.Errorf("open the checkout: %w", err)
	}
	defer root.Close()
	settings := spec.Environment
	settings.Setup = nil
	tools, err := a.host().ToolsOf(ctx, repoOf(run), settings)
	if err != nil {
		return environment.Recipe{}, err
	}
	recipe, err := environment.Find(root, settings, tools, facts)
	if err == nil && len(recipe.Hosts) == 0 { // nothing was detected: the agent must determine the setup
		for _, hosts := range config.RegistryHosts() {
			recipe.Hosts = append(recipe.Hosts, hosts...)
		}
		slices.Sort(recipe.Hosts)
		recipe.Hosts = slices.Compact(recipe.Hosts)
	}
	return recipe, err
}

const (
	proposedCommand = 4 << 10 // bytes of one command
	maxShownHints   = 80
)

// badProposal returns the problem with the form of a proposal.
func badProposal(p tool.SetupProposal) string {
	for _, c := range p.Commands {
		switch {
		case strings.TrimSpace(c) == "":
			return "a command is empty"
		case len(c) > proposedCommand:
			return fmt.Sprintf("a command is %d bytes long, more than the %d allowed", len(c), proposedCommand)
		case strings.ContainsRune(c, 0):
			return "a command contains a NUL byte"
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Variables)) {
		if wrong := config.VariableProblem(name, p.Variables[name]); wrong != "" {
			return "the variable " + name + " " + wrong
		}
	}
	return ""
}

// setupPrompt returns the prompt of the environment agent.
func (a *Activities) setupPrompt(ctx context.Context, runID int64, task contract.SetupTask, start contract.Workspace, local bool) (prompt.Prompt, error) {
	view, err := a.Workspaces.OpenShared(ctx, start)
	if err != nil {
		return prompt.Prompt{}, err
	}
	defer view.Close()
	run, err := a.Store.Run(ctx, runID)
	if err != nil {
		return prompt.Prompt{}, err
	}
	recipe, err := a.detected(ctx, run, view.Path())
	if err != nil {
		return prompt.Prompt{}, err
	}
	project, err := a.project(ctx, run)
	if err != nil {
		return prompt.Prompt{}, err
	}
	if project == nil {
		project = &prompt.Project{}
	}
	if len(project.Checks) == 0 { // no baseline was opened because the setup failed
		if project.Checks, err = plannedChecks(run, view.Path()); err != nil {
			return prompt.Prompt{}, err
		}
	}
	files, err := a.Workspaces.Files(ctx, start)
	if err != nil {
		return prompt.Prompt{}, err
	}
	m := mapFor{goal: setupGoal + task.Problem, share: 1, local: local}
	overview, err := a.overviewOf(ctx, run, m, func() string { return prompt.FileList(files) })
	if err != nil {
		return prompt.Prompt{}, err
	}
	var hints []string
	for _, h := range recipe.Hints[:min(len(recipe.Hints), maxShownHints)] {
		hints = append(hints, fmt.Sprintf("%s:%d: %s", h.File, h.Line, h.Text))
	}
	var commands []string
	for _, c := range recipe.Setup {
		commands = append(commands, c.String())
	}
	var variables []string
	for _, name := range slices.Sorted(maps.Keys(recipe.Variables)) {
		variables = append(variables, name+"="+recipe.Variables[name])
	}
	return prompt.Environment(prompt.EnvironmentTask{
		Problem: task.Problem, Output: task.Output, Tools: project.Tools, Missing: recipe.Absent(), Checks: project.Checks,
		Commands: commands, Variables: variables, Path: recipe.Path, Hosts: recipe.Hosts, Hints: hints, Files: overview,
	})
}

// setupGoal is what the map of the repository is for in the environment agent's prompt, besides the
// problem.
const setupGoal = "Set up the project: install its dependencies, build it, run its tests.\n\n"

// plannedChecks returns the checks that a run will carry out on a checkout.
func plannedChecks(run store.Run, checkout string) ([]prompt.Check, error) {
	spec, err := specOf(run)
	if err != nil {
		return nil, err
	}
	pipeline, err := checks.Plan(checkout, spec.Verification)
	if err != nil {
		return nil, err
	}
	return promptChecks(pipeline.Stages, tester.Commands(pipeline)), nil
}

// Proposal stores the setup that the environment agent proposed last, for its run to try.
func (a *Activities) Proposal(ctx context.Context, in contract.ProposalInput) (contract.ProposalResult, error) {
	proposal, err := a.lastProposal(ctx, in.Execution)
	if err != nil || proposal == nil {
		return contract.ProposalResult{}, err
	}
	run, err := a.Store.Run(ctx, in.Execution.RunID)
	if err != nil {
		return contract.ProposalResult{}, err
	}
	settings := environment.Settings{Setup: proposal.Commands, Variables: proposal.Variables}
	if same, err := a.proposedBefore(ctx, run, settings); err != nil || same != 0 {
		return contract.ProposalResult{Setup: same}, err // this activity was completed before, and its result was lost
	}
	doc, err := json.Marshal(settings)
	if err != nil {
		return contract.ProposalResult{}, fmt.Errorf("store a proposed setup: %w", err)
	}
	made, err := a.Store.AddSetup(ctx, store.Setup{
		Repo: run.Repo, Source: string(environment.SourceAgent), Settings: doc, Reason: clipped(proposal.Reason, 2000), RunID: run.ID, CreatedBy: "environment agent",
	})
	if err != nil {
		return contract.ProposalResult{}, err
	}
	return contract.ProposalResult{Setup: made.ID}, a.Store.SetRunSetup(ctx, run.ID, made.ID)
}

// proposedBefore returns the setup that a run is trying if it is the same proposal, otherwise 0.
func (a *Activities) proposedBefore(ctx context.Context, run store.Run, settings environment.Settings) (int64, error) {
	if run.SetupID == 0 {
		return 0, nil
	}
	known, err := a.Store.SetupByID(ctx, run.SetupID)
	if err != nil || known.RunID != run.ID || known.Proven || known.RevokedAt != nil {
		return 0, err
	}
	var before environment.Settings
	if err := json.Unmarshal(known.Settings, &before); err != nil {
		return 0, fmt.Errorf("read setup %d: %w", known.ID, err)
	}
	if !slices.Equal(before.Setup, settings.Setup) || !maps.Equal(before.Variables, settings.Variables) {
		return 0, nil
	}
	return known.ID, nil
}

// lastProposal reads the last accepted proposal in a conversation, or nil if there is none.
func (a *Activities) lastProposal(ctx context.Context, e contract.ExecutionRef) (*tool.SetupProposal, error) {
	messages, err := a.Store.Conversation(ctx, e.ID)
	if err != nil {
		return nil, err
	}
	for _, m := range slices.Backward(messages) {
		if m.Role != string(model.RoleAssistant) {
			continue
		}
		var said model.Message
		if err := json.Unmarshal(m.Content, &said); err != nil {
			return nil, fmt.Errorf("read the conversation of execution %d: %w", e.ID, err)
		}
		for _, call := range slices.Backward(said.ToolCalls) {
			var p tool.SetupProposal
			if call.Name == tool.ProposeSetup && json.Unmarshal([]byte(call.Arguments), &p) == nil && len(p.Commands) > 0 && badProposal(p) == "" {
				return &p, nil
			}
		}
	}
	return nil, nil
}

// JudgeSetup makes the repository use a proposed setup, or revokes it. If the baseline could run
// but passed nothing, the setup is not proven: only its run keeps it.
func (a *Activities) JudgeSetup(ctx context.Context, in contract.JudgeSetupInput) (contract.JudgeSetupResult, error) {
	var out contract.JudgeSetupResult
	if !in.Proven {
		if _, err := a.Store.RevokeSetup(ctx, in.Setup, "the baseline: "+clipped(in.Why, 500)); err != nil {
			return out, err
		}
		return out, a.Store.SetRunSetup(ctx, in.RunID, 0)
	}
	run, err := a.Store.Run(ctx, in.RunID)
	if err != nil {
		return out, err
	}
	b, err := a.baselineOf(ctx, run)
	if err != nil {
		return out, err
	}
	if b == nil || !slices.ContainsFunc(b.Checks, proves) {
		out.Unproven = "no build or test check passed on the base commit"
		return out, nil
	}
	_, err = a.Store.ProveSetup(ctx, in.Setup)
	return out, err
}

// proves reports whether the outcome of a check on a base commit shows that the
// project's code builds or runs in the environment.
func proves(c store.BaselineCheck) bool {
	r := c.Result
	return (r.Check.Category == contract.CategoryBuild || r.Check.Category == contract.CategoryTest) && (r.OK || r.Summary.Passed > 0)
}
