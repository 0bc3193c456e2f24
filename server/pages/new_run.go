package pages

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/a-h/templ"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/server/ui"
)

// Limits of the repositories that the form for a run suggests.
const (
	recentRuns  = 100 // whose repositories are suggested
	recentRepos = 20
)

// runFields returns the fields of the form for a run.
func runFields() []string {
	return []string{
		control.FieldRepo, control.FieldBase, control.FieldIssue, control.FieldGoal, ui.NewRunDescription, control.FieldModel, control.FieldEffort, ui.NewRunRelease, ui.NewRunCost,
		control.FieldAttempts, control.FieldLabels, ui.NewRunApprovePlan, ui.NewRunApproveRelease, control.FieldPlanOnly, control.FieldBy,
	}
}

// newRunPage is the empty form for a run.
func (s *Server) newRunPage(r *http.Request, shell ui.Shell) (templ.Component, error) {
	p := ui.NewRunPage{Shell: shell, Entry: newEntry()}
	err := s.fillNewRun(r.Context(), &p)
	return ui.NewRun(p), err
}

// fillNewRun adds to the form for a run what it suggests.
func (s *Server) fillNewRun(ctx context.Context, p *ui.NewRunPage) (err error) {
	p.Section, p.Shell.Title = "runs", "New run"
	cfg := s.Runs.Config
	p.Defaults = ui.RunDefaults{
		Release: cfg.Git.Release, ApprovePlan: cfg.Execution.ApprovePlan, ApproveRelease: cfg.Execution.ApproveRelease,
		Attempts: max(1, cfg.Execution.Attempts.Count), Cost: cfg.Execution.Run.CostUSD,
	}
	runs, err := s.Store.ListRuns(ctx, store.Filter{Limit: recentRuns})
	if err != nil {
		return err
	}
	for _, run := range runs {
		if len(p.Repos) < recentRepos && !slices.Contains(p.Repos, run.Repo) {
			p.Repos = append(p.Repos, run.Repo)
		}
	}
	p.Offered, err = s.offeredTo(ctx, nil, nil)
	return err
}

// createRun creates the run that a form describes, and leads to its page. If it cannot, or if only an
// estimate is wanted, it shows the form again with everything that was entered.
func (s *Server) createRun(w http.ResponseWriter, r *http.Request) error {
	entry, err := entryOf(r, runFields())
	if entry.Values == nil {
		return err
	}
	var c control.Creation
	if err == nil {
		c, err = creationOf(entry)
	}
	var estimate *control.Estimate
	switch {
	case err != nil:
	case r.PostFormValue("do") == "estimate":
		var e control.Estimate
		if e, err = s.Runs.Estimate(r.Context(), c); err == nil {
			estimate = &e
		}
	default:
		var made control.Created
		c.NeedsName = true
		if made, err = s.Runs.Create(r.Context(), c); err == nil {
			return s.leadTo(w, r, made)
		}
	}
	status := http.StatusOK
	if err != nil {
		status = s.rejected(r.Context(), &entry, err)
		if entry.Field == control.FieldPullRequest {
			entry.Field = ui.NewRunRelease
		}
	}
	r, shell, cancel := s.again(r)
	defer cancel()
	p := ui.NewRunPage{Shell: shell, Entry: entry, Estimate: estimate}
	if err := s.fillNewRun(r.Context(), &p); err != nil {
		s.Log.WarnContext(r.Context(), "The form for a run is shown without suggestions", "error", err)
	}
	s.Page(w, r, status, ui.NewRun(p))
	return nil
}

// leadTo leads to the page of a new run, with the notes about its creation.
func (s *Server) leadTo(w http.ResponseWriter, r *http.Request, made control.Created) error {
	page, notes := ui.RunHref(made.Run.ID, ""), made.Notes
	if made.Waiting != "" {
		notes = append(notes, "the run has not started yet; a worker will start it")
	}
	if err := keepNotes(w, page, notes); err != nil {
		return err
	}
	http.Redirect(w, r, page, http.StatusSeeOther)
	return nil
}

// creationOf returns the run that a form describes.
func creationOf(e ui.Entry) (control.Creation, error) {
	value := func(name string) string { return strings.TrimSpace(e.Values.Get(name)) }
	on := func(name string) bool { return e.Values.Get(name) != "" }
	c := control.Creation{
		Repo: value(control.FieldRepo), Base: value(control.FieldBase), Issue: value(control.FieldIssue), Goal: value(control.FieldGoal), Description: value(ui.NewRunDescription),
		Model: value(control.FieldModel), Effort: contract.Effort(value(control.FieldEffort)), PlanOnly: on(control.FieldPlanOnly),
		ApprovePlan: on(ui.NewRunApprovePlan), ApproveRelease: on(ui.NewRunApproveRelease), Key: e.Key,
	}
	var err error
	if c.By, err = senderOf(e.Values.Get(control.FieldBy)); err != nil {
		return c, err
	}
	for label := range strings.SplitSeq(value(control.FieldLabels), ",") {
		if label = strings.TrimSpace(label); label != "" {
			c.Labels = append(c.Labels, label)
		}
	}
	switch release := value(ui.NewRunRelease); release {
	case "":
	case config.ReleasePush:
		c.Push = true
	case config.ReleasePullRequest:
		c.PullRequest = true
	default:
		return c, control.WrongInput(ui.NewRunRelease, "the release %.100q is not one of the choices", release)
	}
	if cost := value(ui.NewRunCost); cost != "" {
		c.Settings = map[string]string{ui.NewRunCost: cost}
	}
	if count := value(control.FieldAttempts); count != "" {
		if c.Attempts, err = strconv.Atoi(count); err != nil || c.Attempts < 1 {
			return c, control.WrongInput(control.FieldAttempts, "%.100q is not a number of attempts; specify 1 or more", count)
		}
	}
	return c, nil
}
