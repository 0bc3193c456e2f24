package pages

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/a-h/templ"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/apitypes"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/server/param"
	"github.com/rocketgpt/orchestrator/server/ui"
)

// shownPlans is the number of versions of a plan that are listed.
const shownPlans = 50

// planTab shows the plan of a run as a graph, and the state of its steps.
func (s *Server) planTab(ctx context.Context, r *http.Request, h *ui.RunHead) (templ.Component, error) {
	q, err := planQuery(h.Run.ID, r.URL.Query())
	if err != nil {
		return nil, err
	}
	p := ui.PlanPage{Query: q, Counts: h.Run.PlanID}
	if p.Versions, err = s.Views.Plans(ctx, h.Run.ID, shownPlans); err != nil {
		return nil, err
	}
	if p.Planning, err = s.planning(ctx, h.Run.ID); err != nil {
		return nil, err
	}
	if len(p.Versions) == 0 {
		if q.Version != 0 || q.Against != 0 {
			return nil, store.ErrNotFound
		}
		return ui.PlanTab(p), nil
	}
	if err := s.planVersion(ctx, h.Run, &p); err != nil {
		return nil, err
	}
	work, err := s.Views.Work(ctx, h.Run.ID)
	if err != nil {
		return nil, err
	}
	p.Graph = ui.DrawPlan(p.Plan, work, h.Run, q)
	if p.Review, err = s.review(ctx, h.Run.ID, p.Shown.ID); err != nil {
		return nil, err
	}
	if q.Step != "" {
		if p.Detail, err = s.step(ctx, h.Run.ID, p, work); err != nil {
			return nil, err
		}
	}
	return ui.PlanTab(p), nil
}

// review returns how a version of a run's plan was checked, nil if that is not known.
func (s *Server) review(ctx context.Context, run, plan int64) (*contract.PlanReview, error) {
	outputs, err := s.Views.Outputs(ctx, run)
	if err != nil {
		return nil, err
	}
	var out struct {
		PlanID int64                `json:"plan_id"`
		Review *contract.PlanReview `json:"review"`
	}
	if err := json.Unmarshal(outputs.Planner, &out); err == nil && out.PlanID == plan {
		return out.Review, nil
	}
	return nil, nil //nolint:nilnil // unknown
}

func planQuery(run int64, v url.Values) (q ui.PlanQuery, err error) {
	q = ui.PlanQuery{Run: run, Step: v.Get("step"), Zoom: 100, Critical: v.Get("critical") == "1"}
	if err := param.CheckText("step", q.Step); err != nil {
		return q, err
	}
	for name, to := range map[string]*int64{"version": &q.Version, "against": &q.Against} {
		if text := v.Get(name); text != "" {
			if *to, err = strconv.ParseInt(text, 10, 64); err != nil || *to < 1 {
				return q, apitypes.BadRequest(name + ": must be a plan version number")
			}
		}
	}
	if text := v.Get("zoom"); text != "" {
		q.Zoom, err = strconv.Atoi(text)
		if err != nil || !slices.Contains(ui.PlanZooms(), q.Zoom) {
			return q, apitypes.BadRequest("zoom: must be 50, 75, 100 or 150")
		}
	}
	return q, nil
}

// planVersion reads the requested version of the plan and the version to compare it with.
func (s *Server) planVersion(ctx context.Context, run store.Run, p *ui.PlanPage) (err error) {
	asked := cmp.Or(p.Query.Version, run.PlanID)
	if asked == 0 {
		asked = p.Versions[0].ID
	}
	at := slices.IndexFunc(p.Versions, func(v views.PlanVersion) bool { return v.ID == asked })
	if at < 0 {
		return store.ErrNotFound
	}
	p.Shown = p.Versions[at]
	if p.Plan, err = s.Store.PlanByID(ctx, run.ID, p.Shown.ID); err != nil {
		return err
	}
	against := at + 1
	if p.Query.Against != 0 {
		against = slices.IndexFunc(p.Versions, func(v views.PlanVersion) bool { return v.ID == p.Query.Against })
		if against < 0 {
			return store.ErrNotFound
		}
	}
	if against >= len(p.Versions) {
		return nil
	}
	p.Before = &p.Versions[against]
	before, err := s.Store.PlanByID(ctx, run.ID, p.Before.ID)
	if err != nil {
		return err
	}
	p.Changes = ui.ComparePlans(before, p.Plan)
	p.Summary = before.Summary != p.Plan.Summary || before.ComplexityScore != p.Plan.ComplexityScore
	return nil
}

// step returns the details of the selected step; nil if it does not exist.
func (s *Server) step(ctx context.Context, run int64, p ui.PlanPage, work []views.Span) (*ui.StepDetail, error) {
	step, known := p.Plan.Step(p.Query.Step)
	if !known {
		return nil, nil
	}
	d := &ui.StepDetail{Step: step, State: ui.Queued}
	for _, n := range p.Graph.Nodes {
		if n.ID == step.ID {
			d.State = n.State
		}
	}
	for _, id := range step.Dependencies {
		if needed, ok := p.Plan.Step(id); ok {
			d.Needs = append(d.Needs, needed)
		} else {
			d.Unknown = append(d.Unknown, id)
		}
	}
	for _, other := range p.Plan.Steps {
		if slices.Contains(other.Dependencies, step.ID) {
			d.After = append(d.After, other)
		}
	}
	var done int64
	for _, e := range work {
		if e.Phase == contract.PhaseBuilder && e.Step == step.ID {
			d.Attempts = append(d.Attempts, e)
			if e.Status == contract.ExecutionCompleted {
				done = e.ExecutionID
			}
		}
	}
	if done == 0 {
		return d, nil
	}
	e, err := s.Store.Execution(ctx, run, done)
	if errors.Is(err, store.ErrNotFound) {
		return d, nil // it was deleted between two reads
	}
	if err != nil {
		return nil, err
	}
	d.Change, err = s.changeOf(ctx, e)
	return d, err
}
