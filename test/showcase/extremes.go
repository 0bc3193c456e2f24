package showcase

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
)

// goesThrough writes a run that completes all steps of its plan and releases the result.
func (t *runWriter) goesThrough(number int64, plan contract.Plan, cases []contract.TestCase, findings ...contract.Finding) {
	r := chance(number)
	t.plans(plan, between(r, 9*time.Second, 30*time.Second))
	patch := t.implements(r, plan)
	t.starts(contract.PhaseTester)
	t.tested(t.checks(verifies(number, cases, findings...)...))
	t.completesRelease(patch)
}

func (f *dataset) longTitle(ctx context.Context, number int64, at time.Time) error {
	goal := "Make the nightly reconciliation of card payments, bank transfers, vouchers, and manual corrections against the ledger resumable, " +
		"so that an interrupted night goes on in the morning from the last statement that was booked, tells accounting by e-mail which of the four sources are incomplete, and never books a statement twice even where a provider sends it again under another name"
	t := f.begin(ctx, runOptions{project: "reconciliation-of-card-payments-bank-transfers-and-vouchers-for-all-subsidiaries", goal: goal, description: strings.Repeat("Every source has its own window and its own idea of time. ", 60), at: at})
	plan := smallPlan(goal, "internal/reconcile/night.go", "internal/reconcile/night_test.go")
	plan.Steps[0].Name = goal
	t.goesThrough(number, plan, tests(chance(number), 33, map[int]contract.TestCase{0: {Name: "internal/reconcile.Test" + strings.Repeat("StatementsThatComeTwice", 12), Status: contract.TestPassed}}))
	return t.backdate()
}

// unbreakable has texts without any possible line break.
func (f *dataset) unbreakable(ctx context.Context, number int64, at time.Time) error {
	goal := "FixTheFactoryOf" + strings.Repeat("AbstractSingletonProxyFactoryBean", 7)
	t := f.begin(ctx, runOptions{project: strings.Repeat("monorepo", 14), goal: goal, description: strings.Repeat("x", 3000), at: at})
	name := "src/main/java/" + strings.Repeat("AbstractSingletonProxyFactoryBean", 6) + ".java"
	failing := map[int]contract.TestCase{1: {Name: strings.Repeat("ATestWithoutAnyPlaceToBreakItsName", 9), Status: contract.TestFlaky, Message: strings.Repeat("0123456789abcdef", 200)}}
	t.goesThrough(number, smallPlan(goal, name), tests(chance(number), 5, failing),
		contract.Finding{Severity: contract.SeverityMedium, Category: contract.CategoryLint, Message: strings.Repeat("unbreakable", 90), Location: name + ":18446744073709551615", Rule: strings.Repeat("rule", 40)})
	return t.backdate()
}

func (f *dataset) longFiles(ctx context.Context, number int64, at time.Time) error {
	deep := "services/" + strings.Repeat("a-rather-long-folder-name/", 9) + "a file with spaces, commas, and a name that goes on (copy 2) [final].test.integration.spec.tsx"
	goal := "Move the integration tests out of the deepest folder there is"
	t := f.begin(ctx, runOptions{project: "web/frontend", goal: goal, at: at})
	r := chance(number)
	plan := smallPlan(goal, deep, "README.md")
	t.plans(plan, 12*time.Second)
	patch := t.implements(r, plan)
	e := t.starts(contract.PhaseTester)
	checks := verifies(number, tests(r, 44, nil), contract.Finding{Severity: contract.SeverityMinor, Category: contract.CategoryLint, Message: "line is 341 characters", Location: deep + ":1204", Rule: "lll"})
	t.keeps(e.ID, file{"tester/1/" + deep + ".log", contract.ArtifactLog, []byte("ok\n")}, file{"tester/1/" + deep, contract.ArtifactFile, nil})
	t.tested(t.checks(checks...))
	t.completesRelease(patch)
	return t.backdate()
}

// script returns a run with texts in a non-Latin script.
func (f *dataset) script(project, goal, description, name string) scenario {
	return func(ctx context.Context, number int64, at time.Time) error {
		t := f.begin(ctx, runOptions{project: project, goal: goal, description: description, at: at})
		plan := smallPlan(goal, name, "README.md")
		plan.Steps[0].Name, plan.Steps[1].Description = goal, description
		t.goesThrough(number, plan, tests(chance(number), 21, map[int]contract.TestCase{2: {Name: goal, Status: contract.TestFlaky, Message: description}}),
			contract.Finding{Severity: contract.SeverityMinor, Category: contract.CategoryLint, Message: description, Location: name + ":7", Rule: "typography"})
		return t.backdate()
	}
}

// expensive has the numbers of a very large run: 1.2 million tokens and more,
// 123.45 dollars, 10,000 tests.
func (f *dataset) expensive(ctx context.Context, number int64, at time.Time) error {
	r := chance(number)
	opus := contract.ModelChoice{Provider: "anthropic", Model: "claude-opus-4-1"}
	t := f.begin(ctx, runOptions{
		project: "monorepo", goal: "Replace the home-made ORM in all 214 packages", at: at, models: map[contract.Agent]contract.ModelChoice{contract.AgentBuilder: opus},
		settings: func(s *contract.Settings) { s.RunBudget.MicroUSD, s.RunBudget.Tokens = 150_000_000, 20_000_000 },
	})
	plan := migrationPlan()
	t.plans(plan, 55*time.Second)
	t.starts(contract.PhaseBuilder)
	labours := works(r, plan)
	turns := 0
	for i := range labours {
		turns += len(labours[i].turns)
	}
	// The planner costs a few cents; the rest is divided among the builder's turns.
	const total = 123_450_000
	planner := contract.Usage{PromptTokens: 8200, CompletionTokens: int64(220 * len(plan.Steps))}
	left := total - f.cost(t.run.Settings.Models[contract.AgentPlanner], planner)
	for i := range labours {
		for j := range labours[i].turns {
			w := &labours[i].turns[j]
			share := left / int64(turns)
			w.out = 8000
			w.in = (share - 75*w.out) / 15 // dollars per million: 15 in, 75 out
			if turns == 1 {
				w.in = (left - 75*w.out) / 15
			}
			left -= f.cost(opus, contract.Usage{PromptTokens: w.in, CompletionTokens: w.out})
			turns--
		}
	}
	t.builds(labours)
	patch := patchOf(plan)
	t.built(patch)
	t.starts(contract.PhaseTester)
	t.tested(t.checks(verifies(number, tests(r, 10_000, map[int]contract.TestCase{40: {Status: contract.TestFlaky}, 77: {Status: contract.TestSkipped, Message: "needs a GPU"}}), lintFindings...)...))
	t.completesRelease(patch)
	t.score(0.83)
	return t.backdate()
}

// fiveHundredBars has a timeline of 40 minutes with 500 bars: model calls, tool
// calls, checks, heals, waits for people.
func (f *dataset) fiveHundredBars(ctx context.Context, number int64, at time.Time) error {
	r := chance(number)
	t := f.begin(ctx, runOptions{
		project: "search", goal: "Find out why ranking is slow, and fix it without changing results", at: at,
		settings: func(s *contract.Settings) { s.MaxRetries = 6; s.Parallel = 4 },
	})
	var parts []part
	for i := range 10 {
		p := part{name: fmt.Sprintf("Measure and optimize stage %d of ranking", i+1), text: "Profile, find the hottest line, optimize it, and compare results byte by byte.", files: []string{fmt.Sprintf("internal/rank/stage%02d.go", i+1)}}
		if i >= 4 {
			p.after = []int{i - 3}
		}
		parts = append(parts, p)
	}
	plan := planOf("Ten stages, four at the same time.", 0.72, parts...)
	t.plans(plan, 35*time.Second)
	t.asks("plan", day)
	t.wait(4 * time.Minute)
	t.phase = contract.PhasePlanner
	t.answers("plan", "mara", "go on", true)
	t.starts(contract.PhaseBuilder)
	patch := patchOf(plan)
	var labours []stepWork
	for _, s := range plan.Steps {
		w := stepWork{step: s.ID}
		for range 3 {
			w.turns = append(w.turns, readTurn(r, s.Files[0]), searchTurn(r, "sort.Slice"), editTurn(r, s.Files[0]),
				commandTurn(r, "go test -bench . ./internal/rank", "BenchmarkRank-8\t 1204\t 981204 ns/op\n"), searchTurn(r, "heap.Fix"),
				commandTurn(r, "go vet ./...", ""))
		}
		w.turns = append(w.turns, finishTurn(r, "Stage is faster, results are the same."))
		labours = append(labours, w)
	}
	t.builds(labours)
	t.built(patch)
	for i := range 3 {
		t.starts(contract.PhaseTester)
		t.tested(t.checks(shards(number, r.IntN(40)+60, map[int]contract.TestCase{i: assertion(i)})...))
		t.recordHeal(repairOf(number, i))
		t.wait(20 * time.Second)
	}
	t.starts(contract.PhaseTester)
	t.tested(t.checks(shards(number, 80, nil)...))
	t.completesRelease(patch)
	t.score(0.66)
	return t.backdate()
}

// shards returns a test suite in eight parts.
func shards(number int64, cases int, failing map[int]contract.TestCase) []inspection {
	r := chance(number)
	var out []inspection
	for i := range 8 {
		c := verifies(number+int64(i), tests(r, cases, failing))[1]
		c.check.ID, c.check.Shard, c.check.Shards = fmt.Sprintf("test-go-%d", i+1), i+1, 8
		c.check.Name = fmt.Sprintf("go test ./... (%d/8)", i+1)
		failing = nil
		out = append(out, c)
	}
	return out
}

// hundredThousandLines has the log of a suite with 100,000 lines.
func (f *dataset) hundredThousandLines(ctx context.Context, number int64, at time.Time) error {
	r := chance(number)
	t, plan := f.ordinary(ctx, 4, at)
	t.plans(plan, 12*time.Second)
	patch := t.implements(r, plan)
	t.starts(contract.PhaseTester)
	checks := verifies(number, tests(r, 140, nil))
	checks[1].log, checks[1].took = logLines(100_000), 12*time.Minute
	t.tested(t.checks(checks...))
	t.completesRelease(patch)
	return t.backdate()
}

// browser is a run whose tests ran in a browser, with files of every type, and
// findings of every severity and category, some of which are resolved.
func (f *dataset) browser(ctx context.Context, number int64, at time.Time) error {
	r := chance(number)
	t, plan := f.ordinary(ctx, 2, at)
	t.plans(plan, 12*time.Second)
	patch := t.implements(r, plan)
	var found []contract.Finding
	for i, c := range contract.Categories() {
		for j, s := range []contract.Severity{contract.SeverityMajor, contract.SeverityMedium, contract.SeverityMinor} {
			found = append(found, contract.Finding{Severity: s, Category: c, Message: fmt.Sprintf("a %s problem that the %s check found", s, c), Location: fmt.Sprintf("web/theme.ts:%d", 10*i+j), Rule: fmt.Sprintf("%s-%d", c, j)})
		}
	}
	suite := inspection{
		check: contract.Check{ID: "test-playwright", Category: contract.CategoryTest, Name: "playwright test"}, took: 71 * time.Second,
		cases: tests(r, 13, map[int]contract.TestCase{4: {Name: "login.spec.ts › logs in with a right password", Status: contract.TestFailed, Message: "Error: expect(locator).toHaveText(expected)\n\nLocator: getByRole('alert')\nExpected: \"Welcome\"\nReceived: \"Too many attempts\"", Location: "tests/login.spec.ts:31"}}),
		files: browserFiles("login"), log: logLines(400), red: true, message: "login.spec.ts › logs in with a right password",
	}
	quality := inspection{check: contract.Check{ID: "custom-quality", Category: contract.CategoryCustom, Name: "quality gate"}, took: 3 * time.Second, findings: found, red: true, message: "5 major findings"}
	t.starts(contract.PhaseTester)
	t.tested(t.checks(suite, quality))
	t.recordHeal(repairOf(number, 0))
	suite.red, suite.cases[4].Status, suite.cases[4].Message = false, contract.TestPassed, ""
	quality.red, quality.findings = false, found[2:9:9]
	t.starts(contract.PhaseTester)
	t.tested(t.checks(suite, quality))
	t.completesRelease(patch)
	t.score(0.79)
	return t.backdate()
}

// stayingWaits is done and watches its branch; stayingMends repairs a failed check.
func (f *dataset) stayingWaits(ctx context.Context, number int64, at time.Time) error {
	return f.watchBranch(ctx, number, at, false)
}

func (f *dataset) watchAndFix(ctx context.Context, number int64, at time.Time) error {
	return f.watchBranch(ctx, number, at, true)
}

func (f *dataset) watchBranch(ctx context.Context, number int64, at time.Time, red bool) error {
	s := subjects[number%int64(len(subjects))]
	t := f.begin(ctx, runOptions{project: s.project, goal: s.goal + ", and stay with the pull request", description: s.description, at: at, settings: func(s *contract.Settings) {
		s.Release.Stay, s.Release.MaxRepairs, s.Release.Push, s.Release.Remote = 3*day, 3, true, "origin"
	}})
	r := chance(number)
	plan := smallPlan(s.goal, s.files...)
	t.plans(plan, 14*time.Second)
	patch := t.implements(r, plan)
	t.starts(contract.PhaseTester)
	t.tested(t.checks(verifies(number, tests(r, 40, nil))...))
	t.releases(patch)
	t.stays(3 * day)
	if !red {
		return t.backdate()
	}
	t.now = f.now.Add(-2 * time.Minute)
	t.receives(contract.CheckMessage{
		ID: "ci-88213", Kind: contract.CheckRun, Name: "ci / windows-latest", Conclusion: contract.ConclusionFailure, Summary: "1 of 212 tests failed",
		Details: "export_test.go:41: open C:\\temp\\out.csv: The process cannot access the file", URL: "https://ci.example.com/runs/88213", By: "github-actions",
	})
	m := repairOf(number, 1)
	m.turns[2].inFlight, m.turns = true, m.turns[:3]
	t.healStarts(&m)
	return t.backdate()
}

// baseline and regressed are two runs of one goal, to be compared.
func (f *dataset) baseline(ctx context.Context, number int64, at time.Time) error {
	t := f.begin(ctx, runOptions{project: "payments-api", goal: "Limit login attempts per account and per address", description: subjects[0].description, at: at})
	plan := smallPlan("Limit login attempts", "internal/auth/login.go", "internal/auth/limiter.go")
	t.goesThrough(number, plan, tests(chance(7), 212, map[int]contract.TestCase{
		9: {Status: contract.TestFlaky, Message: "failed once, then passed"}, 30: {Status: contract.TestSkipped}, 101: {Status: contract.TestFlaky, Message: "timed out once"},
	}), lintFindings[0])
	t.score(0.95)
	return t.backdate()
}

func (f *dataset) regressed(ctx context.Context, number int64, at time.Time) error {
	t := f.begin(ctx, runOptions{
		project: "payments-api", goal: "Limit login attempts per account and per address", description: subjects[0].description, at: at,
		models: map[contract.Agent]contract.ModelChoice{contract.AgentBuilder: {Provider: "openrouter", Model: "qwen/qwen3-coder"}},
	})
	r := chance(number)
	plan := smallPlan("Limit login attempts", "internal/auth/login.go", "internal/auth/limiter.go")
	plan.Steps[1].Name = "Make the change in one file"
	plan.Steps[1].Files = []string{"internal/auth/login.go"}
	plan.Steps = append(plan.Steps, contract.Step{ID: "step-004", Name: "Tidy up", Dependencies: []string{"step-002"}, EstimatedComplexity: contract.LevelLow, RiskLevel: contract.LevelLow, Description: "Remove code that is no longer called.", Files: []string{"internal/auth/legacy.go"}, VerificationCriteria: []string{}})
	red := map[int]contract.TestCase{12: assertion(0), 13: assertion(1), 88: assertion(2), 30: {Status: contract.TestSkipped}}
	t.plans(plan, 51*time.Second)
	t.implements(r, plan)
	t.starts(contract.PhaseTester)
	t.tested(t.checks(verifies(number, tests(chance(7), 212, red), lintFindings...)...))
	t.recordHeal(repairOf(number, 0))
	t.starts(contract.PhaseTester)
	delete(red, 13)
	t.tested(t.checks(verifies(number, tests(chance(7), 212, red), lintFindings...)...))
	t.recordHeal(repairOf(number, 1))
	t.starts(contract.PhaseTester)
	t.tested(t.checks(verifies(number, tests(chance(7), 212, red), lintFindings...)...))
	t.ends(t.failure)
	t.score(0.31)
	return t.backdate()
}
