package prompt

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
)

// Limits of the planner's notes in a prompt, which is paid for with each call of a conversation.
const (
	// NotesBytes is the maximum size of all notes with their lines.
	NotesBytes = 24 << 10
	// noteLineBytes is the maximum size of one of their lines.
	noteLineBytes = 400
)

// Note is a fact that the planner noted, with the lines that show it.
type Note struct {
	Name string // main.go:3-9
	Body string
}

// NoteSource is a note of a plan, with the file that it is about.
type NoteSource struct {
	contract.Note
	File    string // content of the file on the base commit
	Missing bool   // there is no such file
	Changed bool   // a step has changed the file since
	Moved   bool   // the lines of File have other numbers, because a secret of several lines is left out
}

// Notes renders the notes of a plan for a step, those about the step's own files first. Facts whose
// lines do not fit come without them; what does not fit at all is omitted.
func Notes(notes []NoteSource, step contract.Step, most int) []Note {
	ordered := slices.Clone(notes)
	slices.SortStableFunc(ordered, func(a, b NoteSource) int {
		return cmp.Compare(ofStep(b.Path, step), ofStep(a.Path, step))
	})
	var out []Note
	for _, n := range ordered {
		fact := "Fact: " + n.Fact
		body := fact + n.lines()
		if len(body) > most {
			body = fact + "\n(Read these lines yourself: they do not fit here.)"
		}
		if len(body) > most {
			continue
		}
		most -= len(body)
		out = append(out, Note{Name: ShownPath(n.Lines()), Body: body})
	}
	return out
}

// ofStep returns 1 for a file that the step is expected to change, 0 for others.
func ofStep(name string, step contract.Step) int {
	if slices.Contains(step.Files, name) {
		return 1
	}
	return 0
}

// lines returns the lines of a note, numbered as in the results of read_file.
func (n NoteSource) lines() string {
	switch {
	case n.Missing:
		return "\n(The file does not exist.)"
	case n.Moved:
		return "\n(The lines are not shown here, because the file contains a secret: read them yourself.)"
	case n.Changed:
		return "\n(An earlier step has changed this file: read it again.)"
	}
	var b strings.Builder
	number := 0
	for line := range strings.Lines(n.File) {
		number++
		if number > n.EndLine {
			break
		}
		if number < n.StartLine {
			continue
		}
		line = strings.TrimRight(line, "\r\n")
		if len(line) > noteLineBytes {
			line = strings.ToValidUTF8(line[:noteLineBytes], "") + "… (cut)"
		}
		fmt.Fprintf(&b, "\n%d\t%s", number, line)
	}
	return b.String()
}
