package planning_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/planning"
)

var facts = planning.Facts{
	Goal: "Support German greetings", Files: []string{"README.md", "cmd/main.go", "greet/greet.go", "greet/greet_test.go"},
	Failing: []string{"example.com/greet.TestGreetLoudly"},
}

// sound is a plan with nothing wrong.
func sound() contract.Plan {
	return contract.Plan{Summary: "s", Steps: []contract.Step{
		{ID: "step-001", Name: "Greet in German", Description: "Extend Greet.", VerificationCriteria: []string{"Greet returns Hallo"}, Files: []string{"greet/greet.go"}},
		{ID: "step-002", Name: "Offer it", Description: "Add a flag in cmd.", Dependencies: []string{"step-001"}, Files: []string{"cmd/main.go", "greet/greet.go"}},
	}}
}

func TestCodeFindsWhatIsWrongWithAPlan(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*contract.Plan)
		kind   contract.PlanFindingKind
		text   string
	}{
		"nothing":                             {change: func(*contract.Plan) {}},
		"two independent steps change a file": {func(p *contract.Plan) { p.Steps[1].Dependencies = nil }, contract.PlanSameFile, "greet/greet.go"},
		"one of them by another path":         {func(p *contract.Plan) { p.Steps[1].Dependencies, p.Steps[1].Files = nil, []string{"greet//greet.go"} }, contract.PlanSameFile, "step-001"},
		"a criterion that fails":              {func(p *contract.Plan) { p.Steps[0].VerificationCriteria = []string{"TestGreetLoudly passes"} }, contract.PlanFailingCriterion, "TestGreetLoudly"},
		"all tests pass, as verified":         {change: func(p *contract.Plan) { p.Steps[0].VerificationCriteria = []string{"All existing tests pass."} }},
		"another test passes":                 {change: func(p *contract.Plan) { p.Steps[0].VerificationCriteria = []string{"TestGerman passes"} }},
		"the step fixes the test": {change: func(p *contract.Plan) {
			p.Steps[0].VerificationCriteria, p.Steps[0].Description = []string{"All tests pass"}, "Fix TestGreetLoudly."
		}},
		"a file that is elsewhere":     {func(p *contract.Plan) { p.Steps[0].Files = []string{"greet.go"} }, contract.PlanMissingFile, "did you mean greet/greet.go?"},
		"a directory":                  {change: func(p *contract.Plan) { p.Steps[0].Files = []string{"greet", "cmd/"} }},
		"the beginning of a directory": {func(p *contract.Plan) { p.Steps[0].Files = []string{"gre"} }, contract.PlanMissingFile, "gre"},
		"a file that it creates": {change: func(p *contract.Plan) {
			p.Steps[0].Files, p.Steps[0].Name = []string{"greet/german.go"}, "Create german.go"
		}},
		"a file of an earlier step": {change: func(p *contract.Plan) {
			p.Steps[0].Files, p.Steps[0].Name = []string{"greet/german.go"}, "Create german.go"
			p.Steps[1].Files, p.Steps[1].Description = []string{"greet/german.go"}, "Extend it."
		}},
		"a step that only tests": {func(p *contract.Plan) {
			p.Steps[1] = contract.Step{ID: "step-002", Name: "Run all tests", Description: "Run go test ./... and see that it succeeds."}
		}, contract.PlanOnlyChecks, "step-002"},
		"a step that writes tests": {change: func(p *contract.Plan) {
			p.Steps[1] = contract.Step{ID: "step-002", Name: "Test the German greeting", Description: "Add a test."}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := sound()
			c.change(&p)
			found := planning.Findings(p, facts)
			if c.kind == "" {
				require.Empty(t, found)
				return
			}
			require.Len(t, found, 1)
			require.Equal(t, c.kind, found[0].Kind)
			require.Contains(t, found[0].Text, c.text)
		})
	}
}

func TestATestThatTheGoalIsAboutIsNoFinding(t *testing.T) {
	t.Parallel()
	about := facts
	about.Goal = "Fix TestGreetLoudly"
	p := sound()
	p.Steps[0].VerificationCriteria = []string{"TestGreetLoudly passes", "all tests pass"}
	require.Empty(t, planning.Findings(p, about))
}

func TestFindingsAreBounded(t *testing.T) {
	t.Parallel()
	p := sound()
	for range 100 {
		p.Steps[0].Files = append(p.Steps[0].Files, "nowhere/x.go")
	}
	require.Len(t, planning.Findings(p, facts), contract.MaxPlanFindings)
}

func TestAPlanInAnotherLanguageMayCreateFiles(t *testing.T) {
	t.Parallel()
	p := contract.Plan{Steps: []contract.Step{
		{ID: "step-001", Name: "Begrüßung auf Deutsch", Description: "Lege die Datei greet/deutsch.go an.", Files: []string{"greet/deutsch.go"}},
		{ID: "step-002", Name: "ドイツ語の挨拶", Description: "新しいファイルを作成します。", Files: []string{"greet/japanese.go"}},
	}}
	require.Empty(t, planning.Findings(p, facts))
	p.Steps[0].Files = []string{"greet.go"}
	found := planning.Findings(p, facts)
	require.Len(t, found, 1, "a file of this name is elsewhere")
	require.Contains(t, found[0].Text, "did you mean greet/greet.go?")
}
