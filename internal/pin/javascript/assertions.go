package javascript

import (
	"regexp"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/pin/lexer"
	"github.com/rocketgpt/orchestrator/internal/pin/testfile"
)

// method reads names after a dot: this.skip(), request.expect(200).
func (f *file) method(i int, p *testfile.Position) bool {
	if !f.At(i-1).Is(".") || !f.At(i+1).Is("(") {
		return false
	}
	name := f.At(i).Text
	if name == "then" {
		p.Unit.Awaits++
	}
	switch object := f.At(i - 2); {
	case name == "skip" && (object.Is("this") || object.Is("t") || object.Is("ctx") || object.Is("context") || object.Is("task")):
		always := p.Conditions == 0
		p.Unit.Skips = append(p.Unit.Skips, testfile.Skip{Always: always, Reason: "it calls skip"})
		return always
	case name == "expect", object.Is("t") && tapAssertions[name]:
		if (name == "ok" || name == "true" || name == "truthy") && f.trivialArgs("ok", f.Split(i+1)) {
			p.Unit.Hollow++
			return false
		}
		p.Add(testfile.Check{Digest: f.Digest(i, f.Close(i+1)), Text: lexer.Span{From: i, To: f.Close(i + 1)}, Vague: noError[name], Conditional: p.Conditions > 0, NoError: noError[name]})
		f.expectedError(i, *p)
	case helperName.MatchString(name):
		p.Unit.Calls = append(p.Unit.Calls, testfile.Call{Key: "." + name, Weight: p.Weight, Conditional: p.Conditions > 0, Assumed: 1})
	}
	return false
}

var (
	tapAssertions = lexer.Set(`is not deepEqual notDeepEqual like throws throwsAsync notThrows true false truthy falsy regex snapshot equal
		same ok match notOk strictEqual notEqual fail rejects resolves has matchSnapshot equals isEqual notEquals
		deepEquals deepLooseEqual looseEqual notDeepLooseEqual error ifError ifErr iferror doesNotThrow notSame strictSame
		strictNotSame strictDeepEqual type`)
	noError       = lexer.Set("error ifError ifErr iferror")
	errorName     = regexp.MustCompile(`^(?i)_?err(or)?$`)
	helperName    = regexp.MustCompile(`^(expect|assert|verify|should|check)[A-Z_]`)
	vagueMatchers = lexer.Set("toBeDefined toBeTruthy exist toBeNaN ok toBeInstanceOf isOk exists isDefined isNotNull toHaveBeenCalled called")
	vagueNegated  = lexer.Set("toBeNull toBeUndefined toThrow toThrowError toBe toEqual null undefined throw equal")
)

// expectedError counts what throws(f, {code: …}) demands of the error as a check of its own, as it is
// in the longer form that takes the error and compares its code.
func (f *file) expectedError(i int, p testfile.Position) {
	switch f.At(i).Text {
	case "throws", "throwsAsync", "rejects":
		if args := f.Split(i + 1); len(args) > 1 && (f.At(args[1].From).Kind != lexer.Text || strings.HasPrefix(f.At(args[1].From).Text, "/")) {
			p.Add(testfile.Check{Digest: f.Digest(args[1].From, args[1].To), Conditional: p.Conditions > 0})
		}
	}
}

// expression reads a word at which a check or a call may begin.
func (f *file) expression(i int, p *testfile.Position) int {
	t := f.At(i)
	switch {
	case t.Is("expect"):
		return f.expect(i, *p)
	case t.Is("assert"):
		return f.assert(i, *p)
	case t.Is("should") && !f.At(i-1).Is(".") && f.At(i+1).Is("."):
		return f.assert(i, *p)
	case t.Is("should") && f.At(i-1).Is("."):
		p.Add(testfile.Check{Digest: f.Digest(i-2, f.chain(i+1)), Text: lexer.Span{From: i - 2, To: f.chain(i + 1)}, Conditional: p.Conditions > 0})
	case t.Is("await"):
		p.Unit.Awaits++
	case t.Is("fail") && f.At(i+1).Is("("):
		p.Add(testfile.Check{Digest: p.Guard ^ 1, Conditional: p.Conditions > 1})
	case t.Is("pending") && f.At(i+1).Is("("):
		p.Unit.Skips = append(p.Unit.Skips, testfile.Skip{Always: p.Conditions == 0, Reason: "it calls pending"})
	case f.At(i+1).Is("<") && helperName.MatchString(t.Text): // expectType<string>(x)
		end := f.statement(i, len(f.Tokens))
		p.Add(testfile.Check{Digest: f.Digest(i, end), Text: lexer.Span{From: i, To: end}, Conditional: p.Conditions > 0})
	case f.At(i+1).Is("(") || f.At(i-1).Is("(") || f.At(i-1).Is(","):
		fallback := 0
		if f.At(i+1).Is("(") && helperName.MatchString(t.Text) {
			fallback = 1
		}
		p.Unit.Calls = append(p.Unit.Calls, testfile.Call{Key: t.Text, Weight: p.Weight, Conditional: p.Conditions > 0, Assumed: fallback})
	}
	return i + 1
}

// chain returns the end of a chain of members and calls.
func (f *file) chain(i int) int {
	for {
		switch {
		case (f.At(i).Is(".") || f.At(i).Is("?.")) && f.At(i+1).Kind == lexer.Word:
			i += 2
		case f.At(i).Is("(") || f.At(i).Is("["):
			i = f.Close(i) + 1
		default:
			return min(i, len(f.Tokens))
		}
	}
}

// expect reads expect(x).not.toBe(y).
func (f *file) expect(i int, p testfile.Position) int {
	j := i + 1
	if f.At(j).Is(".") && (f.At(j+1).Is("soft") || f.At(j+1).Is("poll")) {
		j += 2
	}
	if !f.At(j).Is("(") {
		return i + 1
	}
	subject := lexer.Span{From: j + 1, To: f.Close(j)}
	end := f.chain(f.Close(j) + 1)
	matcher, negated, args := "", false, lexer.Span{}
	for k := f.Close(j) + 1; k < end; k++ {
		switch {
		case f.At(k).Is("("):
			args = lexer.Span{From: k + 1, To: f.Close(k)}
			k = f.Close(k)
		case f.At(k).Kind == lexer.Word:
			negated = negated || f.At(k).Is("not")
			matcher = f.At(k).Text
		}
	}
	if matcher == "" || f.trivial(subject, args) {
		p.Unit.Hollow++
		return end
	}
	vague := vagueMatchers[matcher] && !negated || negated && vagueNegated[matcher] || f.At(args.From).Is("expect") && f.At(args.From+2).Is("anything")
	p.Add(testfile.Check{Digest: f.Digest(i, end), Text: lexer.Span{From: i, To: end}, Vague: vague, Conditional: p.Conditions > 0})
	return end
}

// trivial reports whether a value is compared with itself, or a constant with a constant.
func (f *file) trivial(a, b lexer.Span) bool {
	constant := a.To-a.From == 1 && f.At(a.From).Literal()
	if b.To <= b.From {
		return constant
	}
	return constant && b.To-b.From == 1 && f.At(b.From).Literal() || f.Digest(a.From, a.To) == f.Digest(b.From, b.To) && !f.At(a.To-1).Is(")")
}

// assert reads assert(x), assert.equal(x, y) and should.not.exist(x).
func (f *file) assert(i int, p testfile.Position) int {
	j := i + 1
	name, negated := "", false
	for f.At(j).Is(".") && f.At(j+1).Kind == lexer.Word {
		name = f.At(j + 1).Text
		negated = negated || name == "not"
		j += 2
	}
	if !f.At(j).Is("(") {
		return i + 1
	}
	args := f.Split(j)
	end := f.Close(j) + 1
	switch {
	case name == "fail":
		p.Add(testfile.Check{Digest: p.Guard ^ 1, Conditional: p.Conditions > 1})
	case len(args) == 0 || f.trivialArgs(name, args):
		p.Unit.Hollow++
	default:
		succeeds := noError[name] || negated && name == "exist" && errorName.MatchString(f.At(args[0].From).Text)
		p.Add(testfile.Check{Digest: f.Digest(i, end), Text: lexer.Span{From: i, To: end}, Vague: vagueMatchers[name] || succeeds, Conditional: p.Conditions > 0, NoError: succeeds})
		f.expectedError(j-1, p)
	}
	return end
}

func (f *file) trivialArgs(name string, args []lexer.Span) bool {
	if len(args) == 0 {
		return false
	}
	if name == "" || name == "ok" || len(args) == 1 || name == "isTrue" {
		return testfile.Constant(f.Source, args[0]) != testfile.Unknown || args[0].To-args[0].From == 1 && f.At(args[0].From).Literal()
	}
	return f.trivial(args[0], args[1])
}
