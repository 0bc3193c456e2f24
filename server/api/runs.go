package api

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/apitypes"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/devstack"
	"github.com/rocketgpt/orchestrator/internal/runs/diff"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/attempts"
	"github.com/rocketgpt/orchestrator/internal/store/messages"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/server/param"
)

// OfRun is a request about one run.
type OfRun struct {
	ID int64 `path:"id" minimum:"1" doc:"ID of the run"`
}

func (s *Server) runOperations(api huma.API) {
	get := func(path, id, summary string) huma.Operation {
		return operation(http.MethodGet, path, id, "runs", summary)
	}
	handle(s, api, get("/api/runs", "list-runs", "List runs, newest first"), s.listRuns)
	create := operation(http.MethodPost, "/api/runs", "create-run", "runs", "Create and start a run", http.StatusConflict, http.StatusUnprocessableEntity)
	create.DefaultStatus = http.StatusCreated
	handle(s, api, create, s.createRun)
	estimate := operation(http.MethodPost, "/api/runs/estimate", "estimate-run", "runs", "Estimate what the attempts of a request, or its single run, will cost and take, without creating them", http.StatusUnprocessableEntity)
	handle(s, api, estimate, func(ctx context.Context, in *newRun) (*body[control.Estimate], error) {
		c, err := creationOf(in)
		if err != nil {
			return nil, err
		}
		return answered(s.Runs.Estimate(ctx, c))
	})
	handle(s, api, get("/api/runs/{id}", "get-run", "Get all details of a run"), func(ctx context.Context, in *OfRun) (*body[views.RunDetails], error) {
		return answered(s.Views.RunDetails(ctx, in.ID))
	})
	handle(s, api, get("/api/runs/{id}/events", "list-events", "List a run's events, in order and without gaps"), s.listEvents)
	handle(s, api, get("/api/runs/{id}/messages", "list-messages", "List the messages of people to a run's agents, and which agents got them"), s.listMessages)
	handle(s, api, get("/api/runs/{id}/calls", "list-calls", "List a run's model calls, with the reasons for their models"), s.listCalls)
	handle(s, api, get("/api/runs/{id}/logs", "get-logs", "List agent conversations, by execution and turn"), s.getLogs)
	handle(s, api, get("/api/runs/{id}/findings", "list-findings", "List verification findings"), func(ctx context.Context, in *OfRun) (*body[findings], error) {
		if _, err := s.Store.Run(ctx, in.ID); err != nil {
			return nil, err
		}
		list, err := s.Store.Findings(ctx, in.ID)
		return answered(findings{store.NotNil(list)}, err)
	})
	handle(s, api, get("/api/runs/{id}/artifacts", "list-artifacts", "List a run's files"), func(ctx context.Context, in *OfRun) (*body[artifacts], error) {
		if _, err := s.Store.Run(ctx, in.ID); err != nil {
			return nil, err
		}
		list, err := s.Store.Artifacts(ctx, in.ID)
		return answered(artifacts{store.NotNil(list)}, err)
	})
	handle(s, api, get("/api/runs/{id}/interventions", "list-interventions-of-run", "List all of a run's interventions"), func(ctx context.Context, in *OfRun) (*body[apitypes.Interventions], error) {
		d, err := s.Views.RecentDetails(ctx, in.ID, 1)
		return answered(apitypes.Interventions{Interventions: store.NotNil(d.Interventions)}, err)
	})
	handle(s, api, get("/api/runs/{id}/diff/{other}", "diff-runs", "Compare two runs, or two attempts of one run, listing regressions first"), s.diffRuns)
	handle(s, api, get("/api/runs/{id}/timing", "get-timing", "Show how a run spent its time"), func(ctx context.Context, in *OfRun) (*body[control.Timing], error) {
		return answered(s.Runs.Timing(ctx, in.ID))
	})
	rejudge := operation(http.MethodPost, "/api/runs/{id}/rejudge", "rejudge-run", "runs", "Re-evaluate a run's recorded plans, test results and changes under different rules, without changing the run", http.StatusUnprocessableEntity)
	handle(s, api, rejudge, func(ctx context.Context, in *struct {
		OfRun
		Body *control.Rules
	}) (*body[control.Retrials], error) {
		return answered(s.Runs.Rejudge(ctx, in.ID, given(in.Body)))
	})
	handle(s, api, get("/api/runs/{id}/gate", "explain-gate", "Explain what the policy gate decided about a run's changes: findings, reasons and rules"), func(ctx context.Context, in *struct {
		OfRun
		Verdict int64 `query:"verdict" minimum:"0" doc:"only the verdict with this id"`
	}) (*body[apitypes.GateExplanations], error) {
		list, err := s.Runs.ExplainGate(ctx, in.ID, in.Verdict)
		return answered(apitypes.GateExplanations{Verdicts: store.NotNil(list)}, err)
	})
	handle(s, api, get("/api/runs/{id}/attempts", "list-attempts", "List the attempts at a run's goal, and which one was chosen"), func(ctx context.Context, in *OfRun) (*body[attempts.Group], error) {
		return answered(s.Runs.AttemptsOf(ctx, in.ID))
	})
	handle(s, api, get("/api/runs/{id}/links", "get-links", "Get links to other views of a run"), s.getLinks)
}

func (s *Server) getLinks(ctx context.Context, in *OfRun) (*body[apitypes.Links], error) {
	run, err := s.Store.Run(ctx, in.ID)
	return answered(apitypes.Links{Temporal: devstack.WorkflowURL(s.TemporalUI, s.Namespace, run.WorkflowID, run.WorkflowRunID)}, err)
}

type (
	findings struct {
		Findings []store.Finding `json:"findings"`
	}
	artifacts struct {
		Artifacts []contract.Artifact `json:"artifacts"`
	}
)

// filters select runs, for the API and for pages.
type filters struct {
	Status  []string `query:"status,explode" maxItems:"20" doc:"only runs with one of these statuses; repeatable"`
	Phase   string   `query:"phase" doc:"only runs in this phase"`
	Project string   `query:"project" doc:"only runs in this project"`
	Error   string   `query:"error" doc:"only runs that failed with this error class"`
	Label   []string `query:"label,explode" maxItems:"50" doc:"only runs with this label; repeatable, all must match"`
	Text    string   `query:"text" doc:"only runs with this text in the goal"`
	Waiting bool     `query:"waiting" doc:"true: only runs waiting for a person"`
	Since   string   `query:"since" doc:"only runs created at or after this time, such as 2026-01-31T08:00:00Z (RFC 3339)"`
	Until   string   `query:"until" doc:"only runs created before this time (RFC 3339)"`
	Limit   int      `query:"limit" minimum:"1" maximum:"1000" default:"50" doc:"maximum number of results"`
	Cursor  string   `query:"cursor" doc:"value of next from the previous page"`
}

// filter returns the store filter, or an error if no run can match it.
func (in *filters) filter() (f store.Filter, err error) {
	f = store.Filter{Phase: contract.Phase(in.Phase), Project: in.Project, ErrorClass: contract.Class(in.Error), Labels: in.Label, Text: in.Text, Limit: in.Limit}
	for _, status := range in.Status {
		for one := range strings.SplitSeq(status, ",") {
			if one != "" {
				f.Status = append(f.Status, contract.Status(one))
			}
		}
	}
	if in.Waiting {
		if len(f.Status) == 0 {
			f.Status = contract.Statuses()
		}
		f.Status = slices.DeleteFunc(f.Status, func(s contract.Status) bool { return !s.WaitsForPerson() })
		if len(f.Status) == 0 {
			return f, apitypes.BadRequest(fmt.Sprintf("status and waiting: only runs with status %s or %s can wait for a person", contract.StatusWaitingForApproval, contract.StatusWaitingForInput))
		}
	}
	if f.Since, err = parseTime("since", in.Since); err != nil {
		return f, err
	}
	if f.Until, err = parseTime("until", in.Until); err != nil {
		return f, err
	}
	if f.Before, err = param.ReadCursor[store.Cursor](in.Cursor); err != nil {
		return f, err
	}
	return f, param.CheckFilter(f)
}

// parseTime parses a time; an empty text is the zero time.
func parseTime(name, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, apitypes.BadRequest(name + ": must be a time such as 2026-01-31T08:00:00Z (RFC 3339)")
	}
	return at, nil
}

func (s *Server) listRuns(ctx context.Context, in *filters) (*body[apitypes.RunList], error) {
	f, err := in.filter()
	if err != nil {
		return nil, err
	}
	runs, err := s.Store.ListRuns(ctx, f)
	page := apitypes.RunList{Runs: store.NotNil(runs)}
	if err == nil && len(runs) == f.Limit {
		page.Next = param.WriteCursor(runs[len(runs)-1].Cursor())
	}
	return answered(page, err)
}

// newRun is a request to create a run.
type newRun struct {
	Keyed
	Body apitypes.CreateRequest
}

func createdOf(c control.Created) apitypes.CreatedRun {
	out := apitypes.CreatedRun{RunID: c.Run.ID, Status: c.Run.Status, Created: c.Fresh, WorkflowID: contract.RunWorkflowID(c.Run.ID), Notes: c.Notes, Attempts: c.Attempts, ChangeSet: c.ChangeSet}
	if c.Waiting != "" {
		out.Notes = append(out.Notes, "created but not started yet; a worker will start it")
	}
	return out
}

func (s *Server) createRun(ctx context.Context, in *newRun) (*body[apitypes.CreatedRun], error) {
	c, err := creationOf(in)
	if err != nil {
		return nil, err
	}
	made, err := s.Runs.Create(ctx, c)
	return answered(createdOf(made), err)
}

// creationOf returns the creation that a request asks for, or an error if its texts cannot be stored.
func creationOf(in *newRun) (control.Creation, error) {
	b := in.Body
	texts := []string{"repo", b.Repo, "base", b.Base, "issue", b.Issue, "project", b.Project, "remote", b.Remote, "environment", b.Environment, "by", b.By, "Idempotency-Key", in.Key}
	for i, r := range b.Repositories {
		texts = append(texts, fmt.Sprintf("repositories[%d]", i), r.Repo+r.Base+r.Goal)
	}
	for i, m := range b.AttemptModels {
		texts = append(texts, fmt.Sprintf("attempt_models[%d]", i), m)
	}
	for key, value := range b.Settings {
		texts = append(texts, "settings", key+value)
	}
	return control.Creation{
		Repo: b.Repo, Base: b.Base, Goal: b.Goal, Description: b.Description, Project: b.Project, Model: b.Model, Effort: b.Effort, Plan: b.Plan, PlanOnly: b.PlanOnly, PlanBy: b.PlanBy,
		Issue: b.Issue, Labels: b.Labels, PrepareOnly: b.PrepareOnly, Environment: b.Environment, Pictures: b.Pictures,
		ApprovePlan: b.ApprovePlan, ApproveRelease: b.ApproveRelease, Push: b.Push, PullRequest: b.PullRequest, Remote: b.Remote, Settings: b.Settings, Key: in.Key, By: cmp.Or(b.By, contract.ByAPI),
		Attempts: b.Attempts, AttemptModels: b.AttemptModels, Repositories: b.Repositories,
	}, param.CheckText(texts...)
}

// eventPage is a request for a page of a run's events.
type eventPage struct {
	OfRun
	After int64 `query:"after" minimum:"0" doc:"return events after this number; 0: from the first"`
	Limit int   `query:"limit" minimum:"1" maximum:"1000" default:"200"`
}

func (s *Server) listEvents(ctx context.Context, in *eventPage) (*body[apitypes.EventList], error) {
	if _, err := s.Store.Run(ctx, in.ID); err != nil {
		return nil, err
	}
	events, err := s.Store.Events(ctx, in.ID, in.After, in.Limit)
	return answered(apitypes.EventList{Events: store.NotNil(events)}, err)
}

// callPage is a request for a page of a run's model calls.
type callPage struct {
	OfRun
	After int64 `query:"after" minimum:"0" doc:"return calls after this id; 0: from the first"`
	Limit int   `query:"limit" minimum:"1" maximum:"1000" default:"200"`
}

func (s *Server) listCalls(ctx context.Context, in *callPage) (*body[apitypes.ModelCallList], error) {
	if _, err := s.Store.Run(ctx, in.ID); err != nil {
		return nil, err
	}
	calls, err := s.Views.ModelCalls(ctx, in.ID, in.After, in.Limit)
	return answered(apitypes.ModelCallList{Calls: store.NotNil(calls)}, err)
}

func (s *Server) listMessages(ctx context.Context, in *OfRun) (*body[apitypes.MessageList], error) {
	if _, err := s.Store.Run(ctx, in.ID); err != nil {
		return nil, err
	}
	all, err := messages.Of(ctx, s.Store, in.ID)
	return answered(apitypes.MessageList{Messages: store.NotNil(all)}, err)
}

// logQuery selects conversations.
type logQuery struct {
	OfRun
	Phase string `query:"phase" enum:"planner,builder,tester,releaser" doc:"only this phase"`
	Step  string `query:"step" doc:"only this step"`
}

func (s *Server) getLogs(ctx context.Context, in *logQuery) (*body[apitypes.Logs], error) {
	list, err := s.Runs.Conversations(ctx, in.ID, contract.Phase(in.Phase), in.Step)
	return answered(apitypes.Logs{Conversations: list}, err)
}

// twoRuns is a request to compare two runs.
type twoRuns struct {
	OfRun
	Other        int64  `path:"other" minimum:"1" doc:"ID of the second run"`
	Attempt      int    `query:"attempt" minimum:"0" doc:"attempt of the first run; 0: the run as it is now"`
	OtherAttempt int    `query:"other_attempt" minimum:"0" doc:"attempt of the second run; 0: the run as it is now"`
	Phase        string `query:"phase" enum:"planner,builder,tester,releaser" default:"tester" doc:"phase that the attempt numbers refer to"`
}

func (s *Server) diffRuns(ctx context.Context, in *twoRuns) (*body[diff.Diff], error) {
	phase := contract.Phase(cmp.Or(in.Phase, string(contract.PhaseTester)))
	return answered(s.Runs.Diff(ctx, diff.Ref{Run: in.ID, Attempt: in.Attempt, Phase: phase}, diff.Ref{Run: in.Other, Attempt: in.OtherAttempt, Phase: phase}))
}
