package extract

import (
	"bytes"
	"unicode/utf8"
)

// text reads a text in quotes, a regular expression or the start of a here document, if one is here.
func (l *lexer) text(c byte) bool {
	s := l.syntax
	switch c {
	case '"':
		return l.quoted(c, s.double)
	case '\'':
		return l.quoted(c, s.single)
	case '`':
		return l.quoted(c, s.backtick)
	case '@':
		return s.verbatim && (l.at(`@"`) || l.at(`@$"`)) && l.mayClose() && l.verbatimText()
	case '<':
		return s.heredoc && l.at("<<") && l.startHeredoc() || s.phpHeredoc && l.at("<<<") && l.mayClose() && l.phpText()
	case '/':
		return s.regex && l.regexText()
	}
	return false
}

// finish records a text in quotes that ends before end.
func (l *lexer) finish(start, end int) bool {
	line := l.line
	l.line += uint32(bytes.Count(l.src[start:end], []byte{'\n'}))
	l.prose = append(l.prose, Span{start, end})
	l.pos = end
	l.emit(tokString, start, line)
	return true
}

func (l *lexer) quoted(c byte, how quoting) bool {
	start := l.pos
	if l.syntax.triple && how != quoteNone && how != quoteChar && start+2 < len(l.src) && l.src[start+1] == c && l.src[start+2] == c {
		return l.tripleText(c)
	}
	switch how {
	case quoteNone:
		return false
	case quoteChar:
		return l.char()
	case quoteTemplate:
		return l.finish(start, l.templateEnd(start+1))
	case quoteRaw:
		end := bytes.IndexByte(l.src[start+1:], c)
		if end < 0 {
			return false
		}
		return l.finish(start, start+1+end+1)
	case quoteLine, quoteMultiline:
	}
	if how == quoteMultiline && !l.mayClose() {
		how = quoteLine
	}
	for pos := start + 1; pos < len(l.src); pos++ {
		switch l.src[pos] {
		case c:
			return l.finish(start, pos+1)
		case '\\':
			pos++
		case '\n':
			if how == quoteLine {
				return l.finish(start, pos) // not closed: the line ends it
			}
		}
	}
	if how == quoteLine {
		return l.finish(start, len(l.src))
	}
	l.unclosed++
	return l.finish(start, l.lineEnd()) // not closed: only this line is lost
}

// maxUnclosed is the number of texts whose end was not found after which no further end is looked
// for in the rest of the file, which would take quadratic time.
const maxUnclosed = 8

func (l *lexer) mayClose() bool { return l.unclosed < maxUnclosed }

// char reads a character literal. A lone quotation mark, such as that of a lifetime in Rust, opens none.
func (l *lexer) char() bool {
	rest := l.src[l.pos+1:]
	if len(rest) == 0 {
		return false
	}
	if rest[0] == '\\' {
		for i := 2; i < min(len(rest), 14); i++ {
			if rest[i] == '\'' {
				return l.finish(l.pos, l.pos+i+2)
			}
		}
		return false
	}
	_, size := utf8.DecodeRune(rest)
	for i := size; i < min(len(rest), size+4); i++ { // 'abcd' is valid in C
		if rest[i] == '\'' {
			if i > size && l.syntax.hashRaw {
				return false
			}
			return l.finish(l.pos, l.pos+i+2)
		}
		if !identPart[rest[i]] {
			return false
		}
	}
	return false
}

func (l *lexer) tripleText(c byte) bool {
	start, mark := l.pos, bytes.Repeat([]byte{c}, 3)
	pos := start + 3
	for {
		i := bytes.Index(l.src[pos:], mark)
		if i < 0 {
			return l.finish(start, len(l.src))
		}
		pos += i + 3
		if escapes := trailing(l.src[start+3:pos-3], '\\'); escapes%2 == 0 {
			for pos < len(l.src) && l.src[pos] == c { // """a""""
				pos++
			}
			return l.finish(start, pos)
		}
	}
}

// trailing returns how often a byte occurs at the end.
func trailing(text []byte, c byte) int {
	n := 0
	for n < len(text) && n < 16 && text[len(text)-1-n] == c {
		n++
	}
	return n
}

// templateEnd returns the end of a template literal, which may contain expressions with further
// template literals. stack holds what encloses the position: templates and braces.
func (l *lexer) templateEnd(pos int) int {
	stack := []byte{'`'}
	for ; pos < len(l.src); pos++ {
		c, in := l.src[pos], stack[len(stack)-1]
		switch {
		case c == '\\':
			pos++
		case in == '`' && c == '`', in == '{' && c == '}':
			if stack = stack[:len(stack)-1]; len(stack) == 0 {
				return pos + 1
			}
		case len(stack) > MaxDepth:
			return len(l.src)
		case in == '`' && c == '$' && pos+1 < len(l.src) && l.src[pos+1] == '{':
			stack = append(stack, '{')
			pos++
		case in == '{' && (c == '{' || c == '`'):
			stack = append(stack, c)
		}
	}
	return len(l.src)
}

// rawText reads r"…", r#"…"# and their forms with b and c in Rust.
func (l *lexer) rawText(start int) bool {
	pos := start
	for pos < len(l.src) && pos < start+2 && (l.src[pos] == 'b' || l.src[pos] == 'c' || l.src[pos] == 'r') {
		pos++
	}
	if pos == start || pos == len(l.src) || l.src[pos-1] != 'r' || !l.mayClose() {
		return false
	}
	hashes := 0
	for pos+hashes < len(l.src) && hashes < 255 && l.src[pos+hashes] == '#' {
		hashes++
	}
	if pos+hashes >= len(l.src) || l.src[pos+hashes] != '"' {
		return false
	}
	closing := append([]byte{'"'}, bytes.Repeat([]byte{'#'}, hashes)...)
	body := pos + hashes + 1
	end := bytes.Index(l.src[body:], closing)
	if end < 0 {
		l.unclosed++
		return false
	}
	return l.finish(start, body+end+len(closing))
}

// parenText reads R"x(…)x" of C++.
func (l *lexer) parenText(start int) bool {
	pos := start
	for pos < len(l.src) && pos < start+3 && bytes.IndexByte([]byte("uUL8R"), l.src[pos]) >= 0 {
		pos++
	}
	if pos == start || pos+1 >= len(l.src) || l.src[pos-1] != 'R' || l.src[pos] != '"' || !l.mayClose() {
		return false
	}
	open := bytes.IndexByte(l.src[pos:min(len(l.src), pos+20)], '(')
	if open < 0 {
		return false
	}
	closing := append(append([]byte{')'}, l.src[pos+1:pos+open]...), '"')
	end := bytes.Index(l.src[pos+open:], closing)
	if end < 0 {
		l.unclosed++
		return false
	}
	return l.finish(start, pos+open+end+len(closing))
}

// verbatimText reads @"…" of C#, in which "" is a quotation mark.
func (l *lexer) verbatimText() bool {
	start := l.pos
	for pos := start + 1 + bytes.IndexByte(l.src[start+1:], '"') + 1; pos < len(l.src); pos++ {
		if l.src[pos] != '"' {
			continue
		}
		if pos+1 < len(l.src) && l.src[pos+1] == '"' {
			pos++
			continue
		}
		return l.finish(start, pos+1)
	}
	l.unclosed++
	return l.finish(start, l.lineEnd())
}

// operandBefore says whether the last token ends an operand, after which / divides.
func (l *lexer) operandBefore() bool {
	if len(l.tokens) == 0 {
		return false
	}
	t := l.tokens[len(l.tokens)-1]
	switch t.kind {
	case tokNumber, tokString, tokVariable, ')', ']', '}':
		return true
	case tokIdent:
		switch string(l.src[t.start:t.end]) {
		case "return", "typeof", "case", "in", "of", "delete", "void", "throw", "new", "do", "else", "yield", "await",
			"if", "unless", "when", "and", "or", "not", "while", "until", "then":
			return false
		}
		// In Ruby, a call without parentheses may have a regular expression as its argument: x /a/.
		return !l.syntax.marks || l.pos == 0 || !spaces[l.src[l.pos-1]] || l.pos+1 < len(l.src) && spaces[l.src[l.pos+1]]
	}
	return false
}

// regexText reads a regular expression within one line.
func (l *lexer) regexText() bool {
	if l.divides == l.line || l.operandBefore() {
		return false
	}
	set := false
	for pos := l.pos + 1; pos < len(l.src); pos++ {
		switch c := l.src[pos]; {
		case c == '\n':
			l.divides = l.line // no further / of this line opens one, either
			return false
		case c == '\\':
			pos++
		case c == '[':
			set = true
		case c == ']':
			set = false
		case c == '/' && (!set || l.syntax.marks):
			for pos++; pos < len(l.src) && identPart[l.src[pos]]; {
				pos++
			}
			return l.finish(l.pos, pos)
		}
	}
	l.divides = l.line
	return false
}

// maxHeredocs is the number of here documents that start in one line.
const maxHeredocs = 8

// startHeredoc reads <<NAME, <<-NAME or <<~NAME, after which the document starts with the next line.
func (l *lexer) startHeredoc() bool {
	pos, doc := l.pos+2, heredoc{}
	if pos < len(l.src) && (l.src[pos] == '-' || l.src[pos] == '~') {
		doc.indented = true
		pos++
	} else if l.operandBefore() && l.syntax.marks {
		return false // an operator in Ruby
	}
	quote := byte(0)
	if pos < len(l.src) && (l.src[pos] == '\'' || l.src[pos] == '"') {
		quote = l.src[pos]
		pos++
	}
	begin := pos
	for pos < len(l.src) && identPart[l.src[pos]] {
		pos++
	}
	if pos == begin || pos-begin > 60 || !identStart[l.src[begin]] || len(l.pending) == maxHeredocs {
		return false
	}
	doc.name = string(l.src[begin:pos])
	if quote != 0 {
		if pos == len(l.src) || l.src[pos] != quote {
			return false
		}
		pos++
	}
	l.pending = append(l.pending, doc)
	start := l.pos
	l.pos = pos
	l.emit(tokString, start, l.line)
	return true
}

// heredocs reads the documents that start here.
func (l *lexer) heredocs() {
	for _, doc := range l.pending {
		start := l.pos
		for l.pos < len(l.src) {
			end := l.lineEnd()
			line := bytes.TrimRight(l.src[l.pos:end], "\r")
			if doc.indented {
				line = bytes.TrimLeft(line, " \t")
			}
			found := string(line) == doc.name
			l.pos = min(end+1, len(l.src))
			l.line++
			if found {
				break
			}
		}
		if l.pos > start {
			l.prose = append(l.prose, Span{start, l.pos})
		}
	}
	l.pending = l.pending[:0]
}

// phpText reads <<<NAME … NAME.
func (l *lexer) phpText() bool {
	start := l.pos
	head := bytes.Trim(l.src[l.pos+3:l.lineEnd()], " \t\r'\"")
	if len(head) == 0 || len(head) > 60 || !identStart[head[0]] {
		return false
	}
	for pos := l.lineEnd(); pos < len(l.src); {
		pos++
		end := len(l.src)
		if i := bytes.IndexByte(l.src[pos:], '\n'); i >= 0 {
			end = pos + i
		}
		line := l.src[pos:end]
		trimmed := bytes.TrimLeft(line, " \t")
		if bytes.HasPrefix(trimmed, head) && (len(trimmed) == len(head) || !identPart[trimmed[len(head)]]) {
			return l.finish(start, pos+len(line)-len(trimmed)+len(head))
		}
		pos = end
	}
	l.unclosed++
	return l.finish(start, l.lineEnd())
}
