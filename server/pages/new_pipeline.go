package pages

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/a-h/templ"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/server/ui"
)

// pipelineFields returns the fields of the form for a pipeline.
func pipelineFields() []string {
	names := []string{
		control.FieldObjective, ui.NewPipelineConstraints, ui.NewPipelineSuccess, ui.NewPipelineComplexity, control.FieldMode, control.FieldModel, control.FieldEffort,
		control.FieldTimeout, ui.NewPipelineContinue, ui.NewPipelineGamma, control.FieldBy,
	}
	for _, m := range contract.Members() {
		names = append(names, control.FieldOfMember(m.Agent()))
	}
	return names
}

// newPipelinePage is the empty form for a pipeline.
func (s *Server) newPipelinePage(r *http.Request, shell ui.Shell) (templ.Component, error) {
	p := ui.NewPipelinePage{Shell: shell, Entry: newEntry()}
	err := s.fillNewPipeline(r.Context(), &p)
	return ui.NewPipeline(p), err
}

// fillNewPipeline adds to the form for a pipeline what it suggests.
func (s *Server) fillNewPipeline(ctx context.Context, p *ui.NewPipelinePage) (err error) {
	p.Section, p.Shell.Title, p.Defaults = "pipelines", "New deliberation", s.Runs.Config.Deliberation
	p.Offered, err = s.offeredTo(ctx, nil, nil)
	return err
}

// spawnPipeline creates the pipeline that a form describes, and leads to its page. If it cannot, it
// shows the form again with everything that was entered.
func (s *Server) spawnPipeline(w http.ResponseWriter, r *http.Request) error {
	entry, err := entryOf(r, pipelineFields())
	if entry.Values == nil {
		return err
	}
	var order control.Spawning
	if err == nil {
		order, err = spawningOf(entry)
	}
	if err == nil {
		var made control.Spawned
		if made, err = s.Runs.Pipelines().Spawn(r.Context(), order); err == nil {
			http.Redirect(w, r, ui.PipelineHref(made.Pipeline.ID), http.StatusSeeOther)
			return nil
		}
	}
	status := s.rejected(r.Context(), &entry, err)
	r, shell, cancel := s.again(r)
	defer cancel()
	p := ui.NewPipelinePage{Shell: shell, Entry: entry}
	if err := s.fillNewPipeline(r.Context(), &p); err != nil {
		s.Log.WarnContext(r.Context(), "The form for a pipeline is shown without suggestions", "error", err)
	}
	s.Page(w, r, status, ui.NewPipeline(p))
	return nil
}

// spawningOf returns the pipeline that a form describes.
func spawningOf(e ui.Entry) (control.Spawning, error) {
	value := func(name string) string { return strings.TrimSpace(e.Values.Get(name)) }
	out := control.Spawning{
		Objective: value(control.FieldObjective), Mode: contract.PipelineMode(value(control.FieldMode)), Model: value(control.FieldModel),
		Effort: contract.Effort(value(control.FieldEffort)), ForceGamma: e.Values.Get(ui.NewPipelineGamma) != "", Key: e.Key,
	}
	var err error
	if out.By, err = senderOf(e.Values.Get(control.FieldBy)); err != nil {
		return out, err
	}
	task := control.Task{Constraints: linesOf(value(ui.NewPipelineConstraints)), SuccessCriteria: linesOf(value(ui.NewPipelineSuccess))}
	if word := value(ui.NewPipelineComplexity); word != "" {
		if err := task.Complexity.UnmarshalJSON(fmt.Appendf(nil, "%q", word)); err != nil {
			return out, control.WrongInput(ui.NewPipelineComplexity, "the complexity %.100q is not one of the choices", word)
		}
	}
	out.Task = &task
	for _, m := range contract.Members() {
		if name := value(control.FieldOfMember(m.Agent())); name != "" {
			if out.Models == nil {
				out.Models = map[contract.Agent]string{}
			}
			out.Models[m.Agent()] = name
		}
	}
	switch after := value(ui.NewPipelineContinue); after {
	case "":
	case ui.ContinueYes, ui.ContinueNo:
		yes := after == ui.ContinueYes
		out.AutoContinue = &yes
	default:
		return out, control.WrongInput(ui.NewPipelineContinue, "%.100q is not one of the choices", after)
	}
	if seconds := value(control.FieldTimeout); seconds != "" {
		if out.Timeout, err = strconv.Atoi(seconds); err != nil || out.Timeout < 1 {
			return out, control.WrongInput(control.FieldTimeout, "%.100q is not a number of seconds; specify 1 or more, or nothing", seconds)
		}
	}
	return out, nil
}

// linesOf returns the lines of a text that are not empty.
func linesOf(text string) (lines []string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}
