package api

import (
	"cmp"
	"context"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/apitypes"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/server/param"
)

// OfPipeline is a request about one pipeline.
type OfPipeline struct {
	ID int64 `path:"id" minimum:"1" doc:"ID of the pipeline"`
}

func (s *Server) pipelineOperations(api huma.API) {
	get := func(path, id, summary string) huma.Operation {
		return operation(http.MethodGet, path, id, "pipelines", summary)
	}
	post := func(path, id, summary string) huma.Operation {
		return operation(http.MethodPost, path, id, "pipelines", summary, http.StatusConflict, http.StatusUnprocessableEntity)
	}
	spawn := post("/api/spawn", "spawn-pipeline", "Have ALPHA and BETA deliberate on an objective")
	spawn.DefaultStatus = http.StatusCreated
	handle(s, api, spawn, s.spawn)
	handle(s, api, get("/api/pipelines", "list-pipelines", "List pipelines, newest first"), s.listPipelines)
	handle(s, api, get("/api/pipelines/{id}", "get-pipeline", "Get the status of a pipeline"), func(ctx context.Context, in *OfPipeline) (*body[store.Pipeline], error) {
		return answered(s.Store.Pipeline(ctx, in.ID))
	})
	handle(s, api, get("/api/pipeline/{id}/orchestration", "get-orchestration", "Get the whole pipeline: blackboard, votes, messages, errors, reports"), func(ctx context.Context, in *struct {
		OfPipeline
		Versions bool `query:"versions" doc:"include all versions of the blackboard entries"`
	}) (*body[control.Orchestration], error) {
		return answered(s.pipelines().Orchestration(ctx, in.ID, in.Versions))
	})
	handle(s, api, get("/api/pipeline/logs", "get-pipeline-logs", "List messages, writes, votes, errors and status changes, in order"), s.pipelineLogs)
	handle(s, api, get("/api/checkpoint/report", "get-report", "Get the agents' results so far"), func(ctx context.Context, in *struct {
		Pipeline int64  `query:"pipeline_id" minimum:"1" doc:"default: the newest pipeline with a report of this kind"`
		Kind     string `query:"kind" enum:"checkpoint,partial,final" default:"checkpoint" doc:"checkpoint: the report after the agents' independent work"`
	}) (*body[contract.DeliberationReport], error) {
		return answered(s.pipelines().Report(ctx, in.Pipeline, cmp.Or(in.Kind, contract.ReportCheckpoint)))
	})
	handle(s, api, post("/api/pipeline/continue", "continue-pipeline", "Continue a pipeline after its checkpoint report"), s.continuePipeline)
	handle(s, api, post("/api/pipeline/{id}/stop", "stop-pipeline", "Stop a pipeline; its results so far are kept"), func(ctx context.Context, in *struct {
		OfPipeline
		Keyed
		Body *apitypes.Attribution
	}) (*body[contract.PipelineAck], error) {
		b := given(in.Body)
		c := in.pipelineCommand("stop-pipeline", in.ID, b.By)
		c.Reason = b.Reason
		return answered(s.pipelines().Stop(ctx, in.ID, c))
	})
	handle(s, api, post("/api/pipeline/errors/record", "record-pipeline-error", "Record an agent error"), s.recordPipelineError)
	handle(s, api, post("/api/pipeline/models", "switch-pipeline-models", "Switch a pipeline's agents to another model, starting with their next turn"), s.switchModels)
	handle(s, api, post("/api/pipeline/revoke", "revoke-agent", "Remove an agent from a pipeline; the other agents continue"), s.revokeMember)
	handle(s, api, post("/api/pipeline/failure-context", "failure-context", "Get a pipeline's failure context, optionally adding a note to it"), s.failureContext)
}

// pipelines returns the operations on pipelines.
func (s *Server) pipelines() *control.Pipelines { return s.Runs.Pipelines() }

// pipelineCommand returns a command to a pipeline. The id of the command is derived from the key,
// so that a request sent twice counts once.
func (k Keyed) pipelineCommand(what string, id int64, by string) contract.PipelineCommand {
	return contract.PipelineCommand{ID: k.id(what, id), By: cmp.Or(by, contract.ByAPI)}
}

func (s *Server) spawn(ctx context.Context, in *struct {
	Keyed
	Body apitypes.SpawnRequest
}) (*body[apitypes.SpawnedPipeline], error) {
	b := in.Body
	if err := param.CheckText("project", b.Project, "Idempotency-Key", in.Key); err != nil {
		return nil, err
	}
	made, err := s.pipelines().Spawn(ctx, control.Spawning{
		Objective: b.Objective, Task: b.Task, Project: b.Project, AutoContinue: b.AutoContinue, ForceGamma: b.ForceGamma,
		Mode: b.Mode, Model: b.Model, Models: b.Models, Effort: b.Effort, Timeout: b.Timeout, Key: in.Key, By: cmp.Or(b.By, contract.ByAPI),
	})
	out := apitypes.SpawnedPipeline{
		PipelineID: made.Pipeline.ID, Status: made.Pipeline.Status, WorkflowID: contract.PipelineWorkflowID(made.Pipeline.ID), Created: made.Fresh,
	}
	if made.Waiting != "" {
		out.Notes = append(out.Notes, "created but not started yet; a worker will start it")
	}
	return answered(out, err)
}

func (s *Server) listPipelines(ctx context.Context, in *struct {
	Status []string `query:"status,explode" maxItems:"20" doc:"only pipelines with one of these statuses; repeatable"`
	Text   string   `query:"text" doc:"only pipelines with this text in the objective"`
	Run    int64    `query:"run" minimum:"1" doc:"only pipelines that plan this run"`
	Limit  int      `query:"limit" minimum:"1" maximum:"1000" default:"50" doc:"maximum number of results"`
	Cursor string   `query:"cursor" doc:"value of next from the previous page"`
}) (*body[apitypes.PipelineList], error) {
	f := store.PipelineFilter{Text: in.Text, RunID: in.Run, Limit: in.Limit}
	for _, status := range in.Status {
		for one := range strings.SplitSeq(status, ",") {
			if err := param.OneOf("status", contract.PipelineStatus(one), contract.PipelineStatuses()); err != nil {
				return nil, err
			}
			if one != "" {
				f.Status = append(f.Status, contract.PipelineStatus(one))
			}
		}
	}
	if err := param.CheckText("text", f.Text); err != nil {
		return nil, err
	}
	var err error
	if f.Before, err = param.ReadCursor[store.Cursor](in.Cursor); err != nil {
		return nil, err
	}
	list, err := s.Store.ListPipelines(ctx, f)
	page := apitypes.PipelineList{Pipelines: store.NotNil(list)}
	if err == nil && len(list) == f.Limit {
		page.Next = param.WriteCursor(list[len(list)-1].Cursor())
	}
	return answered(page, err)
}

func (s *Server) pipelineLogs(ctx context.Context, in *struct {
	Pipeline int64 `query:"pipeline_id" minimum:"1" doc:"default: the newest pipeline"`
	After    int64 `query:"after" minimum:"0" doc:"return entries after this number; 0: from the first"`
	Limit    int   `query:"limit" minimum:"1" maximum:"1000" default:"200"`
}) (*body[apitypes.PipelineLogs], error) {
	p := s.pipelines()
	if in.Pipeline == 0 {
		newest, err := p.Newest(ctx)
		if err != nil {
			return nil, err
		}
		in.Pipeline = newest.ID
	}
	entries, err := p.Logs(ctx, in.Pipeline, in.After, in.Limit)
	return answered(apitypes.PipelineLogs{PipelineID: in.Pipeline, Entries: store.NotNil(entries)}, err)
}

func (s *Server) continuePipeline(ctx context.Context, in *struct {
	Keyed
	Body apitypes.ContinueRequest
}) (*body[contract.PipelineAck], error) {
	b := in.Body
	return answered(s.pipelines().Continue(ctx, b.PipelineID, control.Continuation{
		Mode: b.Mode, Model: b.Model, Effort: b.Effort, Timeout: b.Timeout, PipelineCommand: in.pipelineCommand("continue-pipeline", b.PipelineID, b.By),
	}))
}

func (s *Server) recordPipelineError(ctx context.Context, in *struct {
	Keyed
	Body apitypes.RecordErrorRequest
}) (*body[contract.PipelineAck], error) {
	b := in.Body
	e := contract.Error{Member: b.Agent, Class: b.ErrorType, Code: b.ErrorCode, Severity: b.Severity, Message: b.Message}
	return answered(s.pipelines().RecordError(ctx, b.PipelineID, e, in.pipelineCommand("record-error", b.PipelineID, b.By)))
}

func (s *Server) revokeMember(ctx context.Context, in *struct {
	Keyed
	Body apitypes.RevokeRequest
}) (*body[contract.PipelineAck], error) {
	b := in.Body
	c := in.pipelineCommand("revoke-agent", b.PipelineID, b.By)
	c.Reason = b.Reason
	return answered(s.pipelines().Revoke(ctx, b.PipelineID, b.Agent, c))
}

func (s *Server) switchModels(ctx context.Context, in *struct {
	Keyed
	Body apitypes.SwitchModelsRequest
}) (*body[contract.PipelineAck], error) {
	b := in.Body
	c := in.pipelineCommand("switch-pipeline-models", b.PipelineID, b.By)
	c.Reason = b.Reason
	return answered(s.pipelines().SwitchModel(ctx, b.PipelineID, b.Agent, b.Model, b.Temperature, b.Effort, c))
}

func (s *Server) failureContext(ctx context.Context, in *struct {
	Keyed
	Body apitypes.FailureContextRequest
}) (*body[control.KeptFailure], error) {
	b := in.Body
	c := in.pipelineCommand("failure-context", b.PipelineID, b.By)
	c.Context = b.Context
	return answered(s.pipelines().FailureContext(ctx, b.PipelineID, c))
}
