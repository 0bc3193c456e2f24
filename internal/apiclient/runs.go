package apiclient

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/apitypes"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/gate/explain"
	"github.com/rocketgpt/orchestrator/internal/health"
	"github.com/rocketgpt/orchestrator/internal/runs/diff"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/views"
)

// maxPage is the maximum number of runs or events per request.
const maxPage = 1000

// parameters builds a query from names and values, and omits empty values.
func parameters(pairs ...string) url.Values {
	q := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	return q
}

// ListRuns returns runs, newest first, like store.ListRuns. It returns an error for a filter that
// cannot be sent to the server.
func (c *Client) ListRuns(ctx context.Context, f store.Filter) ([]store.Run, error) {
	told := store.Filter{Status: f.Status, Phase: f.Phase, Project: f.Project, ErrorClass: f.ErrorClass, Labels: f.Labels, Text: f.Text, Since: f.Since, Until: f.Until, Limit: f.Limit}
	if !reflect.DeepEqual(told, f) {
		return nil, fault.New(contract.ClassHuman, contract.CodeInvalidConfig, "the HTTP API does not support this filter; run the command without --server on a machine that can access the database")
	}
	r := read("api", "runs")
	r.query = parameters("phase", string(f.Phase), "project", f.Project, "error", string(f.ErrorClass), "text", f.Text)
	for _, status := range f.Status {
		r.query.Add("status", string(status))
	}
	for _, label := range f.Labels {
		r.query.Add("label", label)
	}
	for name, at := range map[string]time.Time{"since": f.Since, "until": f.Until} {
		if !at.IsZero() {
			r.query.Set(name, at.Format(time.RFC3339Nano))
		}
	}
	if f.Limit > 0 {
		r.query.Set("limit", strconv.Itoa(min(f.Limit, maxPage)))
	}
	page, err := ask[apitypes.RunList](ctx, c, r)
	return page.Runs, err
}

// Run returns a run.
func (c *Client) Run(ctx context.Context, id int64) (store.Run, error) {
	d, err := c.RunDetails(ctx, id)
	return d.Run, err
}

// RunDetails returns the whole run.
func (c *Client) RunDetails(ctx context.Context, id int64) (views.RunDetails, error) {
	d, err := ask[views.RunDetails](ctx, c, read(runPath(id)...))
	if d.Environment != nil {
		d.Run.Environment, d.SetupID = d.Environment.Digest, d.Environment.SetupID
	}
	if d.Baseline != nil {
		d.Run.Baseline = d.Baseline.Key
	}
	for _, output := range []*json.RawMessage{&d.PlannerOutput, &d.BuilderOutput, &d.TesterOutput, &d.ReleaserOutput} {
		if string(*output) == "null" { // the output does not exist yet
			*output = nil
		}
	}
	return d, err
}

// Events returns at most limit events of a run after a number.
func (c *Client) Events(ctx context.Context, id, after int64, limit int) ([]contract.Event, error) {
	r := read(runPath(id, "events")...)
	r.query = parameters("after", strconv.FormatInt(after, 10), "limit", strconv.Itoa(min(limit, maxPage)))
	list, err := ask[apitypes.EventList](ctx, c, r)
	return list.Events, err
}

// ModelCalls returns at most limit model calls of a run after an id.
func (c *Client) ModelCalls(ctx context.Context, id, after int64, limit int) ([]views.ModelCall, error) {
	r := read(runPath(id, "calls")...)
	r.query = parameters("after", strconv.FormatInt(after, 10), "limit", strconv.Itoa(min(limit, maxPage)))
	list, err := ask[apitypes.ModelCallList](ctx, c, r)
	return list.Calls, err
}

// Conversations returns the conversations of a run's agents.
func (c *Client) Conversations(ctx context.Context, id int64, phase contract.Phase, step string) ([]control.Conversation, error) {
	r := read(runPath(id, "logs")...)
	r.query = parameters("phase", string(phase), "step", step)
	logs, err := ask[apitypes.Logs](ctx, c, r)
	return logs.Conversations, err
}

// File opens a file of a run. The caller closes it. Reads return an error if the transfer stalls
// for too long or ends early.
func (c *Client) File(ctx context.Context, f contract.Artifact) (io.ReadCloser, error) {
	resp, err := c.openStream(ctx, read(runPath(f.RunID, "artifacts", strconv.FormatInt(f.ID, 10))...), nil)
	if err != nil {
		return nil, err
	}
	return resp, nil
}

// Diff compares two runs, or two attempts of one run.
func (c *Client) Diff(ctx context.Context, left, right diff.Ref) (diff.Diff, error) {
	r := read(runPath(left.Run, "diff", strconv.FormatInt(right.Run, 10))...)
	r.query = parameters("attempt", strconv.Itoa(left.Attempt), "other_attempt", strconv.Itoa(right.Attempt), "phase", string(left.Phase))
	return ask[diff.Diff](ctx, c, r)
}

// OpenInterventions returns at most limit open questions to people, the oldest first.
func (c *Client) OpenInterventions(ctx context.Context, limit int) ([]views.Intervention, error) {
	list, err := ask[apitypes.Interventions](ctx, c, read("api", "interventions"))
	return list.Interventions[:min(limit, len(list.Interventions))], err
}

// Timing returns how a run spent its time.
func (c *Client) Timing(ctx context.Context, id int64) (control.Timing, error) {
	return ask[control.Timing](ctx, c, read(runPath(id, "timing")...))
}

// Rejudge judges the recorded plans and test results of a run again; it changes nothing.
func (c *Client) Rejudge(ctx context.Context, id int64, rules control.Rules) (control.Retrials, error) {
	return ask[control.Retrials](ctx, c, call{method: http.MethodPost, path: runPath(id, "rejudge"), body: rules})
}

// ExplainGate explains the verdicts of the policy gate about a run's changes, or one of them.
func (c *Client) ExplainGate(ctx context.Context, id, verdict int64) ([]explain.Explanation, error) {
	r := read(runPath(id, "gate")...)
	if verdict != 0 {
		r.query = parameters("verdict", strconv.FormatInt(verdict, 10))
	}
	out, err := ask[apitypes.GateExplanations](ctx, c, r)
	return out.Verdicts, err
}

// Models returns the models in the server's configuration.
func (c *Client) Models(ctx context.Context, check bool) (control.Models, error) {
	r := read("api", "models")
	if check {
		r.query = parameters("check", "true")
	}
	return ask[control.Models](ctx, c, r)
}

// Agents returns the state of the workers' agents and their queues.
func (c *Client) Agents(ctx context.Context) (health.Report, error) {
	return ask[health.Report](ctx, c, read("api", "agents"))
}

// Links returns the addresses of other views of a run.
func (c *Client) Links(ctx context.Context, id int64) (dashboard, temporal string, err error) {
	links, err := ask[apitypes.Links](ctx, c, read(runPath(id, "links")...))
	return fmt.Sprintf("%s/runs/%d", c.Address(), id), links.Temporal, err
}
