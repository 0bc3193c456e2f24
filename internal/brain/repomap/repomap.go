// Package repomap describes a repository within a number of tokens: first the files that matter, with
// the signatures of what they define, then all directories with the number of their files.
//
// Names and signatures come from the repository, so they are untrusted: the map shows each on one line,
// without control characters.
package repomap

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/brain/extract"
	"github.com/rocketgpt/orchestrator/internal/brain/rank"
	"github.com/rocketgpt/orchestrator/internal/brain/terms"
	"github.com/rocketgpt/orchestrator/internal/pin"
	"github.com/rocketgpt/orchestrator/internal/prompt"
)

// DefaultTokens is the size of a map whose caller does not say how large it may be.
const DefaultTokens = 4000

// Tokens estimates the tokens of a text, as the reservation of a model's budget does.
func Tokens(text string) int {
	n := (len(text) + 3) / 4
	return n + (n+9)/10
}

// directoriesShare is how much of a map is kept for the directories, in percent of its tokens.
const directoriesShare = 25

// namedShare is how much of a map the definitions that its goal names may take, in percent.
const namedShare = 20

// signaturesOf is the largest number of signatures of the file at a position, from 0, among the files
// that have signatures and are not tests: documentation and tests must not displace code.
func signaturesOf(position int) int {
	switch {
	case position < 3:
		return 16
	case position < 10:
		return 8
	case position < 25:
		return 3
	}
	return 0
}

// testSignatures is the largest number of signatures of a file with tests: those that the goal names.
const testSignatures = 4

// maxSignature is the number of bytes of a signature in a map.
const maxSignature = 140

// Map describes the corpus in at most the given number of tokens. files are the files that matter, best
// first; goal is what they matter for, and may be empty. named are the definitions that the goal names:
// they come first, because they are what it is about. The same arguments give the same map.
func Map(c rank.Corpus, files []rank.Result, named []rank.Definition, goal string, tokens int) (string, error) {
	tokens = cmp.Or(tokens, DefaultTokens)
	m := &builder{corpus: c, wanted: wantedTerms(goal), left: tokens, shown: map[place]bool{}}
	heading := fmt.Sprintf("%d files. ", c.Docs())
	if m.definitions(named, heading, tokens*namedShare/100) {
		heading = "\nFiles"
	} else {
		heading += "Those"
	}
	if goal != "" {
		heading += " that seem to matter most for the goal, best first:\n"
	} else {
		heading += " that seem to matter most, first:\n"
	}
	if !m.add(heading) {
		return "", fmt.Errorf("a map of %d tokens is too small; allow at least %d", tokens, Tokens(heading))
	}
	reserve := tokens * directoriesShare / 100
	withCode := 0 // files so far that are worth signatures
	for _, f := range files {
		before := m.signatures
		ok, err := m.file(f.Doc, signaturesOf(withCode), reserve)
		if err != nil {
			return "", err
		}
		if !ok {
			break
		}
		if m.signatures > before && !pin.IsTest(m.corpus.Path(f.Doc)) {
			withCode++
		}
	}
	m.directories()
	return m.text.String(), nil
}

// wantedTerms returns the terms of a goal.
func wantedTerms(goal string) map[string]bool {
	wanted := map[string]bool{}
	for _, t := range terms.Query(goal).Terms {
		wanted[t.Text] = true
	}
	return wanted
}

// builder writes a map while tokens are left.
type builder struct {
	corpus rank.Corpus
	wanted map[string]bool
	text   strings.Builder
	left   int
	shown  map[place]bool // definitions that the map has already

	signatures int // so far, below the names of files
}

// place is where a definition begins.
type place struct {
	doc  uint32
	line int
}

// definitions adds a heading and the definitions that the goal names, in at most the given tokens. It
// says whether it added any.
func (m *builder) definitions(named []rank.Definition, heading string, tokens int) (added bool) {
	heading += "Definitions that the goal names:\n"
	reserve := m.left - max(tokens-Tokens(heading), 0)
	for _, d := range named {
		line := fmt.Sprintf("%s:%s: %s\n", prompt.ShownPath(m.corpus.Path(d.Doc)), lines(d.Symbol), signature(d.Symbol))
		if m.shown[place{d.Doc, d.Line}] || Tokens(line) > m.left-reserve {
			continue
		}
		m.add(heading + line)
		heading, added = "", true
		m.shown[place{d.Doc, d.Line}] = true
	}
	return added
}

// add adds a text if it fits.
func (m *builder) add(text string) bool {
	n := Tokens(text)
	if n > m.left {
		return false
	}
	m.left -= n
	m.text.WriteString(text)
	return true
}

// addAbove adds a text if it fits without the reserve.
func (m *builder) addAbove(text string, reserve int) bool {
	return Tokens(text) <= m.left-reserve && m.add(text)
}

// file adds a file with its most telling signatures, and leaves the reserve. It says whether the file
// itself fitted.
func (m *builder) file(doc uint32, signatures, reserve int) (bool, error) {
	if signatures == 0 {
		return m.addAbove(prompt.ShownPath(m.corpus.Path(doc))+"\n", reserve), nil
	}
	e, err := m.corpus.Extract(doc)
	if err != nil {
		return false, fmt.Errorf("read what is known of %s: %w", m.corpus.Path(doc), err)
	}
	if !m.addAbove(fmt.Sprintf("%s (to line %d)\n", prompt.ShownPath(m.corpus.Path(doc)), e.Lines), reserve) {
		return false, nil
	}
	least := 1
	if pin.IsTest(m.corpus.Path(doc)) {
		signatures, least = min(signatures, testSignatures), fewest
	}
	symbols := slices.DeleteFunc(slices.Clone(e.Symbols), func(s extract.Symbol) bool { return m.shown[place{doc, s.Line}] })
	for _, s := range m.choose(symbols, signatures, least) {
		line := fmt.Sprintf("  %s: %s\n", lines(s), signature(s))
		if !m.addAbove(line, reserve) {
			break
		}
		m.signatures++
	}
	return true, nil
}

// lines returns the lines of a symbol.
func lines(s extract.Symbol) string {
	if s.EndLine <= s.Line {
		return fmt.Sprint(s.Line)
	}
	return fmt.Sprintf("%d-%d", s.Line, s.EndLine)
}

// choose returns the most telling symbols whose value is at least least, in the order of their lines.
func (m *builder) choose(symbols []extract.Symbol, most, least int) []extract.Symbol {
	type candidate struct {
		extract.Symbol
		value int
	}
	named := m.named(symbols)
	var all []candidate
	for _, s := range symbols {
		if v := m.value(s, named); v >= least {
			all = append(all, candidate{s, v})
		}
	}
	slices.SortStableFunc(all, func(a, b candidate) int { return cmp.Compare(b.value, a.value) })
	var out []extract.Symbol
	for _, c := range all[:min(most, len(all))] {
		out = append(out, c.Symbol)
	}
	slices.SortStableFunc(out, func(a, b extract.Symbol) int { return cmp.Compare(a.Line, b.Line) })
	return out
}

// named counts, for each term of the goal, the symbols whose names contain it.
func (m *builder) named(symbols []extract.Symbol) map[string]int {
	counts := map[string]int{}
	for _, s := range symbols {
		terms.Split([]byte(s.Name), func(t []byte) {
			if m.wanted[string(t)] {
				counts[string(t)]++
			}
		})
	}
	return counts
}

const (
	// fewest is the value of a symbol with a telling term of the goal.
	fewest = 8
	// common is the number of symbols of a file above which a term that they share tells nothing.
	common = 12
)

// value says how telling a symbol is; 0: not at all. named counts the symbols with the goal's terms.
func (m *builder) value(s extract.Symbol, named map[string]int) int {
	value := 0
	switch s.Kind {
	case extract.KindClass, extract.KindStruct, extract.KindInterface, extract.KindEnum, extract.KindType:
		value = 3
	case extract.KindFunction, extract.KindMethod, extract.KindMacro, extract.KindModule:
		value = 2
	case extract.KindConstant, extract.KindVariable:
	default:
		return 0
	}
	if s.Exported && value > 0 {
		value++
	}
	terms.Split([]byte(s.Name), func(t []byte) {
		switch n := named[string(t)]; {
		case n == 0:
		case n <= common:
			value += fewest
		default:
			value++
		}
	})
	return value
}

// signature returns a symbol's signature on one line.
func signature(s extract.Symbol) string {
	text := cmp.Or(s.Signature, s.Name)
	if len(text) > maxSignature {
		text = strings.ToValidUTF8(text[:maxSignature], "") + "…"
	}
	return Line(text)
}

// Line returns a text on one line without control characters.
func Line(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t' || r == '\n' || r == '\r':
			return ' '
		case r < ' ' || r >= 0x7f && r < 0xa0 || r == 0x2028 || r == 0x2029 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r == 0x200b || r == 0xfeff:
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
}

// directory is a directory of the repository.
type directory struct {
	path  string
	depth int
	files int // in it and below
	langs map[string]int
}

// directories adds the directories with their numbers of files: the larger ones as far as they fit, in
// the order of their paths.
func (m *builder) directories() {
	if !m.add("\nDirectories (files, with those below):\n") {
		return
	}
	all := m.count()
	slices.SortFunc(all, func(a, b *directory) int {
		return cmp.Or(cmp.Compare(a.depth, b.depth), cmp.Compare(b.files, a.files), cmp.Compare(a.path, b.path))
	})
	left := m.left - Tokens(rest(len(all)))
	var chosen []*directory
	for _, d := range all {
		if left -= Tokens(d.String()); left < 0 {
			break
		}
		chosen = append(chosen, d)
	}
	slices.SortFunc(chosen, func(a, b *directory) int { return cmp.Compare(a.path, b.path) })
	for _, d := range chosen {
		m.add(d.String())
	}
	if n := len(all) - len(chosen); n > 0 {
		m.add(rest(n))
	}
}

func rest(n int) string { return fmt.Sprintf("… and %d more directories\n", n) }

// count counts the files of all directories.
func (m *builder) count() []*directory {
	byPath := map[string]*directory{}
	for doc := range m.corpus.Docs() {
		lang := m.corpus.Lang(uint32(doc))
		for dir := path.Dir(m.corpus.Path(uint32(doc))); ; dir = path.Dir(dir) {
			d := byPath[dir]
			if d == nil {
				d = &directory{path: dir, langs: map[string]int{}}
				if dir != "." {
					d.depth = 1 + strings.Count(dir, "/")
				}
				byPath[dir] = d
			}
			d.files++
			d.langs[lang]++
			if dir == "." || dir == "/" {
				break
			}
		}
	}
	all := make([]*directory, 0, len(byPath))
	for _, d := range byPath {
		all = append(all, d)
	}
	return all
}

// maxLangs is the number of languages that the line of a directory names.
const maxLangs = 3

func (d *directory) String() string {
	langs := make([]string, 0, len(d.langs))
	for l := range d.langs {
		langs = append(langs, l)
	}
	slices.SortFunc(langs, func(a, b string) int {
		return cmp.Or(cmp.Compare(d.langs[b], d.langs[a]), cmp.Compare(a, b))
	})
	for i, l := range langs {
		langs[i] = fmt.Sprintf("%s %d", l, d.langs[l])
	}
	if len(langs) > maxLangs {
		langs = append(langs[:maxLangs], "…")
	}
	return fmt.Sprintf("%s/ %d (%s)\n", prompt.ShownPath(d.path), d.files, strings.Join(langs, ", "))
}
