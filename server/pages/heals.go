package pages

import (
	"cmp"
	"context"
	"math"
	"net/http"
	"slices"

	"github.com/a-h/templ"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/devstack"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/server/param"
	"github.com/rocketgpt/orchestrator/server/ui"
)

// Limits of the page of a run's heals.
const (
	shownHealCards = 40
	shownHealBytes = 32 << 10 // of a repair's patch; the page of changes shows all of it
)

// healsTab shows the failures of a run, the actions taken, and their results.
func (s *Server) healsTab(ctx context.Context, r *http.Request, h *ui.RunHead) (templ.Component, error) {
	q, err := param.Query(r)
	if err != nil {
		return nil, err
	}
	p := ui.HealsPage{Head: *h}
	if p.From, err = offset(q, "from"); err != nil {
		return nil, err
	}
	id := h.Run.ID
	heals, err := s.Store.Heals(ctx, id)
	if err != nil {
		return nil, err
	}
	asked, err := s.Views.Interventions(ctx, id)
	if err != nil {
		return nil, err
	}
	executions, err := s.Store.Executions(ctx, id)
	if err != nil {
		return nil, err
	}
	patches, err := s.Views.Patches(ctx, id)
	if err != nil {
		return nil, err
	}
	all := slices.Clone(heals)
	p.Total = len(heals)
	slices.Reverse(heals)
	heals = heals[min(p.From, len(heals)):min(p.From+shownHealCards, len(heals))]
	slices.Reverse(heals)
	p.Path = pathOf(heals, during(asked, heals, p), executions)
	for _, heal := range slices.Backward(heals) {
		card := ui.HealCard{
			HealEvent: heal, Out: heal.Output(),
			Temporal: devstack.WorkflowURL(s.TemporalUI, s.Namespace, contract.HealWorkflowID(id, heal.Number), ""),
		}
		card.Failed, card.Patch = withID(executions, heal.ExecutionID), card.Out.Diff
		if a, ok := healPatch(patches, all, heal); ok {
			card.PatchDigest = a.Digest
			patch, err := s.storedPatch(ctx, a.Digest)
			if err != nil {
				card.Problem = s.patchProblem(ctx, id, err)
			}
			if len(patch.files) > 0 {
				card.Patch, card.Whole = ui.CutLines(patch.text, shownHealBytes), len(patch.text) <= shownHealBytes && !patch.cut
				card.Files = len(patch.files)
			}
		}
		p.Cards = append(p.Cards, card)
	}
	p.Asked = asked
	slices.Reverse(p.Asked)
	return ui.HealsTab(p), nil
}

// during returns the interventions during the heals that are shown.
func during(asked []views.Intervention, heals []store.HealEvent, p ui.HealsPage) (out []views.Intervention) {
	for _, a := range asked {
		early := len(heals) > 0 && p.From+len(heals) < p.Total && a.CreatedAt.Before(heals[0].CreatedAt)
		late := len(heals) > 0 && p.From > 0 && a.CreatedAt.After(heals[len(heals)-1].CreatedAt)
		if !early && !late {
			out = append(out, a)
		}
	}
	return out
}

// pathOf arranges attempts, heals and interventions as one path: an attempt, the reaction to its
// failure, the next attempt, and so on. Heals and interventions are sorted by their start.
func pathOf(heals []store.HealEvent, asked []views.Intervention, executions []store.Execution) []ui.PathNode {
	type moment struct {
		heal *store.HealEvent
		ask  *views.Intervention
	}
	var moments []moment
	for i := range heals {
		moments = append(moments, moment{heal: &heals[i]})
	}
	for i := range asked {
		moments = append(moments, moment{ask: &asked[i]})
	}
	began := func(m moment) int64 {
		if m.heal != nil {
			return m.heal.CreatedAt.UnixNano()
		}
		return m.ask.CreatedAt.UnixNano()
	}
	slices.SortStableFunc(moments, func(a, b moment) int { return cmp.Compare(began(a), began(b)) })
	var path []ui.PathNode
	attempt := func(e *store.Execution) {
		if e == nil || slices.ContainsFunc(path, func(n ui.PathNode) bool { return n.Attempt != nil && n.Attempt.ID == e.ID }) {
			return
		}
		path = append(path, ui.PathNode{Attempt: e})
	}
	for i, m := range moments {
		until := int64(math.MaxInt64)
		if i+1 < len(moments) {
			until = began(moments[i+1])
		}
		if m.ask != nil {
			path = append(path, ui.PathNode{Asked: m.ask})
			attempt(firstAfter(executions, m.ask.Phase, "", m.ask.ResolvedAt != nil, began(m), until))
			continue
		}
		attempt(withID(executions, m.heal.ExecutionID))
		path = append(path, ui.PathNode{Heal: m.heal})
		back := cmp.Or(m.heal.Output().Back, m.heal.Phase)
		step := m.heal.Step
		if back != m.heal.Phase {
			step = ""
		}
		attempt(firstAfter(executions, back, step, true, began(m), until))
	}
	return path
}

func withID(executions []store.Execution, id int64) *store.Execution {
	return first(executions, func(e store.Execution) bool { return e.ID == id })
}

// first returns the first element that matches; nil if none does.
func first[T any](all []T, meant func(T) bool) *T {
	if i := slices.IndexFunc(all, meant); i >= 0 {
		return &all[i]
	}
	return nil
}

// firstAfter returns the first attempt of a phase or step that began within a time span.
func firstAfter(executions []store.Execution, phase contract.Phase, step string, ended bool, from, to int64) *store.Execution {
	if !ended {
		return nil
	}
	fits := func(e store.Execution, step string) bool {
		at := e.StartedAt.UnixNano()
		return e.Phase == phase && e.Step == step && at >= from && at < to
	}
	for _, wanted := range []string{step, ""} {
		if e := first(executions, func(e store.Execution) bool { return fits(e, wanted) }); e != nil {
			return e
		}
	}
	return nil
}
