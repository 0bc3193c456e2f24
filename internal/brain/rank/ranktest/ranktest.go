// Package ranktest provides a small corpus in memory for tests.
package ranktest

import (
	"slices"
	"sort"

	"github.com/rocketgpt/orchestrator/internal/brain/extract"
	"github.com/rocketgpt/orchestrator/internal/brain/rank"
	"github.com/rocketgpt/orchestrator/internal/brain/terms"
)

// Corpus is a corpus of files in memory. It implements rank.Corpus.
type Corpus struct {
	paths    []string
	extracts []extract.Extract
	lengths  [][rank.Fields]uint32
	postings map[string][]rank.Posting
	imports  map[uint32][]uint32
}

// New returns the corpus of files by path. imports has, by path, the paths that a file imports.
func New(files map[string]string, imports map[string][]string) *Corpus {
	c := &Corpus{postings: map[string][]rank.Posting{}, imports: map[uint32][]uint32{}}
	for p := range files {
		c.paths = append(c.paths, p)
	}
	sort.Strings(c.paths)
	for doc, p := range c.paths {
		c.add(uint32(doc), p, []byte(files[p]))
		for _, to := range imports[p] {
			if i, ok := slices.BinarySearch(c.paths, to); ok {
				c.imports[uint32(doc)] = append(c.imports[uint32(doc)], uint32(i))
			}
		}
		slices.Sort(c.imports[uint32(doc)])
	}
	return c
}

func (c *Corpus) add(doc uint32, path string, content []byte) {
	e := extract.File(path, content)
	c.extracts = append(c.extracts, e)
	c.lengths = append(c.lengths, [rank.Fields]uint32{})
	c.count(doc, rank.FieldPath, []byte(path))
	for _, s := range e.Symbols {
		c.count(doc, rank.FieldSymbol, []byte(s.Name))
	}
	at := 0
	for _, span := range e.Prose {
		c.count(doc, rank.FieldBody, content[at:span.Start])
		c.count(doc, rank.FieldProse, content[span.Start:span.End])
		at = span.End
	}
	c.count(doc, rank.FieldBody, content[at:])
}

func (c *Corpus) count(doc uint32, field rank.Field, text []byte) {
	terms.Split(text, func(term []byte) {
		c.lengths[doc][field]++
		list := c.postings[string(term)]
		if len(list) == 0 || list[len(list)-1].Doc != doc {
			list = append(list, rank.Posting{Doc: doc})
			c.postings[string(term)] = list
		}
		if n := &list[len(list)-1].Count[field]; *n < 255 {
			*n++
		}
	})
}

// Docs implements rank.Corpus.
func (c *Corpus) Docs() int { return len(c.paths) }

// Path implements rank.Corpus.
func (c *Corpus) Path(doc uint32) string { return c.paths[doc] }

// Lang implements rank.Corpus.
func (c *Corpus) Lang(doc uint32) string { return c.extracts[doc].Lang }

// Length implements rank.Corpus.
func (c *Corpus) Length(doc uint32) [rank.Fields]uint32 { return c.lengths[doc] }

// Postings implements rank.Corpus.
func (c *Corpus) Postings(term string) ([]rank.Posting, error) { return c.postings[term], nil }

// Extract implements rank.Corpus.
func (c *Corpus) Extract(doc uint32) (extract.Extract, error) { return c.extracts[doc], nil }

// Imports implements rank.Corpus.
func (c *Corpus) Imports(doc uint32) []uint32 { return c.imports[doc] }

// ImportedBy implements rank.Corpus.
func (c *Corpus) ImportedBy(doc uint32) []uint32 {
	var by []uint32
	for from := range c.paths {
		if slices.Contains(c.imports[uint32(from)], doc) {
			by = append(by, uint32(from))
		}
	}
	return by
}
