package diff

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff/lcs"
	"github.com/bluekeyes/go-gitdiff/gitdiff"
)

// The results of two patches of one file can be compared without the file. The patches contain
// every line that either of them changes, with three lines of context; all other lines are the same
// on both sides. Therefore, each side's content is represented as a list of tokens (known lines and
// the gaps between them), and these lists are compared.

// version is one version of a file; its id is the ID of its content.
type version struct {
	there bool
	id    string
	mode  os.FileMode
}

// touch is the change of a patch to a file.
type touch struct {
	path      string
	old, now  version
	binary    bool
	fragments []*gitdiff.TextFragment
	gone      []*gitdiff.TextFragment // removal of a file that was replaced by another type of file
}

func touchOf(f *gitdiff.File) *touch {
	t := &touch{path: cmp.Or(f.NewName, f.OldName), binary: f.IsBinary, fragments: f.TextFragments}
	if !f.IsNew {
		t.old = version{true, f.OldOIDPrefix, f.OldMode}
	}
	if !f.IsDelete {
		t.now = version{true, f.NewOIDPrefix, cmp.Or(f.NewMode, f.OldMode)}
		t.now.id = cmp.Or(t.now.id, t.old.id) // only the mode changed
	}
	return t
}

// fresh returns the lines of a file that was created from nothing, and whether it was.
func (t *touch) fresh() (fragments []*gitdiff.TextFragment, is bool) {
	if t.gone != nil {
		return t.fragments[len(t.gone):], true
	}
	return t.fragments, !t.old.there
}

// base contains the lines of the original file that two patches show.
type base struct {
	numbers []int64 // of the known lines, ascending
	lines   map[int64]string
	whole   bool // there are no other lines
}

func baseOf(touches ...*touch) base {
	b := base{lines: map[int64]string{}}
	for _, t := range touches {
		b.whole = b.whole || !t.old.there || !t.now.there || t.gone != nil
		for _, f := range t.fragments {
			n := firstLineOf(f)
			for _, l := range f.Lines {
				if l.Old() {
					b.lines[n] = l.Line
					n++
				}
			}
		}
	}
	b.numbers = slices.Sorted(maps.Keys(b.lines))
	return b
}

// firstLineOf returns the number of a fragment's first old line or, if it has none, of the line
// before which it inserts lines.
func firstLineOf(f *gitdiff.TextFragment) int64 {
	if f.OldLines == 0 {
		return f.OldPosition + 1
	}
	return f.OldPosition
}

// token is a known line or a gap: lines of the base that no patch shows.
type token struct {
	text  string // with its newline
	gap   string // ID of the gap; empty for a line
	lines int64
}

func (t token) key() string {
	if t.gap != "" {
		return t.gap
	}
	return "+" + t.text
}

// toTheEnd exceeds the number of any file's last line.
const toTheEnd = int64(1) << 62

// copy appends the base's lines from one up to, but not including, another.
func (b base) copy(out []token, from, to int64) []token {
	at, _ := slices.BinarySearch(b.numbers, from)
	for ; at < len(b.numbers) && b.numbers[at] < to; at++ {
		n := b.numbers[at]
		out = b.gap(out, from, n)
		out = append(out, token{text: b.lines[n], lines: 1})
		from = n + 1
	}
	return b.gap(out, from, to)
}

func (b base) gap(out []token, from, to int64) []token {
	if from >= to || to == toTheEnd && b.whole {
		return out
	}
	return append(out, token{gap: fmt.Sprintf("=%d", from), lines: to - from})
}

// content returns the file as a patch leaves it.
func (b base) content(t *touch) []token {
	var out []token
	if !t.now.there {
		return nil
	}
	if fragments, is := t.fresh(); is {
		for _, f := range fragments {
			for _, l := range f.Lines {
				if l.New() {
					out = append(out, token{text: l.Line, lines: 1})
				}
			}
		}
		return out
	}
	at := int64(1)
	for _, f := range t.fragments {
		out = b.copy(out, at, firstLineOf(f))
		for _, l := range f.Lines {
			if l.New() {
				out = append(out, token{text: l.Line, lines: 1})
			}
		}
		at = firstLineOf(f) + f.OldLines
	}
	return b.copy(out, at, toTheEnd)
}

// interdiff returns the fragments that transform the result of one patch of a file into the result
// of another patch of the same file.
func interdiff(left, right *touch) []*gitdiff.TextFragment {
	b := baseOf(left, right)
	l, r := b.content(left), b.content(right)
	return fragmentsOf(l, r, edits(l, r))
}

// edits compares two lists of tokens, section by section between the gaps that both contain,
// because gaps cannot move.
func edits(l, r []token) []lcs.Diff {
	var out []lcs.Diff
	there := map[string]int{}
	for i, t := range r {
		if t.gap != "" {
			there[t.gap] = i
		}
	}
	fromL, fromR := 0, 0
	piece := func(toL, toR int) {
		for _, d := range lcs.DiffLines(keysOfTokens(l[fromL:toL]), keysOfTokens(r[fromR:toR])) {
			out = append(out, lcs.Diff{Start: d.Start + fromL, End: d.End + fromL, ReplStart: d.ReplStart + fromR, ReplEnd: d.ReplEnd + fromR})
		}
		fromL, fromR = toL, toR
	}
	for i, t := range l {
		if at, both := there[t.gap]; both && t.gap != "" && at >= fromR {
			piece(i, at)
		}
	}
	piece(len(l), len(r))
	return out
}

func keysOfTokens(tokens []token) []string {
	keys := make([]string, len(tokens))
	for i, t := range tokens {
		keys[i] = t.key()
	}
	return keys
}

// around is the number of context lines before and after a change in a fragment.
const around = 3

// fragmentsOf converts edits to fragments with context lines.
func fragmentsOf(l, r []token, all []lcs.Diff) []*gitdiff.TextFragment {
	var out []*gitdiff.TextFragment
	lineL, lineR := numbersOf(l), numbersOf(r)
	for len(all) > 0 {
		n := 1
		for n < len(all) && joined(l[all[n-1].End:all[n].Start]) {
			n++
		}
		group := all[:n]
		all = all[n:]
		before := known(l[:group[0].Start], true)
		f := &gitdiff.TextFragment{LeadingContext: int64(before)}
		at := group[0].Start - before
		f.OldPosition, f.NewPosition = lineL[at], lineR[group[0].ReplStart-before]
		for _, e := range group {
			f.Lines = appendLines(f.Lines, gitdiff.OpContext, l[at:e.Start])
			f.Lines = appendLines(f.Lines, gitdiff.OpDelete, l[e.Start:e.End])
			f.Lines = appendLines(f.Lines, gitdiff.OpAdd, r[e.ReplStart:e.ReplEnd])
			at = e.End
		}
		rest := known(l[at:], false)
		f.Lines = appendLines(f.Lines, gitdiff.OpContext, l[at:at+rest])
		f.TrailingContext = int64(rest)
		out = append(out, counted(f))
	}
	return out
}

// numbersOf returns the line number of each token, and of the one after the last.
func numbersOf(tokens []token) []int64 {
	out := []int64{1}
	for i, t := range tokens {
		out = append(out, out[i]+t.lines)
	}
	return out
}

// joined reports whether two changes, separated by the given lines, belong in one fragment.
func joined(between []token) bool {
	return len(between) <= 2*around && !slices.ContainsFunc(between, func(t token) bool { return t.gap != "" })
}

// known returns the number of lines next to a change that can be shown.
func known(tokens []token, before bool) int {
	n := 0
	for n < min(around, len(tokens)) {
		t := tokens[n]
		if before {
			t = tokens[len(tokens)-1-n]
		}
		if t.gap != "" {
			break
		}
		n++
	}
	return n
}

// appendLines appends known lines. Only contradictory patches change a gap, which has
// no text to show.
func appendLines(to []gitdiff.Line, op gitdiff.LineOp, tokens []token) []gitdiff.Line {
	for _, t := range tokens {
		if t.gap == "" {
			to = append(to, gitdiff.Line{Op: op, Line: t.text})
		}
	}
	return to
}

// counted sets the counts of a fragment, and its positions in git's format: if a side has no lines,
// its position is the preceding line.
func counted(f *gitdiff.TextFragment) *gitdiff.TextFragment {
	for _, l := range f.Lines {
		switch l.Op {
		case gitdiff.OpAdd:
			f.LinesAdded++
		case gitdiff.OpDelete:
			f.LinesDeleted++
		case gitdiff.OpContext:
		}
		if l.Old() {
			f.OldLines++
		}
		if l.New() {
			f.NewLines++
		}
	}
	if f.OldLines == 0 {
		f.OldPosition--
	}
	if f.NewLines == 0 {
		f.NewPosition--
	}
	return f
}

// Between returns the patch that transforms the result of one patch into the result of another
// patch of the same base. An empty patch is the base itself. Files are sorted by path, each with
// minimal context, even if the patches have more. The text is not redacted: that is left to the
// caller.
func Between(from, to []byte) (string, error) {
	left, err := parsePatch(from)
	if err != nil {
		return "", err
	}
	right, err := parsePatch(to)
	if err != nil {
		return "", err
	}
	var patch strings.Builder
	for _, path := range keysOf(left, right, cmp.Compare[string]) {
		l, r := left[path], right[path]
		if _, diff := compareFile(orUntouched(l, r), orUntouched(r, l), true); diff != nil {
			patch.WriteString(diff.String())
		}
	}
	return strings.ToValidUTF8(patch.String(), "\uFFFD"), nil
}

// orUntouched returns the change of a patch to a file, or an empty change if only the other patch
// contains the file.
func orUntouched(t, other *touch) *touch {
	if t != nil {
		return t
	}
	return &touch{path: other.path, old: other.old, now: other.old, binary: other.binary}
}
