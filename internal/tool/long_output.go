package tool

import (
	"context"
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// section is a part of an output. With a title, a line with it precedes the text.
type section struct{ title, text string }

// cleanOutput makes output of a program readable: colours cost tokens and contain no information.
func cleanOutput(content []byte) string {
	return ansi.Strip(strings.ToValidUTF8(string(content), "\uFFFD"))
}

// alignBytes is how far a cut moves to the end of a line.
const alignBytes = 1 << 10

// show writes the parts of an output that are not empty. Of a part that is longer than
// Limits.OutputBytes, it writes the beginning and a larger part of the end, where builds and tests
// report errors; then the whole output is stored, and the gap says how to read it.
func (env Env) show(ctx context.Context, b *strings.Builder, all []section) error {
	var whole strings.Builder
	long := false
	for _, s := range all {
		if s.text != "" {
			long = long || len(s.text) > env.Limits.OutputBytes
			whole.WriteString(s.headed())
		}
	}
	id := ""
	if long && env.Keep != nil {
		var err error
		if id, err = env.Keep(ctx, middleCut(whole.String(), env.Limits.KeepBytes)); err != nil {
			return err
		}
	}
	line := 1 // of the whole output
	for _, s := range all {
		if s.text == "" {
			continue
		}
		text := s.headed()
		b.WriteString(shortened(text, env.Limits.OutputBytes, line, id))
		line += strings.Count(text, "\n")
	}
	return nil
}

// headed returns the text of a section below its title, ending with a line break.
func (s section) headed() string {
	text := s.text
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	if s.title != "" {
		text = "--- " + s.title + " ---\n" + text
	}
	return text
}

// shortened returns a text or, if it is longer than limit, its beginning and its end. line is the
// number of its first line in the output with the given id, empty if it is not stored.
func shortened(text string, limit, line int, id string) string {
	if len(text) <= limit+alignBytes {
		return text
	}
	from, to := limit/4, len(text)-(limit-limit/4)
	if i := strings.LastIndexByte(text[from-min(from, alignBytes):from], '\n'); i >= 0 {
		from += i + 1 - min(from, alignBytes)
	}
	if i := strings.IndexByte(text[to:to+min(alignBytes, len(text)-to)], '\n'); i >= 0 && to+i+1 < len(text) {
		to += i + 1
	}
	first := line + strings.Count(text[:from], "\n")
	last := max(first, line+strings.Count(text[:to], "\n")-1)
	gap := fmt.Sprintf("[… %d bytes omitted, lines %d to %d", to-from, first, last)
	if id != "" {
		gap += fmt.Sprintf(`; read_output {"id": %q, "start_line": %d} shows them`, id, first)
	}
	head := strings.ToValidUTF8(text[:from], "")
	if !strings.HasSuffix(head, "\n") {
		head += "\n"
	}
	return head + gap + " …]\n" + strings.ToValidUTF8(text[to:], "")
}

// middleCut removes the middle of a text that is longer than most bytes.
func middleCut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most/2], "") + fmt.Sprintf("\n[… %d bytes were not stored …]\n", len(text)-most) + strings.ToValidUTF8(text[len(text)-most/2:], "")
}

// Shorten returns a text or, if it is longer than limit, its beginning and the larger part of its
// end, with a note that read_output returns the rest of the text with the given id.
func Shorten(text string, limit int, id string) string { return shortened(text, limit, 1, id) }
