package extract

var java = &language{
	name: "java", extensions: []string{".java"},
	syntax: syntax{
		lineComments: [2]string{"//"}, blockOpen: "/*", blockClose: "*/",
		double: quoteLine, single: quoteChar, triple: true, dollar: true,
	},
	keywords: words(`abstract assert boolean break byte case catch char class const continue default do double else enum
		extends final finally float for goto if implements import instanceof int interface long native new package
		private protected public return short static strictfp super switch synchronized this throw throws transient
		try void volatile while true false null var yield record sealed permits`),
	define: defineJava, inline: inlineJava,
}

var csharp = &language{
	name: "csharp", extensions: []string{".cs"},
	syntax: syntax{
		lineComments: [2]string{"//"}, blockOpen: "/*", blockClose: "*/",
		double: quoteLine, single: quoteChar, triple: true, verbatim: true, directives: true,
	},
	keywords: words(`abstract as base bool break byte case catch char checked class const continue decimal default delegate
		do double else enum event explicit extern false finally fixed float for foreach goto if implicit in int
		interface internal is lock long namespace new null object operator out override params private protected
		public readonly ref return sbyte sealed short sizeof stackalloc static string struct switch this throw true
		try typeof uint ulong unchecked unsafe ushort using virtual void volatile while var async await partial
		record get set init value where yield dynamic nameof when`),
	define: defineCSharp, inline: inlineJava,
}

var modifiersJava = words(`public private protected internal static final abstract native synchronized transient volatile
	strictfp default sealed partial readonly unsafe virtual override extern async new required file ref non const event`)

// skipModifiersJava skips annotations and modifiers.
func (s *scan) skipModifiersJava(i, to int) int {
	for i < to {
		switch {
		case s.kind(i) == '@' && !s.is(i+1, "interface"):
			i += 2
			for s.kind(i) == '.' {
				i += 2
			}
			if s.kind(i) == '(' {
				i = s.closing(i) + 1
			}
		case s.kind(i) == '[': // attributes in C#
			if s.closing(i) == i {
				return i
			}
			i = s.closing(i) + 1
		case s.kind(i) == tokDirective:
			i++
		case s.kind(i) == tokIdent && modifiersJava[s.text(i)] && s.kind(i+1) != '(':
			i++
			if s.kind(i) == '-' { // non-sealed
				i += 2
			}
		default:
			return i
		}
	}
	return i
}

// publicJava says whether a definition is visible in other files.
func (s *scan) publicJava(from, to int) bool {
	if s.top().kind == blockTrait {
		return true
	}
	for i := from; i < to; i++ {
		if s.isAny(i, "public", "protected", "internal") {
			return true
		}
	}
	return false
}

// inlineJava recognises initial values in braces, and the bodies of expressions.
func inlineJava(s *scan, from, brace int) bool {
	switch s.kind(brace - 1) {
	case '=', ']', ',':
		return brace > from && (s.kind(brace-1) != ']' || s.findWord("new", from, brace) >= 0 || s.find('=', from, brace) >= 0)
	case '>':
		return s.kind(brace-2) == '=' || s.kind(brace-2) == '-' // a lambda
	}
	return s.find('=', from, brace) >= 0 && s.top().kind != blockFunction
}

func defineJava(s *scan, st statement) block {
	i := s.skipModifiersJava(st.from, st.to)
	public := s.publicJava(st.from, i)
	switch word := s.text(i); {
	case word == "package":
		s.pkg = s.joined(i+1, st.to)
		return block{}
	case word == "import":
		if s.is(i+1, "static") {
			i++
		}
		s.addImport(s.joined(i+1, st.to))
		return block{}
	case word == "@" && s.is(i+1, "interface"):
		return s.typeJava(st, i+1, KindInterface, blockTrait, public)
	case s.kind(i+1) != tokIdent:
	case word == "class", word == "record":
		return s.typeJava(st, i, KindClass, blockType, public)
	case word == "interface":
		return s.typeJava(st, i, KindInterface, blockTrait, public)
	case word == "enum":
		return s.typeJava(st, i, KindEnum, blockEnum, public)
	}
	return s.memberJava(st, i, public)
}

func (s *scan) typeJava(st statement, i int, kind Kind, in blockKind, public bool) block {
	if s.kind(i+1) != tokIdent {
		return block{kind: in, enter: st.end == '{'}
	}
	s.add(i+1, kind, st, public)
	return block{kind: in, name: s.text(i + 1), enter: st.end == '{'}
}

// memberJava reads a method, a constructor or a constant.
func (s *scan) memberJava(st statement, i int, public bool) block {
	in := s.top()
	if in.kind != blockType && in.kind != blockTrait && in.kind != blockEnum {
		return block{}
	}
	paren, equals := s.find('(', i, st.to), s.find('=', i, st.to)
	if paren > i && (equals < 0 || equals > paren) && s.name(paren-1) {
		name := paren - 1
		typed := name > i && s.kind(name-1) != '.' && s.kind(name-1) != ','
		constructor := name == i && s.text(name) == in.name
		if typed || constructor {
			s.add(name, KindMethod, st, public)
		}
		return block{}
	}
	if paren < 0 && equals < 0 && st.end == '{' && i == st.from {
		return block{} // an initializer
	}
	if equals > i+1 && s.name(equals-1) && s.findWord("static", st.from, i) >= 0 && s.findWord("final", st.from, i) >= 0 {
		s.add(equals-1, KindConstant, st, public)
	}
	return block{}
}

func defineCSharp(s *scan, st statement) block {
	i := s.skipModifiersJava(st.from, st.to)
	public := s.publicJava(st.from, i)
	switch word := s.text(i); {
	case word == "using" && s.top().kind == blockModule:
		if at := s.find('=', i, st.to); at > 0 {
			i = at
		} else if s.is(i+1, "static") {
			i++
		}
		s.addImport(s.joined(i+1, st.to))
		return block{}
	case word == "namespace":
		name := s.joined(i+1, st.to)
		if s.pkg == "" {
			s.pkg = name
		}
		s.addNamed(name, i+1, KindModule, "", st, true)
		return block{kind: blockModule, enter: st.end == '{'}
	case word == "delegate" && st.end == ';':
		if paren := s.find('(', i, st.to); paren > i+1 {
			s.add(paren-1, KindType, st, public)
		}
		return block{}
	case s.kind(i+1) != tokIdent:
	case word == "record" && s.isAny(i+1, "struct", "class"):
		return s.typeJava(st, i+1, KindClass, blockType, public)
	case word == "class", word == "record":
		return s.typeJava(st, i, KindClass, blockType, public)
	case word == "struct":
		return s.typeJava(st, i, KindStruct, blockType, public)
	case word == "interface":
		return s.typeJava(st, i, KindInterface, blockTrait, public)
	case word == "enum":
		return s.typeJava(st, i, KindEnum, blockOther, public)
	}
	return s.memberCSharp(st, i, public)
}

func (s *scan) memberCSharp(st statement, i int, public bool) block {
	in := s.top()
	if in.kind != blockType && in.kind != blockTrait {
		return block{}
	}
	paren, equals := s.find('(', i, st.to), s.find('=', i, st.to)
	if paren > i && (equals < 0 || equals > paren) {
		name := paren - 1
		if s.kind(name) == '>' { // type parameters
			for name > i && s.kind(name) != '<' {
				name--
			}
			name--
		}
		if s.kind(name) == tokIdent && (name > i || s.text(name) == in.name) && !s.is(name, "new") {
			s.add(name, KindMethod, st, public)
		}
		return block{}
	}
	last := st.to - 1
	arrow := equals > 0 && s.kind(equals+1) == '>'
	if arrow {
		last = equals - 1
	}
	if (st.end == '{' || arrow) && last > i && (s.kind(last) == tokIdent) && s.kind(last-1) != '.' {
		s.add(last, KindField, st, public)
		return block{}
	}
	if equals > i+1 && s.findWord("const", st.from, i) >= 0 && s.name(equals-1) {
		s.add(equals-1, KindConstant, st, public)
	}
	return block{}
}
