// Package excerpt shows the parts of found files that answer a question, with line numbers, within a
// number of tokens.
package excerpt

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/brain/extract"
	"github.com/rocketgpt/orchestrator/internal/brain/rank"
	"github.com/rocketgpt/orchestrator/internal/brain/repomap"
	"github.com/rocketgpt/orchestrator/internal/brain/terms"
	"github.com/rocketgpt/orchestrator/internal/prompt"
)

// DefaultTokens is the size of an answer whose caller does not say how large it may be.
const DefaultTokens = 4000

// Limits of what is shown of one file.
const (
	maxParts = 3   // chunks
	maxLines = 60  // of a chunk
	maxLine  = 300 // bytes of a line
)

// File is a found file.
type File struct {
	rank.Result
	Extract extract.Extract
	Content []byte
	// Before is the position, from 1, that the file had before a model ordered the files again; 0: none
	// did.
	Before int
}

// why explains in one line why the file was found, and where it was before a model moved it.
func (f File) why() string {
	if f.Before == 0 {
		return f.String()
	}
	return fmt.Sprintf("#%d before the model ordered the files, %s", f.Before, f.String())
}

// Text shows the best parts of files, the best file first, in at most the given number of tokens. With
// explain, it says why each file was found. Files of which no part fits are listed by name at the end,
// as far as they fit.
func Text(files []File, question string, tokens int, explain bool) string {
	tokens = cmp.Or(tokens, DefaultTokens)
	wanted := weights(files, question)
	var b strings.Builder
	var names []string
	left := tokens
	add := func(text string) bool {
		n := repomap.Tokens(text)
		if n > left {
			return false
		}
		left -= n
		b.WriteString(text)
		return true
	}
	reserve := min(tokens/10, 300) // for the names at the end
	for i, f := range files {
		left -= reserve
		shown := false
		// A file gets its share of what is left, so that the first one does not take all.
		share := max(left/max(min(len(files)-i, 4), 1), 200)
		for _, p := range parts(f, wanted) {
			text := p.text(f, explain && !shown)
			if n := repomap.Tokens(text); n > share && shown {
				break
			} else if !add(text) {
				if text = p.cut(f, explain && !shown, left); text == "" || !add(text) {
					break
				}
			} else {
				share -= n
			}
			shown = true
		}
		left += reserve
		if !shown {
			names = append(names, prompt.ShownPath(f.Path))
		}
	}
	for i, name := range names {
		if i == 0 && !add("Also found:\n") || !add(name+"\n") {
			break
		}
	}
	return b.String()
}

// Range is a part of a file that answers a question.
type Range struct {
	// First and Last are its lines, from 1.
	First, Last int
	// Symbol is the definition that it belongs to, or "".
	Symbol string
	// Lines are the lines as Text shows them, without control characters.
	Lines []string
}

// Ranges returns for each file the parts that Text prefers, best first.
func Ranges(files []File, question string) [][]Range {
	wanted := weights(files, question)
	all := make([][]Range, len(files))
	for i, f := range files {
		for _, p := range parts(f, wanted) {
			all[i] = append(all[i], Range{First: p.first, Last: p.last, Symbol: repomap.Line(p.symbol), Lines: p.shown()})
		}
	}
	return all
}

// Limits of a brief.
const (
	briefRead = 16 << 10 // bytes of a part that are read
	briefLead = 2        // lines before the one that matches best
)

// Briefs returns for each file the parts that Text prefers, best first and without line numbers, in at
// most size bytes. Of each part, it shows what follows the line that matches best. clean changes the text
// of each part before it is cut, so that it can remove what must not be shown even in part.
func Briefs(files []File, question string, size int, clean func(string) string) []string {
	wanted := weights(files, question)
	all := make([]string, len(files))
	for i, f := range files {
		var b strings.Builder
		for _, p := range parts(f, wanted) {
			if b.Len() < size {
				b.WriteString(p.brief(wanted, clean, size-b.Len()))
			}
		}
		all[i] = b.String()
	}
	return all
}

// brief returns the lines of a part, from shortly before the one that matches best, in at most size bytes.
// Blank lines are left out.
func (p part) brief(wanted map[string]float64, clean func(string) string, size int) string {
	text := strings.Join(p.lines[p.first-1:p.last], "\n")
	text = clean(strings.ToValidUTF8(text[:min(len(text), briefRead)], ""))
	lines := slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool { return strings.TrimSpace(line) == "" })
	from, best := 0, 0.0
	for i, line := range lines {
		if s := score([]string{line}, "", wanted); s > best {
			from, best = max(i-briefLead, 0), s
		}
	}
	var b strings.Builder
	for _, line := range lines[from:] {
		b.WriteString(shownLine(line) + "\n")
		if b.Len() >= size {
			return strings.ToValidUTF8(b.String()[:size], "")
		}
	}
	return b.String()
}

// weights says how much each term of the question counts: the fewer of the files have it, the more.
func weights(files []File, question string) map[string]float64 {
	in := map[string]int{}
	for _, f := range files {
		seen := map[string]bool{}
		terms.Split(f.Content, func(t []byte) {
			if !seen[string(t)] {
				seen[string(t)] = true
				in[string(t)]++
			}
		})
	}
	w := map[string]float64{}
	for _, t := range terms.Query(question).Terms {
		w[t.Text] = 1 / float64(1+in[t.Text])
	}
	return w
}

// part is a range of lines of a file.
type part struct {
	first, last int // from 1
	symbol      string
	score       float64
	lines       []string // of the file
}

// parts returns the parts of a file that match best, the best first; without a match, its beginning.
func parts(f File, wanted map[string]float64) []part {
	lines := strings.Split(strings.TrimSuffix(string(f.Content), "\n"), "\n")
	chunks := f.Extract.Chunks
	if len(chunks) == 0 {
		for i := 0; i < len(lines); i += maxLines {
			chunks = append(chunks, extract.Chunk{Line: i + 1, EndLine: i + maxLines})
		}
	}
	var all []part
	for _, c := range chunks {
		p := part{first: max(c.Line, 1), last: min(c.EndLine, len(lines)), symbol: c.Symbol, lines: lines}
		if p.first > p.last {
			continue
		}
		p.score = score(lines[p.first-1:p.last], c.Symbol, wanted)
		p.narrow(wanted)
		all = append(all, p)
	}
	slices.SortStableFunc(all, func(a, b part) int { return cmp.Compare(b.score, a.score) })
	n := 0
	for n < len(all) && n < maxParts && (n == 0 || all[n].score > 0) {
		n++
	}
	return all[:n]
}

// score counts the terms of the question in lines, each once and a little more if it is repeated.
func score(lines []string, symbol string, wanted map[string]float64) float64 {
	counts := map[string]int{}
	count := func(t []byte) {
		if wanted[string(t)] > 0 {
			counts[string(t)]++
		}
	}
	for _, l := range lines {
		terms.Split([]byte(l), count)
	}
	terms.Split([]byte(symbol), func(t []byte) { count(t); count(t) })
	names := make([]string, 0, len(counts))
	for t := range counts {
		names = append(names, t)
	}
	slices.Sort(names) // the order of a sum changes its last digits
	var sum float64
	for _, t := range names {
		n := float64(counts[t])
		sum += wanted[t] * n * 2 / (n + 1)
	}
	return sum
}

// narrow cuts a part that is too long to the range of lines with most matches.
func (p *part) narrow(wanted map[string]float64) {
	if p.last-p.first+1 <= maxLines {
		return
	}
	best, at := -1.0, p.first
	for first := p.first; first <= p.last; first += maxLines / 2 {
		if s := score(p.lines[first-1:min(first+maxLines-1, p.last)], "", wanted); s > best {
			best, at = s, first
		}
	}
	p.first, p.last = at, min(at+maxLines-1, p.last)
}

// text shows a part: path:first-last, and its lines with their numbers.
func (p part) text(f File, explain bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:%d-%d", prompt.ShownPath(f.Path), p.first, p.last)
	if p.symbol != "" {
		fmt.Fprintf(&b, " (%s)", repomap.Line(p.symbol))
	}
	b.WriteByte('\n')
	if explain {
		fmt.Fprintf(&b, "  %s\n", repomap.Line(f.why()))
	}
	for n := p.first; n <= p.last; n++ {
		fmt.Fprintf(&b, "%d\t%s\n", n, shownLine(p.lines[n-1]))
	}
	b.WriteByte('\n')
	return b.String()
}

// shown returns the lines of a part as they are shown.
func (p part) shown() []string {
	out := make([]string, 0, p.last-p.first+1)
	for n := p.first; n <= p.last; n++ {
		out = append(out, shownLine(p.lines[n-1]))
	}
	return out
}

// shownLine keeps the beginning of a line with its indentation, and drops control characters.
func shownLine(line string) string {
	if len(line) > maxLine {
		line = strings.ToValidUTF8(line[:maxLine], "") + "…"
	}
	text := strings.TrimLeft(line, "\t ")
	return line[:len(line)-len(text)] + repomap.Line(text)
}

// minCut is the number of lines below which a part is not worth showing.
const minCut = 5

// cut shows as many of a part's first lines as fit, or "" if too few do.
func (p part) cut(f File, explain bool, tokens int) string {
	for p.last > p.first+minCut {
		p.last -= max((p.last-p.first)/4, 1)
		if text := p.text(f, explain); repomap.Tokens(text) <= tokens {
			return text
		}
	}
	return ""
}
