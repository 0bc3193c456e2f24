package extract

import (
	"bytes"
)

const (
	// smallChunk is the number of lines up to which neighbours are put into one chunk.
	smallChunk = 12
	// wantedChunk is the number of lines that a chunk of small neighbours may have.
	wantedChunk = 40
)

// chunks cuts a file at its definitions, given by ascending line, and returns the number of its lines.
// A definition includes the comments directly above it.
func chunks(src []byte, symbols []Symbol, starts []int) (lines int, out []Chunk) {
	if len(src) == 0 {
		return 0, nil
	}
	at := lineStarts(src)
	lines = len(at)
	line := func(n int) []byte {
		end := len(src)
		if n < lines {
			end = at[n]
		}
		return bytes.TrimSpace(src[at[n-1]:end])
	}
	type cut struct {
		line   int
		symbol string
	}
	cuts := []cut{{line: 1}}
	for i, sym := range symbols {
		first := min(max(starts[i], 1), sym.Line, lines)
		floor := cuts[len(cuts)-1].line
		for first-1 > floor && comment(line(first-1)) {
			first--
		}
		switch {
		case first > floor:
			cuts = append(cuts, cut{first, qualified(sym)})
		case cuts[len(cuts)-1].symbol == "":
			cuts[len(cuts)-1].symbol = qualified(sym)
		}
	}
	for i, c := range cuts {
		last := lines
		if i+1 < len(cuts) {
			last = cuts[i+1].line - 1
		}
		size := last - c.line + 1
		if n := len(out); n > 0 && size <= smallChunk && out[n-1].EndLine-out[n-1].Line+1+size <= wantedChunk && out[n-1].EndLine-out[n-1].Line < 2*smallChunk {
			out[n-1].EndLine = last
			if out[n-1].Symbol == "" {
				out[n-1].Symbol = c.symbol
			}
			continue
		}
		for first := c.line; first <= last; {
			end := last
			if last-first+1 > MaxChunkLines {
				end = blankBefore(line, first, first+MaxChunkLines-1)
			}
			out = append(out, Chunk{Line: first, EndLine: end, Symbol: c.symbol})
			first = end + 1
		}
	}
	return lines, out
}

func qualified(s Symbol) string {
	if s.Parent == "" {
		return s.Name
	}
	return s.Parent + "." + s.Name
}

// blankBefore returns the last blank line in the second half of a range of lines, or its end.
func blankBefore(line func(int) []byte, first, last int) int {
	for n := last; n > (first+last)/2; n-- {
		if len(line(n)) == 0 {
			return n
		}
	}
	return last
}

// comment says whether a line looks like one of a comment or an annotation.
func comment(line []byte) bool {
	for _, mark := range []string{"//", "/*", "*", "#", "@", "--", "[<", "[["} {
		if bytes.HasPrefix(line, []byte(mark)) {
			return true
		}
	}
	return false
}
