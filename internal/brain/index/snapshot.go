package index

import (
	"cmp"
	"slices"
	"sort"
	"sync"

	"github.com/rocketgpt/orchestrator/internal/brain/extract"
	"github.com/rocketgpt/orchestrator/internal/brain/rank"
	"github.com/rocketgpt/orchestrator/internal/brain/terms"
)

// File is a file of a tree.
type File struct {
	Path string
	Key  Key
}

// Snapshot is the index of one tree. It is safe for concurrent use and stays valid whatever happens to
// the files of the index: segments that it uses stay open.
type Snapshot struct {
	// Tree is what the snapshot was made of, such as the id of a git tree.
	Tree string

	paths    []string
	refs     []blobRef
	segments []*segment
	// docs has for each segment and blob the first document with it, or -1; more has the others.
	docs [][]int32
	more map[blobRef][]uint32
	// Edges of document i are those from starts[i] up to starts[i+1].
	imports, importedBy edges

	once  sync.Once
	names map[string][]rank.Posting // terms of paths
	// lengths are the numbers of terms of each document, average their means.
	lengths [][rank.Fields]uint32
	average [rank.Fields]float64
}

var _ rank.Corpus = (*Snapshot)(nil)

// edges are lists of documents, one after the other.
type edges struct{ starts, to []uint32 }

func (e *edges) of(doc uint32) []uint32 {
	if int(doc)+1 >= len(e.starts) {
		return nil
	}
	return e.to[e.starts[doc]:e.starts[doc+1]:e.starts[doc+1]]
}

// reversed returns the edges in the other direction.
func (e *edges) reversed(docs int) edges {
	out := edges{starts: make([]uint32, docs+1), to: make([]uint32, len(e.to))}
	for _, to := range e.to {
		out.starts[to+1]++
	}
	for i := range docs {
		out.starts[i+1] += out.starts[i]
	}
	next := slices.Clone(out.starts)
	for from := range docs {
		for _, to := range e.of(uint32(from)) {
			out.to[next[to]] = uint32(from)
			next[to]++
		}
	}
	return out
}

// newSnapshot makes a snapshot of files that are all in the segments. Files that are not indexed are
// left out. files are sorted by path.
func newSnapshot(tree string, files []File, segments []*segment, at map[Key]blobRef) *Snapshot {
	s := &Snapshot{Tree: tree, segments: segments, docs: make([][]int32, len(segments)), more: map[blobRef][]uint32{}}
	for i, seg := range segments {
		s.docs[i] = make([]int32, len(seg.blobs))
		for j := range s.docs[i] {
			s.docs[i][j] = -1
		}
	}
	s.paths, s.refs = make([]string, 0, len(files)), make([]blobRef, 0, len(files))
	for _, f := range files {
		ref, ok := at[f.Key]
		if !ok || segments[ref.segment].blobs[ref.blob].skipped {
			continue
		}
		doc := len(s.paths)
		s.paths, s.refs = append(s.paths, f.Path), append(s.refs, ref)
		if first := &s.docs[ref.segment][ref.blob]; *first < 0 {
			*first = int32(doc)
		} else {
			s.more[ref] = append(s.more[ref], uint32(doc))
		}
	}
	return s
}

// Docs returns the number of documents.
func (s *Snapshot) Docs() int { return len(s.paths) }

// Path returns a document's path.
func (s *Snapshot) Path(doc uint32) string { return s.paths[doc] }

func (s *Snapshot) info(doc uint32) *blobInfo {
	ref := s.refs[doc]
	return &s.segments[ref.segment].blobs[ref.blob]
}

func (s *Snapshot) key(doc int) Key { return s.info(uint32(doc)).key }

// Lang returns a document's language.
func (s *Snapshot) Lang(doc uint32) string {
	return s.segments[s.refs[doc].segment].langs[s.info(doc).lang]
}

// Length returns the number of terms of each field.
func (s *Snapshot) Length(doc uint32) [rank.Fields]uint32 {
	s.once.Do(s.readPaths)
	return s.lengths[doc]
}

// AverageLength returns the mean number of terms of each field, at least 1.
func (s *Snapshot) AverageLength() [rank.Fields]float64 {
	s.once.Do(s.readPaths)
	return s.average
}

// readPaths counts the terms of all paths, when they are first needed.
func (s *Snapshot) readPaths() {
	s.names, s.lengths = map[string][]rank.Posting{}, make([][rank.Fields]uint32, len(s.paths))
	for doc, p := range s.paths {
		s.lengths[doc] = s.info(uint32(doc)).length
		terms.Split([]byte(p), func(term []byte) {
			s.lengths[doc][rank.FieldPath]++
			list := s.names[string(term)]
			if n := len(list); n > 0 && list[n-1].Doc == uint32(doc) {
				if c := &list[n-1].Count[rank.FieldPath]; *c < 255 {
					*c++
				}
				return
			}
			posting := rank.Posting{Doc: uint32(doc)}
			posting.Count[rank.FieldPath] = 1
			s.names[string(term)] = append(list, posting)
		})
		for f, n := range s.lengths[doc] {
			s.average[f] += float64(n)
		}
	}
	for f := range s.average {
		s.average[f] = max(s.average[f]/float64(max(len(s.paths), 1)), 1)
	}
}

// Postings returns the documents that contain a term.
func (s *Snapshot) Postings(term string) ([]rank.Posting, error) {
	s.once.Do(s.readPaths)
	out := slices.Clone(s.names[term])
	for i, seg := range s.segments {
		encoded, err := seg.postings(term)
		if err != nil {
			return nil, err
		}
		docs := s.docs[i]
		out = slices.Grow(out, len(encoded)/2)
		err = seg.eachPosting(encoded, func(blob int, count [rank.Fields]uint8) {
			doc := docs[blob]
			if doc < 0 {
				return
			}
			out = append(out, rank.Posting{Doc: uint32(doc), Count: count})
			if len(s.more) > 0 {
				for _, other := range s.more[blobRef{int32(i), int32(blob)}] {
					out = append(out, rank.Posting{Doc: other, Count: count})
				}
			}
		})
		if err != nil {
			return nil, err
		}
	}
	byDoc := func(a, b rank.Posting) int { return cmp.Compare(a.Doc, b.Doc) }
	if !slices.IsSortedFunc(out, byDoc) {
		slices.SortFunc(out, byDoc)
	}
	// A document occurs twice if its path and its content have the term.
	last := -1
	for _, p := range out {
		if last >= 0 && out[last].Doc == p.Doc {
			for f := range p.Count {
				out[last].Count[f] = max(out[last].Count[f], p.Count[f])
			}
			continue
		}
		last++
		out[last] = p
	}
	return out[:last+1], nil
}

// Extract returns what was extracted from a document.
func (s *Snapshot) Extract(doc uint32) (extract.Extract, error) {
	ref := s.refs[doc]
	packed, err := s.segments[ref.segment].packedExtract(int(ref.blob))
	if err != nil {
		return extract.Extract{}, err
	}
	b, err := decompress(packed)
	if err != nil {
		return extract.Extract{}, err
	}
	return decodeExtract(b)
}

// Imports returns the documents that a document imports.
func (s *Snapshot) Imports(doc uint32) []uint32 { return s.imports.of(doc) }

// ImportedBy returns the documents that import a document.
func (s *Snapshot) ImportedBy(doc uint32) []uint32 { return s.importedBy.of(doc) }

// link finds out which document imports which. A snapshot of almost the same tree saves most of the
// work.
func (s *Snapshot) link(before *Snapshot) error {
	metas, err := s.metas()
	if err != nil {
		return err
	}
	same := before != nil && slices.Equal(before.paths, s.paths)
	if same {
		old, err := before.metas()
		if err != nil {
			return err
		}
		same = slices.EqualFunc(metas, old, func(a, b meta) bool { return a.pkg == b.pkg && a.lang == b.lang })
	}
	r := newResolver(s.paths, metas)
	s.imports = edges{starts: make([]uint32, 1, len(s.paths)+1)}
	for doc := range s.paths {
		if same && before.key(doc) == s.key(doc) {
			s.imports.to = append(s.imports.to, before.imports.of(uint32(doc))...)
		} else {
			s.imports.to = append(s.imports.to, r.imports(uint32(doc))...)
		}
		s.imports.starts = append(s.imports.starts, uint32(len(s.imports.to)))
	}
	s.importedBy = s.imports.reversed(len(s.paths))
	return nil
}

// metas returns the packages and imports of all documents.
func (s *Snapshot) metas() ([]meta, error) {
	of := make([][]meta, len(s.segments))
	for i, seg := range s.segments {
		var err error
		if of[i], err = seg.metas(); err != nil {
			return nil, err
		}
	}
	out := make([]meta, len(s.refs))
	for doc, ref := range s.refs {
		out[doc] = of[ref.segment][ref.blob]
	}
	return out, nil
}

// Sort puts files in the order that Update needs, together with the blobs that they have.
func Sort(files []File, blobs []string) {
	sort.Sort(byPath{files, blobs})
}

type byPath struct {
	files []File
	blobs []string
}

func (b byPath) Len() int           { return len(b.files) }
func (b byPath) Less(i, j int) bool { return b.files[i].Path < b.files[j].Path }
func (b byPath) Swap(i, j int) {
	b.files[i], b.files[j] = b.files[j], b.files[i]
	b.blobs[i], b.blobs[j] = b.blobs[j], b.blobs[i]
}
