package rank

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/brain/extract"
	"github.com/rocketgpt/orchestrator/internal/brain/terms"
	"github.com/rocketgpt/orchestrator/internal/pin"
)

// Definition is a definition that a question names.
type Definition struct {
	Doc uint32
	extract.Symbol
}

// maxAmbiguous is the number of definitions above which a name says nothing, unless the question also
// names what encloses one of them.
const maxAmbiguous = 8

// Definitions returns the definitions that a question names in the form of code, such as parseArgs,
// `Parser` or Parser.parse_args: those between backquotes first, otherwise in the order of the
// question; at most each of a name, and most in all.
// Of definitions with the same name, those outside tests and those that other files can use come first.
func (r *Ranker) Definitions(text string, each, most int) ([]Definition, error) {
	s := &search{Ranker: r, terms: terms.Query(text), known: map[string][]Posting{}}
	names, err := s.codeNames()
	if err != nil {
		return nil, err
	}
	var out []Definition
	for _, name := range names {
		found, err := s.definitionsOf(name)
		if err != nil {
			return nil, err
		}
		// A name such as __init__ means those in the classes that the question names.
		if inside := slices.DeleteFunc(slices.Clone(found), func(d Definition) bool { return !slices.Contains(names, d.Parent) }); len(inside) > 0 {
			found = inside
		}
		if len(found) <= maxAmbiguous {
			out = append(out, found[:min(each, len(found))]...)
		}
		if len(out) >= most {
			return out[:most], nil
		}
	}
	return out, nil
}

// codeNames returns the names of the question that can be those of definitions: not the parts of the
// names of files.
func (s *search) codeNames() ([]string, error) {
	ofFiles := map[string]bool{}
	for _, p := range s.terms.Paths {
		candidates, err := s.rarest(p)
		if err != nil {
			return nil, err
		}
		base := strings.ToLower(path.Base(p))
		if slices.ContainsFunc(candidates, func(c Posting) bool { return strings.ToLower(path.Base(s.corpus.Path(c.Doc))) == base }) {
			for part := range strings.SplitSeq(path.Base(p), ".") {
				ofFiles[part] = true
			}
		}
	}
	var names []string
	for _, name := range slices.Concat(s.terms.Defined, s.terms.Quoted, s.terms.Identifiers) {
		if !ofFiles[name] && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	// In the order of the question: Identifiers have all of them but those of Defined.
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(s.order(a), s.order(b)) })
	return names, nil
}

// order is the place of a name among the identifiers of the question; what is quoted as a definition
// comes first.
func (s *search) order(name string) int {
	if slices.Contains(s.terms.Defined, name) {
		return -1
	}
	return slices.Index(s.terms.Identifiers, name)
}

// definitionsOf returns the definitions of exactly a name, unless too many files have one.
func (s *search) definitionsOf(name string) ([]Definition, error) {
	docs, err := s.definingDocs(name)
	if err != nil {
		return nil, err
	}
	var found []Definition
	for _, doc := range docs {
		e, err := s.corpus.Extract(doc)
		if err != nil {
			return nil, fmt.Errorf("read the definitions of %s: %w", s.corpus.Path(doc), err)
		}
		for _, d := range e.Symbols {
			if d.Name == name && definable(d.Kind) {
				found = append(found, Definition{doc, d})
			}
		}
	}
	slices.SortStableFunc(found, func(a, b Definition) int {
		return cmp.Or(cmp.Compare(s.later(a), s.later(b)), cmp.Compare(a.Doc, b.Doc))
	})
	return found, nil
}

// later is larger for definitions that a reader wants less.
func (s *search) later(d Definition) int {
	n := 0
	if pin.IsTest(s.corpus.Path(d.Doc)) {
		n += 2
	}
	if !d.Exported {
		n++
	}
	return n
}

// definingDocs returns the documents with definitions of a name, ignoring case and underscores; none
// if they are too many.
func (s *search) definingDocs(name string) ([]uint32, error) {
	term := WholeTerm(name)
	if term == "" {
		return nil, nil
	}
	postings, err := s.postings(term)
	if err != nil {
		return nil, err
	}
	var docs []uint32
	for _, p := range postings {
		if p.Count[FieldSymbol] > 0 {
			docs = append(docs, p.Doc)
		}
	}
	if len(docs) > maxDefining {
		return nil, nil
	}
	return docs, nil
}

// definable says whether a kind of symbol is a definition that code refers to by its name.
func definable(k extract.Kind) bool {
	return k != extract.KindOther && k != extract.KindHeading && k != extract.KindKey
}
