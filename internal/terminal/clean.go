// Package terminal makes hostile text safe for a terminal: the result does not move the cursor,
// change colours or hide parts of the text.
package terminal

import (
	"strings"
	"unicode"
)

// maxRunes is the maximum number of characters of a text shown on a line.
const maxRunes = 400

// Clean makes hostile text safe for a terminal: one line of limited length with visible characters
// only. It removes characters that could move the cursor, change colours, inject input, reverse the
// direction of the text or hide parts of it.
func Clean(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\r', r == '\t', r == '\u2028', r == '\u2029':
			return ' '
		case r == '\u200d': // joins emoji; harmless
			return r
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r):
			return -1
		}
		return r
	}, s)
	if r := []rune(s); len(r) > maxRunes {
		s = string(r[:maxRunes]) + "…"
	}
	return s
}

// CleanLines is Clean for a text of several lines, which are kept.
func CleanLines(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = CleanLine(l)
	}
	return strings.Join(lines, "\n")
}

// CleanLine is Clean for a line of any length.
func CleanLine(s string) string {
	var b strings.Builder
	for r := []rune(s); len(r) > 0; {
		n := min(len(r), maxRunes)
		b.WriteString(Clean(string(r[:n])))
		r = r[n:]
	}
	return b.String()
}

// OneLine is Clean with each run of white space reduced to one space, so a model's text does not
// look like program output.
func OneLine(text string) string { return strings.Join(strings.Fields(Clean(text)), " ") }
