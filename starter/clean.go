package main

import (
	"strings"
	"unicode"
)

// cleanMost is how much of one text is shown on a line.
const cleanMost = 400

// clean makes hostile text fit for a terminal: one line of visible characters,
// not too long. What it takes out could move the cursor, change colours, answer
// as if it were typed, turn the direction of the text or hide parts of it.
func clean(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t', r == '\u2028', r == '\u2029':
			return ' '
		case r == '\u200d': // joins emoji; harmless
			return r
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r):
			return -1
		}
		return r
	}, s)
	if r := []rune(s); len(r) > cleanMost {
		s = string(r[:cleanMost]) + "…"
	}
	return s
}

// cleanLines is clean for a text of several lines, which it keeps.
func cleanLines(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = cleanLine(l)
	}
	return strings.Join(lines, "\n")
}

// cleanLine is clean for a line of any length.
func cleanLine(s string) string {
	var b strings.Builder
	for r := []rune(s); len(r) > 0; {
		n := min(len(r), cleanMost)
		b.WriteString(clean(string(r[:n])))
		r = r[n:]
	}
	return b.String()
}
