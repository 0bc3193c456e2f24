package tool

import (
	"context"
	_ "embed"
	"fmt"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
)

//go:embed edit_file.md
var editFileDescription string

type editFileParams struct {
	Path       string     `json:"path" jsonschema:"minLength=1" jsonschema_description:"File."`
	Edits      []textEdit `json:"edits,omitempty" jsonschema:"minItems=1,maxItems=50" jsonschema_description:"Several replacements."`
	OldText    string     `json:"old_text,omitempty" jsonschema:"minLength=1" jsonschema_description:"For a single replacement."`
	NewText    *string    `json:"new_text,omitempty" jsonschema_description:"For a single replacement."`
	ReplaceAll bool       `json:"replace_all,omitempty" jsonschema_description:"For a single replacement."`
}

// textEdit is one replacement.
type textEdit struct {
	OldText    string `json:"old_text" jsonschema:"minLength=1" jsonschema_description:"Text to replace."`
	NewText    string `json:"new_text" jsonschema_description:"Replacement text."`
	ReplaceAll bool   `json:"replace_all,omitempty" jsonschema_description:"Replace every occurrence."`
}

func editFile() Tool {
	return defineOnFiles(Definition{Name: EditFile, Description: editFileDescription},
		func(_ context.Context, f *files, p editFileParams) (Result, error) { return f.edit(p) })
}

// list returns the replacements of a call in either of its forms.
func (p editFileParams) list() ([]textEdit, error) {
	single := p.OldText != "" || p.NewText != nil
	switch {
	case len(p.Edits) > 0 && (single || p.ReplaceAll):
		return nil, refuse(contract.CodeInvalidOutput, "Use either edits, or old_text and new_text, but not both.")
	case len(p.Edits) > 0:
		return p.Edits, nil
	case p.OldText == "" || p.NewText == nil:
		return nil, refuse(contract.CodeInvalidOutput, "edit_file requires old_text and new_text, or a list of edits.")
	}
	return []textEdit{{OldText: p.OldText, NewText: *p.NewText, ReplaceAll: p.ReplaceAll}}, nil
}

func (f *files) edit(p editFileParams) (Result, error) {
	e, err := f.edited(p)
	if err != nil {
		return Result{}, err
	}
	if err := f.overwrite(e.name, []byte(e.after)); err != nil {
		return Result{}, err
	}
	return Result{OK: true, Changed: true, Path: e.name, Text: editedText(e.name, e.after, e.places)}, nil
}

// editedFile is what a file will contain after its edits.
type editedFile struct {
	name, after string
	places      regions
}

// edited returns what a file will contain after edits, or why they cannot be made.
func (f *files) edited(p editFileParams) (editedFile, error) {
	edits, err := p.list()
	if err != nil {
		return editedFile{}, err
	}
	name, err := cleanPath(p.Path)
	if err != nil {
		return editedFile{}, err
	}
	content, err := f.readWhole(name, int64(f.limits.WriteBytes))
	if err != nil {
		return editedFile{}, err
	}
	if isBinary(content) {
		return editedFile{}, binaryRefusal(name, int64(len(content)))
	}
	after, places := string(content), regions{}
	for i, e := range edits {
		which := ""
		if len(edits) > 1 {
			which = fmt.Sprintf("Edit %d of %d: ", i+1, len(edits))
		}
		if after, places, err = e.apply(name, which, after, places); err != nil {
			return editedFile{}, err
		}
		if len(after) > f.limits.WriteBytes {
			return editedFile{}, tooLarge(name, int64(len(after)), int64(f.limits.WriteBytes))
		}
	}
	if after == string(content) {
		return editedFile{}, refuse(contract.CodeInvalidOutput, "The edits cancel each other out; %s was not changed.", name)
	}
	return editedFile{name, after, places}, nil
}

// apply makes one replacement in a text, and returns the text and where it has been changed so far.
func (e textEdit) apply(name, which, before string, places regions) (string, regions, error) {
	r := matchLineEndings(before, e)
	at := occurrences(before, r.old)
	switch {
	case len(at) == 0:
		return "", nil, refuse("", "%sold_text was not found in %s; the file was not changed. %s", which, name, nearMatches(before, e.OldText))
	case len(at) > 1 && !e.ReplaceAll:
		return "", nil, refuse("", "%sold_text occurs %d times in %s (lines %s); the file was not changed. Add surrounding lines until old_text is unique, or set replace_all.",
			which, len(at), name, join(linesAt(before, at)))
	case r.old == r.new:
		return "", nil, refuse(contract.CodeInvalidOutput, "%sold_text and new_text are the same; %s was not changed.", which, name)
	}
	return strings.ReplaceAll(before, r.old, r.new), places.replaced(at, len(r.old), len(r.new)), nil
}

// replacement is the old and the new text, with the file's own line endings.
type replacement struct{ old, new string }

// matchLineEndings allows a model, which sees and writes plain line breaks, to edit a file with
// Windows line endings without changing them.
func matchLineEndings(content string, e textEdit) replacement {
	windows := strings.Count(content, "\r\n")
	if 2*windows <= strings.Count(content, "\n") {
		windows = 0 // few or none: plain ones prevail
	}
	exact := strings.Contains(content, e.OldText)
	switch {
	case exact && (windows == 0 || plainBreaks(e.OldText)):
		return replacement{e.OldText, e.NewText}
	case exact:
		return replacement{e.OldText, toWindows(e.NewText)}
	case strings.Contains(content, toWindows(e.OldText)):
		return replacement{toWindows(e.OldText), toWindows(e.NewText)}
	default:
		return replacement{e.OldText, e.NewText}
	}
}

// plainBreaks reports whether a text has line breaks, all of them plain.
func plainBreaks(s string) bool { return strings.Contains(s, "\n") && !strings.Contains(s, "\r\n") }

func toWindows(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\n", "\r\n")
}

// occurrences returns where a text occurs, without overlaps.
func occurrences(content, text string) []int {
	var at []int
	for from := 0; ; {
		i := strings.Index(content[from:], text)
		if i < 0 {
			return at
		}
		at = append(at, from+i)
		from += i + len(text)
	}
}

// linesAt returns the line numbers of ascending positions.
func linesAt(content string, at []int) []int {
	lines := make([]int, len(at))
	line, from := 1, 0
	for i, pos := range at {
		line += strings.Count(content[from:pos], "\n")
		lines[i], from = line, pos
	}
	return lines
}

// maxListed limits the line numbers in a message.
const maxListed = 10

func join(lines []int) string {
	var parts []string
	for _, line := range lines[:min(len(lines), maxListed)] {
		parts = append(parts, fmt.Sprint(line))
	}
	if len(lines) > maxListed {
		parts = append(parts, "…")
	}
	return strings.Join(parts, ", ")
}
