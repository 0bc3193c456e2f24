// Package output reads the output and the reports of build tools, test runners and linters: test
// cases, problems and attached files.
//
// All input is hostile. Texts are cut, stripped of terminal codes and made valid UTF-8, paths
// outside the checkout are dropped, and processing time is proportional to the input size.
package output

import (
	"bytes"
	"fmt"
)

// Parse reads data in a known format.
func Parse(f Format, data []byte, s Paths, cut bool) (Results, error) {
	switch f {
	case FormatSARIF, FormatPlaywright, FormatJest, FormatNPMAudit, FormatBunAudit, FormatPipAudit, FormatCargoAudit, FormatOSV, FormatGitleaks:
		if err := checkJSON(data); err != nil {
			return Results{}, err
		}
	default: // read line by line, or checked by its parser
	}
	switch f {
	case FormatGoTest:
		return parseGoTest(data, s, cut), nil
	case FormatJUnit:
		return parseJUnit(data, s)
	case FormatSARIF:
		return parseSARIF(data, s)
	case FormatPlaywright:
		return parsePlaywright(data, s)
	case FormatTAP:
		return parseTAP(data, s, cut), nil
	case FormatUnittest:
		return parseUnittest(data, s), nil
	case FormatJest:
		return parseJest(data, s)
	case FormatAva:
		return parseAva(data, s, cut), nil
	case formatRunners:
		return ParseRunners(data, s), nil
	case FormatCargo:
		return parseCargo(data, s), nil
	case FormatFileList:
		return parseFileList(data, s), nil
	case FormatGovulncheck:
		return parseGovulncheck(data, s)
	case FormatNPMAudit:
		return parseNPMAudit(data)
	case FormatYarnAudit:
		return parseYarnAudit(data)
	case FormatBunAudit:
		return parseBunAudit(data)
	case FormatPipAudit:
		return parsePipAudit(data)
	case FormatCargoAudit:
		return parseCargoAudit(data)
	case FormatOSV:
		return parseOSV(data, s)
	case FormatGitleaks:
		return parseGitleaks(data, s)
	default:
		return Results{Problems: ParseText(data, s)}, nil
	}
}

// maxJSONValues is the maximum number of objects and arrays of a document that is decoded as a whole.
const maxJSONValues = 400_000

// checkJSON rejects documents that would take far more memory than they are long: decoded, an object
// that is three bytes long can take hundreds. Nesting is limited by the decoder.
func checkJSON(data []byte) error {
	if len(data) > MaxReportBytes+1 {
		return ErrTooLarge
	}
	values, text := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case !text && (c == '{' || c == '['):
			values++
		}
	}
	if values > maxJSONValues {
		return fmt.Errorf("it has more than %d objects and arrays", maxJSONValues)
	}
	return nil
}

// Sniff recognizes a format by its first bytes. For an unknown format, the exit code decides.
func Sniff(data []byte) Format {
	head := bytes.TrimLeft(bytes.TrimPrefix(data[:min(len(data), 64<<10)], []byte("\xef\xbb\xbf")), " \t\r\n")
	firstLine, _, _ := bytes.Cut(head, []byte("\n"))
	switch {
	case bytes.HasPrefix(head, []byte("TAP version ")), tapPlan.Match(bytes.TrimSpace(firstLine)):
		return FormatTAP
	case bytes.HasPrefix(head, []byte("<")) && (bytes.Contains(head, []byte("<testsuite")) || bytes.Contains(head, []byte("<testcase"))):
		return FormatJUnit
	case !bytes.HasPrefix(head, []byte("{")):
		return FormatExitCode
	case bytes.Contains(firstLine, []byte(`"Action":"`)) && (bytes.Contains(firstLine, []byte(`"Package":`)) || bytes.Contains(firstLine, []byte(`"ImportPath":`))):
		return FormatGoTest
	case bytes.Contains(head, []byte(`"rootDir"`)) && bytes.Contains(head, []byte(`"config"`)):
		return FormatPlaywright
	case bytes.Contains(head, []byte(`"runs"`)) || bytes.Contains(head, []byte("sarif")):
		return FormatSARIF
	}
	return FormatExitCode
}

// Format names the format of a command's output or report.
type Format string

// The formats. Empty means auto: the report's or the output's first bytes decide.
const (
	FormatAuto       Format = "auto"
	FormatGoTest     Format = "go-test-json"
	FormatJUnit      Format = "junit"
	FormatSARIF      Format = "sarif"
	FormatTAP        Format = "tap"
	FormatPlaywright Format = "playwright"
	FormatExitCode   Format = "exit-code"
)

// Formats used only by detected commands.
const (
	FormatUnittest Format = "unittest"
	FormatCargo    Format = "cargo-test"
	FormatJest     Format = "jest-json"
	FormatAva      Format = "ava-tap"
	formatRunners  Format = "test-runner-text"
	FormatFileList Format = "file-list"

	FormatGovulncheck Format = "govulncheck"
	FormatNPMAudit    Format = "npm-audit" // also of pnpm
	FormatYarnAudit   Format = "yarn-audit"
	FormatBunAudit    Format = "bun-audit"
	FormatPipAudit    Format = "pip-audit"
	FormatCargoAudit  Format = "cargo-audit"
	FormatOSV         Format = "osv-scanner"
	FormatGitleaks    Format = "gitleaks"
)
