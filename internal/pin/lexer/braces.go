package lexer

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// Dialect describes the differences between languages with braces.
type Dialect struct {
	Templates      bool // `…${…}…`
	Regexes        bool // /…/
	SingleQuotes   bool // 'text'; otherwise 'c' is a character and 'a a lifetime
	RawTexts       bool // r#"…"#
	NestedComments bool // /* /* */ */
	TripleQuotes   bool // """…"""
	QuotedNames    bool // `a name with spaces`
	Verbatim       bool // @"…""…" and lines for the preprocessor
}

// scanner tokenizes a language with braces.
type scanner struct {
	Dialect
	*Source
	data []byte
	at   int
	line int
	last int    // line of the previous token
	lone [2]int // line on which a quote of this kind closes nothing: ' and "
}

// ScanBraces reads a language with braces.
func ScanBraces(data []byte, d Dialect) *Source {
	b := &scanner{Dialect: d, Source: &Source{}, data: data, line: 1}
	for b.at < len(b.data) {
		b.next()
	}
	return b.Index()
}

func (b *scanner) has(s string) bool {
	return len(b.data)-b.at >= len(s) && string(b.data[b.at:b.at+len(s)]) == s
}

// emit adds the token from the current position to end.
func (b *scanner) emit(kind TokenKind, end int, value string) {
	b.Tokens = append(b.Tokens, Token{Kind: kind, Text: value, Line: b.line, StartsLine: b.line != b.last})
	b.last = b.line
	b.advance(end)
}

func (b *scanner) advance(end int) {
	end = min(end, len(b.data))
	b.line += bytes.Count(b.data[b.at:end], []byte("\n"))
	b.at = end
}

func (b *scanner) next() {
	c := b.data[b.at]
	switch {
	case c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v':
		b.advance(b.at + 1)
	case b.has("//"), b.Verbatim && c == '#' && b.line != b.last:
		b.advance(b.until("\n", b.at))
	case b.has("/*"):
		b.comment()
	case b.TripleQuotes && b.has(`"""`):
		b.emit(Text, b.until(`"""`, b.at+3), string(b.data[b.at:b.until(`"""`, b.at+3)]))
	case b.Verbatim && (c == '@' || c == '$') && b.verbatim():
	case c == '"' || c == '\'' && b.SingleQuotes:
		b.quoted(c)
	case c == '\'':
		b.character()
	case c == '`' && b.Templates:
		b.template()
	case c == '`' && b.QuotedNames && b.quotedName():
	case b.RawTexts && c == 'r' && b.rawText():
	case IsWord(c):
		b.word()
	case c == '/' && b.Regexes && b.regex():
	default:
		b.punct()
	}
}

// verbatim reads @"…", $@"…" and @$"…", in which a doubled quote is one.
func (b *scanner) verbatim() bool {
	i := b.at
	for i < len(b.data) && i < b.at+2 && (b.data[i] == '@' || b.data[i] == '$') {
		i++
	}
	if i >= len(b.data) || b.data[i] != '"' || !bytes.ContainsRune(b.data[b.at:i], '@') {
		return false
	}
	for from := i + 1; i+1 < len(b.data); i++ {
		if b.data[i+1] != '"' {
			continue
		}
		if i+2 < len(b.data) && b.data[i+2] == '"' {
			i++
			continue
		}
		b.emit(Text, i+2, string(b.data[from:max(from, i+1)]))
		return true
	}
	b.Fail("a string is not closed")
	b.emit(Text, len(b.data), "")
	return true
}

// until returns the position after the next occurrence of a text, or the end.
func (b *scanner) until(s string, from int) int {
	from = min(from, len(b.data))
	if i := bytes.Index(b.data[from:], []byte(s)); i >= 0 {
		return from + i + len(s)
	}
	return len(b.data)
}

func (b *scanner) comment() {
	if !b.NestedComments {
		b.advance(b.until("*/", b.at+2))
		return
	}
	depth, i := 1, b.at+2
	for i < len(b.data) && depth > 0 {
		switch {
		case bytes.HasPrefix(b.data[i:], []byte("/*")):
			depth++
			i += 2
		case bytes.HasPrefix(b.data[i:], []byte("*/")):
			depth--
			i += 2
		default:
			i++
		}
	}
	b.advance(i)
}

// quoted reads a quoted text. A quote that is not closed on its line is treated as an apostrophe in
// markup.
func (b *scanner) quoted(quote byte) {
	kind := 0
	if quote == '"' {
		kind = 1
	}
	if b.lone[kind] == b.line {
		b.emit(Punct, b.at+1, string(quote))
		return
	}
	for i := b.at + 1; i < len(b.data); i++ {
		switch b.data[i] {
		case '\\':
			i++
		case quote:
			b.emit(Text, i+1, string(b.data[b.at+1:i]))
			return
		case '\n':
			if b.SingleQuotes {
				b.lone[kind] = b.line
				b.emit(Punct, b.at+1, string(quote))
				return
			}
		}
	}
	b.Fail("a string is not closed")
	b.emit(Text, len(b.data), "")
}

// quotedName reads a name in backticks as a word, and reports whether it ends on its line.
func (b *scanner) quotedName() bool {
	name, _, closed := bytes.Cut(b.data[b.at+1:], []byte("`"))
	if !closed || len(name) == 0 || bytes.ContainsRune(name, '\n') {
		return false
	}
	b.emit(Word, b.at+len(name)+2, string(name))
	return true
}

func (b *scanner) character() {
	rest := b.data[b.at+1:]
	if len(rest) > 1 && rest[0] == '\\' {
		for i := 2; i < min(len(rest), 12); i++ {
			if rest[i] == '\'' {
				b.emit(Text, b.at+i+2, string(rest[:i]))
				return
			}
		}
	}
	_, n := utf8.DecodeRune(rest)
	if n > 0 && len(rest) > n && rest[n] == '\'' {
		b.emit(Text, b.at+n+2, string(rest[:n]))
		return
	}
	b.emit(Punct, b.at+1, "'")
}

// template reads `…${…}…` as one text. It counts brackets inside with a stack, because
// templates nest.
func (b *scanner) template() {
	var open []byte // '`' within text, '{' within an expression
	open = append(open, '`')
	i := b.at + 1
	for i < len(b.data) && len(open) > 0 {
		c, inText := b.data[i], open[len(open)-1] == '`'
		switch {
		case c == '\\':
			i++
		case inText && c == '`' || !inText && c == '}':
			open = open[:len(open)-1]
		case inText && c == '$' && i+1 < len(b.data) && b.data[i+1] == '{':
			open = append(open, '{')
			i++
		case !inText && (c == '`' || c == '{'):
			open = append(open, c)
		}
		i++
	}
	if len(open) > 0 {
		b.Fail("a template string is not closed")
	}
	end := min(i, len(b.data))
	b.emit(Text, end, string(b.data[min(b.at+1, end):max(b.at+1, end-1)]))
}

// rawText reads r"…" and r#"…"#.
func (b *scanner) rawText() bool {
	i := b.at + 1
	for i < len(b.data) && b.data[i] == '#' {
		i++
	}
	if i >= len(b.data) || b.data[i] != '"' {
		return false
	}
	end := b.until(`"`+strings.Repeat("#", i-b.at-1), i+1)
	b.emit(Text, end, string(b.data[i:end]))
	return true
}

func (b *scanner) word() {
	kind := Word
	if IsDigit(b.data[b.at]) {
		kind = Number
	}
	i := b.at
	for i < len(b.data) && (IsWord(b.data[i]) || kind == Number && b.data[i] == '.' && i+1 < len(b.data) && IsDigit(b.data[i+1])) {
		i++
	}
	b.emit(kind, i, string(b.data[b.at:i]))
}

// beforeRegex are words after which a slash begins a regular expression.
var beforeRegex = Set("return typeof case in of delete void throw new else do instanceof await yield")

// maxRegex is the longest regular expression, in bytes.
const maxRegex = 2048

// regex reads /…/ where a division is impossible. If it is not closed on its line, it is not a
// regular expression.
func (b *scanner) regex() bool {
	if n := len(b.Tokens); n > 0 {
		t := b.Tokens[n-1]
		switch {
		case t.Kind == Text || t.Kind == Number || t.Kind == Word && !beforeRegex[t.Text],
			t.Is(")"), t.Is("]"), t.Is("}"), t.Is("<"):
			return false
		}
	}
	class := false
	for i := b.at + 1; i < min(len(b.data), b.at+maxRegex) && b.data[i] != '\n'; i++ {
		switch c := b.data[i]; {
		case c == '\\':
			i++
		case c == '[':
			class = true
		case c == ']':
			class = false
		case c == '/' && !class:
			for i++; i < len(b.data) && IsWord(b.data[i]); i++ {
			}
			b.emit(Text, i, string(b.data[b.at:min(i, len(b.data))]))
			return true
		}
	}
	return false
}

// operators are multi-character operators that must not be split.
var operators = []string{"===", "!==", "...", "=>", "==", "!=", "&&", "||", "??", "?.", "->", "::", "<=", ">="}

func (b *scanner) punct() {
	for _, o := range operators {
		if b.has(o) {
			b.emit(Punct, b.at+len(o), o)
			return
		}
	}
	// Tokens that formatters add or remove are omitted.
	switch c := b.data[b.at]; c {
	case ')', ']', '}':
		if n := len(b.Tokens); n > 0 && b.Tokens[n-1].Is(",") && b.Tokens[n-1].Kind == Punct {
			b.Tokens = b.Tokens[:n-1]
		}
		fallthrough
	default:
		b.emit(Punct, b.at+1, string(rune(c)))
	}
}
