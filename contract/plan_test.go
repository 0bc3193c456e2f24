package contract_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rocketgpt/orchestrator/contract"
)

func step(id string, needs ...string) contract.Step {
	return contract.Step{ID: id, Name: id, Dependencies: needs}
}

func TestAPlanThatCannotBeCarriedOutSaysWhy(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		steps []contract.Step
		says  string
	}{
		"no steps":           {nil, "neither steps nor edits"},
		"too many":           {slices.Repeat([]contract.Step{step("a")}, contract.MaxPlanSteps+1), "more than the 100 allowed"},
		"a doubled id":       {[]contract.Step{step("a"), step("a")}, `two steps have the id "a"`},
		"a bad id":           {[]contract.Step{step("a/b")}, "letters, digits"},
		"an option as id":    {[]contract.Step{step("-rf")}, "letters, digits"},
		"an unknown need":    {[]contract.Step{step("a", "ghost")}, `depends on "ghost", which does not exist`},
		"a need of itself":   {[]contract.Step{step("a", "a")}, "depends on itself"},
		"a circle":           {[]contract.Step{step("a", "c"), step("b", "a"), step("c", "b")}, "form a dependency cycle"},
		"an empty step":      {[]contract.Step{{ID: "a", Name: " "}}, "neither a name nor a description"},
		"a file outside":     {[]contract.Step{{ID: "a", Name: "x", Files: []string{"../etc/passwd"}}}, "not inside the repository"},
		"an absolute file":   {[]contract.Step{{ID: "a", Name: "x", Files: []string{"/etc/passwd"}}}, "not inside the repository"},
		"a git file":         {[]contract.Step{{ID: "a", Name: "x", Files: []string{"sub/.GIT/config"}}}, "not inside the repository"},
		"a file with a zero": {[]contract.Step{{ID: "a", Name: "x", Files: []string{"a\x00b"}}}, "not inside the repository"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			problems := (&contract.Plan{Steps: c.steps}).Problems()
			require.NotEmpty(t, problems)
			require.Contains(t, fmt.Sprint(problems), c.says)
		})
	}
}

func TestAGoodPlanHasNoProblems(t *testing.T) {
	t.Parallel()
	p := contract.Plan{Steps: []contract.Step{step("step-001"), step("step-002", "step-001"), step("step-003", "step-001"), step("step-004", "step-002", "step-003")}}
	require.Empty(t, p.Problems())
	require.Equal(t, []string{"step-001", "step-002", "step-003"}, p.Requires("step-004"))
}

// anyPlan draws a plan whose steps depend only on earlier ones, in any order.
func anyPlan(t *rapid.T) contract.Plan {
	n := rapid.IntRange(1, 12).Draw(t, "steps")
	var p contract.Plan
	for i := range n {
		var needs []string
		for j := range i {
			if rapid.Bool().Draw(t, "needs") {
				needs = append(needs, fmt.Sprintf("s%d", j))
			}
		}
		p.Steps = append(p.Steps, step(fmt.Sprintf("s%d", i), needs...))
	}
	p.Steps = rapid.Permutation(p.Steps).Draw(t, "order")
	return p
}

func TestTheOrderOfAPlanPutsEachStepAfterThoseItNeeds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := anyPlan(t)
		if problems := p.Problems(); len(problems) != 0 {
			t.Fatalf("a plan without circles has problems: %v", problems)
		}
		order := p.Order()
		if len(order) != len(p.Steps) {
			t.Fatalf("%d of %d steps are ordered", len(order), len(p.Steps))
		}
		for i, id := range order {
			for _, need := range p.Requires(id) {
				if slices.Index(order, need) >= i {
					t.Fatalf("%s comes before %s, which it needs", id, need)
				}
			}
		}
	})
}

func TestACircleIsFoundWhereverItIs(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := anyPlan(t)
		order := p.Order()
		from := rapid.IntRange(0, len(order)-1).Draw(t, "from")
		to := rapid.IntRange(from, len(order)-1).Draw(t, "to")
		last := order[to]
		for i := range p.Steps { // the first needs the last, and each between needs the one before
			for k := from; k <= to; k++ {
				if p.Steps[i].ID == order[k] {
					need := last
					if k > from {
						need = order[k-1]
					}
					p.Steps[i].Dependencies = append(p.Steps[i].Dependencies, need)
				}
			}
		}
		if len(p.Problems()) == 0 {
			t.Fatalf("no problem found in %+v", p.Steps)
		}
	})
}

func TestASkeletonRequiresTheSameWithFewerDependencies(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := anyPlan(t)
		small := p.Skeleton()
		for _, s := range p.Steps {
			if !slices.Equal(p.Requires(s.ID), small.Requires(s.ID)) {
				t.Fatalf("%s requires %v, in the skeleton %v", s.ID, p.Requires(s.ID), small.Requires(s.ID))
			}
		}
	})
}

func TestForwardingChangesStopsWhereAMergeIsNeeded(t *testing.T) {
	t.Parallel()
	tree := func(id string) contract.Workspace { return contract.Workspace{Tree: id} }
	start := contract.Workspace{Repo: "/r", Base: "b", Tree: "0"}
	changes := []contract.Change{{Step: "a", From: tree("0"), To: tree("1")}, {Step: "b", From: tree("1"), To: tree("2")}, {Step: "c", From: tree("1"), To: tree("3")}}
	head, rest := contract.FastForward(start, changes)
	require.Equal(t, contract.Workspace{Repo: "/r", Base: "b", Tree: "2"}, head)
	require.Equal(t, changes[2:], rest)
}

func TestWorkflowIDsNameTheirRun(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]int64{"run-42": 42, "run-42/step/step-001": 42, "run-42/heal/3": 42, "run-": 0, "run-x": 0, "run-007": 0, "pipeline-7": 0, "": 0, "run--1": 0} {
		got, ok := contract.RunIDOfWorkflow(id)
		require.Equal(t, want, got, id)
		require.Equal(t, want != 0, ok, id)
	}
}

func TestTheLifecycleHasTheSpecifiedStatuses(t *testing.T) {
	t.Parallel()
	var names []string
	for _, s := range contract.Statuses() {
		names = append(names, string(s))
	}
	require.Equal(t, "pending planner_running planner_error planner_completed builder_running builder_error builder_completed "+
		"tester_running tester_error tester_completed releaser_running releaser_error self_heal paused waiting_for_approval waiting_for_input done failed cancelled",
		strings.Join(names, " "))
}
