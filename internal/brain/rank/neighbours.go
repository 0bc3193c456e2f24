package rank

import (
	"math"
	"path"
	"strings"
)

// expand fills the lists of the signals that start from the first candidates.
func (s *search) expand(seeds list) {
	if s.past != nil {
		votes := make([]Vote, len(seeds))
		for i, e := range seeds {
			votes[i] = Vote{Path: s.corpus.Path(e.doc), Score: e.score}
		}
		s.lists[SignalTogether] = s.votes(s.past.Together(votes))
	}
	s.lists[SignalImports] = s.imports(seeds)
	s.lists[SignalPair] = s.pairs(seeds)
	s.lists[SignalNear] = s.near(seeds)
}

// maxFan is the number of neighbours above which a file does not say much about each of them.
const maxFan = 300

// imports ranks the neighbours of the seeds in the import graph. A seed's vote is shared by its
// neighbours, with a root, so that a file which everything imports does not decide.
func (s *search) imports(seeds list) list {
	scores := map[uint32]float64{}
	from := map[uint32]uint32{}
	for _, e := range seeds {
		for _, next := range [][]uint32{s.corpus.Imports(e.doc), s.corpus.ImportedBy(e.doc)} {
			if len(next) > maxFan {
				continue
			}
			for _, doc := range next {
				if !s.accepts(doc) || doc == e.doc {
					continue
				}
				if _, ok := from[doc]; !ok {
					from[doc] = e.doc
				}
				scores[doc] += e.score / math.Sqrt(float64(len(next)))
			}
		}
	}
	return s.neighbours(scores, from)
}

// neighbours makes a list of scores, with the seed that each document was found by.
func (s *search) neighbours(scores map[uint32]float64, from map[uint32]uint32) list {
	var l list
	for doc, score := range scores {
		l = append(l, entry{doc: doc, score: score, why: s.corpus.Path(from[doc])})
	}
	l.sort()
	return l.top(s.weights.Depth)
}

// pairs ranks the tests of the seeds, and what the seeds test, by the seeds' order.
func (s *search) pairs(seeds list) list {
	scores := map[uint32]float64{}
	from := map[uint32]uint32{}
	for _, e := range seeds {
		candidates, err := s.rarest(s.pairName(e.doc))
		if err != nil {
			continue // the seeds were found by the same index: its failure was reported before
		}
		var best []uint32
		bestShared := -1
		own := s.corpus.Path(e.doc)
		for _, p := range candidates {
			other := s.corpus.Path(p.Doc)
			if p.Doc == e.doc || !s.accepts(p.Doc) || !arePair(own, other) {
				continue
			}
			if shared := sharedElements(own, other); shared > bestShared {
				best, bestShared = best[:0], shared
			} else if shared < bestShared {
				continue
			}
			best = append(best, p.Doc)
		}
		for _, doc := range best {
			if _, ok := from[doc]; !ok {
				from[doc] = e.doc
			}
			scores[doc] += e.score / math.Sqrt(float64(len(best)))
		}
	}
	return s.neighbours(scores, from)
}

func (s *search) pairName(doc uint32) string {
	name, _ := testName(s.corpus.Path(doc))
	return name
}

// testName returns a file's name without its extension and without what marks it as a test, and
// whether it is one.
func testName(p string) (string, bool) {
	base := path.Base(p)
	if i := strings.IndexByte(base, '.'); i > 0 {
		marked := strings.ToLower(base[i:])
		base = base[:i]
		if strings.Contains(marked, ".test.") || strings.Contains(marked, ".spec.") {
			return base, true
		}
	}
	for _, suffix := range []string{"_test", "_spec", "-test", "-spec", "Tests", "Test", "Spec", "IT", "_tests"} {
		if name := strings.TrimSuffix(base, suffix); name != base && name != "" {
			return name, true
		}
	}
	for _, prefix := range []string{"test_", "test-", "Test", "tst_"} {
		if name := strings.TrimPrefix(base, prefix); name != base && name != "" {
			return name, true
		}
	}
	return base, false
}

// arePair says whether one of two files tests the other, by their names.
func arePair(a, b string) bool {
	nameA, testA := testName(a)
	nameB, testB := testName(b)
	if !testA && !testB {
		// The name alone does not say so: tests/parser.rs tests src/parser.rs.
		testA, testB = inTests(a), inTests(b)
	}
	return testA != testB && joined(nameA) == joined(nameB)
}

// inTests says whether a directory of tests is above a file.
func inTests(p string) bool {
	for dir := range strings.SplitSeq(path.Dir(p), "/") {
		switch strings.ToLower(dir) {
		case "test", "tests", "spec", "specs", "__tests__", "testing":
			return true
		}
	}
	return false
}

// sharedElements counts the directories' names that two paths have in common.
func sharedElements(a, b string) int {
	n := 0
	for dir := range strings.SplitSeq(path.Dir(a), "/") {
		for other := range strings.SplitSeq(path.Dir(b), "/") {
			if dir == other {
				n++
				break
			}
		}
	}
	return n
}

// maxDirectory is the number of files above which a directory does not say much about each of them.
const maxDirectory = 60

// near ranks the files in the seeds' directories. A seed's vote is shared by all of them.
func (s *search) near(seeds list) list {
	scores := map[uint32]float64{}
	from := map[uint32]uint32{}
	for _, e := range seeds {
		dir := path.Dir(s.corpus.Path(e.doc))
		first, end := s.directory(dir, e.doc)
		if end-first > maxDirectory {
			continue
		}
		for doc := first; doc < end; doc++ {
			if doc == e.doc || !s.accepts(doc) || path.Dir(s.corpus.Path(doc)) != dir {
				continue
			}
			if _, ok := from[doc]; !ok {
				from[doc] = e.doc
			}
			scores[doc] += e.score / math.Sqrt(float64(end-first))
		}
	}
	return s.neighbours(scores, from)
}

// directory returns the range of documents around doc, no larger than needed, that are below a
// directory.
func (s *search) directory(dir string, doc uint32) (first, end uint32) {
	below := func(doc uint32) bool {
		p := s.corpus.Path(doc)
		return dir == "." || len(p) > len(dir) && p[:len(dir)] == dir && p[len(dir)] == '/'
	}
	first, end = doc, doc+1
	for first > 0 && doc-first <= maxDirectory && below(first-1) {
		first--
	}
	for int(end) < s.corpus.Docs() && end-doc <= maxDirectory && below(end) {
		end++
	}
	return first, end
}
