package python

import (
	"regexp"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/pin/lexer"
	"github.com/rocketgpt/orchestrator/internal/pin/testfile"
)

var (
	helperName = regexp.MustCompile(`^_?(assert|check|verify|expect|validate)_`)
	skipCalls  = lexer.Set("skip skipTest xfail importorskip")
)

// expression searches the tokens of a statement for checks, and reports whether control flow ends
// there.
func (f *file) expression(s lexer.Span, p *testfile.Position) bool {
	if f.At(s.From).Is("assert") {
		f.assertion(s, *p)
	}
	f.marks(s, p)
	dead := false
	for i := s.From; i < s.To; i++ {
		t := f.At(i)
		called := f.At(i + 1).Is("(")
		if t.Kind != lexer.Word || !called && !f.At(i-1).Is("(") && !f.At(i-1).Is(",") {
			continue
		}
		member := f.At(i - 1).Is(".")
		switch {
		case called && skipCalls[t.Text] && (member || t.Is("skip")):
			p.Unit.Skips = append(p.Unit.Skips, testfile.Skip{Always: p.Conditions == 0 && t.Text != "importorskip", Reason: "it calls " + t.Text})
			dead = dead || p.Conditions == 0 && t.Text != "importorskip"
		case called && member && (strings.HasPrefix(t.Text, "assert") || t.Is("raises") || t.Is("warns") || t.Is("fail")):
			f.assertionCall(i, *p)
		default:
			f.call(i, *p)
		}
	}
	return dead
}

// call records that a function is called or passed on.
func (f *file) call(i int, p testfile.Position) {
	name := f.At(i).Text
	helper, receiver := helperName.MatchString(name), f.At(i-2)
	c := testfile.Call{Key: name, Weight: p.Weight, Conditional: p.Conditions > 0}
	if f.At(i - 1).Is(".") {
		c.Key = "." + name
		if !helper && !receiver.Is("self") && !receiver.Is("cls") && !receiver.Is(")") {
			return // a method of the code under test may have the name of a helper
		}
	}
	if helper && f.At(i+1).Is("(") {
		c.Assumed = 1
	}
	if !p.Swallowed {
		p.Unit.Calls = append(p.Unit.Calls, c)
	}
}

// marks reads pytestmark = …, __test__ = False, test_x = None, del test_x.
func (f *file) marks(s lexer.Span, p *testfile.Position) {
	first, second := f.At(s.From), f.At(s.From+1)
	switch {
	case first.Is("pytestmark") && second.Is("="):
		for k := s.From; k < s.To; k++ {
			if t := f.At(k).Text; t == "skip" || t == "skipif" || t == "xfail" {
				p.Unit.Skips = append(p.Unit.Skips, testfile.Skip{Always: t != "skipif", Fails: t == "xfail", Reason: "pytestmark says " + t})
			}
		}
	case first.Is("__test__") && second.Is("=") && f.At(s.From+2).Is("False"):
		p.Unit.Skips = append(p.Unit.Skips, testfile.Skip{Always: true, Reason: "__test__ is False"})
	case p.Unit.Key == "" || strings.HasPrefix(p.Unit.Key, "class "):
		name := first.Text
		if first.Is("del") {
			name = second.Text
		} else if !second.Is("=") {
			return
		}
		if strings.HasPrefix(name, "test") {
			f.drop(p.Unit, name)
		}
	}
}

// drop records that a test's name has another meaning from here on.
func (f *file) drop(parent *testfile.Unit, name string) {
	if parent != f.root {
		name = parent.Name + "::" + name
	}
	f.dropped[name] = len(f.result.Units)
}

// assertion reads assert x, "why".
func (f *file) assertion(s lexer.Span, p testfile.Position) {
	whole := lexer.Span{From: s.From + 1, To: s.To}
	for k := whole.From; k < whole.To; k++ {
		if f.Pairs[k] > k {
			k = f.Pairs[k]
		} else if f.At(k).Is(",") {
			whole.To = k
		}
	}
	if f.At(whole.From).Is("(") && f.Pairs[whole.From] == whole.To-1 {
		if len(f.Split(whole.From)) > 1 {
			p.Unit.Hollow++
			return // a tuple is always true
		}
	}
	size := whole.To - whole.From
	if size == 1 && f.At(whole.From).Literal() || testfile.Constant(f.Source, whole) != testfile.Unknown {
		p.Unit.Hollow++
		return
	}
	vague := size == 1 || size >= 4 && f.At(whole.To-1).Is("None") && f.At(whole.To-2).Is("not") || f.At(whole.From).Is("isinstance")
	p.Add(testfile.Check{Digest: f.Digest(whole.From, whole.To), Text: whole, Vague: vague, Conditional: p.Conditions > 0})
}

var (
	vagueAssertions = lexer.Set("assertIsNotNone assertTrue assertIsInstance assertNotEqual assert_called")
	raises          = lexer.Set("raises assertRaises")
)

// assertionCall reads self.assertEqual(x, y), pytest.raises(E), mock.assert_called().
func (f *file) assertionCall(i int, p testfile.Position) {
	name := f.At(i).Text
	args := f.Split(i + 1)
	if f.trivial(name, args) {
		p.Unit.Hollow++
		return
	}
	text := f.Digest(i, f.Close(i+1))
	if name == "fail" {
		p.Add(testfile.Check{Digest: p.Guard ^ text, Conditional: p.Conditions > 1})
		return
	}
	named, anyText := namesError(f, name, args)
	p.Add(testfile.Check{
		Digest: text, Text: lexer.Span{From: i, To: f.Close(i + 1)}, Vague: vagueAssertions[name] || anyText, Conditional: p.Conditions > 0,
		Fails: raises[name] && !named, FailsAs: named,
	})
}

// trivial reports whether an assertion of unittest compares a value with itself or checks a constant.
func (f *file) trivial(name string, args []lexer.Span) bool {
	if !strings.HasPrefix(name, "assert") || len(args) == 0 || strings.HasPrefix(name, "assert_") {
		return false
	}
	constant := args[0].To-args[0].From == 1 && f.At(args[0].From).Literal()
	switch {
	case len(args) == 1:
		return constant || testfile.Constant(f.Source, args[0]) != testfile.Unknown
	case strings.Contains(name, "Equal") && f.Digest(args[0].From, args[0].To) == f.Digest(args[1].From, args[1].To):
		return true
	}
	return constant && (strings.HasSuffix(name, "True") || strings.HasSuffix(name, "False") || strings.HasSuffix(name, "None"))
}

// namesError recognizes raises(E, match="text") and assertRaisesRegex(E, "text"), and those that
// accept any text.
func namesError(f *file, name string, args []lexer.Span) (named, anyText bool) {
	if strings.HasPrefix(name, "assertRaisesRegex") {
		return len(args) > 1, false
	}
	if raises[name] {
		for _, a := range args {
			if a.To-a.From > 2 && f.At(a.From).Is("match") && f.At(a.From+1).Is("=") {
				empty := len(f.At(a.From+2).Text) <= len(`""`)
				return !empty, empty
			}
		}
	}
	return false, false
}
