package index

import (
	"encoding/binary"
	"slices"
	"strings"
)

// builder collects records for one segment in memory.
type builder struct {
	blobs    []blobInfo
	metas    []meta
	packed   [][]byte
	langs    langTable
	postings map[string]*postingList
	size     int // approximate bytes in memory
}

type postingList struct {
	last int
	b    []byte
}

// langTable numbers languages.
type langTable struct {
	names []string
	at    map[string]uint16
}

func (t *langTable) id(name string) uint16 {
	if id, ok := t.at[name]; ok {
		return id
	}
	if t.at == nil {
		t.at = map[string]uint16{}
	}
	id := uint16(len(t.names))
	t.names, t.at[name] = append(t.names, name), id
	return id
}

func newBuilder() *builder { return &builder{postings: map[string]*postingList{}} }

// postingCost is the approximate memory of a new term besides its bytes.
const postingCost = 96

func (b *builder) add(key Key, r *Record) {
	i := len(b.blobs)
	packed := []byte(nil)
	if r.Reason == "" {
		packed = r.pack()
	}
	b.blobs = append(b.blobs, blobInfo{key: key, skipped: r.Reason != "", lang: b.langs.id(r.Extract.Lang), length: r.Counts.Length})
	b.metas = append(b.metas, meta{lang: r.Extract.Lang, pkg: r.Extract.Package, imports: r.Extract.Imports})
	b.packed = append(b.packed, packed)
	b.size += len(packed) + 200
	for _, t := range r.Counts.Terms {
		list := b.postings[t.Term]
		if list == nil {
			list = &postingList{last: -1}
			// The term's bytes may be part of a larger allocation.
			b.postings[strings.Clone(t.Term)] = list
			b.size += len(t.Term) + postingCost
		}
		before := len(list.b)
		list.b = appendCount(binary.AppendUvarint(list.b, uint64(i-list.last-1)), t.Count)
		list.last = i
		b.size += len(list.b) - before
	}
}

// write writes the segment.
func (b *builder) write(dir, name string) error {
	w, err := newSegmentWriter(dir)
	if err != nil {
		return err
	}
	names := make([]string, 0, len(b.postings))
	for term := range b.postings {
		names = append(names, term)
	}
	slices.Sort(names)
	for _, term := range names {
		w.term(term, b.postings[term].b)
	}
	err = w.finish(dir, name, b.blobs, b.langs.names, b.metas, func(i int) ([]byte, error) { return b.packed[i], nil })
	if err != nil {
		w.discard()
	}
	return err
}
