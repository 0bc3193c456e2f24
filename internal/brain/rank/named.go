package rank

import (
	"fmt"
	"math"
	"path"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/brain/extract"
	"github.com/rocketgpt/orchestrator/internal/brain/terms"
)

// How much it counts that a question names a path, and how.
const (
	namedExactly  = 100 // the path itself
	namedByTail   = 60  // its last part, from a directory on, or a stack trace's longer path
	namedByFile   = 30  // the file's name alone, shared by all files of that name
	namedByModule = 15  // the path or its last part without the extension
	namedByParent = 4   // a directory above it
)

// maxSameName is the number of files that one name may stand for; a more common one says nothing.
const maxSameName = 50

// maxDefining is the number of files whose definitions are compared with a name of the question.
const maxDefining = 200

// named ranks by the files that the question names.
func (s *search) named() (list, error) {
	if len(s.terms.Frames) == 0 && len(s.terms.Paths) == 0 {
		return nil, nil
	}
	scores := make([]float64, s.corpus.Docs())
	for _, f := range s.terms.Frames {
		if err := s.addNamed(scores, f.Path); err != nil {
			return nil, err
		}
	}
	for _, p := range s.terms.Paths {
		if err := s.addNamed(scores, p); err != nil {
			return nil, err
		}
	}
	return s.best(scores), nil
}

// defined ranks by the definitions that the question quotes: the fewer files have one, the more it
// counts.
func (s *search) defined() (list, error) {
	if len(s.terms.Defined) == 0 {
		return nil, nil
	}
	scores := make([]float64, s.corpus.Docs())
	for _, name := range s.terms.Defined {
		if err := s.addDefined(scores, name); err != nil {
			return nil, err
		}
	}
	return s.best(scores), nil
}

// addDefined adds to the scores of the documents that define exactly a name.
func (s *search) addDefined(scores []float64, name string) error {
	docs, err := s.definingDocs(name)
	if err != nil {
		return err
	}
	var found []uint32
	for _, doc := range docs {
		e, err := s.corpus.Extract(doc)
		if err != nil {
			return fmt.Errorf("read the definitions of %s: %w", s.corpus.Path(doc), err)
		}
		if slices.ContainsFunc(e.Symbols, func(d extract.Symbol) bool { return d.Name == name }) {
			found = append(found, doc)
		}
	}
	for _, doc := range found {
		scores[doc] += 1 / math.Sqrt(float64(len(found)))
	}
	return nil
}

// addNamed adds to the scores of the documents that a path of the question can mean.
func (s *search) addNamed(scores []float64, named string) error {
	candidates, err := s.rarest(named)
	if err != nil {
		return err
	}
	named = strings.ToLower(named)
	module := strings.ReplaceAll(named, ".", "/") // if it is one
	docs := map[float64][]uint32{}
	for _, p := range candidates {
		if v := namedAs(strings.ToLower(s.corpus.Path(p.Doc)), named, module); v > 0 {
			docs[v] = append(docs[v], p.Doc)
		}
	}
	for _, value := range []float64{namedExactly, namedByTail, namedByFile, namedByModule, namedByParent} {
		if found := docs[value]; len(found) > 0 && len(found) <= maxSameName {
			for _, doc := range found {
				scores[doc] += value / math.Sqrt(float64(len(found)))
			}
			return nil // a worse match is another file
		}
	}
	return nil
}

// rarest returns the postings of the rarest term of a path, among files that have it in their paths.
func (s *search) rarest(named string) ([]Posting, error) {
	var best []Posting
	var failed error
	first := true
	base := path.Base(named)
	terms.Split([]byte(strings.TrimSuffix(base, path.Ext(base))), func(term []byte) {
		if failed != nil {
			return
		}
		postings, err := s.postings(string(term))
		if err != nil {
			failed = err
			return
		}
		if first || len(postings) < len(best) {
			best, first = postings, false
		}
	})
	var inPath []Posting
	for _, p := range best {
		if p.Count[FieldPath] > 0 {
			inPath = append(inPath, p)
		}
	}
	return inPath, failed
}

// namedAs says how well a name in the question fits a path. All are in lower case; module is the name
// with slashes for dots.
func namedAs(p, named, module string) float64 {
	stem := strings.TrimSuffix(p, path.Ext(p))
	switch {
	case p == named:
		return namedExactly
	case strings.Contains(named, "/") && (strings.HasSuffix(p, "/"+named) || strings.HasSuffix(named, "/"+p)),
		sharedTail(p, named) >= 2:
		return namedByTail
	case path.Base(p) == path.Base(named):
		return namedByFile
	case stem == module, strings.HasSuffix(stem, "/"+module), stem == named, strings.HasSuffix(stem, "/"+named),
		strings.HasSuffix(module, "/"+path.Base(stem)) && strings.HasPrefix(module, path.Base(path.Dir(p))+"/"):
		return namedByModule
	case strings.Contains(named, "/") && strings.Contains("/"+p, "/"+named+"/"):
		return namedByParent
	}
	return 0
}

// sharedTail returns the number of elements that two paths have in common at their ends.
func sharedTail(a, b string) int {
	n := 0
	for a != "" && b != "" {
		i, j := strings.LastIndexByte(a, '/'), strings.LastIndexByte(b, '/')
		if a[i+1:] != b[j+1:] {
			break
		}
		n++
		a, b = a[:max(i, 0)], b[:max(j, 0)]
	}
	return n
}

// Values of an identifier of the question that a file defines.
const (
	symbolQuoted = 1.5 // it stands between backquotes
	symbolPlain  = 1.0
)

// symbols ranks by the identifiers of the question that the documents define: the fewer documents
// define one, the more it counts.
func (s *search) symbols() (list, error) {
	quoted := map[string]bool{}
	for _, name := range s.terms.Quoted {
		quoted[name] = true
	}
	scores := make([]float64, s.corpus.Docs())
	seen := map[string]bool{}
	for _, name := range s.terms.Identifiers {
		term := WholeTerm(name)
		if term == "" || seen[term] {
			continue
		}
		seen[term] = true
		postings, err := s.postings(term)
		if err != nil {
			return nil, err
		}
		defining := 0
		for _, p := range postings {
			if p.Count[FieldSymbol] > 0 {
				defining++
			}
		}
		value := symbolPlain
		if quoted[name] {
			value = symbolQuoted
		}
		value *= math.Log(1 + float64(s.corpus.Docs())/float64(1+defining))
		for _, p := range postings {
			if p.Count[FieldSymbol] > 0 {
				scores[p.Doc] += value
			}
		}
	}
	return s.best(scores), nil
}

// WholeTerm returns the term that stands for an identifier: the last that terms.Split gives,
// or "".
func WholeTerm(name string) string {
	var last string
	terms.Split([]byte(name), func(t []byte) { last = string(t) })
	return last
}
