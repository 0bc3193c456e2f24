package server

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/rundiff"
	"github.com/rocketgpt/orchestrator/internal/store"
)

// OfRun is a request about one run.
type OfRun struct {
	ID int64 `path:"id" minimum:"1" doc:"the run's number"`
}

// body is an answer.
type body[T any] struct{ Body T }

func answered[T any](v T, err error) (*body[T], error) {
	if err != nil {
		return nil, err
	}
	return &body[T]{v}, nil
}

// handle registers an operation whose errors are told as problems.
func handle[I, O any](s *server, api huma.API, op huma.Operation, do func(context.Context, *I) (*O, error)) {
	huma.Register(api, op, func(ctx context.Context, in *I) (*O, error) {
		out, err := do(ctx, in)
		if err != nil {
			return nil, s.told(ctx, err)
		}
		return out, nil
	})
}

func (s *server) runOperations(api huma.API) {
	get := func(path, id, summary string) huma.Operation {
		return operation(http.MethodGet, path, id, "runs", summary)
	}
	handle(s, api, get("/api/runs", "list-runs", "List runs, the newest first"), s.listRuns)
	create := operation(http.MethodPost, "/api/runs", "create-run", "runs", "Make and start a run", http.StatusConflict, http.StatusUnprocessableEntity)
	create.DefaultStatus = http.StatusCreated
	handle(s, api, create, s.createRun)
	handle(s, api, get("/api/runs/{id}", "get-run", "The whole run"), func(ctx context.Context, in *OfRun) (*body[store.RunDetails], error) {
		return answered(s.Store.RunDetails(ctx, in.ID))
	})
	handle(s, api, get("/api/runs/{id}/events", "list-events", "A run's events, in order, without gaps"), s.listEvents)
	handle(s, api, get("/api/runs/{id}/logs", "get-logs", "What agents said and did, by execution and turn"), s.getLogs)
	handle(s, api, get("/api/runs/{id}/findings", "list-findings", "What verification found"), func(ctx context.Context, in *OfRun) (*body[findings], error) {
		if _, err := s.Store.Run(ctx, in.ID); err != nil {
			return nil, err
		}
		list, err := s.Store.Findings(ctx, in.ID)
		return answered(findings{notNil(list)}, err)
	})
	handle(s, api, get("/api/runs/{id}/artifacts", "list-artifacts", "The files of a run"), func(ctx context.Context, in *OfRun) (*body[artifacts], error) {
		if _, err := s.Store.Run(ctx, in.ID); err != nil {
			return nil, err
		}
		list, err := s.Store.Artifacts(ctx, in.ID)
		return answered(artifacts{notNil(list)}, err)
	})
	handle(s, api, get("/api/runs/{id}/interventions", "list-interventions-of-run", "What a run ever asked people"), func(ctx context.Context, in *OfRun) (*body[interventions], error) {
		d, err := s.Store.RecentDetails(ctx, in.ID, 1)
		return answered(interventions{notNil(d.Interventions)}, err)
	})
	handle(s, api, get("/api/runs/{id}/diff/{other}", "diff-runs", "Compare two runs, or attempts of one: what is worse in the second first"), s.diffRuns)
}

type (
	findings struct {
		Findings []store.Finding `json:"findings"`
	}
	artifacts struct {
		Artifacts []contract.Artifact `json:"artifacts"`
	}
	interventions struct {
		Interventions []store.Intervention `json:"interventions"`
	}
)

// notNil makes an empty list of none, which is [] as JSON and not null.
func notNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// filters select runs.
type filters struct {
	Status  string `query:"status" doc:"only with this status"`
	Phase   string `query:"phase" doc:"only in this phase"`
	Project string `query:"project" doc:"only of this project"`
	Error   string `query:"error" doc:"only those that failed with this class"`
	Text    string `query:"text" doc:"only with this text in the goal"`
	Limit   int    `query:"limit" minimum:"1" maximum:"1000" default:"50" doc:"how many"`
	Cursor  string `query:"cursor" doc:"next of the page before"`
}

// runList is a page of runs.
type runList struct {
	Runs []store.Run `json:"runs"`
	Next string      `json:"next,omitempty" doc:"cursor of the next page; absent on the last one"`
}

func (s *server) listRuns(ctx context.Context, in *filters) (*body[runList], error) {
	f := store.Filter{
		Status: contract.Status(in.Status), Phase: contract.Phase(in.Phase), Project: in.Project, ErrorClass: contract.Class(in.Error), Text: in.Text,
		Limit: in.Limit,
	}
	if err := checkFilter(f); err != nil {
		return nil, err
	}
	var err error
	if f.Before, err = readCursor(in.Cursor); err != nil {
		return nil, err
	}
	runs, err := s.Store.ListRuns(ctx, f)
	page := runList{Runs: notNil(runs)}
	if err == nil && len(runs) == f.Limit {
		page.Next = writeCursor(runs[len(runs)-1].Cursor())
	}
	return answered(page, err)
}

// writeCursor makes a place in the list of runs a text that clients hand back.
func writeCursor(c store.Cursor) string {
	raw, err := json.Marshal(c)
	if err != nil {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}

func readCursor(text string) (c store.Cursor, err error) {
	if text == "" {
		return c, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || json.Unmarshal(raw, &c) != nil || c.ID <= 0 {
		return c, badRequest("cursor: this is none that a list of runs gave")
	}
	return c, nil
}

// checkText refuses what is no text.
func checkText(name, text string) error {
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return badRequest(name + " is no text: it holds bytes that are not UTF-8, or NUL")
	}
	return nil
}

// newRun is a request for a run.
type newRun struct {
	Key  string `header:"Idempotency-Key" maxLength:"200" doc:"the same key makes one run, however often it is asked for"`
	Body struct {
		Repo           string         `json:"repo" minLength:"1" doc:"repository: a folder of the server's host or a URL"`
		Base           string         `json:"base,omitempty" doc:"branch, tag or commit to start from"`
		Goal           string         `json:"goal" minLength:"1" doc:"what the change is to achieve; its first line is the title"`
		Description    string         `json:"description,omitempty" doc:"more about the goal"`
		Project        string         `json:"project,omitempty" doc:"default: the repository's name"`
		Model          string         `json:"model,omitempty" doc:"model of all agents, as provider/model"`
		Plan           *contract.Plan `json:"plan,omitempty" doc:"carried out instead of asking the planner"`
		PlanOnly       bool           `json:"plan_only,omitempty" doc:"end with the plan"`
		ApprovePlan    bool           `json:"approve_plan,omitempty" doc:"wait for a person before building"`
		ApproveRelease bool           `json:"approve_release,omitempty" doc:"wait for a person before releasing"`
		Push           bool           `json:"push,omitempty" doc:"push the branch as well"`
		Remote         string         `json:"remote,omitempty" doc:"to push to: a name or a URL"`
	}
}

// createdRun says which run was made.
type createdRun struct {
	RunID      int64           `json:"runId"`
	Status     contract.Status `json:"status"`
	Created    bool            `json:"created" doc:"false: the same key had made it before"`
	WorkflowID string          `json:"workflow_id"`
	Notes      []string        `json:"notes,omitempty"`
}

func createdOf(c control.Created) createdRun {
	out := createdRun{RunID: c.Run.ID, Status: c.Run.Status, Created: c.Fresh, WorkflowID: contract.RunWorkflowID(c.Run.ID), Notes: c.Notes}
	if c.Waiting != "" {
		out.Notes = append(out.Notes, "it was made but not started yet; a worker will start it")
	}
	return out
}

func (s *server) createRun(ctx context.Context, in *newRun) (*body[createdRun], error) {
	b := in.Body
	for _, field := range [][2]string{{"repo", b.Repo}, {"base", b.Base}, {"project", b.Project}, {"remote", b.Remote}, {"Idempotency-Key", in.Key}} {
		if err := checkText(field[0], field[1]); err != nil {
			return nil, err
		}
	}
	made, err := s.Runs.Create(ctx, control.Creation{
		Repo: b.Repo, Base: b.Base, Goal: b.Goal, Description: b.Description, Project: b.Project, Model: b.Model, Plan: b.Plan, PlanOnly: b.PlanOnly,
		ApprovePlan: b.ApprovePlan, ApproveRelease: b.ApproveRelease, Push: b.Push, Remote: b.Remote, Key: in.Key,
	})
	return answered(createdOf(made), err)
}

// eventPage asks for events of a run.
type eventPage struct {
	OfRun
	After int64 `query:"after" minimum:"0" doc:"number of the last event that is known; 0: from the first on"`
	Limit int   `query:"limit" minimum:"1" maximum:"1000" default:"200"`
}

type eventList struct {
	Events []contract.Event `json:"events"`
}

func (s *server) listEvents(ctx context.Context, in *eventPage) (*body[eventList], error) {
	if _, err := s.Store.Run(ctx, in.ID); err != nil {
		return nil, err
	}
	events, err := s.Store.Events(ctx, in.ID, in.After, in.Limit)
	return answered(eventList{notNil(events)}, err)
}

// logQuery selects conversations.
type logQuery struct {
	OfRun
	Phase string `query:"phase" enum:"planner,builder,tester,releaser" doc:"only of this phase"`
	Step  string `query:"step" doc:"only of this step"`
}

// conversation is what was said and done in one execution.
type conversation struct {
	ExecutionID int64                   `json:"execution_id"`
	Phase       contract.Phase          `json:"phase"`
	Step        string                  `json:"step,omitempty"`
	Attempt     int                     `json:"attempt"`
	Agent       contract.Agent          `json:"agent"`
	Entries     []store.TranscriptEntry `json:"entries"`
}

type logs struct {
	Conversations []conversation `json:"conversations"`
}

func (s *server) getLogs(ctx context.Context, in *logQuery) (*body[logs], error) {
	if _, err := s.Store.Run(ctx, in.ID); err != nil {
		return nil, err
	}
	executions, err := s.Store.Executions(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	out := logs{Conversations: []conversation{}}
	for _, e := range executions {
		if in.Phase != "" && string(e.Phase) != in.Phase || in.Step != "" && e.Step != in.Step {
			continue
		}
		entries, err := s.Store.Transcript(ctx, e.ID)
		if err != nil {
			return nil, err
		}
		if len(entries) > 0 {
			out.Conversations = append(out.Conversations, conversation{e.ID, e.Phase, e.Step, e.Attempt, e.Agent, entries})
		}
	}
	return answered(out, nil)
}

// twoRuns asks for a comparison.
type twoRuns struct {
	OfRun
	Other        int64  `path:"other" minimum:"1" doc:"the run that it is compared with: the second one"`
	Attempt      int    `query:"attempt" minimum:"0" doc:"of the first run; 0: the run as it is now"`
	OtherAttempt int    `query:"other_attempt" minimum:"0"`
	Phase        string `query:"phase" enum:"planner,builder,tester,releaser" default:"tester" doc:"whose attempts are counted"`
}

func (s *server) diffRuns(ctx context.Context, in *twoRuns) (*body[rundiff.Diff], error) {
	phase := contract.Phase(cmp.Or(in.Phase, string(contract.PhaseTester)))
	var sides [2]rundiff.Side
	for i, ref := range []rundiff.Ref{{Run: in.ID, Attempt: in.Attempt, Phase: phase}, {Run: in.Other, Attempt: in.OtherAttempt, Phase: phase}} {
		side, err := rundiff.Load(ctx, s.Store, s.Artifacts, ref)
		if err != nil {
			return nil, err
		}
		sides[i] = side
	}
	return answered(rundiff.Compare(sides[0], sides[1]), nil)
}

// checkFilter refuses what no run can match.
func checkFilter(f store.Filter) error {
	for _, text := range [][2]string{{"project", f.Project}, {"text", f.Text}} {
		if err := checkText(text[0], text[1]); err != nil {
			return err
		}
	}
	for _, err := range []error{
		oneOf("status", f.Status, contract.Statuses()), oneOf("phase", f.Phase, contract.Phases()), oneOf("error", f.ErrorClass, contract.Classes()),
	} {
		if err != nil {
			return err
		}
	}
	return nil
}
