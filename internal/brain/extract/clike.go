package extract

import (
	"path"
	"strings"
)

var cpp = &language{
	name: "c", extensions: []string{".c", ".h", ".cc", ".cpp", ".cxx", ".hpp", ".hh", ".hxx", ".ipp", ".inl", ".m", ".mm", ".cu", ".ino"},
	syntax: syntax{
		lineComments: [2]string{"//"}, blockOpen: "/*", blockClose: "*/",
		double: quoteLine, single: quoteChar, parenRaw: true, directives: true,
	},
	keywords: words(`alignas alignof asm auto bool break case catch char class const const_cast constexpr continue decltype
		default delete do double dynamic_cast else enum explicit export extern false float for friend goto if inline
		int long mutable namespace new noexcept nullptr operator private protected public register reinterpret_cast
		requires return short signed sizeof static static_assert static_cast struct switch template this throw true
		try typedef typeid typename union unsigned using virtual void volatile wchar_t while restrict define include
		ifdef ifndef endif elif defined NULL final override size_t uint8_t uint32_t uint64_t int64_t`),
	define: defineC, inline: inlineC,
}

// langC returns the language of a file with C's syntax.
func langC(name string) string {
	switch strings.ToLower(path.Ext(name)) {
	case ".c", ".h":
		return "c"
	case ".m", ".mm":
		return "objc"
	}
	return "cpp"
}

// inlineC recognises braces of initial values in a constructor's list and of default arguments.
func inlineC(s *scan, from, brace int) bool {
	from = s.startC(from, brace)
	colon := s.find(':', from, brace)
	if colon > from && s.kind(colon-1) == ')' && s.kind(colon+1) != ':' {
		next := s.kind(s.closing(brace) + 1)
		return s.kind(brace-1) == tokIdent && (next == ',' || next == '{') || s.kind(brace-1) == '>'
	}
	return false
}

func defineC(s *scan, st statement) block {
	if s.top().kind == blockFunction {
		return block{}
	}
	i := s.startC(st.from, st.to)
	if i >= st.to {
		return block{enter: st.end == '{' && i > st.from, kind: s.top().kind}
	}
	switch {
	case s.is(i, "namespace"):
		name := ""
		if s.kind(i+1) == tokIdent {
			name = s.joined(i+1, st.to)
			s.addNamed(name, i+1, KindModule, s.top().name, st, true)
		}
		return block{kind: blockModule, name: name, enter: st.end == '{'}
	case s.is(i, "extern") && s.kind(i+1) == tokString && i+2 == st.to:
		return block{kind: blockModule, enter: st.end == '{'}
	case s.is(i, "using"):
		if s.kind(i+2) == '=' {
			s.add(i+1, KindType, st, true)
		}
		return block{}
	case s.is(i, "typedef"):
		return s.typedefC(st, i)
	case s.is(i, "friend"), s.is(i, "static_assert"):
		return block{}
	case s.pending != "" && st.from == s.closed:
		return s.pendingC(st, i)
	}
	if at := s.typeWordC(i, st.to); at >= 0 && (st.end == '{') {
		if b, ok := s.typeC(st, at); ok {
			return b
		}
	}
	return s.functionC(st, i)
}

// startC skips templates, access labels, attributes and directives.
func (s *scan) startC(i, to int) int {
	for i < to {
		switch {
		case s.kind(i) == tokDirective, s.kind(i) == ':' && i > 0:
			i++
		case s.isAny(i, "public", "private", "protected", "signals", "slots") && (s.kind(i+1) == ':' || s.kind(i+2) == ':'):
			i++
		case s.is(i, "template") && s.kind(i+1) == '<':
			next := s.angles(i+1, to)
			if next == i+1 {
				return i
			}
			i = next
		case s.kind(i) == '[' && s.kind(i+1) == '[' && s.closing(i) > i:
			i = s.closing(i) + 1
		case s.macroC(i):
			i++
		default:
			return i
		}
	}
	return i
}

// macroC recognises a macro in front of a definition, such as NAMESPACE_BEGIN.
func (s *scan) macroC(i int) bool {
	text := s.text(i)
	return s.kind(i) == tokIdent && strings.Contains(text, "_") && text == strings.ToUpper(text) &&
		s.isAny(i+1, "namespace", "template", "class", "struct", "enum", "using", "typedef", "static", "inline", "constexpr", "extern", "const") ||
		s.isAny(i, "inline") && s.is(i+1, "namespace")
}

// typeWordC returns the position of struct, class, union or enum before any parenthesis, or -1.
func (s *scan) typeWordC(i, to int) int {
	for j := i; j < min(to, i+8); j++ {
		switch s.kind(j) {
		case '(', '=':
			if !s.isAny(j-1, "__attribute__", "__declspec", "alignas") {
				return -1
			}
			j = s.closing(j)
		case tokIdent:
			if s.isAny(j, "struct", "class", "union", "enum") {
				return j
			}
		}
	}
	return -1
}

// typeC reads a type with members. It returns false if the statement is something else, such as a
// function with a struct as its result.
func (s *scan) typeC(st statement, at int) (block, bool) {
	word := s.text(at)
	if s.find('=', at, st.to) >= 0 {
		return block{}, true // a variable
	}
	end := st.to
	name := -1
	for j := at + 1; j < min(end, at+maxHeader); j++ {
		switch s.kind(j) {
		case ':':
			if s.kind(j+1) == ':' {
				j++
				continue
			}
			end = j // bases follow
		case tokIdent:
			if !s.isAny(j, "final", "class", "struct", "__attribute__", "__declspec", "alignas") {
				name = j
			}
		case '(':
			if s.name(j-1) && !strings.Contains(s.text(j-1), "_") {
				return block{}, false
			}
			if end == st.to && j > at+2 && s.closing(j)+1 >= end {
				return block{}, false // parameters
			}
			j = s.closing(j)
		case '<':
			j = max(s.angles(j, end)-1, j)
		case '*', '&':
			return block{}, false
		}
	}
	kind := map[string]Kind{"struct": KindStruct, "class": KindClass, "union": KindStruct, "enum": KindEnum}[word]
	b := block{kind: blockType, enter: word != "enum"}
	if name >= 0 {
		s.add(name, kind, st, true)
		b.name = s.text(name)
	}
	return b, true
}

// typedefC reads typedef … name, whose name follows the members of a struct.
func (s *scan) typedefC(st statement, i int) block { //nolint:revive // a case for each form of syntax
	if st.end == '{' {
		s.pending = "typedef"
		if at := s.typeWordC(i, st.to); at >= 0 {
			if s.name(at + 1) {
				kind := KindStruct
				if s.is(at, "enum") {
					kind = KindEnum
				}
				s.add(at+1, kind, st, true)
			}
		}
		return block{}
	}
	if paren := s.find('(', i, st.to); paren > 0 && s.kind(paren+1) == '*' && s.name(paren+2) {
		s.add(paren+2, KindType, st, true)
		return block{}
	}
	last := st.to - 1
	for last > i && s.kind(last) != tokIdent {
		if s.kind(last) == ')' || s.kind(last) == ']' {
			for open := last; open > i; open-- {
				if s.closing(open) == last && open != last {
					last = open
					break
				}
			}
		}
		last--
	}
	if last > i && s.name(last) {
		s.add(last, KindType, st, true)
	}
	return block{}
}

// pendingC reads the name behind the members of typedef struct { … } name.
func (s *scan) pendingC(st statement, i int) block {
	s.pending = ""
	last := i
	for s.kind(last) == '*' {
		last++
	}
	if s.name(last) {
		s.add(last, KindType, st, true)
	}
	return block{}
}

// functionC reads a function, its declaration or a variable.
func (s *scan) functionC(st statement, i int) block { //nolint:revive // a case for each form of syntax
	paren := -1
	for j := i; j < min(st.to, i+maxHeader); j++ {
		k := s.kind(j)
		if k == '=' && !s.is(j-1, "operator") && s.findWord("operator", i, j) < 0 {
			break
		}
		if k == '<' {
			j = max(s.angles(j, st.to)-1, j)
			continue
		}
		if k == '(' && j > i {
			if s.isAny(j-1, "__attribute__", "__declspec", "alignas", "decltype", "noexcept") {
				j = s.closing(j)
				continue
			}
			paren = j
			break
		}
		if k == '[' || k == '(' {
			j = s.closing(j)
		}
	}
	if paren < 0 {
		return s.variableC(st, i)
	}
	if operator := s.findWord("operator", i, paren); operator >= 0 {
		if operator == paren-1 && s.kind(s.closing(paren)+1) == '(' { // operator()
			paren = s.closing(paren) + 1
		}
		return s.addFunctionC(st, operator, s.joined(operator, paren), i, paren)
	}
	name := paren - 1
	if s.kind(name) == '>' {
		for name > i && s.kind(name) != '<' {
			name--
		}
		name--
	}
	if s.kind(name) != tokIdent || s.lang.keywords[s.text(name)] {
		return block{}
	}
	text := s.text(name)
	if s.kind(name-1) == '~' {
		text = "~" + text
	}
	return s.addFunctionC(st, name, text, i, paren)
}

func (s *scan) addFunctionC(st statement, name int, text string, i, paren int) block {
	in := s.top()
	parent := in.name
	owner := name
	if s.kind(owner-1) == '~' {
		owner--
	}
	qualified := s.kind(owner-1) == ':' && s.kind(owner-2) == ':'
	if qualified {
		if parent = s.text(owner - 3); s.kind(owner-3) == '>' {
			for j := owner - 3; j > i; j-- {
				if s.kind(j) == '<' {
					parent = s.text(j - 1)
					break
				}
			}
		}
	}
	member := in.kind == blockType || qualified
	constructor := member && (text == parent || strings.HasPrefix(text, "~") || strings.HasPrefix(text, "operator"))
	if st.end != '{' && (!constructor || qualified) && (owner == i || qualified) {
		return block{} // a macro or a call
	}
	if st.end == '{' && owner == i && !member && s.closing(paren)+1 < st.to && s.kind(s.closing(paren)+1) == '(' {
		return block{}
	}
	kind := KindFunction
	if member {
		kind = KindMethod
	}
	static := s.findWord("static", st.from, i+3) >= 0 && !member
	s.addNamed(text, name, kind, parent, st, !static)
	return block{}
}

func (s *scan) variableC(st statement, i int) block {
	equals := s.find('=', i, st.to)
	if equals < 0 && st.end != '{' || s.top().kind == blockType {
		return block{}
	}
	last := st.to - 1
	if equals >= 0 {
		last = equals - 1
	}
	for last > i && s.kind(last) == ']' {
		for s.kind(last) != '[' && last > i {
			last--
		}
		last--
	}
	if last > i && s.name(last) {
		s.add(last, KindVariable, st, s.findWord("static", st.from, i+3) < 0)
	}
	return block{}
}
