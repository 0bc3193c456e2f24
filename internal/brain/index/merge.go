package index

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/rocketgpt/orchestrator/internal/brain/rank"
)

// merge writes one segment with the blobs of several that keep says to keep, in the order of place.
func merge(dir, name string, from []*segment, place func(Key) (int, bool)) error {
	m := merger{from: from, remap: make([][]int32, len(from))}
	if err := m.order(place); err != nil {
		return err
	}
	w, err := newSegmentWriter(dir)
	if err != nil {
		return err
	}
	if err = m.terms(w); err == nil {
		err = w.finish(dir, name, m.blobs, m.langs.names, m.metas, func(i int) ([]byte, error) {
			return from[m.source[i].segment].packedExtract(int(m.source[i].blob))
		})
	}
	if err != nil {
		w.discard()
	}
	return err
}

// blobRef is a blob of a segment.
type blobRef struct{ segment, blob int32 }

type merger struct {
	from   []*segment
	remap  [][]int32 // of each segment and blob: the new number, or -1
	source []blobRef
	blobs  []blobInfo
	metas  []meta
	langs  langTable
}

// order decides the new numbers of the blobs.
func (m *merger) order(place func(Key) (int, bool)) error {
	type placed struct {
		blobRef
		at int
	}
	var list []placed
	seen := map[Key]bool{}
	for i, s := range m.from {
		m.remap[i] = make([]int32, len(s.blobs))
		for j := range s.blobs {
			m.remap[i][j] = -1
			key := s.blobs[j].key
			if at, keep := place(key); keep && !seen[key] {
				seen[key] = true
				list = append(list, placed{blobRef{int32(i), int32(j)}, at})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b placed) int { return cmp.Compare(a.at, b.at) })
	metas := make([][]meta, len(m.from))
	for i, s := range m.from {
		var err error
		if metas[i], err = s.metas(); err != nil {
			return err
		}
	}
	for n, p := range list {
		m.remap[p.segment][p.blob] = int32(n)
		info, about := m.from[p.segment].blobs[p.blob], metas[p.segment][p.blob]
		info.lang = m.langs.id(about.lang)
		m.blobs, m.metas, m.source = append(m.blobs, info), append(m.metas, about), append(m.source, p.blobRef)
	}
	return nil
}

type mergedPosting struct {
	blob  int32
	count [rank.Fields]uint8
}

// terms merges the postings of all segments, term by term.
func (m *merger) terms(w *segmentWriter) error {
	cursors := make([]*termCursor, len(m.from))
	for i, s := range m.from {
		cursors[i] = &termCursor{segment: s}
		if err := cursors[i].next(); err != nil {
			return err
		}
	}
	var list []mergedPosting
	var encoded []byte
	for {
		term, found := firstTerm(cursors)
		if !found {
			return nil
		}
		var err error
		if list, err = m.postings(cursors, term, list[:0]); err != nil {
			return err
		}
		if len(list) == 0 {
			continue
		}
		slices.SortFunc(list, func(a, b mergedPosting) int { return cmp.Compare(a.blob, b.blob) })
		encoded = encoded[:0]
		last := int32(-1)
		for _, p := range list {
			encoded = appendCount(binary.AppendUvarint(encoded, uint64(p.blob-last-1)), p.count)
			last = p.blob
		}
		w.term(term, encoded)
	}
}

// firstTerm returns the first term, in order, at which a cursor is.
func firstTerm(cursors []*termCursor) (term string, found bool) {
	for _, c := range cursors {
		if !c.done && (!found || string(c.term) < term) {
			term, found = string(c.term), true
		}
	}
	return term, found
}

// postings appends the postings of a term to a list, by their new numbers, and moves the cursors that
// are at the term.
func (m *merger) postings(cursors []*termCursor, term string, list []mergedPosting) ([]mergedPosting, error) {
	for i, c := range cursors {
		if c.done || string(c.term) != term {
			continue
		}
		err := m.from[i].eachPosting(c.postings, func(blob int, count [rank.Fields]uint8) {
			if n := m.remap[i][blob]; n >= 0 {
				list = append(list, mergedPosting{n, count})
			}
		})
		if err == nil {
			err = c.next()
		}
		if err != nil {
			return nil, err
		}
	}
	return list, nil
}

// termCursor walks over the terms of a segment in order, block by block.
type termCursor struct {
	segment  *segment
	block    int
	in       reader
	data     []byte // the postings of the block
	term     []byte
	postings []byte
	done     bool
}

func (c *termCursor) next() error {
	for len(c.in.b) == 0 {
		if c.block == len(c.segment.blocks) {
			c.done = true
			return nil
		}
		in, pos, end, err := c.segment.block(c.block)
		if err != nil {
			return err
		}
		if c.data, err = c.segment.read(pos, int(end-pos)); err != nil {
			return err
		}
		c.in, c.term = in, c.term[:0]
		c.block++
	}
	c.term = c.in.after(c.term)
	size := c.in.uint()
	if c.in.bad || size > len(c.data) {
		return corrupt(c.segment.name)
	}
	c.postings, c.data = c.data[:size], c.data[size:]
	return nil
}
