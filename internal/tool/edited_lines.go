package tool

import (
	"fmt"
	"slices"
	"strings"
)

const (
	// editContext is the number of unchanged lines shown around a change.
	editContext = 2
	// shownEdited limits the lines that edit_file shows of the changed file, and shownEditedBytes
	// their bytes: the model knows what it wrote.
	shownEdited      = 60
	shownEditedBytes = 6 << 10
	// editedPart is the number of lines shown at each end of a longer change.
	editedPart = 15
)

// region is a changed part of a text, from its first byte to the one after its last.
type region struct{ from, to int }

// regions are the changed parts of a text, ascending and separate.
type regions []region

// replaced returns the regions after texts of oldLen bytes at the given positions were replaced by
// texts of newLen bytes.
func (r regions) replaced(at []int, oldLen, newLen int) regions {
	// moved returns where a position is afterwards. Inside a replaced text it is the nearer end of
	// the new one.
	moved := func(pos int, end bool) int {
		before, inside := slices.BinarySearch(at, pos)
		if !inside && before > 0 && pos < at[before-1]+oldLen {
			if before--; end {
				return at[before] + before*(newLen-oldLen) + newLen
			}
			return at[before] + before*(newLen-oldLen)
		}
		return pos + before*(newLen-oldLen)
	}
	var all regions
	for _, old := range r {
		all = append(all, region{moved(old.from, false), moved(old.to, true)})
	}
	for i, pos := range at {
		start := pos + i*(newLen-oldLen)
		all = append(all, region{start, start + newLen})
	}
	slices.SortFunc(all, func(a, b region) int { return a.from - b.from })
	var out regions
	for _, next := range all {
		if n := len(out); n > 0 && next.from <= out[n-1].to {
			out[n-1].to = max(out[n-1].to, next.to)
			continue
		}
		out = append(out, next)
	}
	return out
}

// span is a range of lines, from 1.
type span struct{ first, last int }

// editedText describes a changed file: where it changed, and the lines there with their numbers.
func editedText(name, content string, places regions) string {
	var starts []int
	for _, p := range places {
		starts = append(starts, p.from)
	}
	at := linesAt(content, starts)
	var b strings.Builder
	if len(at) == 1 {
		fmt.Fprintf(&b, "Changed %s at line %d.\n", name, at[0])
	} else {
		fmt.Fprintf(&b, "Changed %s in %d places (lines %s).\n", name, len(at), join(at))
	}
	lines := strings.SplitAfter(content, "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	shown, last := 0, 0
	for i, s := range shownSpans(content, places, at, len(lines)) {
		for n := s.first; n <= s.last; n++ {
			if shown == shownEdited || b.Len() > shownEditedBytes {
				b.WriteString("[more changed lines are not shown; read_file shows them]\n")
				return b.String()
			}
			if n > last+1 && (i > 0 || last > 0) {
				b.WriteString("…\n")
			}
			numbered(&b, n, lines[n-1], maxHitBytes)
			shown, last = shown+1, n
		}
	}
	return b.String()
}

// shownSpans returns the lines to show around the changed parts of a text.
func shownSpans(content string, places regions, at []int, total int) []span {
	var out []span
	add := func(first, last int) {
		first, last = max(first, 1), min(last, total)
		if n := len(out); n > 0 && first <= out[n-1].last+1 {
			out[n-1].last = max(out[n-1].last, last)
			return
		}
		if first <= last {
			out = append(out, span{first, last})
		}
	}
	for i, p := range places {
		changed := strings.TrimSuffix(content[p.from:p.to], "\n")
		last := at[i] + strings.Count(changed, "\n")
		if last-at[i] < 2*editedPart+editContext {
			add(at[i]-editContext, last+editContext)
			continue
		}
		add(at[i]-editContext, at[i]+editedPart-1)
		add(last-editedPart+1, last+editContext)
	}
	return out
}
