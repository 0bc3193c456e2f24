package vectors

import (
	"cmp"
	"container/heap"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"

	"github.com/rocketgpt/orchestrator/internal/brain/rank"
)

// Set are the vectors of the files of one tree. It is safe for concurrent use and stays valid whatever
// happens to the file of the vectors.
type Set struct {
	file *os.File
	gen  int
	dims int
	docs []int32 // of each row of the file; -1: of another tree
	n    int     // documents with vectors
	of   int     // documents
}

// Select returns the vectors of documents, given by their keys in the order of documents.
func (f *File) Select(keys []Key) *Set {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &Set{file: f.file, gen: f.gen, dims: f.dims, docs: make([]int32, f.rows), of: len(keys)}
	for i := range s.docs {
		s.docs[i] = -1
	}
	for doc, k := range keys {
		p, ok := f.at[k]
		if !ok {
			continue
		}
		s.n++
		for i := range uint32(p.parts) {
			s.docs[p.first+i] = int32(doc)
		}
	}
	return s
}

// Documents returns the number of documents that have vectors.
func (s *Set) Documents() int { return s.n }

// Generation returns that of the file when the set was made.
func (s *Set) Generation() int { return s.gen }

// blockRows is the number of rows that are read at once.
const blockRows = 2048

// Nearest returns the documents one of whose vectors is closest to a question's, best first, by
// comparing it with all of them. accept says which documents count; nil: all. The vectors are read from
// the file, which the operating system keeps in memory as far as it has some left.
func (s *Set) Nearest(vector []float32, most int, accept func(doc uint32) bool) ([]rank.Scored, error) {
	if s.n == 0 {
		return nil, nil
	}
	if len(vector) != s.dims {
		return nil, fmt.Errorf("%w: %d, not %d", ErrDimensions, len(vector), s.dims)
	}
	q, err := newQuestion(vector)
	if err != nil {
		return nil, err
	}
	blocks := (len(s.docs) + blockRows - 1) / blockRows
	workers := min(runtime.GOMAXPROCS(0), blocks)
	scores, errs := make([][]float32, workers), make([]error, workers)
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() {
			scores[w], errs[w] = s.scan(q, blocks*w/workers*blockRows, min(blocks*(w+1)/workers*blockRows, len(s.docs)))
		})
	}
	group.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, fmt.Errorf("read the embeddings on disk: %w", err)
		}
	}
	return s.best(scores, most, accept), nil
}

// none is less than all similarities.
const none = -2

// scan returns the best similarity of each document in some rows.
func (s *Set) scan(q question, from, to int) ([]float32, error) {
	best := make([]float32, s.of)
	for i := range best {
		best[i] = none
	}
	size := rowHead + scaleBytes + s.dims
	buffer := make([]byte, blockRows*size)
	for ; from < to; from += blockRows {
		docs := s.docs[from:min(from+blockRows, to)]
		if !slices.ContainsFunc(docs, func(doc int32) bool { return doc >= 0 }) {
			continue
		}
		rows := buffer[:len(docs)*size]
		if _, err := s.file.ReadAt(rows, headBytes+int64(from)*int64(size)); err != nil {
			return nil, err
		}
		for i, doc := range docs {
			if doc >= 0 {
				best[doc] = max(best[doc], q.similarity(rows[i*size+rowHead:(i+1)*size]))
			}
		}
	}
	return best, nil
}

// best returns the documents with the highest scores.
func (s *Set) best(scores [][]float32, most int, accept func(doc uint32) bool) []rank.Scored {
	var top worstFirst
	for doc := range s.of {
		score := float32(none)
		for _, part := range scores {
			score = max(score, part[doc])
		}
		if score == none || len(top) == most && float64(score) <= top[0].Score || accept != nil && !accept(uint32(doc)) {
			continue
		}
		if len(top) == most {
			heap.Pop(&top)
		}
		heap.Push(&top, rank.Scored{Doc: uint32(doc), Score: float64(score)})
	}
	slices.SortFunc(top, func(a, b rank.Scored) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Doc, b.Doc))
	})
	return top
}

// worstFirst is a heap whose root is the entry that is replaced next.
type worstFirst []rank.Scored

func (h worstFirst) Len() int { return len(h) }
func (h worstFirst) Less(i, j int) bool {
	return h[i].Score < h[j].Score || h[i].Score == h[j].Score && h[i].Doc > h[j].Doc
}
func (h worstFirst) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push adds an entry.
func (h *worstFirst) Push(x any) { *h = append(*h, x.(rank.Scored)) }

// Pop removes the last entry.
func (h *worstFirst) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}
