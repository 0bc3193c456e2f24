package diff

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/views"
)

// MaxPatchRead is the maximum size in bytes of a side's patch. A larger change is compared only by
// its tree, and the result notes this.
const MaxPatchRead = 32 << 20

// Blobs reads stored patches by their digest.
type Blobs interface {
	// Reader returns the content of a digest as a stream.
	Reader(ctx context.Context, digest string) (io.ReadCloser, error)
}

// Load reads a side. A run or attempt that does not exist is store.ErrNotFound. Unreadable code is
// not an error: the side records why it is missing.
func Load(ctx context.Context, s *store.Store, v *views.Views, blobs Blobs, ref Ref) (Side, error) {
	details, err := v.RecentDetails(ctx, ref.Run, 1)
	if err != nil {
		return Side{}, err
	}
	part, err := cut(details.Executions, ref)
	if err != nil {
		return Side{}, err
	}
	side := Side{
		Ref: ref, Goal: details.GoalTitle, Status: string(details.Status), Failure: details.Failure, Base: details.BaseCommit, Repo: details.Repo,
		Heals: part.heals(details.SelfHealEvents), Models: details.ModelUsage, Usage: details.Usage,
	}
	if e := part.end; e != nil {
		side.Status, side.Failure = string(e.Status), e.Failure
	}
	for _, e := range part.own {
		if e.Step == "" {
			side.Phases = append(side.Phases, e)
		}
	}
	if err := side.loadTests(ctx, s, part, details.Findings); err != nil {
		return Side{}, err
	}
	if err := side.loadUsage(ctx, s, part); err != nil {
		return Side{}, err
	}
	if err := side.loadPlan(ctx, s, part); err != nil {
		return Side{}, err
	}
	return side, side.loadCode(ctx, s, blobs, details.Settings.Repo, part)
}

// extent contains the executions that belong to a side, in the order in which they started.
type extent struct {
	all   []store.Execution // up to the side's end
	own   []store.Execution // executions since the previous attempt
	end   *store.Execution  // the attempt; nil: the run as it is now
	since time.Time         // start of own
	until *time.Time        // start of the next execution; nil: there is none
}

// cut finds the executions of a side. Steps belong to the preceding phase.
func cut(executions []store.Execution, ref Ref) (extent, error) {
	if ref.Attempt == 0 {
		return extent{all: executions, own: executions}, nil
	}
	phase := cmp.Or(ref.Phase, contract.PhaseTester)
	is := func(e store.Execution) bool { return e.Step == "" && e.Phase == phase }
	at := slices.IndexFunc(executions, func(e store.Execution) bool { return is(e) && e.Attempt == ref.Attempt })
	if at < 0 {
		there := 0
		for _, e := range executions {
			if is(e) {
				there++
			}
		}
		return extent{}, fault.Wrap(store.ErrNotFound, contract.ClassHuman, store.CodeNotFound,
			"run %d has no attempt %d of the %s (attempts recorded: %d); see rgpt run inspect %d", ref.Run, ref.Attempt, phase, there, ref.Run)
	}
	from, to := 0, nextPhase(executions, at)
	for i := range slices.Backward(executions[:at]) {
		if is(executions[i]) { // the previous attempt, with its steps
			from = nextPhase(executions, i)
			break
		}
	}
	part := extent{all: executions[:to], own: executions[from:to], end: &executions[at], since: executions[from].StartedAt}
	if to < len(executions) {
		part.until = &executions[to].StartedAt
	}
	return part, nil
}

// nextPhase returns the index of the first phase after an execution.
func nextPhase(executions []store.Execution, after int) int {
	for i := after + 1; i < len(executions); i++ {
		if executions[i].Step == "" {
			return i
		}
	}
	return len(executions)
}

func (x extent) heals(all []store.HealEvent) []store.HealEvent {
	var own []store.HealEvent
	for _, h := range all {
		if !h.CreatedAt.Before(x.since) && (x.until == nil || h.CreatedAt.Before(*x.until)) {
			own = append(own, h)
		}
	}
	return own
}

// last returns the last execution of a phase up to the side's end, nil if there is none.
func (x extent) last(p contract.Phase) *store.Execution {
	for i := range slices.Backward(x.all) {
		if e := &x.all[i]; e.Step == "" && e.Phase == p {
			return e
		}
	}
	return nil
}

// count returns the number of attempts of a phase up to the side's end.
func (x extent) count(p contract.Phase) (n int) {
	for _, e := range x.all {
		if e.Step == "" && e.Phase == p {
			n++
		}
	}
	return n
}

// loadTests reads the checks and findings of the last tester. For a run in its current state, all
// open findings count, regardless of where they were found.
func (s *Side) loadTests(ctx context.Context, db *store.Store, part extent, findings []store.Finding) error {
	s.Tester = part.last(contract.PhaseTester)
	if s.Tester == nil {
		return nil
	}
	if part.end != nil && !slices.ContainsFunc(part.own, func(e store.Execution) bool { return e.ID == s.Tester.ID }) {
		s.Tester = nil // an earlier attempt's
		return nil
	}
	for _, f := range findings {
		if part.end == nil && !f.Resolved || part.end != nil && f.ExecutionID == s.Tester.ID {
			s.Findings = append(s.Findings, f)
		}
	}
	var err error
	s.Checks, err = db.Checks(ctx, s.Tester.ID)
	s.Checks = slices.DeleteFunc(s.Checks, func(c store.Check) bool { return !c.Result.Counts() })
	return err
}

// loadUsage adds up the model calls of an attempt. The totals of a whole run are already known.
func (s *Side) loadUsage(ctx context.Context, db *store.Store, part extent) error {
	if part.end == nil {
		return nil
	}
	calls, err := db.ModelCalls(ctx, s.Ref.Run)
	if err != nil {
		return err
	}
	s.Usage, s.Models = contract.Usage{}, nil
	for _, c := range calls {
		if !slices.ContainsFunc(part.own, func(e store.Execution) bool { return e.ID == c.ExecutionID }) {
			continue
		}
		used := c.Usage
		used.Calls = 0
		if c.Status == "done" {
			used.Calls = 1
		}
		s.Usage = s.Usage.Add(used)
		same := func(m views.ModelUsage) bool {
			return m.Agent == c.Agent && m.Provider == c.Provider && m.Model == c.Model
		}
		i := slices.IndexFunc(s.Models, same)
		if i < 0 {
			i = len(s.Models)
			s.Models = append(s.Models, views.ModelUsage{Agent: c.Agent, Provider: c.Provider, Model: c.Model})
		}
		s.Models[i].Usage = s.Models[i].Add(used)
	}
	return nil
}

// loadPlan reads the plan that was used. For an attempt, this is the plan of its planner, if the
// planner's output identifies it.
func (s *Side) loadPlan(ctx context.Context, db *store.Store, part extent) error {
	var out struct {
		PlanID int64 `json:"plan_id"`
	}
	if e := part.last(contract.PhasePlanner); part.end != nil && e != nil && len(e.Output) > 0 {
		if err := json.Unmarshal(e.Output, &out); err != nil {
			return fmt.Errorf("read the planner's output for run %d: %w", s.Ref.Run, err)
		}
	}
	read := func() (contract.Plan, error) { return db.Plan(ctx, s.Ref.Run) }
	if out.PlanID != 0 {
		read = func() (contract.Plan, error) { return db.PlanByID(ctx, s.Ref.Run, out.PlanID) }
	}
	plan, err := read()
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil
	case err != nil:
		return err
	}
	s.Plan = &plan
	if planners := part.count(contract.PhasePlanner); part.end != nil && out.PlanID == 0 && planners > 1 {
		s.Notes = append(s.Notes, fmt.Sprintf("%s: the plan shown is the run's current one; this attempt's plan is not recorded", s.Ref))
	}
	return nil
}

// content identifies the code that an output describes.
type content struct {
	Tree  string `json:"tree"`
	Patch string `json:"patch"`
}

// loadCode finds the final code of the side: the code recorded by the last phase or accepted
// repair, otherwise the result of a builder's last tool call.
func (s *Side) loadCode(ctx context.Context, db *store.Store, blobs Blobs, repo contract.Repo, part extent) error {
	heals, err := db.Heals(ctx, s.Ref.Run)
	if err != nil {
		return err
	}
	for _, e := range slices.Backward(part.all) {
		if part.end != nil && e.Step == contract.StepRepair && e.ID > part.end.ID {
			continue // the repair came after the attempt, which used the code before it
		}
		c := contentOf(e, heals)
		if c.Tree == "" {
			continue
		}
		s.Code = readCode(ctx, blobs, c, repo)
		s.noteLater(part, e)
		return nil
	}
	return s.loadPartial(ctx, db, blobs, repo, part)
}

// contentOf returns the code that resulted from a phase or its accepted repair. For other
// executions it is empty, without a tree.
func contentOf(e store.Execution, heals []store.HealEvent) (c content) {
	switch {
	case len(e.Output) == 0:
	case e.Step == "":
		if json.Unmarshal(e.Output, &c) != nil {
			return content{} // outputs of other phases have a different format
		}
	case e.Step == contract.StepRepair && e.Phase != contract.PhaseBuilder: // a builder's repair replaces only one step's work
		var out contract.StepOutput
		if json.Unmarshal(e.Output, &out) != nil || out.To.Tree == "" {
			return content{}
		}
		for _, h := range heals {
			if h.Status != contract.HealFailed && h.Output().After["tree"] == out.To.Tree {
				return content{Tree: out.To.Tree, Patch: out.To.Patch}
			}
		}
	}
	return c
}

// noteLater adds a note if code and tests are from different attempts.
func (s *Side) noteLater(part extent, from store.Execution) {
	if b := part.last(contract.PhaseBuilder); b != nil && b.Phase == from.Phase && b.ID != from.ID {
		s.Notes = append(s.Notes, fmt.Sprintf("%s: the code is from attempt %d of the %s; attempt %d did not finish", s.Ref, from.Attempt, from.Phase, b.Attempt))
	}
	if s.Tester != nil && s.Tester.StartedAt.Before(from.StartedAt) && from.Step == contract.StepRepair {
		s.Notes = append(s.Notes, fmt.Sprintf("%s: the tests are from attempt %d of the tester, which ran before a repair changed the code", s.Ref, s.Tester.Attempt))
		return
	}
	if s.Tester != nil && s.Tester.StartedAt.Before(from.StartedAt) {
		s.Notes = append(s.Notes, fmt.Sprintf("%s: the tests are from attempt %d of the tester, which ran before attempt %d of the %s changed the code", s.Ref, s.Tester.Attempt, from.Attempt, from.Phase))
	}
}

// loadPartial uses the result of the last tool call if no builder has finished.
func (s *Side) loadPartial(ctx context.Context, db *store.Store, blobs Blobs, repo contract.Repo, part extent) error {
	s.Code.Why = "no code is recorded: the builder did not run"
	if part.last(contract.PhaseBuilder) == nil {
		return nil
	}
	s.Code.Why = "no code is recorded: the builder did not finish, and no step saved a change"
	calls, err := db.ToolCalls(ctx, s.Ref.Run)
	if err != nil {
		return err
	}
	var last *store.ToolCall
	var by store.Execution
	for i, c := range calls {
		at := slices.IndexFunc(part.all, func(e store.Execution) bool { return e.ID == c.ExecutionID })
		if at < 0 || c.Outcome.Workspace.Tree == "" || last != nil && c.FinishedAt.Before(last.FinishedAt) {
			continue
		}
		last, by = &calls[i], part.all[at]
	}
	if last == nil {
		return nil
	}
	w := last.Outcome.Workspace
	s.Code = readCode(ctx, blobs, content{Tree: w.Tree, Patch: w.Patch}, repo)
	s.Notes = append(s.Notes, fmt.Sprintf("%s: the code is the last result of step %s; the builder did not finish, so changes from other steps may be missing", s.Ref, by.Step))
	return nil
}

// readCode reads a patch, or records why it is missing.
func readCode(ctx context.Context, blobs Blobs, c content, repo contract.Repo) Code {
	code := Code{Tree: c.Tree}
	if c.Patch == "" {
		if repo.Tree != "" && repo.Tree != c.Tree {
			code.Why = "the patch for the recorded tree is missing"
		}
		return code
	}
	patch, err := readPatch(ctx, blobs, c.Patch)
	if err != nil {
		code.Why = "cannot read the recorded patch: " + fault.Of(err).Message
		return code
	}
	if len(patch) > MaxPatchRead {
		code.Why = fmt.Sprintf("the change exceeds the comparison limit of %d MB", MaxPatchRead>>20)
		return code
	}
	code.Patch = patch
	return code
}

func readPatch(ctx context.Context, blobs Blobs, digest string) ([]byte, error) {
	r, err := blobs.Reader(ctx, digest)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(io.LimitReader(r, MaxPatchRead+1))
}
