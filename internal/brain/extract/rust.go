package extract

import "strings"

var rust = &language{
	name: "rust", extensions: []string{".rs"},
	syntax: syntax{
		lineComments: [2]string{"//"}, blockOpen: "/*", blockClose: "*/", nested: true,
		double: quoteMultiline, single: quoteChar, hashRaw: true,
	},
	keywords: words(`as async await break const continue crate dyn else enum extern false fn for if impl in let loop match mod
		move mut pub ref return self Self static struct super trait true type union unsafe use where while i8 i16 i32
		i64 u8 u16 u32 u64 usize isize f32 f64 bool str char`),
	define: defineRust,
	inline: func(s *scan, from, brace int) bool {
		return s.is(from, "use") || s.is(from, "pub") && s.findWord("use", from, min(brace, from+6)) >= 0 ||
			s.find('=', from, brace) >= 0 && s.findWord("where", from, brace) < 0 && s.findWord("fn", from, brace) < 0 && s.findWord("impl", from, brace) < 0
	},
}

func defineRust(s *scan, st statement) block {
	i := st.from
	for i < st.to && s.kind(i) == '#' { // attributes
		if i++; s.kind(i) == '!' {
			i++
		}
		if s.kind(i) != '[' || s.closing(i) == i {
			break
		}
		i = s.closing(i) + 1
	}
	public := s.top().kind == blockTrait
	for i < st.to {
		if s.is(i, "pub") {
			public = true
			if i++; s.kind(i) == '(' {
				i = s.closing(i) + 1
			}
			continue
		}
		if !s.isAny(i, "async", "unsafe", "default", "extern", "const") && s.kind(i) != tokString || s.is(i, "const") && !s.isAny(i+1, "fn", "unsafe", "async", "extern") {
			break
		}
		if s.is(i, "extern") && s.is(i+1, "crate") {
			s.addImport(s.text(i + 2))
			return block{}
		}
		i++
	}
	return s.itemRust(statement{i, st.to, st.end}, i, public)
}

func (s *scan) itemRust(st statement, i int, public bool) block {
	if st.from >= st.to {
		return block{kind: blockModule, enter: st.end == '{'} // extern "C" { … }
	}
	named := s.kind(i+1) == tokIdent
	switch word := s.text(i); {
	case word == "use":
		s.useRust(i+1, st.to)
	case word == "fn" && named:
		kind := KindFunction
		if in := s.top().kind; in == blockType || in == blockTrait {
			kind = KindMethod
		}
		s.add(i+1, kind, st, public)
	case word == "struct" && named, word == "union" && named:
		s.add(i+1, KindStruct, st, public)
	case word == "enum" && named:
		s.add(i+1, KindEnum, st, public)
	case word == "trait" && named:
		return s.typeJava(st, i, KindInterface, blockTrait, public)
	case word == "type" && named:
		s.add(i+1, KindType, st, public)
	case (word == "const" || word == "static") && named:
		if s.is(i+1, "mut") {
			i++
		}
		if !s.is(i+1, "_") {
			s.add(i+1, KindConstant, st, public)
		}
	case word == "mod" && named:
		s.add(i+1, KindModule, st, public)
		if st.end != '{' {
			s.addImport("mod " + s.text(i+1))
		}
		return block{kind: blockModule, name: s.text(i + 1), enter: st.end == '{'}
	case word == "macro_rules" && s.kind(i+1) == '!' && s.kind(i+2) == tokIdent:
		s.add(i+2, KindMacro, st, true)
	case word == "impl":
		return s.implRust(st, i, public)
	}
	return block{}
}

func (s *scan) implRust(st statement, i int, _ bool) block {
	at := s.angles(i+1, st.to)
	trait := false
	if with := s.findWord("for", at, st.to); with >= 0 && s.kind(with+1) != '<' {
		at, trait = with+1, true
	}
	name := ""
	for j := at; j < min(st.to, at+maxHeader); j++ {
		if s.kind(j) == '<' || s.is(j, "where") {
			break
		}
		if s.name(j) {
			name = s.text(j)
		}
	}
	in := blockType
	if trait {
		in = blockTrait // as visible as the trait
	}
	return block{kind: in, name: name, enter: st.end == '{'}
}

// maxUses is the number of paths of one use declaration.
const maxUses = 100

// useRust expands use a::{b, c::d}.
func (s *scan) useRust(from, to int) {
	var prefixes []string
	path, added := "", 0
	flush := func() {
		if path != "" && added < maxUses {
			s.addImport(strings.TrimSuffix(strings.Join(prefixes, "")+path, "::"))
			added++
		}
		path = ""
	}
	for i := from; i < to; i++ {
		switch k := s.kind(i); {
		case k == '{':
			if len(prefixes) > MaxDepth {
				return
			}
			prefixes = append(prefixes, path)
			path = ""
		case k == '}':
			flush()
			if len(prefixes) > 0 {
				prefixes = prefixes[:len(prefixes)-1]
			}
		case k == ',':
			flush()
		case s.is(i, "as"):
			i++
		case len(path) < MaxName:
			path += s.text(i)
		}
	}
	flush()
}
