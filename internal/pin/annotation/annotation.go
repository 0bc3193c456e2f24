// Package annotation reads languages in which an annotation or attribute makes a
// function a test, by their tokens.
package annotation

import (
	"regexp"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/pin/lexer"
	"github.com/rocketgpt/orchestrator/internal/pin/testfile"
)

// file is a file that is being read.
type file struct {
	*lexer.Source
	Syntax
	result  *testfile.File
	root    *testfile.Unit
	extends map[*testfile.Unit]bool // groups that are classes with a superclass
	inTests map[*testfile.Unit]bool // groups that are compiled only for tests
	// properties is the end of a macro call in which all functions are tests.
	properties int
}

// Syntax describes the differences between languages.
type Syntax struct {
	// Attribute returns the annotation that begins at a token and the position where it ends, or 0
	// if none begins there.
	Attribute func(src *lexer.Source, i int) (lexer.Span, int)
	// Function reports whether a function's name and parameters begin at a token. May be nil.
	Function func(src *lexer.Source, i int) bool
	// BesideCode is true if tests and code are in the same files: only what is marked with cfg(test)
	// is called by tests.
	BesideCode bool
	// MacroTests is true if macros outside functions define tests: name!(test, …).
	MacroTests bool
	// Catches is true if try blocks have handlers.
	Catches bool
	// VoidTests is true if methods whose names begin with test and that return nothing are tests
	// in classes that extend another one.
	VoidTests bool
}

// Parse reads a file of tests.
func Parse(s *testfile.File, src *lexer.Source, language Syntax) {
	if src.Broken != "" {
		s.Broken = src.Broken
		return
	}
	f := &file{Source: src, Syntax: language, result: s, root: &testfile.Unit{File: s}, extends: map[*testfile.Unit]bool{}, inTests: map[*testfile.Unit]bool{}}
	f.inTests[f.root] = !language.BesideCode
	f.walk(lexer.Span{From: 0, To: len(f.Tokens)}, f.root, 0)
}

// walk looks for functions and groups.
func (f *file) walk(s lexer.Span, parent *testfile.Unit, nest int) {
	if nest > lexer.MaxNesting {
		return
	}
	var attributes []lexer.Span
	for i := s.From; i < s.To; {
		t := f.At(i)
		if a, end := f.Attribute(f.Source, i); end > 0 {
			attributes = append(attributes, a)
			i = end
			continue
		}
		switch {
		case f.startsGroup(i):
			i = f.group(i, s.To, parent, attributes, nest)
			attributes = nil
		case f.startsFunction(i):
			i = f.define(i, s.To, parent, attributes)
			attributes = nil
		case f.MacroTests && f.inTests[parent] && f.wrapsTests(i):
			if t.Is("quickcheck") {
				f.properties = f.Close(i + 2)
			}
			i += 3
			attributes = nil
		case f.MacroTests && f.inTests[parent] && f.definesTest(i):
			i = f.macro(i, parent, attributes)
			attributes = nil
		case t.Is("{"):
			i = f.Close(i) + 1
			attributes = nil
		case t.Is(";") || t.Is("val") || t.Is("var"): // a field in Java, a property in Kotlin
			attributes = nil
			i++
		default:
			i++
		}
	}
}

// startsGroup reports whether a class or module begins at a token, unlike in this::class.
func (f *file) startsGroup(i int) bool {
	t := f.At(i)
	return (t.Is("mod") || t.Is("impl") || t.Is("class") || t.Is("object")) && !f.At(i-1).Is(":") && !f.At(i-1).Is("::") && !f.At(i-1).Is(".")
}

// startsFunction reports whether a function's name and parameters begin at a token.
func (f *file) startsFunction(i int) bool {
	if f.At(i).Is("fn") || f.At(i).Is("fun") {
		return f.At(i+1).Kind == lexer.Word
	}
	return f.Function != nil && f.Function(f.Source, i)
}

// onlyForTests reports whether attributes contain cfg(test).
func (f *file) onlyForTests(attributes []lexer.Span) bool {
	for _, a := range attributes {
		for k := a.From; k < a.To; k++ {
			if f.At(a.From).Is("cfg") && f.At(k).Is("test") && !f.At(k-2).Is("not") {
				return true
			}
		}
	}
	return false
}

// definesTest reports whether a macro call whose first argument is a name begins at a token.
func (f *file) definesTest(i int) bool {
	if f.At(i).Kind != lexer.Word || !f.At(i+1).Is("!") || !f.At(i+2).Is("(") && !f.At(i+2).Is("{") {
		return false
	}
	args := f.Split(i + 2)
	return len(args) > 1 && args[0].To-args[0].From == 1 && f.At(args[0].From).Kind == lexer.Word
}

// wrapsTests reports whether a call of a macro whose argument is functions begins at a token: they check
// a property with random values.
func (f *file) wrapsTests(i int) bool {
	return (f.At(i).Is("quickcheck") || f.At(i).Is("proptest")) && f.At(i+1).Is("!") && f.At(i+2).Is("{")
}

// macro reads a test that is defined by a macro.
func (f *file) macro(i int, parent *testfile.Unit, attributes []lexer.Span) int {
	name, stop := f.At(i+3), f.Close(i+2)
	u := f.result.Add(&testfile.Unit{Name: name.Text, Line: name.Line, Parent: parent, Test: true})
	if parent != f.root {
		u.Name = testfile.ShortName(parent.Name + "." + name.Text)
	}
	f.annotate(u, attributes)
	p := testfile.Position{Unit: u, Weight: 1, TopLevel: true}
	f.walkBody(lexer.Span{From: i + 4, To: stop}, p)
	if len(u.Checks) == 0 {
		p.Add(testfile.Check{Digest: f.Digest(i, i+1)}) // the macro checks its arguments
	}
	u.Source, u.Text = f.Source, lexer.Span{From: i + 4, To: stop}
	u.Body = f.Digest(i+4, stop)
	for _, a := range attributes {
		u.Body = u.Body*31 + f.Digest(a.From, a.To)
	}
	return stop + 1
}

func (f *file) group(i, end int, parent *testfile.Unit, attributes []lexer.Span, nest int) int {
	name := f.At(i + 1)
	open, extends := i+1, false
	for open < end && !f.At(open).Is("{") && !f.At(open).Is(";") && !f.startsDeclaration(open) {
		extends = extends || f.At(open).Is("extends") || f.At(open).Is(":")
		if f.At(open).Is("(") {
			open = f.Close(open)
		}
		open++
	}
	u := f.result.Add(&testfile.Unit{Name: name.Text, Line: name.Line, Parent: parent})
	f.extends[u] = extends
	f.inTests[u] = f.inTests[parent] || f.onlyForTests(attributes)
	if parent != f.root {
		u.Name = parent.Name + "." + name.Text
	}
	u.Name = testfile.ShortName(u.Name)
	f.annotate(u, attributes)
	if f.startsDeclaration(open) || f.At(open).Is("}") {
		return open
	}
	if !f.At(open).Is("{") {
		return open + 1
	}
	f.walk(lexer.Span{From: open + 1, To: f.Close(open)}, u, nest+1)
	return f.Close(open) + 1
}

// startsDeclaration reports whether a declaration begins with a line: a Kotlin class without a body has
// no end of its own.
func (f *file) startsDeclaration(i int) bool {
	t := f.At(i)
	return t.StartsLine && (t.Is("@") || t.Is("}") || declarations[t.Text])
}

var declarations = lexer.Set("fun val var class object interface private internal public protected override data sealed abstract open enum companion inline suspend")

// annotate reads #[ignore], #[cfg(…)], @Disabled and the like.
func (f *file) annotate(u *testfile.Unit, attributes []lexer.Span) (test bool) {
	for _, a := range attributes {
		name := f.At(a.From).Text
		for k := a.From; k < a.To && !f.At(k).Is("(") && !f.At(k).Is("="); k++ {
			if f.At(k).Kind == lexer.Word {
				name = f.At(k).Text
			}
		}
		switch {
		case name == "test" || name == "rstest" || name == "test_case" || name == "quickcheck":
			test = true
		case name == "Test" || name == "ParameterizedTest" || name == "RepeatedTest" || name == "TestFactory" || name == "TestTemplate" || name == "Property":
			test = true
			f.arguments(u, a)
		case name == "ignore" || name == "Disabled" || name == "Ignore":
			u.Skips = append(u.Skips, testfile.Skip{Always: true, Reason: "it is marked " + name})
		case strings.HasPrefix(name, "DisabledOn") || strings.HasPrefix(name, "EnabledOn") || strings.HasPrefix(name, "DisabledIf") || strings.HasPrefix(name, "EnabledIf"):
			u.Skips = append(u.Skips, testfile.Skip{Always: false, Reason: "it is marked " + name})
		case name == "should_panic":
			u.Skips = append(u.Skips, testfile.Skip{Always: true, Fails: true, Reason: "it is expected to panic"})
		case name == "cfg" || name == "cfg_attr":
			f.conditionalCompilation(u, a)
		}
		f.cases(u, a, name)
	}
	return test
}

// cases records the cases of a parametrized test.
func (f *file) cases(u *testfile.Unit, a lexer.Span, name string) {
	switch name {
	case "case", "test_case":
		f.result.AddCases(u, f.Source, []lexer.Span{a})
	case "ValueSource", "CsvSource":
		for k := a.From; k < a.To; k++ {
			if f.At(k).Is("{") {
				f.result.ListCases(u, f.Source, k)
				return
			}
		}
	}
}

// arguments reads @Test(enabled = false).
func (f *file) arguments(u *testfile.Unit, a lexer.Span) {
	for k := a.From; k < a.To; k++ {
		if f.At(k).Is("enabled") && f.At(k+2).Is("false") {
			u.Skips = append(u.Skips, testfile.Skip{Always: true, Reason: "it is disabled"})
		}
		if f.At(k).Is("expected") || f.At(k).Is("expectedExceptions") {
			u.Skips = append(u.Skips, testfile.Skip{Always: true, Fails: true, Reason: "it is expected to throw"})
		}
	}
}

// conditionalCompilation reads #[cfg(…)]: any condition that does not always hold on an ordinary
// machine may exclude the test.
func (f *file) conditionalCompilation(u *testfile.Unit, a lexer.Span) {
	open := a.From + 1
	for k := open; k < a.To; k++ {
		if f.At(k).Is("ignore") {
			u.Skips = append(u.Skips, testfile.Skip{Always: false, Reason: "it is marked as ignored"})
			return
		}
	}
	if args := f.Split(open); f.At(a.From).Is("cfg") && (len(args) != 1 || f.holds(args[0], 0) != testfile.True) {
		u.Skips = append(u.Skips, testfile.Skip{Always: false, Reason: "it is not always compiled"})
	}
}

// holds evaluates a condition of cfg for tests on Linux.
func (f *file) holds(s lexer.Span, depth int) testfile.Truth {
	name := f.At(s.From).Text
	if depth > testfile.MaxDepth {
		return testfile.Unknown
	}
	if !f.At(s.From + 1).Is("(") {
		return conditionHolds(name, strings.Trim(f.At(s.From+2).Text, `"`))
	}
	args := f.Split(s.From + 1)
	switch {
	case name == "not" && len(args) == 1:
		switch f.holds(args[0], depth+1) {
		case testfile.True:
			return testfile.False
		case testfile.False:
			return testfile.True
		case testfile.Unknown:
		}
		return testfile.Unknown
	case name != "all" && name != "any":
		return testfile.Unknown
	}
	all, some := testfile.True, testfile.False
	for _, arg := range args {
		switch f.holds(arg, depth+1) {
		case testfile.True:
			some = testfile.True
		case testfile.False:
			all = testfile.False
		case testfile.Unknown:
			if all == testfile.True {
				all = testfile.Unknown
			}
			if some == testfile.False {
				some = testfile.Unknown
			}
		}
	}
	if name == "all" {
		return all
	}
	return some
}

// conditionHolds returns what is known about a condition of cfg, such as target_os = "linux".
func conditionHolds(name, value string) testfile.Truth {
	switch name {
	case "test", "unix", "debug_assertions":
		return testfile.True
	case "windows", "miri":
		return testfile.False
	case "target_os":
		return testfile.TruthOf(value == "linux")
	case "target_family":
		return testfile.TruthOf(value == "unix")
	case "target_pointer_width":
		return testfile.TruthOf(value == "64")
	case "target_endian":
		return testfile.TruthOf(value == "little")
	}
	return testfile.Unknown
}

// isSetup reports whether an annotation makes a method run before the tests of its class: those of
// JUnit, TestNG and kotlin.test.
func (f *file) isSetup(a lexer.Span) bool {
	return setupAnnotations[f.At(a.From).Text]
}

var setupAnnotations = lexer.Set("Before BeforeEach BeforeAll BeforeClass BeforeMethod BeforeTest BeforeSuite")

func (f *file) define(i, end int, parent *testfile.Unit, attributes []lexer.Span) int {
	name := f.At(i)
	if name.Is("fn") || name.Is("fun") {
		i++
		name = f.At(i)
	}
	open := i + 1
	for open < end && !f.At(open).Is("{") && !f.At(open).Is(";") && !f.At(open).Is("=") {
		if f.At(open).Is("(") {
			open = f.Close(open)
		}
		open++
	}
	stop := f.Close(open)
	switch {
	case f.At(open).Is("{"):
	case f.At(open).Is("=") && f.At(i-1).Is("fun"):
		stop = f.expression(open+1, end)
	default:
		return max(open, i+1)
	}
	u := f.result.Add(&testfile.Unit{Name: name.Text, Key: name.Text, Line: name.Line, Parent: parent, Empty: stop == open+1})
	if parent != f.root {
		u.Name = parent.Name + "." + name.Text
	}
	if !f.inTests[parent] && !f.onlyForTests(attributes) {
		u.Key = "" // the code under test may have the same names
	}
	u.Test = f.annotate(u, attributes) || i < f.properties || f.VoidTests && f.extends[parent] && strings.HasPrefix(name.Text, "test") && f.At(i-1).Is("void")
	if u.Test {
		u.Key = "" // nothing calls it
	}
	p := testfile.Position{Unit: u, Weight: max(1, len(u.Cases)), TopLevel: true}
	if u.Test && f.At(open-1).Is("bool") {
		p.Add(testfile.Check{Digest: f.Digest(open-1, open)}) // its result is the check
	}
	f.walkBody(lexer.Span{From: open + 1, To: stop}, p)
	if parent != f.root && !u.Test && (f.VoidTests && u.Name == parent.Name+".setUp" || slices.ContainsFunc(attributes, f.isSetup)) {
		u.RunsBeforeTests()
	}
	u.Source, u.Text = f.Source, lexer.Span{From: i + 1, To: stop}
	u.Code = f.Digest(i+1, stop)
	u.Body = u.Code
	for _, a := range attributes {
		u.Body = u.Body*31 + f.Digest(a.From, a.To)
	}
	if !f.At(open).Is("{") {
		return stop
	}
	return stop + 1
}

// expression returns the end of the expression that is a Kotlin function: the next declaration, or the
// end of the class.
func (f *file) expression(i, end int) int {
	for k := i; k < end; k++ {
		if k > i && f.startsDeclaration(k) || f.At(k).Is("}") {
			return k
		}
		if f.Pairs[k] > k {
			k = f.Pairs[k]
		}
	}
	return end
}

var (
	assertion       = regexp.MustCompile(`^(debug_|prop_)?assert|^(verify|fail|expectThrows|shouldThrow|panic|check)$|^assert`)
	vagueAssertions = lexer.Set("assertNotNull assertDoesNotThrow isNotNull")
)

// leaves reads a return at the top level of a function, and reports whether it always ends the
// function: in Kotlin, "value ?: return" does so only if the value is null.
func (f *file) leaves(i, end int, u *testfile.Unit) bool {
	if f.At(i-1).Is(":") && f.At(i-2).Is("?") {
		if len(u.Checks) == 0 {
			u.EarlyReturns++
		}
		return false
	}
	if len(u.Checks)+len(u.Calls) == 0 && f.At(i+1).Is(";") && i+2 < end {
		u.Skips = append(u.Skips, testfile.Skip{Always: true, Reason: "it returns before it checks anything"})
	}
	return true
}

// walkBody walks the body of a function.
func (f *file) walkBody(s lexer.Span, p testfile.Position) {
	for i := s.From; i < s.To; i++ {
		t := f.At(i)
		switch {
		case t.Is("if") || t.Is("while"):
			to, dead := f.branch(i, s.To, &p)
			if dead {
				return
			}
			i = max(to-1, i)
		case t.Is("for"):
			i = f.loop(i, s.To, p)
		case t.Is("return") && p.TopLevel:
			if f.leaves(i, s.To, p.Unit) {
				return
			}
		case t.Is("try") && f.At(i+1).Is("{") && f.Catches:
			i = f.try(i, p)
		case t.Kind == lexer.Word && assertion.MatchString(t.Text):
			f.check(i, p)
		case t.Kind == lexer.Word && f.At(i+1).Is("("):
			if strings.HasPrefix(t.Text, "assume") {
				p.Unit.Skips = append(p.Unit.Skips, testfile.Skip{Always: false, Reason: "it calls " + t.Text})
			}
			if f.callsOwn(i) && !p.Swallowed {
				p.Unit.Calls = append(p.Unit.Calls, testfile.Call{Key: t.Text, Weight: 1, Conditional: p.Conditions > 0})
			}
		}
	}
}

// callsOwn reports whether a call may be one of a function of the tests. A method of the code under
// test may have the same name.
func (f *file) callsOwn(i int) bool {
	switch before := f.At(i - 1); {
	case before.Is("."), before.Is("::"):
		return f.At(i-2).Is("this") || f.At(i-2).Is("super") || f.At(i-2).Is("self") || f.At(i-2).Is("Self") || f.At(i-2).Is("crate")
	case before.Is(":"):
		return !f.At(i-2).Is(":") || f.At(i-3).Is("super") || f.At(i-3).Is("self") || f.At(i-3).Is("Self") || f.At(i-3).Is("crate")
	}
	return true
}

func (f *file) branch(i, end int, p *testfile.Position) (int, bool) {
	open := i + 1
	for open < min(end, i+lexer.MaxStatement) && !f.At(open).Is("{") && !f.At(open).Is(";") {
		if f.Pairs[open] > open {
			open = f.Pairs[open]
		}
		open++
	}
	if !f.At(open).Is("{") {
		return i + 1, false
	}
	condition := lexer.Span{From: i + 1, To: open}
	if f.At(i+1).Is("(") && f.Pairs[i+1] == open-1 {
		condition = lexer.Span{From: i + 2, To: open - 1}
	}
	known := testfile.Constant(f.Source, condition)
	if p.Nesting++; p.Nesting > lexer.MaxNesting {
		return f.Close(open) + 1, false
	}
	then := *p
	then.TopLevel = false
	if known != testfile.True {
		then.Conditions++
		then.Guard = f.Digest(i, f.Close(open))
	}
	checks := len(p.Unit.Checks)
	if known != testfile.False {
		f.walkBody(lexer.Span{From: open + 1, To: f.Close(open)}, then)
	}
	leaves := f.At(open + 1).Is("return")
	if leaves && p.TopLevel && checks == 0 && known == testfile.Unknown {
		p.Unit.EarlyReturns++
	}
	if leaves && known == testfile.True && p.TopLevel {
		p.Unit.Skips = append(p.Unit.Skips, testfile.Skip{Always: true, Reason: "it returns before it checks anything"})
	}
	return f.Close(open) + 1, leaves && known == testfile.True
}

// loop reads a loop, and returns its last token.
func (f *file) loop(i, end int, p testfile.Position) int {
	open := i + 1
	for open < min(end, i+lexer.MaxStatement) && !f.At(open).Is("{") && !f.At(open).Is(";") {
		if f.Pairs[open] > open {
			open = f.Pairs[open]
		}
		open++
	}
	if p.Nesting++; !f.At(open).Is("{") || p.Nesting > lexer.MaxNesting {
		return i
	}
	p.TopLevel = false
	before := p.Unit.Extent()
	f.walkBody(lexer.Span{From: open + 1, To: f.Close(open)}, p)
	p.Unit.AddLoop(f.Source, lexer.Span{From: i, To: open}, before)
	return f.Close(open)
}

// try reads a try block: if the handler catches everything, its checks cannot fail.
func (f *file) try(i int, p testfile.Position) int {
	stop := f.Close(i + 1)
	if p.Nesting++; p.Nesting > lexer.MaxNesting {
		return stop
	}
	if f.At(stop+1).Is("catch") && f.At(stop+2).Is("(") {
		handler := f.Close(stop+2) + 1
		errors := false
		for k := stop + 2; k < min(handler, stop+16); k++ {
			switch f.At(k).Text {
			case "Throwable", "AssertionError", "Error", "AssertionFailedError":
				errors = true
			}
		}
		p.Swallowed = p.Swallowed || errors && !testfile.ReportsFailure(f.Source, lexer.Span{From: handler, To: f.Close(handler)})
	}
	p.TopLevel = false
	f.walkBody(lexer.Span{From: i + 2, To: stop}, p)
	return stop
}

func (f *file) check(i int, p testfile.Position) {
	open := i + 1
	if f.At(open).Is("!") {
		open++
	}
	if !f.At(open).Is("(") && !f.At(open).Is("[") && !f.At(open).Is("{") {
		return
	}
	name := f.At(i).Text
	args := f.Split(open)
	if name == "panic" || name == "fail" {
		p.Add(testfile.Check{Digest: p.Guard ^ 1, Conditional: p.Conditions > 1})
		return
	}
	if len(args) > 0 {
		single := args[0].To-args[0].From == 1 && f.At(args[0].From).Literal()
		two := len(args) > 1 && f.Digest(args[0].From, args[0].To) == f.Digest(args[1].From, args[1].To)
		truths := name == "assert" || name == "assertTrue" || name == "assertFalse" || name == "assertNull" || name == "assertNotNull"
		if truths && (single || testfile.Constant(f.Source, args[0]) != testfile.Unknown) || two && strings.Contains(strings.ToLower(name), "eq") {
			p.Unit.Hollow++
			return
		}
	}
	p.Add(testfile.Check{Digest: f.Digest(i, f.Close(open)), Text: lexer.Span{From: i, To: f.Close(open)}, Vague: vagueAssertions[name], Conditional: p.Conditions > 0})
}
