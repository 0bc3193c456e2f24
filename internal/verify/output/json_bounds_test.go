package output

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAReportThatExpandsIsRefused(t *testing.T) {
	t.Parallel()
	many := strings.Repeat("{},", MaxReportBytes/3-100) + "{}"
	for format, doc := range map[Format]string{
		FormatPlaywright: `{"suites":[{"specs":[{"tests":[` + many + `]}]}]}`,
		FormatJest:       `{"testResults":[` + many + `]}`,
		FormatSARIF:      `{"runs":[{"results":[` + many + `]}]}`,
		FormatNPMAudit:   `{"vulnerabilities":{"a":{"via":[` + many + `]}}}`,
		FormatPipAudit:   `{"dependencies":[` + many + `]}`,
		FormatCargoAudit: `{"vulnerabilities":{"list":[` + many + `]}}`,
		FormatOSV:        `{"results":[` + many + `]}`,
		FormatGitleaks:   `[` + many + `]`,
		FormatBunAudit:   `{"a":[` + many + `]}`,
	} {
		_, err := Parse(format, []byte(doc), inWorkspace, false)
		require.ErrorContains(t, err, "more than 400000 objects and arrays", format)
	}
	_, err := Parse(FormatPlaywright, []byte(`{"suites":[{"title":"`+many+`\""}]}`), inWorkspace, false)
	require.NoError(t, err, "brackets in texts are no objects")
}
