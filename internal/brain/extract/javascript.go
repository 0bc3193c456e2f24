package extract

import "strings"

var javascript = &language{
	name: "javascript", extensions: []string{".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".mts", ".cts", ".vue", ".svelte"},
	syntax: syntax{
		lineComments: [2]string{"//"}, blockOpen: "/*", blockClose: "*/",
		double: quoteLine, single: quoteLine, backtick: quoteTemplate, regex: true, newlines: true, dollar: true,
	},
	keywords: words(`break case catch class const continue debugger default delete do else export extends finally
		for function if import in instanceof new return super switch this throw try typeof var void while with
		yield let static async await of get set null undefined true false interface type enum implements private
		public protected readonly abstract declare namespace as from require module exports string number
		boolean any unknown never keyof`),
	define: defineJS, inline: inlineJS, descend: descendJS,
	commas: func(b block) bool { return b.kind == blockObject || b.kind == blockEnum },
}

var modifiersJS = words("export default declare abstract async public private protected static readonly override accessor get set")

// descendJS enters parentheses that may contain functions, but not those of parameters.
func descendJS(s *scan, from, paren int) bool {
	i := s.skipModifiersJS(from)
	if s.isAny(i, "function", "if", "for", "while", "switch", "catch", "with", "import") {
		return false
	}
	if in := s.top().kind; (in == blockType || in == blockObject || in == blockTrait) && paren == s.memberParenJS(i) {
		return false
	}
	return s.hasBlock(paren)
}

// hasBlock says whether there is a brace soon after a parenthesis, within it.
func (s *scan) hasBlock(paren int) bool {
	for i := paren + 1; i < min(s.closing(paren), paren+maxHeader); i++ {
		switch s.kind(i) {
		case '{':
			return true
		case '[':
			i = s.closing(i)
		}
	}
	return false
}

// memberParenJS returns the parenthesis after the name of a member that starts at i, or -1.
func (s *scan) memberParenJS(i int) int {
	if s.kind(i) == '*' || s.kind(i) == '#' {
		i++
	}
	switch s.kind(i) {
	case tokIdent, tokString, tokNumber:
		i++
	case '[':
		i = s.closing(i) + 1
	}
	if s.kind(i) == '?' || s.kind(i) == '!' {
		i++
	}
	if i = s.angles(i, len(s.tokens)); s.kind(i) == '(' {
		return i
	}
	return -1
}

func (s *scan) skipModifiersJS(i int) int {
	for s.kind(i) == '@' { // decorators
		i += 2
		for s.kind(i) == '.' {
			i += 2
		}
		if s.kind(i) == '(' {
			i = s.closing(i) + 1
		}
		for s.kind(i) == tokNewline {
			i++
		}
	}
	for s.kind(i) == tokIdent && modifiersJS[s.text(i)] {
		switch s.kind(i + 1) {
		case '(', ':', '=', ',', ';', '<', '?', 0:
			return i // a member of that name
		}
		i++
	}
	return i
}

// inlineJS recognises braces of patterns, types and small objects.
func inlineJS(s *scan, from, brace int) bool {
	i := s.skipModifiersJS(from)
	prev := brace - 1
	for s.kind(prev) == tokNewline {
		prev--
	}
	if prev < from {
		return false
	}
	switch {
	case s.is(i, "import"), s.is(i, "export") && prev == i:
		return true
	case prev == i && s.isAny(i, "const", "let", "var"), s.is(i, "type"):
		return true
	case s.kind(prev) == '$', s.kind(prev) == ':' && s.top().kind == blockType:
		return true // a type
	case s.kind(prev) == '|' || s.kind(prev) == '&' || s.kind(prev) == '<':
		return true
	case s.kind(prev) == ':' && s.kind(prev-1) == ')':
		return true // a result's type
	}
	return false
}

func defineJS(s *scan, st statement) block {
	i := s.skipModifiersJS(st.from)
	exported := s.exportedJS(st.from, i)
	switch s.top().kind {
	case blockType, blockTrait:
		return s.memberJS(st, i)
	case blockEnum:
		return block{}
	case blockObject:
		return s.propertyJS(st, i)
	case blockOther, blockFunction, blockModule, blockGroup:
	}
	switch word := s.text(i); word {
	case "import":
		s.importJS(st, i)
		return block{}
	case "function":
		return s.functionJS(st, i, exported)
	case "class":
		return s.typeJS(st, i, KindClass, blockType, exported)
	case "interface":
		return s.typeJS(st, i, KindInterface, blockTrait, exported)
	case "enum":
		return s.typeJS(st, i, KindEnum, blockEnum, exported)
	case "namespace", "module":
		if s.kind(i+1) == tokIdent || s.kind(i+1) == tokString {
			return s.typeJS(st, i, KindModule, blockModule, exported)
		}
	case "type":
		if s.name(i+1) && (s.kind(i+2) == '=' || s.kind(i+2) == '<') {
			s.add(i+1, KindType, st, exported)
			return block{}
		}
	case "const", "let", "var":
		if s.is(i+1, "enum") {
			return s.typeJS(st, i+1, KindEnum, blockEnum, exported)
		}
		return s.variableJS(st, i, exported)
	}
	return s.expressionJS(st, i, exported)
}

// exportedJS says whether one of the modifiers in front of a declaration makes it visible. Files
// without modules are visible as a whole, which the caller decides.
func (s *scan) exportedJS(from, to int) bool {
	for i := from; i < to; i++ {
		if s.is(i, "export") {
			return true
		}
	}
	return false
}

func (s *scan) typeJS(st statement, i int, kind Kind, in blockKind, exported bool) block {
	name := ""
	if k := s.kind(i + 1); k == tokIdent && !s.isAny(i+1, "extends", "implements") || k == tokString {
		name = strings.Trim(s.text(i+1), "\"'`")
		s.addNamed(name, i+1, kind, s.top().name, st, exported)
	}
	return block{kind: in, name: name, enter: st.end == '{'}
}

func (s *scan) functionJS(st statement, i int, exported bool) block {
	at := i + 1
	if s.kind(at) == '*' {
		at++
	}
	name := ""
	if s.kind(at) == tokIdent {
		name = s.text(at)
		s.add(at, KindFunction, st, exported)
	}
	return block{kind: blockFunction, name: name, enter: st.end == '{'}
}

// valueJS returns what the value that starts at token i is: a function, a class, an object or nothing
// known.
func (s *scan) valueJS(i, to int, end byte) (kind Kind, in blockKind) {
	if s.is(i, "async") {
		i++
	}
	switch {
	case s.is(i, "function"):
		return KindFunction, blockFunction
	case s.is(i, "class"):
		return KindClass, blockType
	case i == to && end == '{':
		return KindVariable, blockObject
	case s.arrowJS(i, to):
		return KindFunction, blockFunction
	}
	return KindVariable, blockOther
}

// arrowJS says whether an arrow function starts at token i.
func (s *scan) arrowJS(i, to int) bool {
	i = s.angles(i, to)
	switch s.kind(i) {
	case '(':
		i = s.closing(i) + 1
		if s.kind(i) == ':' { // the result's type
			for i < to && s.kind(i) != '=' {
				if k := s.kind(i); k == '(' || k == '{' || k == '[' {
					i = s.closing(i)
				}
				i++
			}
		}
	case tokIdent:
		i++
	default:
		return false
	}
	return s.kind(i) == '=' && s.kind(i+1) == '>' && i+1 < to
}

func (s *scan) variableJS(st statement, i int, exported bool) block {
	at := i + 1
	if s.kind(at) != tokIdent { // a pattern
		if from := s.findWord("require", at, st.to); from >= 0 && s.kind(from+2) == tokString {
			s.addImport(s.text(from + 2))
		}
		return s.expressionJS(statement{at, st.to, st.end}, at, false)
	}
	equals := s.find('=', at+1, st.to)
	kind, in := KindVariable, blockOther
	if equals >= 0 {
		kind, in = s.valueJS(equals+1, st.to, st.end)
		if s.is(equals+1, "require") && s.kind(equals+3) == tokString {
			s.addImport(s.text(equals + 3))
		}
	}
	if kind == KindVariable && s.text(i) == "const" {
		kind = KindConstant
	}
	nested := s.top().kind == blockFunction || s.top().kind == blockOther && len(s.blocks) > 0
	if !nested || kind == KindFunction || kind == KindClass {
		s.add(at, kind, st, exported)
	}
	return block{kind: in, name: s.text(at), enter: st.end == '{'}
}

func (s *scan) importJS(st statement, i int) {
	for j := st.to - 1; j > i; j-- {
		if s.kind(j) == tokString && (s.is(j-1, "from") || j == i+1 || s.kind(j-1) == '(') {
			s.addImport(s.text(j))
			return
		}
	}
}

// expressionJS reads assignments such as exports.name = function, and exports of other modules.
func (s *scan) expressionJS(st statement, i int, exported bool) block { //nolint:revive // a case for each form of syntax
	if exported && s.kind(st.to-1) == tokString && s.is(st.to-2, "from") {
		s.addImport(s.text(st.to - 1))
		return block{}
	}
	if s.is(i, "require") && s.kind(i+2) == tokString {
		s.addImport(s.text(i + 2))
	}
	equals := -1
	if s.kind(i) == tokIdent {
		equals = i + 1
		for s.kind(equals) == '.' && s.kind(equals+1) == tokIdent {
			equals += 2
		}
	}
	if equals > 0 && s.kind(equals) == '=' && s.kind(equals+1) != '=' && equals < st.to {
		kind, in := s.valueJS(equals+1, st.to, st.end)
		name := s.text(equals - 1)
		if equals == i+1 && kind == KindVariable || s.lang.keywords[name] && name != "get" && name != "set" && name != "delete" {
			return block{kind: in, enter: st.end == '{'}
		}
		public := s.isAny(i, "exports", "module") || s.kind(equals-2) == '.'
		if kind == KindFunction || kind == KindClass || s.is(i, "exports") {
			parent := ""
			if owner := s.text(equals - 3); s.kind(equals-2) == '.' && owner != "exports" && owner != "this" {
				if parent = owner; owner == "prototype" {
					parent = s.text(equals - 5)
				}
			}
			s.addNamed(name, equals-1, functionIn(kind, parent), parent, st, public)
		}
		return block{kind: in, name: name, enter: st.end == '{'}
	}
	if st.end != '{' {
		return block{}
	}
	last := st.to - 1
	if in := s.top(); s.kind(last) == '(' || s.kind(last) == ',' || s.kind(last) == '[' || s.is(last, "return") || s.is(last, "default") || s.kind(last) == '=' {
		return block{kind: blockObject, name: in.name, enter: true}
	}
	return block{kind: blockFunction, name: s.top().name, enter: true}
}

func functionIn(kind Kind, parent string) Kind {
	if kind == KindFunction && parent != "" {
		return KindMethod
	}
	return kind
}

// memberJS reads a member of a class or interface.
func (s *scan) memberJS(st statement, i int) block {
	at := i
	if s.kind(at) == '*' || s.kind(at) == '#' {
		at++
	}
	if s.kind(at) != tokIdent {
		return block{kind: blockFunction, enter: st.end == '{'}
	}
	private := s.kind(at-1) == '#'
	for j := st.from; j < i; j++ {
		private = private || s.isAny(j, "private", "protected")
	}
	if paren := s.memberParenJS(at); paren >= 0 && paren < st.to {
		s.add(at, KindMethod, st, !private)
		return block{kind: blockFunction, name: s.text(at), enter: st.end == '{'}
	}
	if equals := s.find('=', at+1, st.to); equals >= 0 {
		kind, value := s.valueJS(equals+1, st.to, st.end)
		if kind == KindFunction {
			s.add(at, KindMethod, st, !private)
		}
		return block{kind: value, enter: st.end == '{'}
	}
	return block{kind: blockOther, enter: false}
}

// propertyJS reads a property of an object.
func (s *scan) propertyJS(st statement, i int) block {
	at := i
	if s.kind(at) == '*' {
		at++
	}
	if k := s.kind(at); k != tokIdent && k != tokString {
		return block{kind: blockObject, enter: st.end == '{'}
	}
	name := strings.Trim(s.text(at), "\"'`")
	if paren := s.memberParenJS(at); paren >= 0 && paren < st.to && st.end == '{' && s.closing(paren)+1 >= st.to-10 && s.kind(at) == tokIdent && !s.lang.keywords[name] {
		s.addNamed(name, at, KindMethod, s.top().name, st, true)
		return block{kind: blockFunction, name: name, enter: true}
	}
	if s.kind(at+1) != ':' {
		return block{kind: blockObject, enter: st.end == '{'}
	}
	kind, in := s.valueJS(at+2, st.to, st.end)
	if kind == KindFunction && name != "" {
		s.addNamed(name, at, KindMethod, s.top().name, st, true)
	}
	return block{kind: in, name: name, enter: st.end == '{'}
}
