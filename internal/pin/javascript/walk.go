package javascript

import (
	"path"
	"regexp"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/pin/lexer"
	"github.com/rocketgpt/orchestrator/internal/pin/testfile"
)

// file is a JavaScript or TypeScript file that is being read.
type file struct {
	*lexer.Source
	result *testfile.File
	root   *testfile.Unit // the file itself
	tables lexer.Lists    // literal lists, by name
	holes  map[*testfile.Unit][]lexer.Span
}

func scan(data []byte) *lexer.Source {
	return lexer.ScanBraces(data, lexer.Dialect{Templates: true, Regexes: true, SingleQuotes: true})
}

func parse(s *testfile.File, data []byte) {
	src := scan(data)
	markup := strings.HasSuffix(path.Ext(s.Path), "x") // text in markup may contain unmatched brackets
	if src.Broken != "" && (src.TooDeep || !markup) {
		s.Broken = src.Broken
		return
	}
	f := &file{Source: src, result: s, root: &testfile.Unit{File: s}, tables: lexer.NewLists(len(src.Tokens)), holes: map[*testfile.Unit][]lexer.Span{}}
	f.findTables()
	f.walk(lexer.Span{From: 0, To: len(f.Tokens)}, testfile.Position{Unit: f.root, Weight: 1})
	f.typeTest()
	f.otherStatements()
}

// typeTestFile matches files that a checker of types reads, such as tsd.
var typeTestFile = regexp.MustCompile(`\.(test|spec)-d\.[cm]?tsx?$`)

// typeTest makes a file of checks of types a test, unless it contains tests.
func (f *file) typeTest() {
	if !typeTestFile.MatchString(f.result.Path) || len(f.result.Tests()) > 0 || len(f.root.Checks)+len(f.root.Calls) == 0 {
		return
	}
	whole := lexer.Span{From: 0, To: len(f.Tokens)}
	f.result.Add(&testfile.Unit{
		Name: path.Base(f.result.Path), Test: true, Parent: f.root,
		Checks: f.root.Checks, Calls: f.root.Calls, Source: f.Source, Text: whole, Body: f.Digest(whole.From, whole.To),
	})
	f.holes[f.root] = []lexer.Span{whole}
}

// findTables records const name = […].
func (f *file) findTables() {
	ends := []int{len(f.Tokens)} // of the blocks around a token
	for i, t := range f.Tokens {
		for len(ends) > 1 && ends[len(ends)-1] <= i {
			ends = ends[:len(ends)-1]
		}
		if t.Is("{") && f.Pairs[i] > i {
			ends = append(ends, f.Pairs[i])
		}
		if !t.Is("=") || !f.At(i+1).Is("[") {
			continue
		}
		for j := i - 1; j > max(0, i-16); j-- {
			if p := f.At(j - 1); f.At(j).Kind == lexer.Word && (p.Is("const") || p.Is("let") || p.Is("var")) {
				f.tables.Add(f.At(j).Text, i+1, ends[len(ends)-1])
				break
			}
		}
	}
}

// walk walks statements and counts their checks.
func (f *file) walk(s lexer.Span, p testfile.Position) {
	if p.Nesting++; p.Nesting > lexer.MaxNesting {
		return
	}
	s.To = min(s.To, len(f.Tokens)) // a bracket left open in markup has no end
	for i := s.From; i < s.To; {
		next, dead := f.step(i, s.To, &p)
		if dead {
			f.hoisted(lexer.Span{From: next, To: s.To}, p)
			return
		}
		i = max(next, i+1)
	}
}

// hoisted reads the functions that are declared after a return: code before it can call them.
func (f *file) hoisted(s lexer.Span, p testfile.Position) {
	for i := s.From; i < s.To; i++ {
		switch {
		case f.At(i).Is("function"):
			i = max(f.function(i, s.To, p)-1, i)
		case f.Pairs[i] > i:
			i = f.Pairs[i]
		}
	}
}

// step reads the construct that begins at a token. It returns the next token, and whether control
// flow ends there.
func (f *file) step(i, end int, p *testfile.Position) (int, bool) {
	t := f.At(i)
	switch t.Text {
	case "{":
		if t.Kind == lexer.Punct {
			inner := *p
			inner.TopLevel = false
			to := f.Close(i)
			f.walk(lexer.Span{From: i + 1, To: min(to, end)}, inner)
			return to + 1, false
		}
	case "forEach":
		if to := f.forEach(i, *p); to > i {
			return to, false
		}
	}
	if t.Kind != lexer.Word || f.At(i+1).Is(":") || f.At(i-1).Is(".") && (!dotted[t.Text] || f.At(i-2).Is("console")) {
		return i + 1, f.method(i, p)
	}
	switch t.Text {
	case "if", "while":
		return f.branch(i, end, p)
	case "for":
		return f.loop(i, end, *p), false
	case "switch", "catch":
		return f.conditional(i, *p), false
	case "try":
		return f.try(i, *p), false
	case "return", "throw":
		return f.exit(i, end, p)
	case "function", "const", "let", "var":
		return f.function(i, end, *p), false
	}
	if to := f.testCall(i, *p); to > i {
		return to, false
	}
	return f.expression(i, p), false
}

// dotted are words that also have a meaning after a dot.
var dotted = lexer.Set("test should assert")

// body returns the block or statement that a condition controls.
func (f *file) body(i, end int) (lexer.Span, int) {
	if f.At(i).Is("{") {
		to := min(f.Close(i), end)
		return lexer.Span{From: i + 1, To: to}, to + 1
	}
	to := f.statement(i, end)
	return lexer.Span{From: i, To: to}, to
}

// statement returns the end of a statement that is not a block.
func (f *file) statement(i, end int) int {
	from := i
	end = min(end, len(f.Tokens))
	for ; i < min(end, from+lexer.MaxStatement); i++ {
		t := f.At(i)
		if t.Is(";") {
			return i + 1
		}
		if i > from && t.StartsLine && !continuesLine(t) && !expectsMore(f.At(i-1)) {
			return i
		}
		if f.Pairs[i] > i {
			i = min(f.Pairs[i], end)
		}
	}
	return min(i, end)
}

// continuesLine reports whether a line that begins with a token continues the previous line.
func continuesLine(t lexer.Token) bool {
	return t.Kind == lexer.Punct && !t.Is("{") && !t.Is("(") && !t.Is("[") && !t.Is("!") && !t.Is("}") && !t.Is("...")
}

// expectsMore reports whether a line that ends with a token continues on the next line.
func expectsMore(t lexer.Token) bool {
	return t.Kind == lexer.Punct && !t.Is(")") && !t.Is("]") && !t.Is("}") && !t.Is(";")
}

// branch reads if and while.
func (f *file) branch(i, end int, p *testfile.Position) (int, bool) {
	if !f.At(i + 1).Is("(") {
		return i + 1, false
	}
	stop := f.Close(i + 1)
	known := testfile.Constant(f.Source, lexer.Span{From: i + 2, To: stop})
	body, next := f.body(stop+1, end)
	then := *p
	then.TopLevel = false
	if known != testfile.True {
		then.Conditions++
		then.Guard = f.Digest(i, body.To)
	}
	checks := len(p.Unit.Checks)
	leaves := f.At(body.From).Is("return") || f.At(f.lastStatement(body)).Is("return")
	if known != testfile.False {
		f.walk(body, then)
	}
	if leaves && known == testfile.Unknown && p.TopLevel && checks == 0 && len(p.Unit.Checks) == 0 {
		p.Unit.EarlyReturns++
	}
	if leaves && known == testfile.Unknown && !p.Unit.Test {
		p.Conditions++ // what follows, such as the definition of a test, does not always run
	}
	if f.At(next).Is("else") {
		next = f.otherwise(next, end, known, *p)
	}
	if leaves && known == testfile.True && p.TopLevel && checks == 0 {
		p.Unit.Skips = append(p.Unit.Skips, testfile.Skip{Always: true, Reason: "it returns before it checks anything"})
	}
	return next, known == testfile.True && leaves
}

// lastStatement returns the probable beginning of a block's last statement.
func (f *file) lastStatement(s lexer.Span) int {
	for i := s.To - 1; i >= max(s.From, s.To-4); i-- {
		if f.At(i).Is("return") {
			return i
		}
	}
	return s.From
}

func (f *file) otherwise(i, end int, known testfile.Truth, p testfile.Position) int {
	if f.At(i + 1).Is("if") {
		if known == testfile.True {
			_, next := f.body(f.Close(i+2)+1, end)
			return next
		}
		return i + 1
	}
	body, next := f.body(i+1, end)
	if known == testfile.True {
		return next
	}
	p.TopLevel = false
	if known == testfile.Unknown {
		p.Conditions++
		p.Guard = f.Digest(i, body.To)
	}
	f.walk(body, p)
	return next
}

// conditional reads switch and catch: the content of their blocks runs sometimes.
func (f *file) conditional(i int, p testfile.Position) int {
	j := i + 1
	if f.At(j).Is("(") {
		j = f.Close(j) + 1
	}
	if !f.At(j).Is("{") {
		return i + 1
	}
	p.Conditions++
	p.TopLevel = false
	p.Guard = f.Digest(i, f.Close(j))
	f.walk(lexer.Span{From: j + 1, To: f.Close(j)}, p)
	return f.Close(j) + 1
}

// try reads a try block: if the handler catches everything, its checks cannot fail.
func (f *file) try(i int, p testfile.Position) int {
	if !f.At(i + 1).Is("{") {
		return i + 1
	}
	stop := f.Close(i + 1)
	if f.At(stop + 1).Is("catch") {
		j := stop + 2
		if f.At(j).Is("(") {
			j = f.Close(j) + 1
		}
		p.Swallowed = p.Swallowed || f.At(j).Is("{") && !testfile.ReportsFailure(f.Source, lexer.Span{From: j + 1, To: f.Close(j)})
	}
	p.TopLevel = false
	f.walk(lexer.Span{From: i + 2, To: stop}, p)
	return stop + 1
}

// loop reads for (const x of list).
func (f *file) loop(i, end int, p testfile.Position) int {
	j := i + 1
	if f.At(j).Is("await") {
		j++
	}
	if !f.At(j).Is("(") {
		return i + 1
	}
	stop := f.Close(j)
	for k := j; k < min(stop, j+24); k++ {
		if f.At(k).Is("of") {
			p.Weight = testfile.Saturate(p.Weight * f.cases(k+1, p.Unit))
			break
		}
	}
	body, next := f.body(stop+1, end)
	p.TopLevel = false
	before := p.Unit.Extent()
	f.walk(body, p)
	p.Unit.AddLoop(f.Source, lexer.Span{From: j, To: stop}, before)
	return next
}

// cases records the cases of a list that begins or is named at a token, and returns their number: 1
// if unknown.
func (f *file) cases(i int, u *testfile.Unit) int {
	if f.At(i).Kind == lexer.Word {
		i = f.tables.Find(f.At(i).Text, i)
	}
	if !f.At(i).Is("[") {
		return 1
	}
	return f.result.ListCases(u, f.Source, i)
}

// forEach reads list.forEach(…).
func (f *file) forEach(i int, p testfile.Position) int {
	if !f.At(i-1).Is(".") || !f.At(i+1).Is("(") {
		return 0
	}
	list := i - 2
	if f.At(list).Is("]") {
		list = f.Pairs[list]
	}
	p.Weight = testfile.Saturate(p.Weight * f.cases(list, p.Unit))
	p.TopLevel = false
	stop := f.Close(i + 1)
	f.walk(lexer.Span{From: i + 2, To: stop}, p)
	return stop + 1
}

// exit reads return and throw.
func (f *file) exit(i, end int, p *testfile.Position) (int, bool) {
	stop := f.statement(i, end)
	if f.At(i).Is("throw") {
		p.Add(testfile.Check{Digest: p.Guard ^ f.Digest(i, stop), Conditional: p.Conditions > 1})
	} else if p.TopLevel && len(p.Unit.Checks)+len(p.Unit.Calls) == 0 && stop < end && returnsNothing(f, lexer.Span{From: i, To: stop}) {
		p.Unit.Skips = append(p.Unit.Skips, testfile.Skip{Always: true, Reason: "it returns before it checks anything"})
	}
	if f.At(i + 1).StartsLine { // nothing is returned
		stop = i + 1
	}
	inner := *p
	inner.TopLevel = false
	f.walk(lexer.Span{From: i + 1, To: stop}, inner)
	return stop, true
}

// returnsNothing reports whether a return has no value or a constant.
func returnsNothing(f *file, s lexer.Span) bool {
	return s.To-s.From <= 2 || f.At(s.From+1).StartsLine || f.At(s.From+1).Literal() || f.At(s.From+1).Is("Promise")
}

// function makes named functions separate units, whose checks count where they are called.
func (f *file) function(i, end int, p testfile.Position) int {
	name, from := f.At(i+1), i+2
	if f.At(i).Is("function") {
		if !f.At(i + 2).Is("(") {
			return i + 1
		}
	} else {
		if !f.At(i + 2).Is("=") {
			return i + 1
		}
		from++
		if f.At(from).Is("async") {
			from++
		}
		if !f.At(from).Is("function") && !f.isArrow(from) {
			return i + 1
		}
	}
	body, next := f.callback(from, end)
	if name.Kind != lexer.Word || body.From == 0 {
		return i + 1
	}
	u := f.result.Add(&testfile.Unit{Name: name.Text, Key: name.Text, Line: name.Line, Empty: f.empty(body)})
	if p.Unit != f.root {
		u.Inside = p.Unit
	}
	f.walkBody(u, body, p)
	u.Body = f.DigestWithout(lexer.Span{From: from, To: next}, f.holes[u])
	f.holes[p.Unit] = append(f.holes[p.Unit], lexer.Span{From: i, To: next})
	return next
}

// isArrow reports whether an arrow function begins at a token.
func (f *file) isArrow(i int) bool {
	if f.At(i).Is("(") {
		i = f.Close(i)
		for j := i + 1; j < i+16; j++ {
			if f.At(j).Is("=>") {
				return true
			}
			if f.At(j).Is(";") || f.At(j).Is("=") || f.At(j).Is("(") {
				return false
			}
		}
		return false
	}
	return f.At(i).Kind == lexer.Word && f.At(i+1).Is("=>")
}

// callback finds the body of a function that begins at a token, and its end.
func (f *file) callback(i, end int) (lexer.Span, int) {
	end = min(end, len(f.Tokens))
	for j := i; j < min(end, i+48); j++ {
		switch t := f.At(j); {
		case t.Is("=>"):
			if f.At(j + 1).Is("{") {
				return lexer.Span{From: j + 2, To: min(f.Close(j+1), end)}, min(f.Close(j+1), end) + 1
			}
			stop := f.statement(j+1, end)
			return lexer.Span{From: j + 1, To: stop}, stop
		case t.Is("{"):
			return lexer.Span{From: j + 1, To: min(f.Close(j), end)}, min(f.Close(j), end) + 1
		case f.Pairs[j] > j:
			j = f.Pairs[j]
		}
	}
	return lexer.Span{}, end
}

func (f *file) walkBody(u *testfile.Unit, body lexer.Span, p testfile.Position) {
	inner := testfile.Position{Unit: u, Weight: 1, TopLevel: true, Nesting: p.Nesting}
	f.walk(body, inner)
}

func (f *file) empty(s lexer.Span) bool {
	for i := s.From; i < s.To; i++ {
		if !f.At(i).Is(";") {
			return false
		}
	}
	return true
}

// otherStatements records the statements outside tests and the functions that tests call. It omits
// imports and tables, whose cases are compared individually.
func (f *file) otherStatements() {
	holes := f.holes[f.root]
	for i := 0; i < len(f.Tokens); {
		for len(holes) > 0 && holes[0].To <= i {
			holes = holes[1:]
		}
		if len(holes) > 0 && holes[0].From <= i {
			i = holes[0].To
			continue
		}
		end := max(f.statement(i, len(f.Tokens)), i+1)
		if len(holes) > 0 {
			end = min(end, holes[0].From)
		}
		if !f.ignored(i, end) {
			f.result.Statements = append(f.result.Statements, f.Digest(i, end))
		}
		i = end
	}
}

func (f *file) ignored(i, end int) bool {
	switch f.At(i).Text {
	case "import", ";", "export", "async", "}", ")":
		return true
	}
	for k := i; k < min(end, i+16); k++ {
		if f.At(k).Is("require") || f.At(k).Is("=") && f.At(k+1).Is("[") {
			return true
		}
	}
	return false
}
