package extract

var kotlin = &language{
	name: "kotlin", extensions: []string{".kt", ".kts"},
	syntax: syntax{
		lineComments: [2]string{"//"}, blockOpen: "/*", blockClose: "*/", nested: true,
		double: quoteLine, single: quoteChar, backtick: quoteNone, triple: true, newlines: true,
	},
	keywords: words(`as break class continue do else false for fun if in interface is null object package return super this
		throw true try typealias typeof val var when while by catch constructor finally get import init set where
		abstract actual annotation companion const crossinline data enum expect external final infix inline inner
		internal lateinit noinline open operator out override private protected public reified sealed suspend
		tailrec vararg it field value`),
	define: defineKotlin,
	inline: func(s *scan, from, brace int) bool { return s.find('=', from, brace) >= 0 },
}

var modifiersKotlin = words(`abstract actual annotation companion const crossinline data enum expect external final infix inline
	inner internal lateinit noinline open operator override private protected public reified sealed suspend tailrec value fun`)

func defineKotlin(s *scan, st statement) block {
	i, public, wasEnum := st.from, true, false
	for ; i < st.to; i++ {
		if i = s.annotationsKotlin(i, st.to); i >= st.to || s.kind(i) != tokIdent || !modifiersKotlin[s.text(i)] || s.is(i, "fun") && !s.is(i+1, "interface") {
			break
		}
		public = public && !s.isAny(i, "private", "internal")
		wasEnum = wasEnum || s.is(i, "enum")
		if s.is(i, "companion") && s.is(i+1, "object") && s.kind(i+2) != tokIdent {
			return block{kind: blockType, enter: st.end == '{'}
		}
	}
	switch s.text(i) {
	case "package":
		s.pkg = s.joined(i+1, st.to)
	case "import":
		to := st.to
		if as := s.findWord("as", i, to); as > 0 {
			to = as
		}
		s.addImport(s.joined(i+1, to))
	case "class":
		kind := KindClass
		if wasEnum {
			kind = KindEnum
		}
		return s.typeJava(st, i, kind, blockType, public)
	case "object":
		return s.typeJava(st, i, KindClass, blockType, public)
	case "interface":
		return s.typeJava(st, i, KindInterface, blockTrait, public)
	case "typealias":
		if s.name(i + 1) {
			s.add(i+1, KindType, st, public)
		}
	case "fun":
		s.functionKotlin(st, i, public)
	case "val", "var":
		s.propertyKotlin(st, i, public)
	}
	return block{}
}

// annotationsKotlin returns the place after annotations and ends of lines.
func (s *scan) annotationsKotlin(i, to int) int {
	for i < to && (s.kind(i) == '@' || s.kind(i) == tokNewline) {
		if s.kind(i) == tokNewline {
			i++
			continue
		}
		if i += 2; s.kind(i) == ':' { // @file:Name
			i += 2
		}
		for s.kind(i) == '.' {
			i += 2
		}
		if s.kind(i) == '(' {
			i = s.closing(i) + 1
		}
	}
	return i
}

func (s *scan) functionKotlin(st statement, i int, public bool) {
	at := s.angles(i+1, st.to)
	paren := s.find('(', at, st.to)
	if paren <= at {
		return
	}
	name := paren - 1
	if s.kind(name) == '`' {
		for name > at && s.kind(name-1) != '`' {
			name--
		}
	}
	if s.kind(name) != tokIdent {
		return
	}
	kind := KindFunction
	if s.top().name != "" {
		kind = KindMethod
	}
	s.add(name, kind, st, public)
}

func (s *scan) propertyKotlin(st statement, i int, public bool) {
	at := s.angles(i+1, st.to)
	for s.kind(at) == tokIdent && s.kind(at+1) == '.' { // an extension
		at += 2
	}
	if !s.name(at) && !s.isAny(at, "value", "field", "data") {
		return
	}
	kind := KindVariable
	if s.findWord("const", st.from, i) >= 0 {
		kind = KindConstant
	} else if s.top().name != "" {
		kind = KindField
	}
	s.add(at, kind, st, public)
}
