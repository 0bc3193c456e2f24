package apitypes

import (
	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/store"
)

// SpawnRequest is the request to create a pipeline.
type SpawnRequest struct {
	Objective    string                    `json:"objective,omitempty" doc:"question or problem to deliberate on; may be part of the task instead"`
	AutoContinue *bool                     `json:"auto_continue,omitempty" doc:"continue automatically after the checkpoint report; default: as configured"`
	Task         *control.Task             `json:"task,omitempty" doc:"additional details about the objective"`
	Mode         contract.PipelineMode     `json:"mode,omitempty" enum:"openrouter,local" doc:"openrouter: the configured models; local: the scripted model; default: as configured"`
	Model        string                    `json:"model,omitempty" doc:"model for all agents, as provider/model"`
	Models       map[contract.Agent]string `json:"models,omitempty" doc:"models of single agents (alpha, beta, gamma), as provider/model, instead of model"`
	Effort       contract.Effort           `json:"effort,omitempty" enum:"low,medium,high" doc:"amount of reasoning of all agents; default: as configured"`
	Timeout      int                       `json:"timeout,omitempty" minimum:"0" maximum:"86400" doc:"time limit for the exchange, in seconds; default: the task's limit, or as configured"`
	ForceGamma   bool                      `json:"force_gamma,omitempty" doc:"have GAMMA join from the start"`
	Project      string                    `json:"project,omitempty" doc:"project to list the pipeline under; default: pipeline"`
	By           string                    `json:"by,omitempty" maxLength:"200" doc:"who starts it; default: api"`
}

// SpawnedPipeline identifies a new pipeline.
type SpawnedPipeline struct {
	PipelineID int64                   `json:"pipeline_id"`
	Status     contract.PipelineStatus `json:"status"`
	WorkflowID string                  `json:"workflow_id"`
	Created    bool                    `json:"created" doc:"false: an earlier request with the same key already created the pipeline"`
	Notes      []string                `json:"notes,omitempty"`
}

// OfPipeline identifies the pipeline of a command.
type OfPipeline struct {
	PipelineID int64  `json:"pipeline_id" minimum:"1"`
	By         string `json:"by,omitempty" maxLength:"200" doc:"sender of the command; default: api"`
}

// ContinueRequest makes a pipeline continue with its exchange.
type ContinueRequest struct {
	OfPipeline
	Mode    contract.PipelineMode `json:"mode,omitempty" enum:"openrouter,local" doc:"default: the mode used at the start"`
	Model   string                `json:"model,omitempty" doc:"model for all agents, as provider/model; effective immediately; default: the model used at the start"`
	Effort  contract.Effort       `json:"effort,omitempty" enum:"low,medium,high" doc:"amount of reasoning of all agents; default: unchanged"`
	Timeout int                   `json:"timeout,omitempty" minimum:"0" maximum:"86400" doc:"time limit for the exchange, in seconds; default: unchanged"`
}

// RecordErrorRequest records an error of an agent of a pipeline.
type RecordErrorRequest struct {
	OfPipeline
	Agent     contract.Member   `json:"agent" doc:"ALPHA, BETA or GAMMA"`
	ErrorType contract.Class    `json:"error_type" doc:"failure class, such as LLM_ERROR"`
	ErrorCode contract.Code     `json:"error_code,omitempty" maxLength:"64" doc:"error code; default: \"unknown\""`
	Severity  contract.Severity `json:"severity,omitempty" enum:"major,medium,minor" doc:"default: major for SAFETY_ERROR, else medium"`
	Message   string            `json:"message" minLength:"1"`
}

// RevokeRequest removes an agent from a pipeline.
type RevokeRequest struct {
	OfPipeline
	Agent  contract.Member `json:"agent" doc:"ALPHA, BETA or GAMMA"`
	Reason string          `json:"reason,omitempty" doc:"reason to record"`
}

// SwitchModelsRequest switches agents of a pipeline to another model.
type SwitchModelsRequest struct {
	OfPipeline
	Agent       contract.Member `json:"agent,omitempty" doc:"ALPHA, BETA or GAMMA; default: all"`
	Model       string          `json:"model" minLength:"1" maxLength:"400" doc:"model, as provider/model"`
	Temperature *float64        `json:"temperature,omitempty" minimum:"0" maximum:"2" doc:"sampling temperature"`
	Effort      contract.Effort `json:"effort,omitempty" enum:"low,medium,high" doc:"amount of reasoning; default: the provider's"`
	Reason      string          `json:"reason,omitempty" doc:"reason to record"`
}

// FailureContextRequest reads a failure context, or adds a note to it.
type FailureContextRequest struct {
	OfPipeline
	Context string `json:"context,omitempty" doc:"note to store with the failure context if the pipeline fails; absent: only read the context"`
}

// PipelineList is a page of pipelines.
type PipelineList struct {
	Pipelines []store.Pipeline `json:"pipelines"`
	Next      string           `json:"next,omitempty" doc:"cursor of the next page; absent on the last page"`
}

// PipelineLogs are the log entries of a pipeline, in order.
type PipelineLogs struct {
	PipelineID int64                 `json:"pipeline_id"`
	Entries    []control.PipelineLog `json:"entries"`
}
