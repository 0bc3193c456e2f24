// Package annotation reads languages in which an annotation or attribute makes a
// function a test, by their tokens.
package annotation

import (
	"regexp"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/pin/lexer"
	"github.com/rocketgpt/orchestrator/internal/pin/testfile"
)

// file is a file that is being read.
type file struct {
	*lexer.Source
	Syntax
	result *testfile.File
	root   *testfile.Unit
}

// Syntax describes the differences between languages.
type Syntax struct {
	// Attribute returns the annotation that begins at a token and the position where it ends, or 0
	// if none begins there.
	Attribute func(src *lexer.Source, i int) (lexer.Span, int)
	// Function reports whether a function's name and parameters begin at a token. May be nil.
	Function func(src *lexer.Source, i int) bool
	// Catches is true if try blocks have handlers.
	Catches bool
	// VoidTests is true if functions whose names begin with test and that return nothing are tests.
	VoidTests bool
}

// Parse reads a file of tests.
func Parse(s *testfile.File, src *lexer.Source, language Syntax) {
	if src.Broken != "" {
		s.Broken = src.Broken
		return
	}
	f := &file{Source: src, Syntax: language, result: s, root: &testfile.Unit{File: s}}
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
		case t.Is("mod") || t.Is("impl") || t.Is("class") || t.Is("object"):
			i = f.group(i, s.To, parent, attributes, nest)
			attributes = nil
		case f.startsFunction(i):
			i = f.define(i, s.To, parent, attributes)
			attributes = nil
		case t.Is("{"):
			i = f.Close(i) + 1
			attributes = nil
		case t.Is(";"):
			attributes = nil
			i++
		default:
			i++
		}
	}
}

// startsFunction reports whether a function's name and parameters begin at a token.
func (f *file) startsFunction(i int) bool {
	if f.At(i).Is("fn") || f.At(i).Is("fun") {
		return f.At(i+1).Kind == lexer.Word || f.At(i+1).Is("`")
	}
	return f.Function != nil && f.Function(f.Source, i)
}

func (f *file) group(i, end int, parent *testfile.Unit, attributes []lexer.Span, nest int) int {
	name := f.At(i + 1)
	open := i + 1
	for open < end && !f.At(open).Is("{") && !f.At(open).Is(";") {
		open++
	}
	u := f.result.Add(&testfile.Unit{Name: name.Text, Line: name.Line, Parent: parent})
	if parent != f.root {
		u.Name = parent.Name + "." + name.Text
	}
	u.Name = testfile.ShortName(u.Name)
	f.annotate(u, attributes)
	if !f.At(open).Is("{") {
		return open + 1
	}
	f.walk(lexer.Span{From: open + 1, To: f.Close(open)}, u, nest+1)
	return f.Close(open) + 1
}

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
			u.Skips = append(u.Skips, testfile.Skip{Always: true, Reason: "it is expected to panic"})
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
		u.Cases = append(u.Cases, f.Digest(a.From, a.To))
	case "ValueSource", "CsvSource":
		for k := a.From; k < a.To; k++ {
			if f.At(k).Is("{") {
				for _, r := range f.Split(k) {
					u.Cases = append(u.Cases, f.Digest(r.From, r.To))
				}
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
			u.Skips = append(u.Skips, testfile.Skip{Always: true, Reason: "it is expected to throw"})
		}
	}
}

// conditionalCompilation reads #[cfg(…)]: any condition except test may exclude the test.
func (f *file) conditionalCompilation(u *testfile.Unit, a lexer.Span) {
	ordinary := true
	for k := a.From + 1; k < a.To; k++ {
		switch f.At(k).Text {
		case "test", "(", ")", "cfg", "all":
		case "ignore":
			u.Skips = append(u.Skips, testfile.Skip{Always: false, Reason: "it is marked as ignored"})
			return
		default:
			ordinary = false
		}
	}
	if f.At(a.From).Is("cfg") && (!ordinary || a.To-a.From <= 3) {
		u.Skips = append(u.Skips, testfile.Skip{Always: false, Reason: "it is not always compiled"})
	}
}

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
	if !f.At(open).Is("{") {
		return max(open, i+1)
	}
	stop := f.Close(open)
	u := f.result.Add(&testfile.Unit{Name: name.Text, Key: name.Text, Line: name.Line, Parent: parent, Empty: stop == open+1})
	if parent != f.root {
		u.Name = parent.Name + "." + name.Text
	}
	u.Test = f.annotate(u, attributes) || f.VoidTests && strings.HasPrefix(name.Text, "test") && f.At(i-1).Is("void")
	f.walkBody(lexer.Span{From: open + 1, To: stop}, testfile.Position{Unit: u, Weight: max(1, len(u.Cases)), TopLevel: true})
	u.Body = f.Digest(i+1, stop)
	for _, a := range attributes {
		u.Body = u.Body*31 + f.Digest(a.From, a.To)
	}
	return stop + 1
}

var (
	assertion       = regexp.MustCompile(`^(debug_|prop_)?assert|^(verify|fail|expectThrows|shouldThrow|panic|check)$|^assert`)
	vagueAssertions = lexer.Set("assertNotNull assertDoesNotThrow isNotNull")
)

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
		case t.Is("return") && p.TopLevel:
			if len(p.Unit.Checks)+len(p.Unit.Calls) == 0 && f.At(i+1).Is(";") && i+2 < s.To {
				p.Unit.Skips = append(p.Unit.Skips, testfile.Skip{Always: true, Reason: "it returns before it checks anything"})
			}
			return
		case t.Is("try") && f.At(i+1).Is("{") && f.Catches:
			i = f.try(i, p)
		case t.Kind == lexer.Word && assertion.MatchString(t.Text):
			f.check(i, p)
		case t.Kind == lexer.Word && f.At(i+1).Is("("):
			if strings.HasPrefix(t.Text, "assume") {
				p.Unit.Skips = append(p.Unit.Skips, testfile.Skip{Always: false, Reason: "it calls " + t.Text})
			}
			if !p.Swallowed {
				p.Unit.Calls = append(p.Unit.Calls, testfile.Call{Key: t.Text, Weight: 1, Conditional: p.Conditions > 0})
			}
		}
	}
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
	if p.Swallowed || !f.At(open).Is("(") && !f.At(open).Is("[") && !f.At(open).Is("{") {
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
			return
		}
	}
	p.Add(testfile.Check{Digest: f.Digest(i, f.Close(open)), Vague: vagueAssertions[name], Conditional: p.Conditions > 0})
}
