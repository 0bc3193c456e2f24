package activities_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/runs/verdict"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
	"github.com/rocketgpt/orchestrator/internal/sandbox/sandboxtest"
	"github.com/rocketgpt/orchestrator/internal/verify/checks"
)

// Secrets that are none. Split, so that they are not in this file.
const (
	baseSecret   = "AKIAQWERTZU" + "IOP234567"
	changeSecret = "xoxb-781236542736" + "-2364535789652-GkwFDQoHqzXDVsC6GzqYUypD"
)

// baselineOfScans carries out the security checks on the run's base commit.
func (h *fixture) baselineOfScans() (b contract.BaselineResult, asked []string) {
	h.t.Helper()
	b, err := h.Baseline(h.t.Context(), contract.BaselineInput{RunID: h.run.ID, Workspace: h.repo.Workspace()})
	require.NoError(h.t, err)
	for _, c := range slices.Concat(b.Stages...) {
		if c.Category != contract.CategorySecurity {
			continue
		}
		asked = append(asked, c.ID)
		_, err := h.Verify(h.t.Context(), contract.VerifyInput{
			Execution: contract.BaselineExecution(h.run.ID), Workspace: h.repo.Workspace(), Check: c, Baseline: b.Key, Timeout: 60e9,
		})
		require.NoError(h.t, err)
	}
	return b, asked
}

// scan carries out one check on a change.
func (h *fixture) scan(ws contract.Workspace, id string) (contract.CheckResult, []contract.Finding, contract.TestReportResult) {
	h.t.Helper()
	e := h.begin(contract.PhaseTester, "")
	result, failure := do[contract.CheckResult](h, h.Verify, contract.VerifyInput{
		Execution: e, Workspace: ws, Check: contract.Check{ID: id, Category: contract.CategorySecurity, Name: id}, Timeout: 120e9,
	})
	require.Nil(h.t, failure)
	all, err := h.Store.Findings(h.t.Context(), h.run.ID)
	require.NoError(h.t, err)
	var found []contract.Finding
	for _, f := range all {
		if f.ExecutionID == e.ID {
			found = append(found, f.Finding)
		}
	}
	report, failure := do[contract.TestReportResult](h, h.TestReport, contract.TestReportInput{Execution: e, Thresholds: contract.Thresholds{MaxMedium: 10}})
	require.Nil(h.t, failure)
	return result, found, report
}

// stored is the text of all rows of the database.
func (h *fixture) stored() string {
	h.t.Helper()
	db, err := pgx.Connect(h.t.Context(), h.url)
	require.NoError(h.t, err)
	defer func() { require.NoError(h.t, db.Close(context.WithoutCancel(h.t.Context()))) }()
	rows, err := db.Query(h.t.Context(), `SELECT format('%I.%I', schemaname, tablename) FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')`)
	require.NoError(h.t, err)
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(h.t, err)
	require.NotEmpty(h.t, tables)
	var all strings.Builder
	for _, table := range tables {
		rows, err := db.Query(h.t.Context(), "SELECT t::text FROM "+table+" t")
		require.NoError(h.t, err)
		texts, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(h.t, err)
		all.WriteString(strings.Join(texts, "\n"))
	}
	return all.String()
}

// artifactTexts are the contents of the run's artifacts.
func (h *fixture) artifactTexts() string {
	h.t.Helper()
	kept, err := h.Store.Artifacts(h.t.Context(), h.run.ID)
	require.NoError(h.t, err)
	require.NotEmpty(h.t, kept)
	var all strings.Builder
	for _, a := range kept {
		data, err := h.Artifacts.Get(h.t.Context(), a.Digest)
		require.NoError(h.t, err)
		all.Write(data)
	}
	return all.String()
}

func TestASecretThatTheChangeAddsFailsTheTesterAndIsStoredNowhere(t *testing.T) {
	t.Parallel()
	tools := toolchains()
	if tools.Scanners["gitleaks"] == "" {
		t.Skip("gitleaks is not installed")
	}
	h := newFixture(t, "  []")
	h.Scanners = tools.Scanners
	h.commit(map[string]string{"deploy.env": "A=1\nAWS_KEY=" + baseSecret + "\n"})
	require.Nil(t, h.setUpBy("true").Failure)
	_, asked := h.baselineOfScans()
	require.Equal(t, []string{checks.CheckSecrets}, asked)

	result, found, report := h.scan(h.with(h.repo.Workspace(), "hello.txt", "hello\nworld\n"), checks.CheckSecrets)
	require.Equal(t, []any{true, true, 1, 0, false}, []any{result.OK, result.KnownOnly, result.Known, result.Major, result.Skipped}, "%+v", result)
	require.Nil(t, report.Failure)
	require.Len(t, found, 1, "what the base has is shown")
	require.Equal(t, []any{contract.FindingKnown, "deploy.env:2"}, []any{found[0].Status, found[0].Location})

	result, found, report = h.scan(h.with(h.repo.Workspace(), "notify.py", "token = \""+changeSecret+"\"\n"), checks.CheckSecrets)
	require.Equal(t, []any{false, 1, 1}, []any{result.OK, result.Known, result.Major}, "%+v", result)
	require.Len(t, found, 2)
	i := slices.IndexFunc(found, func(f contract.Finding) bool { return f.Status == contract.FindingNew })
	require.Equal(t, []any{contract.SeverityMajor, contract.CategorySecurity, "notify.py:1", "slack-bot-token"},
		[]any{found[i].Severity, found[i].Category, found[i].Location, found[i].Rule})
	require.NotNil(t, report.Failure)
	require.Equal(t, contract.CodeFindings, report.Failure.Code)
	require.Contains(t, report.Failure.Message, "notify.py:1: Identified a Slack Bot token")

	for name, text := range map[string]string{"the database": h.stored(), "an artifact": h.artifactTexts()} {
		require.Contains(t, text, "notify.py:1", name)
		require.NotContains(t, text, changeSecret, name)
		require.NotContains(t, text, baseSecret, name)
	}
}

// registry answers npm audit in place of npm, and probes: an audit finds the advisories of the moment.
type registry struct {
	sandbox.Runner
	mu      sync.Mutex
	absent  string // a program that is not installed
	reports string // "": the registry cannot be reached
	audits  int

	commands []sandbox.Command
}

var reportFile = regexp.MustCompile(`\.rgpt-verify/\S+\.json`)

func (r *registry) Run(ctx context.Context, c sandbox.Command) (sandbox.Result, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.commands = append(r.commands, c)
	args := strings.Join(c.Args, " ")
	switch {
	case r.absent != "" && strings.Contains(args, r.absent):
		return sandbox.Result{ExitCode: 1}, nil
	case strings.Contains(args, "npm audit"):
		r.audits++
		if r.reports == "" {
			return sandbox.Result{ExitCode: 1, Stderr: []byte("npm error ENOTFOUND registry.npmjs.org\n")}, nil
		}
		return sandbox.Result{ExitCode: 1}, os.WriteFile(filepath.Join(c.Root, reportFile.FindString(args)), []byte(r.reports), 0o600)
	}
	return r.Runner.Run(ctx, c)
}

func (r *registry) set(reports string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reports = reports
}

const (
	oneAdvisory   = `{"vulnerabilities":{"a":{"via":[{"title":"Old","name":"a","severity":"high","url":"https://github.com/advisories/GHSA-aaaa-aaaa-aaaa","range":"<2"}]}}}`
	twoAdvisories = `{"vulnerabilities":{"a":{"via":[{"title":"Old","name":"a","severity":"high","url":"https://github.com/advisories/GHSA-aaaa-aaaa-aaaa","range":"<2"},{"title":"New","name":"a","severity":"high","url":"https://github.com/advisories/GHSA-bbbb-bbbb-bbbb","range":"<3"}]}}}`
)

// audited makes the run one of a Node project whose audits a registry answers.
func audited(t *testing.T, reports string) (*fixture, *registry) {
	t.Helper()
	h := newFixture(t, "  []")
	process, err := sandbox.NewProcess(sandbox.Options{Toolchains: toolchains(), Executable: sandboxtest.Executable(t), DataDir: h.dataDir})
	require.NoError(t, err)
	if toolchains().Versions["npm"] == "" {
		t.Skip("npm is not installed")
	}
	r := &registry{Runner: process, reports: reports}
	h.Sandbox = r
	h.Config.Verification.Security.Network = []string{"registry.npmjs.org"}
	h.commit(map[string]string{"package.json": "{}\n", "package-lock.json": "{\"lockfileVersion\": 3, \"packages\": {}}\n"})
	require.Nil(t, h.setUpBy("true").Failure)
	return h, r
}

// age makes the results of the baseline old.
func (h *fixture) age(interval string) {
	h.t.Helper()
	db, err := pgx.Connect(h.t.Context(), h.url)
	require.NoError(h.t, err)
	defer func() { require.NoError(h.t, db.Close(context.WithoutCancel(h.t.Context()))) }()
	_, err = db.Exec(h.t.Context(), "UPDATE orchestrator_baseline_checks SET created_at = created_at - $1::text::interval", interval)
	require.NoError(h.t, err)
}

func TestAVulnerabilityThatBecameKnownSinceTheBaselineIsNotTheChanges(t *testing.T) {
	t.Parallel()
	h, registry := audited(t, oneAdvisory)
	_, asked := h.baselineOfScans()
	require.Contains(t, asked, "security-node")
	change := h.with(h.repo.Workspace(), "hello.txt", "hello\nworld\n")

	registry.set(twoAdvisories)
	result, _, _ := h.scan(change, "security-node")
	require.Equal(t, []any{false, 1, 1}, []any{result.OK, result.Known, result.Major}, "the base was scanned just now, so the change is at fault")
	require.Equal(t, 2, registry.audits)

	h.age("2 hours")
	result, found, report := h.scan(change, "security-node")
	require.Equal(t, []any{true, 2, 0}, []any{result.OK, result.Known, result.Major}, "%+v", found)
	require.Nil(t, report.Failure)
	require.Equal(t, 4, registry.audits, "the base was scanned again")

	result, _, _ = h.scan(change, "security-node")
	require.True(t, result.OK)
	require.Equal(t, 5, registry.audits, "once")

	h.age("2 hours")
	_, asked = h.baselineOfScans()
	require.Contains(t, asked, "security-node", "the next run scans the base again")
}

func TestAScanWithoutItsDatabaseNeitherPassesNorFailsARun(t *testing.T) {
	t.Parallel()
	h, registry := audited(t, "")
	b, _ := h.baselineOfScans()
	stored, err := h.Store.Baseline(t.Context(), b.Key)
	require.NoError(t, err)
	base, ok := stored.Check("security-node")
	require.True(t, ok)
	require.True(t, base.Result.Skipped)
	change := h.with(h.repo.Workspace(), "hello.txt", "hello\nworld\n")
	result, found, report := h.scan(change, "security-node")
	require.Equal(t, []any{true, contract.CodeUnavailable, 1, 0}, []any{result.Skipped, result.Code, result.Known, result.Minor}, "%+v", result)
	require.Contains(t, result.Message, "skipped: the vulnerability database of npm audit cannot be reached")
	require.Contains(t, result.Message, "allow registry.npmjs.org in verification.security.network")
	require.Equal(t, []any{verdict.RuleUnavailable, contract.FindingKnown}, []any{found[0].Rule, found[0].Status})
	require.Nil(t, report.Failure)

	registry.set(oneAdvisory)
	result, _, report = h.scan(change, "security-node")
	require.Equal(t, []any{false, true, 1, 0}, []any{result.Skipped, result.OK, result.Known, result.Major}, "the base was scanned again, and has the same")
	require.Nil(t, report.Failure)

	registry.set("")
	result, found, report = h.scan(change, "security-node")
	require.True(t, result.Skipped)
	require.Equal(t, []any{1, contract.SeverityMedium, contract.FindingNew}, []any{result.Medium, found[0].Severity, found[0].Status}, "the change may have made it impossible")
	require.Nil(t, report.Failure)
}

func TestAScanThatMayNotReachItsDatabaseIsNotRepeatedOnTheBase(t *testing.T) {
	t.Parallel()
	h, registry := audited(t, oneAdvisory)
	h.Config.Verification.Security.Network = nil
	h.setUpWith("true")
	_, asked := h.baselineOfScans()
	require.Contains(t, asked, "security-node")
	h.setUpWith("true")
	_, asked = h.baselineOfScans()
	require.NotContains(t, asked, "security-node")
	result, _, report := h.scan(h.repo.Workspace(), "security-node")
	require.Equal(t, []any{true, contract.CodeForbidden}, []any{result.Skipped, result.Code}, "the change shows it, too")
	require.Nil(t, report.Failure)
	require.Zero(t, registry.audits)
}

func TestACopyOfADatabaseIsVisibleToScansOfDependenciesAlone(t *testing.T) {
	t.Parallel()
	h, registry := audited(t, oneAdvisory)
	database := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(database, "advisory"), nil, 0o600))
	h.Config.Verification.Databases = config.Databases{OSV: database, Rust: filepath.Join(database, "missing")}
	h.setUpWith("true")
	_, asked := h.baselineOfScans()
	require.Contains(t, asked, "security-node")
	seen := map[string][]string{}
	for _, c := range registry.commands {
		for _, m := range c.Mounts {
			if m.Host == database {
				seen[c.Args[len(c.Args)-1]] = append(seen[c.Args[len(c.Args)-1]], m.Inside)
			}
			require.NotContains(t, m.Host, "missing", "a directory that this host lacks is no reason to fail")
		}
	}
	require.Equal(t, map[string][]string{"npm": {"/var/lib/vulnerabilities/osv"}, "--package-lock-only": {"/var/lib/vulnerabilities/osv"}}, seen)
}

func TestAScannerThatIsNotInstalledIsAskedForOnce(t *testing.T) {
	t.Parallel()
	h, registry := audited(t, oneAdvisory)
	registry.absent = "sh npm"
	h.Config.Verification.Security.Enabled = config.Auto
	_, asked := h.baselineOfScans()
	require.Contains(t, asked, "security-node")
	_, asked = h.baselineOfScans()
	require.NotContains(t, asked, "security-node", "another run of the same commit and tools")
	plan, failure := do[contract.TestPlanResult](h, h.PlanTests, contract.TestPlanInput{Execution: h.begin(contract.PhaseTester, ""), Workspace: h.repo.Workspace()})
	require.Nil(t, failure)
	for _, c := range slices.Concat(plan.Stages...) {
		require.NotEqual(t, "security-node", c.ID)
	}
	h.Scanners = map[string]string{"osv-scanner": "2.3.1"}
	_, asked = h.baselineOfScans()
	require.Contains(t, asked, "security-node", "the tools have changed")
}
