package index

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/rocketgpt/orchestrator/internal/brain/extract"
	"github.com/rocketgpt/orchestrator/internal/brain/rank"
)

// ErrCorrupt is wrapped by errors about stored data that cannot be right. The remedy is to compute it
// again.
var ErrCorrupt = errors.New("the stored data is corrupt")

func corrupt(what string) error { return fmt.Errorf("read %s: %w", what, ErrCorrupt) }

// writer appends values to bytes.
type writer struct{ b []byte }

func (w *writer) uint(n int) { w.b = binary.AppendUvarint(w.b, uint64(n)) }

func (w *writer) text(s string) {
	w.uint(len(s))
	w.b = append(w.b, s...)
}

func (w *writer) list(texts []string) {
	w.uint(len(texts))
	for _, s := range texts {
		w.text(s)
	}
}

// after appends a text that shares a prefix with the one before.
func (w *writer) after(before, s string) {
	n := 0
	for n < len(s) && n < len(before) && s[n] == before[n] {
		n++
	}
	w.uint(n)
	w.text(s[n:])
}

// reader reads what a writer wrote. After the first error it returns zero values.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) uint() int {
	n, size := binary.Uvarint(r.b)
	if size <= 0 || n > 1<<40 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[size:]
	return int(n)
}

// count reads the number of elements that follow, each of at least one byte.
func (r *reader) count() int {
	n := r.uint()
	if n > len(r.b) {
		r.bad, r.b = true, nil
		return 0
	}
	return n
}

func (r *reader) bytes(n int) []byte {
	if n > len(r.b) {
		r.bad, r.b = true, nil
		return nil
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

func (r *reader) byte() byte {
	if b := r.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) text() string { return string(r.bytes(r.count())) }

func (r *reader) list() []string {
	n := r.count()
	if n == 0 {
		return nil
	}
	out := make([]string, n)
	for i := range out {
		out[i] = r.text()
	}
	return out
}

// after reads a text that shares a prefix with the one before into its buffer.
func (r *reader) after(before []byte) []byte {
	n := r.uint()
	if n > len(before) {
		r.bad, r.b = true, nil
		return before[:0]
	}
	return append(before[:n], r.bytes(r.count())...)
}

// encodeExtract returns an extract in a compact form.
func encodeExtract(x extract.Extract) []byte {
	w := writer{b: make([]byte, 0, 64+len(x.Symbols)*64+len(x.Refs)*10)}
	w.text(x.Lang)
	w.text(x.Package)
	w.uint(x.Lines)
	w.uint(len(x.Symbols))
	line := 0
	for _, s := range x.Symbols {
		w.text(s.Name)
		kind := int(s.Kind) << 1
		if s.Exported {
			kind |= 1
		}
		w.uint(kind)
		w.text(s.Signature)
		w.uint(s.Line - line)
		w.uint(s.EndLine - s.Line)
		w.text(s.Parent)
		line = s.Line
	}
	w.uint(len(x.Chunks))
	for _, c := range x.Chunks {
		w.uint(c.EndLine - c.Line)
		w.text(c.Symbol)
	}
	w.list(x.Imports)
	w.uint(len(x.Refs))
	before := ""
	for _, r := range x.Refs {
		w.after(before, r.Name)
		w.uint(r.Count)
		before = r.Name
	}
	return w.b
}

func decodeExtract(b []byte) (extract.Extract, error) {
	r := reader{b: b}
	x := extract.Extract{Lang: r.text(), Package: r.text(), Lines: r.uint()}
	if n := r.count(); n > 0 {
		x.Symbols = make([]extract.Symbol, n)
	}
	line := 0
	for i := range x.Symbols {
		s := &x.Symbols[i]
		s.Name = r.text()
		kind := r.uint()
		s.Kind, s.Exported = extract.Kind(kind>>1), kind&1 == 1
		s.Signature = r.text()
		s.Line = line + r.uint()
		s.EndLine = s.Line + r.uint()
		s.Parent = r.text()
		line = s.Line
	}
	if n := r.count(); n > 0 {
		x.Chunks = make([]extract.Chunk, n)
	}
	next := 1
	for i := range x.Chunks {
		c := &x.Chunks[i]
		c.Line = next
		c.EndLine = next + r.uint()
		c.Symbol = r.text()
		next = c.EndLine + 1
	}
	x.Imports = r.list()
	if n := r.count(); n > 0 {
		x.Refs = make([]extract.Ref, n)
	}
	var name []byte
	for i := range x.Refs {
		name = r.after(name)
		x.Refs[i] = extract.Ref{Name: string(name), Count: r.uint()}
	}
	if r.bad || len(r.b) > 0 {
		return extract.Extract{}, corrupt("an extract")
	}
	return x, nil
}

// contentFields are the fields that depend on a file's content only.
var contentFields = [...]rank.Field{rank.FieldSymbol, rank.FieldBody, rank.FieldProse}

// appendCount appends how often a term occurs: two bits for each field, and a byte for each number
// from three.
func appendCount(b []byte, c [rank.Fields]uint8) []byte {
	at, mask := len(b), byte(0)
	b = append(b, 0)
	for i, f := range contentFields {
		n := c[f]
		if n > 2 {
			b = append(b, n)
		}
		mask |= min(n, 3) << (2 * i)
	}
	b[at] = mask
	return b
}

func (r *reader) termCount() (c [rank.Fields]uint8) {
	mask := r.byte()
	for i, f := range contentFields {
		if c[f] = mask >> (2 * i) & 3; c[f] == 3 {
			c[f] = r.byte()
		}
	}
	return c
}

func encodeCounts(c Counts) []byte {
	w := writer{b: make([]byte, 0, 16+len(c.Terms)*10)}
	for _, f := range contentFields {
		w.uint(int(c.Length[f]))
	}
	w.uint(len(c.Terms))
	before := ""
	for _, t := range c.Terms {
		w.after(before, t.Term)
		w.b = appendCount(w.b, t.Count)
		before = t.Term
	}
	return w.b
}

func decodeCounts(b []byte) (Counts, error) {
	r := reader{b: b}
	var c Counts
	for _, f := range contentFields {
		c.Length[f] = uint32(r.uint())
	}
	if n := r.count(); n > 0 {
		c.Terms = make([]TermCount, n)
	}
	var term []byte
	for i := range c.Terms {
		term = r.after(term)
		c.Terms[i] = TermCount{Term: string(term), Count: r.termCount()}
	}
	if r.bad || len(r.b) > 0 {
		return Counts{}, corrupt("the terms of a file")
	}
	return c, nil
}
