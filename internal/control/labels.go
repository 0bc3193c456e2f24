package control

import (
	"context"
	"fmt"
	"slices"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store"
)

// Labelled is the result of a change of labels.
type Labelled struct {
	Labels  []string `json:"labels" doc:"labels of the run now, sorted"`
	Changed int      `json:"changed" doc:"number of labels that were added or removed"`
	Note    string   `json:"note,omitempty"`
}

// Label changes the labels of a run. The policy gate judges the release of a run that has not ended
// with its new labels.
func (r *Runs) Label(ctx context.Context, id int64, c store.LabelChange) (Labelled, error) {
	if err := checkLabels(c.Add, c.Remove); err != nil {
		return Labelled{}, err
	}
	run, err := r.Store.Run(ctx, id)
	if err != nil {
		return Labelled{}, err
	}
	if err := allowedLabels(run.Settings.Gate, c.Add); err != nil {
		return Labelled{}, err
	}
	out := Labelled{}
	if out.Changed, err = r.Store.ChangeLabels(ctx, id, c); err != nil {
		return out, err
	}
	if run, err = r.Store.Run(ctx, id); err != nil {
		return out, err
	}
	out.Labels = run.Labels
	switch {
	case isOver(run):
		out.Note = endedNote
	case run.Settings.Gate != nil && run.WorkflowID != "":
		out.Note, err = r.notifyOfLabels(ctx, id)
	}
	return out, err
}

// endedNote says that labels come too late.
const endedNote = "the run has ended, so its labels change nothing about its release"

// isOver reports whether a run will release nothing any more. One that watches its branch may.
func isOver(run store.Run) bool { return run.Status.Terminal() && run.StayingUntil == nil }

// notifyOfLabels notifies the workflow of a run that its labels were changed, also without a change: an
// earlier request may have failed here. Without the notification, the releaser refuses what was judged
// with other labels, and the run has it judged then. The note is for the sender.
func (r *Runs) notifyOfLabels(ctx context.Context, id int64) (note string, err error) {
	signal := r.Temporal.SignalWorkflow(ctx, contract.RunWorkflowID(id), "", contract.SignalLabels, nil)
	run, err := r.Store.Run(ctx, id)
	switch {
	case err != nil:
		return "", err
	case isOver(run): // meanwhile
		return endedNote, nil
	case signal != nil:
		return fmt.Sprintf("the labels are stored, but the run could not be notified (%v); repeat the command", signal), nil
	case run.StayingUntil != nil:
		return "the run is watching its branch: its labels are judged before its next push", nil
	}
	return "", nil
}

// checkLabels returns an error for labels that are not valid.
func checkLabels(lists ...[]string) error {
	all := slices.Concat(lists...)
	for _, label := range all {
		if bad := contract.LabelProblem(label); bad != "" {
			return wrong("the label %.110q %s", label, bad)
		}
	}
	if len(all) > contract.MaxLabels {
		return wrong("%d labels are more than the %d that a run can have", len(all), contract.MaxLabels)
	}
	return nil
}

// allowedLabels returns an error for labels that a run must not have by gate.labels.allowed. Those that
// the gate itself knows are always allowed.
func allowedLabels(s *contract.GateSettings, labels []string) error {
	if s == nil || len(s.LabelRules.Allowed) == 0 {
		return nil
	}
	l := s.LabelRules
	known := slices.Concat(l.Allowed, l.Automerge, l.Blocked, l.Review, []string{"rgpt:automerge", "rgpt:needs-approval", "rgpt:blocked"})
	for _, label := range labels {
		if !slices.Contains(known, label) {
			return fault.New(contract.ClassHuman, contract.CodeRejected, "the label %q is not allowed; gate.labels.allowed lists the labels that runs can have", label)
		}
	}
	return nil
}
