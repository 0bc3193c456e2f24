package extract

import (
	"bytes"
	"sync"
	"unicode/utf8"
)

// Kinds of tokens. A punctuation mark is its own kind.
const (
	tokIdent     byte = 'i'
	tokNumber    byte = 'n'
	tokString    byte = 's'
	tokNewline   byte = '\n'
	tokDirective byte = 'd' // a line of the preprocessor
	tokVariable  byte = 'v' // $name in PHP
)

// token is one token of a file.
type token struct {
	kind             byte
	start, end, line uint32
}

// quoting says how a quotation mark works in a language.
type quoting byte

const (
	quoteNone      quoting = iota
	quoteLine              // a text within a line, with escapes
	quoteMultiline         // a text over several lines, with escapes
	quoteRaw               // a text over several lines without escapes
	quoteChar              // a single character, or a lifetime in Rust
	quoteTemplate          // a text over several lines with ${expressions}
)

// syntax is what the lexer needs to know about a language.
type syntax struct {
	lineComments [2]string // such as "//"; "" if unused
	blockOpen    string    // such as "/*"
	blockClose   string
	nested       bool // block comments nest
	double       quoting
	single       quoting
	backtick     quoting
	triple       bool // """ opens a text over several lines, and ''' if ' opens a text
	hashRaw      bool // r#"…"#
	parenRaw     bool // R"x(…)x"
	verbatim     bool // @"…"
	regex        bool // /…/ where an operand is expected
	heredoc      bool // <<~NAME
	phpHeredoc   bool // <<<NAME
	directives   bool // # at the start of a line
	newlines     bool // the end of a line is a token
	dollar       bool // $ is part of a name
	variables    bool // $name is a variable, not a name
	marks        bool // names may end in ? or !
	dash         bool // names may contain -
	hashAttr     bool // #[ is not a comment
}

// lexer turns a file into tokens.
type lexer struct {
	syntax  *syntax
	src     []byte
	pos     int
	line    uint32
	tokens  []token
	prose   []Span
	fresh   bool // only white space since the start of the line
	pending []heredoc
	// unclosed counts texts without an end, and divides is a line whose slashes divide: both keep the
	// time linear.
	unclosed int
	divides  uint32
}

// heredoc is a text whose lines follow the current one.
type heredoc struct {
	name     string
	indented bool
}

// buffers of tokens are reused, because most of a file's memory is its tokens.
var tokenBuffers = sync.Pool{New: func() any { return new([]token) }}

// maxPooledTokens keeps the buffer of a huge file from staying in memory.
const maxPooledTokens = 1 << 18

var identStart, identPart, spaces = identTables()

func identTables() (start, part, space [256]bool) {
	for b := range 256 {
		letter := b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b == '_' || b >= utf8.RuneSelf
		start[b], part[b] = letter, letter || b >= '0' && b <= '9'
		space[b] = b == ' ' || b == '\t' || b == '\r' || b == '\f' || b == '\v'
	}
	return start, part, space
}

// byteOrderMark starts many files that were written on Windows.
var byteOrderMark = []byte("\xef\xbb\xbf")

func lex(s *syntax, src []byte, buffer []token) *lexer {
	l := &lexer{syntax: s, src: src, line: 1, tokens: buffer[:0], fresh: true}
	if bytes.HasPrefix(src, byteOrderMark) {
		l.pos = len(byteOrderMark)
	}
	if bytes.HasPrefix(src, []byte("#!")) {
		l.comment(0, l.lineEnd())
	}
	for l.pos < len(src) {
		l.next()
	}
	return l
}

// next reads one token, comment or run of white space.
func (l *lexer) next() {
	c := l.src[l.pos]
	switch {
	case spaces[c]:
		l.pos++
		return
	case c == '\n':
		l.newline()
		return
	case identStart[c] || c == '$' && (l.syntax.dollar || l.syntax.variables):
		l.ident()
	case c >= '0' && c <= '9':
		l.number()
	case l.skipComment(c):
		return // the line stays fresh only after white space, which does not matter after a comment
	case c == '#' && l.fresh && l.syntax.directives:
		l.directive()
	case c == '"' || c == '\'' || c == '`' || c == '@' || c == '<' || c == '/':
		if !l.text(c) {
			l.punct()
		}
	default:
		l.punct()
	}
	l.fresh = false
}

func (l *lexer) emit(kind byte, start int, line uint32) {
	l.tokens = append(l.tokens, token{kind: kind, start: uint32(start), end: uint32(l.pos), line: line})
}

func (l *lexer) punct() {
	l.pos++
	l.emit(l.src[l.pos-1], l.pos-1, l.line)
}

func (l *lexer) newline() {
	if l.syntax.newlines && len(l.tokens) > 0 && l.tokens[len(l.tokens)-1].kind != tokNewline {
		l.pos++
		l.emit(tokNewline, l.pos-1, l.line)
	} else {
		l.pos++
	}
	l.line++
	l.fresh = true
	if len(l.pending) > 0 {
		l.heredocs()
	}
}

func (l *lexer) ident() {
	start, src := l.pos, l.src
	if l.syntax.hashRaw && l.rawText(start) || l.syntax.parenRaw && l.parenText(start) {
		return
	}
	kind := tokIdent
	if src[start] == '$' && l.syntax.variables {
		kind = tokVariable
	}
	pos := start + 1
	for pos < len(src) && (identPart[src[pos]] || src[pos] == '$' && l.syntax.dollar || src[pos] == '-' && l.syntax.dash) {
		pos++
	}
	if l.syntax.marks && pos < len(src) && (src[pos] == '?' || src[pos] == '!') && (pos+1 == len(src) || src[pos+1] != '=') {
		pos++
	}
	l.pos = pos
	l.emit(kind, start, l.line)
}

func (l *lexer) number() {
	start, src := l.pos, l.src
	pos := start + 1
	for pos < len(src) && (identPart[src[pos]] || src[pos] == '.' && pos+1 < len(src) && src[pos+1] >= '0' && src[pos+1] <= '9') {
		pos++
	}
	l.pos = pos
	l.emit(tokNumber, start, l.line)
}

// lineEnd returns the position of the next line break, or the end of the file.
func (l *lexer) lineEnd() int {
	if i := bytes.IndexByte(l.src[l.pos:], '\n'); i >= 0 {
		return l.pos + i
	}
	return len(l.src)
}

func (l *lexer) at(text string) bool {
	return text != "" && len(l.src)-l.pos >= len(text) && string(l.src[l.pos:l.pos+len(text)]) == text
}

// comment records the bytes up to end as prose and moves behind them.
func (l *lexer) comment(start, end int) {
	l.line += uint32(bytes.Count(l.src[l.pos:end], []byte{'\n'}))
	l.prose = append(l.prose, Span{start, end})
	l.pos = end
}

func (l *lexer) skipComment(c byte) bool {
	s := l.syntax
	for _, mark := range s.lineComments {
		if mark != "" && mark[0] == c && l.at(mark) {
			if s.hashAttr && l.at("#[") {
				return false
			}
			if c == '#' && s.dash && l.pos > 0 && !spaces[l.src[l.pos-1]] && l.src[l.pos-1] != '\n' && l.src[l.pos-1] != ';' {
				return false // $# and ${x#y} in shells
			}
			l.comment(l.pos, l.lineEnd())
			return true
		}
	}
	if s.blockOpen == "" || s.blockOpen[0] != c || !l.at(s.blockOpen) || s.blockOpen[0] == '=' && !l.fresh {
		return false
	}
	l.comment(l.pos, l.blockEnd())
	return true
}

// blockEnd returns the end of the block comment that starts here.
func (l *lexer) blockEnd() int {
	s := l.syntax
	pos := l.pos + len(s.blockOpen)
	if !s.nested {
		if end := bytes.Index(l.src[pos:], []byte(s.blockClose)); end >= 0 {
			return pos + end + len(s.blockClose)
		}
		return len(l.src)
	}
	for depth := 1; pos+1 < len(l.src); pos++ {
		switch two := l.src[pos : pos+2]; {
		case string(two) == s.blockOpen:
			depth++
			pos++
		case string(two) == s.blockClose:
			pos++
			if depth--; depth == 0 {
				return pos + 1
			}
		}
	}
	return len(l.src)
}

// directive reads a line of the preprocessor with its continuations.
func (l *lexer) directive() {
	start, line := l.pos, l.line
	for {
		l.pos = l.lineEnd()
		if l.pos == len(l.src) || l.pos == 0 || !continued(l.src[start:l.pos]) {
			break
		}
		l.pos++
		l.line++
	}
	text := l.src[start:l.pos]
	if i := bytes.Index(text, []byte("/*")); i >= 0 && !bytes.Contains(text[i:], []byte("*/")) {
		l.pos = start + i // the comment goes on in the next line
	}
	l.emit(tokDirective, start, line)
}

func continued(line []byte) bool {
	return bytes.HasSuffix(bytes.TrimSuffix(line, []byte{'\r'}), []byte{'\\'})
}
