package extract

// statements reads the statements of a language whose blocks are in braces.
func (s *scan) statements() {
	i, from := 0, 0
	for i < len(s.tokens) {
		if n := len(s.blocks); n > 0 && i >= s.blocks[n-1].end {
			if from < i {
				s.define(statement{from, i, '}'})
			}
			s.blocks = s.blocks[:n-1]
			if s.kind(i) == '}' || s.kind(i) == ')' {
				i++
			}
			from = i
			continue
		}
		next, ended := s.step(from, i)
		i = next
		if ended {
			from = i
		}
	}
	if from < i {
		s.define(statement{from, i, 0})
	}
}

// step handles one token of the statement that starts at from. It returns the next token to handle
// and whether a new statement starts there.
func (s *scan) step(from, i int) (next int, ended bool) {
	l := s.lang
	switch s.kind(i) {
	case '(', '[':
		if s.match[i] > 0 && (l.descend == nil || !l.descend(s, from, i)) {
			return int(s.match[i]) + 1, false
		}
	case '{':
		if s.match[i] > 0 && l.inline != nil && l.inline(s, from, i) {
			return int(s.match[i]) + 1, false
		}
		b := s.define(statement{from, i, '{'})
		return s.enter(b, i), true
	case ';':
		s.define(statement{from, i, ';'})
		return i + 1, true
	case '}', ')', ']': // without a partner, or left of an expression
		return i + 1, s.kind(i) == '}'
	case ',':
		if l.commas != nil && l.commas(s.top()) {
			s.define(statement{from, i, ','})
			return i + 1, true
		}
	case tokDirective:
		s.preprocessor(i)
		return i + 1, i == from
	case tokNewline:
		if i == from {
			return i + 1, true
		}
		if s.endsLine(i) {
			s.define(statement{from, i, tokNewline})
			return i + 1, true
		}
	}
	return i + 1, false
}

func (s *scan) define(st statement) block {
	for st.from < st.to && s.kind(st.from) == tokNewline {
		st.from++
	}
	if st.from >= st.to {
		return block{enter: st.end == '{' && s.top().kind != blockFunction}
	}
	return s.lang.define(s, st)
}

// enter returns the token that follows the brace at i: the first one in the block, or the first one
// behind it.
func (s *scan) enter(b block, i int) int {
	end := int(s.match[i])
	if end == 0 {
		end = len(s.tokens)
	}
	if !b.enter {
		s.closed = end + 1
		return end + 1
	}
	if n := len(s.blocks); n > 0 {
		end = min(end, s.blocks[n-1].end)
		b.guard = b.guard || s.blocks[n-1].guard
	}
	b.end = end
	if b.name == "" && b.kind != blockFunction {
		b.name = s.top().name
	}
	s.blocks = append(s.blocks, b)
	return i + 1
}

// endsLine says whether the end of a line ends a statement.
func (s *scan) endsLine(i int) bool {
	switch k := s.kind(i - 1); k {
	case ',', '=', '/', '&', '|', ':', '<', '.', '%', '^':
		return false
	case '+', '-':
		if s.kind(i-2) != k { // i++
			return false
		}
	case '*':
		if s.kind(i-2) != '.' { // import a.*
			return false
		}
	case tokIdent:
		if s.isAny(i-1, "extends", "implements", "where", "in", "is", "as", "by", "throws", "from", "return", "new") {
			return false
		}
	}
	switch s.kind(i + 1) {
	case '{':
		return s.kind(i-1) == ';'
	case '.', '?', ':', '=', '&', '|', '+', '-', '*', '<', ',':
		return false
	case tokIdent:
		return !s.isAny(i+1, "extends", "implements", "where", "throws", "constructor") || s.lang == javascript && s.is(i+1, "constructor")
	case '@':
		// The annotations of a constructor follow the name of the class.
		return s.lang != kotlin || s.kind(i-1) != tokIdent || !s.isAny(i-2, "class")
	}
	return true
}

// preprocessor reads a line that starts with #.
func (s *scan) preprocessor(i int) {
	line := s.text(i)
	word := directive(line)
	rest := line[len(line)-len(trimWord(line, word)):]
	switch word {
	case "include", "import":
		s.addImport(cutComment(rest))
	case "define":
		end := 0
		for end < len(rest) && identPart[rest[end]] {
			end++
		}
		if end > 0 {
			st := statement{i, i + 1, tokNewline}
			s.addNamed(rest[:end], i, KindMacro, "", st, true)
		}
	}
}
