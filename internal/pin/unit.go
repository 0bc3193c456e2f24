package pin

import (
	"hash/maphash"
	"math/bits"
	"strconv"
)

// digest stands for a text without comments and formatting. Digests are
// compared with each other only within one process.
type digest uint64

// token is a piece of source text.
type token struct {
	kind  tokenKind
	text  string
	line  int
	fresh bool // the first one on its line
}

type tokenKind uint8

const (
	punct tokenKind = iota
	word
	number
	text
)

func (t token) is(s string) bool { return t.kind != text && t.text == s }

func (t token) literal() bool {
	if t.kind == text || t.kind == number {
		return true
	}
	switch t.text {
	case "true", "false", "null", "nil", "undefined", "None", "True", "False":
		return t.kind == word
	}
	return false
}

// source is a tokenised file in which the digest of any range costs nothing:
// nested tests would make it quadratic otherwise.
type source struct {
	tokens []token
	pair   []int    // index of the bracket that closes or opens this one, or -1
	sums   []uint64 // of the tokens before
	counts []int    // of the tokens before that mean something
	powers []uint64
	broken string // why it cannot be read as code
	deep   bool   // it is nested deeper than any code
}

// maxNesting is how deep brackets may be nested in what is understood by its
// tokens.
const maxNesting = 400

var (
	hashSeed  = maphash.MakeSeed()
	hashBase  = maphash.String(hashSeed, "base") % hashPrime
	hashPrime = uint64(1)<<61 - 1
)

func mulmod(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	_, rem := bits.Div64(hi%hashPrime, lo, hashPrime)
	return rem
}

// index prepares a source for digests and matches its brackets.
func (s *source) index() *source {
	n := len(s.tokens)
	s.sums, s.powers, s.counts = make([]uint64, n+1), make([]uint64, n+1), make([]int, n+1)
	s.powers[0] = 1
	for i, t := range s.tokens {
		s.powers[i+1] = mulmod(s.powers[i], hashBase)
		s.sums[i+1], s.counts[i+1] = s.sums[i], s.counts[i]
		if t.is(";") { // formatters add and remove them
			continue
		}
		h := maphash.String(hashSeed, t.text) % hashPrime
		if t.kind == text {
			h ^= 1
		}
		s.sums[i+1] = (mulmod(s.sums[i], hashBase) + h%hashPrime) % hashPrime
		s.counts[i+1]++
	}
	s.match()
	return s
}

var closers = map[string]string{"(": ")", "[": "]", "{": "}"}

func (s *source) match() {
	s.pair = make([]int, len(s.tokens))
	var open []int
	for i, t := range s.tokens {
		s.pair[i] = -1
		if t.kind != punct {
			continue
		}
		switch t.text {
		case "(", "[", "{":
			open = append(open, i)
			if len(open) > maxNesting {
				s.fail("it is nested too deeply")
				s.deep = true
				return
			}
		case ")", "]", "}":
			if len(open) == 0 || closers[s.tokens[open[len(open)-1]].text] != t.text {
				s.fail("a bracket closes what was not opened")
				continue
			}
			s.pair[i], s.pair[open[len(open)-1]] = open[len(open)-1], i
			open = open[:len(open)-1]
		}
	}
	if len(open) > 0 {
		s.fail("a bracket is not closed")
	}
}

func (s *source) fail(why string) {
	if s.broken == "" {
		s.broken = why
	}
}

// sum is the digest of the tokens from (inclusive) to (exclusive).
func (s *source) sum(from, to int) digest {
	from, to = max(from, 0), min(to, len(s.tokens))
	if from >= to {
		return 0
	}
	return digest(s.plain(from, to)) + 1
}

func (s *source) plain(from, to int) uint64 {
	lost := mulmod(s.sums[from], s.powers[s.counts[to]-s.counts[from]])
	return (s.sums[to] + hashPrime - lost) % hashPrime
}

// at is the token of an index, or an empty one.
func (s *source) at(i int) token {
	if i < 0 || i >= len(s.tokens) {
		return token{}
	}
	return s.tokens[i]
}

// close is the index of the bracket that closes the one at i; the end of the
// source when nothing does.
func (s *source) close(i int) int {
	if i < 0 || i >= len(s.pair) {
		return len(s.tokens)
	}
	if s.pair[i] < i {
		return len(s.tokens)
	}
	return s.pair[i]
}

// split cuts the tokens between an opening bracket and its end at the commas
// that stand directly in it; none where nothing closes it.
func (s *source) split(open int) []span {
	end := s.close(open)
	if end >= len(s.tokens) {
		return nil // the rest of a long file would be looked at for each of many
	}
	var out []span
	from := open + 1
	for i := from; i < end; i++ {
		if s.pair[i] > i {
			i = s.pair[i]
			continue
		}
		if s.at(i).is(",") {
			out = append(out, span{from, i})
			from = i + 1
		}
	}
	if from < end {
		out = append(out, span{from, end})
	}
	return out
}

type span struct{ from, to int }

// without is the digest of a span as if some spans in it, which are sorted,
// were not there.
func (s *source) without(whole span, holes []span) digest {
	whole = span{max(whole.from, 0), min(whole.to, len(s.tokens))}
	var out uint64
	at := whole.from
	add := func(to int) {
		if at < to {
			out = (mulmod(out, s.powers[s.counts[to]-s.counts[at]]) + s.plain(at, to)) % hashPrime
		}
	}
	for _, h := range holes {
		if h.from >= at && h.to <= whole.to {
			add(h.from)
			at = h.to
		}
	}
	add(whole.to)
	return digest(out) + 1
}

// maxWeight is where counts stop: helpers that call helpers twice each would
// overflow any number.
const maxWeight = 1 << 20

func saturated(n int) int { return max(0, min(n, maxWeight)) }

// unit is a test, a group of tests, or a function that tests lean on.
type unit struct {
	name   string // of the test, with those around it
	key    string // by which other code calls it
	test   bool
	local  bool // a closure: no code outside its function calls it
	method bool // of a suite, which runs under a name that only the suite knows
	line   int
	parent *unit
	suite  *suite
	body   digest // without comments, formatting, its own name, and units in it
	blank  bool   // no statement
	checks []check
	calls  []call
	rows   []digest // the cases of a table
	skips  []skip
	early  int // returns under a condition before anything was checked

	tallied tally
	state   uint8 // of the tally: 0 unknown, 1 under way, 2 known
}

// check is an assertion.
type check struct {
	text        digest
	weight      int  // how often it is made: once for each case of a table
	vague       bool // holds for nearly anything: not nil, truthy
	conditional bool // made only sometimes
}

// call is the use of a function that may hold assertions.
type call struct {
	key         string
	weight      int
	conditional bool
	fallback    int // assertions to assume when the function is not known
}

// skip is a reason why a test does not count.
type skip struct {
	always bool
	why    string
}

// suite is one version of a file, understood.
type suite struct {
	path   string
	lang   string // its language's name; empty where that is not known
	scope  string // where its functions are known: files with the same scope call each other's
	units  []*unit
	rest   []digest // statements outside units, without imports
	broken string   // why none of it runs: it is no code
	off    string   // why none of it runs: it is excluded
	stops  string   // how it keeps tests of other files from running or failing
	solo   []*unit  // units that keep others from running (.only)

	lists map[int][]digest // elements of lists, by their bracket
	noted int              // cases that units refer to
}

// maxCases is how many cases of tables are compared one by one in a file.
// Beyond, their number counts: many loops over one long list would take too
// much otherwise.
const maxCases = 1 << 16

// note adds cases to those of a unit.
func (s *suite) note(u *unit, rows []digest) {
	if s.noted += len(rows); s.noted <= maxCases {
		u.rows = append(u.rows, rows...)
	}
}

// cases notes the elements of the list that a bracket opens, and answers how
// many there are.
func (s *suite) cases(u *unit, src *source, open int) int {
	rows, known := s.lists[open]
	if !known {
		for _, r := range src.split(open) {
			rows = append(rows, src.sum(r.from, r.to))
		}
		if s.lists == nil {
			s.lists = map[int][]digest{}
		}
		s.lists[open] = rows
	}
	s.note(u, rows)
	return len(rows)
}

func (s *suite) add(u *unit) *unit {
	u.suite = s
	s.units = append(s.units, u)
	return u
}

func (s *suite) tests() []*unit {
	var out []*unit
	for _, u := range s.units {
		if u.test {
			out = append(out, u)
		}
	}
	return out
}

// distinct gives each test of a suite a name of its own.
func (s *suite) distinct() {
	seen := map[string]int{}
	for _, u := range s.units {
		if !u.test {
			continue
		}
		seen[u.name]++
		if n := seen[u.name]; n > 1 {
			u.name += " #" + strconv.Itoa(n)
		}
	}
}

// shortName bounds a name: nesting would make names quadratic.
func shortName(name string) string {
	if len(name) > 8*maxText {
		name = name[:4*maxText] + strconv.Itoa(int(textDigest(name)>>1))
	}
	return name
}
