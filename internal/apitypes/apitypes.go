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
	Class  contract.Class `json:"error_type,omitempty" doc:"as in the table of failures, where there is one"`
	Code   contract.Code  `json:"code,omitempty" doc:"as in the table of failures, where there is one"`
	// Instance names the request as in the server's log.
	Instance string    `json:"instance,omitempty"`
	Errors   []Invalid `json:"errors,omitempty"`
}

// Invalid is one thing that is wrong with a request.
type Invalid struct {
	At      string `json:"at" doc:"where: body.goal, query.limit"`
	Message string `json:"message"`
}

// BadRequest is the problem with an invalid request.
func BadRequest(detail string) Problem {
	return Problem{Title: "The request cannot be understood", Status: http.StatusBadRequest, Detail: detail, Class: contract.ClassHuman, Code: contract.CodeInvalidConfig}
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
	Next string      `json:"next,omitempty" doc:"cursor of the next page; absent on the last one"`
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
	Temporal string `json:"temporal,omitempty" doc:"its workflow in the Temporal Web UI"`
}

// CreateRequest asks for a run.
type CreateRequest struct {
	Repo           string            `json:"repo" minLength:"1" doc:"repository: a folder of the server's host or a URL"`
	Base           string            `json:"base,omitempty" doc:"branch, tag or commit to start from"`
	Goal           string            `json:"goal,omitempty" minLength:"1" doc:"what the change is to achieve; its first line is the title. Only a run that prepares needs none"`
	Description    string            `json:"description,omitempty" doc:"more about the goal"`
	Project        string            `json:"project,omitempty" doc:"default: the repository's name"`
	Model          string            `json:"model,omitempty" doc:"model of all agents, as provider/model"`
	Plan           *contract.Plan    `json:"plan,omitempty" doc:"carried out instead of asking the planner"`
	PlanOnly       bool              `json:"plan_only,omitempty" doc:"end with the plan"`
	PrepareOnly    bool              `json:"prepare_only,omitempty" doc:"end with the environment and the baseline; asks no model and no person"`
	Environment    string            `json:"environment,omitempty" doc:"auto: as configured; none: neither environment nor baseline; else a YAML document with the section environment, for this run alone"`
	PlanBy         string            `json:"plan_by,omitempty" enum:"auto,planner,deliberation" doc:"who plans: the planner, a deliberation of ALPHA and BETA, or (auto) one where the planner finds the goal too complex; default: as configured"`
	ApprovePlan    bool              `json:"approve_plan,omitempty" doc:"wait for a person before building"`
	ApproveRelease bool              `json:"approve_release,omitempty" doc:"wait for a person before releasing"`
	Push           bool              `json:"push,omitempty" doc:"push the branch as well"`
	Remote         string            `json:"remote,omitempty" doc:"to push to: a name or a URL"`
	Settings       map[string]string `json:"settings,omitempty" doc:"of the configuration, by dotted key, for this run alone: its limits, and what a repository may set"`
}

// CreatedRun says which run was made.
type CreatedRun struct {
	RunID      int64           `json:"runId"`
	Status     contract.Status `json:"status"`
	Created    bool            `json:"created" doc:"false: the same key had made it before"`
	WorkflowID string          `json:"workflow_id"`
	Notes      []string        `json:"notes,omitempty"`
}

// Why says who asks and why.
type Why struct {
	By     string `json:"by,omitempty" maxLength:"200" doc:"who says so; default: api"`
	Reason string `json:"reason,omitempty" doc:"for the record, and for the next attempt"`
}

// Answered says which question is answered, so that nobody answers a question other
// than the one they saw.
type Answered struct {
	ApprovalID string `json:"approval_id,omitempty" doc:"which question is answered; default: the open one"`
	// Asked distinguishes questions asked again under the same id, about other work.
	Asked *time.Time `json:"asked,omitempty" doc:"when it was asked; a question that was asked at another time is not answered. Default: whenever"`
}

// AnswerRequest is a person's answer to a run.
type AnswerRequest struct {
	Why
	Answered
}

// ApproveRequest is an approval.
type ApproveRequest struct {
	Why
	Answered
	Plan *contract.Plan `json:"plan,omitempty" doc:"the plan as edited, where a plan is approved"`
}

// HealRequest says what to do about a failure.
type HealRequest struct {
	Why
	Answered
	Action contract.HealAction `json:"action,omitempty" doc:"what to do; default: the next action of the failure's class"`
}

// OtherModel names a model.
type OtherModel struct {
	Model       string   `json:"model,omitempty" doc:"as provider/model"`
	Temperature *float64 `json:"temperature,omitempty" minimum:"0" maximum:"2" doc:"how much answers vary"`
}

// ReplayRequest says from where a run is repeated.
type ReplayRequest struct {
	Why
	OtherModel
	Phase contract.Phase `json:"phase,omitempty" enum:"planner,builder,tester,releaser" doc:"from which phase on; with a step: builder"`
	Step  string         `json:"step,omitempty" doc:"of the builder: this step and those that depend on it, no others"`
}

// ForkRequest says from where a new run continues.
type ForkRequest struct {
	OtherModel
	Step         string         `json:"step,omitempty" doc:"the step to go on from; default: the plan's first"`
	Turn         *int           `json:"turn,omitempty" minimum:"0" doc:"take over the step's conversation up to this turn; default: the step begins anew"`
	Instructions string         `json:"instructions,omitempty" doc:"what the model is told on top"`
	Plan         *contract.Plan `json:"plan,omitempty" doc:"another plan that has the step"`
	Reason       string         `json:"reason,omitempty"`
}

// SwitchModelRequest makes a run use another model.
type SwitchModelRequest struct {
	Why
	Model       string         `json:"model" minLength:"3" doc:"as provider/model"`
	Temperature *float64       `json:"temperature,omitempty" minimum:"0" maximum:"2"`
	Agent       contract.Agent `json:"agent,omitempty" doc:"for this agent only, those that deliberate about the plan (alpha, beta, gamma) among them; default: all"`
}

// WentOn says how a run continued: with an answer, or again from a phase on.
type WentOn struct {
	Answer *contract.Ack `json:"answer,omitempty"`
	Replay *rerun.Result `json:"replay,omitempty"`
}

// EnvironmentList is a list of stored environments.
type EnvironmentList struct {
	Environments []control.Environment `json:"environments"`
}

// FindRequest asks how a repository would be set up.
type FindRequest struct {
	Repo string `json:"repo" minLength:"1" doc:"repository: a folder of the server's host or a URL"`
	Base string `json:"base,omitempty" doc:"branch, tag or commit; default: what is checked out, or the default branch"`
}

// SetupList is a list of stored setups, the newest first.
type SetupList struct {
	Setups []store.Setup `json:"setups"`
}

// OutputList is the output of a run's commands.
type OutputList struct {
	Output []views.Output `json:"output"`
}
