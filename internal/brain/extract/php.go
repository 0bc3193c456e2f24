package extract

import "strings"

var php = &language{
	name: "php", extensions: []string{".php", ".phtml"},
	syntax: syntax{
		lineComments: [2]string{"//", "#"}, blockOpen: "/*", blockClose: "*/", hashAttr: true,
		double: quoteMultiline, single: quoteMultiline, backtick: quoteNone, phpHeredoc: true, variables: true,
	},
	keywords: words(`abstract and array as break callable case catch class clone const continue declare default do echo else
		elseif empty enddeclare endfor endforeach endif endswitch endwhile enum eval exit extends final finally fn for
		foreach function global goto if implements include include_once instanceof insteadof interface isset list
		match namespace new or print private protected public readonly require require_once return static switch
		throw trait try unset use var while xor yield true false null self parent int string bool float void mixed`),
	define: definePHP,
	inline: func(s *scan, from, brace int) bool { return s.find('=', from, brace) >= 0 },
}

func definePHP(s *scan, st statement) block {
	i, public := st.from, true
	for i < st.to {
		switch {
		case s.kind(i) == '<' && s.kind(i+1) == '?':
			if i += 2; s.is(i, "php") {
				i++
			}
		case s.kind(i) == '#' && s.kind(i+1) == '[':
			i = max(s.closing(i+1), i+1) + 1
		case s.isAny(i, "abstract", "final", "public", "static", "readonly", "private", "protected"):
			public = public && !s.isAny(i, "private", "protected")
			i++
		default:
			return s.definitionPHP(st, i, public)
		}
	}
	return block{}
}

func (s *scan) definitionPHP(st statement, i int, public bool) block {
	inner := s.top().kind == blockType
	switch s.text(i) {
	case "namespace":
		name := s.joined(i+1, st.to)
		if s.pkg == "" {
			s.pkg = name
		}
		s.addNamed(name, i+1, KindModule, "", st, true)
		return block{kind: blockModule, enter: st.end == '{'}
	case "use":
		if !inner {
			s.usePHP(i+1, st.to)
		}
		return block{}
	case "class", "trait":
		return s.typeJava(st, i, KindClass, blockType, public)
	case "interface":
		return s.typeJava(st, i, KindInterface, blockType, public)
	case "enum":
		if s.kind(i+1) == tokIdent {
			return s.typeJava(st, i, KindEnum, blockType, public)
		}
	case "const":
		if equals := s.find('=', i, st.to); equals > i+1 && s.kind(equals-1) == tokIdent {
			s.add(equals-1, KindConstant, st, public)
		}
	case "define":
		if s.kind(i+2) == tokString {
			s.addNamed(strings.Trim(s.text(i+2), `"'`), i+2, KindConstant, "", st, true)
		}
	case "function":
		at := i + 1
		if s.kind(at) == '&' {
			at++
		}
		if s.kind(at) != tokIdent {
			break
		}
		kind := KindFunction
		if inner {
			kind = KindMethod
		}
		s.add(at, kind, st, public)
	case "require", "require_once", "include", "include_once":
		for j := i + 1; j < min(st.to, i+12); j++ {
			if s.kind(j) == tokString {
				s.addImport(s.text(j))
			}
		}
	case "if", "else", "elseif", "try":
		return block{kind: blockModule, enter: st.end == '{' && !inner} // definitions under a condition
	}
	return block{}
}

// usePHP reads use A\B, A\C as D.
func (s *scan) usePHP(from, to int) {
	if s.isAny(from, "function", "const") {
		from++
	}
	for i := from; i <= to; i++ {
		if i == to || s.kind(i) == ',' {
			end := i
			if as := s.findWord("as", from, i); as > 0 {
				end = as
			}
			s.addImport(strings.TrimPrefix(s.joined(from, end), `\`))
			from = i + 1
		}
	}
}
