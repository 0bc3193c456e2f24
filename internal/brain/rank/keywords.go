package rank

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// word is a term of the question that the corpus knows.
type word struct {
	text     string
	weight   float64 // in the question
	idf      float64 // how few files have it
	postings []Posting
}

// lookUp fills the words: of a long question, those that tell files apart best.
func (s *search) lookUp() error {
	n := float64(s.corpus.Docs())
	whole := map[string]bool{}
	for _, name := range s.terms.Identifiers {
		whole[joined(name)] = true
	}
	for _, t := range s.terms.Terms {
		postings, err := s.corpus.Postings(t.Text)
		if err != nil {
			return fmt.Errorf("look up %q: %w", t.Text, err)
		}
		if len(postings) == 0 {
			continue
		}
		df := float64(len(postings))
		w := word{text: t.Text, postings: postings, idf: math.Log(1 + (n-df+0.5)/(df+0.5)), weight: 1 + math.Log(float64(t.Count))}
		if t.Head {
			w.weight *= s.weights.Head
		}
		if whole[t.Text] {
			w.weight *= s.weights.Identifier
		}
		s.words = append(s.words, w)
	}
	if len(s.words) > s.weights.Words {
		slices.SortStableFunc(s.words, func(a, b word) int { return cmp.Compare(b.weight*b.idf, a.weight*a.idf) })
		s.words = s.words[:s.weights.Words]
	}
	return nil
}

// joined returns an identifier as the term that stands for all of it: in lower case, without
// underscores.
func joined(name string) string {
	return strings.ToLower(strings.ReplaceAll(name, "_", ""))
}

// keywords ranks by BM25F: occurrences in all fields, weighted, count as one number of occurrences.
func (s *search) keywords() list {
	return s.score(s.weights.Field)
}

// score ranks by the fields that have a weight.
func (s *search) score(fields [Fields]float64) list {
	scores := make([]float64, s.corpus.Docs())
	for _, w := range s.words {
		for _, p := range w.postings {
			if tf := s.occurrences(p, fields); tf > 0 {
				scores[p.Doc] += w.weight * w.idf * tf * (s.weights.K1 + 1) / (s.weights.K1 + tf)
			}
		}
	}
	return s.best(scores)
}

// occurrences is the weighted number of occurrences, corrected for the lengths of the fields.
func (s *search) occurrences(p Posting, fields [Fields]float64) float64 {
	length := s.corpus.Length(p.Doc)
	var tf float64
	for f, count := range p.Count {
		if count > 0 && fields[f] > 0 {
			b := s.weights.B[f]
			tf += fields[f] * float64(count) / (1 - b + b*float64(length[f])/s.average[f])
		}
	}
	return tf
}

// best makes a list of the accepted documents with the highest scores.
func (s *search) best(scores []float64) list {
	var l list
	for doc, score := range scores {
		if score > 0 && s.accepts(uint32(doc)) {
			l = append(l, entry{doc: uint32(doc), score: score})
		}
	}
	l.sort()
	return slices.Clip(l.top(s.weights.Depth))
}

// maxMatched is the number of words that an explanation names.
const maxMatched = 6

// matched names the words of the question that a document has, the most telling first.
func (s *search) matched(doc uint32) string {
	var found []word
	for _, w := range s.words {
		_, ok := slices.BinarySearchFunc(w.postings, doc, func(p Posting, doc uint32) int { return cmp.Compare(p.Doc, doc) })
		if ok {
			found = append(found, w)
		}
	}
	slices.SortStableFunc(found, func(a, b word) int { return cmp.Compare(b.weight*b.idf, a.weight*a.idf) })
	var names []string
	for _, w := range found[:min(maxMatched, len(found))] {
		names = append(names, w.text)
	}
	return strings.Join(names, " ")
}
