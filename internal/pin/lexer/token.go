package lexer

import (
	"strings"
	"unicode/utf8"
)

// Token is a piece of source text.
type Token struct {
	Kind       TokenKind
	Text       string
	Line       int
	StartsLine bool // it is the first on its line
}

// Is reports whether the token is this word or sign rather than a string.
func (t Token) Is(s string) bool { return t.Kind != Text && t.Text == s }

// Literal reports whether the token is a constant.
func (t Token) Literal() bool {
	if t.Kind == Text || t.Kind == Number {
		return true
	}
	switch t.Text {
	case "true", "false", "null", "nil", "undefined", "None", "True", "False":
		return t.Kind == Word
	}
	return false
}

// TokenKind is the kind of a token.
type TokenKind uint8

// The kinds of tokens.
const (
	Punct TokenKind = iota
	Word
	Number
	Text // a string, a character or a regular expression
)

// Span is the tokens from one index up to, but not including, another.
type Span struct{ From, To int }

// Digest identifies a text without comments and formatting, within one process.
type Digest uint64

// Set returns the words of a text.
func Set(words string) map[string]bool {
	out := map[string]bool{}
	for _, w := range strings.Fields(words) {
		out[w] = true
	}
	return out
}

// IsWord reports whether a word or number may contain a byte.
func IsWord(c byte) bool {
	return c == '_' || c == '$' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= utf8.RuneSelf
}

// IsDigit reports whether a byte is a digit.
func IsDigit(c byte) bool { return c >= '0' && c <= '9' }
