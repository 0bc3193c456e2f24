package extract

import "unicode"

var golang = &language{
	name: "go", extensions: []string{".go"},
	syntax: syntax{
		lineComments: [2]string{"//"}, blockOpen: "/*", blockClose: "*/",
		double: quoteLine, single: quoteChar, backtick: quoteRaw, newlines: true,
	},
	keywords: words(`break case chan const continue default defer else fallthrough for func go goto if import
		interface map package range return select struct switch type var nil true false`),
	define: defineGo,
}

func defineGo(s *scan, st statement) block {
	i := st.from
	if s.top().kind == blockGroup {
		s.defineGoSpec(st, i, s.top().name)
		return block{}
	}
	switch word := s.text(i); word {
	case "package":
		s.pkg = s.text(i + 1)
	case "import":
		s.goImports(i+1, st.to)
	case "func":
		s.defineGoFunc(st)
	case "type", "const", "var":
		if s.kind(i+1) == '(' {
			s.goGroup(st, i+1, word)
		} else {
			s.defineGoSpec(st, i+1, word)
		}
	}
	return block{}
}

func (s *scan) goImports(from, to int) {
	if s.kind(from) == '(' {
		to = s.closing(from)
	}
	for i := from; i < to; i++ {
		if s.kind(i) == tokString {
			s.addImport(s.text(i))
		}
	}
}

// goGroup reads the declarations in const ( … ).
func (s *scan) goGroup(st statement, open int, word string) {
	to := min(s.closing(open), st.to)
	from := open + 1
	for i := from; i <= to; i++ {
		switch k := s.kind(i); k {
		case '(', '[', '{':
			i = max(i, min(s.closing(i), to))
		case tokNewline, ';', ')':
			if from < i {
				s.defineGoSpec(statement{from, i, tokNewline}, from, word)
			}
			from = i + 1
		}
	}
}

// defineGoSpec reads one declaration, without its first word if it is not in a group.
func (s *scan) defineGoSpec(st statement, i int, word string) {
	if !s.name(i) || s.text(i) == "_" {
		return
	}
	switch word {
	case "const":
		s.addGoNames(st, i, KindConstant)
	case "var":
		s.addGoNames(st, i, KindVariable)
	case "type":
		kind, at := KindType, i+1
		if s.kind(at) == '[' && s.closing(at)+1 < len(s.tokens) && s.kind(s.closing(at)+1) != tokNewline {
			at = s.closing(at) + 1 // type parameters
		}
		switch {
		case s.is(at, "struct"):
			kind = KindStruct
		case s.is(at, "interface"):
			kind = KindInterface
		}
		s.add(i, kind, st, exportedGo(s.text(i)))
		if kind == KindInterface && s.kind(at+1) == '{' {
			s.goMethods(at+1, s.text(i))
		}
	}
}

// goMethods reads the methods of an interface.
func (s *scan) goMethods(open int, parent string) {
	end := s.closing(open)
	for i := open + 1; i < end; i++ {
		if k := s.kind(i - 1); (k == '{' || k == tokNewline || k == ';') && s.kind(i) == tokIdent && s.kind(i+1) == '(' {
			to := i + 1
			for to < end && s.kind(to) != tokNewline && s.kind(to) != ';' {
				if k := s.kind(to); k == '(' || k == '[' || k == '{' {
					to = max(to, s.closing(to))
				}
				to++
			}
			s.addNamed(s.text(i), i, KindMethod, parent, statement{i, min(to, end), tokNewline}, exportedGo(s.text(i)))
			i = to - 1
		}
		if k := s.kind(i); k == '(' || k == '[' || k == '{' {
			i = max(i, s.closing(i))
		}
	}
}

func (s *scan) addGoNames(st statement, i int, kind Kind) {
	for {
		if s.name(i) && s.text(i) != "_" {
			s.add(i, kind, st, exportedGo(s.text(i)))
		}
		if s.kind(i+1) != ',' {
			return
		}
		i += 2
	}
}

func (s *scan) defineGoFunc(st statement) {
	i := st.from + 1
	if s.kind(i) != '(' {
		if s.kind(i) == tokIdent {
			s.add(i, KindFunction, st, exportedGo(s.text(i)))
		}
		return
	}
	end := s.closing(i)
	receiver := ""
	for j := i + 1; j < min(end, i+8); j++ {
		if s.kind(j) == '[' {
			break
		}
		if s.kind(j) == tokIdent {
			receiver = s.text(j)
		}
	}
	if s.kind(end+1) == tokIdent {
		s.addNamed(s.text(end+1), end+1, KindMethod, receiver, st, exportedGo(s.text(end+1)))
	}
}

func exportedGo(name string) bool {
	for _, r := range name {
		return unicode.IsUpper(r)
	}
	return false
}
