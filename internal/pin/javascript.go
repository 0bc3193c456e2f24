package pin

import (
	"path"
	"regexp"
	"strings"
)

// scriptFile is a JavaScript or TypeScript file that is being understood.
type scriptFile struct {
	*source
	suite  *suite
	root   *unit          // the file, for what is said of all of it
	tables map[string]int // lists that are written out, by name: their bracket
	holes  map[*unit][]span
}

// place is where in a file of tokens the walk is.
type place struct {
	u       *unit
	weight  int
	depth   int    // conditions around it
	guard   digest // the innermost condition
	top     bool   // directly in the body of the unit
	swallow bool   // failures do not get out of here
	nest    int
}

func scanScript(data []byte) *source {
	return scanBraces(data, dialect{templates: true, regexes: true, single: true})
}

func parseJS(s *suite, data []byte) {
	src := scanScript(data)
	markup := strings.HasSuffix(path.Ext(s.path), "x") // text in markup may hold any bracket
	if src.broken != "" && (src.deep || !markup) {
		s.broken = src.broken
		return
	}
	f := &scriptFile{source: src, suite: s, root: &unit{suite: s}, tables: map[string]int{}, holes: map[*unit][]span{}}
	f.findTables()
	f.walk(span{0, len(f.tokens)}, place{u: f.root, weight: 1})
	f.leftover()
}

// findTables notes const name = […].
func (f *scriptFile) findTables() {
	for i, t := range f.tokens {
		if !t.is("=") || !f.at(i+1).is("[") {
			continue
		}
		for j := i - 1; j > max(0, i-16); j-- {
			if p := f.at(j - 1); f.at(j).kind == word && (p.is("const") || p.is("let") || p.is("var")) {
				f.tables[f.at(j).text] = i + 1
				break
			}
		}
	}
}

// walk goes through statements and counts what they check.
func (f *scriptFile) walk(s span, p place) {
	if p.nest++; p.nest > maxNesting {
		return
	}
	s.to = min(s.to, len(f.tokens)) // what markup leaves open ends nowhere
	for i := s.from; i < s.to; {
		next, dead := f.step(i, s.to, &p)
		if dead {
			return
		}
		i = max(next, i+1)
	}
}

// step takes what begins at a token and answers where to go on, and whether
// nothing after it runs.
func (f *scriptFile) step(i, end int, p *place) (int, bool) {
	t := f.at(i)
	switch t.text {
	case "{":
		if t.kind == punct {
			inner := *p
			inner.top = false
			to := f.close(i)
			f.walk(span{i + 1, min(to, end)}, inner)
			return to + 1, false
		}
	case "forEach":
		if to := f.forEach(i, *p); to > i {
			return to, false
		}
	}
	if t.kind != word || f.at(i+1).is(":") || f.at(i-1).is(".") && !dotted[t.text] {
		return i + 1, f.method(i, p)
	}
	switch t.text {
	case "if", "while":
		return f.branch(i, end, p)
	case "for":
		return f.loop(i, end, *p), false
	case "switch", "catch":
		return f.conditional(i, *p), false
	case "try":
		return f.try(i, *p), false
	case "return", "throw":
		return f.leave(i, end, p)
	case "function", "const", "let", "var":
		return f.function(i, end, *p), false
	}
	if to := f.testCall(i, *p); to > i {
		return to, false
	}
	return f.expression(i, p), false
}

// dotted are words that mean something after a dot too.
var dotted = set("test should")

// body is what a condition governs: a block or one statement.
func (f *scriptFile) body(i, end int) (span, int) {
	if f.at(i).is("{") {
		to := min(f.close(i), end)
		return span{i + 1, to}, to + 1
	}
	to := f.statement(i, end)
	return span{i, to}, to
}

// maxStatement is how many tokens of a statement without braces are looked at.
const maxStatement = 400

// statement is where a statement ends that no brace does.
func (f *scriptFile) statement(i, end int) int {
	from := i
	end = min(end, len(f.tokens))
	for ; i < min(end, from+maxStatement); i++ {
		t := f.at(i)
		if t.is(";") {
			return i + 1
		}
		if i > from && t.fresh && !continues(t) && !expects(f.at(i-1)) {
			return i
		}
		if f.pair[i] > i {
			i = min(f.pair[i], end)
		}
	}
	return min(i, end)
}

// continues: a line that begins like this belongs to the one before.
func continues(t token) bool {
	return t.kind == punct && !t.is("{") && !t.is("(") && !t.is("[") && !t.is("!") && !t.is("}") && !t.is("...")
}

// expects: a line that ends like this goes on.
func expects(t token) bool {
	return t.kind == punct && !t.is(")") && !t.is("]") && !t.is("}") && !t.is(";")
}

// branch takes if and while.
func (f *scriptFile) branch(i, end int, p *place) (int, bool) {
	if !f.at(i + 1).is("(") {
		return i + 1, false
	}
	stop := f.close(i + 1)
	known := constantCondition(f.source, span{i + 2, stop})
	body, next := f.body(stop+1, end)
	then := *p
	then.top = false
	if known != yes {
		then.depth++
		then.guard = f.sum(i, body.to)
	}
	checks := len(p.u.checks)
	leaves := f.at(body.from).is("return") || f.at(f.lastStatement(body)).is("return")
	if known != no {
		f.walk(body, then)
	}
	if leaves && known == unknown && p.top && checks == 0 && len(p.u.checks) == 0 {
		p.u.early++
	}
	if f.at(next).is("else") {
		next = f.otherwise(next, end, known, *p)
	}
	if leaves && known == yes && p.top && checks == 0 {
		p.u.skips = append(p.u.skips, skip{true, "it returns before it checks anything"})
	}
	return next, known == yes && leaves
}

// lastStatement is where the last statement of a block seems to begin.
func (f *scriptFile) lastStatement(s span) int {
	for i := s.to - 1; i >= max(s.from, s.to-4); i-- {
		if f.at(i).is("return") {
			return i
		}
	}
	return s.from
}

func (f *scriptFile) otherwise(i, end int, known truth, p place) int {
	if f.at(i + 1).is("if") {
		if known == yes {
			_, next := f.body(f.close(i+2)+1, end)
			return next
		}
		return i + 1
	}
	body, next := f.body(i+1, end)
	if known == yes {
		return next
	}
	p.top = false
	if known == unknown {
		p.depth++
		p.guard = f.sum(i, body.to)
	}
	f.walk(body, p)
	return next
}

// conditional takes switch and catch: what is in their blocks runs sometimes.
func (f *scriptFile) conditional(i int, p place) int {
	j := i + 1
	if f.at(j).is("(") {
		j = f.close(j) + 1
	}
	if !f.at(j).is("{") {
		return i + 1
	}
	p.depth++
	p.top = false
	p.guard = f.sum(i, f.close(j))
	f.walk(span{j + 1, f.close(j)}, p)
	return f.close(j) + 1
}

// try: where the handler lets nothing out, what is checked cannot fail.
func (f *scriptFile) try(i int, p place) int {
	if !f.at(i + 1).is("{") {
		return i + 1
	}
	stop := f.close(i + 1)
	if f.at(stop + 1).is("catch") {
		j := stop + 2
		if f.at(j).is("(") {
			j = f.close(j) + 1
		}
		p.swallow = p.swallow || f.at(j).is("{") && !reportsFailure(f.source, span{j + 1, f.close(j)})
	}
	p.top = false
	f.walk(span{i + 2, stop}, p)
	return stop + 1
}

// reportsFailure reports whether something in a handler lets a failure out.
func reportsFailure(f *source, s span) bool {
	for i := s.from; i < min(s.to, s.from+maxStatement); i++ {
		switch f.at(i).text {
		case "throw", "expect", "assert", "fail", "done", "reject", "should", "exit", "raise", "pytest", "assertThat", "t", "self":
			return true
		}
	}
	return false
}

// loop takes for (const x of list).
func (f *scriptFile) loop(i, end int, p place) int {
	j := i + 1
	if f.at(j).is("await") {
		j++
	}
	if !f.at(j).is("(") {
		return i + 1
	}
	stop := f.close(j)
	for k := j; k < min(stop, j+24); k++ {
		if f.at(k).is("of") {
			p.weight = saturated(p.weight * f.rows(k+1, p.u))
			break
		}
	}
	body, next := f.body(stop+1, end)
	p.top = false
	f.walk(body, p)
	return next
}

// rows notes the cases of a list that begins at a token, or whose name stands
// there, and answers how many: 1 for what is not known.
func (f *scriptFile) rows(i int, u *unit) int {
	if f.at(i).kind == word {
		open, ok := f.tables[f.at(i).text]
		if !ok {
			return 1
		}
		i = open
	}
	if !f.at(i).is("[") {
		return 1
	}
	return f.suite.cases(u, f.source, i)
}

// forEach takes list.forEach(…).
func (f *scriptFile) forEach(i int, p place) int {
	if !f.at(i-1).is(".") || !f.at(i+1).is("(") {
		return 0
	}
	list := i - 2
	if f.at(list).is("]") {
		list = f.pair[list]
	}
	p.weight = saturated(p.weight * f.rows(list, p.u))
	p.top = false
	stop := f.close(i + 1)
	f.walk(span{i + 2, stop}, p)
	return stop + 1
}

// leave takes return and throw.
func (f *scriptFile) leave(i, end int, p *place) (int, bool) {
	stop := f.statement(i, end)
	if f.at(i).is("throw") {
		p.add(check{text: p.guard ^ f.sum(i, stop), conditional: p.depth > 1})
	} else if p.top && len(p.u.checks)+len(p.u.calls) == 0 && stop < end && bare(f, span{i, stop}) {
		p.u.skips = append(p.u.skips, skip{true, "it returns before it checks anything"})
	}
	if f.at(i + 1).fresh { // nothing is returned
		stop = i + 1
	}
	inner := *p
	inner.top = false
	f.walk(span{i + 1, stop}, inner)
	return stop, true
}

// bare: a return of nothing, or of a constant.
func bare(f *scriptFile, s span) bool {
	return s.to-s.from <= 2 || f.at(s.from+1).fresh || f.at(s.from+1).literal() || f.at(s.from+1).is("Promise")
}

// add records a check.
func (p place) add(c check) {
	if p.swallow {
		return
	}
	c.weight = p.weight
	p.u.checks = append(p.u.checks, c)
}

// function makes functions with a name units of their own: what they check
// counts where they are called.
func (f *scriptFile) function(i, end int, p place) int {
	name, from := f.at(i+1), i+2
	if f.at(i).is("function") {
		if !f.at(i + 2).is("(") {
			return i + 1
		}
	} else {
		if !f.at(i + 2).is("=") {
			return i + 1
		}
		from++
		if f.at(from).is("async") {
			from++
		}
		if !f.at(from).is("function") && !f.arrow(from) {
			return i + 1
		}
	}
	body, next := f.callback(from, end)
	if name.kind != word || body.from == 0 {
		return i + 1
	}
	u := f.suite.add(&unit{name: name.text, key: name.text, line: name.line, blank: f.empty(body)})
	f.enter(u, body, p)
	u.body = f.without(span{from, next}, f.holes[u])
	f.holes[p.u] = append(f.holes[p.u], span{i, next})
	return next
}

// arrow: a function without the word for it begins here.
func (f *scriptFile) arrow(i int) bool {
	if f.at(i).is("(") {
		i = f.close(i)
		for j := i + 1; j < i+16; j++ {
			if f.at(j).is("=>") {
				return true
			}
			if f.at(j).is(";") || f.at(j).is("=") || f.at(j).is("(") {
				return false
			}
		}
		return false
	}
	return f.at(i).kind == word && f.at(i+1).is("=>")
}

// callback finds the body of a function that begins at a token, and its end.
func (f *scriptFile) callback(i, end int) (span, int) {
	end = min(end, len(f.tokens))
	for j := i; j < min(end, i+48); j++ {
		switch t := f.at(j); {
		case t.is("=>"):
			if f.at(j + 1).is("{") {
				return span{j + 2, min(f.close(j+1), end)}, min(f.close(j+1), end) + 1
			}
			stop := f.statement(j+1, end)
			return span{j + 1, stop}, stop
		case t.is("{"):
			return span{j + 1, min(f.close(j), end)}, min(f.close(j), end) + 1
		case f.pair[j] > j:
			j = f.pair[j]
		}
	}
	return span{}, end
}

func (f *scriptFile) enter(u *unit, body span, p place) {
	inner := place{u: u, weight: 1, top: true, nest: p.nest}
	f.walk(body, inner)
}

func (f *scriptFile) empty(s span) bool {
	for i := s.from; i < s.to; i++ {
		if !f.at(i).is(";") {
			return false
		}
	}
	return true
}

var (
	scriptTests  = set("it test specify xit xtest fit xspecify ftest")
	scriptGroups = set("describe suite context xdescribe fdescribe xcontext fcontext")
)

// testCall takes test("…", () => …), with all that may stand between the name
// and the bracket.
func (f *scriptFile) testCall(i int, p place) int {
	name := f.at(i).text
	if !scriptTests[name] && !scriptGroups[name] || f.at(i-1).is("function") {
		return 0
	}
	if f.at(i-1).is(".") && !f.at(i-2).is("t") && !f.at(i-2).is("Deno") && !f.at(i-2).is("tap") && !f.at(i-2).is("bun") {
		return 0
	}
	c := scriptCall{name: name, group: scriptGroups[name], weight: p.weight}
	j := f.modifiers(i+1, &c)
	if !f.at(j).is("(") {
		return 0
	}
	stop := f.close(j)
	args := f.split(j)
	if !f.isTest(args, &c) {
		return f.skipCall(i, stop, args, &c, p)
	}
	f.makeTest(span{i, stop + 1}, args, c, p)
	return stop + 1
}

// scriptCall is the head of a test.
type scriptCall struct {
	name   string
	group  bool
	only   bool
	skips  []skip
	rows   []digest
	title  string
	weight int
	last   string // the last modifier
}

// modifiers takes .skip, .only, .each([…]) and the like.
func (f *scriptFile) modifiers(j int, c *scriptCall) int {
	switch c.name {
	case "xit", "xtest", "xdescribe", "xspecify", "xcontext":
		c.skips = append(c.skips, skip{true, "it is marked " + c.name})
	case "fit", "fdescribe", "ftest", "fcontext":
		c.only = true
	}
	for f.at(j).is(".") && f.at(j+1).kind == word {
		c.last = f.at(j + 1).text
		j += 2
		switch c.last {
		case "skip", "todo", "fixme", "fail", "fails", "failing":
			c.skips = append(c.skips, skip{true, "it is marked " + c.last})
		case "only":
			c.only = true
		case "describe":
			c.group = true
		case "skipIf", "runIf":
			if f.at(j).is("(") {
				c.skips = append(c.skips, skip{false, "it is marked " + c.last})
				j = f.close(j) + 1
			}
		case "each", "for":
			j = f.each(j, c)
		}
	}
	return j
}

func (f *scriptFile) each(j int, c *scriptCall) int {
	u := &unit{}
	switch {
	case f.at(j).is("("):
		c.weight = saturated(c.weight * f.rows(j+1, u))
		c.rows = u.rows
		return f.close(j) + 1
	case f.at(j).kind == text: // a table in a template
		for line := range strings.Lines(f.at(j).text) {
			if strings.Contains(line, "$") {
				c.rows = append(c.rows, textDigest(strings.Join(strings.Fields(line), " ")))
			}
		}
		c.weight = saturated(c.weight * max(1, len(c.rows)))
		return j + 1
	}
	return j
}

// isTest tells the call that makes a test from others of the same name: it has
// a title and a function, or says that there will be one.
func (f *scriptFile) isTest(args []span, c *scriptCall) bool {
	if len(args) == 0 {
		return false
	}
	first := f.at(args[0].from)
	if first.kind == text {
		c.title = first.text
		return len(args) > 1 || len(c.skips) > 0
	}
	if len(args) == 1 { // describe(() => …), Deno.test(function name() {…})
		if !c.group && c.last != "" {
			return false
		}
		c.title = "(anonymous)"
		return f.isFunction(args[0].from)
	}
	if c.last == "skip" || c.last == "fixme" || c.last == "fail" || c.last == "use" || c.last == "step" {
		return false
	}
	var title strings.Builder
	for i := args[0].from; i < min(args[0].to, args[0].from+12); i++ {
		title.WriteString(f.at(i).text)
	}
	c.title = title.String()
	return f.isFunction(args[len(args)-1].from) || f.isFunction(args[1].from)
}

func (f *scriptFile) isFunction(i int) bool {
	if f.at(i).is("async") {
		i++
	}
	return f.at(i).is("function") || f.arrow(i)
}

// skipCall takes test.skip(), test.skip(condition, "why") and the like, which
// are said of the test or the group around them.
func (f *scriptFile) skipCall(i, stop int, args []span, c *scriptCall, p place) int {
	switch c.last {
	case "skip", "fixme", "fail":
		always := len(args) == 0 && p.depth == 0 || len(args) > 0 && constantCondition(f.source, args[0]) == yes
		if len(args) > 0 && constantCondition(f.source, args[0]) == no {
			return stop + 1
		}
		p.u.skips = append(p.u.skips, skip{always, "it calls " + f.at(i).text + "." + c.last})
		return stop + 1
	}
	return 0
}

func (f *scriptFile) makeTest(whole span, args []span, c scriptCall, p place) {
	at := f.at(whole.from)
	u := f.suite.add(&unit{
		name: c.title, test: !c.group, line: at.line, parent: p.u, skips: c.skips, rows: c.rows,
	})
	if p.u.name != "" {
		u.name = p.u.name + " > " + c.title
	}
	u.name = shortName(u.name)
	if p.depth > 0 {
		u.skips = append(u.skips, skip{false, "it is run"})
	}
	if c.group {
		u.key = "group " + u.name
	}
	if c.only {
		f.suite.solo = append(f.suite.solo, u)
	}
	u.blank = true
	for _, a := range args[min(1, len(args)-1):] {
		if f.at(a.from).is("{") {
			f.options(a.from, u)
			continue
		}
		if !f.isFunction(a.from) {
			if f.at(a.from).kind == word && !f.at(a.from).literal() {
				u.calls = append(u.calls, call{key: f.at(a.from).text, weight: c.weight})
				u.blank = false
			}
			continue
		}
		body, _ := f.callback(a.from, a.to)
		u.blank = u.blank && f.empty(body)
		f.walk(body, place{u: u, weight: max(1, c.weight), top: true, nest: p.nest})
		u.body = f.without(a, f.holes[u])
	}
	f.holes[p.u] = append(f.holes[p.u], whole)
}

// options takes {skip: true, only: true}.
func (f *scriptFile) options(open int, u *unit) {
	for _, a := range f.split(open) {
		key, value := f.at(a.from), f.at(a.from+2)
		if !f.at(a.from+1).is(":") || value.is("false") {
			continue
		}
		switch key.text {
		case "skip", "todo", "ignore":
			u.skips = append(u.skips, skip{value.literal(), "it is marked " + key.text})
		case "only":
			f.suite.solo = append(f.suite.solo, u)
		}
	}
}

// method takes names after a dot: this.skip(), request.expect(200).
func (f *scriptFile) method(i int, p *place) bool {
	if !f.at(i-1).is(".") || !f.at(i+1).is("(") {
		return false
	}
	name := f.at(i).text
	switch object := f.at(i - 2); {
	case name == "skip" && (object.is("this") || object.is("t") || object.is("ctx") || object.is("context") || object.is("task")):
		always := p.depth == 0
		p.u.skips = append(p.u.skips, skip{always, "it calls skip"})
		return always
	case name == "expect", object.is("t") && scriptTap[name]:
		p.add(check{text: f.sum(i, f.close(i+1)), conditional: p.depth > 0})
	case scriptHelper.MatchString(name):
		p.u.calls = append(p.u.calls, call{key: "." + name, weight: p.weight, conditional: p.depth > 0, fallback: 1})
	}
	return false
}

var (
	scriptTap = set(`is not deepEqual notDeepEqual like throws throwsAsync notThrows true false truthy falsy regex snapshot equal
		same ok match notOk strictEqual notEqual fail pass rejects resolves has matchSnapshot`)
	scriptHelper = regexp.MustCompile(`^(expect|assert|verify|should|check)[A-Z_]`)
	scriptVague  = set("toBeDefined toBeTruthy exist toBeNaN ok toBeInstanceOf isOk exists isDefined isNotNull toHaveBeenCalled called")
	scriptNots   = set("toBeNull toBeUndefined toThrow toThrowError toBe toEqual null undefined throw equal")
)

// expression takes a word at which a check or a call may begin.
func (f *scriptFile) expression(i int, p *place) int {
	t := f.at(i)
	switch {
	case t.is("expect"):
		return f.expect(i, *p)
	case t.is("assert"):
		return f.assert(i, *p)
	case t.is("should") && f.at(i-1).is("."):
		p.add(check{text: f.sum(i-2, f.chain(i+1)), conditional: p.depth > 0})
	case t.is("fail") && f.at(i+1).is("("):
		p.add(check{text: p.guard ^ 1, conditional: p.depth > 1})
	case t.is("pending") && f.at(i+1).is("("):
		p.u.skips = append(p.u.skips, skip{p.depth == 0, "it calls pending"})
	case f.at(i+1).is("(") || f.at(i-1).is("(") || f.at(i-1).is(","):
		fallback := 0
		if f.at(i+1).is("(") && scriptHelper.MatchString(t.text) {
			fallback = 1
		}
		p.u.calls = append(p.u.calls, call{key: t.text, weight: p.weight, conditional: p.depth > 0, fallback: fallback})
	}
	return i + 1
}

// chain is where a chain of members and calls ends.
func (f *scriptFile) chain(i int) int {
	for {
		switch {
		case (f.at(i).is(".") || f.at(i).is("?.")) && f.at(i+1).kind == word:
			i += 2
		case f.at(i).is("(") || f.at(i).is("["):
			i = f.close(i) + 1
		default:
			return min(i, len(f.tokens))
		}
	}
}

// expect takes expect(x).not.toBe(y).
func (f *scriptFile) expect(i int, p place) int {
	j := i + 1
	if f.at(j).is(".") && (f.at(j+1).is("soft") || f.at(j+1).is("poll")) {
		j += 2
	}
	if !f.at(j).is("(") {
		return i + 1
	}
	subject := span{j + 1, f.close(j)}
	end := f.chain(f.close(j) + 1)
	matcher, negated, args := "", false, span{}
	for k := f.close(j) + 1; k < end; k++ {
		switch {
		case f.at(k).is("("):
			args = span{k + 1, f.close(k)}
			k = f.close(k)
		case f.at(k).kind == word:
			negated = negated || f.at(k).is("not")
			matcher = f.at(k).text
		}
	}
	if matcher == "" || f.hollow(subject, args) {
		return end
	}
	vague := scriptVague[matcher] && !negated || negated && scriptNots[matcher] || f.at(args.from).is("expect") && f.at(args.from+2).is("anything")
	p.add(check{text: f.sum(i, end), vague: vague, conditional: p.depth > 0})
	return end
}

// hollow: a thing is compared with itself, or a constant with a constant.
func (f *scriptFile) hollow(a, b span) bool {
	constant := a.to-a.from == 1 && f.at(a.from).literal()
	if b.to <= b.from {
		return constant
	}
	return constant && b.to-b.from == 1 && f.at(b.from).literal() || f.sum(a.from, a.to) == f.sum(b.from, b.to) && !f.at(a.to-1).is(")")
}

// assert takes assert(x) and assert.equal(x, y).
func (f *scriptFile) assert(i int, p place) int {
	j := i + 1
	name := ""
	for f.at(j).is(".") && f.at(j+1).kind == word {
		name = f.at(j + 1).text
		j += 2
	}
	if !f.at(j).is("(") {
		return i + 1
	}
	args := f.split(j)
	end := f.close(j) + 1
	switch {
	case name == "fail":
		p.add(check{text: p.guard ^ 1, conditional: p.depth > 1})
	case len(args) == 0 || f.hollowArgs(name, args):
	default:
		p.add(check{text: f.sum(i, end), vague: scriptVague[name], conditional: p.depth > 0})
	}
	return end
}

func (f *scriptFile) hollowArgs(name string, args []span) bool {
	if name == "" || name == "ok" || len(args) == 1 || name == "isTrue" {
		return constantCondition(f.source, args[0]) != unknown || args[0].to-args[0].from == 1 && f.at(args[0].from).literal()
	}
	return f.hollow(args[0], args[1])
}

// constantCondition evaluates a condition that does not depend on anything.
func constantCondition(f *source, s span) truth {
	negated := false
	for s.from < s.to && (f.at(s.from).is("!") || f.at(s.from).is("not")) {
		negated = !negated
		s.from++
	}
	known := unknown
	switch {
	case s.to-s.from == 1:
		switch t := f.at(s.from); {
		case t.is("true") || t.is("True") || t.kind == number && t.text != "0":
			known = yes
		case t.is("false") || t.is("False") || t.kind == number:
			known = no
		}
	case s.to-s.from > 1 && !negated:
		known = constantOperators(f, s)
	}
	if negated && known != unknown {
		return truthOf(known == no)
	}
	return known
}

// constantOperators looks for x && false, true || x, x === x.
func constantOperators(f *source, s span) truth {
	for i := s.from; i < min(s.to, s.from+maxStatement); i++ {
		t := f.at(i)
		switch {
		case f.pair[i] > i:
			i = f.pair[i]
		case t.is("&&") || t.is("and"):
			if f.at(i+1).is("false") || f.at(i+1).is("False") || f.at(i-1).is("false") || f.at(i-1).is("False") {
				return no
			}
			return unknown
		case t.is("||") || t.is("or"):
			if f.at(i+1).is("true") || f.at(i+1).is("True") || f.at(i-1).is("true") || f.at(i-1).is("True") {
				return yes
			}
			return unknown
		case t.is("===") || t.is("=="):
			if f.sum(s.from, i) == f.sum(i+1, s.to) && !f.at(i-1).is(")") {
				return yes
			}
		case t.is("!==") || t.is("!="):
			if f.sum(s.from, i) == f.sum(i+1, s.to) && !f.at(i-1).is(")") {
				return no
			}
		}
	}
	return unknown
}

// leftover notes the statements outside of tests and functions that tests lean
// on. Imports and tables, whose cases are compared one by one, are left out.
func (f *scriptFile) leftover() {
	holes := f.holes[f.root]
	for i := 0; i < len(f.tokens); {
		for len(holes) > 0 && holes[0].to <= i {
			holes = holes[1:]
		}
		if len(holes) > 0 && holes[0].from <= i {
			i = holes[0].to
			continue
		}
		end := max(f.statement(i, len(f.tokens)), i+1)
		if len(holes) > 0 {
			end = min(end, holes[0].from)
		}
		if !f.ignored(i, end) {
			f.suite.rest = append(f.suite.rest, f.sum(i, end))
		}
		i = end
	}
}

func (f *scriptFile) ignored(i, end int) bool {
	switch f.at(i).text {
	case "import", ";", "export", "async", "}", ")":
		return true
	}
	for k := i; k < min(end, i+16); k++ {
		if f.at(k).is("require") || f.at(k).is("=") && f.at(k+1).is("[") {
			return true
		}
	}
	return false
}
