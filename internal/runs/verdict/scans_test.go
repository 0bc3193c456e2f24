package verdict_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/runs/verdict"
)

// scan is a scan with findings, which fails if one is major.
func scan(findings ...contract.Finding) verdict.Recorded {
	r := verdict.Recorded{Result: contract.CheckResult{Check: check("security-go", contract.CategorySecurity), OK: true}}
	for _, f := range findings {
		r = with(r, f)
		if f.Severity == contract.SeverityMajor {
			r.Result.OK, r.Result.Code, r.Result.Message = false, contract.CodeCheckFailed, f.Message
		}
	}
	return r
}

// skippedScan is a scan that could not judge the commit.
func skippedScan() verdict.Recorded {
	r := scan(security(contract.SeverityMinor, verdict.RuleUnavailable, "skipped: the database cannot be reached", ""))
	r.Result.Skipped, r.Result.Code, r.Result.Message = true, contract.CodeUnavailable, "skipped: the database cannot be reached"
	return r
}

// missingScanner is a scan whose scanner is not installed.
func missingScanner() verdict.Recorded {
	r := scan()
	r.Result.Skipped, r.Result.Code, r.Result.Message = true, contract.CodeMissing, "skipped: pip-audit is not installed"
	return r
}

func security(s contract.Severity, rule, message, location string) contract.Finding {
	f := finding(s, rule, message, location)
	f.Category = contract.CategorySecurity
	return f
}

func TestOnlyVulnerabilitiesThatTheBaseDidNotHaveCount(t *testing.T) {
	t.Parallel()
	const major, medium, minor = contract.SeverityMajor, contract.SeverityMedium, contract.SeverityMinor
	imported := security(minor, "GO-2021-0113", "golang.org/x/text: Out-of-bounds read; imported, but not called", "go.mod:5")
	called := security(major, "GO-2021-0113", "golang.org/x/text: Out-of-bounds read; the code calls it", "a.go:7")
	npm := security(major, "GHSA-35jh-r3h4-6jhm", "lodash: Command Injection; affected versions: <4.17.21", "package-lock.json:9")
	npmReworded := security(major, "GHSA-35jh-r3h4-6jhm", "lodash: Command injection; affected versions: <4.17.22", "package-lock.json:8")
	otherPackage := security(major, "GHSA-35jh-r3h4-6jhm", "lodash-es: Command Injection; affected versions: <4.17.21", "package-lock.json:30")
	secret := security(major, "aws-access-token", "AWS credentials (fingerprint 1a2b)", "a.env:2")
	otherSecret := security(major, "aws-access-token", "AWS credentials (fingerprint 3c4d)", "a.env:2")
	lint := security(medium, "G101", "Potential hardcoded credentials: one", "a.go:3")
	otherLint := security(medium, "G101", "Potential hardcoded credentials: other", "b.go:3")
	for name, c := range map[string]struct {
		base, now            verdict.Recorded
		ok, knownOnly        bool
		major, medium, minor int
		known                int
	}{
		"the same":                                 {scan(called, npm), scan(called, npm), true, true, 0, 0, 0, 2},
		"a new one":                                {scan(npm), scan(npm, called), false, false, 1, 0, 0, 1},
		"an import that becomes a call":            {scan(imported), scan(called), false, false, 1, 0, 0, 0},
		"a call that becomes an import":            {scan(called), scan(imported), true, false, 0, 0, 0, 1},
		"a reworded advisory":                      {scan(npm), scan(npmReworded), true, true, 0, 0, 0, 1},
		"the same advisory of another dependency":  {scan(npm), scan(otherPackage), false, false, 1, 0, 0, 0},
		"a new minor one beside a known major one": {scan(npm), scan(npm, imported), true, true, 0, 0, 1, 1},
		"a secret":                                 {scan(), scan(secret), false, false, 1, 0, 0, 0},
		"another secret instead":                   {scan(secret), scan(otherSecret), false, false, 1, 0, 0, 0},
		"other findings of a rule":                 {scan(lint), scan(otherLint), true, false, 0, 1, 0, 0},
		"a scan that is impossible":                {scan(npm), skippedScan(), true, false, 0, 1, 0, 0},
		"that always was":                          {skippedScan(), skippedScan(), true, false, 0, 0, 0, 1},
		"a scanner that is no longer installed":    {scan(npm), missingScanner(), true, false, 0, 1, 0, 0},
		"that never was":                           {missingScanner(), missingScanner(), true, false, 0, 0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := verdict.Compare(c.base, c.now, nil, verdict.PinnedEnforce)
			r := got.Result
			require.Equal(t, []any{c.ok, c.knownOnly, c.major, c.medium, c.minor, c.known}, []any{r.OK, r.KnownOnly, r.Major, r.Medium, r.Minor, r.Known}, "%+v", got)
			if c.now.Result.Skipped {
				require.Empty(t, got.Fixed, "it is unknown what still occurs")
				require.True(t, r.Skipped)
				require.Nil(t, verdict.Of([]contract.CheckResult{r}, contract.Thresholds{}).Failure)
			}
		})
	}
}

func TestAScanSkippedForALackOfScannersDoesNotFailAChange(t *testing.T) {
	t.Parallel()
	got := verdict.Baseline{Checks: []verdict.Recorded{scan()}}.Compare(missingScanner(), nil, verdict.PinnedEnforce)
	require.Equal(t, []any{true, true, contract.CodeMissing, 1}, []any{got.Result.OK, got.Result.Skipped, got.Result.Code, got.Result.Medium}, "%+v", got)
}
