package pin

import (
	"regexp"
	"strings"
)

// attributed is a file of a language in which an annotation makes a function a test.
type attributed struct {
	*source
	annotated
	suite *suite
	root  *unit
}

// annotated says how such a language differs from the others.
type annotated struct {
	// attribute finds the annotation that begins at a token, and where it ends; the
	// second is 0 where none begins.
	attribute func(src *source, i int) (span, int)
	// function reports whether a function's name and parameters begin at a token. May be nil.
	function func(src *source, i int) bool
	// catches: try blocks have handlers.
	catches bool
	// voidTests: functions that return nothing and whose names begin with test are tests.
	voidTests bool
}

// parseAnnotated reads a file of tests.
func parseAnnotated(s *suite, src *source, language annotated) {
	if src.broken != "" {
		s.broken = src.broken
		return
	}
	f := &attributed{source: src, annotated: language, suite: s, root: &unit{suite: s}}
	f.walk(span{0, len(f.tokens)}, f.root, 0)
}

// walk looks for functions and groups.
func (f *attributed) walk(s span, parent *unit, nest int) {
	if nest > maxNesting {
		return
	}
	var attributes []span
	for i := s.from; i < s.to; {
		t := f.at(i)
		if a, end := f.attribute(f.source, i); end > 0 {
			attributes = append(attributes, a)
			i = end
			continue
		}
		switch {
		case t.is("mod") || t.is("impl") || t.is("class") || t.is("object"):
			i = f.group(i, s.to, parent, attributes, nest)
			attributes = nil
		case f.heads(i):
			i = f.define(i, s.to, parent, attributes)
			attributes = nil
		case t.is("{"):
			i = f.close(i) + 1
			attributes = nil
		case t.is(";"):
			attributes = nil
			i++
		default:
			i++
		}
	}
}

// heads: a function's name and parameters begin here.
func (f *attributed) heads(i int) bool {
	if f.at(i).is("fn") || f.at(i).is("fun") {
		return f.at(i+1).kind == word || f.at(i+1).is("`")
	}
	return f.function != nil && f.function(f.source, i)
}

func (f *attributed) group(i, end int, parent *unit, attributes []span, nest int) int {
	name := f.at(i + 1)
	open := i + 1
	for open < end && !f.at(open).is("{") && !f.at(open).is(";") {
		open++
	}
	u := f.suite.add(&unit{name: name.text, line: name.line, parent: parent})
	if parent != f.root {
		u.name = parent.name + "." + name.text
	}
	u.name = shortName(u.name)
	f.annotate(u, attributes)
	if !f.at(open).is("{") {
		return open + 1
	}
	f.walk(span{open + 1, f.close(open)}, u, nest+1)
	return f.close(open) + 1
}

// annotate takes #[ignore], #[cfg(…)], @Disabled and the like.
func (f *attributed) annotate(u *unit, attributes []span) (test bool) {
	for _, a := range attributes {
		name := f.at(a.from).text
		for k := a.from; k < a.to && !f.at(k).is("(") && !f.at(k).is("="); k++ {
			if f.at(k).kind == word {
				name = f.at(k).text
			}
		}
		switch {
		case name == "test" || name == "rstest" || name == "test_case" || name == "quickcheck":
			test = true
		case name == "Test" || name == "ParameterizedTest" || name == "RepeatedTest" || name == "TestFactory" || name == "TestTemplate" || name == "Property":
			test = true
			f.arguments(u, a)
		case name == "ignore" || name == "Disabled" || name == "Ignore":
			u.skips = append(u.skips, skip{true, "it is marked " + name})
		case strings.HasPrefix(name, "DisabledOn") || strings.HasPrefix(name, "EnabledOn") || strings.HasPrefix(name, "DisabledIf") || strings.HasPrefix(name, "EnabledIf"):
			u.skips = append(u.skips, skip{false, "it is marked " + name})
		case name == "should_panic":
			u.skips = append(u.skips, skip{true, "it is expected to panic"})
		case name == "cfg" || name == "cfg_attr":
			f.configured(u, a)
		}
		f.cases(u, a, name)
	}
	return test
}

// cases notes the cases of a parametrised test.
func (f *attributed) cases(u *unit, a span, name string) {
	switch name {
	case "case", "test_case":
		u.rows = append(u.rows, f.sum(a.from, a.to))
	case "ValueSource", "CsvSource":
		for k := a.from; k < a.to; k++ {
			if f.at(k).is("{") {
				for _, r := range f.split(k) {
					u.rows = append(u.rows, f.sum(r.from, r.to))
				}
				return
			}
		}
	}
}

// arguments takes @Test(enabled = false).
func (f *attributed) arguments(u *unit, a span) {
	for k := a.from; k < a.to; k++ {
		if f.at(k).is("enabled") && f.at(k+2).is("false") {
			u.skips = append(u.skips, skip{true, "it is not enabled"})
		}
		if f.at(k).is("expected") || f.at(k).is("expectedExceptions") {
			u.skips = append(u.skips, skip{true, "it is expected to throw"})
		}
	}
}

// configured takes #[cfg(test)], which says nothing, and what says more.
func (f *attributed) configured(u *unit, a span) {
	ordinary := true
	for k := a.from + 1; k < a.to; k++ {
		switch f.at(k).text {
		case "test", "(", ")", "cfg", "all":
		case "ignore":
			u.skips = append(u.skips, skip{false, "it is marked ignore"})
			return
		default:
			ordinary = false
		}
	}
	if f.at(a.from).is("cfg") && (!ordinary || a.to-a.from <= 3) {
		u.skips = append(u.skips, skip{false, "it is compiled"})
	}
}

func (f *attributed) define(i, end int, parent *unit, attributes []span) int {
	name := f.at(i)
	if name.is("fn") || name.is("fun") {
		i++
		name = f.at(i)
	}
	open := i + 1
	for open < end && !f.at(open).is("{") && !f.at(open).is(";") && !f.at(open).is("=") {
		if f.at(open).is("(") {
			open = f.close(open)
		}
		open++
	}
	if !f.at(open).is("{") {
		return max(open, i+1)
	}
	stop := f.close(open)
	u := f.suite.add(&unit{name: name.text, key: name.text, line: name.line, parent: parent, blank: stop == open+1})
	if parent != f.root {
		u.name = parent.name + "." + name.text
	}
	u.test = f.annotate(u, attributes) || f.voidTests && strings.HasPrefix(name.text, "test") && f.at(i-1).is("void")
	f.count(span{open + 1, stop}, place{u: u, weight: max(1, len(u.rows)), top: true})
	u.body = f.sum(i+1, stop)
	for _, a := range attributes {
		u.body = u.body*31 + f.sum(a.from, a.to)
	}
	return stop + 1
}

var (
	attributedCheck = regexp.MustCompile(`^(debug_|prop_)?assert|^(verify|fail|expectThrows|shouldThrow|panic|check)$|^assert`)
	attributedVague = set("assertNotNull assertDoesNotThrow isNotNull")
)

// count goes through a body.
func (f *attributed) count(s span, p place) {
	for i := s.from; i < s.to; i++ {
		t := f.at(i)
		switch {
		case t.is("if") || t.is("while"):
			to, dead := f.branch(i, s.to, &p)
			if dead {
				return
			}
			i = max(to-1, i)
		case t.is("return") && p.top:
			if len(p.u.checks)+len(p.u.calls) == 0 && f.at(i+1).is(";") && i+2 < s.to {
				p.u.skips = append(p.u.skips, skip{true, "it returns before it checks anything"})
			}
			return
		case t.is("try") && f.at(i+1).is("{") && f.catches:
			i = f.try(i, p)
		case t.kind == word && attributedCheck.MatchString(t.text):
			f.check(i, p)
		case t.kind == word && f.at(i+1).is("("):
			if strings.HasPrefix(t.text, "assume") {
				p.u.skips = append(p.u.skips, skip{false, "it calls " + t.text})
			}
			if !p.swallow {
				p.u.calls = append(p.u.calls, call{key: t.text, weight: 1, conditional: p.depth > 0})
			}
		}
	}
}

func (f *attributed) branch(i, end int, p *place) (int, bool) {
	open := i + 1
	for open < min(end, i+maxStatement) && !f.at(open).is("{") && !f.at(open).is(";") {
		if f.pair[open] > open {
			open = f.pair[open]
		}
		open++
	}
	if !f.at(open).is("{") {
		return i + 1, false
	}
	condition := span{i + 1, open}
	if f.at(i+1).is("(") && f.pair[i+1] == open-1 {
		condition = span{i + 2, open - 1}
	}
	known := constantCondition(f.source, condition)
	if p.nest++; p.nest > maxNesting {
		return f.close(open) + 1, false
	}
	then := *p
	then.top = false
	if known != yes {
		then.depth++
		then.guard = f.sum(i, f.close(open))
	}
	checks := len(p.u.checks)
	if known != no {
		f.count(span{open + 1, f.close(open)}, then)
	}
	leaves := f.at(open + 1).is("return")
	if leaves && p.top && checks == 0 && known == unknown {
		p.u.early++
	}
	if leaves && known == yes && p.top {
		p.u.skips = append(p.u.skips, skip{true, "it returns before it checks anything"})
	}
	return f.close(open) + 1, leaves && known == yes
}

// try: where the handler lets nothing out, what is checked cannot fail.
func (f *attributed) try(i int, p place) int {
	stop := f.close(i + 1)
	if p.nest++; p.nest > maxNesting {
		return stop
	}
	if f.at(stop+1).is("catch") && f.at(stop+2).is("(") {
		handler := f.close(stop+2) + 1
		errors := false
		for k := stop + 2; k < min(handler, stop+16); k++ {
			switch f.at(k).text {
			case "Throwable", "AssertionError", "Error", "AssertionFailedError":
				errors = true
			}
		}
		p.swallow = p.swallow || errors && !reportsFailure(f.source, span{handler, f.close(handler)})
	}
	p.top = false
	f.count(span{i + 2, stop}, p)
	return stop
}

func (f *attributed) check(i int, p place) {
	open := i + 1
	if f.at(open).is("!") {
		open++
	}
	if p.swallow || !f.at(open).is("(") && !f.at(open).is("[") && !f.at(open).is("{") {
		return
	}
	name := f.at(i).text
	args := f.split(open)
	if name == "panic" || name == "fail" {
		p.add(check{text: p.guard ^ 1, conditional: p.depth > 1})
		return
	}
	if len(args) > 0 {
		single := args[0].to-args[0].from == 1 && f.at(args[0].from).literal()
		two := len(args) > 1 && f.sum(args[0].from, args[0].to) == f.sum(args[1].from, args[1].to)
		truths := name == "assert" || name == "assertTrue" || name == "assertFalse" || name == "assertNull" || name == "assertNotNull"
		if truths && (single || constantCondition(f.source, args[0]) != unknown) || two && strings.Contains(strings.ToLower(name), "eq") {
			return
		}
	}
	p.add(check{text: f.sum(i, f.close(open)), vague: attributedVague[name], conditional: p.depth > 0})
}
