package change

import (
	"bytes"
	"strings"
	"unicode"

	"github.com/aymanbagabas/go-udiff"
)

// Line is a line of a text, without its end. Number counts from 1.
type Line struct {
	Number int
	Text   string
}

// AddedLines returns the lines of the new version that the old one does not have, with their numbers
// in the new version. It is empty for what is not text.
func (f File) AddedLines() []Line {
	added, _ := f.Lines()
	return added
}

// Lines returns the lines that the change adds, with their numbers in the new version, and those that
// it removes, with their numbers in the old one. Both are empty for what is not text. A version that
// is not text counts as empty.
func (f File) Lines() (added, removed []Line) {
	before, after := text(f.Before), text(f.After)
	switch {
	case before == after:
		return nil, nil
	case before == "":
		return split(after, 1), nil
	case after == "":
		return nil, split(before, 1)
	}
	oldLine, newLine, at := 1, 1, 0
	for _, e := range udiff.Lines(before, after) {
		same := strings.Count(before[at:e.Start], "\n")
		oldLine, newLine = oldLine+same, newLine+same
		gone := split(before[e.Start:e.End], oldLine)
		came := split(e.New, newLine)
		removed, added = append(removed, gone...), append(added, came...)
		oldLine += strings.Count(before[e.Start:e.End], "\n")
		newLine += strings.Count(e.New, "\n")
		at = e.End
	}
	return added, removed
}

// split returns the lines of a text, the first of which has the given number.
func split(s string, number int) []Line {
	if s == "" {
		return nil
	}
	parts := strings.Split(strings.TrimSuffix(s, "\n"), "\n")
	lines := make([]Line, len(parts))
	for i, p := range parts {
		lines[i] = Line{Number: number + i, Text: strings.TrimSuffix(p, "\r")}
	}
	return lines
}

// text is the content of a version that is text.
func text(v Version) string {
	if !v.Regular() || v.Binary() {
		return ""
	}
	return string(bytes.ToValidUTF8(v.Content, []byte("\uFFFD")))
}

// Clean returns a path or a name for a message: without control and formatting characters, and of at
// most 200 characters.
func Clean(s string) string {
	const most = 200
	s = strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return s
}
