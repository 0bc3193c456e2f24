package workflows

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/workflows/deliberation/deliberationtest"
	"github.com/rocketgpt/orchestrator/workflows/deliberation/state"
)

// plannerFixture is a fixture in which ALPHA and BETA deliberate about a run's plan.
type plannerFixture struct {
	*runFixture
	created  []contract.NewPipeline
	making   func() // called when the row of a deliberation is created
	kept     []contract.SaveTranscriptInput
	minutes  contract.SaveTranscriptResult
	ended    []contract.PipelineStatus
	settings []contract.DeliberationSettings // settings with which deliberations started
	why      string                          // why the deliberation ended
}

func newPlannerFixture(t *testing.T) *plannerFixture {
	t.Helper()
	p := &plannerFixture{runFixture: newRunFixture(t), minutes: contract.SaveTranscriptResult{Artifact: "deliberation/minutes.md"}}
	RegisterDeliberation(p.env)
	RegisterMember(p.env)
	register := func(name string, f any) { p.env.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name}) }
	register(contract.ActivityCreatePipeline, func(_ context.Context, in contract.NewPipeline) (contract.DeliberationInput, error) {
		if p.making != nil {
			p.making()
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.created = append(p.created, in)
		return contract.DeliberationInput{
			PipelineID: 20 + int64(len(p.created)), RunID: in.RunID, Tenant: "local", ForRun: in.ForRun, Attempt: in.Attempt, Task: deliberationtest.Task(), Settings: in.Settings,
		}, p.failingLocked(contract.ActivityCreatePipeline)
	})
	register(contract.ActivityPipelineRecord, func(_ context.Context, rec contract.PipelineRecord) error {
		p.mu.Lock()
		defer p.mu.Unlock()
		if rec.Change.Settings != nil {
			p.settings = append(p.settings, *rec.Change.Settings)
		}
		if rec.Change.Finished {
			p.ended = append(p.ended, rec.Change.Status)
			if f := rec.Change.Failure; f != nil {
				p.why = f.Message
			}
		}
		return nil
	})
	register(contract.ActivityOpenMember, func(context.Context, contract.OpenMemberInput) (contract.OpenMemberResult, error) {
		return contract.OpenMemberResult{}, nil
	})
	register(contract.ActivityWriteHandoff, func(context.Context, contract.WriteHandoffInput) (contract.WriteHandoffResult, error) {
		return contract.WriteHandoffResult{Ref: "handoff.json"}, nil
	})
	register(contract.ActivitySaveTranscript, func(_ context.Context, in contract.SaveTranscriptInput) (contract.SaveTranscriptResult, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.kept = append(p.kept, in)
		return p.minutes, nil
	})
	p.answers["alpha"] = []contract.ThinkResult{{Moves: []contract.Move{deliberationtest.Synthesises("s1")}}, {Moves: []contract.Move{deliberationtest.Accepts("s1", 1)}}}
	p.answers["beta"] = []contract.ThinkResult{{Moves: []contract.Move{deliberationtest.Analyses(0.3)}}, {Moves: []contract.Move{deliberationtest.Accepts("s1", 1)}}}
	return p
}

func (p *plannerFixture) failingLocked(name string) error {
	if e := p.fail[name]; e != nil {
		return fault.ToTemporal(e, fault.RetryOf(e.Class).Attempts)
	}
	return nil
}

// disagree makes ALPHA and BETA never vote.
func (p *plannerFixture) disagree() {
	for _, m := range []string{"alpha", "beta"} {
		p.answers[m] = []contract.ThinkResult{{Moves: []contract.Move{deliberationtest.Sends("", "hm")}}}
	}
}

// together sets up a run whose planner deliberates.
func together(s *contract.Settings) {
	d := deliberationtest.Input().Settings
	s.PlanBy, s.Deliberation = contract.PlanByDeliberation, &d
}

// ifComplex sets up a run whose planner deliberates about complex goals.
func ifComplex(s *contract.Settings) {
	together(s)
	s.PlanBy = ""
}

func TestAPlanIsMadeOfWhatADeliberationAgreedOn(t *testing.T) {
	t.Parallel()
	p := newPlannerFixture(t)
	require.Equal(t, contract.StatusDone, p.orchestrate(t, together).Status)
	require.Len(t, p.created, 1)
	require.True(t, p.created[0].ForRun)
	require.NotZero(t, p.created[0].Execution)
	require.Len(t, p.kept, 1)
	require.True(t, p.kept[0].Result.Consensus)
	require.Len(t, p.planned, 1, "the planner is asked once, with the consensus")
	require.Equal(t, "synthesis s1", p.planned[0].Consensus.Final.Head)
	// Its members' usage may be reported after its end.
	require.Equal(t, []contract.PipelineStatus{contract.PipelineCompleted}, slices.Compact(p.ended))
	for _, rec := range p.records {
		if rec.End != nil && rec.Run != nil && rec.Run.PlanID != 0 {
			require.Contains(t, string(rec.End.Output), `"pipeline_id":21`)
			return
		}
	}
	require.Fail(t, "no record tells of the plan")
}

func TestAConsensusThatIsAPlanIsTheRunsPlan(t *testing.T) {
	t.Parallel()
	p := newPlannerFixture(t)
	p.minutes.PlanID, p.minutes.Plan = 77, onePlan("step-001", "step-002")
	require.Equal(t, contract.StatusDone, p.orchestrate(t, together).Status)
	require.Empty(t, p.planned)
	require.Contains(t, p.opened, "step-002")
	require.Equal(t, int64(77), p.view(t).PlanID)
}

func TestOnlyAComplexPlanIsDeliberatedAboutUnasked(t *testing.T) {
	t.Parallel()
	for complexity, deliberations := range map[float64]int{0.8: 0, 0.81: 1} {
		p := newPlannerFixture(t)
		p.plan.ComplexityScore = complexity
		require.Equal(t, contract.StatusDone, p.orchestrate(t, ifComplex).Status)
		require.Len(t, p.created, deliberations, "%g", complexity)
		require.Len(t, p.planned, 1+deliberations)
		require.Nil(t, p.planned[0].Consensus)
		if deliberations > 0 {
			require.NotNil(t, p.planned[1].Consensus)
			require.Equal(t, p.planned[0].Execution, p.planned[1].Execution)
		}
	}
}

func TestAPlanThatAPersonGaveIsNotDeliberatedAbout(t *testing.T) {
	t.Parallel()
	p := newPlannerFixture(t)
	p.edited[0] = onePlan("step-001")
	require.Equal(t, contract.StatusDone, p.orchestrate(t, together, func(s *contract.Settings) { s.PlanGiven = true }).Status)
	require.Empty(t, p.created)
}

func TestNoConsensusIsAFailureOfThePlannerThatIsHealedLikeOthers(t *testing.T) {
	t.Parallel()
	p := newPlannerFixture(t)
	p.disagree()
	result := p.orchestrate(t, together, func(s *contract.Settings) { s.MaxRetries, s.InterventionWait = 1, time.Hour })
	require.Equal(t, contract.StatusFailed, result.Status)
	require.Len(t, p.created, 2, "the heal let the planner try again")
	var failed *contract.Failure
	for _, rec := range p.records {
		if rec.End != nil && rec.End.Failure != nil && rec.Run != nil {
			failed = rec.End.Failure
		}
	}
	require.Equal(t, contract.ClassLogic, failed.Class)
	require.Equal(t, contract.CodeNoConsensus, failed.Code)
	require.Contains(t, failed.Message, "pipeline status 22")
	require.Contains(t, p.events(), contract.PhasePlanner.ErrorEvent())
}

func TestWhatWasAgreedOnIsKeptWhenThePlanMadeOfItFails(t *testing.T) {
	t.Parallel()
	p := newPlannerFixture(t)
	p.fail[contract.ActivityPlan] = fault.New(contract.ClassLLM, contract.CodeInvalidOutput, "no JSON")
	p.left = map[string]int{contract.ActivityPlan: 1}
	result := p.orchestrate(t, together, func(s *contract.Settings) { s.MaxRetries, s.InterventionWait = 2, time.Hour })
	require.Equal(t, contract.StatusDone, result.Status)
	require.Len(t, p.created, 1, "nobody deliberates twice about the same")
	require.Len(t, p.kept, 1)
	require.Len(t, p.planned, 2)
	require.NotNil(t, p.planned[1].Consensus)
	require.NotEmpty(t, p.planned[1].Lessons.Heals)
}

func TestAgentsThatABudgetEndedEndTheRunAsItDoes(t *testing.T) {
	t.Parallel()
	p := newPlannerFixture(t)
	for _, m := range []string{"alpha", "beta"} {
		p.fail[contract.ActivityThink+"/"+m] = fault.New(contract.ClassConfig, contract.CodeBudgetExceeded, "the day's money is spent")
	}
	result := p.orchestrate(t, together, func(s *contract.Settings) { s.MaxRetries, s.InterventionWait = 2, time.Hour })
	require.Equal(t, contract.StatusFailed, result.Status)
	require.Equal(t, contract.CodeBudgetExceeded, result.Failure.Code)
	require.Len(t, p.created, 1, "no heal spends more")
}

func TestAStopOfTheRunEndsItsDeliberation(t *testing.T) {
	t.Parallel()
	p := newPlannerFixture(t)
	p.slowly("alpha", time.Hour)
	var stopped, ended time.Time
	p.after(5*time.Second, func() {
		stopped = p.env.Now()
		p.update(contract.UpdateStop, contract.Command{ID: "1", By: "me", Reason: "too dear"})
	})
	result := p.orchestrate(t, together)
	ended = p.env.Now()
	require.Contains(t, p.why, "stopped by me (too dear)")
	require.Equal(t, contract.StatusCancelled, result.Status)
	require.Equal(t, []contract.PipelineStatus{contract.PipelineStopped}, slices.Compact(p.ended))
	require.LessOrEqual(t, ended.Sub(stopped), 10*time.Second)
	require.Empty(t, p.planned)
}

func TestADeliberationIsNotifiedThatItsRunTimedOut(t *testing.T) {
	t.Parallel()
	p := newPlannerFixture(t)
	p.slowly("alpha", time.Hour)
	result := p.orchestrate(t, together, func(s *contract.Settings) { s.RunBudget.Time = 10 * time.Second })
	require.Equal(t, []any{contract.StatusFailed, contract.CodeRunTimeout}, []any{result.Status, result.Failure.Code})
	require.Equal(t, []contract.PipelineStatus{contract.PipelineStopped}, slices.Compact(p.ended))
	require.Contains(t, p.why, "stopped by run-7 (its time limit of 10s was reached (execution.run.time))")
}

// TestAStopOfTheRunLosesNoDeliberationThatBegins stops a run between the row of its
// deliberation and that one's workflow.
func TestAStopOfTheRunLosesNoDeliberationThatBegins(t *testing.T) {
	t.Parallel()
	p := newPlannerFixture(t)
	p.making = func() { p.env.SignalWorkflow(contract.UpdateStop, contract.Command{ID: "s", By: "ann"}) }
	require.Equal(t, contract.StatusCancelled, p.orchestrate(t, together).Status)
	require.Len(t, p.created, 1)
	require.Equal(t, []contract.PipelineStatus{contract.PipelineStopped}, slices.Compact(p.ended), "what has a row comes to an end")
	require.Empty(t, p.planned)
}

func TestAPausedRunWaitsForItsDeliberationAndBeginsNothingNew(t *testing.T) {
	t.Parallel()
	p := newPlannerFixture(t)
	p.slowly("alpha", 20*time.Second)
	p.after(5*time.Second, func() { p.update(contract.UpdatePause, contract.Command{ID: "1", By: "me"}) })
	var status contract.Status
	var opened int
	p.after(time.Hour, func() {
		status, opened = p.view(t).Status, len(p.planned)+len(p.opened)
		p.update(contract.UpdateResume, contract.Command{ID: "2", By: "me"})
	})
	require.Equal(t, contract.StatusDone, p.orchestrate(t, together).Status)
	require.Equal(t, contract.StatusPaused, status)
	require.Zero(t, opened)
	// Its members' usage may be reported after its end.
	require.Equal(t, []contract.PipelineStatus{contract.PipelineCompleted}, slices.Compact(p.ended))
}

// slowly makes the turns of a member take a while, in the time of the workflow.
func (p *plannerFixture) slowly(member string, d time.Duration) {
	p.env.OnActivity(contract.ActivityThink, mock.Anything, mock.MatchedBy(func(in contract.ThinkInput) bool { return in.Execution.Step == member })).Return(p.think).After(d).Maybe()
	p.env.OnActivity(contract.ActivityThink, mock.Anything, mock.Anything).Return(p.think).Maybe()
}

func TestASwitchOfTheBuildersModelConcernsNobodyWhoDeliberates(t *testing.T) {
	t.Parallel()
	p := newPlannerFixture(t)
	p.slowly("alpha", 10*time.Second)
	p.after(5*time.Second, func() { p.update(contract.UpdateSwitchModel, switches("1", contract.AgentBuilder)) })
	p.after(6*time.Second, func() { p.update(contract.UpdateSwitchModel, switches("2", contract.AgentBeta)) })
	require.Equal(t, contract.StatusDone, p.orchestrate(t, together).Status)
	require.Len(t, p.settings, 1)
	require.Equal(t, "better", p.settings[0].Models[contract.AgentBeta].Model)
	require.NotEqual(t, "better", p.settings[0].Models[contract.AgentAlpha].Model)
}

// modelsCalled returns which models the members called, by member and turn: alpha-1. Those of
// a recovery are alpha-1', and so on.
func (p *plannerFixture) modelsCalled() map[string]string {
	out := map[string]string{}
	p.onThink = func(in contract.ThinkInput) {
		if in.Brief != nil {
			p.mu.Lock()
			defer p.mu.Unlock()
			out[fmt.Sprint(in.Brief.Member.Agent(), "-", in.Turn, strings.Repeat("'", int(in.Brief.PipelineID-21)))] = in.Model.Model
		}
	}
	return out
}

// switches returns a command that switches an agent to another model.
func switches(id string, agent contract.Agent) contract.Command {
	return contract.Command{ID: id, By: "ann", Agent: agent, Model: &contract.ModelChoice{Provider: "scripted", Model: "better"}}
}

func TestASwitchOfAModelReachesTheNextCallOfWhoeverDeliberates(t *testing.T) {
	t.Parallel()
	for agent, want := range map[contract.Agent]map[string]string{
		contract.AgentAlpha:   {"alpha-1": "scripted", "beta-1": "scripted", "alpha-2": "better", "beta-2": "scripted"},
		contract.AgentPlanner: {"alpha-1": "scripted", "beta-1": "scripted", "alpha-2": "scripted", "beta-2": "better"},
		"":                    {"alpha-1": "scripted", "beta-1": "scripted", "alpha-2": "better", "beta-2": "better"},
	} {
		t.Run("of "+cmp.Or(string(agent), "all"), func(t *testing.T) {
			t.Parallel()
			p := newPlannerFixture(t)
			asked := p.modelsCalled()
			p.slowly("alpha", 10*time.Second)
			var view contract.RunView
			var told *answer
			p.after(5*time.Second, func() { told = p.update(contract.UpdateSwitchModel, switches("1", agent)) })
			p.after(7*time.Second, func() { view = p.view(t) })
			result := p.orchestrate(t, together, func(s *contract.Settings) { // ALPHA has its own model, BETA the planner's
				warm := 0.5
				scripted := contract.ModelChoice{Provider: "scripted", Model: "scripted"}
				s.Models = maps.Clone(s.Models)
				s.Models[contract.AgentPlanner] = scripted
				s.Deliberation.Models[contract.AgentAlpha] = contract.ModelChoice{Provider: "other", Model: "scripted", Temperature: &warm}
			})
			require.Equal(t, contract.StatusDone, result.Status)
			require.NoError(t, told.err)
			require.Equal(t, want, asked)
			for _, m := range state.Peers() {
				require.Equal(t, want[string(m.Agent())+"-2"], view.Models[m.Agent()].Model, "it is shown as it is used")
			}
		})
	}
}

func TestASwitchOfAModelReachesARecoveryAndOneThatIsMadeJustThen(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		made int // switched while the row of this deliberation is created
		at   time.Duration
		want map[string]string
	}{
		"while the first is made":    {made: 1, want: map[string]string{"alpha-1": "", "alpha-2": "better", "alpha-1'": "better"}},
		"while its recovery is made": {made: 2, want: map[string]string{"alpha-2": "scripted", "alpha-1'": "", "alpha-2'": "better"}},
		"while it is recovered":      {at: 25 * time.Second, want: map[string]string{"alpha-2": "scripted", "alpha-1'": "scripted", "alpha-2'": "better"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlannerFixture(t)
			asked := p.modelsCalled()
			p.disagree()
			p.slowly("alpha", 10*time.Second)
			n := 0
			p.making = func() {
				if n++; n == c.made {
					p.env.SignalWorkflow(contract.UpdateSwitchModel, switches("1", contract.AgentAlpha))
				}
			}
			if c.at > 0 {
				p.after(c.at, func() { p.update(contract.UpdateSwitchModel, switches("1", contract.AgentAlpha)) })
			}
			p.orchestrate(t, together, func(s *contract.Settings) { s.Deliberation.Iterations, s.Deliberation.Recoveries = 1, 1 })
			require.Len(t, p.created, 2)
			for turn, model := range c.want {
				if model != "" { // otherwise it may have come too late for that one
					require.Equal(t, model, asked[turn], "%s of %v", turn, asked)
				}
			}
		})
	}
}

func TestASwitchOfAModelThatNobodyWouldUseIsRefusedWithTheReason(t *testing.T) {
	t.Parallel()
	p := newPlannerFixture(t)
	var early, late, unknown *answer
	p.after(5*time.Second, func() {
		early = p.update(contract.UpdateSwitchModel, switches("1", contract.AgentGamma))
		unknown = p.update(contract.UpdateSwitchModel, switches("2", "delta"))
	})
	p.env.OnActivity(contract.ActivityPlan, mock.Anything, mock.Anything).Return(contract.PlanResult{ID: madePlan, Plan: p.plan.Skeleton()}, nil).After(time.Minute)
	require.Equal(t, contract.StatusDone, p.orchestrate(t).Status)
	require.ErrorContains(t, early.err, "run 7 has no deliberation about its plan")
	require.ErrorContains(t, unknown.err, `unknown agent "delta"`)

	p = newPlannerFixture(t)
	p.env.OnActivity(contract.ActivityPlan, mock.Anything, mock.Anything).Return(contract.PlanResult{ID: madePlan, Plan: p.plan.Skeleton()}, nil).After(time.Minute)
	p.after(30*time.Second, func() { late = p.update(contract.UpdateSwitchModel, switches("1", contract.AgentGamma)) })
	require.Equal(t, contract.StatusDone, p.orchestrate(t, together).Status)
	require.ErrorContains(t, late.err, "is over (pipeline 21)")
}
