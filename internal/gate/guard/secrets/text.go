package secrets

import (
	"sort"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/gate/change"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

// contextLines is the number of unchanged lines around the added ones that are examined with them,
// because a secret may span several lines.
const contextLines = 12

// text is what is examined: lines of a version of a file, or what is derived from them.
type text struct {
	s      string
	marks  []mark // in order of their offsets
	hidden bool   // the original has invisible characters
}

// mark is where a line begins.
type mark struct {
	offset, line int
	added        bool
}

// wholeText is a text whose lines are all new.
func wholeText(s string) text {
	t := text{s: s}
	number := 1
	for at := 0; ; number++ {
		t.marks = append(t.marks, mark{at, number, true})
		i := strings.IndexByte(s[at:], '\n')
		if i < 0 {
			return t
		}
		at += i + 1
	}
}

// addedText returns the lines that a change adds to a file, with those around them.
func addedText(f change.File) text {
	lines := f.AddedLines()
	if len(lines) == 0 {
		return text{}
	}
	content := strings.ToValidUTF8(string(f.After.Content), "\uFFFD")
	t := text{}
	visible := telemetry.Visible(content)
	t.hidden = visible != content
	if !f.Before.Exists() || len(f.Before.Content) == 0 {
		whole := wholeText(visible)
		whole.hidden = t.hidden
		return whole
	}
	all := strings.Split(visible, "\n")
	const near, added = 1, 2
	state := make([]byte, len(all)+1)
	for _, l := range lines {
		for n := max(1, l.Number-contextLines); n <= min(len(all), l.Number+contextLines); n++ {
			state[n] = max(state[n], near)
		}
		if l.Number <= len(all) {
			state[l.Number] = added
		}
	}
	var b strings.Builder
	for i, line := range all {
		if state[i+1] == 0 {
			continue
		}
		if i > 0 && state[i] == 0 && b.Len() > 0 {
			b.WriteString("\n\n\n")
		}
		t.marks = append(t.marks, mark{b.Len(), i + 1, state[i+1] == added})
		b.WriteString(line)
		b.WriteByte('\n')
	}
	t.s = b.String()
	return t
}

// index is the index of the mark of the line with an offset.
func (t text) index(offset int) int {
	return max(0, sort.Search(len(t.marks), func(i int) bool { return t.marks[i].offset > offset })-1)
}

// added returns the line of a range, and whether the change adds any of its lines.
func (t text) added(from, to int) (line int, ok bool) {
	if len(t.marks) == 0 {
		return 0, false
	}
	first := t.index(from)
	for i := first; i < len(t.marks) && (i == first || t.marks[i].offset < to); i++ {
		if t.marks[i].added {
			return t.marks[first].line, true
		}
	}
	return t.marks[first].line, false
}

// derived builds a text from parts of another.
type derived struct {
	from text
	b    strings.Builder
	t    text
	done int // of the original
}

// keep appends the original up to an offset.
func (d *derived) keep(to int) {
	for i := d.from.index(d.done); i < len(d.from.marks) && d.from.marks[i].offset < to; i++ {
		m := d.from.marks[i]
		at := d.b.Len()
		if m.offset > d.done {
			at += m.offset - d.done
		}
		d.t.marks = append(d.t.marks, mark{at, m.line, m.added})
	}
	d.b.WriteString(d.from.s[d.done:to])
	d.done = to
}

// replace appends something in place of the original up to an offset.
func (d *derived) replace(to int, by string) {
	d.b.WriteString(by)
	d.done = to
}

func (d *derived) text() text {
	d.keep(len(d.from.s))
	d.t.s = d.b.String()
	return d.t
}

// hiddenIn reports whether a text has invisible characters.
func hiddenIn(s string) bool { return telemetry.Visible(s) != s }
