package pin

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// dialect says how a language with braces differs from the others.
type dialect struct {
	templates bool // `…${…}…`
	regexes   bool // /…/
	single    bool // 'text'; else 'c' is a character and 'a a lifetime
	raw       bool // r#"…"#
	nested    bool // /* /* */ */
	triple    bool // """…"""
}

// braces tokenises a language with braces.
type braces struct {
	dialect
	*source
	data []byte
	at   int
	line int
	last int    // line of the token before
	lone [2]int // line on which a quote of this kind closes nothing: ' and "
}

func scanBraces(data []byte, d dialect) *source {
	b := &braces{dialect: d, source: &source{}, data: data, line: 1}
	for b.at < len(b.data) {
		b.next()
	}
	return b.index()
}

func (b *braces) has(s string) bool {
	return len(b.data)-b.at >= len(s) && string(b.data[b.at:b.at+len(s)]) == s
}

// emit adds the token between here and an end.
func (b *braces) emit(kind tokenKind, end int, value string) {
	b.tokens = append(b.tokens, token{kind: kind, text: value, line: b.line, fresh: b.line != b.last})
	b.last = b.line
	b.advance(end)
}

func (b *braces) advance(end int) {
	end = min(end, len(b.data))
	b.line += bytes.Count(b.data[b.at:end], []byte("\n"))
	b.at = end
}

func (b *braces) next() {
	c := b.data[b.at]
	switch {
	case c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v':
		b.advance(b.at + 1)
	case b.has("//"):
		b.advance(b.until("\n", b.at))
	case b.has("/*"):
		b.comment()
	case b.triple && b.has(`"""`):
		b.emit(text, b.until(`"""`, b.at+3), string(b.data[b.at:b.until(`"""`, b.at+3)]))
	case c == '"' || c == '\'' && b.single:
		b.quoted(c)
	case c == '\'':
		b.character()
	case c == '`' && b.templates:
		b.template()
	case b.raw && c == 'r' && b.rawText():
	case isWord(c):
		b.word()
	case c == '/' && b.regexes && b.regex():
	default:
		b.punct()
	}
}

// until is the place after the next occurrence of a text, or the end.
func (b *braces) until(s string, from int) int {
	from = min(from, len(b.data))
	if i := bytes.Index(b.data[from:], []byte(s)); i >= 0 {
		return from + i + len(s)
	}
	return len(b.data)
}

func (b *braces) comment() {
	if !b.nested {
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

// quoted takes a text in quotes. One that its line does not end is an
// apostrophe in markup, and taken as such.
func (b *braces) quoted(quote byte) {
	kind := 0
	if quote == '"' {
		kind = 1
	}
	if b.lone[kind] == b.line {
		b.emit(punct, b.at+1, string(quote))
		return
	}
	for i := b.at + 1; i < len(b.data); i++ {
		switch b.data[i] {
		case '\\':
			i++
		case quote:
			b.emit(text, i+1, string(b.data[b.at+1:i]))
			return
		case '\n':
			if b.single {
				b.lone[kind] = b.line
				b.emit(punct, b.at+1, string(quote))
				return
			}
		}
	}
	b.fail("a text is not closed")
	b.emit(text, len(b.data), "")
}

func (b *braces) character() {
	rest := b.data[b.at+1:]
	if len(rest) > 1 && rest[0] == '\\' {
		for i := 2; i < min(len(rest), 12); i++ {
			if rest[i] == '\'' {
				b.emit(text, b.at+i+2, string(rest[:i]))
				return
			}
		}
	}
	_, n := utf8.DecodeRune(rest)
	if n > 0 && len(rest) > n && rest[n] == '\'' {
		b.emit(text, b.at+n+2, string(rest[:n]))
		return
	}
	b.emit(punct, b.at+1, "'")
}

// template takes `…${…}…` as one text. Brackets within are counted with a
// stack, for templates nest.
func (b *braces) template() {
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
		b.fail("a template text is not closed")
	}
	end := min(i, len(b.data))
	b.emit(text, end, string(b.data[min(b.at+1, end):max(b.at+1, end-1)]))
}

// rawText takes r"…" and r#"…"#.
func (b *braces) rawText() bool {
	i := b.at + 1
	for i < len(b.data) && b.data[i] == '#' {
		i++
	}
	if i >= len(b.data) || b.data[i] != '"' {
		return false
	}
	end := b.until(`"`+strings.Repeat("#", i-b.at-1), i+1)
	b.emit(text, end, string(b.data[i:end]))
	return true
}

func isWord(c byte) bool {
	return c == '_' || c == '$' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= utf8.RuneSelf
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func (b *braces) word() {
	kind := word
	if isDigit(b.data[b.at]) {
		kind = number
	}
	i := b.at
	for i < len(b.data) && (isWord(b.data[i]) || kind == number && b.data[i] == '.' && i+1 < len(b.data) && isDigit(b.data[i+1])) {
		i++
	}
	b.emit(kind, i, string(b.data[b.at:i]))
}

// beforeRegex are words after which a slash begins a regular expression.
var beforeRegex = set("return typeof case in of delete void throw new else do instanceof await yield")

// maxRegex is the longest regular expression, in bytes.
const maxRegex = 2048

// regex takes /…/ where no division can stand. What its line does not end is
// no regular expression.
func (b *braces) regex() bool {
	if n := len(b.tokens); n > 0 {
		t := b.tokens[n-1]
		switch {
		case t.kind == text || t.kind == number || t.kind == word && !beforeRegex[t.text],
			t.is(")"), t.is("]"), t.is("}"), t.is("<"):
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
			for i++; i < len(b.data) && isWord(b.data[i]); i++ {
			}
			b.emit(text, i, string(b.data[b.at:min(i, len(b.data))]))
			return true
		}
	}
	return false
}

// operators of more than one character that must not be taken apart.
var operators = []string{"===", "!==", "...", "=>", "==", "!=", "&&", "||", "??", "?.", "->", "::", "<=", ">="}

func (b *braces) punct() {
	for _, o := range operators {
		if b.has(o) {
			b.emit(punct, b.at+len(o), o)
			return
		}
	}
	// What a formatter adds and takes away is left out.
	switch c := b.data[b.at]; c {
	case ')', ']', '}':
		if n := len(b.tokens); n > 0 && b.tokens[n-1].is(",") && b.tokens[n-1].kind == punct {
			b.tokens = b.tokens[:n-1]
		}
		fallthrough
	default:
		b.emit(punct, b.at+1, string(rune(c)))
	}
}
