package injection

import (
	"encoding/base64"
	"regexp"
	"sort"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	ahocorasick "github.com/BobuSumisu/aho-corasick"
	"golang.org/x/text/unicode/norm"

	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

// Class is the kind of a hit.
type Class string

// The classes, which are also the rules of findings.
const (
	Override   Class = "override"
	Exfiltrate Class = "exfiltrate"
	Role       Class = "role"
	Agent      Class = "agent"
	Evade      Class = "evade"
	Tags       Class = "tags"
	Bidi       Class = "bidi"
	Invisible  Class = "invisible"
	Homoglyph  Class = "homoglyph"
	Encoded    Class = "encoded"
	Terminal   Class = "terminal"
	Unexamined Class = "unexamined"
)

// Hit is a place in a text that looks like an attempt to instruct an agent or to hide something.
type Hit struct {
	Class Class
	// Line counts from 1.
	Line int
	// Quoted says that the wording is in quotes, as in a text about such attempts.
	Quoted bool
	// Mild says that an agent is addressed without a dangerous request.
	Mild bool
}

// The limits of what is examined of one text.
const (
	MaxText = 1 << 20
	MaxLine = 16 << 10
	MaxHits = 50
)

// Flag returns the hits in a text, such as the result of a tool or the answer of a model. Its time is
// linear in the text, of which it examines at most MaxText bytes and at most MaxLine of each line; a hit
// of the class Unexamined says that there is more.
func Flag(text string) []Hit {
	var lines []line
	for i, l := range strings.Split(text[:min(len(text), MaxText)], "\n") {
		lines = append(lines, line{i + 1, l})
	}
	hits := flag(lines)
	if len(text) > MaxText {
		hits = append(hits, Hit{Class: Unexamined, Line: len(lines)})
	}
	return hits
}

type line struct {
	number int
	text   string
}

// flag returns the hits in lines.
func flag(lines []line) []Hit {
	var hits []Hit
	seen := map[Hit]bool{}
	add := func(h Hit) {
		if len(hits) < MaxHits && !seen[h] {
			seen[h] = true
			hits = append(hits, h)
		}
	}
	n := &normalized{}
	for _, l := range lines {
		if len(l.text) > MaxLine {
			l.text = l.text[:MaxLine]
			add(Hit{Class: Unexamined, Line: l.number})
		}
		for _, c := range hidden(l.text) {
			add(Hit{Class: c, Line: l.number})
		}
		for _, plain := range decoded(l.text) {
			inner := &normalized{}
			for part := range strings.SplitSeq(plain, "\n") {
				inner.add(line{l.number, part})
			}
			inner.wordings(func(h Hit) {
				if !h.Mild {
					add(Hit{Class: Encoded, Line: l.number})
				}
			})
		}
		n.add(l)
	}
	n.wordings(add)
	return hits
}

// normalized is a text in the form in which wordings are compared: without what is not shown, in lower
// case, with simple spaces, without the signs of comments, and with its lines joined.
type normalized struct {
	b     strings.Builder
	marks []mark
}

type mark struct{ offset, line int }

func (n *normalized) add(l line) {
	n.marks = append(n.marks, mark{n.b.Len(), l.number})
	text := fold(strings.ToLower(norm.NFKC.String(telemetry.Visible(untag(strings.ToValidUTF8(l.text, "\uFFFD"))))))
	if text = strings.TrimSpace(text); !strings.HasPrefix(text, "###") {
		text = strings.TrimLeft(text, "/#*;%|")
	}
	for word := range strings.FieldsSeq(text) {
		n.b.WriteString(word)
		n.b.WriteByte(' ')
	}
	if text == "" {
		n.b.WriteString("\n")
	}
}

// wordings finds the known wordings. The parts around words that are close to each other are one part, so
// that a text with many words is not read many times.
func (n *normalized) wordings(found func(Hit)) {
	s := n.b.String()
	set := patterns()
	parts, order := map[*pattern][]part{}, []*pattern{}
	for _, m := range set.words.MatchString(s) {
		at := int(m.Pos())
		for _, p := range set.byWord[m.MatchString()] {
			from, to := boundary(s, at-p.before), boundary(s, at+p.after)
			all := parts[p]
			switch last := len(all) - 1; {
			case last < 0:
				order = append(order, p)
				parts[p] = append(all, part{from, to})
			case from <= all[last].to:
				all[last].to = max(all[last].to, to)
			default:
				parts[p] = append(all, part{from, to})
			}
		}
	}
	for _, p := range order {
		for _, w := range parts[p] {
			for at := w.from; at < w.to; {
				r := p.regex.FindStringIndex(s[at:w.to])
				if r == nil {
					break
				}
				begin, end := at+r[0], at+r[1]
				at = boundary(s, max(end, begin+1))
				begin += strings.IndexFunc(s[begin:end], func(r rune) bool { return !unicode.IsSpace(r) })
				found(Hit{Class: p.class, Line: n.line(begin), Quoted: inQuotes(s, begin, end), Mild: p.mild && !dangerous.MatchString(s[begin:boundary(s, end+60)])})
			}
		}
	}
}

// part is a part of a text that a pattern examines.
type part struct{ from, to int }

// boundary moves an offset into a text and to the beginning of a character.
func boundary(s string, at int) int {
	at = max(0, min(at, len(s)))
	for at < len(s) && !utf8.RuneStart(s[at]) {
		at++
	}
	return at
}

func (n *normalized) line(offset int) int {
	i := sort.Search(len(n.marks), func(i int) bool { return n.marks[i].offset > offset })
	return n.marks[max(0, i-1)].line
}

// inQuotes reports whether a quote precedes a part of a text closely and another follows it.
func inQuotes(s string, from, to int) bool {
	const quotes = "\"'`“”„«»‘’"
	before, after := s[boundary(s, from-12):from], s[to:boundary(s, to+120)]
	return strings.ContainsAny(before, quotes) && strings.ContainsAny(after, quotes)
}

// untag makes tag characters visible, which encode ASCII.
func untag(s string) string {
	if !strings.Contains(s, "\xf3\xa0") {
		return s
	}
	// Tags in the flags of regions become letters too, which are not a wording.
	return strings.Map(func(r rune) rune {
		if r >= 0xe0020 && r < 0xe007f {
			return r - 0xe0000
		}
		return r
	}, s)
}

// confusable are letters of other scripts that look like Latin ones.
var confusable = map[rune]rune{
	'а': 'a', 'е': 'e', 'о': 'o', 'р': 'p', 'с': 'c', 'у': 'y', 'х': 'x', 'і': 'i', 'ј': 'j', 'ѕ': 's', 'ԁ': 'd', 'һ': 'h', 'ո': 'n', 'ν': 'v', 'ο': 'o', 'α': 'a', 'ι': 'i', 'ρ': 'p', 'А': 'A', 'В': 'B', 'Е': 'E', 'К': 'K', 'М': 'M', 'Н': 'H', 'О': 'O', 'Р': 'P', 'С': 'C', 'Т': 'T', 'Х': 'X', 'Ι': 'I', 'Ο': 'O', 'Α': 'A', 'Ε': 'E',
}

// fold replaces confusable letters in words that also have Latin ones.
func fold(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { _, ok := confusable[r]; return ok }) {
		return s
	}
	words := strings.Split(s, " ")
	for i, w := range words {
		if mixed(w) {
			words[i] = strings.Map(func(r rune) rune {
				if latin, ok := confusable[r]; ok {
					return latin
				}
				return r
			}, w)
		}
	}
	return strings.Join(words, " ")
}

// mixed reports whether a word has Latin letters, and letters of another script of which all look Latin.
func mixed(word string) bool {
	latin, other := 0, 0
	for _, r := range word {
		_, like := confusable[r]
		switch {
		case like:
			other++
		case r < utf8.RuneSelf && unicode.IsLetter(r):
			latin++
		case unicode.In(r, unicode.Cyrillic, unicode.Greek, unicode.Armenian):
			return false // a word of that script beside Latin ones
		}
	}
	return latin >= 2 && other > 0
}

var identifier = regexp.MustCompile(`[\p{L}_][\p{L}\p{N}_]*`)

// hidden returns the classes of what a line hides.
func hidden(s string) []Class {
	plain := true
	for i := range len(s) {
		if c := s[i]; c >= utf8.RuneSelf || c == 0x1b {
			plain = false
			break
		}
	}
	if plain {
		return nil
	}
	var out []Class
	runes := []rune(s)
	bidi, depth := false, 0
	invisible, tags := false, false
	for i, r := range runes {
		switch {
		case r == 0x202d || r == 0x202e:
			bidi = true
		case r == 0x202a || r == 0x202b || r >= 0x2066 && r <= 0x2068:
			depth++
		case r == 0x202c || r == 0x2069:
			depth--
		case r == 0xe0001 || r >= 0xe0020 && r <= 0xe007e:
			tags = tags || !flagged(runes, i)
		case unseen(runes, i):
			invisible = true
		}
	}
	if bidi || depth != 0 {
		out = append(out, Bidi)
	}
	if tags {
		out = append(out, Tags)
	}
	if invisible {
		out = append(out, Invisible)
	}
	for _, w := range identifier.FindAllString(s, -1) {
		if mixed(w) {
			out = append(out, Homoglyph)
			break
		}
	}
	if strings.ContainsRune(s, 0x1b) {
		out = append(out, Terminal)
	}
	return out
}

// flagged reports whether a tag belongs to a flag, such as that of Scotland: it follows a black flag.
func flagged(runes []rune, i int) bool {
	const most = 8
	for n := 0; n < most && i > 0; n++ {
		i--
		if runes[i] == 0x1f3f4 {
			return true
		}
		if runes[i] < 0xe0020 {
			return false
		}
	}
	return false
}

func zeroWidth(r rune) bool {
	return r >= 0x200b && r <= 0x200d || r == 0x2060 || r == 0xfeff || r == 0xad || r == 0x180e || r >= 0x2061 && r <= 0x2064
}

// unseen reports whether a character hides in a word or a text.
func unseen(runes []rune, i int) bool {
	switch r := runes[i]; {
	case blank(r):
		return !hangul(runes, i)
	case r >= 0xe0100 && r <= 0xe01ef: // only a Chinese character has such variants; many of them can encode data
		return i == 0 || !unicode.Is(unicode.Han, runes[i-1])
	case zeroWidth(r) && i > 0 && i+1 < len(runes):
		return ascii(before(runes, i)) && ascii(after(runes, i))
	}
	return false
}

// blank reports whether a character is shown as a space, but is a letter that a name can consist of.
func blank(r rune) bool { return r == 0x115f || r == 0x1160 || r == 0x3164 || r == 0xffa0 }

// hangul reports whether a character stands beside one of Korean.
func hangul(runes []rune, i int) bool {
	return i > 0 && unicode.Is(unicode.Hangul, runes[i-1]) && !blank(runes[i-1]) || i+1 < len(runes) && unicode.Is(unicode.Hangul, runes[i+1]) && !blank(runes[i+1])
}

func ascii(r rune) bool { return r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r)) }

func before(runes []rune, i int) rune {
	for i > 0 && zeroWidth(runes[i]) {
		i--
	}
	return runes[i]
}

func after(runes []rune, i int) rune {
	for i < len(runes)-1 && zeroWidth(runes[i]) {
		i++
	}
	return runes[i]
}

var encodedText = regexp.MustCompile(`[A-Za-z0-9+/_-]{32,}={0,2}`)

// decoded returns the texts that a line has in base64.
func decoded(s string) []string {
	if len(s) < 32 {
		return nil
	}
	const most = 8
	var out []string
	for _, e := range encodedText.FindAllString(s, most) {
		e = strings.TrimRight(strings.NewReplacer("-", "+", "_", "/").Replace(e), "=")
		plain, err := base64.RawStdEncoding.DecodeString(e)
		if err == nil && utf8.Valid(plain) && strings.ContainsAny(string(plain), " \n") {
			out = append(out, string(plain))
		}
	}
	return out
}

type pattern struct {
	class         Class
	regex         *regexp.Regexp
	before, after int
	mild          bool
}

type patternSet struct {
	words  *ahocorasick.Trie
	byWord map[string][]*pattern
}

var patterns = sync.OnceValue(func() *patternSet {
	set := &patternSet{byWord: map[string][]*pattern{}}
	var words []string
	for _, w := range wordings {
		p := &pattern{class: w.class, regex: regexp.MustCompile(w.pattern), before: 100, after: 320, mild: w.mild}
		for word := range strings.SplitSeq(w.words, ",") {
			if set.byWord[word] == nil {
				words = append(words, word)
			}
			set.byWord[word] = append(set.byWord[word], p)
		}
	}
	set.words = ahocorasick.NewTrieBuilder().AddStrings(words).Build()
	return set
})
