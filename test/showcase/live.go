package showcase

import (
	"context"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
)

// queued returns a run whose workflow has not been started yet.
func (f *dataset) queued(project, goal string) scenario {
	return func(ctx context.Context, _ int64, at time.Time) error {
		return f.begin(ctx, runOptions{project: project, goal: goal, at: at}).backdate()
	}
}

// building has completed three of six steps, and two more are in progress.
func (f *dataset) building(ctx context.Context, number int64, at time.Time) error {
	r := chance(number)
	t := f.begin(ctx, runOptions{project: "storefront", goal: "Add dark mode", description: subjects[2].description, at: at})
	plan := planOf("Tokens first, then the switch, then its persistence.", 0.44,
		part{name: "Gather all colours as tokens", text: "One file; no colour is written anywhere else.", files: []string{"web/tokens.css"}},
		part{name: "Give every token a dark value", text: "Contrast of at least 4.5.", files: []string{"web/tokens.css"}, after: []int{1}},
		part{name: "Read the system's preference before the first paint", text: "Without a flash.", files: []string{"web/theme.ts"}, after: []int{1}},
		part{name: "Add the switch to the settings", text: "Three positions: light, dark, system.", files: []string{"web/settings.tsx"}, after: []int{2, 3}},
		part{name: "Remember the choice", text: "In the profile if there is one, else in the browser.", files: []string{"web/profile.ts", "internal/profile/theme.go"}, after: []int{3}, risk: contract.LevelMedium},
		part{name: "Compare screenshots of all pages", text: "In both themes.", files: []string{"tests/themes.spec.ts"}, after: []int{4, 5}},
	)
	t.plans(plan, 17*time.Second)
	t.starts(contract.PhaseBuilder)
	all := works(r, plan)
	for i := range all {
		all[i].turns[0].took = 70 * time.Second // a slow afternoon
	}
	for _, i := range []int{3, 4} {
		all[i].open = true
		all[i].turns = all[i].turns[:2]
		all[i].turns[1].inFlight, all[i].turns[1].calls = true, nil
	}
	t.builds(all[:5])
	return t.backdate()
}

// testing has passed checks and one in progress.
func (f *dataset) testing(ctx context.Context, number int64, at time.Time) error {
	r := chance(number)
	t, plan := f.ordinary(ctx, 1, at)
	t.plans(plan, 11*time.Second)
	t.implements(r, plan)
	t.starts(contract.PhaseTester)
	t.checks(verifies(number, tests(r, 64, nil))[:1]...)
	return t.backdate()
}

// healing has the Repair agent working on its second failure.
func (f *dataset) healing(ctx context.Context, number int64, at time.Time) error {
	r := chance(number)
	t := f.begin(ctx, runOptions{project: "payments-api", goal: "Fix the flaky login test", description: "It fails about once in forty times, always on the slow runner.", at: at})
	plan := smallPlan("Fix the flaky login test", "internal/auth/login_test.go")
	t.plans(plan, 9*time.Second)
	t.implements(r, plan)
	t.starts(contract.PhaseTester)
	t.tested(t.checks(verifies(number, tests(r, 13, map[int]contract.TestCase{5: assertion(0)}))...))
	t.recordHeal(repairOf(number, 0))
	t.starts(contract.PhaseTester)
	t.tested(t.checks(verifies(number, tests(r, 13, map[int]contract.TestCase{5: assertion(2)}))...))
	m := repairOf(number, 1)
	m.turns = m.turns[:3]
	m.turns[2].inFlight, m.turns[2].calls = true, nil
	t.healStarts(&m)
	return t.backdate()
}

func (f *dataset) waitsForPlan(ctx context.Context, _ int64, at time.Time) error {
	t := f.begin(ctx, runOptions{
		project: "billing", goal: "Move the ledger's export to integer cents", at: at, description: "Accounting processes these files automatically.",
		settings: func(s *contract.Settings) { s.ApprovePlan = true },
	})
	t.plans(migrationPlan(), 44*time.Second)
	t.asks("plan", day)
	return t.backdate()
}

func (f *dataset) waitsForRelease(ctx context.Context, number int64, at time.Time) error {
	r := chance(number)
	t := f.begin(ctx, runOptions{
		project: "payments-api", goal: "Cache modules in the CI workflow", at: at,
		settings: func(s *contract.Settings) { s.ApproveRelease = true; s.ApprovalWait = 2 * time.Hour },
	})
	plan := smallPlan("Cache modules", ".github/workflows/ci.yml", "Makefile")
	plan.Steps[1].RiskLevel = contract.LevelHigh
	t.plans(plan, 12*time.Second)
	t.implements(r, plan)
	t.starts(contract.PhaseTester)
	t.tested(t.checks(verifies(number, tests(r, 118, nil), contract.Finding{
		Severity: contract.SeverityMedium, Category: contract.CategorySecurity, Message: "the workflow's token may write to the repository; give it contents: read", Location: ".github/workflows/ci.yml:9", Rule: "excessive-permissions",
	})...))
	t.asks("release", 137*time.Minute)
	return t.backdate()
}

func (f *dataset) waitsForQuota(ctx context.Context, number int64, at time.Time) error {
	r := chance(number)
	t, plan := f.ordinary(ctx, 9, at)
	t.plans(plan, 16*time.Second)
	t.starts(contract.PhaseBuilder)
	labours := works(r, plan)
	failure := fail(contract.ClassInfra, contract.CodeQuotaExhausted, "anthropic rejects calls until 18:00 UTC: the organisation's daily limit of output tokens is used up", "429 rate_limit_error: daily output tokens")
	labours[0].failure = failure
	t.builds(labours[:1])
	t.fails(contract.PhaseBuilder, failure)
	t.recordHeal(healing{action: contract.HealOtherProvider, cause: failure.Cause, failed: "the fallback openrouter/qwen/qwen3-coder has also reached its limit", took: time.Second})
	t.failure = failure
	m := healing{action: contract.HealWait, cause: failure.Cause, message: "waits for the limit to reset", took: time.Second}
	t.healStarts(&m)
	t.needsHelp(contract.InterventionQuota, "waits for the limit to reset: "+failure.Message, "none: the run continues at the deadline; approve to continue now, or reject to give up", 3*time.Hour)
	return t.backdate()
}

func (f *dataset) waitsForHelp(ctx context.Context, number int64, at time.Time) error {
	r := chance(number)
	t, plan := f.ordinary(ctx, 6, at)
	t.plans(plan, 16*time.Second)
	t.implements(r, plan)
	t.starts(contract.PhaseTester)
	failure := fail(contract.ClassConfig, contract.CodeUnauthorized, "terraform could not read the state: the worker's credentials were rejected (403)", "AccessDenied: s3:GetObject on arn:aws:s3:::tf-state/prod")
	t.fails(contract.PhaseTester, failure)
	t.recordHeal(healing{action: contract.HealAskPerson, cause: failure.Cause + "\nError: error loading state\nStatus code: 403", message: "asked a person", took: time.Second})
	t.needsHelp(contract.InterventionHelp, failure.Message, "grant the worker's role read access to the bucket tf-state, then retry", 4*time.Hour)
	t.wait(2 * time.Hour)
	t.happens(contract.EventInterventionReminded, map[string]any{"intervention_id": contract.InterventionID(t.run.ID, 1), "kind": contract.InterventionHelp, "phase": contract.PhaseTester})
	return t.backdate()
}

func (f *dataset) paused(ctx context.Context, number int64, at time.Time) error {
	r := chance(number)
	t, plan := f.ordinary(ctx, 3, at)
	t.plans(plan, 13*time.Second)
	t.starts(contract.PhaseBuilder)
	t.switches(contract.AgentBuilder, contract.ModelChoice{Provider: "openai", Model: "gpt-5-codex"}, "jonas")
	t.builds(works(r, plan)[:1])
	t.pauses("jonas", "looks at the prices with finance first")
	return t.backdate()
}
