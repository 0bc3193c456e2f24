package fault

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

var (
	// ansi matches the escape sequences for colours and cursor movement.
	ansi = regexp.MustCompile("\x1b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)?|[@-Z\\\\-_])")
	// prefixes matches the prefixes that wrappers add to each line: step and seconds in image
	// builds, timestamps in continuous integration.
	prefixes = regexp.MustCompile(`(?m)^(?:#\d+ \d+\.\d+ |\d{4}-\d\d-\d\dT[\d:.]+Z )`)
	// logins matches a password in a URL.
	logins = regexp.MustCompile(`://[^/\s@]+@`)
	// telling matches a line that describes an error.
	telling = regexp.MustCompile(`(?i)error|fail|fatal|cannot|could not|not found|denied|invalid|panic|exception|killed|abort`)
	// follows matches lines that only report that something else has failed.
	follows = regexp.MustCompile(`^(?:g?make(?:\[\d+\])?: \*\*\*|npm (?:ERR!|error)|note: |error: (?:subprocess-exited|metadata-generation|could not compile|command failed|recipe|script)|tar: (?:Child|Error is not|Exiting)|##\[error\]|Error: Process completed|exit status \d+$|error Command failed|BEGIN failed|.* had compilation errors|ERROR: failed to solve|.*ELIFECYCLE|.* exited with (?:code|status) \d+)`)
)

// readable prepares an output for searching: only its head and tail, as valid UTF-8, without
// control characters and wrappers' prefixes, with long lines truncated.
func readable(s string) string {
	if left := len(s) - MaxScanHead - MaxScanTail; left > 0 {
		s = s[:MaxScanHead] + fmt.Sprintf("\n[%d bytes omitted]\n", left) + s[len(s)-MaxScanTail:]
	}
	s = strings.ToValidUTF8(s, "�")
	if strings.IndexByte(s, 0x1b) >= 0 {
		s = ansi.ReplaceAllString(s, "")
	}
	s = strings.ReplaceAll(s, "\r\n", "\n")
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r == '\r':
			return '\n'
		case r < 0x20, r >= 0x7f && r < 0xa0:
			return -1
		case r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
			return -1 // reorders the text around it
		}
		return r
	}, s)
	s = prefixes.ReplaceAllString(s, "")
	if len(s) <= maxScanLine {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for line := range strings.Lines(s) {
		if len(line) > maxScanLine {
			line = Clip(line, maxScanLine) + "\n"
		}
		b.WriteString(line)
	}
	return b.String()
}

// Clip truncates a text to n bytes at a rune boundary, and marks the truncation.
func Clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	const mark = " …"
	cut := max(0, n-len(mark))
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + mark
}

// hideLogins removes passwords from URLs, which tools often repeat.
func hideLogins(s string) string { return logins.ReplaceAllString(s, "://***@") }

// oneLine returns a text as one line of at most n bytes.
func oneLine(s string, n int) string {
	const factor = 4 // allows for removed spaces and control characters
	s = strings.ToValidUTF8(Clip(s, factor*n), "�")
	s = strings.Map(func(r rune) rune {
		if r < 0x20 || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			return ' '
		}
		return r
	}, s)
	return Clip(hideLogins(strings.Join(strings.Fields(s), " ")), n)
}

// FirstLine returns the first non-blank line.
func FirstLine(s string) string {
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(line); line != "" {
			return line
		}
	}
	return ""
}

// tellingLine returns the last line that describes an error, else the last non-blank line. Lines
// that only repeat that something else failed are the last resort.
func tellingLine(text string) string {
	last, passed := "", ""
	rest := strings.TrimRight(text, "\n")
	for rest != "" {
		i := strings.LastIndexByte(rest, '\n')
		line := strings.TrimSpace(rest[i+1:])
		rest = rest[:max(i, 0)]
		switch {
		case line == "":
		case follows.MatchString(line):
			passed = cmp.Or(passed, line)
		case telling.MatchString(line):
			return line
		default:
			last = cmp.Or(last, line)
		}
	}
	return cmp.Or(last, passed)
}

// WithoutNumbers removes digits, so that messages that differ only in line numbers and times
// compare as equal.
func WithoutNumbers(s string) string {
	const most = 200
	s = strings.Map(func(c rune) rune {
		if c >= '0' && c <= '9' {
			return -1
		}
		return c
	}, s)
	return s[:min(len(s), most)]
}
