package main

import (
	"slices"
	"sort"

	"github.com/rocketgpt/orchestrator/internal/brain/extract"
	"github.com/rocketgpt/orchestrator/internal/brain/rank"
	"github.com/rocketgpt/orchestrator/internal/brain/terms"
)

// dictionary numbers strings.
type dictionary struct {
	Words []string
	index map[string]uint32
}

func (d *dictionary) number(w []byte) uint32 {
	if d.index == nil {
		d.index = make(map[string]uint32, len(d.Words))
		for i, w := range d.Words {
			d.index[w] = uint32(i)
		}
	}
	n, ok := d.index[string(w)]
	if !ok {
		n = uint32(len(d.Words))
		d.Words = append(d.Words, string(w))
		d.index[string(w)] = n
	}
	return n
}

// find returns the number of a known string.
func (d *dictionary) find(w string) (uint32, bool) {
	if d.index == nil {
		d.number(nil)
	}
	n, ok := d.index[w]
	return n, ok
}

// blob is what the corpus keeps of a file's content.
type blob struct {
	Lang    string
	Terms   []uint32 // ascending
	Counts  [][rank.Fields]uint8
	Lengths [rank.Fields]uint32
	Imports []string
	Package string
	// Words are the words of the content for the baselines, ascending, and their counts.
	Words      []uint32
	WordCounts []uint16
	WordLength int
}

// store has the blobs of a repository.
type store struct {
	Terms, Words dictionary
	Blobs        map[string]*blob
	Paths        map[string]*blob // the terms of paths, in FieldPath
}

func newStore() *store {
	return &store{Blobs: map[string]*blob{}, Paths: map[string]*blob{}}
}

// counter counts the terms of a file.
type counter map[uint32]*[rank.Fields]uint8

func (s *store) count(into counter, lengths *[rank.Fields]uint32, field rank.Field, text []byte) {
	terms.Split(text, func(term []byte) {
		n := s.Terms.number(term)
		c := into[n]
		if c == nil {
			c = new([rank.Fields]uint8)
			into[n] = c
		}
		if c[field] < 255 {
			c[field]++
		}
		lengths[field]++
	})
}

func (b *blob) fill(counts counter) {
	for n := range counts {
		b.Terms = append(b.Terms, n)
	}
	slices.Sort(b.Terms)
	for _, n := range b.Terms {
		b.Counts = append(b.Counts, *counts[n])
	}
}

// add analyses a file's content, unless that is done.
func (s *store) add(path, id string, content []byte) {
	if s.Paths[path] == nil {
		b, counts := &blob{}, counter{}
		s.count(counts, &b.Lengths, rank.FieldPath, []byte(path))
		b.fill(counts)
		s.Paths[path] = b
	}
	if s.Blobs[id] != nil {
		return
	}
	content = content[:min(len(content), maxContent)]
	e := extract.File(path, content)
	b, counts := &blob{Lang: e.Lang, Imports: e.Imports, Package: e.Package}, counter{}
	for _, symbol := range e.Symbols {
		s.count(counts, &b.Lengths, rank.FieldSymbol, []byte(symbol.Name))
	}
	at := 0
	for _, span := range e.Prose {
		s.count(counts, &b.Lengths, rank.FieldBody, content[at:span.Start])
		s.count(counts, &b.Lengths, rank.FieldProse, content[span.Start:span.End])
		at = span.End
	}
	s.count(counts, &b.Lengths, rank.FieldBody, content[at:])
	b.fill(counts)
	s.addWords(b, content)
	s.Blobs[id] = b
}

// maxContent is the number of bytes of a file that are indexed, by all methods.
const maxContent = 1 << 20

// posting returns the counts of a term.
func (b *blob) posting(term uint32) ([rank.Fields]uint8, bool) {
	i, ok := slices.BinarySearch(b.Terms, term)
	if !ok {
		return [rank.Fields]uint8{}, false
	}
	return b.Counts[i], true
}

// snapshot is a tree of a store. It implements rank.Corpus.
type snapshot struct {
	store   *store
	files   []file // by path
	blobs   []*blob
	paths   []*blob
	imports [][]uint32
	by      [][]uint32
	cache   map[string][]rank.Posting
}

func (s *store) snapshot(files []file) *snapshot {
	sort.Slice(files, func(i, j int) bool { return files[i].Path < files[j].Path })
	v := &snapshot{store: s, files: files, cache: map[string][]rank.Posting{}}
	for _, f := range files {
		v.blobs = append(v.blobs, s.Blobs[f.Blob])
		v.paths = append(v.paths, s.Paths[f.Path])
	}
	return v
}

func (v *snapshot) Docs() int              { return len(v.files) }
func (v *snapshot) Path(doc uint32) string { return v.files[doc].Path }
func (v *snapshot) Lang(doc uint32) string { return v.blobs[doc].Lang }
func (v *snapshot) Length(doc uint32) [rank.Fields]uint32 {
	l := v.blobs[doc].Lengths
	l[rank.FieldPath] = v.paths[doc].Lengths[rank.FieldPath]
	return l
}

func (v *snapshot) Postings(term string) ([]rank.Posting, error) {
	if p, ok := v.cache[term]; ok {
		return p, nil
	}
	var postings []rank.Posting
	if n, ok := v.store.Terms.find(term); ok {
		for doc := range v.files {
			counts, inBlob := v.blobs[doc].posting(n)
			inPath, ok := v.paths[doc].posting(n)
			if ok {
				counts[rank.FieldPath] = inPath[rank.FieldPath]
			}
			if ok || inBlob {
				postings = append(postings, rank.Posting{Doc: uint32(doc), Count: counts})
			}
		}
	}
	v.cache[term] = postings
	return postings, nil
}

func (v *snapshot) Extract(uint32) (extract.Extract, error) { return extract.Extract{}, nil }

func (v *snapshot) Imports(doc uint32) []uint32    { return at(v.imports, doc) }
func (v *snapshot) ImportedBy(doc uint32) []uint32 { return at(v.by, doc) }

func at(lists [][]uint32, doc uint32) []uint32 {
	if lists == nil {
		return nil
	}
	return lists[doc]
}
