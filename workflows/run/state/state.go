// Package state is the state of a run: its place in the lifecycle, its plan, and the watch of its
// branch. It does not depend on Temporal.
package state

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
)

// State is the state of a run. It changes only through its methods, which check each transition
// against the lifecycle.
type State struct {
	Phase          contract.Phase
	Status         contract.Status
	PausedFrom     contract.Status // the status that a pause or an approval interrupted
	WaitingFor     string
	RetryCount     int
	LastHealAction string
	MaxRetries     int
	Models         map[contract.Agent]contract.ModelChoice
	Failure        *contract.Failure
	Planning       contract.PlanState     // of the planner's current execution
	Input          *contract.PlannerInput // the planner's question that was answered; nil: none
	Plan           contract.Plan
	PlanID         int64 // of the plan's row; plans are never overwritten
	Steps          []contract.StepView
	Usage          contract.Usage
	Branch         string
	Commit         string
	Watch          Watch
	// Onto is the commit from which the run continues its branch: its changes and stages begin there. Nil:
	// they begin at the base commit, because people pushed nothing, and the base was not brought in.
	Onto *contract.BranchPoint `json:",omitempty"`
	// Merged is the content of the base that was brought into the branch last, slim; empty: the base commit.
	Merged contract.Workspace `json:",omitzero"`
	Heals  Heals
	Failed FailedWork // what the phase failed in

	Executions map[string]contract.ExecutionRef // the latest of each phase and step, by name
	Credits    map[string]contract.Credit       // by step
	Done       map[string]contract.Change       // by step
	Apart      map[string]bool                  `json:",omitempty"` // steps whose last attempt had a workflow of its own
	Changes    []contract.Change                // the changes of the steps, in plan order
	Stages     []contract.Workspace             // after each change
	Workspace  contract.Workspace               // all changes together
	Protected  contract.ProtectedFiles          // changed files that need an approval before they are pushed
	Gate       contract.GateVerdict             // the policy gate's verdict about Workspace
	Review     Review

	Consensus      *contract.DeliberationResult            // from which the plan is made; nil: no deliberation reached one
	Transcript     *contract.SaveTranscriptResult          // of that deliberation; nil: not kept yet
	SwitchedModels map[contract.Agent]contract.ModelChoice // models that people chose for the deliberation's members

	Relabelled bool // the run's labels were changed since the gate judged its release

	Authors []string // the people who created the run, or steered or edited its change

	Chosen   bool   // this attempt may be released, if it is one of several
	Together bool   // the run may be released, if it belongs to a change set
	Waits    []Wait // for the other runs of its change set

	Approved            map[string]Consent // approvals by kind
	FailingBaseAccepted bool               // a person accepted a base commit that fails its checks
	Revision            int64              // of the directives that agents were last sent
}

// Review is how far the review of the run's change is.
type Review struct {
	Made     int      // reviews
	Returned int      // how often major findings went back to an agent
	Open     []string // ids of the findings that went back last
}

// Wait is a time that does not count for the run's limit.
type Wait struct {
	From, Until time.Time
}

// Waited returns how long all of them were since a time.
func Waited(all []Wait, since time.Time) (sum time.Duration) {
	for _, w := range all {
		if w.From.Before(since) { // what was before does not count: the time starts again with a replay
			w.From = since
		}
		sum += max(0, w.Until.Sub(w.From))
	}
	return sum
}

// Consent is an approval, with its subject and the person who gave it.
type Consent struct {
	Subject, By string
	Verdict     int64 // of the gate that the person saw; 0: none, or given before it was noted
}

// AddAuthor notes that a person created the run, or steered or edited its change. The unnamed are not
// noted.
func (s *State) AddAuthor(by string) {
	if !contract.Nameless(by) && !s.Authored(by) {
		s.Authors = append(s.Authors, strings.TrimSpace(by))
	}
}

// Authored reports whether a person created the run, or steered or edited its change.
func (s *State) Authored(by string) bool {
	return slices.ContainsFunc(s.Authors, func(author string) bool { return contract.SamePerson(author, by) })
}

// New returns the state of a run that has not begun.
func New(in contract.RunInput) State {
	s := State{
		Phase:      contract.PhasePlanner,
		Status:     contract.StatusPending,
		MaxRetries: in.Settings.MaxRetries,
		Models:     in.Settings.Models,
		Heals:      newHeals(),
		Workspace:  in.Settings.Repo.Workspace(),

		Executions:     map[string]contract.ExecutionRef{},
		Credits:        map[string]contract.Credit{},
		Done:           map[string]contract.Change{},
		SwitchedModels: map[contract.Agent]contract.ModelChoice{},
		Approved:       map[string]Consent{},
	}
	for _, by := range in.Settings.AuthorsBefore() {
		s.AddAuthor(by)
	}
	return s
}

// follows is the lifecycle of a run: the statuses that may follow each status. Failed, cancelled,
// paused, waiting_for_approval and waiting_for_input may come after any status that is not terminal,
// and are added by canBecome.
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
		// self-heal returns to the phase that failed, or to an earlier one
		next[contract.StatusSelfHeal] = append(next[contract.StatusSelfHeal], p.Running())
	}
	// a run that only plans ends with its plan
	next[contract.PhasePlanner.Completed()] = append(next[contract.PhasePlanner.Completed()], contract.StatusDone)
	return next
}

// canBecome reports whether the lifecycle allows one status to follow another.
func canBecome(from, to contract.Status) bool {
	if from.Terminal() {
		return false
	}
	switch to {
	case contract.StatusFailed, contract.StatusCancelled, contract.StatusPaused, contract.StatusWaitingForApproval, contract.StatusWaitingForInput:
		return from != to
	default:
		return slices.Contains(follows[from], to)
	}
}

// SetStatus moves to the next status of the lifecycle.
func (s *State) SetStatus(to contract.Status) error {
	from := s.Status
	if from == contract.StatusPaused || from.WaitsForPerson() {
		from = s.PausedFrom
	}
	if !canBecome(from, to) {
		return fmt.Errorf("a run with the status %s cannot change to %s", s.Status, to)
	}
	s.Status, s.PausedFrom, s.WaitingFor = to, "", ""
	return nil
}

// Interrupt interrupts the run: paused by a person, or waiting for an answer.
func (s *State) Interrupt(status contract.Status, why string) error {
	if !canBecome(s.Status, status) {
		return fmt.Errorf("a run with the status %s cannot change to %s", s.Status, status)
	}
	s.PausedFrom = cmp.Or(s.PausedFrom, s.Status)
	s.Status, s.WaitingFor = status, why
	return nil
}

// EndInterruption ends an interruption: the run returns to its previous status.
func (s *State) EndInterruption() {
	if s.PausedFrom != "" {
		s.Status, s.PausedFrom, s.WaitingFor = s.PausedFrom, "", ""
	}
}

// From returns where the run's own changes begin: at what people pushed to its branch last, or at the
// given base.
func (s *State) From(base contract.Workspace) contract.Workspace {
	if s.Onto == nil {
		return base
	}
	return s.Onto.Workspace.Of(base)
}

// Head returns the commit at which the run knows its branch.
func (s *State) Head() string { return cmp.Or(s.Watch.Head, s.Commit) }

// Continue makes the run continue from a commit of people, on which its changes that are not on the
// branch yet become the given stages. Without a stage for each, they are discarded.
func (s *State) Continue(from contract.BranchPoint, stages []contract.Workspace) {
	unreleased := s.Unreleased()
	s.Workspace = from.Workspace.Of(s.Workspace)
	s.Onto, s.Changes, s.Stages = &from, nil, nil
	s.Watch.Head, s.Watch.Published, s.Watch.Pushed = from.Commit, 0, true
	s.Watch.Moves++
	if !slices.Contains(s.Watch.Released, from.Commit) {
		s.Watch.Released = append(s.Watch.Released, from.Commit)
	}
	if len(stages) != len(unreleased) {
		return
	}
	for i, c := range unreleased {
		c.From, c.To = s.Workspace.Slim(), stages[i].Slim()
		s.Workspace = stages[i].Of(s.Workspace)
		s.Changes, s.Stages = append(s.Changes, c), append(s.Stages, c.To)
	}
}

// Update makes the run continue from its branch with the base brought in, which is not on the branch yet.
func (s *State) Update(point contract.BranchPoint) {
	s.Workspace = point.Workspace.Of(s.Workspace)
	s.Onto, s.Changes, s.Stages = &point, nil, nil
	s.Watch.Published = 0
}

// Updating reports whether the run brings the base into its branch.
func (s *State) Updating() bool { return s.Onto != nil && s.Onto.Update != nil }

// MergedBase returns the content of the base that the run's workspace has, slim; empty: the base commit.
func (s *State) MergedBase() contract.Workspace {
	if s.Updating() {
		return s.Onto.Update.Content
	}
	return s.Merged
}

// Updated makes the run continue from what it released: the base is part of the branch now.
func (s *State) Updated() {
	s.Merged = s.Onto.Update.Content
	s.Onto = &contract.BranchPoint{Commit: s.Commit, Workspace: s.Workspace.Slim()}
	s.Changes, s.Stages = nil, nil
	s.Watch.Published = 0
}

// Unreleased returns the run's changes that are not on the branch yet.
func (s *State) Unreleased() []contract.Change {
	return s.Changes[min(s.Watch.Published, len(s.Changes)):]
}

// RowChange returns the current values of the run's row.
func (s *State) RowChange() *contract.RunChange {
	return &contract.RunChange{
		Phase: s.Phase, Status: s.Status, RetryCount: s.RetryCount, LastHealAction: s.LastHealAction, WaitingFor: s.WaitingFor,
		Failure: s.Failure, Branch: s.Branch, Commit: s.Commit, PlanID: s.PlanID, Finished: s.Status.Terminal(),
		Staying: s.Watch.On || s.Watch.Until != nil, StayingUntil: s.Watch.Until,
	}
}

// View returns the result of the state query.
func (s *State) View(runID int64, approval string) contract.RunView {
	return contract.RunView{
		RunID: runID, Phase: s.Phase, Status: s.Status, PausedFrom: s.PausedFrom,
		WaitingFor: s.WaitingFor, ApprovalID: approval, PlanID: s.PlanID, RetryCount: s.RetryCount, MaxRetries: s.MaxRetries, LastHealAction: s.LastHealAction,
		Models: s.Models, Steps: s.Steps, Failure: s.Failure, Branch: s.Branch, Commit: s.Commit, Usage: s.Usage,
		Staying: s.Watch.view(),
	}
}

// SetPlan adopts a plan; its steps start from scratch.
func (s *State) SetPlan(id int64, p contract.Plan) {
	s.PlanID, s.Plan = id, p
	s.Steps = nil
	for _, st := range p.Steps {
		s.Steps = append(s.Steps, contract.StepView{
			ID: st.ID, Name: st.Name, Dependencies: st.Dependencies, Status: contract.StepPending,
		})
	}
}

// Step returns the view of a step, for changes in place.
func (s *State) Step(id string) *contract.StepView {
	i := slices.IndexFunc(s.Steps, func(v contract.StepView) bool { return v.ID == id })
	return &s.Steps[i]
}

// Watch is the state of a run that watches its branch after the release.
type Watch struct {
	On            bool
	Until         *time.Time
	MaxRepairs    int // limit on repairs of the branch, across runs
	Repairs       int // of this run
	Pending       []contract.CheckMessage
	Released      []string   // commits that this run released, and those of people from which it continued
	Check         int64      // row of the message whose failure is being healed, 0: none
	CheckName     string     // of the message that is being fixed
	Fixing        *Fixing    `json:",omitempty"` // the message that is being fixed; nil: none
	Head          string     `json:",omitempty"` // commit at which the run knows its branch
	Published     int        `json:",omitempty"` // number of changes that are on the branch
	Moves         int        `json:",omitempty"` // how often people moved the branch during the current fix
	Pushed        bool       `json:",omitempty"` // people have pushed to the branch
	Updates       int        `json:",omitempty"` // how often the base was brought in
	UpdatedAt     time.Time  `json:",omitzero"`  // when that began last
	Answering     *Answering `json:",omitempty"` // the comment that is being fixed; nil: none that is answered
	Looks         int        `json:",omitempty"` // failed looks at the branch in a row, because of a message about an unknown commit
	LookAt        *time.Time `json:",omitempty"` // of the next one; nil: at once
	EventsWritten int        // events about messages without effect
	Ignored       int        // messages without effect
	Unreported    int        // ignored messages since the last event with their number
	// Closed says that the pull request is merged or closed, so that no watch is needed; empty: it is
	// open, or there is none.
	Closed string `json:",omitempty"`
}

// Fixing is a message with the failure that is being fixed.
type Fixing struct {
	Check   int64 // row of the message
	Comment bool  // of a person
	Failure contract.Failure
}

// Answering is a comment that the run answers when it was carried out, or was not.
type Answering struct {
	Message string // id of its message
	To      contract.CommentRef
	Before  string // commit that was released when the work began
	Done    bool   // it was carried out
	NotDone string `json:",omitempty"` // why it has no effect, if that is known before the run ends
}

// view returns the watch for the state query, nil for a run that does not watch its branch.
func (s *Watch) view() *contract.BranchWatch {
	if s.Until == nil {
		return nil
	}
	return &contract.BranchWatch{Until: *s.Until, Repairs: s.Repairs, MaxRepairs: s.MaxRepairs, Waiting: len(s.Pending), Ignored: s.Ignored, Check: s.CheckName}
}
