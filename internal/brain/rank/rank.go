package rank

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/brain/terms"
)

// Signal is one way to find files. Each signal gives a list of files, best first.
type Signal uint8

// The signals.
const (
	SignalKeywords Signal = iota // the words of the question, in all fields
	SignalNamed                  // file names of the question, also those in stack traces
	SignalDefined                // definitions that the question quotes, such as func Foo
	SignalPath                   // words of the question in paths
	SignalSymbol                 // identifiers of the question that the file defines
	SignalPast                   // files that similar commits changed
	SignalTopic                  // files whose past commits speak of the question's words
	SignalActivity               // files that change often, among those that other signals found
	SignalVectors                // embeddings, given by the caller
	SignalTogether               // files that changed together with the first candidates
	SignalImports                // files that import the first candidates, or that they import
	SignalPair                   // the tests of the first candidates, and what they test
	SignalNear                   // files beside the first candidates, or with a similar name
	Signals                      // number of signals
)

var signalNames = [Signals]string{
	"keywords", "named", "defined", "path", "symbol", "similar commits", "past messages", "activity", "embedding", "changed together",
	"imports", "test pair", "nearby",
}

// String returns the signal's name.
func (s Signal) String() string {
	if s >= Signals {
		return "unknown"
	}
	return signalNames[s]
}

// Vote is a file that past commits speak for.
type Vote struct {
	Path  string
	Score float64
	// Why is a short explanation, such as the commit that counted most.
	Why string
}

// Past is the history of the snapshot, without the commits that came after it.
type Past interface {
	// Similar returns the files that commits with similar messages changed, best first.
	Similar(q terms.QueryTerms) []Vote
	// Topics returns the files whose commits' messages, taken together, have the words, best first.
	Topics(q terms.QueryTerms) []Vote
	// Together returns the files that changed in the same commits as the seeds, best first.
	Together(seeds []Vote) []Vote
	// Activity says how often and how recently a file changed; 0: not at all.
	Activity(path string) float64
}

// Scored is a document with a score.
type Scored struct {
	Doc   uint32
	Score float64
}

// Question is what to look for.
type Question struct {
	Text string
	// Accept says which documents may be in the result; nil: all.
	Accept func(doc uint32) bool
	// Vectors are documents whose embeddings are close to the question's, best first, if there are any.
	Vectors []Scored
	// Limit is the number of results; 0: DefaultLimit.
	Limit int
}

// DefaultLimit is the number of results of a question that does not say how many it wants.
const DefaultLimit = 20

// Result is a file that matters for a question.
type Result struct {
	Doc   uint32
	Path  string
	Score float64
	// Reasons say which signals found it, the one that counted most first.
	Reasons []Reason
}

// Reason is a signal that found a file.
type Reason struct {
	Signal Signal
	Rank   int // in the signal's list, from 1
	Share  float64
	Detail string
}

// String explains the result in one line: "matched: keywords 1st (parser, args), path 3rd".
func (r Result) String() string {
	var parts []string
	for _, reason := range r.Reasons {
		part := fmt.Sprintf("%s #%d", reason.Signal, reason.Rank)
		if reason.Detail != "" {
			part += " (" + reason.Detail + ")"
		}
		parts = append(parts, part)
	}
	return "matched: " + strings.Join(parts, ", ")
}

// Ranker answers questions about one snapshot. It is safe for concurrent use.
type Ranker struct {
	corpus  Corpus
	past    Past
	weights Weights
	average [Fields]float64 // lengths
}

// New returns a ranker. past may be nil.
func New(corpus Corpus, past Past, weights Weights) *Ranker {
	r := &Ranker{corpus: corpus, past: past, weights: weights}
	if c, ok := corpus.(interface{ AverageLength() [Fields]float64 }); ok {
		r.average = c.AverageLength() // known, so that a question need not look at all documents
		return r
	}
	n := corpus.Docs()
	for doc := range n {
		for f, length := range corpus.Length(uint32(doc)) {
			r.average[f] += float64(length)
		}
	}
	for f := range r.average {
		r.average[f] = max(r.average[f]/float64(max(n, 1)), 1)
	}
	return r
}

// Search returns the files that matter for a question, best first.
func (r *Ranker) Search(q Question) ([]Result, error) {
	s, err := r.start(q)
	if err != nil {
		return nil, err
	}
	seeds := s.fuse(r.weights.Signal).top(r.weights.Seeds)
	s.expand(seeds)
	return s.results(s.fuse(r.weights.Signal), cmp.Or(q.Limit, DefaultLimit)), nil
}

// search is one question at work.
type search struct {
	*Ranker
	Question
	terms terms.QueryTerms
	words []word // the terms that the corpus knows, the most telling ones
	lists [Signals]list
	known map[string][]Posting // looked up so far
}

// list is what one signal found, best first.
type list []entry

type entry struct {
	doc   uint32
	score float64
	why   string
}

// start fills the lists of the signals that need nothing but the question.
func (r *Ranker) start(q Question) (*search, error) {
	s := &search{Ranker: r, Question: q, terms: terms.Query(q.Text), known: map[string][]Posting{}}
	if err := s.lookUp(); err != nil {
		return nil, err
	}
	s.lists[SignalKeywords] = s.keywords()
	s.lists[SignalPath] = s.score([Fields]float64{FieldPath: 1})
	named, err := s.named()
	if err != nil {
		return nil, err
	}
	s.lists[SignalNamed] = named
	if s.lists[SignalDefined], err = s.defined(); err != nil {
		return nil, err
	}
	symbols, err := s.symbols()
	if err != nil {
		return nil, err
	}
	s.lists[SignalSymbol] = symbols
	if r.past != nil {
		s.lists[SignalPast] = s.votes(r.past.Similar(s.terms))
		s.lists[SignalTopic] = s.votes(r.past.Topics(s.terms))
		s.lists[SignalActivity] = s.activity()
	}
	for _, v := range q.Vectors {
		if int64(v.Doc) < int64(r.corpus.Docs()) && s.accepts(v.Doc) {
			s.lists[SignalVectors] = append(s.lists[SignalVectors], entry{doc: v.Doc, score: v.Score})
		}
	}
	return s, nil
}

func (s *search) accepts(doc uint32) bool { return s.Accept == nil || s.Accept(doc) }

// doc returns the document of a path.
func (r *Ranker) doc(path string) (uint32, bool) {
	n := r.corpus.Docs()
	i := sort.Search(n, func(i int) bool { return r.corpus.Path(uint32(i)) >= path })
	return uint32(i), i < n && r.corpus.Path(uint32(i)) == path
}

// votes makes a list of votes: files that do not exist in the snapshot are left out.
func (s *search) votes(votes []Vote) list {
	var l list
	for _, v := range votes {
		if doc, ok := s.doc(v.Path); ok && s.accepts(doc) {
			l = append(l, entry{doc: doc, score: v.Score, why: v.Why})
		}
		if len(l) == s.weights.Depth {
			break
		}
	}
	return l
}

// activity orders what the other signals found by how often and how recently it changed.
func (s *search) activity() list {
	var l list
	for _, e := range s.fuse(s.weights.Signal).top(s.weights.Depth) {
		if a := s.past.Activity(s.corpus.Path(e.doc)); a > 0 {
			l = append(l, entry{doc: e.doc, score: a})
		}
	}
	l.sort()
	return l
}

// sort puts the best first. Documents break ties, so that the order does not depend on chance.
func (l list) sort() {
	slices.SortFunc(l, func(a, b entry) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.doc, b.doc))
	})
}

// top returns the first n entries.
func (l list) top(n int) list { return l[:min(n, len(l))] }

// fuse combines the lists by reciprocal ranks: a file gets weight/(K+rank) from each list that it is
// in. Files with the same score in a list have the same rank.
func (s *search) fuse(weights [Signals]float64) list {
	scores := map[uint32]float64{}
	for signal, l := range s.lists {
		w := weights[signal]
		if w == 0 {
			continue
		}
		for i, rank := range l.ranks() {
			scores[l[i].doc] += w / (s.weights.K + float64(rank))
		}
	}
	out := make(list, 0, len(scores))
	for doc, score := range scores {
		out = append(out, entry{doc: doc, score: score})
	}
	out.sort()
	return out
}

// ranks returns the rank of each entry, from 1: entries with the same score share one.
func (l list) ranks() []int {
	ranks := make([]int, len(l))
	for i := range l {
		ranks[i] = i + 1
		if i > 0 && l[i].score == l[i-1].score {
			ranks[i] = ranks[i-1]
		}
	}
	return ranks
}

// results explains the best entries.
func (s *search) results(fused list, limit int) []Result {
	fused = fused.top(limit)
	at := make(map[uint32]int, len(fused))
	results := make([]Result, len(fused))
	for i, e := range fused {
		at[e.doc] = i
		results[i] = Result{Doc: e.doc, Path: s.corpus.Path(e.doc), Score: e.score}
	}
	for signal, l := range s.lists {
		w := s.weights.Signal[signal]
		for j, rank := range l.ranks() {
			i, ok := at[l[j].doc]
			if !ok || w == 0 {
				continue
			}
			results[i].Reasons = append(results[i].Reasons, Reason{
				Signal: Signal(signal), Rank: rank, Share: w / (s.weights.K + float64(rank)), Detail: l[j].why,
			})
		}
	}
	for _, r := range results {
		slices.SortStableFunc(r.Reasons, func(a, b Reason) int { return cmp.Compare(b.Share, a.Share) })
		for i, reason := range r.Reasons {
			if reason.Signal == SignalKeywords {
				r.Reasons[i].Detail = s.matched(r.Doc)
			}
		}
	}
	return results
}
