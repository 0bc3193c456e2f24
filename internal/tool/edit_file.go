package tool

import (
	"context"
	_ "embed"
	"fmt"
	"strings"
	"unicode"

	"github.com/rocketgpt/orchestrator/contract"
)

//go:embed edit_file.md
var editFileDescription string

type editFileParams struct {
	Path       string `json:"path" jsonschema:"minLength=1" jsonschema_description:"File to change, relative to the workspace."`
	OldText    string `json:"old_text" jsonschema:"minLength=1" jsonschema_description:"Text to replace, exactly as it appears in the file."`
	NewText    string `json:"new_text" jsonschema_description:"Replacement text."`
	ReplaceAll bool   `json:"replace_all,omitempty" jsonschema_description:"Replace every occurrence instead of exactly one."`
}

func editFile() Tool {
	return defineOnFiles(Definition{Name: EditFile, Description: editFileDescription},
		func(_ context.Context, f *files, p editFileParams) (Result, error) { return f.edit(p) })
}

func (f *files) edit(p editFileParams) (Result, error) {
	name, err := cleanPath(p.Path)
	if err != nil {
		return Result{}, err
	}
	content, err := f.readWhole(name, int64(f.limits.WriteBytes))
	if err != nil {
		return Result{}, err
	}
	if isBinary(content) {
		return Result{}, binaryRefusal(name, int64(len(content)))
	}
	before := string(content)
	r := matchLineEndings(before, p)
	lines := linesOf(before, r.old)
	switch {
	case len(lines) == 0:
		return Result{}, refuse("", "old_text was not found in %s; the file was not changed. %s", name, nearMatches(before, p.OldText))
	case len(lines) > 1 && !p.ReplaceAll:
		return Result{}, refuse("", "old_text occurs %d times in %s (lines %s); the file was not changed. Add surrounding lines until old_text is unique, or set replace_all.", len(lines), name, join(lines))
	case r.old == r.new:
		return Result{}, refuse(contract.CodeInvalidOutput, "old_text and new_text are the same; %s was not changed.", name)
	}
	after := strings.ReplaceAll(before, r.old, r.new)
	if len(after) > f.limits.WriteBytes {
		return Result{}, tooLarge(name, int64(len(after)), int64(f.limits.WriteBytes))
	}
	if err := f.overwrite(name, []byte(after)); err != nil {
		return Result{}, err
	}
	return Result{OK: true, Changed: true, Path: name, Text: editedText(name, lines)}, nil
}

func editedText(name string, lines []int) string {
	if len(lines) == 1 {
		return fmt.Sprintf("Changed %s at line %d.", name, lines[0])
	}
	return fmt.Sprintf("Changed %s in %d places (lines %s).", name, len(lines), join(lines))
}

// replacement is the old and the new text, with the file's own line endings.
type replacement struct{ old, new string }

// matchLineEndings allows a model, which sees and writes plain line breaks, to edit a file with
// Windows line endings without changing them.
func matchLineEndings(content string, p editFileParams) replacement {
	windows := strings.Count(content, "\r\n")
	if 2*windows <= strings.Count(content, "\n") {
		windows = 0 // few or none: plain ones prevail
	}
	exact := strings.Contains(content, p.OldText)
	switch {
	case exact && (windows == 0 || plainBreaks(p.OldText)):
		return replacement{p.OldText, p.NewText}
	case exact:
		return replacement{p.OldText, toWindows(p.NewText)}
	case strings.Contains(content, toWindows(p.OldText)):
		return replacement{toWindows(p.OldText), toWindows(p.NewText)}
	default:
		return replacement{p.OldText, p.NewText}
	}
}

// plainBreaks reports whether a text has line breaks, all of them plain.
func plainBreaks(s string) bool { return strings.Contains(s, "\n") && !strings.Contains(s, "\r\n") }

func toWindows(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\n", "\r\n")
}

// linesOf returns the line number of each occurrence of a text.
func linesOf(content, text string) []int {
	var lines []int
	line, from := 1, 0
	for {
		at := strings.Index(content[from:], text)
		if at < 0 {
			return lines
		}
		line += strings.Count(content[from:from+at], "\n")
		lines = append(lines, line)
		line += strings.Count(text, "\n")
		from += at + len(text)
	}
}

const (
	// maxListed limits the line numbers in a message.
	maxListed = 10
	// maxNear limits the near matches in a message.
	maxNear = 3
)

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

// nearMatches describes text similar to the wanted text: equal except for spaces, or with similar
// lines.
func nearMatches(content, wanted string) string {
	lines := strings.Split(content, "\n")
	target := squeezeLines(wanted)
	if len(target) == 0 {
		return "old_text contains only whitespace."
	}
	if at := findSqueezed(lines, target); at >= 0 {
		var text strings.Builder
		for i := at; i < min(at+len(target)+1, at+20, len(lines)); i++ {
			numbered(&text, i+1, lines[i], maxHitBytes)
		}
		return "The same text with different spaces or line breaks is at line " + fmt.Sprint(at+1) + "; copy it from here, without the line numbers:\n" + text.String()
	}
	near := similarLines(lines, target)
	if near == "" {
		return "Nothing similar was found; read the file again."
	}
	return "Similar lines:\n" + near + "Read the file again and copy the text exactly."
}

// squeezeLines returns the non-empty lines of a text, each with its runs of spaces reduced to one.
func squeezeLines(text string) []string {
	var lines []string
	for line := range strings.Lines(text) {
		if s := squeeze(line); s != "" {
			lines = append(lines, s)
		}
	}
	return lines
}

func squeeze(line string) string { return strings.Join(strings.Fields(line), " ") }

// findSqueezed returns the index of the line where the squeezed lines begin, or -1.
func findSqueezed(lines, target []string) int {
	var text []string
	var index []int
	for i, line := range lines {
		if s := squeeze(line); s != "" {
			text, index = append(text, s), append(index, i)
		}
	}
	for i := 0; i+len(target) <= len(text); i++ {
		if startsWith(text[i:], target) {
			return index[i]
		}
	}
	return -1
}

func startsWith(lines, target []string) bool {
	for i, t := range target {
		if lines[i] != t {
			return false
		}
	}
	return true
}

// similarLines lists lines that contain, or are contained in, a line of the target.
func similarLines(lines, target []string) string {
	var text strings.Builder
	found := 0
	for _, t := range target {
		for i, line := range lines {
			s := squeeze(line)
			if len(s) < 4 || len(t) < 4 || !strings.Contains(s, t) && !strings.Contains(t, s) && !similar(s, t) {
				continue
			}
			numbered(&text, i+1, line, maxHitBytes)
			if found++; found == maxNear {
				return text.String()
			}
		}
		if found > 0 {
			return text.String()
		}
	}
	return text.String()
}

// similar reports whether two lines share three quarters of their words.
func similar(a, b string) bool {
	words := map[string]bool{}
	for _, w := range strings.FieldsFunc(a, notInWord) {
		words[w] = true
	}
	other := strings.FieldsFunc(b, notInWord)
	shared := 0
	for _, w := range other {
		if words[w] {
			shared++
		}
	}
	return shared > 0 && 4*shared >= 3*max(len(words), len(other))
}

func notInWord(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) }
