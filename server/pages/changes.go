package pages

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/a-h/templ"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/apitypes"
	"github.com/rocketgpt/orchestrator/internal/artifact"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/server/middleware"
	"github.com/rocketgpt/orchestrator/server/param"
	"github.com/rocketgpt/orchestrator/server/respond"
	"github.com/rocketgpt/orchestrator/server/ui"
)

// Limits of the page of a run's changes.
const (
	shownFiles     = 200       // files; more are on the next pages
	shownFileBytes = 48 << 10  // of one file's patch; a larger one is collapsed and loaded when opened
	shownDiffBytes = 256 << 10 // of all patches in the page together
	oneFileBytes   = 2 << 20   // of a file's patch that is requested separately
)

// changeSource is a change that can be viewed: of the whole run, of a step or of a heal.
type changeSource struct {
	ui.ChangeSource
	load func(context.Context) (patchText, error)
}

// changesTab shows the code changes of a run.
func (s *Server) changesTab(ctx context.Context, r *http.Request, h *ui.RunHead) (templ.Component, error) {
	q, err := param.Query(r)
	if err != nil {
		return nil, err
	}
	view := q.Get("view")
	if err := param.OneOf("view", view, []string{ui.ViewSide, ui.ViewUnified}); err != nil {
		return nil, err
	}
	c := ui.Changes{Head: *h, Step: q.Get("step"), View: view, Path: q.Get("path")}
	if c.From, err = offset(q, "from"); err != nil {
		return nil, err
	}
	sources, err := s.changeSources(ctx, h.Run)
	if err != nil {
		return nil, err
	}
	for _, source := range sources {
		c.Sources = append(c.Sources, source.ChangeSource)
	}
	source, err := sourceNamed(sources, c.Step)
	if err != nil {
		return nil, err
	}
	c.Source = source.ChangeSource
	patch, err := source.load(ctx)
	if err != nil {
		c.Problem = s.patchProblem(ctx, h.Run.ID, err)
	}
	c.Bytes, c.Cut = len(patch.text), patch.cut
	if err := fillFiles(&c, patch.files, q.Get("file")); err != nil {
		return nil, err
	}
	return ui.ChangesTab(c), nil
}

// fillFiles selects the files to list, and the ones with a patch on the page.
func fillFiles(c *ui.Changes, all []ui.ChangedFile, one string) error {
	var files []ui.ChangedFile
	for i, f := range all {
		f.Number = i + 1
		c.Added, c.Removed = c.Added+f.Added, c.Removed+f.Removed
		if c.Path == "" || strings.Contains(strings.ToLower(f.Path), strings.ToLower(c.Path)) {
			files = append(files, f)
		}
	}
	c.Total, c.Matching = len(all), len(files)
	if one != "" {
		n, err := strconv.Atoi(one)
		if err != nil || n < 1 || n > len(all) {
			return store.ErrNotFound
		}
		f := all[n-1]
		f.Number, f.Shown = n, true
		f.Cut = len(f.Text) > oneFileBytes
		f.Text = ui.CutLines(f.Text, oneFileBytes)
		c.One, c.Files = true, []ui.ChangedFile{f}
		return nil
	}
	c.Files = slices.Clone(files[min(c.From, len(files)):min(c.From+shownFiles, len(files))])
	budget := shownDiffBytes
	for i := range c.Files {
		if f := &c.Files[i]; f.Bytes <= min(shownFileBytes, budget) {
			f.Shown = true
			budget -= f.Bytes
		}
	}
	return nil
}

// changePatch sends a change as a patch, as the page shows it: without secrets and, except for a
// release, without the content of binary files.
func (s *Server) changePatch(w http.ResponseWriter, r *http.Request) error {
	id, err := param.ID(r)
	if err != nil {
		return err
	}
	q, err := param.Query(r)
	if err != nil {
		return err
	}
	run, err := s.Store.Run(r.Context(), id)
	if err != nil {
		return err
	}
	sources, err := s.changeSources(r.Context(), run)
	if err != nil {
		return err
	}
	source, err := sourceNamed(sources, q.Get("step"))
	if err != nil {
		return err
	}
	p, err := source.load(r.Context())
	switch {
	case errors.Is(err, artifact.ErrNotFound):
		return store.ErrNotFound
	case err != nil:
		return err
	case p.cut: // a truncated patch must not be mistaken for the whole
		return fault.New(contract.ClassHuman, contract.CodeTooLarge, "this change exceeds the limit of %s for a combined patch; see the artifacts of run %d for the whole change", ui.Size(shownPatchBytes), id)
	}
	name := fmt.Sprintf("run-%d.patch", id)
	if source.Name != "" {
		name = fmt.Sprintf("run-%d-%s.patch", id, source.Name)
	}
	w.Header().Set("Content-Disposition", respond.Attachment(name))
	s.Write(w, http.StatusOK, "text/plain; charset=utf-8", []byte(p.text))
	return nil
}

// patchProblem explains to users why a change cannot be shown.
func (s *Server) patchProblem(ctx context.Context, run int64, err error) string {
	if errors.Is(err, artifact.ErrNotFound) {
		return "The patch is no longer in the artifact store."
	}
	s.Log.ErrorContext(ctx, "A patch could not be read", "request", middleware.RequestID(ctx), "run", run, "error", err)
	return "The patch could not be read; see the server's log. The run itself is not affected."
}

func sourceNamed(sources []changeSource, name string) (changeSource, error) {
	i := slices.IndexFunc(sources, func(c changeSource) bool { return c.Name == name })
	if i < 0 {
		return changeSource{}, store.ErrNotFound
	}
	return sources[i], nil
}

// changeSources returns the changes that can be viewed, the whole change first.
func (s *Server) changeSources(ctx context.Context, run store.Run) ([]changeSource, error) {
	executions, err := s.Store.Executions(ctx, run.ID)
	if err != nil {
		return nil, err
	}
	patches, err := s.Views.Patches(ctx, run.ID)
	if err != nil {
		return nil, err
	}
	heals, err := s.Store.Heals(ctx, run.ID)
	if err != nil {
		return nil, err
	}
	plan, err := s.Store.Plan(ctx, run.ID)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	out := []changeSource{s.wholeChange(run, executions, patches, heals)}
	out = append(out, s.stepChanges(plan, executions)...)
	return append(out, s.healChanges(patches, heals)...), nil
}

// wholeChange returns the change of the release or, before there is one, the change so far.
func (s *Server) wholeChange(run store.Run, executions []store.Execution, patches []contract.Artifact, heals []store.HealEvent) changeSource {
	whole := s.workSoFar(executions, heals)
	if run.ReleaseBranch != "" {
		for _, a := range slices.Backward(patches) {
			if path.Base(a.Name) == "change.patch" && !strings.HasPrefix(a.Name, "heal/") {
				whole.What = "Changes in " + ui.Cut(run.ReleaseBranch, 100) + "."
				whole.load = func(ctx context.Context) (patchText, error) { return s.storedPatch(ctx, a.Digest) }
				return whole
			}
		}
	}
	return whole
}

// workSoFar returns the change of the latest execution or repair whose complete result is known.
func (s *Server) workSoFar(executions []store.Execution, heals []store.HealEvent) changeSource {
	whole := changeSource{
		ChangeSource: ui.ChangeSource{Label: "The whole change", What: "No changes yet."},
		load:         func(context.Context) (patchText, error) { return patchText{}, nil },
	}
	for _, e := range slices.Backward(executions) {
		at, what := stateAfter(e, heals)
		if at.Tree == "" {
			continue
		}
		whole.What = what
		whole.load = func(ctx context.Context) (patchText, error) { return s.patchBetween(ctx, "", at.Patch) }
		break
	}
	return whole
}

// stateAfter returns the code after a phase or an accepted repair, and a label for it; for anything
// else the tree is empty.
func stateAfter(e store.Execution, heals []store.HealEvent) (contract.Workspace, string) {
	switch {
	case len(e.Output) == 0:
	case e.Step == "":
		var out contract.Workspace
		if json.Unmarshal(e.Output, &out) == nil && out.Tree != "" { // outputs of other phases have a different structure
			return out, fmt.Sprintf("Combined changes from the steps, as of %s attempt %d. Not released.", e.Phase, e.Attempt)
		}
	case e.Step == contract.StepRepair && e.Phase != contract.PhaseBuilder: // a builder's repair covers only one step's work
		out := stepOutput(e)
		for _, h := range heals {
			if h.Status != contract.HealFailed && out.To.Tree != "" && h.Output().After["tree"] == out.To.Tree {
				return out.To, fmt.Sprintf("Combined changes from the steps and repairs, as of heal %d. Not released.", h.Number)
			}
		}
	}
	return contract.Workspace{}, ""
}

func stepOutput(e store.Execution) (out contract.StepOutput) {
	if json.Unmarshal(e.Output, &out) != nil {
		return contract.StepOutput{} // not the output of a step
	}
	return out
}

// stepChanges returns the changes of the completed steps, in plan order.
func (s *Server) stepChanges(plan contract.Plan, executions []store.Execution) []changeSource {
	latest := map[string]contract.StepOutput{}
	var names []string
	for _, e := range executions {
		if out := stepOutput(e); e.Phase == contract.PhaseBuilder && e.Step != "" && e.Step != contract.StepRepair && out.To.Tree != "" {
			if _, there := latest[e.Step]; !there {
				names = append(names, e.Step)
			}
			latest[e.Step] = out
		}
	}
	slices.SortStableFunc(names, func(a, b string) int { return placeIn(plan, a) - placeIn(plan, b) })
	var out []changeSource
	for _, name := range names {
		done := latest[name]
		step, _ := plan.Step(name)
		out = append(out, changeSource{
			ui.ChangeSource{Name: name, Label: strings.TrimSuffix(ui.Cut(name, 40)+" · "+ui.Cut(step.Name, 80), " · "), What: "Changes made by this step."},
			func(ctx context.Context) (patchText, error) {
				return s.patchBetween(ctx, done.From.Patch, done.To.Patch)
			},
		})
	}
	return out
}

func placeIn(plan contract.Plan, id string) int {
	if i := slices.IndexFunc(plan.Steps, func(s contract.Step) bool { return s.ID == id }); i >= 0 {
		return i
	}
	return len(plan.Steps)
}

// healChanges returns the changes of repairs, including discarded ones.
func (s *Server) healChanges(patches []contract.Artifact, heals []store.HealEvent) []changeSource {
	var out []changeSource
	for _, h := range heals {
		if a, ok := healPatch(patches, heals, h); ok {
			out = append(out, changeSource{
				ui.ChangeSource{
					Name:  fmt.Sprintf("heal-%d", h.Number),
					Label: fmt.Sprintf("Heal %d · %s for %s", h.Number, ui.Words(h.HealAction), h.ErrorType),
					What:  "Changes made by the repair.",
				},
				func(ctx context.Context) (patchText, error) { return s.storedPatch(ctx, a.Digest) },
			})
		}
	}
	return out
}

// healPatch returns the patch of a heal. A replay restarts the numbering of heals, so it is the
// patch of the last heal with that number.
func healPatch(patches []contract.Artifact, heals []store.HealEvent, h store.HealEvent) (contract.Artifact, bool) {
	for _, other := range heals {
		if other.Number == h.Number && other.ID > h.ID {
			return contract.Artifact{}, false
		}
	}
	i := slices.IndexFunc(patches, func(a contract.Artifact) bool { return a.Name == fmt.Sprintf("heal/%d/change.patch", h.Number) })
	if i < 0 {
		return contract.Artifact{}, false
	}
	return patches[i], true
}

// maxOffset is the largest offset into a list.
const maxOffset = 10_000_000

// offset reads the number of rows of a list to skip.
func offset(q url.Values, name string) (int, error) {
	if q.Get(name) == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(q.Get(name))
	if err != nil || n < 0 || n > maxOffset {
		return 0, apitypes.BadRequest(fmt.Sprintf("%s %q must be a number from 0 to %d", name, q.Get(name), maxOffset))
	}
	return n, nil
}
