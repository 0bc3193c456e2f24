package main

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// The baselines see the same files as the brain. Both work on words: runs of letters, digits and
// underscores, in lower case.

func baselineByte(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || b == '_' || b >= utf8.RuneSelf
}

// baselineWords calls emit with each word of a text.
func baselineWords(text []byte, emit func(word []byte)) {
	var buffer []byte
	for i := 0; i < len(text); {
		if !baselineByte(text[i]) {
			i++
			continue
		}
		start := i
		for i < len(text) && baselineByte(text[i]) {
			i++
		}
		buffer = buffer[:0]
		for _, b := range text[start:i] {
			if b >= 'A' && b <= 'Z' {
				b += 'a' - 'A'
			}
			buffer = append(buffer, b)
		}
		emit(buffer)
	}
}

// addWords counts the words of a file.
func (s *store) addWords(b *blob, content []byte) {
	counts := map[uint32]uint16{}
	baselineWords(content, func(w []byte) {
		b.WordLength++
		if len(w) > 100 {
			return
		}
		if n := s.Words.number(w); counts[n] < math.MaxUint16 {
			counts[n]++
		}
	})
	for n := range counts {
		b.Words = append(b.Words, n)
	}
	slices.Sort(b.Words)
	for _, n := range b.Words {
		b.WordCounts = append(b.WordCounts, counts[n])
	}
}

func (b *blob) words(n uint32) float64 {
	if i, ok := slices.BinarySearch(b.Words, n); ok {
		return float64(b.WordCounts[i])
	}
	return 0
}

// queryWords returns the different words of a question.
func queryWords(text string) []string {
	var words []string
	baselineWords([]byte(text), func(w []byte) {
		if !slices.Contains(words, string(w)) {
			words = append(words, string(w))
		}
	})
	return words
}

// bm25 ranks the files of a snapshot by plain BM25 over their contents: k1 1.2, b 0.75.
func bm25(v *snapshot, text string) []uint32 {
	const k1, b = 1.2, 0.75
	var average float64
	for _, f := range v.blobs {
		average += float64(f.WordLength)
	}
	average /= float64(len(v.blobs))
	scores := make([]float64, len(v.blobs))
	for _, w := range queryWords(text) {
		n, ok := v.store.Words.find(w)
		if !ok {
			continue
		}
		tf := make([]float64, len(v.blobs))
		df := 0.0
		for doc, f := range v.blobs {
			if tf[doc] = f.words(n); tf[doc] > 0 {
				df++
			}
		}
		idf := math.Log(1 + (float64(len(v.blobs))-df+0.5)/(df+0.5))
		for doc, f := range v.blobs {
			if tf[doc] > 0 {
				scores[doc] += idf * tf[doc] * (k1 + 1) / (tf[doc] + k1*(1-b+b*float64(f.WordLength)/average))
			}
		}
	}
	return best(scores)
}

func best(scores []float64) []uint32 {
	var docs []uint32
	for doc, score := range scores {
		if score > 0 {
			docs = append(docs, uint32(doc))
		}
	}
	slices.SortFunc(docs, func(a, b uint32) int {
		return cmp.Or(cmp.Compare(scores[b], scores[a]), cmp.Compare(a, b))
	})
	return docs
}

// grepWords are the words of a question that one would search for with ripgrep: three letters or more,
// and no common English words, which would match everything.
func grepWords(text string) []string {
	var words []string
	for _, w := range queryWords(text) {
		if len(w) >= 3 && !slices.Contains(commonWords, w) {
			words = append(words, w)
		}
	}
	return words
}

var commonWords = strings.Fields(`the and for are but not you all any can had her was one our out has have this that with
	from they will would there their what when where which while into than then them these those been being also
	some such only other over very just should could does did doing its it's too`)

// ripgrep ranks the files as "rg --count-matches --ignore-case --fixed-strings WORD" does for each word
// of the question: by the number of words that a file contains, then by the number of matches.
func ripgrep(v *snapshot, text string, memo map[string][]uint32) []uint32 {
	distinct := make([]float64, len(v.blobs))
	hits := make([]float64, len(v.blobs))
	for _, w := range grepWords(text) {
		containing, ok := memo[w]
		if !ok {
			containing = v.store.containing(w)
			memo[w] = containing
		}
		for doc, f := range v.blobs {
			n := 0.0
			if len(containing) < len(f.Words) {
				for _, c := range containing {
					n += f.words(c)
				}
			} else {
				for i, c := range f.Words {
					if _, ok := slices.BinarySearch(containing, c); ok {
						n += float64(f.WordCounts[i])
					}
				}
			}
			if n > 0 {
				distinct[doc]++
				hits[doc] += n
			}
		}
	}
	scores := make([]float64, len(v.blobs))
	for doc := range scores {
		scores[doc] = distinct[doc]*1e9 + hits[doc]
	}
	return best(scores)
}

// containing returns the words of the store that contain a word, ascending: what grep matches, because
// a word of a question never matches across the end of a word of a file.
func (s *store) containing(w string) []uint32 {
	var all []uint32
	for n, candidate := range s.Words.Words {
		if strings.Contains(candidate, w) {
			all = append(all, uint32(n))
		}
	}
	return all
}
