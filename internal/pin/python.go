package pin

import (
	"regexp"
	"slices"
	"strings"
)

// pyLine is a logical line.
type pyLine struct {
	indent   int
	from, to int // tokens
	end      int // index of the first line after what is indented below it
}

// pyFile is a Python file that is being understood.
type pyFile struct {
	*source
	suite   *suite
	lines   []pyLine
	holes   map[*unit][]span
	root    *unit
	lists   map[string]int
	dropped map[string]int // names of tests that are given away, after how many units
}

func parsePython(s *suite, data []byte) {
	f := &pyFile{source: &source{}, suite: s, holes: map[*unit][]span{}, root: &unit{suite: s}, lists: map[string]int{}, dropped: map[string]int{}}
	f.scan(data)
	f.index()
	if f.broken != "" {
		s.broken = f.broken
		return
	}
	f.blocks()
	for _, l := range f.lines {
		if f.at(l.from+1).is("=") && f.at(l.from+2).is("[") {
			f.lists[f.at(l.from).text] = l.from + 2
		}
	}
	f.walk(0, len(f.lines), place{u: f.root, weight: 1})
	f.shadow()
	f.leftover()
}

// Marks of the tokens that stand for indentation.
const (
	pyIndent = "\x01"
	pyDedent = "\x02"
)

// scan makes tokens and logical lines. Texts that are statements are comments.
func (f *pyFile) scan(data []byte) {
	p := &pyScan{pyFile: f, data: data, line: 1}
	for p.at < len(data) {
		p.begin()
		for p.at < len(data) && !p.next() {
		}
		p.finish()
	}
	if len(p.open) > 0 {
		f.fail("a bracket is not closed")
	}
}

type pyScan struct {
	*pyFile
	data    []byte
	at      int
	line    int
	from    int
	indent  int
	indents []int
	open    []byte
}

// begin measures the indentation of a line.
func (p *pyScan) begin() {
	p.indent = 0
	for p.at < len(p.data) {
		switch p.data[p.at] {
		case ' ':
			p.indent++
		case '\t':
			p.indent += 8 - p.indent%8
		case '\f', '\r':
		default:
			p.from = -1
			return
		}
		p.at++
	}
	p.from = -1
}

// first comes before the first token of a logical line.
func (p *pyScan) first() {
	if p.from >= 0 {
		return
	}
	top := func() int {
		if len(p.indents) == 0 {
			return 0
		}
		return p.indents[len(p.indents)-1]
	}
	if p.indent > top() {
		p.indents = append(p.indents, p.indent)
		p.tokens = append(p.tokens, token{kind: punct, text: pyIndent, line: p.line})
	}
	for p.indent < top() {
		p.indents = p.indents[:len(p.indents)-1]
		p.tokens = append(p.tokens, token{kind: punct, text: pyDedent, line: p.line})
	}
	if p.indent != top() {
		p.fail("its indentation does not match")
	}
	p.from = len(p.tokens)
}

func (p *pyScan) finish() {
	if p.from < 0 || p.from == len(p.tokens) {
		return
	}
	if !slices.ContainsFunc(p.tokens[p.from:], func(t token) bool { return t.kind != text }) {
		p.tokens = p.tokens[:p.from]
		return
	}
	p.tokens[p.from].fresh = true
	p.lines = append(p.lines, pyLine{indent: p.indent, from: p.from, to: len(p.tokens)})
}

func (p *pyScan) emit(kind tokenKind, end int, value string) {
	p.first()
	if kind == punct && (value == ")" || value == "]" || value == "}") && len(p.tokens) > p.from && p.tokens[len(p.tokens)-1].is(",") {
		p.tokens = p.tokens[:len(p.tokens)-1]
	}
	p.tokens = append(p.tokens, token{kind: kind, text: value, line: p.line})
	p.line += strings.Count(string(p.data[p.at:end]), "\n")
	p.at = end
}

// next takes a token and says whether the logical line ends with it.
func (p *pyScan) next() bool {
	c := p.data[p.at]
	switch {
	case c == '\n':
		p.at++
		p.line++
		return len(p.open) == 0
	case c == ' ' || c == '\t' || c == '\r' || c == '\f':
		p.at++
	case c == '\\' && p.at+1 < len(p.data) && p.data[p.at+1] == '\n':
		p.at += 2
		p.line++
	case c == '#':
		for p.at < len(p.data) && p.data[p.at] != '\n' {
			p.at++
		}
	case c == '"' || c == '\'':
		p.quoted(p.at)
	case isWord(c):
		p.word()
	default:
		p.punct(c)
	}
	return false
}

func (p *pyScan) word() {
	i := p.at
	for i < len(p.data) && (isWord(p.data[i]) || isDigit(p.data[p.at]) && p.data[i] == '.') {
		i++
	}
	if i < len(p.data) && (p.data[i] == '"' || p.data[i] == '\'') && i-p.at <= 2 && strings.Trim(strings.ToLower(string(p.data[p.at:i])), "rbfut") == "" {
		p.quoted(i)
		return
	}
	kind := word
	if isDigit(p.data[p.at]) {
		kind = number
	}
	p.emit(kind, i, string(p.data[p.at:i]))
}

// quoted takes a text whose quotes begin at i.
func (p *pyScan) quoted(i int) {
	quote := string(p.data[i])
	if i+2 < len(p.data) && string(p.data[i:i+3]) == strings.Repeat(quote, 3) {
		quote = strings.Repeat(quote, 3)
	}
	for j := i + len(quote); j < len(p.data); j++ {
		switch {
		case p.data[j] == '\\':
			j++
		case p.data[j] == '\n' && len(quote) == 1:
			p.fail("a text is not closed")
			p.emit(text, j, "")
			return
		case p.data[j] == quote[0] && j+len(quote) <= len(p.data) && string(p.data[j:j+len(quote)]) == quote:
			p.emit(text, j+len(quote), string(p.data[i+len(quote):j]))
			return
		}
	}
	p.fail("a text is not closed")
	p.emit(text, len(p.data), "")
}

var pyOperators = []string{"==", "!=", "->", ":=", "<=", ">=", "**", "//", "..."}

func (p *pyScan) punct(c byte) {
	for _, o := range pyOperators {
		if p.at+len(o) <= len(p.data) && string(p.data[p.at:p.at+len(o)]) == o {
			p.emit(punct, p.at+len(o), o)
			return
		}
	}
	switch c {
	case '(', '[', '{':
		p.open = append(p.open, c)
	case ')', ']', '}':
		if len(p.open) > 0 {
			p.open = p.open[:len(p.open)-1]
		}
	}
	p.emit(punct, p.at+1, string(rune(c)))
}

// blocks finds where what is indented below each line ends.
func (f *pyFile) blocks() {
	var open []int
	for i, l := range f.lines {
		for len(open) > 0 && f.lines[open[len(open)-1]].indent >= l.indent {
			f.lines[open[len(open)-1]].end = i
			open = open[:len(open)-1]
		}
		if open = append(open, i); len(open) > maxNesting {
			f.lines = f.lines[:i]
			break
		}
	}
	for _, i := range open {
		if i < len(f.lines) {
			f.lines[i].end = len(f.lines)
		}
	}
}

// walk goes through logical lines and counts what they check.
func (f *pyFile) walk(from, to int, p place) {
	var decorators []int
	if p.nest++; p.nest > maxNesting {
		return
	}
	for i := from; i < to; {
		l := f.lines[i]
		if f.at(l.from).is("@") {
			decorators = append(decorators, i)
			i++
			continue
		}
		next, dead := f.step(i, to, decorators, &p)
		if dead && p.u.key != "" && !strings.HasPrefix(p.u.key, "class ") { // what a file defines is told of all the same
			return
		}
		decorators = nil
		i = max(next, i+1)
	}
}

func (f *pyFile) step(i, to int, decorators []int, p *place) (int, bool) {
	l := f.lines[i]
	start := l.from
	if f.at(start).is("async") {
		start++
	}
	switch f.at(start).text {
	case "def":
		f.function(i, start, decorators, *p)
	case "class":
		f.class(i, start, decorators, *p)
	case "if", "elif", "while":
		return f.branch(i, to, p)
	case "else", "except", "case", "match":
		inner := *p
		inner.top = false
		inner.depth++
		f.inside(i, inner)
	case "for":
		f.loop(i, *p)
	case "try":
		inner := *p
		inner.top = false
		inner.swallow = inner.swallow || f.swallows(l.end, to, l.indent)
		f.inside(i, inner)
	case "return", "raise", "continue", "break":
		f.leave(i, to, p)
		return l.end, true
	default:
		dead := f.expression(span{l.from, l.to}, p)
		inner := *p
		inner.top = false
		inner.swallow = inner.swallow || f.at(l.from).is("with") && f.suppresses(l)
		f.walk(i+1, l.end, inner)
		return l.end, dead
	}
	return l.end, false
}

// suppresses: with suppress(AssertionError).
func (f *pyFile) suppresses(l pyLine) bool {
	for k := l.from; k < l.to; k++ {
		if f.at(k).is("suppress") {
			return true
		}
	}
	return false
}

// colon is where the head of a compound statement ends.
func (f *pyFile) colon(l pyLine) int {
	for k := l.from; k < l.to; k++ {
		if f.pair[k] > k {
			k = f.pair[k]
		} else if f.at(k).is(":") {
			return k
		}
	}
	return l.to
}

// inside goes through what belongs to a compound statement, on its line and
// below.
func (f *pyFile) inside(i int, p place) {
	l := f.lines[i]
	if c := f.colon(l); c+1 < l.to {
		f.expression(span{c + 1, l.to}, &p)
	}
	f.walk(i+1, l.end, p)
}

func (f *pyFile) branch(i, to int, p *place) (int, bool) {
	l := f.lines[i]
	colon := f.colon(l)
	known := constantCondition(f.source, span{l.from + 1, colon})
	then := *p
	then.top = false
	if known != yes {
		then.depth++
		then.guard = f.sum(l.from, l.to)
	}
	checks := len(p.u.checks)
	if known != no {
		f.expression(span{l.from + 1, colon}, p)
		f.inside(i, then)
	}
	last := l
	if l.end > i+1 {
		last = f.lines[l.end-1]
	}
	leaves := f.at(last.from).is("return") || last == l && f.at(colon+1).is("return")
	if !leaves || !p.top || checks > 0 || len(p.u.checks) > 0 {
		return l.end, known == yes && leaves && l.end < to
	}
	switch known {
	case yes:
		p.u.skips = append(p.u.skips, skip{true, "it returns before it checks anything"})
	case unknown:
		p.u.early++
	default:
	}
	return l.end, known == yes
}

func (f *pyFile) loop(i int, p place) {
	l := f.lines[i]
	colon := f.colon(l)
	for k := l.from; k < colon; k++ {
		if f.at(k).is("in") {
			p.weight = saturated(p.weight * f.rows(k+1, p.u))
			break
		}
	}
	f.expression(span{l.from + 1, colon}, &p)
	p.top = false
	f.inside(i, p)
}

// rows notes the cases of a list, and answers how many: 1 for what is not known.
func (f *pyFile) rows(i int, u *unit) int {
	if open, ok := f.lists[f.at(i).text]; ok && f.at(i).kind == word {
		i = open
	}
	if tuple := f.at(i).is("(") && len(f.split(i)) > 1; !tuple && !f.at(i).is("[") {
		return 1
	}
	return f.suite.cases(u, f.source, i)
}

// swallows: a handler that follows lets failed assertions not get out.
func (f *pyFile) swallows(i, to, indent int) bool {
	for ; i < to && f.lines[i].indent == indent && f.at(f.lines[i].from).is("except"); i = f.lines[i].end {
		l := f.lines[i]
		catches := f.colon(l) == l.from+1
		for k := l.from; k < f.colon(l); k++ {
			switch f.at(k).text {
			case "AssertionError", "Exception", "BaseException":
				catches = true
			}
		}
		end := l.to
		if l.end > i+1 {
			end = f.lines[l.end-1].to
		}
		if catches && !reportsFailure(f.source, span{f.colon(l), end}) {
			return true
		}
	}
	return false
}

// leave takes return and raise.
func (f *pyFile) leave(i, to int, p *place) {
	l := f.lines[i]
	if f.at(l.from).is("raise") {
		for k := l.from; k < l.to; k++ {
			if f.at(k).is("SkipTest") || f.at(k).is("Skipped") {
				p.u.skips = append(p.u.skips, skip{p.depth == 0, "it raises " + f.at(k).text})
				return
			}
		}
		p.add(check{text: p.guard ^ f.sum(l.from, l.to), conditional: p.depth > 1})
		return
	}
	f.expression(span{l.from + 1, l.to}, p)
	if p.top && len(p.u.checks)+len(p.u.calls) == 0 && i+1 < to {
		p.u.skips = append(p.u.skips, skip{true, "it returns before it checks anything"})
	}
}

// function makes a function a unit.
func (f *pyFile) function(i, start int, decorators []int, p place) {
	l := f.lines[i]
	name := f.at(start + 1)
	inTests := p.u == f.root || strings.HasPrefix(p.u.key, "class ")
	u := f.suite.add(&unit{
		name: name.text, key: name.text, line: name.line, parent: f.root, blank: f.empty(i),
		test: inTests && strings.HasPrefix(name.text, "test") && (p.u == f.root || p.u.test || p.u.key != ""),
	})
	if p.u != f.root {
		u.name = p.u.name + "::" + name.text
		if u.parent = p.u; !inTests {
			u.parent = nil
		} else {
			u.key = "." + name.text
		}
	}
	u.name = shortName(u.name)
	if p.depth > 0 && p.u == f.root {
		u.skips = append(u.skips, skip{false, "it is defined"})
	}
	if inTests && strings.HasSuffix(p.u.key, "?") {
		u.test = false // its class is none of tests
	}
	weight := 1
	for _, d := range decorators {
		weight = saturated(weight * f.decorate(f.lines[d], u))
	}
	inner := place{u: u, weight: weight, top: true, nest: p.nest}
	if c := f.colon(l); c+1 < l.to {
		f.expression(span{c + 1, l.to}, &inner)
	}
	f.walk(i+1, l.end, inner)
	end := f.end(i)
	u.body = f.without(span{start + 2, end}, f.holes[u])
	from := l.from
	if len(decorators) > 0 {
		from = f.lines[decorators[0]].from
		u.body ^= f.sum(from, l.from)
	}
	f.holes[p.u] = append(f.holes[p.u], span{from, end})
}

// end is where the tokens of a line and of what is below it end.
func (f *pyFile) end(i int) int {
	if l := f.lines[i]; l.end > i+1 {
		return f.lines[l.end-1].to
	}
	return f.lines[i].to
}

func (f *pyFile) empty(i int) bool {
	l := f.lines[i]
	if c := f.colon(l); c+1 < l.to && !f.at(c+1).is("pass") && !f.at(c+1).is("...") {
		return false
	}
	for _, l := range f.lines[i+1 : l.end] {
		if l.to-l.from != 1 || !f.at(l.from).is("pass") && !f.at(l.from).is("...") {
			return false
		}
	}
	return true
}

var pyTestClass = regexp.MustCompile(`^Test|Tests?$|TestCase$`)

func (f *pyFile) class(i, start int, decorators []int, p place) {
	l := f.lines[i]
	u := f.suite.add(&unit{name: f.at(start + 1).text, line: f.at(start).line, parent: f.root, key: "class " + f.at(start+1).text})
	tests := pyTestClass.MatchString(u.name)
	for k := start + 2; k < f.colon(l); k++ {
		tests = tests || strings.Contains(f.at(k).text, "Test") && f.at(k).kind == word
	}
	if p.u != f.root {
		u.name = p.u.name + "::" + u.name
		u.parent = p.u
	}
	if !tests {
		u.key += "?"
	}
	for _, d := range decorators {
		f.decorate(f.lines[d], u)
	}
	f.walk(i+1, l.end, place{u: u, weight: 1, nest: p.nest})
	u.body = f.without(span{start + 2, f.end(i)}, f.holes[u])
	from := l.from
	if len(decorators) > 0 {
		from = f.lines[decorators[0]].from
	}
	f.holes[p.u] = append(f.holes[p.u], span{from, f.end(i)})
}

// decorate takes @pytest.mark.skip and the like, and answers how many cases a
// parametrisation has.
func (f *pyFile) decorate(l pyLine, u *unit) int {
	for k := l.from; k < l.to && !f.at(k).is("("); k++ {
		name := f.at(k).text
		switch name {
		case "skip", "expectedFailure", "skipIf", "skipUnless", "skipif", "xfail":
			always := name == "skip" || name == "expectedFailure" || name == "xfail"
			if args := f.split(k + 1); !always && f.at(k+1).is("(") && len(args) > 0 {
				known := constantCondition(f.source, args[0])
				always = known == yes && name != "skipUnless" || known == no && name == "skipUnless"
			}
			u.skips = append(u.skips, skip{always, "it is marked " + name})
		case "parametrize":
			if args := f.split(k + 1); f.at(k+1).is("(") && len(args) > 1 {
				return f.rows(args[1].from, u)
			}
		}
	}
	return 1
}

var (
	pyHelper = regexp.MustCompile(`^_?(assert|check|verify|expect|validate)_`)
	pySkips  = set("skip skipTest xfail importorskip")
)

// expression looks for checks in the tokens of a statement, and says whether
// nothing after it runs.
func (f *pyFile) expression(s span, p *place) bool {
	if f.at(s.from).is("assert") {
		f.assertion(s, *p)
	}
	f.marks(s, p)
	dead := false
	for i := s.from; i < s.to; i++ {
		t := f.at(i)
		called := f.at(i + 1).is("(")
		if t.kind != word || !called && !f.at(i-1).is("(") && !f.at(i-1).is(",") {
			continue
		}
		member := f.at(i - 1).is(".")
		switch {
		case called && pySkips[t.text] && (member || t.is("skip")):
			p.u.skips = append(p.u.skips, skip{p.depth == 0 && t.text != "importorskip", "it calls " + t.text})
			dead = dead || p.depth == 0 && t.text != "importorskip"
		case called && member && (strings.HasPrefix(t.text, "assert") || t.is("raises") || t.is("warns") || t.is("fail")):
			f.called(i, *p)
		default:
			c := call{key: t.text, weight: p.weight, conditional: p.depth > 0}
			if member {
				c.key = "." + t.text
			}
			if called && pyHelper.MatchString(t.text) {
				c.fallback = 1
			}
			if !p.swallow {
				p.u.calls = append(p.u.calls, c)
			}
		}
	}
	return dead
}

// marks takes pytestmark = …, __test__ = False, test_x = None, del test_x.
func (f *pyFile) marks(s span, p *place) {
	first, second := f.at(s.from), f.at(s.from+1)
	switch {
	case first.is("pytestmark") && second.is("="):
		for k := s.from; k < s.to; k++ {
			if t := f.at(k).text; t == "skip" || t == "skipif" || t == "xfail" {
				p.u.skips = append(p.u.skips, skip{t != "skipif", "pytestmark says " + t})
			}
		}
	case first.is("__test__") && second.is("=") && f.at(s.from+2).is("False"):
		p.u.skips = append(p.u.skips, skip{true, "__test__ is False"})
	case p.u.key == "" || strings.HasPrefix(p.u.key, "class "):
		name := first.text
		if first.is("del") {
			name = second.text
		} else if !second.is("=") {
			return
		}
		if strings.HasPrefix(name, "test") {
			f.drop(p.u, name)
		}
	}
}

// drop: a test's name means something else from here on.
func (f *pyFile) drop(parent *unit, name string) {
	if parent != f.root {
		name = parent.name + "::" + name
	}
	f.dropped[name] = len(f.suite.units)
}

// assertion takes assert x, "why".
func (f *pyFile) assertion(s span, p place) {
	whole := span{s.from + 1, s.to}
	for k := whole.from; k < whole.to; k++ {
		if f.pair[k] > k {
			k = f.pair[k]
		} else if f.at(k).is(",") {
			whole.to = k
		}
	}
	if f.at(whole.from).is("(") && f.pair[whole.from] == whole.to-1 {
		if len(f.split(whole.from)) > 1 {
			return // a tuple is always true
		}
	}
	size := whole.to - whole.from
	if size == 1 && f.at(whole.from).literal() || constantCondition(f.source, whole) != unknown {
		return
	}
	vague := size == 1 || size >= 4 && f.at(whole.to-1).is("None") && f.at(whole.to-2).is("not") || f.at(whole.from).is("isinstance")
	p.add(check{text: f.sum(whole.from, whole.to), vague: vague, conditional: p.depth > 0})
}

var pyVague = set("assertIsNotNone assertTrue assertIsInstance assertNotEqual assert_called")

// called takes self.assertEqual(x, y), pytest.raises(E), mock.assert_called().
func (f *pyFile) called(i int, p place) {
	name := f.at(i).text
	args := f.split(i + 1)
	if strings.HasPrefix(name, "assert") && len(args) > 0 && !strings.HasPrefix(name, "assert_") {
		constant := args[0].to-args[0].from == 1 && f.at(args[0].from).literal()
		if len(args) == 1 && (constant || constantCondition(f.source, args[0]) != unknown) {
			return
		}
		if len(args) > 1 && strings.Contains(name, "Equal") && f.sum(args[0].from, args[0].to) == f.sum(args[1].from, args[1].to) {
			return
		}
		if constant && (strings.HasSuffix(name, "True") || strings.HasSuffix(name, "False") || strings.HasSuffix(name, "None")) {
			return
		}
	}
	text := f.sum(i, f.close(i+1))
	if name == "fail" {
		p.add(check{text: p.guard ^ text, conditional: p.depth > 1})
		return
	}
	p.add(check{text: text, vague: pyVague[name], conditional: p.depth > 0})
}

// shadow: of two functions of one name in one place only the last one runs.
func (f *pyFile) shadow() {
	last := map[string]*unit{}
	for _, u := range f.suite.units {
		if u.test {
			last[u.name] = u
		}
	}
	for i, u := range f.suite.units {
		switch {
		case u.test && last[u.name] != u:
			u.test, u.key = false, ""
		case u.test && f.dropped[u.name] > i:
			u.skips = append(u.skips, skip{true, "its name is given to something else"})
		}
	}
}

// leftover notes what stands outside functions, without imports and lists.
func (f *pyFile) leftover() {
	holes := f.holes[f.root]
	for i := 0; i < len(f.lines); i++ {
		l := f.lines[i]
		for len(holes) > 0 && holes[0].to <= l.from {
			holes = holes[1:]
		}
		inHole := len(holes) > 0 && holes[0].from <= l.from
		list := f.at(l.from+1).is("=") && f.at(l.from+2).is("[")
		if !inHole && !list && !f.at(l.from).is("import") && !f.at(l.from).is("from") {
			f.suite.rest = append(f.suite.rest, f.sum(l.from, l.to))
		}
	}
}
