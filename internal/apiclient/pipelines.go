package apiclient

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"strconv"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/apitypes"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/store"
)

func pipelinePath(id int64, rest ...string) []string {
	return append([]string{"api", "pipelines", fmt.Sprint(id)}, rest...)
}

// Spawn creates and starts a pipeline. A request without a key gets one, so that a lost response
// does not lead to a second pipeline.
func (c *Client) Spawn(ctx context.Context, s control.Spawning) (control.Spawned, error) {
	r := command(apitypes.SpawnRequest{
		Objective: s.Objective, AutoContinue: s.AutoContinue, Task: s.Task, Mode: s.Mode, Model: s.Model, Models: s.Models, Effort: s.Effort, Timeout: s.Timeout, ForceGamma: s.ForceGamma, Project: s.Project, By: s.By,
	}, "api", "spawn")
	var known bool
	r.key, r.known = cmp.Or(s.Key, r.key), &known
	made, err := ask[apitypes.SpawnedPipeline](ctx, c, r)
	if err != nil {
		return control.Spawned{}, err
	}
	out := control.Spawned{Fresh: s.Key == "" || made.Created && !known}
	if len(made.Notes) > 0 {
		out.Waiting = made.Notes[0]
	}
	out.Pipeline, err = c.Pipeline(ctx, made.PipelineID)
	if !known {
		out.Pipeline.Status = cmp.Or(made.Status, out.Pipeline.Status)
	}
	return out, err
}

// ListPipelines returns one page of the pipelines that match a filter, newest first.
func (c *Client) ListPipelines(ctx context.Context, f store.PipelineFilter) ([]store.Pipeline, error) {
	r := read("api", "pipelines")
	r.query = parameters("text", f.Text)
	for _, status := range f.Status {
		r.query.Add("status", string(status))
	}
	if f.RunID > 0 {
		r.query.Set("run", strconv.FormatInt(f.RunID, 10))
	}
	if f.Limit > 0 {
		r.query.Set("limit", strconv.Itoa(min(f.Limit, maxPage)))
	}
	page, err := ask[apitypes.PipelineList](ctx, c, r)
	return page.Pipelines, err
}

// Pipeline reads the state of a pipeline.
func (c *Client) Pipeline(ctx context.Context, id int64) (store.Pipeline, error) {
	return ask[store.Pipeline](ctx, c, read(pipelinePath(id)...))
}

// Orchestration reads a whole pipeline.
func (c *Client) Orchestration(ctx context.Context, id int64, every bool) (control.Orchestration, error) {
	r := read("api", "pipeline", fmt.Sprint(id), "orchestration")
	if every {
		r.query = parameters("versions", "true")
	}
	return ask[control.Orchestration](ctx, c, r)
}

// PipelineLogs reads the log entries of a pipeline after a number.
func (c *Client) PipelineLogs(ctx context.Context, id, after int64, limit int) ([]control.PipelineLog, error) {
	r := read("api", "pipeline", "logs")
	r.query = url.Values{"pipeline_id": {strconv.FormatInt(id, 10)}, "after": {strconv.FormatInt(after, 10)}, "limit": {strconv.Itoa(min(limit, maxPage))}}
	logs, err := ask[apitypes.PipelineLogs](ctx, c, r)
	return logs.Entries, err
}

// ContinuePipeline lets a pipeline continue after its report.
func (c *Client) ContinuePipeline(ctx context.Context, id int64, n control.Continuation) (contract.PipelineAck, error) {
	return ask[contract.PipelineAck](ctx, c, command(apitypes.ContinueRequest{
		OfPipeline: apitypes.OfPipeline{PipelineID: id, By: n.By}, Mode: n.Mode, Model: n.Model, Effort: n.Effort, Timeout: n.Timeout,
	}, "api", "pipeline", "continue"))
}

// StopPipeline stops a pipeline.
func (c *Client) StopPipeline(ctx context.Context, id int64, w contract.PipelineCommand) (contract.PipelineAck, error) {
	return ask[contract.PipelineAck](ctx, c, command(apitypes.Attribution{By: w.By, Reason: w.Reason}, "api", "pipeline", fmt.Sprint(id), "stop"))
}

// RevokeMember removes an agent from a pipeline.
func (c *Client) RevokeMember(ctx context.Context, id int64, m contract.Member, w contract.PipelineCommand) (contract.PipelineAck, error) {
	return ask[contract.PipelineAck](ctx, c, command(apitypes.RevokeRequest{
		OfPipeline: apitypes.OfPipeline{PipelineID: id, By: w.By}, Agent: m, Reason: w.Reason,
	}, "api", "pipeline", "revoke"))
}

// SwitchPipelineModel switches one agent of a pipeline, or all, to another model.
func (c *Client) SwitchPipelineModel(ctx context.Context, id int64, m contract.Member, model string, temperature *float64, effort contract.Effort, w contract.PipelineCommand) (contract.PipelineAck, error) {
	return ask[contract.PipelineAck](ctx, c, command(apitypes.SwitchModelsRequest{
		OfPipeline: apitypes.OfPipeline{PipelineID: id, By: w.By}, Agent: m, Model: model, Temperature: temperature, Effort: effort, Reason: w.Reason,
	}, "api", "pipeline", "models"))
}

// FollowPipeline is like Follow, for the events of a pipeline. They share the numbering of the
// run's events, so their numbers have gaps.
func (c *Client) FollowPipeline(ctx context.Context, id, after int64, fn func(contract.Event) error) error {
	return c.followStream(ctx, eventStream{
		path: pipelinePath(id, "stream"), command: fmt.Sprintf("rgpt pipeline watch %d", id),
		ours: func(e contract.Event) bool { return e.PipelineID() == id }, gaps: true,
	}, after, fn)
}
