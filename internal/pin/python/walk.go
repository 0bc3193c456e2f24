package python

import (
	"regexp"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/pin/lexer"
	"github.com/rocketgpt/orchestrator/internal/pin/testfile"
)

// file is a Python file that is being read.
type file struct {
	*lexer.Source
	result *testfile.File
	lines  []logicalLine
	holes  map[*testfile.Unit][]lexer.Span
	root   *testfile.Unit
	lists  lexer.Lists
	// decorators are definitions outside functions that may give decorators a name.
	decorators map[string]logicalLine
	dropped    map[string]int // test names that have another meaning, with the number of units before
}

func parse(s *testfile.File, data []byte) {
	f := &file{Source: &lexer.Source{}, result: s, holes: map[*testfile.Unit][]lexer.Span{}, root: &testfile.Unit{File: s}, dropped: map[string]int{}}
	f.scan(data)
	f.Index()
	if f.Broken != "" {
		s.Broken = f.Broken
		return
	}
	f.findBlockEnds()
	f.lists, f.decorators = lexer.NewLists(len(f.Tokens)), map[string]logicalLine{}
	f.findLists()
	f.walk(0, len(f.lines), testfile.Position{Unit: f.root, Weight: 1})
	f.removeShadowed()
	f.otherStatements()
	f.suites()
}

// walk walks logical lines and counts their checks.
func (f *file) walk(from, to int, p testfile.Position) {
	var decorators []int
	if p.Nesting++; p.Nesting > lexer.MaxNesting {
		return
	}
	for i := from; i < to; {
		l := f.lines[i]
		if f.At(l.from).Is("@") {
			decorators = append(decorators, i)
			i++
			continue
		}
		next, dead := f.step(i, to, decorators, &p)
		if dead && p.Unit.Key != "" && !strings.HasPrefix(p.Unit.Key, "class ") { // definitions in a file are reported anyway
			return
		}
		decorators = nil
		i = max(next, i+1)
	}
}

func (f *file) step(i, to int, decorators []int, p *testfile.Position) (int, bool) {
	l := f.lines[i]
	start := l.from
	if f.At(start).Is("async") {
		start++
	}
	switch f.At(start).Text {
	case "def":
		f.function(i, start, decorators, *p)
	case "class":
		f.class(i, start, decorators, *p)
	case "if", "elif", "while":
		return f.branch(i, to, p)
	case "else", "except", "case", "match":
		inner := *p
		inner.TopLevel = false
		inner.Conditions++
		f.walkBlock(i, inner)
	case "for":
		f.loop(i, *p)
	case "try":
		inner := *p
		inner.TopLevel = false
		inner.Swallowed = inner.Swallowed || f.swallows(l.end, to, l.indent)
		f.walkBlock(i, inner)
	case "return", "raise", "continue", "break":
		f.exit(i, to, p)
		return l.end, true
	default:
		dead := f.expression(lexer.Span{From: l.from, To: l.to}, p)
		inner := *p
		inner.TopLevel = false
		inner.Swallowed = inner.Swallowed || f.At(l.from).Is("with") && f.suppresses(l)
		f.walk(i+1, l.end, inner)
		return l.end, dead
	}
	return l.end, false
}

// suppresses: with suppress(AssertionError).
func (f *file) suppresses(l logicalLine) bool {
	for k := l.from; k < l.to; k++ {
		if f.At(k).Is("suppress") {
			return true
		}
	}
	return false
}

// colon returns the end of the header of a compound statement.
func (f *file) colon(l logicalLine) int {
	for k := l.from; k < l.to; k++ {
		if f.Pairs[k] > k {
			k = f.Pairs[k]
		} else if f.At(k).Is(":") {
			return k
		}
	}
	return l.to
}

// walkBlock walks the body of a compound statement, on its line and below.
func (f *file) walkBlock(i int, p testfile.Position) {
	l := f.lines[i]
	if c := f.colon(l); c+1 < l.to {
		f.expression(lexer.Span{From: c + 1, To: l.to}, &p)
	}
	f.walk(i+1, l.end, p)
}

func (f *file) branch(i, to int, p *testfile.Position) (int, bool) {
	l := f.lines[i]
	colon := f.colon(l)
	known := testfile.Constant(f.Source, lexer.Span{From: l.from + 1, To: colon})
	then := *p
	then.TopLevel = false
	if known != testfile.True {
		then.Conditions++
		then.Guard = f.Digest(l.from, l.to)
	}
	checks := len(p.Unit.Checks)
	if known != testfile.False {
		f.expression(lexer.Span{From: l.from + 1, To: colon}, p)
		f.walkBlock(i, then)
	}
	last := l
	if l.end > i+1 {
		last = f.lines[l.end-1]
	}
	leaves := f.At(last.from).Is("return") || last == l && f.At(colon+1).Is("return")
	if !leaves || !p.TopLevel || checks > 0 || len(p.Unit.Checks) > 0 {
		return l.end, known == testfile.True && leaves && l.end < to
	}
	switch known {
	case testfile.True:
		p.Unit.Skips = append(p.Unit.Skips, testfile.Skip{Always: true, Reason: "it returns before it checks anything"})
	case testfile.Unknown:
		p.Unit.EarlyReturns++
	default:
	}
	return l.end, known == testfile.True
}

func (f *file) loop(i int, p testfile.Position) {
	l := f.lines[i]
	colon := f.colon(l)
	for k := l.from; k < colon; k++ {
		if f.At(k).Is("in") {
			p.Weight = testfile.Saturate(p.Weight * f.cases(k+1, p.Unit))
			break
		}
	}
	f.expression(lexer.Span{From: l.from + 1, To: colon}, &p)
	p.TopLevel = false
	before := p.Unit.Extent()
	f.walkBlock(i, p)
	p.Unit.AddLoop(f.Source, lexer.Span{From: l.from, To: colon}, before)
}

// cases records the cases of a list and returns their number: 1 if unknown.
func (f *file) cases(i int, u *testfile.Unit) int {
	if f.At(i).Kind == lexer.Word {
		if open := f.lists.Find(f.At(i).Text, i); open >= 0 {
			i = open
		}
	}
	if tuple := f.At(i).Is("(") && len(f.Split(i)) > 1; !tuple && !f.At(i).Is("[") {
		return 1
	}
	return f.result.ListCases(u, f.Source, i)
}

// findLists records name = […], and name = decorator(…).
func (f *file) findLists() {
	var around []int // the lines of the blocks around a line
	for i, l := range f.lines {
		for len(around) > 0 && f.lines[around[len(around)-1]].end <= i {
			around = around[:len(around)-1]
		}
		if f.At(l.from+1).Is("=") && f.At(l.from+2).Is("[") {
			end := len(f.Tokens)
			if len(around) > 0 {
				end = f.end(around[len(around)-1])
			}
			f.lists.Add(f.At(l.from).Text, l.from+2, end)
		}
		if l.indent == 0 && f.At(l.from+1).Is("=") && f.At(l.to-1).Is(")") {
			f.decorators[f.At(l.from).Text] = l
		}
		if l.end > i+1 {
			around = append(around, i)
		}
	}
}

// swallows reports whether a following handler catches every failed assertion.
func (f *file) swallows(i, to, indent int) bool {
	for ; i < to && f.lines[i].indent == indent && f.At(f.lines[i].from).Is("except"); i = f.lines[i].end {
		l := f.lines[i]
		catches := f.colon(l) == l.from+1
		for k := l.from; k < f.colon(l); k++ {
			switch f.At(k).Text {
			case "AssertionError", "Exception", "BaseException":
				catches = true
			}
		}
		end := l.to
		if l.end > i+1 {
			end = f.lines[l.end-1].to
		}
		if catches && !testfile.ReportsFailure(f.Source, lexer.Span{From: f.colon(l), To: end}) {
			return true
		}
	}
	return false
}

// exit reads return and raise.
func (f *file) exit(i, to int, p *testfile.Position) {
	l := f.lines[i]
	if f.At(l.from).Is("raise") {
		for k := l.from; k < l.to; k++ {
			if f.At(k).Is("SkipTest") || f.At(k).Is("Skipped") {
				p.Unit.Skips = append(p.Unit.Skips, testfile.Skip{Always: p.Conditions == 0, Reason: "it raises " + f.At(k).Text})
				return
			}
		}
		p.Add(testfile.Check{Digest: p.Guard ^ f.Digest(l.from, l.to), Conditional: p.Conditions > 1})
		return
	}
	f.expression(lexer.Span{From: l.from + 1, To: l.to}, p)
	if p.TopLevel && len(p.Unit.Checks)+len(p.Unit.Calls) == 0 && i+1 < to {
		p.Unit.Skips = append(p.Unit.Skips, testfile.Skip{Always: true, Reason: "it returns before it checks anything"})
	}
}

// setupMethods run before the tests of their class, in unittest and pytest.
var setupMethods = lexer.Set("setUp setUpClass asyncSetUp setup_method setup_class")

// function makes a function a unit.
func (f *file) function(i, start int, decorators []int, p testfile.Position) {
	l := f.lines[i]
	name := f.At(start + 1)
	inTests := p.Unit == f.root || strings.HasPrefix(p.Unit.Key, "class ")
	u := f.result.Add(&testfile.Unit{
		Name: name.Text, Key: name.Text, Line: name.Line, Parent: f.root, Empty: f.empty(i),
		Test: inTests && strings.HasPrefix(name.Text, "test") && (p.Unit == f.root || p.Unit.Test || p.Unit.Key != ""),
	})
	if p.Unit != f.root {
		u.Name = p.Unit.Name + "::" + name.Text
		if u.Parent = p.Unit; inTests {
			u.Key, u.Inside = "."+name.Text, p.Unit.Inside
		} else {
			u.Parent, u.Inside = nil, p.Unit
		}
	}
	u.Name = testfile.ShortName(u.Name)
	if p.Conditions > 0 && p.Unit == f.root {
		u.Skips = append(u.Skips, testfile.Skip{Always: false, Reason: "it is not always defined"})
	}
	if inTests && strings.HasSuffix(p.Unit.Key, "?") {
		u.Test = false // its class contains no tests
	}
	weight := 1
	for _, d := range decorators {
		weight = testfile.Saturate(weight * f.decorate(f.lines[d], u))
	}
	inner := testfile.Position{Unit: u, Weight: weight, TopLevel: true, Nesting: p.Nesting}
	if c := f.colon(l); c+1 < l.to {
		f.expression(lexer.Span{From: c + 1, To: l.to}, &inner)
	}
	f.walk(i+1, l.end, inner)
	if inTests && p.Unit != f.root && setupMethods[name.Text] {
		u.RunsBeforeTests()
	}
	end := f.end(i)
	u.Source, u.Text = f.Source, lexer.Span{From: start + 2, To: end}
	u.Body = f.DigestWithout(u.Text, f.holes[u])
	from := l.from
	if len(decorators) > 0 {
		from = f.lines[decorators[0]].from
		u.Body ^= f.Digest(from, l.from)
	}
	f.holes[p.Unit] = append(f.holes[p.Unit], lexer.Span{From: from, To: f.dedented(end)})
}

// end returns the end of the tokens of a line and of the block below it.
func (f *file) end(i int) int {
	if l := f.lines[i]; l.end > i+1 {
		return f.lines[l.end-1].to
	}
	return f.lines[i].to
}

// dedented returns the position after the tokens that end blocks: they belong to a definition, so that
// without it nothing else has changed.
func (f *file) dedented(i int) int {
	for f.At(i).Kind == lexer.Punct && f.At(i).Text == dedent {
		i++
	}
	return i
}

func (f *file) empty(i int) bool {
	l := f.lines[i]
	if c := f.colon(l); c+1 < l.to && !f.At(c+1).Is("pass") && !f.At(c+1).Is("...") {
		return false
	}
	for _, l := range f.lines[i+1 : l.end] {
		if l.to-l.from != 1 || !f.At(l.from).Is("pass") && !f.At(l.from).Is("...") {
			return false
		}
	}
	return true
}

var testClass = regexp.MustCompile(`^Test|Tests?$|TestCase$`)

func (f *file) class(i, start int, decorators []int, p testfile.Position) {
	l := f.lines[i]
	u := f.result.Add(&testfile.Unit{Name: f.At(start + 1).Text, Line: f.At(start).Line, Parent: f.root, Key: "class " + f.At(start+1).Text})
	tests := testClass.MatchString(u.Name)
	for k := start + 2; k < f.colon(l); k++ {
		tests = tests || strings.Contains(f.At(k).Text, "Test") && f.At(k).Kind == lexer.Word
	}
	if p.Unit != f.root {
		u.Name = p.Unit.Name + "::" + u.Name
		u.Parent = p.Unit
		if u.Inside = p.Unit.Inside; !strings.HasPrefix(p.Unit.Key, "class ") {
			u.Inside = p.Unit
		}
	}
	if !tests {
		u.Key += "?"
	}
	for _, d := range decorators {
		f.decorate(f.lines[d], u)
	}
	f.walk(i+1, l.end, testfile.Position{Unit: u, Weight: 1, Nesting: p.Nesting})
	u.Body = f.DigestWithout(lexer.Span{From: start + 2, To: f.end(i)}, f.holes[u])
	from := l.from
	if len(decorators) > 0 {
		from = f.lines[decorators[0]].from
	}
	f.holes[p.Unit] = append(f.holes[p.Unit], lexer.Span{From: from, To: f.dedented(f.end(i))})
}

// decorate reads @pytest.mark.skip and the like, and returns how many cases a parametrization has.
func (f *file) decorate(l logicalLine, u *testfile.Unit) int {
	if named, ok := f.decorators[f.At(l.from+1).Text]; ok && l.to == l.from+2 {
		l = named
	}
	for k := l.from; k < l.to && !f.At(k).Is("("); k++ {
		name := f.At(k).Text
		switch name {
		case "skip", "expectedFailure", "skipIf", "skipUnless", "skipif", "xfail":
			always := name == "skip" || name == "expectedFailure" || name == "xfail"
			unless := name == "skipUnless"
			if args := f.Split(k + 1); !always && f.At(k+1).Is("(") && len(args) > 0 {
				unless = unless != f.At(args[0].From).Is("not")
				known := testfile.Constant(f.Source, args[0])
				always = known == testfile.True && name != "skipUnless" || known == testfile.False && name == "skipUnless"
			}
			u.Skips = append(u.Skips, testfile.Skip{Always: always, Fails: name == "expectedFailure" || name == "xfail", Reason: "it is marked " + name, Unless: unless})
		case "parametrize":
			if args := f.Split(k + 1); f.At(k+1).Is("(") && len(args) > 1 {
				return f.cases(args[1].From, u)
			}
		}
	}
	return 1
}

// removeShadowed removes shadowed functions: of several functions with one name in the same scope,
// only the last runs.
func (f *file) removeShadowed() {
	last := map[string]*testfile.Unit{}
	for _, u := range f.result.Units {
		if u.Test {
			last[u.Name] = u
		}
	}
	for i, u := range f.result.Units {
		switch {
		case u.Test && last[u.Name] != u:
			u.Test, u.Key = false, ""
		case u.Test && f.dropped[u.Name] > i:
			u.Skips = append(u.Skips, testfile.Skip{Always: true, Reason: "its name is reassigned"})
		}
	}
}

// otherStatements records statements outside functions, without imports and lists.
func (f *file) otherStatements() {
	holes := f.holes[f.root]
	for i := 0; i < len(f.lines); i++ {
		l := f.lines[i]
		for len(holes) > 0 && holes[0].To <= l.from {
			holes = holes[1:]
		}
		inHole := len(holes) > 0 && holes[0].From <= l.from
		list := f.At(l.from+1).Is("=") && f.At(l.from+2).Is("[")
		if !inHole && !list && !f.At(l.from).Is("import") && !f.At(l.from).Is("from") {
			f.result.Statements = append(f.result.Statements, f.Digest(l.from, l.to))
		}
	}
}

// suites reads TestX = make(…, skip=…): a class of tests that a call makes.
func (f *file) suites() {
	for _, l := range f.lines {
		name := f.At(l.from)
		if l.indent > 0 || !strings.HasPrefix(name.Text, "Test") || !f.At(l.from+1).Is("=") || !f.At(l.to-1).Is(")") {
			continue
		}
		open := f.Pairs[l.to-1]
		if open <= l.from+2 {
			continue // not a call
		}
		s := testfile.Suite{Name: name.Text, Line: name.Line}
		for _, a := range f.Split(open) {
			if skipArguments[f.At(a.From).Text] && f.At(a.From+1).Is("=") {
				s.Skips = append(s.Skips, f.alternatives(lexer.Span{From: a.From + 2, To: a.To})...)
			}
		}
		f.result.Suites = append(f.result.Suites, s)
	}
}

// skipArguments are the names of arguments that say which tests not to run.
var skipArguments = lexer.Set("skip skips skipped exclude excluded ignore ignored xfail xfails")

// alternatives returns the digests of the parts of an expression any of which skips a test: a or b,
// [a, b], lambda test: a or b.
func (f *file) alternatives(s lexer.Span) (parts []lexer.Digest) {
	parameter := ""
	if f.At(s.From).Is("lambda") {
		parameter = f.At(s.From + 1).Text
		for s.From < s.To && !f.At(s.From).Is(":") {
			s.From++
		}
		s.From++
	}
	if end := f.Pairs[min(s.From, len(f.Pairs)-1)]; end == s.To-1 && end > s.From {
		s = lexer.Span{From: s.From + 1, To: end}
	}
	add := func(from, to int) {
		if parameter != "" && f.At(to-1).Is(")") && f.At(to-2).Is(parameter) && f.At(to-3).Is("(") {
			to -= 3 // lambda test: a(test) is a
		}
		if from < to {
			parts = append(parts, f.Digest(from, to))
		}
	}
	from := s.From
	for i := s.From; i < s.To; i++ {
		switch {
		case f.Pairs[i] > i:
			i = f.Pairs[i]
		case f.At(i).Is("or") || f.At(i).Is(",") || f.At(i).Is("|"):
			add(from, i)
			from = i + 1
		}
	}
	add(from, s.To)
	return parts
}
