// Package lexer splits source text into tokens.
//
// Strings, comments and brackets are recognized; nothing is parsed. The digest of any range of
// tokens takes the same time, regardless of its length, and ignores changes by formatters.
package lexer

import (
	"cmp"
	"hash/maphash"
	"math/bits"
)

// Source is a file as tokens. The digest of any range of tokens takes constant time; otherwise,
// nested tests would take quadratic time.
type Source struct {
	Tokens  []Token
	Pairs   []int    // index of the bracket that closes or opens this one, or -1
	hashes  []uint64 // of the preceding tokens
	counts  []int    // of the preceding significant tokens
	powers  []uint64
	Broken  string // why it is not valid code
	TooDeep bool   // nested deeper than real code
}

// MaxNesting is the maximum nesting of brackets.
const MaxNesting = 400

var (
	hashSeed  = maphash.MakeSeed()
	hashBase  = maphash.String(hashSeed, "base") % hashPrime
	hashPrime = uint64(1)<<61 - 1
)

func mulmod(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	_, rem := bits.Div64(hi%hashPrime, lo, hashPrime)
	return rem
}

// Index prepares a source for digests and matches its brackets.
func (s *Source) Index() *Source {
	n := len(s.Tokens)
	s.hashes, s.powers, s.counts = make([]uint64, n+1), make([]uint64, n+1), make([]int, n+1)
	s.powers[0] = 1
	for i, t := range s.Tokens {
		if t.StartsLine && t.Is("<") && s.conflictAt(i) {
			s.Fail("it contains conflict markers")
		}
		s.powers[i+1] = mulmod(s.powers[i], hashBase)
		s.hashes[i+1], s.counts[i+1] = s.hashes[i], s.counts[i]
		if t.Is(";") { // formatters add and remove them
			continue
		}
		h := maphash.String(hashSeed, t.Text) % hashPrime
		if t.Kind == Text {
			h ^= 1
		}
		s.hashes[i+1] = (mulmod(s.hashes[i], hashBase) + h%hashPrime) % hashPrime
		s.counts[i+1]++
	}
	s.match()
	return s
}

// conflictAt reports whether a marker that git leaves for an unresolved conflict begins at a token:
// <<<<<<< ours.
func (s *Source) conflictAt(i int) bool {
	const marker = 7
	for k := range marker {
		if !s.At(i+k).Is("<") || s.At(i+k).Line != s.At(i).Line {
			return false
		}
	}
	return true
}

var closers = map[string]string{"(": ")", "[": "]", "{": "}"}

func (s *Source) match() {
	s.Pairs = make([]int, len(s.Tokens))
	var open []int
	for i, t := range s.Tokens {
		s.Pairs[i] = -1
		if t.Kind != Punct {
			continue
		}
		switch t.Text {
		case "(", "[", "{":
			open = append(open, i)
			if len(open) > MaxNesting {
				s.Fail("it is nested too deeply")
				s.TooDeep = true
				return
			}
		case ")", "]", "}":
			if len(open) == 0 || closers[s.Tokens[open[len(open)-1]].Text] != t.Text {
				s.Fail("a closing bracket has no opening bracket")
				continue
			}
			s.Pairs[i], s.Pairs[open[len(open)-1]] = open[len(open)-1], i
			open = open[:len(open)-1]
		}
	}
	if len(open) > 0 {
		s.Fail("a bracket is not closed")
	}
}

// Fail records why the source is not valid code. Only the first reason is kept.
func (s *Source) Fail(why string) {
	s.Broken = cmp.Or(s.Broken, why)
}

// Digest returns the digest of the tokens from (inclusive) to (exclusive).
func (s *Source) Digest(from, to int) Digest {
	from, to = max(from, 0), min(to, len(s.Tokens))
	if from >= to {
		return 0
	}
	return Digest(s.hash(from, to)) + 1
}

func (s *Source) hash(from, to int) uint64 {
	lost := mulmod(s.hashes[from], s.powers[s.counts[to]-s.counts[from]])
	return (s.hashes[to] + hashPrime - lost) % hashPrime
}

// Lines returns the digests of the lines of a span, at most the first most of them. Lines of brackets
// alone are omitted.
func (s *Source) Lines(span Span, most int) (lines []Digest) {
	from, word := span.From, false
	for i := span.From; i < min(span.To, len(s.Tokens)) && len(lines) < most; i++ {
		word = word || s.Tokens[i].Kind != Punct
		if i+1 < span.To && !s.At(i+1).StartsLine {
			continue
		}
		if word {
			lines = append(lines, s.Digest(from, i+1))
		}
		from, word = i+1, false
	}
	return lines
}

// Words returns the digests of the tokens of a span that are not punctuation, at most the first most of
// them.
func (s *Source) Words(span Span, most int) (words []Digest) {
	for i := span.From; i < min(span.To, len(s.Tokens)) && len(words) < most; i++ {
		if s.Tokens[i].Kind != Punct {
			words = append(words, s.Digest(i, i+1))
		}
	}
	return words
}

// Texts returns the digests of the strings of a span, at most the first most of them.
func (s *Source) Texts(span Span, most int) (texts []Digest) {
	for i := span.From; i < min(span.To, len(s.Tokens)) && len(texts) < most; i++ {
		if s.Tokens[i].Kind == Text {
			texts = append(texts, s.Digest(i, i+1))
		}
	}
	return texts
}

// At returns the token at an index, or an empty token.
func (s *Source) At(i int) Token {
	if i < 0 || i >= len(s.Tokens) {
		return Token{}
	}
	return s.Tokens[i]
}

// Close returns the index of the bracket that closes the bracket at i, or the end of the source.
func (s *Source) Close(i int) int {
	if i < 0 || i >= len(s.Pairs) {
		return len(s.Tokens)
	}
	if s.Pairs[i] < i {
		return len(s.Tokens)
	}
	return s.Pairs[i]
}

// Split splits the tokens between an opening bracket and its end at the commas directly inside; it
// returns nil if the bracket is not closed.
func (s *Source) Split(open int) []Span {
	end := s.Close(open)
	if end >= len(s.Tokens) {
		return nil // otherwise the rest of a long file would be searched many times
	}
	var out []Span
	from := open + 1
	for i := from; i < end; i++ {
		if s.Pairs[i] > i {
			i = s.Pairs[i]
			continue
		}
		if s.At(i).Is(",") {
			out = append(out, Span{from, i})
			from = i + 1
		}
	}
	if from < end {
		out = append(out, Span{from, end})
	}
	return out
}

// DigestWithout returns the digest of a span without some sorted spans inside it.
func (s *Source) DigestWithout(whole Span, holes []Span) Digest {
	whole = Span{max(whole.From, 0), min(whole.To, len(s.Tokens))}
	var out uint64
	at := whole.From
	add := func(to int) {
		if at < to {
			out = (mulmod(out, s.powers[s.counts[to]-s.counts[at]]) + s.hash(at, to)) % hashPrime
		}
	}
	for _, h := range holes {
		if h.From >= at && h.From < whole.To {
			add(h.From)
			at = min(h.To, whole.To)
		}
	}
	add(whole.To)
	return Digest(out) + 1
}

// MaxStatement is the maximum number of tokens read from a statement without braces.
const MaxStatement = 400

// TextDigest returns the digest of a text that is not a token.
func TextDigest(s string) Digest {
	return (&Source{Tokens: []Token{{Kind: Text, Text: s}}}).Index().Digest(0, 1)
}
