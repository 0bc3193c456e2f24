package forge

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

// Lines are the lines of new files that are part of a change, with their context: those that forges
// accept comments on. The value is the line's number in the old file, 0 if it was added.
type Lines map[string]map[int]int

// hunk matches the header of a hunk of a unified diff.
var hunk = regexp.MustCompile(`^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@`)

// Add adds the lines of a file by its diff.
func (l Lines) Add(path, diff string) {
	lines := l[path]
	if lines == nil {
		lines = map[int]int{}
		l[path] = lines
	}
	inside, before, after := false, 0, 0
	for text := range strings.Lines(diff) {
		if found := hunk.FindStringSubmatch(text); found != nil {
			before, _ = strconv.Atoi(found[1])
			after, _ = strconv.Atoi(found[2])
			inside = true
			continue
		}
		if !inside {
			continue
		}
		switch text[0] {
		case '+':
			lines[after] = 0
			after++
		case ' ', '\n':
			lines[after] = before
			after++
			before++
		case '-':
			before++
		}
	}
}

// Has reports whether a line is part of the change.
func (l Lines) Has(path string, line int) bool {
	_, ok := l[path][line]
	return ok
}

// Place separates comments on lines that are part of the change from the others.
func Place(comments []LineComment, lines Lines) (placed, rest []LineComment) {
	for _, one := range comments {
		if lines.Has(one.Path, one.Line) {
			placed = append(placed, one)
		} else {
			rest = append(rest, one)
		}
	}
	return placed, rest
}

// WithUnplaced returns a review's text with the comments that are on no line of the change.
func WithUnplaced(body string, rest []LineComment) string {
	parts := []string{}
	if body != "" {
		parts = append(parts, body)
	}
	for _, one := range rest {
		parts = append(parts, fmt.Sprintf("`%s`, line %d:\n\n%s", strings.Map(inCode, one.Path), one.Line, one.Body))
	}
	return strings.Join(parts, "\n\n")
}

// inCode replaces characters that would end inline code or that readers do not see.
func inCode(r rune) rune {
	switch {
	case r == '`':
		return '\''
	case unicode.IsSpace(r) || unicode.IsControl(r):
		return ' '
	case unicode.Is(unicode.Cf, r):
		return -1
	}
	return r
}
