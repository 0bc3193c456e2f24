package apiclient

import (
	"cmp"
	"context"
	"net/http"

	"github.com/google/uuid"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/apitypes"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/runs/rerun"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/attempts"
	"github.com/rocketgpt/orchestrator/internal/store/messages"
)

// Create creates and starts a run. A request without a key gets one, so that a lost response does
// not lead to a second run.
func (c *Client) Create(ctx context.Context, n control.Creation) (control.Created, error) {
	r := command(requestOf(n), "api", "runs")
	r.key, r.time = cmp.Or(n.Key, r.key), createTime
	return c.created(ctx, r, n.Key == "")
}

// requestOf returns the request for the creation of a run.
func requestOf(n control.Creation) apitypes.CreateRequest {
	return apitypes.CreateRequest{
		Repo: n.Repo, Base: n.Base, Goal: n.Goal, Description: n.Description, Project: n.Project, Model: n.Model, Effort: n.Effort, Plan: n.Plan, PlanOnly: n.PlanOnly, PlanBy: n.PlanBy,
		Issue: n.Issue, PrepareOnly: n.PrepareOnly, Environment: n.Environment, Pictures: n.Pictures,
		ApprovePlan: n.ApprovePlan, ApproveRelease: n.ApproveRelease, Push: n.Push, PullRequest: n.PullRequest, Remote: n.Remote, Settings: n.Settings,
		By: n.By, Labels: n.Labels, Attempts: n.Attempts, AttemptModels: n.AttemptModels, Repositories: n.Repositories,
	}
}

// Estimate returns what a request will probably cost and take, and creates nothing.
func (c *Client) Estimate(ctx context.Context, n control.Creation) (control.Estimate, error) {
	n.Pictures = nil // they do not matter for it
	return ask[control.Estimate](ctx, c, call{method: http.MethodPost, path: []string{"api", "runs", "estimate"}, body: requestOf(n), time: createTime})
}

// created creates a run and reads it. With a key generated for this call, the run is always new,
// even if an earlier attempt created it. With any other key, the run is not new if the server
// repeated an earlier response; the status in that response may be outdated.
func (c *Client) created(ctx context.Context, r call, fresh bool) (control.Created, error) {
	var known bool
	r.known = &known
	made, err := ask[apitypes.CreatedRun](ctx, c, r)
	if err != nil {
		return control.Created{}, err
	}
	out := control.Created{Fresh: fresh || made.Created && !known, Notes: made.Notes, Attempts: made.Attempts, ChangeSet: made.ChangeSet}
	out.Run, err = c.Run(ctx, made.RunID)
	if !known {
		out.Run.Status = cmp.Or(made.Status, out.Run.Status)
	}
	return out, err
}

// AttemptsOf returns the group of attempts that a run belongs to.
func (c *Client) AttemptsOf(ctx context.Context, id int64) (attempts.Group, error) {
	return ask[attempts.Group](ctx, c, read(runPath(id, "attempts")...))
}

// SteerAttempts sends a command to all attempts at a run's goal that have not ended.
func (c *Client) SteerAttempts(ctx context.Context, id int64, name string, w contract.Command) (attempts.Group, error) {
	return ask[attempts.Group](ctx, c, command(attribution(w), runPath(id, "attempts", name)...))
}

// Fork creates and starts a new run that continues from a step of an existing run, optionally with
// another model.
func (c *Client) Fork(ctx context.Context, o rerun.ForkRequest, m control.ModelOverride) (control.Created, error) {
	body := apitypes.ForkRequest{
		ModelOverride: m,
		Step:          o.Step, Instructions: o.Instructions, Plan: o.Plan, Reason: o.Reason, By: o.By,
	}
	if o.Turn >= 0 {
		body.Turn = &o.Turn
	}
	return c.created(ctx, command(body, runPath(o.RunID, "fork")...), true)
}

// FollowUp creates and starts a run that continues the branch of a finished run.
func (c *Client) FollowUp(ctx context.Context, f control.FollowUp) (control.Created, error) {
	r := command(apitypes.FollowUpRequest{
		Goal: f.Goal, Description: f.Description, Model: f.Model, Effort: f.Effort, PlanBy: f.PlanBy, Pictures: f.Pictures,
		ApprovePlan: f.ApprovePlan, ApproveRelease: f.ApproveRelease, Settings: f.Settings, By: f.By,
	}, runPath(f.RunID, "follow-up")...)
	r.key, r.time = cmp.Or(f.Key, r.key), createTime
	return c.created(ctx, r, f.Key == "")
}

// Replay repeats a finished run, starting from the given phase, optionally with another model.
func (c *Client) Replay(ctx context.Context, o rerun.Request, m control.ModelOverride) (rerun.Result, error) {
	return ask[rerun.Result](ctx, c, command(apitypes.ReplayRequest{
		Attribution: apitypes.Attribution{By: o.By, Reason: o.Reason}, ModelOverride: m, Phase: o.Phase, Step: o.Step,
	}, runPath(o.RunID, "replay")...))
}

// attribution returns the attribution of a command.
func attribution(w contract.Command) apitypes.Attribution {
	return apitypes.Attribution{By: w.By, Reason: w.Reason}
}

// Steer sends a command to a run, using the named update, and returns the run's response.
func (c *Client) Steer(ctx context.Context, id int64, name string, w contract.Command) (contract.Ack, error) {
	seen := apitypes.Answered{ApprovalID: w.ApprovalID}
	if name == contract.UpdateAnswer {
		return ask[contract.Ack](ctx, c, command(apitypes.InputRequest{Attribution: attribution(w), Answered: seen, Answer: w.Answer}, runPath(id, name)...))
	}
	return ask[contract.Ack](ctx, c, command(apitypes.AnswerRequest{Attribution: attribution(w), Answered: seen}, runPath(id, name)...))
}

// ApproveEdited approves an edited plan.
func (c *Client) ApproveEdited(ctx context.Context, id int64, plan contract.Plan, w contract.Command) (contract.Ack, error) {
	return ask[contract.Ack](ctx, c, command(apitypes.ApproveRequest{Attribution: attribution(w), Answered: apitypes.Answered{ApprovalID: w.ApprovalID}, Plan: &plan}, runPath(id, "approve")...))
}

// Advance lets a paused run continue until the next phase.
func (c *Client) Advance(ctx context.Context, id int64, w contract.Command) (contract.Ack, error) {
	return ask[contract.Ack](ctx, c, command(attribution(w), runPath(id, "advance")...))
}

// SwitchModel switches a run to another model, starting with the next call.
func (c *Client) SwitchModel(ctx context.Context, id int64, model string, temperature *float64, effort contract.Effort, w contract.Command) (contract.Ack, error) {
	return ask[contract.Ack](ctx, c, command(apitypes.SwitchModelRequest{Attribution: attribution(w), Model: model, Temperature: temperature, Effort: effort, Agent: w.Agent}, runPath(id, "models")...))
}

// Label changes the labels of a run.
func (c *Client) Label(ctx context.Context, id int64, l store.LabelChange) (control.Labelled, error) {
	return ask[control.Labelled](ctx, c, command(apitypes.LabelRequest{
		Attribution: apitypes.Attribution{By: l.By, Reason: l.Reason}, Add: l.Add, Remove: l.Remove,
	}, runPath(id, "labels")...))
}

// Tell sends a message to the agents of a run.
func (c *Client) Tell(ctx context.Context, id int64, w contract.Command) (contract.Ack, error) {
	return ask[contract.Ack](ctx, c, command(apitypes.MessageRequest{By: w.By, Text: w.Text, Step: w.Step}, runPath(id, "messages")...))
}

// Messages returns the messages to the agents of a run.
func (c *Client) Messages(ctx context.Context, id int64) ([]messages.Message, error) {
	list, err := ask[apitypes.MessageList](ctx, c, read(runPath(id, "messages")...))
	return list.Messages, err
}

// Check reports the result of a check or a review to a run that watches its branch.
func (c *Client) Check(ctx context.Context, id int64, m contract.CheckMessage) (contract.Ack, error) {
	m.ID = cmp.Or(m.ID, uuid.NewString()) // the same id counts once
	return ask[contract.Ack](ctx, c, command(m, runPath(id, "checks")...))
}

// Resume continues a paused run, or a failed or stopped run from where it ended.
func (c *Client) Resume(ctx context.Context, id int64, w contract.Command) (control.Resumption, error) {
	return c.resumed(ctx, command(attribution(w), runPath(id, "resume")...))
}

// Heal answers a run's request for help, or continues a failed run with a heal action.
func (c *Client) Heal(ctx context.Context, id int64, w contract.Command) (control.Resumption, error) {
	return c.resumed(ctx, command(apitypes.HealRequest{Attribution: attribution(w), Answered: apitypes.Answered{ApprovalID: w.ApprovalID}, Action: w.Action}, runPath(id, "heal")...))
}

func (c *Client) resumed(ctx context.Context, r call) (control.Resumption, error) {
	went, err := ask[apitypes.Resumed](ctx, c, r)
	if err == nil && went.Answer == nil && went.Replay == nil {
		err = c.notThisAPI("its response does not contain the result of the command")
	}
	return control.Resumption{Ack: went.Answer, Replay: went.Replay}, err
}
