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
		postings, err := s.postings(t.Text)
		if err != nil {
			return err
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

// postings returns where a term occurs. Some terms are needed more than once.
func (s *search) postings(term string) ([]Posting, error) {
	if p, ok := s.known[term]; ok {
		return p, nil
	}
	p, err := s.corpus.Postings(term)
	if err != nil {
		return nil, fmt.Errorf("look up %q: %w", term, err)
	}
	s.known[term] = p
	return p, nil
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
	relevant := false
	for f, count := range p.Count {
		relevant = relevant || count > 0 && fields[f] > 0
	}
	if !relevant {
		return 0
	}
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

// best makes a list of the accepted documents with the highest scores. It keeps the best ones in a heap
// whose root is the worst of them, because sorting all documents takes longer than scoring them.
func (s *search) best(scores []float64) list {
	depth := max(s.weights.Depth, 1)
	heap := make(list, 0, depth)
	for doc, score := range scores {
		if score <= 0 || len(heap) == depth && score <= heap[0].score || !s.accepts(uint32(doc)) {
			continue // of equal scores, the first documents stay
		}
		e := entry{doc: uint32(doc), score: score}
		if len(heap) < depth {
			heap = append(heap, e)
			heap.up(len(heap) - 1)
		} else {
			heap[0] = e
			heap.down(0)
		}
	}
	heap.sort()
	return heap
}

// worse says that entry i comes after entry j.
func (l list) worse(i, j int) bool {
	return l[i].score < l[j].score || l[i].score == l[j].score && l[i].doc > l[j].doc
}

func (l list) up(i int) {
	for i > 0 && l.worse(i, (i-1)/2) {
		l[i], l[(i-1)/2] = l[(i-1)/2], l[i]
		i = (i - 1) / 2
	}
}

func (l list) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(l) {
			return
		}
		if child+1 < len(l) && l.worse(child+1, child) {
			child++
		}
		if !l.worse(child, i) {
			return
		}
		l[i], l[child] = l[child], l[i]
		i = child
	}
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
