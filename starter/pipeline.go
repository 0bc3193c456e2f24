package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/backend"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/terminal"
)

// Exit codes of commands about pipelines. Invalid input is an ordinary error here.
const (
	exitConsensus   = 0
	exitNoConsensus = 2
	exitAborted     = 3 // stuck, too many rounds, out of time, or stopped
)

// pipelineExits marks commands that have these exit codes.
const pipelineExits = "uses the pipeline exit codes"

// exitIn maps the exit code of an error to the exit codes that a command uses.
func exitIn(cmd *cobra.Command, code int) int {
	for c := cmd; c != nil && code == exitInput; c = c.Parent() {
		if c.Annotations[pipelineExits] != "" {
			return exitError
		}
	}
	return code
}

func newPipeline(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pipeline",
		Short: "Have ALPHA and BETA deliberate on an objective",
		Long: `A pipeline is a deliberation: ALPHA and BETA first work on an objective independently,
then exchange their results until they agree. GAMMA joins when needed.

With --wait, and in rgpt pipeline watch, the last line is ORCHESTRATION_RESULT: followed by
a JSON document that contains consensus, task_id, metrics, abort_reason,
requires_auto_recovery (true if the pipeline was aborted and no recovery reached a
consensus), pipeline_id, status and final.

Exit codes: 0 consensus (or the command succeeded), 1 error, 2 no consensus,
3 aborted or stopped.`,
		Args:        noArgs,
		RunE:        func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		Annotations: map[string]string{pipelineExits: "true"},
	}
	cmd.AddCommand(newPipelineSpawn(a), newPipelineContinue(a), newPipelineStatus(a), newPipelineWatch(a), newPipelineLogs(a),
		newPipelineList(a), newPipelineStop(a), newPipelineSwitchModel(a), newPipelineRevoke(a))
	for _, sub := range cmd.Commands() {
		if strings.Contains(sub.Use, "PIPELINE") {
			sub.ValidArgsFunction = a.completePipeline
		}
	}
	return cmd
}

// spawning is a request of `pipeline spawn`.
type spawning struct {
	control.Spawning
	taskFile   string
	members    []string // models of single members, as member=provider/model
	auto, wait bool
}

// takeModels reads the models of single members.
func (s *spawning) takeModels() error {
	for _, one := range s.members {
		member, name, ok := strings.Cut(one, "=")
		if !ok || member == "" {
			return usageError{fmt.Errorf("--member-model %q must have the form member=provider/model", one)}
		}
		if s.Models == nil {
			s.Models = map[contract.Agent]string{}
		}
		s.Models[contract.Agent(strings.ToLower(member))] = name
	}
	return nil
}

func newPipelineSpawn(a *app) *cobra.Command {
	var s spawning
	var mode string
	cmd := &cobra.Command{
		Use: "spawn --objective TEXT", Short: "Start a pipeline", Args: noArgs,
		Example: `  rgpt pipeline spawn --objective "Design a caching strategy" --auto-continue --wait
  rgpt pipeline spawn --task task.yaml --mode openrouter --timeout 300 --json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("auto-continue") {
				s.AutoContinue = &s.auto
			}
			if err := s.takeModels(); err != nil {
				return err
			}
			s.Mode, s.By = contract.PipelineMode(mode), caller()
			return a.spawnPipeline(cmd.Context(), s)
		},
	}
	f := cmd.Flags()
	f.StringVar(&s.Objective, "objective", "", "question or task to deliberate on")
	f.StringVar(&s.taskFile, "task", "", "file (YAML or JSON) with task_id, objective, complexity, subtasks, constraints, success_criteria, timeout_seconds; - is standard input")
	f.StringVar(&s.Project, "project", "", "project whose webhooks receive the pipeline's events (default: \"pipeline\")")
	f.StringVar(&mode, "mode", "", "openrouter (the configured models) or local (the scripted model)")
	f.StringVar(&s.Model, "model", "", "model for all agents, as provider/model")
	f.StringArrayVar(&s.members, "member-model", nil, "model of one agent, as alpha=provider/model; repeatable")
	effortFlag(cmd, &s.Effort, "as configured")
	f.StringVar(&s.Key, "idempotency-key", "", "requests with the same key create only one pipeline")
	f.IntVar(&s.Timeout, "timeout", 0, "time limit for the exchange, in seconds (deliberation.timeout)")
	f.BoolVar(&s.auto, "auto-continue", false, "continue automatically after the checkpoint report")
	f.BoolVar(&s.ForceGamma, "gamma", false, "include GAMMA from the start")
	f.BoolVar(&s.wait, "wait", false, "follow the pipeline and its recoveries until they end")
	complete(cmd, "mode", contract.PipelineModes())
	return cmd
}

// spawnPipeline creates a pipeline, unless the request is invalid.
func (a *app) spawnPipeline(ctx context.Context, s spawning) error {
	if s.taskFile != "" {
		task, err := a.readTask(s.taskFile)
		if err != nil {
			return err
		}
		s.Task = task
	}
	if err := s.Check(); err != nil {
		return err
	}
	return a.with(ctx, backend.NeedTemporal, func(h backend.Backend) error {
		made, err := h.Spawn(ctx, s.Spawning)
		if err != nil {
			return err
		}
		p := made.Pipeline
		if made.Waiting != "" {
			fmt.Fprintln(a.errs, "rgpt: pipeline", p.ID, "was created but has not started yet; the worker will start it:", terminal.Clean(made.Waiting))
		}
		if made.Fresh && s.Model == "" && s.Mode == contract.ModeOpenRouter && p.Mode == contract.ModeLocal {
			fmt.Fprintln(a.errs, "rgpt: using the scripted model (mode \"local\"), because no other model is configured; see rgpt models")
		}
		switch {
		case s.wait:
			return a.watchPipeline(ctx, h, p.ID, 0)
		case a.json:
			a.printJSON(map[string]any{"pipeline_id": p.ID, "status": p.Status, "created": made.Fresh, "workflow_id": contract.PipelineWorkflowID(p.ID)})
		default:
			how := "spawned"
			if !made.Fresh {
				how = "was already spawned with this key"
			}
			fmt.Fprintf(a.out, "Pipeline %d %s: %s\n", p.ID, how, terminal.Clean(p.Objective))
			fmt.Fprintf(a.out, "Follow it with: rgpt pipeline watch %d\n", p.ID)
		}
		return nil
	})
}

// readTask reads a task from a file.
func (a *app) readTask(file string) (*control.Task, error) {
	text, err := a.read(file)
	if err != nil {
		return nil, err
	}
	var task control.Task
	if err := readStrictly(file, "task", text, &task); err != nil {
		return nil, err
	}
	return &task, nil
}

// onePipeline requires a pipeline ID as the only argument.
func onePipeline(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usageError{fmt.Errorf("%s needs the ID of one pipeline, such as 7; see rgpt pipeline list", cmd.CommandPath())}
	}
	_, err := pipelineID(args[0])
	return err
}

// perhapsPipeline accepts a pipeline ID or no argument.
func perhapsPipeline(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return onePipeline(cmd, args)
}

// pipelineID parses a pipeline ID in any form that users see: 7, #7, pipeline-7.
func pipelineID(text string) (int64, error) {
	id, err := strconv.ParseInt(strings.TrimPrefix(strings.TrimPrefix(text, "#"), "pipeline-"), 10, 64)
	if err != nil || id <= 0 {
		return 0, usageError{fmt.Errorf("%q is not a pipeline ID; expected a number such as 7 (see rgpt pipeline list)", text)}
	}
	return id, nil
}

// chosenPipeline returns the ID given as an argument, otherwise the ID of the newest pipeline.
func chosenPipeline(ctx context.Context, h backend.Backend, args []string) (int64, error) {
	if len(args) > 0 {
		return pipelineID(args[0])
	}
	newest, err := h.ListPipelines(ctx, store.PipelineFilter{Limit: 1})
	if err != nil {
		return 0, err
	}
	if len(newest) == 0 {
		return 0, usageError{errors.New(`no pipelines yet; spawn one: rgpt pipeline spawn --objective "…"`)}
	}
	return newest[0].ID, nil
}

func newPipelineContinue(a *app) *cobra.Command {
	var n control.Continuation
	var mode string
	var wait bool
	cmd := &cobra.Command{
		Use: "continue PIPELINE", Short: "Continue a pipeline after its report", Args: onePipeline,
		Example: `  rgpt pipeline continue 7
  rgpt pipeline continue 7 --mode openrouter --model openrouter/some-model --timeout 300 --wait`,
		RunE: func(cmd *cobra.Command, args []string) error {
			n.Mode, n.By = contract.PipelineMode(mode), caller()
			return a.pipelineCommand(cmd.Context(), args[0], func(h backend.Backend, id int64) (contract.PipelineAck, error) {
				return h.ContinuePipeline(cmd.Context(), id, n)
			}, wait)
		},
	}
	f := cmd.Flags()
	f.StringVar(&mode, "mode", "", "openrouter or local (default: unchanged)")
	f.StringVar(&n.Model, "model", "", "model for all agents, as provider/model; effective immediately")
	effortFlag(cmd, &n.Effort, "unchanged")
	f.IntVar(&n.Timeout, "timeout", 0, "time limit for the exchange, in seconds")
	f.BoolVar(&wait, "wait", false, "follow the pipeline and its recoveries until they end")
	complete(cmd, "mode", contract.PipelineModes())
	return cmd
}

func newPipelineStop(a *app) *cobra.Command {
	var c contract.PipelineCommand
	cmd := &cobra.Command{
		Use: "stop PIPELINE", Short: "Stop a pipeline; its results so far are kept", Args: onePipeline,
		RunE: func(cmd *cobra.Command, args []string) error {
			c.By = caller()
			return a.pipelineCommand(cmd.Context(), args[0], func(h backend.Backend, id int64) (contract.PipelineAck, error) {
				return h.StopPipeline(cmd.Context(), id, c)
			}, false)
		},
	}
	cmd.Flags().StringVar(&c.Reason, "reason", "", "reason to record")
	return cmd
}

func newPipelineSwitchModel(a *app) *cobra.Command {
	var agent string
	var model modelFlags
	var c contract.PipelineCommand
	cmd := &cobra.Command{
		Use: "switch-model PIPELINE --model PROVIDER/MODEL", Short: "Switch the model used by a pipeline's agents, starting with their next turn", Args: onePipeline,
		Example: `  rgpt pipeline switch-model 7 --model openai/gpt-5
  rgpt pipeline switch-model 7 --model ollama/qwen3 --agent beta --temperature 0.2`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if model.model == "" {
				return usageError{errors.New("switch-model needs --model provider/model")}
			}
			if err := model.check(); err != nil {
				return err
			}
			c.By = caller()
			return a.pipelineCommand(cmd.Context(), args[0], func(h backend.Backend, id int64) (contract.PipelineAck, error) {
				return h.SwitchPipelineModel(cmd.Context(), id, contract.Member(strings.ToUpper(agent)), model.model, model.temperatureFlag(), model.effort, c)
			}, false)
		},
	}
	model.add(cmd, "model to use, as provider/model", "sampling temperature")
	model.addEffort(cmd, "the provider's")
	cmd.Flags().StringVar(&agent, "agent", "", "only for this agent: alpha, beta or gamma")
	cmd.Flags().StringVar(&c.Reason, "reason", "", "reason to record")
	complete(cmd, "agent", contract.Members())
	return cmd
}

func newPipelineRevoke(a *app) *cobra.Command {
	var c contract.PipelineCommand
	cmd := &cobra.Command{
		Use: "revoke PIPELINE AGENT", Short: "Remove ALPHA, BETA or GAMMA from a pipeline; the others continue",
		Example: `  rgpt pipeline revoke 7 BETA --reason "it repeats itself"`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usageError{fmt.Errorf("%s needs a pipeline ID and an agent: ALPHA, BETA or GAMMA", cmd.CommandPath())}
			}
			return onePipeline(cmd, args[:1])
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			c.By = caller()
			return a.pipelineCommand(cmd.Context(), args[0], func(h backend.Backend, id int64) (contract.PipelineAck, error) {
				return h.RevokeMember(cmd.Context(), id, contract.Member(strings.ToUpper(args[1])), c)
			}, false)
		},
	}
	cmd.Flags().StringVar(&c.Reason, "reason", "", "reason to record")
	return cmd
}

// pipelineCommand sends a command to a pipeline, and prints the response or follows the pipeline.
func (a *app) pipelineCommand(ctx context.Context, arg string, give func(backend.Backend, int64) (contract.PipelineAck, error), wait bool) error {
	id, err := pipelineID(arg)
	if err != nil {
		return err
	}
	return a.with(ctx, backend.NeedTemporal, func(h backend.Backend) error {
		ack, err := give(h, id)
		if err != nil {
			return err
		}
		switch {
		case wait:
			return a.watchPipeline(ctx, h, id, 0)
		case a.json:
			a.printJSON(ack)
		default:
			fmt.Fprintf(a.out, "Pipeline %d: %s\n", id, terminal.Clean(ack.Message))
		}
		return nil
	})
}
