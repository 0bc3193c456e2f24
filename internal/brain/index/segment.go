package index

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"sort"

	"github.com/rocketgpt/orchestrator/internal/brain/rank"
)

// A segment is a file with what was extracted from a number of blobs, numbered from 0. It never
// changes. It has these sections, whose positions are in the footer:
//
//	postings   for each term, in order: blob numbers as differences, each with its counts
//	terms      for each term, in order: the term and the size of its postings, in blocks
//	index      the first term of each block, with the positions of the block and of its postings
//	blobs      for each blob: key, language, lengths, position of its extract
//	meta       for each blob: package and imports
//	extracts   the extracts, each compressed
//
// Only the index and the blobs are in memory.
type segment struct {
	file   *os.File // closed by the garbage collector, once no snapshot uses it
	name   string
	size   int64
	blobs  []blobInfo
	langs  []string
	blocks []termBlock
	at     [sections + 1]int64
	terms  int
}

// Sections of a segment.
const (
	sectionPostings = iota
	sectionTerms
	sectionIndex
	sectionBlobs
	sectionMeta
	sectionExtracts
	sections
)

// termBlock is the first of some consecutive terms.
type termBlock struct {
	first    string
	terms    int64 // position in the section of terms
	postings int64 // position in the section of postings
}

const (
	segmentMagic = "RGPTSEG2"
	// blockTerms is the number of terms of a block.
	blockTerms = 32
	// footerSize is the size of the positions, the number of terms, the checksum and the magic.
	footerSize = (sections+1)*8 + 8 + 4 + len(segmentMagic)
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// segmentWriter writes a segment. The postings of each term are added in the order of terms.
type segmentWriter struct {
	out      *countingWriter
	file     *os.File
	terms    writer
	index    writer
	last     string
	n        int
	postings int64
}

// countingWriter buffers, counts and computes the checksum of what is written.
type countingWriter struct {
	file *os.File
	buf  []byte
	n    int64
	sum  uint32
	err  error
}

const writeBuffer = 1 << 20

func (w *countingWriter) write(b []byte) {
	w.n += int64(len(b))
	w.sum = crc32.Update(w.sum, castagnoli, b)
	w.buf = append(w.buf, b...)
	if len(w.buf) >= writeBuffer {
		w.flush()
	}
}

func (w *countingWriter) flush() {
	if w.err == nil {
		_, w.err = w.file.Write(w.buf)
	}
	w.buf = w.buf[:0]
}

func newSegmentWriter(dir string) (*segmentWriter, error) {
	file, err := os.CreateTemp(dir, ".segment-*")
	if err != nil {
		return nil, fmt.Errorf("create a part of the index: %w", err)
	}
	return &segmentWriter{file: file, out: &countingWriter{file: file, buf: make([]byte, 0, writeBuffer+1<<16)}}, nil
}

// term adds a term with its encoded postings.
func (w *segmentWriter) term(term string, postings []byte) {
	if w.n%blockTerms == 0 {
		w.index.text(term)
		w.index.uint(len(w.terms.b))
		w.index.uint(int(w.postings))
		w.last = ""
	}
	w.terms.after(w.last, term)
	w.terms.uint(len(postings))
	w.last = term
	w.n++
	w.postings += int64(len(postings))
	w.out.write(postings)
}

// finish writes the other sections and gives the segment its name. extract returns the stored extract
// of a blob.
func (w *segmentWriter) finish(dir, name string, blobs []blobInfo, langs []string, metas []meta, extract func(i int) ([]byte, error)) error {
	var at [sections + 1]int64
	section := func(i int, b []byte) {
		at[i] = w.out.n
		w.out.write(b)
	}
	section(sectionTerms, w.terms.b)
	section(sectionIndex, w.index.b)
	var info, more writer
	info.list(langs)
	info.uint(len(blobs))
	offset := 0
	packed := make([]int, len(blobs))
	for i := range blobs {
		b, err := extract(i)
		if err != nil {
			return err
		}
		packed[i] = len(b)
	}
	for i, b := range blobs {
		info.b = append(info.b, b.key[:]...)
		skipped := 0
		if b.skipped {
			skipped = 1
		}
		info.uint(skipped)
		info.uint(int(b.lang))
		for _, f := range contentFields {
			info.uint(int(b.length[f]))
		}
		info.uint(offset)
		info.uint(packed[i])
		offset += packed[i]
		more.text(metas[i].pkg)
		more.list(metas[i].imports)
	}
	section(sectionBlobs, info.b)
	section(sectionMeta, more.b)
	section(sectionExtracts, nil)
	for i := range blobs {
		b, err := extract(i)
		if err != nil {
			return err
		}
		w.out.write(b)
	}
	at[sections] = w.out.n
	var footer writer
	for _, n := range at {
		footer.fixed64(n)
	}
	footer.fixed64(int64(w.n))
	w.out.write(footer.b)
	footer = writer{}
	footer.fixed32(w.out.sum)
	footer.b = append(footer.b, segmentMagic...)
	w.out.write(footer.b)
	w.out.flush()
	err := w.out.err
	if err == nil {
		err = w.file.Sync()
	}
	if err == nil {
		err = w.file.Close()
	}
	if err == nil {
		err = os.Rename(w.file.Name(), filepath.Join(dir, name))
	}
	if err != nil {
		return fmt.Errorf("write a part of the index: %w", err)
	}
	return nil
}

// discard removes an unfinished segment.
func (w *segmentWriter) discard() {
	_ = w.file.Close()
	_ = os.Remove(w.file.Name())
}

// openSegment opens a segment and checks all of it, once.
func openSegment(dir, name string) (*segment, error) {
	file, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return nil, fmt.Errorf("open a part of the index: %w", err)
	}
	s := &segment{file: file, name: name}
	if err := s.load(); err != nil {
		_ = file.Close()
		return nil, err
	}
	return s, nil
}

func (s *segment) load() error {
	stat, err := s.file.Stat()
	if err != nil {
		return fmt.Errorf("open a part of the index: %w", err)
	}
	if s.size = stat.Size(); s.size < int64(footerSize) {
		return corrupt(s.name)
	}
	if err := s.check(); err != nil {
		return err
	}
	footer, err := s.read(s.size-int64(footerSize), footerSize)
	if err != nil {
		return err
	}
	last := int64(0)
	for i := range s.at {
		s.at[i] = int64(binary.LittleEndian.Uint64(footer[8*i:]))
	}
	s.at[sectionPostings] = 0
	for _, n := range s.at {
		if n < last || n > s.size {
			return corrupt(s.name)
		}
		last = n
	}
	s.terms = int(binary.LittleEndian.Uint64(footer[8*(sections+1):]))
	if err := s.loadIndex(); err != nil {
		return err
	}
	return s.loadBlobs()
}

// check compares the checksum.
func (s *segment) check() error {
	tail := int64(4 + len(segmentMagic))
	sum, left, buf := uint32(0), s.size-tail, make([]byte, writeBuffer)
	for pos := int64(0); left > 0; {
		n, err := s.file.ReadAt(buf[:min(int64(len(buf)), left)], pos)
		if err != nil && (err != io.EOF || n == 0) {
			return fmt.Errorf("read a part of the index: %w", err)
		}
		sum = crc32.Update(sum, castagnoli, buf[:n])
		pos, left = pos+int64(n), left-int64(n)
	}
	end, err := s.read(s.size-tail, int(tail))
	if err != nil {
		return err
	}
	if binary.LittleEndian.Uint32(end) != sum || !bytes.Equal(end[4:], []byte(segmentMagic)) {
		return corrupt(s.name)
	}
	return nil
}

func (s *segment) read(pos int64, n int) ([]byte, error) {
	if n < 0 || pos < 0 || pos+int64(n) > s.size {
		return nil, corrupt(s.name)
	}
	b := make([]byte, n)
	if _, err := s.file.ReadAt(b, pos); err != nil {
		return nil, fmt.Errorf("read a part of the index: %w", err)
	}
	return b, nil
}

func (s *segment) section(i int) (reader, error) {
	b, err := s.read(s.at[i], int(s.at[i+1]-s.at[i]))
	return reader{b: b}, err
}

func (s *segment) loadIndex() error {
	r, err := s.section(sectionIndex)
	if err != nil {
		return err
	}
	s.blocks = make([]termBlock, (s.terms+blockTerms-1)/blockTerms)
	for i := range s.blocks {
		s.blocks[i] = termBlock{first: r.text(), terms: int64(r.uint()), postings: int64(r.uint())}
	}
	if r.bad {
		return corrupt(s.name)
	}
	return nil
}

func (s *segment) loadBlobs() error {
	r, err := s.section(sectionBlobs)
	if err != nil {
		return err
	}
	s.langs = r.list()
	s.blobs = make([]blobInfo, r.count())
	for i := range s.blobs {
		b := &s.blobs[i]
		copy(b.key[:], r.bytes(len(b.key)))
		b.skipped = r.uint() == 1
		b.lang = uint16(r.uint())
		for _, f := range contentFields {
			b.length[f] = uint32(r.uint())
		}
		b.offset, b.size = int64(r.uint()), r.uint()
		if int(b.lang) >= len(s.langs) {
			r.bad = true
		}
	}
	if r.bad {
		return corrupt(s.name)
	}
	return nil
}

// metas returns the packages and imports of all blobs.
func (s *segment) metas() ([]meta, error) {
	r, err := s.section(sectionMeta)
	if err != nil {
		return nil, err
	}
	out := make([]meta, len(s.blobs))
	for i := range out {
		out[i] = meta{lang: s.langs[s.blobs[i].lang], pkg: r.text(), imports: r.list()}
	}
	if r.bad {
		return nil, corrupt(s.name)
	}
	return out, nil
}

// packedExtract returns an extract as it is stored.
func (s *segment) packedExtract(i int) ([]byte, error) {
	return s.read(s.at[sectionExtracts]+s.blobs[i].offset, s.blobs[i].size)
}

// block returns the terms and the postings' positions of a block.
func (s *segment) block(i int) (terms reader, postings, end int64, err error) {
	to, end := s.at[sectionIndex]-s.at[sectionTerms], s.at[sectionTerms]
	if i+1 < len(s.blocks) {
		to, end = s.blocks[i+1].terms, s.blocks[i+1].postings
	}
	from := s.blocks[i].terms
	b, err := s.read(s.at[sectionTerms]+from, int(to-from))
	return reader{b: b}, s.blocks[i].postings, end, err
}

// postings returns the encoded postings of a term, or nil.
func (s *segment) postings(term string) ([]byte, error) {
	i := sort.Search(len(s.blocks), func(i int) bool { return s.blocks[i].first > term }) - 1
	if i < 0 {
		return nil, nil
	}
	r, pos, end, err := s.block(i)
	if err != nil {
		return nil, err
	}
	var name []byte
	for len(r.b) > 0 {
		name = r.after(name)
		size := r.uint()
		if r.bad || pos+int64(size) > end {
			return nil, corrupt(s.name)
		}
		if string(name) == term {
			return s.read(pos, size)
		}
		if string(name) > term {
			return nil, nil
		}
		pos += int64(size)
	}
	return nil, nil
}

// eachPosting calls f for the blobs of encoded postings.
func (s *segment) eachPosting(encoded []byte, f func(blob int, count [rank.Fields]uint8)) error {
	// Questions spend most of their time here, so this does not use a reader.
	blob := -1
	for pos := 0; pos < len(encoded); {
		delta, size := uint64(encoded[pos]), 1
		if delta >= 0x80 {
			delta, size = binary.Uvarint(encoded[pos:])
		}
		if pos += size; size <= 0 || delta >= uint64(len(s.blobs)) || pos == len(encoded) {
			return corrupt(s.name)
		}
		blob += int(delta) + 1
		mask := encoded[pos]
		pos++
		var count [rank.Fields]uint8
		for i, f := range contentFields {
			n := mask >> (2 * i) & 3
			if n == 3 {
				if pos == len(encoded) {
					return corrupt(s.name)
				}
				n = encoded[pos]
				pos++
			}
			count[f] = n
		}
		if blob >= len(s.blobs) {
			return corrupt(s.name)
		}
		f(blob, count)
	}
	return nil
}
