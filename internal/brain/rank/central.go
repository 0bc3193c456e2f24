package rank

import "slices"

// Central returns the files that matter most without a question: those that many files import, and
// those that change often, best first. Documentation and tests come after what they are about, because
// nothing imports them.
func (r *Ranker) Central(limit int) []Result {
	s := &search{Ranker: r}
	var imported, changed list
	for doc := range uint32(r.corpus.Docs()) {
		if n := len(r.corpus.ImportedBy(doc)); n > 0 {
			imported = append(imported, entry{doc: doc, score: float64(n)})
		}
		if r.past == nil {
			continue
		}
		if a := r.past.Activity(r.corpus.Path(doc)); a > 0 {
			changed = append(changed, entry{doc: doc, score: a})
		}
	}
	imported.sort()
	changed.sort()
	s.lists[SignalImports], s.lists[SignalActivity] = imported, changed
	var weights [Signals]float64
	weights[SignalImports], weights[SignalActivity] = 1, 1
	fused := slices.Clip(s.fuse(weights))
	if len(fused) < limit { // a new repository, or one whose imports are not understood
		fused = append(fused, s.rest(fused, limit)...)
	}
	return s.results(fused, limit)
}

// rest returns documents that are not in a list, those in fewer directories first.
func (s *search) rest(l list, limit int) list {
	in := make([]bool, s.corpus.Docs())
	for _, e := range l {
		in[e.doc] = true
	}
	var out list
	for doc := range uint32(s.corpus.Docs()) {
		if !in[doc] {
			depth := 0
			for _, b := range []byte(s.corpus.Path(doc)) {
				if b == '/' {
					depth++
				}
			}
			out = append(out, entry{doc: doc, score: -float64(depth)})
		}
	}
	out.sort()
	return out.top(limit - len(l))
}
