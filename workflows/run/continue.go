package run

import (
	"cmp"
	"encoding/json"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/workflows/internal/commands"
	"github.com/rocketgpt/orchestrator/workflows/run/state"
)

// snapshot is the state that a run keeps when its workflow continues as new: between two phases, or
// while it watches its branch. Nothing is in progress at that time.
type snapshot struct {
	State    state.State       `json:"state"`
	Next     contract.Phase    `json:"next,omitempty"` // the next phase; empty: the run watches its branch
	Records  int64             `json:"records"`        // number of the last one
	Deadline time.Time         `json:"deadline,omitzero"`
	Paused   bool              `json:"paused,omitempty"`
	OneStep  bool              `json:"one_step,omitempty"`
	Changed  bool              `json:"changed,omitempty"`
	Failed   bool              `json:"error_type_shown,omitempty"` // Temporal shows the class of a failure
	Shown    shown             `json:"shown"`
	Workers  map[string]string `json:"workers,omitempty"` // chosen for a phase or step
	Commands []string          `json:"commands,omitempty"`
	Checks   []string          `json:"checks,omitempty"`
}

// inputReserve is the room in a continued run's input for other data that Temporal counts.
const inputReserve = 1 << 10

// restore restores the state of a run whose workflow continued as new. It returns nil if the run is
// just beginning.
func (r *run) restore(raw json.RawMessage) (*snapshot, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	s := snapshot{State: r.State} // whose maps are made
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, err
	}
	r.State, r.runDeadline, r.rows.Seq = s.State, s.Deadline, s.Records
	r.controls.paused, r.controls.oneStep, r.controls.changed, r.shown = s.Paused, s.OneStep, s.Changed, s.Shown
	if s.Failed {
		r.shown.ErrorType = cmp.Or(r.shown.ErrorType, contract.ClassRuntime) // earlier code did not note which
	}
	for _, key := range workflow.DeterministicKeys(s.Workers) {
		r.affinities[key] = r.newAffinity(key, s.Workers[key])
	}
	return &s, nil
}

// mustContinue reports whether the workflow should continue as new: Temporal suggests
// it, or has accepted nearly as many updates as it allows.
func (r *run) mustContinue(ctx workflow.Context) bool {
	return !r.tooLarge && (workflow.GetInfo(ctx).GetContinueAsNewSuggested() || r.commands.Handled()+r.checks.Handled() >= contract.MaxUpdates)
}

// continueAsNew ends this history, unless something must be handled first: it sets r.continued,
// which the workflow returns. If the state is too large, the run stays in its current history.
func (r *run) continueAsNew(ctx workflow.Context, next contract.Phase) error {
	if err := r.flush(ctx); err != nil {
		return err
	}
	commands.RunSignalHandlers(ctx)
	if err := workflow.Await(ctx, func() bool {
		return workflow.AllHandlersFinished(ctx) && r.commands.Idle() && r.checks.Idle()
	}); err != nil {
		return err
	}
	if r.controls.stopping() || next == "" && r.firstPending(ctx) >= 0 {
		return nil
	}
	s := snapshot{
		State: r.State, Next: next, Records: r.rows.Seq, Deadline: r.runDeadline,
		Paused: r.controls.paused, OneStep: r.controls.oneStep, Changed: r.controls.changed, Failed: r.shown.ErrorType != "", Shown: r.shown,
		Workers: map[string]string{}, Commands: r.commands.Applied(), Checks: r.checks.Applied(),
	}
	for _, key := range workflow.DeterministicKeys(r.affinities) {
		if w := r.affinities[key].Worker; w != "" {
			s.Workers[key] = w
		}
	}
	in, size, err := r.inputWith(s)
	switch {
	case err != nil:
		return err
	case size > contract.PayloadLimit-inputReserve:
		r.tooLarge = true
		r.log.Warn("The run's state is too large for continue-as-new; its history keeps growing", "bytes", size)
	default:
		r.continued = workflow.NewContinueAsNewError(ctx, contract.WorkflowRun, in)
	}
	return nil
}

// inputWith returns the input of the run with a snapshot, and its size in bytes.
func (r *run) inputWith(s snapshot) (in contract.RunInput, size int, err error) {
	in = r.in
	if in.Continued, err = json.Marshal(s); err != nil {
		return in, 0, err
	}
	whole, err := json.Marshal(in)
	return in, len(whole), err
}
