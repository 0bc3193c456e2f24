package output

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Hostile outputs, made to be expensive.
func TestNoOutputIsTooDearToRead(t *testing.T) {
	t.Parallel()
	const size = 512 << 10
	fill := func(format string) []byte {
		var b strings.Builder
		for n := 0; b.Len() < size; n++ {
			fmt.Fprintf(&b, format, n)
		}
		return []byte(b.String())
	}
	deep := strings.Repeat("a/", 30_000)
	for name, c := range map[string]struct {
		format Format
		data   []byte
	}{
		"go: deep names":    {FormatGoTest, fill(`{"Action":"run","Package":"m","Test":"T%d/` + deep + `"}` + "\n")},
		"go: many tests":    {FormatGoTest, fill(`{"Action":"fail","Package":"m","Test":"T%d"}` + "\n")},
		"tap: groups":       {FormatTAP, fill("    not ok 1 - a\nnot ok %d - b\n")},
		"tap: long titles":  {FormatTAP, fill("        ok 1 - a\n    ok %d - " + deep + "\nok 2 - b\n")},
		"unittest: reports": {FormatUnittest, fill("=====\nFAIL: t%d (a.B)\n-----\n")},
		"cargo: panics":     {FormatCargo, fill("test t ... FAILED\n---- t stdout ----\npanicked at a.rs:1:2\n%d\n")},
		"runners: sums":     {formatRunners, []byte(strings.Repeat("ℹ tests 1\nℹ pass 1\n", 60_000))},
		"runners: failures": {formatRunners, []byte(strings.Repeat("  1 test failed\n\nℹ tests 1\nℹ pass 0\n", 40_000))},
		"runners: files":    {formatRunners, []byte(strings.Repeat(" FAIL  a.js > b\n", 80_000))},
		"text: places":      {FormatExitCode, fill("src/a.go:%d:2: message\n")},
		"text: no end":      {FormatExitCode, []byte(strings.Repeat("a:", size/2))},
		"sarif: rules": {FormatSARIF, []byte(`{"version":"2.1.0","runs":[{"tool":{"driver":{"rules":[` + strings.TrimSuffix(string(fill(`{"id":"r%d"},`)), ",") +
			`]}},"results":[` + strings.TrimSuffix(string(fill(`{"ruleId":"x%d"},`)), ",") + `]}]}`)},
		"playwright: deep":  {FormatPlaywright, []byte(`{"suites":` + strings.Repeat(`[{"title":"t","specs":[{"tests":[{}]}],"suites":`, 4000) + `[]` + strings.Repeat(`}]`, 4000) + `}`)},
		"govulncheck: many": {FormatGovulncheck, append([]byte(`{"config":{}}`), fill(`{"finding":{"osv":"GO-%d","trace":[{"module":"m","function":"f"}]}}`)...)},
		"npm audit: many":   {FormatNPMAudit, []byte(`{"vulnerabilities":{"a":{"via":[` + strings.TrimSuffix(string(fill(`{"source":%d,"title":"`+deep[:900]+`"},`)), ",") + `]}}}`)},
		"osv-scanner: many": {FormatOSV, []byte(`{"results":[{"packages":[{"groups":[` + strings.TrimSuffix(string(fill(`{"ids":["X-%d","Y"]},`)), ",") + `],"vulnerabilities":[{"id":"Y","affected":[{"ranges":[{"events":[` + strings.TrimSuffix(string(fill(`{"fixed":"%d"},`)), ",") + `]}]}]}]}]}]}`)},
		"cargo audit: many": {FormatCargoAudit, []byte(`{"vulnerabilities":{"list":[` + strings.TrimSuffix(string(fill(`{"advisory":{"id":"R%d","cvss":"CVSS:4.0/AV:N/AC:L/AT:N/PR:N/UI:N/VC:H/VI:H/VA:H/SC:N/SI:N/SA:N"}},`)), ",") + `]}}`)},
		"gitleaks: many":    {FormatGitleaks, []byte(`[` + strings.TrimSuffix(string(fill(`{"RuleID":"r%d","File":"a/b"},`)), ",") + `]`)},
		"junit: wide":       {FormatJUnit, []byte("<testsuite>" + string(fill(`<testcase name="%d"/>`)) + "</testsuite>")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			started := time.Now()
			_, err := Parse(c.format, c.data, inWorkspace, false)
			require.NoError(t, err)
			// Quadratic work on these sizes takes minutes.
			require.Less(t, time.Since(started), 40*time.Second)
		})
	}
}
