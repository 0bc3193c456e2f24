package output

import (
	"regexp"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/fault"
)

// Limits on the data kept from the output of hostile tools.
const (
	MaxFindings    = 500
	MaxCases       = 20_000
	MaxMessage     = 1_000 // bytes of the message of a finding or case
	maxName        = 300   // bytes of the name of a case or rule
	MaxReportBytes = 8 << 20
	maxLine        = 64 << 10
)

// ansi matches escape sequences for colours and cursor movement: CSI, OSC and short ones.
var ansi = regexp.MustCompile("\x1b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)?|[@-Z\\\\-_])")

// Clean makes a tool's text safe to display: valid UTF-8 without terminal codes and control
// characters.
func Clean(s string) string {
	s = strings.ToValidUTF8(s, "�")
	if strings.IndexByte(s, 0x1b) >= 0 {
		s = ansi.ReplaceAllString(s, "")
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r < 0x20, r >= 0x7f && r < 0xa0:
			return -1
		case r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
			return -1 // reorders the text around it
		}
		return r
	}, s)
}

// Message cleans and shortens a text for findings and cases.
func Message(s string) string {
	return fault.Clip(strings.TrimSpace(Clean(Bound(s, 8*MaxMessage))), MaxMessage)
}

// Name cleans and shortens a text to a single-line name of a case or rule.
func Name(s string) string {
	return fault.Clip(strings.Join(strings.Fields(Clean(Bound(s, 8*maxName))), " "), maxName)
}

// Bound limits the cost of cleaning a text.
func Bound(s string, n int) string {
	if len(s) > n {
		return s[:n]
	}
	return s
}

// Lines splits an output into lines without line endings. Overlong lines are cut.
func Lines(data []byte) []string {
	text := strings.ReplaceAll(strings.ToValidUTF8(string(data), "�"), "\r\n", "\n")
	all := strings.Split(text, "\n")
	for i := range all {
		all[i] = Bound(all[i], maxLine)
	}
	return all
}
