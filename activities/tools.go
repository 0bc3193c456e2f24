package activities

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/brain"
	"github.com/rocketgpt/orchestrator/internal/buildcache"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
	"github.com/rocketgpt/orchestrator/internal/tester"
	"github.com/rocketgpt/orchestrator/internal/tool"
	"github.com/rocketgpt/orchestrator/internal/workspace"
)

// CallTool carries out one tool call: workspace in, workspace and result out. If the
// result of a call is already stored, it is returned.
func (a *Activities) CallTool(ctx context.Context, in contract.ToolInput) (contract.ToolOutcome, error) {
	return a.callOf(ctx, in, turnCalls{})
}

// callOf is CallTool; if the calls of the turn are known, they are not read.
func (a *Activities) callOf(ctx context.Context, in contract.ToolInput, calls turnCalls) (contract.ToolOutcome, error) {
	if !calls.fresh {
		done, _, err := a.Store.ToolResult(ctx, in.Execution.ID, in.Turn, in.Index)
		if err == nil || !errors.Is(err, store.ErrNotFound) {
			return done.Outcome, err
		}
	}
	if in.LocalOnly && (!a.serves(in.Execution.Agent) || !a.Workspaces.Cached(in.Workspace.Repo, in.Workspace.Base)) {
		return contract.ToolOutcome{Cold: true}, nil
	}
	call, err := a.toolCall(ctx, in, calls.all)
	if err != nil {
		return contract.ToolOutcome{}, err
	}
	started := time.Now()
	var result tool.Result
	after := in.Workspace
	switch {
	case in.Undone && call.Name == tool.Finish:
		result = tool.Result{Text: unfinished}
	case len(in.Unanswered) > 0 && call.Name == tool.Finish:
		result = tool.Result{Text: fmt.Sprintf(unanswered, strings.Join(in.Unanswered, ", "))}
	case len(in.Failed) > 0 && call.Name == tool.Finish:
		result, err = a.refuseToFinish(ctx, in)
	default:
		result, after, err = a.carryOut(ctx, in, call)
		if err == nil && result.OK && call.Name == tool.Finish {
			a.recycle(ctx, in.Execution)
		}
	}
	if in.LocalOnly && errors.Is(err, brain.ErrNotReady) {
		return contract.ToolOutcome{Cold: true}, nil
	}
	if err != nil {
		return contract.ToolOutcome{}, err
	}
	outcome := contract.ToolOutcome{Workspace: after, OK: result.OK, Code: result.Code, Fingerprint: fingerprint(call, result.Text)}
	telemetry.CountToolCall(a.countedName(call.Name), result.Code)
	return a.saveToolResult(ctx, in, call, result, outcome, started)
}

// recycle lets other executions use the directory of one that has finished, if no command ran in it. Otherwise it
// would stay until the run ends, and each step of a run would need a directory of its own.
func (a *Activities) recycle(ctx context.Context, e contract.ExecutionRef) {
	if err := a.Workspaces.Recycle(directory(e)); err != nil {
		a.Log.WarnContext(ctx, "Could not reuse the working directory of a finished agent; it is removed when the run ends",
			"run", e.RunID, "execution", e.ID, "error", err)
	}
}

// toolCall returns a call of the model's response, which is read if its calls are not known.
func (a *Activities) toolCall(ctx context.Context, in contract.ToolInput, calls []model.ToolCall) (model.ToolCall, error) {
	if len(calls) == 0 {
		answer, err := a.responseOf(ctx, in.Execution.ID, in.Turn)
		if err != nil {
			return model.ToolCall{}, err
		}
		calls = answer.ToolCalls
	}
	if in.Index >= len(calls) {
		return model.ToolCall{}, fault.New(contract.ClassRuntime, contract.CodeUnknown,
			"turn %d of execution %d has %d tool calls, but none at index %d", in.Turn, in.Execution.ID, len(calls), in.Index)
	}
	return calls[in.Index], nil
}

// carryOut runs the tool on a directory of the workspace and returns the workspace afterwards.
func (a *Activities) carryOut(ctx context.Context, in contract.ToolInput, call model.ToolCall) (tool.Result, contract.Workspace, error) {
	tools := a.toolsOf(in.Execution)
	def, known := tools.Definition(call.Name)
	if def.Commands || call.Name == tool.Check {
		var release func()
		var err error
		if ctx, release, err = a.takeCore(ctx, in.Execution.RunID); err != nil {
			return tool.Result{}, in.Workspace, err
		}
		defer release()
	}
	open := a.Workspaces.OpenFiles
	switch {
	case !known || def.ReadOnly:
		open = a.Workspaces.View
	case def.Commands:
		open = a.Workspaces.Open
	}
	dir, err := open(ctx, in.Workspace, directory(in.Execution))
	if err != nil {
		return tool.Result{}, in.Workspace, err
	}
	defer dir.Close()
	cache, err := a.agentCache(in)
	if err != nil {
		return tool.Result{}, in.Workspace, err
	}
	defer cache.Close()
	way := a.agentEgress(in.Execution)
	env := a.toolEnv(in, dir.Path(), cache, way)
	a.giveMemory(&env, in)
	note := ""
	if in.Execution.Agent == contract.AgentEnvironment {
		if err := a.setupEnv(ctx, in, &env, dir.Path(), cache, way); err != nil {
			return tool.Result{}, in.Workspace, err
		}
	} else if a.giveSight(&env, in); def.Commands {
		cenv, err := a.agentCommandEnv(ctx, in, dir, cache)
		if err != nil {
			return tool.Result{}, in.Workspace, err
		}
		defer cenv.Close()
		cenv.Outfit(&env.Command)
		if cenv.Failed != nil {
			note = setupNote(cenv.Failed)
		}
		env.Base = func(ctx context.Context) (sandbox.Command, func(), error) { return a.baseCommand(ctx, in, cache) }
	}
	if def.Commands {
		out := a.output(ctx, in.Execution.RunID, nameOf(in.Execution))
		defer out.close()
		env.OnOutput = func(_ sandbox.Stream, chunk []byte) { out.write(chunk) }
	}
	result, err := tools.Call(ctx, env, call.Name, json.RawMessage(call.Arguments))
	result.Text = note + result.Text
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), tester.KeepTime)
	defer cancel()
	err = errors.Join(err, a.keepRequests(last, in, way))
	if err != nil || !known || def.ReadOnly {
		return result, in.Workspace, err
	}
	if !result.Changed {
		return result, in.Workspace, dir.Unchanged()
	}
	after, err := save(ctx, dir, result)
	if errors.Is(err, workspace.ErrTooLarge) {
		// The model can fix that; the workspace remains unchanged for the next call.
		return tool.Result{Code: contract.CodeTooLarge, Text: result.Text + "\n" + err.Error()}, in.Workspace, nil
	}
	return result, after, err
}

// save records what a tool changed, which is cheap for one file.
func save(ctx context.Context, dir *workspace.Dir, result tool.Result) (contract.Workspace, error) {
	if result.Path == "" {
		return dir.Save(ctx)
	}
	return dir.SaveFile(ctx, result.Path)
}

// agentEgress returns the network access for one tool call of an agent. The environment agent has
// the network access of a setup.
func (a *Activities) agentEgress(e contract.ExecutionRef) *tester.Egress {
	setting := "execution.sandbox.network"
	if e.Agent == contract.AgentEnvironment {
		setting = "environment.network.hosts"
	}
	return a.host().Egress("run "+directory(e), setting)
}

// keepRequests stores a tool call's network requests, if any, as an artifact of the run.
func (a *Activities) keepRequests(ctx context.Context, in contract.ToolInput, way *tester.Egress) error {
	kept, err := a.requestsArtifact(ctx, way, fmt.Sprintf("network/%s/%d/%d-%d.jsonl", nameOf(in.Execution), in.Execution.Attempt, in.Turn, in.Index))
	for i := range kept {
		kept[i].ExecutionID = in.Execution.ID
	}
	if err != nil {
		return err
	}
	return a.Store.AddArtifacts(ctx, in.Execution.RunID, kept)
}

// toolEnv returns the environment of a tool.
func (a *Activities) toolEnv(in contract.ToolInput, root string, cache *buildcache.Cache, way *tester.Egress) tool.Env {
	command := a.host().Command(cache)
	if hosts := a.Config.Execution.Sandbox.Network; len(hosts) > 0 && a.Proxy != nil {
		command.Proxy, command.CACertificates = way.Serve(hosts), a.Proxy.CACertificate()
	}
	return tool.Env{
		Root: root, Runner: a.Sandbox, Command: command, Brain: a.askBrain(in.Workspace, in.LocalOnly),
		Limits: tool.Limits{CommandTimeout: in.Timeout, MaxTimeout: in.Timeout},
	}
}

// toolsOf returns the tools of the agent of an execution.
func (a *Activities) toolsOf(e contract.ExecutionRef) *tool.Set {
	if e.Agent == contract.AgentEnvironment {
		return a.SetupTools
	}
	return a.Tools
}

// agentCommandEnv returns the environment for the commands of an agent's attempt.
func (a *Activities) agentCommandEnv(ctx context.Context, in contract.ToolInput, dir *workspace.Dir, cache *buildcache.Cache) (*tester.CommandEnv, error) {
	run, err := a.Store.Run(ctx, in.Execution.RunID)
	if err != nil {
		return nil, err
	}
	spec, err := specOf(run)
	if err != nil {
		return nil, err
	}
	cenv, err := a.commandEnv(ctx, run, spec, in.Workspace, dir.Path())
	if err != nil {
		return nil, err
	}
	if cenv.Home, cenv.Tmp, err = cache.Home(fmt.Sprintf("%s/%d", nameOf(in.Execution), in.Execution.Attempt)); err == nil {
		err = dir.Ignore(cenv.Unignored())
	}
	if err != nil {
		cenv.Close()
		return nil, err
	}
	return cenv, nil
}

// baseCommand returns the settings of a command on a run's base commit.
func (a *Activities) baseCommand(ctx context.Context, in contract.ToolInput, cache *buildcache.Cache) (sandbox.Command, func(), error) {
	none := func() {}
	run, err := a.Store.Run(ctx, in.Execution.RunID)
	if err != nil {
		return sandbox.Command{}, none, err
	}
	spec, err := specOf(run)
	if err != nil {
		return sandbox.Command{}, none, err
	}
	dir, err := a.Workspaces.Open(ctx, run.Settings.Repo.Workspace(), directory(in.Execution)+"/base")
	if err != nil {
		return sandbox.Command{}, none, err
	}
	cenv, err := a.commandEnv(ctx, run, spec, run.Settings.Repo.Workspace(), dir.Path())
	if err != nil {
		dir.Close()
		return sandbox.Command{}, none, err
	}
	done := func() { cenv.Close(); dir.Close() }
	own := fmt.Sprintf("%s/%d", nameOf(in.Execution), in.Execution.Attempt)
	if cenv.Home, _, err = cache.Home(own + "/base"); err == nil {
		_, cenv.Tmp, err = cache.Home(own) // commands on both workspaces share /tmp
	}
	if err != nil {
		done()
		return sandbox.Command{}, none, err
	}
	c := a.host().Command(cache)
	c.Root = dir.Path()
	cenv.Outfit(&c)
	return c, done, nil
}

// directory returns the key of an execution's working directory.
func directory(e contract.ExecutionRef) string {
	return fmt.Sprintf("%d/%s/%d", e.RunID, nameOf(e), e.Attempt)
}

// nameOf returns the name of an execution: its step or its phase.
func nameOf(e contract.ExecutionRef) string {
	if e.Step != "" {
		return e.Step
	}
	return string(e.Phase)
}

// fingerprint identifies a call that is repeated with the same result.
func fingerprint(call model.ToolCall, text string) string {
	hash := sha256.New()
	for _, part := range []string{call.Name, call.Arguments, text} {
		fmt.Fprintf(hash, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(hash.Sum(nil)[:8])
}

// saveToolResult stores the effect of a call and the result shown to the model. If two workers made
// the same call, the first result counts.
func (a *Activities) saveToolResult(ctx context.Context, in contract.ToolInput, call model.ToolCall, result tool.Result, outcome contract.ToolOutcome, started time.Time) (contract.ToolOutcome, error) {
	messages, err := encode([]model.Message{{Role: model.RoleTool, ToolCallID: call.ID, Text: result.Text}})
	if err != nil {
		return contract.ToolOutcome{}, err
	}
	return a.Store.SaveToolResult(ctx, in.Execution.ID, in.Turn, in.Index, store.ToolCall{
		Tool: shownName(call.Name), Outcome: outcome, TreeBefore: in.Workspace.Tree, StartedAt: started, FinishedAt: time.Now(),
	}, messages[0])
}
