package apitypes

import (
	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/store"
)

// SpawnRequest asks for a pipeline.
type SpawnRequest struct {
	Objective    string                `json:"objective,omitempty" doc:"what is to be deliberated; may stand in the task instead"`
	AutoContinue *bool                 `json:"auto_continue,omitempty" doc:"go on by itself after the report of the opening work; default: as configured"`
	Task         *control.Task         `json:"task,omitempty" doc:"more about the objective"`
	Mode         contract.PipelineMode `json:"mode,omitempty" enum:"openrouter,local" doc:"openrouter: the configured models; local: the scripted one; default: as configured"`
	Model        string                `json:"model,omitempty" doc:"model of all agents, as provider/model"`
	Timeout      int                   `json:"timeout,omitempty" minimum:"0" maximum:"86400" doc:"seconds of the exchange; default: the task's, or as configured"`
	ForceGamma   bool                  `json:"force_gamma,omitempty" doc:"GAMMA is there from the start"`
	Project      string                `json:"project,omitempty" doc:"whose budgets pay; default: pipeline"`
}

// SpawnedPipeline says which pipeline a request has made.
type SpawnedPipeline struct {
	PipelineID int64                   `json:"pipeline_id"`
	Status     contract.PipelineStatus `json:"status"`
	WorkflowID string                  `json:"workflow_id"`
	Created    bool                    `json:"created" doc:"false: the same key had made it before"`
	Notes      []string                `json:"notes,omitempty"`
}

// OfPipeline names the pipeline that a command is for.
type OfPipeline struct {
	PipelineID int64  `json:"pipeline_id" minimum:"1"`
	By         string `json:"by,omitempty" maxLength:"200" doc:"who says so; default: api"`
}

// ContinueRequest lets a pipeline continue to its exchange.
type ContinueRequest struct {
	OfPipeline
	Mode    contract.PipelineMode `json:"mode,omitempty" enum:"openrouter,local" doc:"default: that of the spawn"`
	Model   string                `json:"model,omitempty" doc:"model of all agents from now on, as provider/model; default: those of the spawn"`
	Timeout int                   `json:"timeout,omitempty" minimum:"0" maximum:"86400" doc:"seconds of the exchange; default: as it is"`
}

// RecordErrorRequest counts an error against an agent of a pipeline.
type RecordErrorRequest struct {
	OfPipeline
	Agent     contract.Member   `json:"agent" doc:"ALPHA, BETA or GAMMA"`
	ErrorType contract.Class    `json:"error_type" doc:"a class of the table of failures, such as LLM_ERROR"`
	ErrorCode contract.Code     `json:"error_code,omitempty" maxLength:"64" doc:"default: unknown"`
	Severity  contract.Severity `json:"severity,omitempty" enum:"major,medium,minor" doc:"default: major for SAFETY_ERROR, else medium"`
	Message   string            `json:"message" minLength:"1"`
}

// RevokeRequest removes an agent from a pipeline.
type RevokeRequest struct {
	OfPipeline
	Agent  contract.Member `json:"agent" doc:"ALPHA, BETA or GAMMA"`
	Reason string          `json:"reason,omitempty" doc:"for the record"`
}

// SwitchModelsRequest makes agents of a pipeline use another model.
type SwitchModelsRequest struct {
	OfPipeline
	Agent       contract.Member `json:"agent,omitempty" doc:"ALPHA, BETA or GAMMA; absent: all of them"`
	Model       string          `json:"model" minLength:"1" maxLength:"400" doc:"as provider/model"`
	Temperature *float64        `json:"temperature,omitempty" minimum:"0" maximum:"2" doc:"how much answers vary"`
	Reason      string          `json:"reason,omitempty" doc:"for the record"`
}

// FailureContextRequest asks for a failure context, or for a note in it.
type FailureContextRequest struct {
	OfPipeline
	Context string `json:"context,omitempty" doc:"is kept with the failure context, should the pipeline fail; absent: only read it"`
}

// PipelineList is a page of pipelines.
type PipelineList struct {
	Pipelines []store.Pipeline `json:"pipelines"`
	Next      string           `json:"next,omitempty" doc:"cursor of the next page; absent on the last one"`
}

// PipelineLogs are what happened in a pipeline, in order.
type PipelineLogs struct {
	PipelineID int64                 `json:"pipeline_id"`
	Entries    []control.PipelineLog `json:"entries"`
}
