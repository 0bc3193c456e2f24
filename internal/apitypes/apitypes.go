// Package apitypes has the types that the server of the HTTP API and its clients
// exchange: headers, the bodies of requests and responses, and problems. The OpenAPI
// document is generated from these types.
package apitypes

import (
	"net/http"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/runs/rerun"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/views"
)

const (
	// VersionHeader carries the server's version in each answer.
	VersionHeader = "X-Rgpt-Version"
	// KeyHeader makes a command that is sent again count once.
	KeyHeader = "Idempotency-Key"
	// ReplayedHeader says that an answer was given before.
	ReplayedHeader = "Idempotency-Replayed"
	// LastEventHeader says after which event a stream continues.
	LastEventHeader = "Last-Event-ID"
	// ProblemType is the media type of a Problem.
	ProblemType = "application/problem+json"
)

// Problem is an error as defined by RFC 9457.
type Problem struct {
	Title  string         `json:"title"`
	Status int            `json:"status"`
	Detail string         `json:"detail,omitempty"`
	Class  contract.Class `json:"error_type,omitempty" doc:"failure class, if one applies"`
	Code   contract.Code  `json:"code,omitempty" doc:"failure class, if one applies"`
	// Instance names the request as in the server's log.
	Instance string    `json:"instance,omitempty"`
	Errors   []Invalid `json:"errors,omitempty"`
}

// Invalid is one thing that is wrong with a request.
type Invalid struct {
	At      string `json:"at" doc:"location, such as body.goal or query.limit"`
	Message string `json:"message"`
}

// BadRequest is the problem with an invalid request.
func BadRequest(detail string) Problem {
	return Problem{Title: "Invalid request", Status: http.StatusBadRequest, Detail: detail, Class: contract.ClassHuman, Code: contract.CodeInvalidConfig}
}

// Error lets huma return a problem as an error.
func (p Problem) Error() string { return p.Title + ": " + p.Detail }

// GetStatus returns the HTTP status of a problem.
func (p Problem) GetStatus() int { return p.Status }

// ContentType makes the answer problem+json.
func (p Problem) ContentType(string) string { return ProblemType }

// RunList is a page of runs.
type RunList struct {
	Runs []store.Run `json:"runs"`
	Next string      `json:"next,omitempty" doc:"cursor of the next page; absent on the last page"`
}

// EventList is a part of a run's events.
type EventList struct {
	Events []contract.Event `json:"events"`
}

// Logs are the conversations of a run's agents.
type Logs struct {
	Conversations []control.Conversation `json:"conversations"`
}

// Interventions are questions to people.
type Interventions struct {
	Interventions []views.Intervention `json:"interventions"`
}

// Links are where else a run can be viewed.
type Links struct {
	Temporal string `json:"temporal,omitempty" doc:"workflow of the run in the Temporal Web UI"`
}

// CreateRequest asks for a run.
type CreateRequest struct {
	Repo           string            `json:"repo" minLength:"1" doc:"repository: a directory on the server's host or a URL"`
	Base           string            `json:"base,omitempty" doc:"branch, tag or commit to start from"`
	Goal           string            `json:"goal,omitempty" minLength:"1" doc:"what the change should achieve; the first line is the title. Optional only with prepare_only"`
	Description    string            `json:"description,omitempty" doc:"additional details of the goal"`
	Project        string            `json:"project,omitempty" doc:"default: the repository's name"`
	Model          string            `json:"model,omitempty" doc:"model of all agents, as provider/model"`
	Plan           *contract.Plan    `json:"plan,omitempty" doc:"plan to use instead of asking the planner"`
	PlanOnly       bool              `json:"plan_only,omitempty" doc:"stop after the plan"`
	PrepareOnly    bool              `json:"prepare_only,omitempty" doc:"stop after the environment and the baseline, without calling a model or asking a person"`
	Environment    string            `json:"environment,omitempty" doc:"auto: as configured; none: no environment and no baseline; otherwise a YAML document with an environment section, for this run only"`
	PlanBy         string            `json:"plan_by,omitempty" enum:"auto,planner,deliberation" doc:"who plans: planner, deliberation (ALPHA and BETA), or auto: deliberation if the planner finds the goal too complex; default: as configured"`
	ApprovePlan    bool              `json:"approve_plan,omitempty" doc:"wait for approval before building"`
	ApproveRelease bool              `json:"approve_release,omitempty" doc:"wait for approval before releasing"`
	Push           bool              `json:"push,omitempty" doc:"also push the branch"`
	Remote         string            `json:"remote,omitempty" doc:"remote to push to: a name or a URL"`
	Settings       map[string]string `json:"settings,omitempty" doc:"configuration settings by dotted key, for this run only: its limits, and settings that a repository may set"`
}

// CreatedRun says which run was made.
type CreatedRun struct {
	RunID      int64           `json:"runId"`
	Status     contract.Status `json:"status"`
	Created    bool            `json:"created" doc:"false: already created by a request with the same key"`
	WorkflowID string          `json:"workflow_id"`
	Notes      []string        `json:"notes,omitempty"`
}

// Attribution says who asks and why.
type Attribution struct {
	By     string `json:"by,omitempty" maxLength:"200" doc:"who sends the command; default: api"`
	Reason string `json:"reason,omitempty" doc:"reason to record, and instructions for the next attempt"`
}

// Answered says which question is answered, so that nobody answers a question other
// than the one they saw.
type Answered struct {
	ApprovalID string `json:"approval_id,omitempty" doc:"ID of the answered question; default: the open one"`
	// Asked distinguishes questions asked again under the same id, about other work.
	Asked *time.Time `json:"asked,omitempty" doc:"time of the question; the answer is rejected if the open question was asked at a different time. Default: any time"`
}

// AnswerRequest is a person's answer to a run.
type AnswerRequest struct {
	Attribution
	Answered
}

// ApproveRequest is an approval.
type ApproveRequest struct {
	Attribution
	Answered
	Plan *contract.Plan `json:"plan,omitempty" doc:"edited plan, when approving a plan"`
}

// HealRequest says what to do about a failure.
type HealRequest struct {
	Attribution
	Answered
	Action contract.HealAction `json:"action,omitempty" doc:"heal action; default: the next action of the failure's class"`
}

// ModelOverride names a model.
type ModelOverride struct {
	Model       string   `json:"model,omitempty" doc:"model, as provider/model"`
	Temperature *float64 `json:"temperature,omitempty" minimum:"0" maximum:"2" doc:"sampling temperature"`
}

// ReplayRequest says from where a run is repeated.
type ReplayRequest struct {
	Attribution
	ModelOverride
	Phase contract.Phase `json:"phase,omitempty" enum:"planner,builder,tester,releaser" doc:"phase to repeat from; with a step: builder"`
	Step  string         `json:"step,omitempty" doc:"builder only: repeat only this step and the steps that depend on it"`
}

// ForkRequest says from where a new run continues.
type ForkRequest struct {
	ModelOverride
	Step         string         `json:"step,omitempty" doc:"step to continue from; default: the first step of the plan"`
	Turn         *int           `json:"turn,omitempty" minimum:"0" doc:"retain the step's conversation up to this turn; default: the step starts over"`
	Instructions string         `json:"instructions,omitempty" doc:"additional instructions for the model"`
	Plan         *contract.Plan `json:"plan,omitempty" doc:"another plan that contains the step"`
	Reason       string         `json:"reason,omitempty"`
}

// SwitchModelRequest makes a run use another model.
type SwitchModelRequest struct {
	Attribution
	Model       string         `json:"model" minLength:"3" doc:"model, as provider/model"`
	Temperature *float64       `json:"temperature,omitempty" minimum:"0" maximum:"2"`
	Agent       contract.Agent `json:"agent,omitempty" doc:"only for this agent, including those that deliberate on the plan (alpha, beta, gamma); default: all"`
}

// Resumed says how a run continued: with an answer, or again from a phase on.
type Resumed struct {
	Answer *contract.Ack `json:"answer,omitempty"`
	Replay *rerun.Result `json:"replay,omitempty"`
}

// EnvironmentList is a list of stored environments.
type EnvironmentList struct {
	Environments []control.Environment `json:"environments"`
}

// FindRequest asks how a repository would be set up.
type FindRequest struct {
	Repo string `json:"repo" minLength:"1" doc:"repository: a directory on the server's host or a URL"`
	Base string `json:"base,omitempty" doc:"branch, tag or commit; default: the checked-out commit, or the default branch"`
}

// SetupList is a list of stored setups, the newest first.
type SetupList struct {
	Setups []store.Setup `json:"setups"`
}

// OutputList is the output of a run's commands.
type OutputList struct {
	Output []views.Output `json:"output"`
}
