package showcase

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
)

// listing is the file list of a repository that agents receive.
const listing = "README.md\ngo.mod\ncmd/server/main.go\ninternal/auth/login.go\ninternal/auth/login_test.go\ninternal/http/routes.go\nweb/theme.css\n"

// chance returns a source of random numbers that are the same in each fill.
func chance(seed int64) *rand.Rand {
	return rand.New(rand.NewPCG(uint64(seed), 0x5eed)) //nolint:gosec // it need not be secret
}

func between(r *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(r.Int64N(int64(most-least)+1)).Round(time.Millisecond)
}

// part is the short form of a plan's step: its name, files and dependencies (by number).
type part struct {
	name, text string
	files      []string
	after      []int
	risk       contract.Level
}

func planOf(summary string, complexity float64, parts ...part) contract.Plan {
	p := contract.Plan{Summary: summary, ComplexityScore: complexity}
	for i, s := range parts {
		step := contract.Step{
			ID: stepID(i + 1), Name: s.name, Description: s.text, Dependencies: []string{}, Files: s.files, RiskLevel: s.risk,
			EstimatedComplexity:  []contract.Level{contract.LevelLow, contract.LevelMedium, contract.LevelHigh}[i%3],
			VerificationCriteria: []string{"the project builds", "the tests of the files above pass"},
		}
		step.RiskLevel = cmp.Or(step.RiskLevel, contract.LevelLow)
		for _, n := range s.after {
			step.Dependencies = append(step.Dependencies, stepID(n))
		}
		p.Steps = append(p.Steps, step)
	}
	return p
}

func stepID(n int) string { return fmt.Sprintf("step-%03d", n) }

// smallPlan returns the plan of most runs: two or three steps, one after another.
func smallPlan(goal string, files ...string) contract.Plan {
	parts := []part{
		{name: "Find the place and cover it with a test", text: "Read " + strings.Join(files, ", ") + " and write a test that fails for the reason given in the goal.", files: files[:1]},
		{name: "Make the change", text: "Carry out: " + goal, files: files, after: []int{1}, risk: contract.LevelMedium},
	}
	if len(files) > 1 {
		parts = append(parts, part{name: "Update the documentation", text: "Describe the change to users.", files: []string{"README.md", "CHANGELOG.md"}, after: []int{2}})
	}
	return planOf("Cover the place with a test, make the change, and document it.", 0.35, parts...)
}

// migrationPlan returns a plan of twelve steps in a graph that is wide in the middle.
func migrationPlan() contract.Plan {
	return planOf("Move billing from floats to integer cents behind one type, module by module, with both forms side by side until the last reader has moved.", 0.87,
		part{name: "Add the type money.Cents with arithmetic and formatting", text: "No operator may lose a cent: rounding is half to even, and division says what is left over.", files: []string{"internal/money/cents.go", "internal/money/cents_test.go"}},
		part{name: "Describe the new columns in a migration", text: "amount_cents BIGINT beside amount, filled by a trigger until all writers have moved.", files: []string{"migrations/0042_amount_cents.sql"}, risk: contract.LevelHigh},
		part{name: "Read invoices in cents", text: "The repository layer reads the new column and falls back to the old one where it is null.", files: []string{"internal/invoice/repository.go"}, after: []int{1, 2}, risk: contract.LevelMedium},
		part{name: "Write invoices in cents", text: "Both columns are written in one statement.", files: []string{"internal/invoice/writer.go"}, after: []int{1, 2}, risk: contract.LevelHigh},
		part{name: "Move tax calculation", text: "Rates stay decimal; results are cents.", files: []string{"internal/tax/rates.go", "internal/tax/calculate.go"}, after: []int{1}, risk: contract.LevelHigh},
		part{name: "Move discounts and coupons", text: "A coupon of 33 % on 0.10 gives 0.07, not 0.067.", files: []string{"internal/discount/apply.go"}, after: []int{1}},
		part{name: "Move the ledger's export", text: "CSV columns keep their names and two decimals.", files: []string{"internal/ledger/export.go"}, after: []int{3}},
		part{name: "Move the payment provider's client", text: "The provider already uses minor units.", files: []string{"internal/provider/stripe/client.go"}, after: []int{4}, risk: contract.LevelMedium},
		part{name: "Move the public API without changing its JSON", text: "amount stays a decimal string; a golden file pins it.", files: []string{"api/v1/invoice.go", "api/v1/testdata/invoice.golden.json"}, after: []int{3, 4}, risk: contract.LevelMedium},
		part{name: "Property test: sums of parts are the whole", text: "For random invoices, taxes and discounts.", files: []string{"internal/invoice/property_test.go"}, after: []int{5, 6}},
		part{name: "Remove the float column's readers", text: "A linter rule forbids float64 in these packages from now on.", files: []string{".golangci.yml", "internal/invoice/legacy.go"}, after: []int{7, 8, 9}},
		part{name: "Write the operator's guide for the switch", text: "The order of deployment, how to roll back, and how long to keep both columns.", files: []string{"docs/operations/money-migration.md"}, after: []int{10, 11}},
	)
}

// readTurn and the functions below return typical turns of a builder.
func readTurn(r *rand.Rand, file string) turn {
	return turn{
		say: "I will look at " + file + " first.", in: 2400 + r.Int64N(2600), out: 60 + r.Int64N(120), took: between(r, 900*time.Millisecond, 4*time.Second),
		calls: []use{{name: "read_file", args: map[string]any{"path": file}, result: "package " + packageOf(file) + "\n\nimport (\n\t\"context\"\n\t\"errors\"\n)\n\n// ErrExpired says that a session is over.\nvar ErrExpired = errors.New(\"session expired\")\n", took: between(r, 2*time.Millisecond, 18*time.Millisecond)}},
	}
}

func searchTurn(r *rand.Rand, pattern string) turn {
	return turn{
		in: 3900 + r.Int64N(2600), out: 40 + r.Int64N(80), took: between(r, 700*time.Millisecond, 3*time.Second),
		calls: []use{
			{name: "search", args: map[string]any{"pattern": pattern}, result: "internal/auth/login.go:41: if " + pattern + " {\ninternal/http/routes.go:88: // " + pattern + "\n", took: between(r, 5*time.Millisecond, 60*time.Millisecond)},
			{name: "list_files", args: map[string]any{"glob": "internal/**/*_test.go"}, result: listing, took: between(r, 2*time.Millisecond, 9*time.Millisecond)},
		},
	}
}

func editTurn(r *rand.Rand, file string) turn {
	return turn{
		say: "The check belongs before the token is signed.", in: 6100 + r.Int64N(5000), out: 420 + r.Int64N(1300), took: between(r, 4*time.Second, 19*time.Second),
		calls: []use{{
			name: "edit_file", args: map[string]any{"path": file, "old_text": "return sign(token)", "new_text": "if token.Expired(now) {\n\t\treturn \"\", ErrExpired\n\t}\n\treturn sign(token)"},
			result: "1 replacement in " + file, took: between(r, 4*time.Millisecond, 30*time.Millisecond), changed: true,
		}},
	}
}

func commandTurn(r *rand.Rand, command, result string) turn {
	return turn{
		in: 7800 + r.Int64N(6000), out: 50 + r.Int64N(90), took: between(r, time.Second, 5*time.Second),
		calls: []use{{name: "run_command", args: map[string]any{"command": command}, result: result, took: between(r, 2*time.Second, 24*time.Second)}},
	}
}

func finishTurn(r *rand.Rand, summary string) turn {
	return turn{
		in: 8800 + r.Int64N(6000), out: 80 + r.Int64N(160), took: between(r, time.Second, 4*time.Second),
		calls: []use{{name: "finish", args: map[string]any{"summary": summary}, result: "The step is done."}},
	}
}

// work returns the typical work on a step.
func work(r *rand.Rand, step contract.Step) stepWork {
	file := "README.md"
	if len(step.Files) > 0 {
		file = step.Files[0]
	}
	turns := []turn{readTurn(r, file)}
	if r.IntN(2) == 0 {
		turns = append(turns, searchTurn(r, "token.Expired"))
	}
	turns = append(turns, editTurn(r, file))
	if r.IntN(3) > 0 {
		turns = append(turns, commandTurn(r, "go test ./...", "ok  \texample.com/app/internal/auth\t0.412s\n"))
	}
	return stepWork{step: step.ID, turns: append(turns, finishTurn(r, "Done: "+step.Name+"."))}
}

func works(r *rand.Rand, plan contract.Plan) []stepWork {
	var out []stepWork
	for _, id := range plan.Order() {
		step, _ := plan.Step(id)
		out = append(out, work(r, step))
	}
	return out
}

func packageOf(file string) string {
	parts := strings.Split(file, "/")
	if len(parts) < 2 {
		return "main"
	}
	return strings.ReplaceAll(parts[len(parts)-2], "-", "")
}

// diffOf returns the unified diff of one file as a single hunk.
func diffOf(file string, before, after []string) string {
	var b strings.Builder
	from, to := "a/"+file, "b/"+file
	fmt.Fprintf(&b, "diff --git a/%s b/%s\n", file, file)
	if len(before) == 0 {
		from = "/dev/null"
		b.WriteString("new file mode 100644\n")
	}
	fmt.Fprintf(&b, "--- %s\n+++ %s\n", from, to)
	head := 0
	for head < len(before) && head < len(after) && before[head] == after[head] {
		head++
	}
	tail := 0
	for tail < len(before)-head && tail < len(after)-head && before[len(before)-1-tail] == after[len(after)-1-tail] {
		tail++
	}
	start, end := max(0, head-3), max(0, tail-3)
	oldPart, newPart := before[start:len(before)-end], after[start:len(after)-end]
	first := start + 1
	if len(before) == 0 {
		first = 0
	}
	fmt.Fprintf(&b, "@@ -%d,%d +%d,%d @@\n", first, len(oldPart), start+1, len(newPart))
	for _, l := range before[start:head] {
		b.WriteString(" " + l + "\n")
	}
	for _, l := range before[head : len(before)-tail] {
		b.WriteString("-" + l + "\n")
	}
	for _, l := range after[head : len(after)-tail] {
		b.WriteString("+" + l + "\n")
	}
	for _, l := range before[len(before)-tail : len(before)-end] {
		b.WriteString(" " + l + "\n")
	}
	return b.String()
}

var oldLogin = strings.Split(`package auth

import "context"

// Login checks a password and returns a session's token.
func (s *Service) Login(ctx context.Context, name, password string) (string, error) {
	user, err := s.users.ByName(ctx, name)
	if err != nil {
		return "", err
	}
	if !user.Matches(password) {
		return "", ErrCredentials
	}
	return s.sign(user)
}`, "\n")

var newLogin = strings.Split(`package auth

import "context"

// Login checks a password and returns a session's token.
func (s *Service) Login(ctx context.Context, name, password string) (string, error) {
	user, err := s.users.ByName(ctx, name)
	if err != nil {
		return "", err
	}
	if !s.limiter.Allow(name) {
		return "", ErrTooManyAttempts
	}
	if !user.Matches(password) {
		s.limiter.Failed(name)
		return "", ErrCredentials
	}
	s.limiter.Forget(name)
	return s.sign(user)
}`, "\n")

// patchOf returns the patch of a run, which changes each file in its plan.
func patchOf(plan contract.Plan) string {
	var b strings.Builder
	seen := map[string]bool{}
	for _, s := range plan.Steps {
		for _, f := range s.Files {
			switch {
			case seen[f]:
			case strings.HasSuffix(f, "_test.go"), strings.HasSuffix(f, ".md"), strings.HasSuffix(f, ".sql"):
				b.WriteString(diffOf(f, nil, []string{"// " + s.Name, "package " + packageOf(f), "", "// " + s.Description}))
			default:
				b.WriteString(diffOf(f, oldLogin, newLogin))
			}
			seen[f] = true
		}
	}
	return b.String()
}

// tests returns the n cases of a suite, with the given ones replaced.
func tests(r *rand.Rand, n int, other map[int]contract.TestCase) []contract.TestCase {
	packages := []string{"internal/auth", "internal/http", "internal/invoice", "internal/ledger", "internal/tax", "api/v1"}
	subjects := []string{"Login", "Session", "Token", "Invoice", "Refund", "Webhook", "Ledger", "Coupon", "Export", "Retry"}
	verbs := []string{"IsRefusedWithoutPassword", "SurvivesARestart", "IsWrittenOnce", "ExpiresInTime", "KeepsItsOrder", "SaysWhatIsWrong", "HasNoGaps", "IsIdempotent"}
	out := make([]contract.TestCase, n)
	for i := range out {
		out[i] = contract.TestCase{
			Name:   fmt.Sprintf("%s.Test%s%s/%d", packages[i%len(packages)], subjects[(i/3)%len(subjects)], verbs[(i/7)%len(verbs)], i),
			Status: contract.TestPassed, DurationMS: 1 + r.Int64N(240),
		}
		if c, ok := other[i]; ok {
			if c.Name == "" {
				c.Name = out[i].Name
			}
			c.DurationMS = out[i].DurationMS
			out[i] = c
		}
	}
	return out
}

// logLines returns the output of a long test suite.
func logLines(n int) string {
	var b strings.Builder
	b.Grow(n * 90)
	at := time.Date(2026, 3, 14, 9, 26, 53, 0, time.UTC)
	for i := range n {
		level, what := "INFO ", "request served"
		switch {
		case i%9973 == 9972:
			level, what = "ERROR", "connection reset by peer while reading the body; the client retried"
		case i%997 == 996:
			level, what = "WARN ", "slow query: SELECT * FROM invoices WHERE customer = $1 ORDER BY issued_at"
		case i%13 == 5:
			what = "\x1b[32mPASS\x1b[0m internal/ledger.TestExportKeepsItsOrder"
		}
		fmt.Fprintf(&b, "%s %s line=%06d %s path=/v1/invoices/%d took=%dms\n", at.Add(time.Duration(i)*7*time.Millisecond).Format("15:04:05.000"), level, i+1, what, i%4096, i%83)
	}
	return b.String()
}
