package pages

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/a-h/templ"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/apitypes"
	"github.com/rocketgpt/orchestrator/internal/runs/diff"
	"github.com/rocketgpt/orchestrator/server/param"
	"github.com/rocketgpt/orchestrator/server/ui"
)

// chooseDiff redirects to the comparison of a run with the named one, by default with the run that
// it was forked from or the previous run of its project. The other run is the first side, so the
// page reports what is worse in this run.
func (s *Server) chooseDiff(w http.ResponseWriter, r *http.Request) error {
	id, err := param.ID(r)
	if err != nil {
		return err
	}
	run, err := s.Store.Run(r.Context(), id)
	if err != nil {
		return err
	}
	q, err := param.Query(r)
	if err != nil {
		return err
	}
	if asked := q.Get("other"); asked != "" {
		other, err := diff.ParseRef(asked)
		if err != nil {
			return apitypes.BadRequest(err.Error())
		}
		attempt, err := offset(q, "attempt")
		if err != nil {
			return err
		}
		http.Redirect(w, r, diffHref(diff.Ref{Run: id, Attempt: attempt}, other, q.Get("phase")), http.StatusFound)
		return nil
	}
	before, err := s.Views.Neighbour(r.Context(), id)
	if follow := run.Settings.FollowUp; follow != nil {
		before = follow.RunID
	}
	if fork := run.Settings.Fork; fork != nil {
		before = fork.RunID
	}
	if err != nil {
		return err
	}
	if before == 0 {
		return s.page(s.noDiff)(w, r)
	}
	// The first run of a project is compared with the next one.
	http.Redirect(w, r, diffHref(diff.Ref{Run: min(before, id)}, diff.Ref{Run: max(before, id)}, ""), http.StatusFound)
	return nil
}

func diffHref(a, b diff.Ref, phase string) string {
	q := url.Values{}
	for name, n := range map[string]int{"attempt": a.Attempt, "other_attempt": b.Attempt} {
		if n > 0 {
			q.Set(name, strconv.Itoa(n))
		}
	}
	if phase != "" {
		q.Set("phase", phase)
	}
	to := fmt.Sprintf("/runs/%d/diff/%d", a.Run, b.Run)
	if len(q) > 0 {
		to += "?" + q.Encode()
	}
	return to
}

// noDiff is the page for a run that has no other run to compare with.
func (s *Server) noDiff(r *http.Request, shell ui.Shell) (templ.Component, error) {
	id, err := param.ID(r)
	if err != nil {
		return nil, err
	}
	shell.Section, shell.Title = "runs", fmt.Sprintf("Compare #%d", id)
	return ui.NoDiff(shell, id), nil
}

// diffPage compares two runs, or two attempts of one run, regressions first.
func (s *Server) diffPage(r *http.Request, shell ui.Shell) (templ.Component, error) {
	refs, err := diffRefs(r)
	if err != nil {
		return nil, err
	}
	p := ui.DiffPage{Shell: shell, Phase: refs[0].Phase}
	var sides [2]diff.Side
	for i, ref := range refs {
		if sides[i], err = diff.Load(r.Context(), s.Store, s.Views, s.Artifacts, ref); err != nil {
			return nil, err
		}
		if p.Attempts[i], err = s.attemptsOf(r.Context(), ref); err != nil {
			return nil, err
		}
	}
	p.Diff = diff.Compare(sides[0], sides[1])
	for i, f := range filesOf(p.Code.Patch) {
		f.Number, f.Shown = i+1, true
		p.Files = append(p.Files, f)
	}
	p.Section, p.Title = "runs", fmt.Sprintf("#%s → #%s", refs[0], refs[1])
	return ui.Compared(p), nil
}

// attemptsOf returns the attempts of a phase that can be chosen as a side.
func (s *Server) attemptsOf(ctx context.Context, ref diff.Ref) (out []int, err error) {
	phases, err := s.Views.Phases(ctx, ref.Run)
	for _, p := range phases {
		if p.Phase == ref.Phase {
			out = append(out, p.Attempt)
		}
	}
	return out, err
}

// diffRefs reads the two sides of a requested comparison.
func diffRefs(r *http.Request) (refs [2]diff.Ref, err error) {
	q, err := param.Query(r)
	if err != nil {
		return refs, err
	}
	phase := contract.Phase(cmp.Or(q.Get("phase"), string(contract.PhaseTester)))
	if err := param.OneOf("phase", phase, contract.Phases()); err != nil {
		return refs, err
	}
	for i, names := range [2][2]string{{"id", "attempt"}, {"other", "other_attempt"}} {
		refs[i].Phase = phase
		if refs[i].Run, err = param.Number(r, names[0]); err != nil {
			return refs, err
		}
		if refs[i].Attempt, err = offset(q, names[1]); err != nil {
			return refs, err
		}
	}
	return refs, nil
}
