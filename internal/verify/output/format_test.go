package output

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/fault"
)

var update = flag.Bool("update", false, "write golden files instead of comparing them")

// golden is a parser's result for a file, in a form that people can review.
func golden(t *testing.T, file string, p Results) {
	t.Helper()
	var b strings.Builder
	for _, c := range p.Cases {
		fmt.Fprintf(&b, "case %s %q %dms file=%s at=%s\n%s", c.Status, c.Name, c.DurationMS, Location(c.File, c.Line), c.Location, indented(c.Message))
	}
	for _, q := range p.Problems {
		grade := string(q.Level)
		if q.Severity != "" {
			grade += " " + string(q.Severity)
		}
		fmt.Fprintf(&b, "problem %s at=%s rule=%s\n%s", grade, q.Location(), q.Rule, indented(q.Message))
	}
	for _, a := range p.Attachments {
		fmt.Fprintf(&b, "artifact %s %q %s\n", a.Kind, a.Test, a.Path)
	}
	if p.Unexplained {
		b.WriteString("unexplained\n")
	}
	if p.Reported != nil {
		fmt.Fprintf(&b, "sum %d passed, %d failed, %d skipped\n", p.Reported.Passed, p.Reported.Failed, p.Reported.Skipped)
	}
	want := file + ".golden"
	if *update {
		require.NoError(t, os.WriteFile(want, []byte(b.String()), 0o644))
		return
	}
	data, err := os.ReadFile(want)
	require.NoError(t, err)
	require.Equal(t, string(data), b.String())
}

func indented(s string) string {
	if s == "" {
		return ""
	}
	return "    " + strings.ReplaceAll(s, "\n", "\n    ") + "\n"
}

// inWorkspace is a command that ran at the root of the sandbox's workspace.
var inWorkspace = Paths{Root: "/srv/checkout", GoDirs: map[string]string{"example.com/m": "."}}

func TestReportsAreReadAsRecorded(t *testing.T) {
	t.Parallel()
	formats := map[string]Format{
		"gotest": FormatGoTest, "junit": FormatJUnit, "sarif": FormatSARIF, "tap": FormatTAP, "playwright": FormatPlaywright,
		"unittest": FormatUnittest, "cargo": FormatCargo, "text": FormatExitCode,
		"runners": formatRunners, "jest": FormatJest, "ava": FormatAva,
		"govulncheck": FormatGovulncheck, "npmaudit": FormatNPMAudit, "yarnaudit": FormatYarnAudit, "bunaudit": FormatBunAudit,
		"pipaudit": FormatPipAudit, "cargoaudit": FormatCargoAudit, "osvscanner": FormatOSV, "gitleaks": FormatGitleaks,
	}
	files, err := filepath.Glob("testdata/*/*")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		if strings.HasSuffix(file, ".golden") || strings.Contains(file, "fuzz") {
			continue
		}
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			format, known := formats[filepath.Base(filepath.Dir(file))]
			require.True(t, known)
			p, err := Parse(format, data, inWorkspace, false)
			require.NoError(t, err)
			golden(t, file, p)
		})
	}
}

func TestFormatsAreRecognised(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Format{
		"TAP version 13\nok 1\n": FormatTAP,
		"1..3\nok 1\n":           FormatTAP,
		"\n <?xml version='1.0'?><testsuites></testsuites>": FormatJUnit,
		`{"Time":"t","Action":"start","Package":"m"}`:       FormatGoTest,
		`{"version":"2.1.0","runs":[]}`:                     FormatSARIF,
		`{"config":{"rootDir":"/x"},"suites":[]}`:           FormatPlaywright,
		"hello":         FormatExitCode,
		"<html></html>": FormatExitCode,
		`{"a":1}`:       FormatExitCode,
		"":              FormatExitCode,
	} {
		require.Equal(t, want, Sniff([]byte(text)), text)
	}
}

func TestXMLBombsAreRefused(t *testing.T) {
	t.Parallel()
	bombs := map[string]string{
		"deep":     strings.Repeat("<testsuite>", 5000) + strings.Repeat("</testsuite>", 5000),
		"entities": `<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]><testsuite name="&b;"/>`,
		"wide":     "<testsuite>" + strings.Repeat("<a/>", maxXMLElements+1) + "</testsuite>",
		"large":    "<testsuite>" + strings.Repeat(" ", MaxReportBytes) + "</testsuite>",
		"empty":    "",
		"no end":   "<testsuite><testcase name='a'>",
		"crossed":  "<testsuite><testcase></testsuite></testcase>",
	}
	for name, bomb := range bombs {
		_, err := parseJUnit([]byte(bomb), inWorkspace)
		require.Error(t, err, name)
	}
}

func TestPathsOfToolsStayInsideTheCheckout(t *testing.T) {
	t.Parallel()
	s := Paths{Root: "/srv/checkout", Dir: "web"}
	for p, want := range map[string]string{
		"a.js": "web/a.js", "./a.js": "web/a.js", "../b/c.go": "b/c.go", "../../etc/passwd": "", "/etc/passwd": "",
		"/workspace/x.py": "x.py", "/workspace": "", "/workspace/../etc/passwd": "", "/srv/checkout/y.py": "y.py",
		"file:///workspace/a%20b.js": "a b.js", "/srv/checkout2/z": "", "": "", "/workspace/.rgpt-verify/r.xml": "", "..": "",
	} {
		require.Equal(t, want, s.Rel(p), p)
	}
}

func TestTextsOfToolsAreMadeHarmless(t *testing.T) {
	t.Parallel()
	require.Equal(t, "red and bold", Clean("\x1b[31mred\x1b[0m \x1b[1;4mand\x1b[m\x1b]0;title\x07 bold"))
	require.Equal(t, "a\tb\nc", Clean("a\tb\nc\x00\x08\r"))
	require.Equal(t, "bad � bytes", Clean("bad \xff\xfe bytes"))
	require.Equal(t, "evil txt.exe", Clean("evil \u202etxt.exe"))
	require.Len(t, Message(strings.Repeat("é", 5000)), MaxMessage)
	require.True(t, strings.HasSuffix(fault.Clip(strings.Repeat("é", 500), 100), "… "[:3]))
}

func TestGoTestOutputIsShownAsTextHoweverItIsCut(t *testing.T) {
	t.Parallel()
	in := `{"Action":"output","Package":"m","Output":"=== RUN   TestA\n"}` + "\n" + "plain line\n" + `{"Action":"pass","Package":"m"}` + "\n" + `{"Action":"output","Output":"end"}`
	for size := 1; size < len(in); size += 7 {
		var g GoText
		var out []byte
		for n := 0; n < len(in); n += size {
			out = append(out, g.Convert([]byte(in[n:min(len(in), n+size)]))...)
		}
		out = append(out, g.Rest()...)
		require.Equal(t, "=== RUN   TestA\nplain line\nend", string(out))
	}
}
