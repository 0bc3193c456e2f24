package workflows

import (
	"fmt"
	"slices"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
)

// runState is what a run knows about itself. It changes through its methods
// only, which check each transition against the lifecycle.
type runState struct {
	phase          contract.Phase
	status         contract.Status
	pausedFrom     contract.Status // the status that a pause or an approval interrupted
	waitingFor     string
	retryCount     int
	lastHealAction string
	maxRetries     int
	models         map[contract.Agent]contract.ModelChoice
	failure        *contract.Failure
	plan           contract.Plan
	planID         int64 // of the plan's row; plans are never overwritten
	steps          []contract.StepView
	usage          contract.Usage
	branch         string
	commit         string
	stay           stay
}

func newRunState(in contract.RunInput) runState {
	return runState{
		phase:      contract.PhasePlanner,
		status:     contract.StatusPending,
		maxRetries: in.Settings.MaxRetries,
		models:     in.Settings.Models,
	}
}

// follows is the lifecycle of a run: which statuses may come after which.
// Failed, cancelled, paused and waiting_for_approval may come after any that is
// not terminal and stand in to.
var follows = lifecycle()

func lifecycle() map[contract.Status][]contract.Status {
	next := map[contract.Status][]contract.Status{
		// a run that only prepares ends before its first phase
		contract.StatusPending: {contract.PhasePlanner.Running(), contract.StatusDone},
	}
	phases := contract.Phases()
	for i, p := range phases {
		next[p.Running()] = []contract.Status{p.Completed(), p.Error()}
		next[p.Error()] = []contract.Status{contract.StatusSelfHeal}
		if i+1 < len(phases) {
			next[p.Completed()] = []contract.Status{phases[i+1].Running()}
		}
		// self-heal goes back to the phase that failed, or to an earlier one
		next[contract.StatusSelfHeal] = append(next[contract.StatusSelfHeal], p.Running())
	}
	// a run that only plans ends with its plan
	next[contract.PhasePlanner.Completed()] = append(next[contract.PhasePlanner.Completed()], contract.StatusDone)
	return next
}

// canBecome reports whether the lifecycle lets one status follow another.
func canBecome(from, to contract.Status) bool {
	if from.Terminal() {
		return false
	}
	switch to {
	case contract.StatusFailed, contract.StatusCancelled, contract.StatusPaused, contract.StatusWaitingForApproval:
		return from != to
	default:
		return slices.Contains(follows[from], to)
	}
}

// become moves to the next status of the lifecycle.
func (s *runState) become(to contract.Status) error {
	from := s.status
	if from == contract.StatusPaused || from == contract.StatusWaitingForApproval {
		from = s.pausedFrom
	}
	if !canBecome(from, to) {
		return fmt.Errorf("a run that is %s cannot become %s", s.status, to)
	}
	s.status, s.pausedFrom, s.waitingFor = to, "", ""
	return nil
}

// hold interrupts the run: paused by a person, or waiting for an approval.
func (s *runState) hold(status contract.Status, why string) error {
	if !canBecome(s.status, status) {
		return fmt.Errorf("a run that is %s cannot become %s", s.status, status)
	}
	if s.pausedFrom == "" {
		s.pausedFrom = s.status
	}
	s.status, s.waitingFor = status, why
	return nil
}

// release ends an interruption: the run is again what it was before.
func (s *runState) release() {
	if s.pausedFrom != "" {
		s.status, s.pausedFrom, s.waitingFor = s.pausedFrom, "", ""
	}
}

// change returns what the run's row must show now.
func (s *runState) change() *contract.RunChange {
	return &contract.RunChange{
		Phase: s.phase, Status: s.status, RetryCount: s.retryCount, LastHealAction: s.lastHealAction, WaitingFor: s.waitingFor,
		Failure: s.failure, Branch: s.branch, Commit: s.commit, PlanID: s.planID, Finished: s.status.Terminal(),
		Staying: s.stay.on || s.stay.until != nil, StayingUntil: s.stay.until,
	}
}

// view returns what the state query answers.
func (s *runState) view(runID int64, approval string) contract.RunView {
	return contract.RunView{
		RunID: runID, Phase: s.phase, Status: s.status, PausedFrom: s.pausedFrom,
		WaitingFor: s.waitingFor, ApprovalID: approval, PlanID: s.planID, RetryCount: s.retryCount, MaxRetries: s.maxRetries, LastHealAction: s.lastHealAction,
		Models: s.models, Steps: s.steps, Failure: s.failure, Branch: s.branch, Commit: s.commit, Usage: s.usage,
		Staying: s.stay.view(),
	}
}

// setPlan takes over a plan; its steps start anew.
func (s *runState) setPlan(id int64, p contract.Plan) {
	s.planID, s.plan = id, p
	s.steps = nil
	for _, st := range p.Steps {
		s.steps = append(s.steps, contract.StepView{
			ID: st.ID, Name: st.Name, Dependencies: st.Dependencies, Status: contract.StepPending,
		})
	}
}

// step returns the view of a step, to be changed in place.
func (s *runState) step(id string) *contract.StepView {
	i := slices.IndexFunc(s.steps, func(v contract.StepView) bool { return v.ID == id })
	return &s.steps[i]
}

// stay is what a run knows of its time with its branch after the release.
type stay struct {
	on      bool
	until   *time.Time
	most    int // repairs of the branch, across runs
	repairs int // of this run
	pending []contract.CheckMessage
	seen    map[string]struct{} // ids of messages that came
	ours    []string            // commits that this run released
	check   int64               // row of the message whose failure is being healed, 0: none
	name    string              // of the message that is being mended
	told    int                 // events about messages that changed nothing
	ignored int                 // messages that changed nothing
	untold  int                 // of them, since the last event with their number
}

// view is what the state query shows, nil for a run that does not stay.
func (s *stay) view() *contract.Staying {
	if s.until == nil {
		return nil
	}
	return &contract.Staying{Until: *s.until, Repairs: s.repairs, Most: s.most, Waiting: len(s.pending), Ignored: s.ignored, Check: s.name}
}
