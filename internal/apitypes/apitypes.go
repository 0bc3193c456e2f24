// Package apitypes defines the types exchanged by the server of the HTTP API and its clients:
// headers, the bodies of requests and responses, and problems. The OpenAPI document is generated
// from these types.
package apitypes

import (
	"net/http"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/gate/explain"
	"github.com/rocketgpt/orchestrator/internal/ledger"
	"github.com/rocketgpt/orchestrator/internal/runs/rerun"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/attempts"
	"github.com/rocketgpt/orchestrator/internal/store/changesets"
	"github.com/rocketgpt/orchestrator/internal/store/evals"
	"github.com/rocketgpt/orchestrator/internal/store/flaky"
	"github.com/rocketgpt/orchestrator/internal/store/messages"
	"github.com/rocketgpt/orchestrator/internal/store/modelchoices"
	"github.com/rocketgpt/orchestrator/internal/store/retain"
	"github.com/rocketgpt/orchestrator/internal/store/views"
)

const (
	// VersionHeader contains the server's version in each response.
	VersionHeader = "X-Rgpt-Version"
	// KeyHeader contains the idempotency key, so that a command sent again counts once.
	KeyHeader = "Idempotency-Key"
	// ReplayedHeader marks a response that repeats an earlier one.
	ReplayedHeader = "Idempotency-Replayed"
	// LastEventHeader contains the event after which a stream continues.
	LastEventHeader = "Last-Event-ID"
	// TextEvent is the name of the server-sent events with what a model writes while it writes it.
	TextEvent = "text"
	// ProblemType is the media type of a Problem.
	ProblemType = "application/problem+json"
)

// Problem is an error as defined by RFC 9457.
type Problem struct {
	Title  string         `json:"title"`
	Status int            `json:"status"`
	Detail string         `json:"detail,omitempty"`
	Class  contract.Class `json:"error_type,omitempty" doc:"failure class, if one applies"`
	Code   contract.Code  `json:"code,omitempty" doc:"error code, if one applies"`
	// Instance is the id of the request, as in the server's log.
	Instance string    `json:"instance,omitempty"`
	Errors   []Invalid `json:"errors,omitempty"`
}

// Invalid is one error in a request.
type Invalid struct {
	At      string `json:"at" doc:"location, such as body.goal or query.limit"`
	Message string `json:"message"`
}

// BadRequest returns the problem for an invalid request.
func BadRequest(detail string) Problem {
	return Problem{Title: "Invalid request", Status: http.StatusBadRequest, Detail: detail, Class: contract.ClassHuman, Code: contract.CodeInvalidConfig}
}

// Error lets huma return a problem as an error.
func (p Problem) Error() string { return p.Title + ": " + p.Detail }

// GetStatus returns the HTTP status of a problem.
func (p Problem) GetStatus() int { return p.Status }

// ContentType sets the content type of the response to problem+json.
func (p Problem) ContentType(string) string { return ProblemType }

// RunList is a page of runs.
type RunList struct {
	Runs []store.Run `json:"runs"`
	Next string      `json:"next,omitempty" doc:"cursor of the next page; absent on the last page"`
}

// EventList is a page of a run's events.
type EventList struct {
	Events []contract.Event `json:"events"`
}

// ModelCallList is a page of a run's model calls.
type ModelCallList struct {
	Calls []views.ModelCall `json:"calls"`
}

// Logs are the conversations of a run's agents.
type Logs struct {
	Conversations []control.Conversation `json:"conversations"`
}

// Interventions are questions to people.
type Interventions struct {
	Interventions []views.Intervention `json:"interventions"`
}

// Links are the addresses of other views of a run.
type Links struct {
	Temporal string `json:"temporal,omitempty" doc:"URL of the run's workflow in the Temporal Web UI"`
}

// CreateRequest is the request to create a run.
type CreateRequest struct {
	Labels         []string                 `json:"labels,omitempty" maxItems:"50" doc:"labels of the run, which the policy gate reads"`
	By             string                   `json:"by,omitempty" maxLength:"200" doc:"who creates the run; default: api"`
	Repo           string                   `json:"repo,omitempty" minLength:"1" doc:"repository: a directory on the server's host or a URL. Optional only with issue; default: the repository of the issue"`
	Base           string                   `json:"base,omitempty" doc:"branch, tag or commit to start from"`
	Goal           string                   `json:"goal,omitempty" minLength:"1" doc:"goal of the change; the first line is its title. Optional only with prepare_only or issue; default: the title of the issue"`
	Issue          string                   `json:"issue,omitempty" minLength:"1" maxLength:"2000" doc:"address of an issue on one of the forges, which the run is about, such as https://github.com/owner/name/issues/12"`
	Description    string                   `json:"description,omitempty" doc:"additional details about the goal"`
	Project        string                   `json:"project,omitempty" doc:"default: the repository's name"`
	Model          string                   `json:"model,omitempty" doc:"model for all agents, as provider/model"`
	Effort         contract.Effort          `json:"effort,omitempty" enum:"low,medium,high" doc:"amount of reasoning of all agents; default: as configured"`
	Pictures       []control.PictureFile    `json:"pictures,omitempty" maxItems:"20" doc:"pictures that belong to the goal, for models that can see them"`
	Plan           *contract.Plan           `json:"plan,omitempty" doc:"plan to use instead of asking the planner"`
	PlanOnly       bool                     `json:"plan_only,omitempty" doc:"stop after the plan"`
	PrepareOnly    bool                     `json:"prepare_only,omitempty" doc:"stop after the environment and the baseline, without calling a model or asking a person"`
	Environment    string                   `json:"environment,omitempty" doc:"auto: as configured; none: no environment and no baseline; otherwise a YAML document with an environment section, for this run only"`
	PlanBy         string                   `json:"plan_by,omitempty" enum:"auto,planner,deliberation" doc:"planner, deliberation (ALPHA and BETA), or auto: deliberation if the planner finds the goal too complex; default: as configured"`
	ApprovePlan    bool                     `json:"approve_plan,omitempty" doc:"wait for approval before building"`
	ApproveRelease bool                     `json:"approve_release,omitempty" doc:"wait for approval before releasing"`
	Push           bool                     `json:"push,omitempty" doc:"also push the branch"`
	PullRequest    bool                     `json:"pull_request,omitempty" doc:"also push the branch, and open a pull request for it on the forge of the remote"`
	Remote         string                   `json:"remote,omitempty" doc:"remote to push to: a name or a URL"`
	Repositories   []control.RepositoryGoal `json:"repositories,omitempty" minItems:"2" maxItems:"20" doc:"several repositories instead of repo and base: one run for each, which are released together (a change set)"`
	Attempts       int                      `json:"attempts,omitempty" minimum:"1" maximum:"16" doc:"number of independent attempts at the goal, of which the best one is released; default: as configured (execution.attempts.count)"`
	AttemptModels  []string                 `json:"attempt_models,omitempty" maxItems:"16" doc:"models of the attempts in their order, as provider/model, repeated if there are fewer than attempts; default: as configured"`
	Settings       map[string]string        `json:"settings,omitempty" doc:"configuration settings by dotted key, for this run only: run limits and settings that a repository may override"`
}

// CreatedRun identifies a new run.
type CreatedRun struct {
	RunID      int64           `json:"runId"`
	Status     contract.Status `json:"status"`
	Created    bool            `json:"created" doc:"false: an earlier request with the same key already created the run"`
	WorkflowID string          `json:"workflow_id"`
	Notes      []string        `json:"notes,omitempty"`
	Attempts   *attempts.Group `json:"attempts,omitempty" doc:"all attempts, if there are several; runId is the first of them"`
	ChangeSet  *changesets.Set `json:"change_set,omitempty" doc:"all runs, if several repositories were named; runId is the first of them"`
}

// Attribution names the sender of a command and the reason.
type Attribution struct {
	By     string `json:"by,omitempty" maxLength:"200" doc:"sender of the command; default: api"`
	Reason string `json:"reason,omitempty" doc:"reason to record, and instructions for the next attempt"`
}

// Answered identifies the question being answered, so that an answer applies only to the question
// that the sender saw.
type Answered struct {
	ApprovalID string `json:"approval_id,omitempty" doc:"ID of the question to answer; default: the open question"`
	Subject    string `json:"subject,omitempty" maxLength:"200" doc:"what the sender saw: subject of the approval; if the open question is about something else, the answer is rejected. Default: not compared"`
	// Asked distinguishes questions with the same id about different results.
	Asked *time.Time `json:"asked,omitempty" doc:"time at which the question was asked; if the open question has a different time, the answer is rejected. Default: not compared"`
}

// AnswerRequest is a person's answer to a run.
type AnswerRequest struct {
	Attribution
	Answered
}

// InputRequest is the answer to a planner's question.
type InputRequest struct {
	Attribution
	Answered
	Answer string `json:"answer" minLength:"1" maxLength:"1000" doc:"number of an option, counted from 1, or its text"`
}

// ApproveRequest is an approval.
type ApproveRequest struct {
	Attribution
	Answered
	Plan *contract.Plan `json:"plan,omitempty" doc:"edited plan, when approving a plan"`
}

// HealRequest selects the heal action for a failure.
type HealRequest struct {
	Attribution
	Answered
	Action contract.HealAction `json:"action,omitempty" doc:"heal action for a run that needs help (a failed run rejects it); default: the next action for the failure's class"`
}

// ReplayRequest selects the phase or step from which a run is repeated.
type ReplayRequest struct {
	Attribution
	control.ModelOverride
	Phase contract.Phase `json:"phase,omitempty" enum:"planner,builder,tester,releaser" doc:"phase to replay from; required unless a step is given, in which case it must be builder or omitted"`
	Step  string         `json:"step,omitempty" doc:"for the builder: repeat only this step and the steps that depend on it"`
}

// ForkRequest selects the step and turn from which a new run continues.
type ForkRequest struct {
	control.ModelOverride
	Step         string         `json:"step,omitempty" doc:"step to continue from; default: the first step of the plan"`
	Turn         *int           `json:"turn,omitempty" minimum:"0" doc:"retain the step's conversation up to this turn; default: the step starts over"`
	Instructions string         `json:"instructions,omitempty" doc:"additional instructions for the model"`
	Plan         *contract.Plan `json:"plan,omitempty" doc:"replacement plan; must contain the step"`
	Reason       string         `json:"reason,omitempty"`
	By           string         `json:"by,omitempty" maxLength:"200" doc:"who creates the run; default: api"`
}

// FollowUpRequest asks for a run that continues the branch of a finished run.
type FollowUpRequest struct {
	By             string                `json:"by,omitempty" maxLength:"200" doc:"who creates the run; default: api"`
	Goal           string                `json:"goal" minLength:"1" doc:"what to do now; the first line is the title"`
	Description    string                `json:"description,omitempty" doc:"additional details about the goal"`
	Model          string                `json:"model,omitempty" doc:"model for all agents, as provider/model; default: the model that the finished run's request named, otherwise as configured"`
	Effort         contract.Effort       `json:"effort,omitempty" enum:"low,medium,high" doc:"amount of reasoning of all agents; default: as configured"`
	PlanBy         string                `json:"plan_by,omitempty" enum:"auto,planner,deliberation" doc:"planner, deliberation (ALPHA and BETA), or auto; default: as configured"`
	Pictures       []control.PictureFile `json:"pictures,omitempty" maxItems:"20" doc:"pictures that belong to the goal, for models that can see them"`
	ApprovePlan    bool                  `json:"approve_plan,omitempty" doc:"wait for approval before building; default: as in the finished run"`
	ApproveRelease bool                  `json:"approve_release,omitempty" doc:"wait for approval before releasing; default: as in the finished run"`
	Settings       map[string]string     `json:"settings,omitempty" doc:"configuration settings by dotted key, for this run only; those of the finished run are not repeated"`
}

// SwitchModelRequest switches a run to another model.
type SwitchModelRequest struct {
	Attribution
	Model       string          `json:"model" minLength:"3" doc:"model, as provider/model"`
	Temperature *float64        `json:"temperature,omitempty" minimum:"0" maximum:"2"`
	Effort      contract.Effort `json:"effort,omitempty" enum:"low,medium,high" doc:"amount of reasoning; default: the provider's"`
	Agent       contract.Agent  `json:"agent,omitempty" doc:"agent, or planning member (alpha, beta or gamma), whose model to switch; default: all agents"`
}

// MessageRequest sends a message to the agents of a run.
type MessageRequest struct {
	By   string `json:"by,omitempty" maxLength:"200" doc:"sender of the message; default: api"`
	Text string `json:"text" minLength:"1" maxLength:"4096" doc:"what the agents should know or do"`
	Step string `json:"step,omitempty" doc:"only the agents of this step get the message; default: all agents"`
}

// LabelRequest changes the labels of a run.
type LabelRequest struct {
	Attribution
	Add    []string `json:"add,omitempty" maxItems:"50" doc:"labels to add"`
	Remove []string `json:"remove,omitempty" maxItems:"50" doc:"labels to remove"`
}

// MessageList lists the messages to the agents of a run, oldest first.
type MessageList struct {
	Messages []messages.Message `json:"messages"`
}

// LedgerEntry is an entry of the audit ledger.
type LedgerEntry ledger.Entry

// LedgerList is a page of the audit ledger.
type LedgerList struct {
	Entries []LedgerEntry `json:"entries"`
}

// GateExplanations explain the verdicts of the policy gate about a run's changes, oldest first.
type GateExplanations struct {
	Verdicts []explain.Explanation `json:"verdicts"`
}

// AgentModelList lists the models that new runs and pipelines use.
type AgentModelList struct {
	Agents []control.AgentModel `json:"agents"`
}

// ModelChangeList lists changes of the models that people chose, the newest first.
type ModelChangeList struct {
	Changes []modelchoices.Change `json:"changes"`
}

// Resumed describes how a run continued: with its response, or as a replay.
type Resumed struct {
	Answer *contract.Ack `json:"answer,omitempty"`
	Replay *rerun.Result `json:"replay,omitempty"`
}

// CleanupList is a list of clean-ups, newest first.
type CleanupList struct {
	Cleanups []retain.Cleanup `json:"cleanups"`
}

// DeletionList is what a clean-up deleted.
type DeletionList struct {
	Deletions []retain.Deletion `json:"deletions"`
}

// HoldRequest asks to keep the files of a run.
type HoldRequest struct {
	Reason string `json:"reason" minLength:"1" maxLength:"2000" doc:"why the files are needed"`
	By     string `json:"by,omitempty" maxLength:"200" doc:"who holds the run; default: api"`
}

// EnvironmentList is a list of stored environments.
type EnvironmentList struct {
	Environments []control.Environment `json:"environments"`
}

// FindRequest is the request for the setup that would be used for a repository.
type FindRequest struct {
	Repo string `json:"repo" minLength:"1" doc:"repository: a directory on the server's host or a URL"`
	Base string `json:"base,omitempty" doc:"branch, tag or commit; default: the checked-out commit, or the default branch"`
}

// IndexRequest is the request to index a repository.
type IndexRequest struct {
	Repo string `json:"repo" minLength:"1" doc:"repository: a directory on the server's host or a URL"`
	Rev  string `json:"rev,omitempty" doc:"branch, tag or commit; default: the checked-out commit, or the default branch"`
}

// SetupList is a list of stored setups, the newest first.
type SetupList struct {
	Setups []store.Setup `json:"setups"`
}

// EvalList is a page of evaluations, newest first.
type EvalList struct {
	Evals []evals.Summary `json:"evals"`
}

// FlakyList is a list of flaky tests, the flakiest first.
type FlakyList struct {
	Tests []flaky.Test `json:"tests"`
}

// QuarantineList is a list of quarantined tests, the newest first.
type QuarantineList struct {
	Quarantine []flaky.Entry `json:"quarantine"`
}

// TriggerList is a list of triggers, by name.
type TriggerList struct {
	Triggers []control.Trigger `json:"triggers"`
}

// OutputList is the output of a run's commands.
type OutputList struct {
	Output []views.Output `json:"output"`
}
