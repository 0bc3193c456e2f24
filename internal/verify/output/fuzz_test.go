package output

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rocketgpt/orchestrator/contract"
)

// fuzzFormat feeds a parser anything. The result must be limited, presentable and
// inside the checkout.
func fuzzFormat(f *testing.F, format Format, dir string) {
	f.Helper()
	files, _ := filepath.Glob(filepath.Join("testdata", dir, "*"))
	for _, file := range files {
		if data, err := os.ReadFile(file); err == nil && len(data) < 64<<10 {
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Parse(format, data, inWorkspace, len(data)%2 == 0)
		if err != nil {
			return
		}
		for _, c := range p.Cases {
			switch c.Status {
			case contract.TestPassed, contract.TestFailed, contract.TestSkipped, contract.TestFlaky:
			default:
				t.Fatalf("status %q", c.Status)
			}
			harmless(t, c.Name, maxName)
			harmless(t, c.Message, MaxMessage)
			inside(t, c.Location)
			inside(t, c.File)
			if c.DurationMS < 0 {
				t.Fatalf("duration %d", c.DurationMS)
			}
		}
		for _, q := range p.Problems {
			harmless(t, q.Message, MaxMessage)
			harmless(t, q.Rule, maxName)
			harmless(t, q.Package, maxName)
			inside(t, q.Location())
		}
	})
}

func harmless(t *testing.T, s string, limit int) {
	t.Helper()
	if !utf8.ValidString(s) || strings.ContainsRune(s, 0x1b) || strings.ContainsRune(s, 0) || len(s) > limit {
		t.Fatalf("text %q", s)
	}
}

func inside(t *testing.T, p string) {
	t.Helper()
	if p == "" {
		return
	}
	harmless(t, p, maxName+20)
	if strings.HasPrefix(p, "/") || p == ".." || strings.HasPrefix(p, "../") {
		t.Fatalf("path %q", p)
	}
}

func FuzzGoTest(f *testing.F)     { fuzzFormat(f, FormatGoTest, "gotest") }
func FuzzJUnit(f *testing.F)      { fuzzFormat(f, FormatJUnit, "junit") }
func FuzzSARIF(f *testing.F)      { fuzzFormat(f, FormatSARIF, "sarif") }
func FuzzPlaywright(f *testing.F) { fuzzFormat(f, FormatPlaywright, "playwright") }
func FuzzTAP(f *testing.F)        { fuzzFormat(f, FormatTAP, "tap") }
func FuzzUnittest(f *testing.F)   { fuzzFormat(f, FormatUnittest, "unittest") }
func FuzzCargo(f *testing.F)      { fuzzFormat(f, FormatCargo, "cargo") }
func FuzzFileList(f *testing.F)   { fuzzFormat(f, FormatFileList, "text") }
func FuzzText(f *testing.F)       { fuzzFormat(f, FormatExitCode, "text") }

func FuzzSniff(f *testing.F) {
	f.Add([]byte("TAP version 13\n"))
	f.Fuzz(func(_ *testing.T, data []byte) { Sniff(data) })
}

func FuzzGoText(f *testing.F) {
	f.Add([]byte(`{"Action":"output","Output":"x"}`+"\n"), 3)
	f.Fuzz(func(_ *testing.T, data []byte, size int) {
		var g GoText
		size = max(1, size%1000)
		for n := 0; n < len(data); n += size {
			g.Convert(data[n:min(len(data), n+size)])
		}
		g.Rest()
	})
}

func FuzzTestRunnerText(f *testing.F) { fuzzFormat(f, formatRunners, "runners") }

func FuzzJest(f *testing.F) { fuzzFormat(f, FormatJest, "jest") }

func FuzzAva(f *testing.F) { fuzzFormat(f, FormatAva, "ava") }

func FuzzGovulncheck(f *testing.F) { fuzzFormat(f, FormatGovulncheck, "govulncheck") }
func FuzzNPMAudit(f *testing.F)    { fuzzFormat(f, FormatNPMAudit, "npmaudit") }
func FuzzYarnAudit(f *testing.F)   { fuzzFormat(f, FormatYarnAudit, "yarnaudit") }
func FuzzBunAudit(f *testing.F)    { fuzzFormat(f, FormatBunAudit, "bunaudit") }
func FuzzPipAudit(f *testing.F)    { fuzzFormat(f, FormatPipAudit, "pipaudit") }
func FuzzCargoAudit(f *testing.F)  { fuzzFormat(f, FormatCargoAudit, "cargoaudit") }
func FuzzOSV(f *testing.F)         { fuzzFormat(f, FormatOSV, "osvscanner") }
func FuzzGitleaks(f *testing.F)    { fuzzFormat(f, FormatGitleaks, "gitleaks") }
