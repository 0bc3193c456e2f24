package javascript

import (
	"strings"

	"github.com/rocketgpt/orchestrator/internal/pin/lexer"
	"github.com/rocketgpt/orchestrator/internal/pin/testfile"
)

var (
	testNames  = lexer.Set("it test specify xit xtest fit xspecify ftest")
	groupNames = lexer.Set("describe suite context xdescribe fdescribe xcontext fcontext")
)

// testCall reads test("…", () => …), including everything allowed between the name and the bracket.
func (f *file) testCall(i int, p testfile.Position) int {
	name := f.At(i).Text
	if !testNames[name] && !groupNames[name] || f.At(i-1).Is("function") {
		return 0
	}
	if f.At(i-1).Is(".") && !f.At(i-2).Is("t") && !f.At(i-2).Is("Deno") && !f.At(i-2).Is("tap") && !f.At(i-2).Is("bun") {
		return 0
	}
	c := testHead{name: name, group: groupNames[name], weight: p.Weight}
	j := f.modifiers(i+1, &c)
	if !f.At(j).Is("(") {
		return 0
	}
	stop := f.Close(j)
	args := f.Split(j)
	if !f.isTest(args, &c) {
		return f.skipCall(i, stop, args, &c, p)
	}
	f.makeTest(lexer.Span{From: i, To: stop + 1}, args, c, p)
	return stop + 1
}

// testHead is the head of a test.
type testHead struct {
	name   string
	group  bool
	only   bool
	skips  []testfile.Skip
	rows   []lexer.Digest
	title  string
	weight int
	last   string // the last modifier
}

// modifiers reads .skip, .only, .each([…]) and the like.
func (f *file) modifiers(j int, c *testHead) int {
	switch c.name {
	case "xit", "xtest", "xdescribe", "xspecify", "xcontext":
		c.skips = append(c.skips, testfile.Skip{Always: true, Reason: "it is marked " + c.name})
	case "fit", "fdescribe", "ftest", "fcontext":
		c.only = true
	}
	for f.At(j).Is(".") && f.At(j+1).Kind == lexer.Word {
		c.last = f.At(j + 1).Text
		j += 2
		switch c.last {
		case "skip", "todo", "fixme", "fail", "fails", "failing":
			c.skips = append(c.skips, testfile.Skip{Always: true, Fails: strings.HasPrefix(c.last, "fail"), Reason: "it is marked " + c.last})
		case "only":
			c.only = true
		case "describe":
			c.group = true
		case "skipIf", "runIf":
			if f.At(j).Is("(") {
				c.skips = append(c.skips, testfile.Skip{Always: false, Reason: "it is marked " + c.last})
				j = f.Close(j) + 1
			}
		case "each", "for":
			j = f.each(j, c)
		}
	}
	return j
}

func (f *file) each(j int, c *testHead) int {
	u := &testfile.Unit{}
	switch {
	case f.At(j).Is("("):
		c.weight = testfile.Saturate(c.weight * f.cases(j+1, u))
		c.rows = u.Cases
		return f.Close(j) + 1
	case f.At(j).Kind == lexer.Text: // a table in a template
		for line := range strings.Lines(f.At(j).Text) {
			if strings.Contains(line, "$") {
				c.rows = append(c.rows, lexer.TextDigest(strings.Join(strings.Fields(line), " ")))
			}
		}
		c.weight = testfile.Saturate(c.weight * max(1, len(c.rows)))
		return j + 1
	}
	return j
}

// isTest distinguishes calls that define a test from other calls of the same name: they have a
// title and a function, or are marked as todo.
func (f *file) isTest(args []lexer.Span, c *testHead) bool {
	if len(args) == 0 {
		return false
	}
	first := f.At(args[0].From)
	if first.Kind == lexer.Text {
		c.title = first.Text
		return len(args) > 1 || len(c.skips) > 0
	}
	if len(args) == 1 { // describe(() => …), Deno.test(function name() {…})
		if !c.group && c.last != "" {
			return false
		}
		c.title = "(anonymous)"
		return f.isFunction(args[0].From)
	}
	if c.last == "skip" || c.last == "fixme" || c.last == "fail" || c.last == "use" || c.last == "step" {
		return false
	}
	var title strings.Builder
	for i := args[0].From; i < min(args[0].To, args[0].From+12); i++ {
		title.WriteString(f.At(i).Text)
	}
	c.title = title.String()
	return f.isFunction(args[len(args)-1].From) || f.isFunction(args[1].From)
}

func (f *file) isFunction(i int) bool {
	if f.At(i).Is("async") {
		i++
	}
	return f.At(i).Is("function") || f.isArrow(i)
}

// skipCall reads test.skip(), test.skip(condition, "why") and the like, which belong to
// the enclosing test or group.
func (f *file) skipCall(i, stop int, args []lexer.Span, c *testHead, p testfile.Position) int {
	switch c.last {
	case "skip", "fixme", "fail":
		always := len(args) == 0 && p.Conditions == 0 || len(args) > 0 && testfile.Constant(f.Source, args[0]) == testfile.True
		if len(args) > 0 && testfile.Constant(f.Source, args[0]) == testfile.False {
			return stop + 1
		}
		p.Unit.Skips = append(p.Unit.Skips, testfile.Skip{Always: always, Reason: "it calls " + f.At(i).Text + "." + c.last})
		return stop + 1
	}
	return 0
}

// maxConditions is how many conditions around a test are counted.
const maxConditions = 8

func (f *file) makeTest(whole lexer.Span, args []lexer.Span, c testHead, p testfile.Position) {
	at := f.At(whole.From)
	u := f.result.Add(&testfile.Unit{
		Name: c.title, Test: !c.group, Line: at.Line, Parent: p.Unit, Skips: c.skips, Cases: c.rows,
	})
	if p.Unit.Name != "" {
		u.Name = p.Unit.Name + " > " + c.title
	}
	u.Name = testfile.ShortName(u.Name)
	for range min(p.Conditions, maxConditions) {
		u.Skips = append(u.Skips, testfile.Skip{Always: false, Reason: "it does not always run"})
	}
	if c.group {
		u.Key = "group " + u.Name
	}
	if c.only {
		f.result.Only = append(f.result.Only, u)
	}
	u.Empty = true
	for _, a := range args[min(1, len(args)-1):] {
		if f.At(a.From).Is("{") {
			f.options(a.From, u)
			continue
		}
		if !f.isFunction(a.From) {
			if f.At(a.From).Kind == lexer.Word && !f.At(a.From).Literal() {
				u.Calls = append(u.Calls, testfile.Call{Key: f.At(a.From).Text, Weight: c.weight})
				u.Empty = false
			}
			if u.Source == nil { // without a function, its text is its arguments
				u.Source, u.Text = f.Source, lexer.Span{From: a.From, To: whole.To - 1}
				u.Body = f.Digest(u.Text.From, u.Text.To)
			}
			continue
		}
		body, _ := f.callback(a.From, a.To)
		u.Empty = u.Empty && f.empty(body)
		f.walk(body, testfile.Position{Unit: u, Weight: max(1, c.weight), TopLevel: true, Nesting: p.Nesting})
		u.Source, u.Text = f.Source, a
		u.Body = f.DigestWithout(a, f.holes[u])
	}
	f.holes[p.Unit] = append(f.holes[p.Unit], whole)
}

// options reads {skip: true, only: true}, and {skip}, where a variable decides.
func (f *file) options(open int, u *testfile.Unit) {
	for _, a := range f.Split(open) {
		key, value := f.At(a.From), f.At(a.From+2)
		variable := a.To == a.From+1 && !key.Is("only")
		if !variable && (!f.At(a.From+1).Is(":") || value.Is("false")) {
			continue
		}
		switch key.Text {
		case "skip", "todo", "ignore":
			u.Skips = append(u.Skips, testfile.Skip{Always: !variable && value.Literal(), Reason: "it is marked " + key.Text})
		case "only":
			f.result.Only = append(f.result.Only, u)
		}
	}
}
