// Package index keeps what was extracted from the files of a repository on the local disk, and answers
// which files of a tree contain a term.
//
// The unit is the content of a file, a blob: branches, runs and commits share the blobs that they have
// in common. Blobs are stored in immutable segments, and a snapshot says which blobs a tree has under
// which paths. Everything here can be removed and computed again.
package index

import (
	"math"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"github.com/rocketgpt/orchestrator/internal/brain/extract"
	"github.com/rocketgpt/orchestrator/internal/brain/rank"
	"github.com/rocketgpt/orchestrator/internal/brain/terms"
)

// TermCount says how often a file has a term, per field.
type TermCount struct {
	Term  string
	Count [rank.Fields]uint8
}

// Counts are the terms of a file.
type Counts struct {
	// Terms are in ascending order.
	Terms []TermCount
	// Length is the number of terms of each field, with repetitions.
	Length [rank.Fields]uint32
}

// Count extracts a file and counts its terms. The path has an influence on the language and on the
// field of paths only.
func Count(path string, content []byte) (extract.Extract, Counts) {
	x := extract.File(path, content)
	c := counters.Get().(*counter)
	defer counters.Put(c)
	c.reset()
	c.add(rank.FieldPath, []byte(path))
	c.file(content, &x)
	return x, c.counts()
}

// countContent is Count without the path.
func countContent(content []byte, x *extract.Extract) Counts {
	c := counters.Get().(*counter)
	defer counters.Put(c)
	c.reset()
	c.file(content, x)
	return c.counts()
}

// counter counts the terms of one file after the other.
type counter struct {
	at     map[string]int32
	list   []TermCount
	length [rank.Fields]uint32
	arena  []byte
	field  rank.Field
	emit   func([]byte)
}

var counters = sync.Pool{New: func() any {
	c := &counter{at: map[string]int32{}}
	c.emit = c.term
	return c
}}

// maxCounterTerms keeps the table of a huge file from staying in memory.
const maxCounterTerms = 1 << 14

func (c *counter) reset() {
	if len(c.at) > maxCounterTerms {
		c.at = map[string]int32{}
	}
	clear(c.at)
	c.list, c.arena, c.length = nil, nil, [rank.Fields]uint32{}
}

func (c *counter) file(content []byte, x *extract.Extract) {
	for _, s := range x.Symbols {
		c.add(rank.FieldSymbol, unsafe.Slice(unsafe.StringData(s.Name), len(s.Name)))
	}
	pos := 0
	for _, p := range x.Prose {
		c.add(rank.FieldBody, content[pos:p.Start])
		c.add(rank.FieldProse, content[p.Start:p.End])
		pos = p.End
	}
	c.add(rank.FieldBody, content[pos:])
}

func (c *counter) add(field rank.Field, text []byte) {
	c.field = field
	terms.Split(text, c.emit)
}

func (c *counter) term(term []byte) {
	c.length[c.field]++
	i, ok := c.at[string(term)]
	if !ok {
		i = int32(len(c.list))
		name := c.keep(term)
		c.at[name] = i
		c.list = append(c.list, TermCount{Term: name})
	}
	if n := &c.list[i].Count[c.field]; *n < math.MaxUint8 {
		*n++
	}
}

// keep returns a term as a string. Many terms share an allocation.
func (c *counter) keep(term []byte) string {
	if cap(c.arena)-len(c.arena) < len(term) {
		c.arena = make([]byte, 0, 8<<10)
	}
	start := len(c.arena)
	c.arena = append(c.arena, term...)
	return unsafe.String(&c.arena[start], len(term))
}

func (c *counter) counts() Counts {
	slices.SortFunc(c.list, func(a, b TermCount) int { return strings.Compare(a.Term, b.Term) })
	return Counts{Terms: c.list, Length: c.length}
}
